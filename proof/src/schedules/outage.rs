//! The breaker: one probe at a time, and none that keeps the store shut (`layer::outage`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::{Error, ErrorKind, Result};
use semel_scheduled_engine::layer::outage::{Breaker, Entry, Settings, Turn};

use super::Scenario;
use super::cast::{NoChance, Place, TestClock, joined, spawn};
use super::coverage::Coverage;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        law: "breaker: while it is open, one probe at a time",
        seen: &["two probes, one after the other", "somebody waited"],
        play: one_probe,
    },
    Scenario {
        law: "breaker: a probe that is given up on lets the next one begin",
        seen: &["the next came at once", "the next had to wait"],
        play: probe_given_up,
    },
    Scenario {
        law: "breaker: it opens once and closes once, and all are let in",
        seen: &["an answer came late", "a failure came late"],
        play: one_turn,
    },
];

const SETTINGS: Settings = Settings {
    failures: 2,
    failing_for: Duration::ZERO,
    first: Duration::from_millis(100),
    most: Duration::from_millis(100),
};

fn breaker(clock: &TestClock) -> Arc<Breaker> {
    let breaker = Breaker::new(SETTINGS, Arc::new(clock.clone()), Arc::new(NoChance));
    Arc::new(breaker)
}

fn away() -> Result<()> {
    Err(Error::new(ErrorKind::Unavailable, "nobody answers"))
}

/// A breaker that has just opened, and whose store may be tried.
fn opened(clock: &TestClock) -> Arc<Breaker> {
    let breaker = breaker(clock);
    while let Entry::Call(permit) = breaker.enter() {
        permit.tell(&away());
    }
    clock.advance(SETTINGS.first);
    breaker
}

fn one_probe(coverage: &Coverage, broken: bool) {
    let clock = TestClock::default();
    let shared = opened(&clock);
    let (inside, probes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let most = Arc::new(AtomicU64::new(0));
    let callers = (0..3).map(|_| {
        // The break: a breaker for each.
        let breaker = if broken {
            opened(&clock)
        } else {
            Arc::clone(&shared)
        };
        let (inside, probes, most) = (Arc::clone(&inside), Arc::clone(&probes), Arc::clone(&most));
        let clock = clock.clone();
        spawn(move || {
            let place = Place::default();
            let Entry::Call(permit) = breaker.enter() else {
                return true;
            };
            probes.fetch_add(1, Ordering::SeqCst);
            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            place.stop();
            inside.fetch_sub(1, Ordering::SeqCst);
            permit.tell(&away());
            clock.advance(SETTINGS.most);
            false
        })
    });
    let waited = joined(callers.collect()).contains(&true);
    let most = most.load(Ordering::SeqCst);
    coverage.law(most == 1, || format!("{most} probes at the same time"));
    let probes = probes.load(Ordering::SeqCst);
    coverage.saw("two probes, one after the other", probes > 1);
    coverage.saw("somebody waited", waited);
}

fn probe_given_up(coverage: &Coverage, broken: bool) {
    let clock = TestClock::default();
    let breaker = opened(&clock);
    let callers = (0..2).map(|_| {
        let breaker = Arc::clone(&breaker);
        spawn(move || match breaker.enter() {
            Entry::Call(permit) => {
                Place::default().stop();
                if broken {
                    std::mem::forget(permit);
                } else {
                    drop(permit);
                }
                true
            }
            Entry::Wait { .. } => false,
        })
    });
    let began = joined(callers.collect());
    coverage.saw("the next came at once", began == [true, true]);
    coverage.saw("the next had to wait", began != [true, true]);
    let next = matches!(breaker.enter(), Entry::Call(_));
    coverage.law(next, || {
        "no probe is under way, and none may begin".to_owned()
    });
}

fn one_turn(coverage: &Coverage, broken: bool) {
    let clock = TestClock::default();
    let breaker = breaker(&clock);
    let callers = (0..4).map(|number| {
        let breaker = Arc::clone(&breaker);
        let clock = clock.clone();
        spawn(move || {
            let Entry::Call(permit) = breaker.enter() else {
                return (0, 0, false);
            };
            Place::default().stop();
            let late = breaker.is_open();
            let result = if number < 3 { away() } else { Ok(()) };
            let turn = permit.tell(&result);
            clock.advance(SETTINGS.first);
            // The break: any failure counts as a turn.
            let opened = matches!(turn, Some(Turn::Opened { .. })) || (broken && result.is_err());
            let closed = matches!(turn, Some(Turn::Closed { .. }));
            (u64::from(opened), u64::from(closed), late && result.is_ok())
        })
    });
    let told = joined(callers.collect());
    let opened: u64 = told.iter().map(|it| it.0).sum();
    let closed: u64 = told.iter().map(|it| it.1).sum();
    let is_open = breaker.is_open();
    coverage.law(opened == closed + u64::from(is_open), || {
        format!("opened {opened} times, closed {closed} times, and is open: {is_open}")
    });
    coverage.saw("an answer came late", told.iter().any(|it| it.2));
    coverage.saw("a failure came late", opened == 1 && is_open);
}
