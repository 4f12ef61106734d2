//! Tests of the breaker: the moment at which it opens, the callers that may try the store then, and
//! the moment at which it closes.

use semel_conformance::TestClock;

use super::*;

/// Adds nothing to any wait.
struct NoChance;

impl Entropy for NoChance {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// Adds as much as possible to any wait.
struct MostChance;

impl Entropy for MostChance {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(255);
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn breaker(clock: &TestClock) -> Breaker {
    let clock = Arc::new(clock.clone());
    Breaker::new(Settings::default(), clock, Arc::new(NoChance))
}

fn broken() -> Result<()> {
    Err(Error::new(ErrorKind::Unavailable, "the connection broke"))
}

/// Makes one call that ends with `result`.
#[track_caller]
fn call(breaker: &Breaker, result: &Result<()>) -> Option<Turn> {
    match breaker.enter() {
        Entry::Call(permit) => permit.tell(result),
        Entry::Wait { wait, .. } => panic!("not for another {wait:?}"),
    }
}

/// Returns a breaker that has just opened.
fn opened(clock: &TestClock) -> Breaker {
    let breaker = breaker(clock);
    for _ in 0..4 {
        assert!(call(&breaker, &broken()).is_none());
    }
    clock.advance(SECOND * 2);
    let turn = call(&breaker, &broken());
    assert!(matches!(turn, Some(Turn::Opened { .. })), "{turn:?}");
    breaker
}

fn wait(breaker: &Breaker) -> Option<Duration> {
    match breaker.enter() {
        Entry::Call(_) => None,
        Entry::Wait { wait, .. } => Some(wait),
    }
}

#[test]
fn it_opens_when_calls_have_failed_often_enough_and_long_enough() {
    let clock = TestClock::new();
    let breaker = breaker(&clock);
    for _ in 0..100 {
        assert!(call(&breaker, &broken()).is_none(), "a blip");
    }
    clock.advance(SECOND * 2);
    assert!(call(&breaker, &broken()).is_some());
    assert!(breaker.is_open());

    let breaker = super::tests::breaker(&clock);
    assert!(call(&breaker, &broken()).is_none());
    clock.advance(SECOND * 60);
    for _ in 0..3 {
        assert!(call(&breaker, &broken()).is_none(), "too few");
    }
    assert!(call(&breaker, &broken()).is_some());
}

#[test]
fn an_answer_in_between_begins_the_count_anew() {
    let clock = TestClock::new();
    let breaker = breaker(&clock);
    for _ in 0..10 {
        clock.advance(SECOND);
        assert!(call(&breaker, &broken()).is_none());
        assert!(call(&breaker, &broken()).is_none());
        assert!(call(&breaker, &Ok(())).is_none());
    }
    assert_eq!(breaker.status(), Status::Closed);
}

#[test]
fn what_a_store_refuses_is_no_outage_and_what_says_nothing_changes_nothing() {
    let answers = [
        ErrorKind::Throttled,
        ErrorKind::Conflict,
        ErrorKind::InvalidInput,
        ErrorKind::Corrupt,
    ];
    for kind in answers {
        let clock = TestClock::new();
        let breaker = opened(&clock);
        clock.advance(SECOND);
        let turn = call(&breaker, &Err(Error::new(kind, "refused")));
        assert!(matches!(turn, Some(Turn::Closed { .. })), "{kind:?}");
    }
    for kind in [
        ErrorKind::Poisoned,
        ErrorKind::Internal,
        ErrorKind::InvalidConfig,
    ] {
        let clock = TestClock::new();
        let breaker = opened(&clock);
        clock.advance(SECOND);
        assert!(call(&breaker, &Err(Error::new(kind, "who knows"))).is_none());
        assert!(breaker.is_open(), "{kind:?}");
        assert_eq!(wait(&breaker), None, "{kind:?}: the next one may try");
    }
}

#[test]
fn one_probe_at_a_time_tries_the_store() {
    let clock = TestClock::new();
    let breaker = opened(&clock);
    assert_eq!(wait(&breaker), Some(Duration::from_millis(500)));
    clock.advance(Duration::from_millis(499));
    assert!(wait(&breaker).is_some());
    clock.advance(Duration::from_millis(1));
    let Entry::Call(probe) = breaker.enter() else {
        panic!("it is time to try");
    };
    for _ in 0..3 {
        assert!(wait(&breaker).is_some(), "somebody tries already");
    }
    assert!(matches!(probe.tell(&Ok(())), Some(Turn::Closed { .. })));
    assert_eq!(wait(&breaker), None);
}

#[test]
fn a_probe_that_fails_doubles_the_wait_up_to_the_longest() {
    let clock = TestClock::new();
    let breaker = opened(&clock);
    let mut waits = Vec::new();
    for _ in 0..6 {
        let wait = wait(&breaker).expect("it is open");
        waits.push(wait.as_millis());
        clock.advance(wait);
        assert!(call(&breaker, &broken()).is_none(), "told once");
    }
    assert_eq!(waits, [500, 1_000, 2_000, 4_000, 5_000, 5_000]);
}

#[test]
fn chance_adds_up_to_a_quarter() {
    let clock = TestClock::new();
    let shared = Arc::new(clock.clone());
    let breaker = Breaker::new(Settings::default(), shared, Arc::new(MostChance));
    for _ in 0..5 {
        assert!(call(&breaker, &broken()).is_none());
    }
    clock.advance(SECOND * 2);
    assert!(call(&breaker, &broken()).is_some());
    let waited = wait(&breaker).expect("it is open");
    assert!((620..=625).contains(&waited.as_millis()), "{waited:?}");
}

#[test]
fn a_probe_that_nobody_waits_for_makes_room_for_the_next() {
    let clock = TestClock::new();
    let breaker = opened(&clock);
    clock.advance(SECOND);
    let Entry::Call(probe) = breaker.enter() else {
        panic!("it is time to try");
    };
    drop(probe);
    assert_eq!(wait(&breaker), None);
}

#[test]
fn a_late_answer_of_an_earlier_call_closes_it_and_a_late_failure_says_nothing_new() {
    let clock = TestClock::new();
    let breaker = breaker(&clock);
    let mut early = Vec::new();
    for _ in 0..2 {
        let Entry::Call(permit) = breaker.enter() else {
            panic!("it is closed");
        };
        early.push(permit);
    }
    for _ in 0..4 {
        assert!(call(&breaker, &broken()).is_none());
    }
    clock.advance(SECOND * 2);
    assert!(call(&breaker, &broken()).is_some());
    clock.advance(Duration::from_millis(100));
    assert!(early.remove(0).tell(&broken()).is_none());
    assert_eq!(wait(&breaker), Some(Duration::from_millis(400)));
    let turn = early.remove(0).tell(&Ok(()));
    assert!(matches!(turn, Some(Turn::Closed { lasted }) if lasted.as_millis() == 2_100));
}

#[test]
fn the_status_tells_the_code_and_the_time_since_the_first_failure() {
    let clock = TestClock::new();
    let breaker = breaker(&clock);
    let full = Error::new(ErrorKind::Unavailable, "no space is left").with_code(Code::StoreFull);
    let full: Result<()> = Err(full);
    for _ in 0..4 {
        assert!(call(&breaker, &full).is_none());
    }
    clock.advance(SECOND * 3);
    let turn = call(&breaker, &full);
    let is_full = |error: &Error| error.code() == Code::StoreFull;
    assert!(matches!(turn, Some(Turn::Opened { error, .. }) if is_full(&error)));
    let (lasted, code) = (SECOND * 3, Code::StoreFull);
    assert_eq!(breaker.status(), Status::Open { lasted, code });
}
