use semel_conformance::TestClock;
use semel_core::ErrorKind;
use semel_core::port::source::DeliveryId;

use super::*;

const AFTER: Duration = Duration::from_secs(30);

/// Makes a clock at noon and the health under test.
fn health() -> (TestClock, Health) {
    let clock = TestClock::new();
    clock.advance(Duration::from_secs(1_000));
    let health = Health::new(AFTER, Arc::new(clock.clone()));
    health.knows("p");
    health.knows("q");
    (clock, health)
}

fn error(code: Code) -> Error {
    Error::new(ErrorKind::Unavailable, "gone").with_code(code)
}

fn reasons(health: &Health, pipeline: &str) -> Vec<Reason> {
    let reasons = health.reasons(pipeline);
    reasons.into_iter().map(|because| because.reason).collect()
}

fn applied() -> Event<'static> {
    Event::Settled {
        delivery: DeliveryId(0),
        fate: Fate::Applied,
        overhead: None,
        sent_again: false,
    }
}

#[test]
fn a_store_that_is_silent_counts_from_its_last_answer() {
    let (clock, health) = health();
    clock.advance(Duration::from_secs(5));
    health.store_answers();
    clock.advance(Duration::from_secs(10));
    let gone = error(Code::StoreUnavailable);
    health.store_failed(&gone);
    clock.advance(Duration::from_secs(19));
    assert_eq!(reasons(&health, "p"), []);
    clock.advance(Duration::from_secs(1));
    assert_eq!(reasons(&health, "p"), [Reason::StoreAway]);
    assert_eq!(reasons(&health, "q"), [Reason::StoreAway]);
    health.store_answers();
    assert_eq!(reasons(&health, "p"), []);
    clock.advance(AFTER * 9);
    assert_eq!(reasons(&health, "p"), [], "silence alone is no failure");
}

#[test]
fn a_store_that_is_full_is_not_there_because_it_can_be_read() {
    let (clock, health) = health();
    let full = error(Code::StoreFull);
    let wait = Duration::from_secs(1);
    health.observe("p", &Event::BreakerOpened { error: &full, wait });
    assert!(health.is_breaker_open());
    clock.advance(AFTER);
    health.store_answers();
    assert_eq!(reasons(&health, "p"), [Reason::StoreAway]);
    health.observe("q", &Event::BreakerClosed { lasted: AFTER });
    assert_eq!(reasons(&health, "p"), []);
    assert!(!health.is_breaker_open());
    // Where the breaker did not open, a pipeline that writes would have failed again by now.
    health.store_failed(&full);
    clock.advance(Duration::from_secs(1));
    health.store_answers();
    assert!(health.store_fails());
    clock.advance(QUIET);
    health.store_answers();
    assert!(!health.store_fails());
    health.store_failed(&full);
    health.observe("p", &applied());
    assert!(!health.store_fails(), "something was written");
}

#[test]
fn a_source_counts_by_its_own_word_alone() {
    let (clock, health) = health();
    clock.advance(AFTER * 3);
    health.source_reached("q");
    let gone = error(Code::SourceUnavailable);
    health.observe("p", &Event::SourceAway { error: &gone });
    assert_eq!(reasons(&health, "p"), [], "it was there until just now");
    let connected = health.sources();
    assert_eq!(connected, [("p".into(), false), ("q".into(), true)]);
    clock.advance(AFTER.saturating_sub(SOURCE_GRACE));
    health.observe("p", &Event::SourceAway { error: &gone });
    assert_eq!(reasons(&health, "p"), [Reason::SourceAway]);
    assert_eq!(reasons(&health, "q"), []);
    health.observe("p", &Event::SourceBack { lasted: AFTER });
    assert_eq!(reasons(&health, "p"), []);
    assert_eq!(health.sources()[0], ("p".into(), true));
}

