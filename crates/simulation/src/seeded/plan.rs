//! The draws before a scenario begins: messages, workers, and the faults of the whole world. Weights differ from
//! scenario to scenario, so that some are all about one kind of fault.

use std::time::Duration;

use crate::seeded::dice::{Dice, Site};
use crate::seeded::kind::{Kind, LEASE};
use crate::seeded::scenario::{Clocks, Scenario};

/// A scenario before it is played.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) messages: Vec<Planned>,
    pub(crate) operations: usize,
    /// Operations that their provider refuses for good, by bit.
    pub(crate) poison: u64,
    pub(crate) workers: Vec<WorkerPlan>,
    /// One call in this many has a fault.
    pub(crate) one_call_in: u64,
    pub(crate) weights: Weights,
    pub(crate) outages: Vec<Outage>,
    pub(crate) amnesia_at: Option<Duration>,
    /// The faults of the store's clock, in the order of their times.
    pub(crate) turns: Vec<(Duration, Turn)>,
    /// The time at which the scenario begins, in milliseconds since 1970.
    pub(crate) start_millis: u64,
    pub(crate) sweep_every: Duration,
    pub(crate) safety: Duration,
    pub(crate) window: Duration,
    pub(crate) visibility: Duration,
    /// Deliveries of a message after which the broker gives it up.
    pub(crate) most_deliveries: Option<u32>,
    /// True if the broker delivers to others as soon as a worker is gone.
    pub(crate) sees_crashes: bool,
    pub(crate) has_probe: bool,
    pub(crate) failed: u32,
    pub(crate) vanished: u32,
}

/// A message to be published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) operation: usize,
    pub(crate) at: Duration,
    /// The message whose coordinates and birth it has: the broker delivers the same one again.
    pub(crate) copy_of: Option<usize>,
    /// The same key with another content.
    pub(crate) is_other: bool,
}

/// The timed faults of one worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerPlan {
    /// The strikes, in the order of their times.
    pub(crate) strikes: Vec<Strike>,
    pub(crate) skew_millis: i64,
    pub(crate) batch: usize,
    pub(crate) concurrency: usize,
    /// True if it gives up waiting for the store's answers.
    pub(crate) is_impatient: bool,
    pub(crate) patience: Duration,
}

/// An event that hits a worker at a time, whatever it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strike {
    pub(crate) at: Duration,
    pub(crate) what: Struck,
    pub(crate) site: Site,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Struck {
    Crash,
    Pause(Duration),
    Stop,
}

/// A fault of the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is ahead of the world's by this many milliseconds from now on.
    Ahead(i64),
    /// It stands still for this long, and is right again afterwards.
    Stand(Duration),
}

/// A time in which the store does not answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// True if callers know that nothing was carried out.
    pub(crate) is_sure: bool,
    pub(crate) site: Site,
}

/// The relative frequencies of the kinds of faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) lost_request: u64,
    pub(crate) lost_answer: u64,
    pub(crate) slow: u64,
    pub(crate) refused: u64,
    pub(crate) items: u64,
    pub(crate) crash: u64,
    pub(crate) pause: u64,
    pub(crate) silent: u64,
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

impl Plan {
    pub(crate) fn draw(scenario: Scenario) -> Self {
        let mut plan = Self::usual(scenario.kind, scenario.seed);
        match scenario.clocks {
            Clocks::Usual => {}
            Clocks::Wild => plan.go_wild(scenario),
        }
        plan
    }

    /// Returns whether the store's clock may jump: it decides when a window ends, and when a doubt is quiet.
    fn may_jump(&self, kind: Kind) -> bool {
        kind.trusts_no_store_clock() && !self.has_probe && self.window > LATE_WINDOW
    }

    /// Draws clocks that are off by hours, again and again.
    fn go_wild(&mut self, scenario: Scenario) {
        let mut dice = Dice::new(scenario.seed, Site::at(&[6]));
        let dice = &mut dice;
        if dice.one_in(2) {
            self.start_millis = YEAR_2038_MILLIS - 1_000 * dice.roll(60);
        }
        for worker in &mut self.workers {
            worker.skew_millis = up_to(dice, DAY_MILLIS);
        }
        if !self.may_jump(scenario.kind) {
            return;
        }
        // A clock that jumps by a day must not jump out of the window: records would be forgotten, and then known to
        // be young.
        self.window = LONG_WINDOW;
        self.turns = (0..=dice.roll(4))
            .map(|_| {
                let at = dice.between(secs(1), self.safety);
                let turn = match dice.roll(16) {
                    0..=3 => Turn::Stand(dice.between(secs(1), secs(30))),
                    4 => Turn::Ahead(up_to(dice, DAY_MILLIS)),
                    _ => Turn::Ahead(up_to(dice, DAY_MILLIS / 24)),
                };
                (at, turn)
            })
            .collect();
        self.turns.sort_by_key(|(at, _)| *at);
    }

    fn usual(kind: Kind, seed: u64) -> Self {
        let mut dice = Dice::new(seed, Site::at(&[1]));
        let dice = &mut dice;
        let safety = dice.between(secs(40), secs(120));
        // Where repeats are listed, the list is lost with its record.
        let is_late = kind.is_at_most_once() && dice.one_in(5);
        let has_probe = kind == Kind::Park && dice.one_in(2);
        let may_jump = !(is_late || has_probe || !kind.trusts_no_store_clock());
        let operations = 2 + dice.place(4);
        let weights = Weights::draw(dice);
        Self {
            messages: messages(kind, dice, operations, safety, is_late),
            operations,
            poison: if dice.one_in(4) { 1 << dice.roll(6) } else { 0 },
            workers: (0..2 + dice.roll(2))
                .map(|worker| WorkerPlan::draw(dice, worker, safety))
                .collect(),
            one_call_in: [3, 5, 8, 16][dice.place(4)],
            weights,
            outages: (0..dice.roll(3))
                .map(|nth| Outage::draw(dice, nth, safety))
                .collect(),
            amnesia_at: (kind.survives_amnesia() && dice.one_in(4))
                .then(|| dice.between(secs(1), safety)),
            turns: (may_jump && dice.one_in(6))
                .then(|| {
                    let ahead = up_to(dice, 300_000);
                    (dice.between(secs(1), safety), Turn::Ahead(ahead))
                })
                .into_iter()
                .collect(),
            start_millis: START_MILLIS,
            sweep_every: dice.between(secs(2), secs(30)),
            safety,
            window: if is_late {
                LATE_WINDOW
            } else {
                secs(4 * 3_600)
            },
            visibility: dice.between(LEASE, LEASE * 4),
            most_deliveries: dice
                .one_in(6)
                .then(|| 3 + u32::try_from(dice.roll(6)).unwrap_or_default()),
            sees_crashes: dice.one_in(2),
            has_probe,
            failed: 2 + u32::try_from(dice.roll(4)).unwrap_or_default(),
            vanished: 3 + u32::try_from(dice.roll(18)).unwrap_or_default(),
        }
    }
}

fn messages(
    kind: Kind,
    dice: &mut Dice,
    operations: usize,
    safety: Duration,
    is_late: bool,
) -> Vec<Planned> {
    let mut messages = Vec::new();
    for operation in 0..operations {
        let at = if dice.one_in(3) {
            Duration::ZERO
        } else {
            dice.between(Duration::ZERO, safety / 2)
        };
        messages.push(Planned {
            operation,
            at,
            copy_of: None,
            is_other: false,
        });
    }
    for operation in 0..operations {
        for _ in 0..dice.roll(3) {
            let at = dice.between(messages[operation].at, safety + LEASE);
            let is_copy = dice.one_in(2);
            messages.push(Planned {
                operation,
                at,
                copy_of: is_copy.then_some(operation),
                is_other: !is_copy && kind != Kind::Gated && dice.one_in(8),
            });
        }
        if is_late && dice.one_in(3) {
            // About the time at which its record is forgotten, and after it.
            let at = messages[operation].at + dice.between(secs(500), secs(900));
            messages.push(Planned {
                operation,
                at,
                copy_of: Some(operation),
                is_other: false,
            });
        }
    }
    messages
}

impl WorkerPlan {
    fn draw(dice: &mut Dice, worker: u64, safety: Duration) -> Self {
        let mut strikes: Vec<_> = (0..dice.roll(4))
            .map(|nth| {
                let at = dice.between(Duration::ZERO, safety);
                let what = match dice.roll(6) {
                    0..=2 => Struck::Crash,
                    3..=4 => Struck::Pause(dice.between(secs(1), secs(25))),
                    _ => Struck::Stop,
                };
                Strike {
                    at,
                    what,
                    site: Site::at(&[2, worker, nth]),
                }
            })
            .collect();
        strikes.sort_by_key(|strike| strike.at);
        Self {
            strikes,
            skew_millis: up_to(dice, 600_000),
            batch: 1 + dice.place(4),
            concurrency: 1 + dice.place(4),
            is_impatient: dice.one_in(2),
            patience: dice.between(Duration::ZERO, secs(30)),
        }
    }
}

impl Outage {
    fn draw(dice: &mut Dice, nth: u64, safety: Duration) -> Self {
        let from = dice.between(Duration::ZERO, safety);
        Self {
            from,
            to: (from + dice.between(secs(1), secs(30))).min(safety),
            is_sure: dice.one_in(2),
            site: Site::at(&[3, nth]),
        }
    }
}

impl Weights {
    fn draw(dice: &mut Dice) -> Self {
        let mut weight = || if dice.one_in(3) { 0 } else { 1 + dice.roll(4) };
        Self {
            lost_request: weight(),
            lost_answer: weight(),
            slow: weight(),
            refused: weight(),
            items: weight(),
            crash: weight(),
            pause: weight(),
            silent: weight(),
        }
    }
}

/// A number from `most` before to `most` after.
fn up_to(dice: &mut Dice, most: u64) -> i64 {
    let from_least = i64::try_from(dice.roll(2 * most)).unwrap_or_default();
    from_least.saturating_sub_unsigned(most)
}

/// 2026-11-21T10:00:00Z.
const START_MILLIS: u64 = 1_795_255_200_000;
/// 2038-01-19T03:14:08Z, when seconds since 1970 need more than 31 bits.
pub(crate) const YEAR_2038_MILLIS: u64 = 2_147_483_648_000;
const DAY_MILLIS: u64 = 86_400_000;
/// The window of scenarios about the end of a window.
const LATE_WINDOW: Duration = secs(600);
/// A window longer than the error of any clock of a scenario.
const LONG_WINDOW: Duration = secs(30 * 86_400);