#[test]
fn a_pause_is_a_reason_until_it_is_over_whatever_its_causes() {
    let (clock, health) = health();
    let paused = |cause| Event::Paused {
        cause,
        error: "refused",
        wait: Duration::ZERO,
    };
    health.observe("p", &paused(Pause::TargetAway));
    clock.advance(AFTER / 2);
    health.observe("p", &paused(Pause::TargetFailing));
    assert_eq!(reasons(&health, "p"), []);
    clock.advance(AFTER / 2);
    assert_eq!(reasons(&health, "p"), [Reason::TargetFailing]);
    assert_eq!(health.known_of_target("p", AFTER), KnownOfTarget::Paused);
    let lasted = AFTER;
    let cause = Pause::TargetFailing;
    health.observe("p", &Event::Resumed { cause, lasted });
    assert_eq!(reasons(&health, "p"), []);
}

#[test]
fn a_target_is_away_once_whoever_finds_out() {
    let (clock, health) = health();
    health.target_answers("p");
    assert_eq!(health.known_of_target("p", AFTER), KnownOfTarget::Nothing);
    let (gone, wait) = (error(Code::TargetAway), Duration::ZERO);
    health.observe("p", &Event::TargetAway { error: &gone, wait });
    let cause = Pause::TargetAway;
    let error = "refused";
    health.observe("p", &Event::Paused { cause, error, wait });
    clock.advance(AFTER);
    assert_eq!(reasons(&health, "p"), [Reason::TargetAway]);
    let lasted = AFTER;
    health.observe("p", &Event::Resumed { cause, lasted });
    assert_eq!(reasons(&health, "p"), []);
    health.observe("p", &applied());
    assert_eq!(health.known_of_target("p", AFTER), KnownOfTarget::Works);
    clock.advance(AFTER);
    assert_eq!(health.known_of_target("p", AFTER), KnownOfTarget::Nothing);
}

#[test]
fn a_source_is_connected_once_it_was_reached_and_while_it_is_there() {
    let (_, health) = health();
    let is = |p, q| {
        let sources = health.sources();
        let found: Vec<_> = sources.iter().map(|(_, is_there)| *is_there).collect();
        assert_eq!(found, [p, q]);
    };
    is(false, false);
    health.source_reached("p");
    // A source that has nothing but duplicates is there as well.
    let replayed = Event::Settled {
        delivery: DeliveryId(0),
        fate: Fate::Replayed,
        overhead: None,
        sent_again: false,
    };
    health.observe("q", &replayed);
    is(true, true);
    let gone = error(Code::SourceUnavailable);
    health.observe("p", &Event::SourceAway { error: &gone });
    is(false, true);
    let lasted = Duration::from_secs(1);
    health.observe("p", &Event::SourceBack { lasted });
    is(true, true);
}

#[test]
fn trouble_of_a_run_that_was_recalled_is_not_that_of_the_next_one() {
    let (clock, health) = health();
    health.source_reached("p");
    let gone = error(Code::SourceUnavailable);
    health.observe("p", &Event::SourceAway { error: &gone });
    let paused = |cause| Event::Paused {
        cause,
        error: "refused",
        wait: Duration::ZERO,
    };
    health.observe("p", &paused(Pause::TargetAway));
    let (away, wait) = (error(Code::TargetAway), Duration::ZERO);
    health.observe("p", &Event::TargetAway { error: &away, wait });
    clock.advance(AFTER);
    let expected = [Reason::SourceAway, Reason::TargetAway];
    assert_eq!(reasons(&health, "p"), expected);
    health.is_between_runs("p");
    assert_eq!(reasons(&health, "p"), []);
    assert_eq!(health.sources()[0], ("p".into(), true));
    assert_eq!(health.known_of_target("p", AFTER), KnownOfTarget::Nothing);
    // The next run finds its source away: it was there until just now.
    health.observe("p", &Event::SourceAway { error: &gone });
    assert_eq!(reasons(&health, "p"), []);
    clock.advance(AFTER);
    assert_eq!(reasons(&health, "p"), [Reason::SourceAway]);
    // A target that a probe finds away is away between runs, too.
    health.observe("q", &Event::TargetAway { error: &away, wait });
    health.is_between_runs("q");
    clock.advance(AFTER);
    assert_eq!(reasons(&health, "q"), [Reason::TargetAway]);
}
