//! The events that one configuration of class E allows, and their numbers.

use crate::model::setup::Post;

/// The behaviour of a member. All but the first are wrong, to show that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// As it should.
    Right,
    /// Leaves the offsets out of the transaction. K03
    LeavesOffsetsOut,
    /// Checks first that the partition is its own, and reads the group's metadata after that.
    LooksFirst,
    /// Does not check whether it was thrown out.
    OverlooksLoss,
    /// Takes a commit without an answer for committed.
    TrustsSilence,
    /// Takes a commit without an answer for not committed, and reads nothing again.
    ForgetsSilence,
    /// Looks for a commit without an answer only among those inside its window.
    ForgetsTry,
    /// Restores from what is committed now, whatever is still open.
    ReadsAtOnce,
    /// Restores from what is not committed yet, too.
    ReadsUncommitted,
    /// Begins where the offsets are now, whatever is still open over them.
    TakesUnstable,
    /// Puts out one key twice in a batch.
    TakesTwins,
    /// Commits the offset behind the batch, even if records before it are unfinished.
    SkipsUnfinished,
    /// Remembers nothing of the request.
    ForgetsRequests,
    /// Commits a written batch without a check for records that were committed since. K08
    SkipsLastLook,
    /// Commits offsets while it is unknown whether later ones are committed.
    AcksInDoubt,
}

/// The behaviour of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what is wrong is for the tests")
)]
pub(crate) enum Fencing {
    /// Accepts offsets of the group's generation only.
    Generation,
    /// The same, but accepts anyone's if they come without a transaction.
    Transactions,
    /// Accepts anyone's.
    Nothing,
}

/// The number of times that each event may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) crashes: u8,
    /// Answers to a commit that are lost.
    pub(crate) lost: u8,
    /// Commits that arrive late or never.
    pub(crate) delayed: u8,
    /// Partitions that are given to another member.
    pub(crate) rebalances: u8,
    /// Transactions that take longer than their time.
    pub(crate) timeouts: u8,
    /// Commits that are asked for again before they are answered.
    pub(crate) again: u8,
    /// Transforms that fail, to be tried again.
    pub(crate) failures: u8,
    /// Transforms that fail for good.
    pub(crate) refusals: u8,
}

/// One configuration: a partition, and two members. Times are in ticks of eight seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    /// The records of the partition, in order.
    pub(crate) records: &'static [Post],
    /// The most of them in one transaction.
    pub(crate) batch: u8,
    /// True if the next batch is written while one is committed.
    pub(crate) is_ahead: bool,
    pub(crate) ticks: u8,
    pub(crate) window: u8,
    pub(crate) age_gate: bool,
    /// Says whether a member keeps its transactional id after a crash, and whether both have the
    /// same.
    pub(crate) names: Names,
    pub(crate) budget: Budget,
    pub(crate) conduct: Conduct,
    pub(crate) fencing: Fencing,
}

/// The owners of the transactional ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Each member its own, also after a crash.
    Kept,
    /// A new one after each crash: a transaction that is left open ends when its time is over.
    Fresh,
    /// Both the same, by mistake.
    Shared,
}

pub(crate) const MOST_TRANSACTIONS: usize = 5;

const fn record(operation: u8) -> Post {
    Post {
        operation,
        other_request: false,
    }
}

/// Two keys.
const TWO: &[Post] = &[record(0), record(1)];
/// A key that is published again behind another one.
const AGAIN: &[Post] = &[record(0), record(1), record(0)];
/// The same, with another request.
const REUSED: &[Post] = &[
    record(0),
    Post {
        operation: 0,
        other_request: true,
    },
];
const TWINS: &[Post] = &[record(0), record(0)];

impl Setup {
    pub(crate) const fn of(name: &'static str) -> Self {
        Self {
            name,
            records: TWO,
            batch: 2,
            is_ahead: false,
            ticks: 0,
            window: 20,
            age_gate: true,
            names: Names::Kept,
            budget: Budget {
                crashes: 0,
                lost: 0,
                delayed: 0,
                rebalances: 1,
                timeouts: 0,
                again: 0,
                failures: 0,
                refusals: 0,
            },
            conduct: Conduct::Right,
            fencing: Fencing::Generation,
        }
    }

    /// The same, with more of everything, turn by turn.
    pub(crate) fn deeper(mut self, by: u8) -> Self {
        let budget = &mut self.budget;
        for step in 0..by {
            match step % 4 {
                0 => budget.rebalances += 1,
                1 => budget.lost += 1,
                2 => budget.crashes += 1,
                _ => budget.timeouts += 1,
            }
        }
        self
    }
}

/// The configurations that every merge checks.
pub(crate) fn all() -> Vec<Setup> {
    vec![
        Setup {
            records: AGAIN,
            budget: Budget {
                crashes: 1,
                rebalances: 2,
                ..Budget::default()
            },
            ..Setup::of("streamed, moved")
        },
        Setup {
            budget: Budget {
                lost: 1,
                delayed: 1,
                crashes: 1,
                rebalances: 1,
                ..Budget::default()
            },
            ..Setup::of("streamed, answers lost")
        },
        Setup {
            names: Names::Fresh,
            budget: Budget {
                crashes: 1,
                rebalances: 1,
                timeouts: 1,
                ..Budget::default()
            },
            ..Setup::of("streamed, names are new")
        },
        Setup {
            names: Names::Shared,
            records: TWINS,
            budget: Budget {
                rebalances: 2,
                ..Budget::default()
            },
            ..Setup::of("streamed, one name twice")
        },
        Setup {
            records: AGAIN,
            budget: Budget {
                rebalances: 1,
                failures: 1,
                refusals: 1,
                ..Budget::default()
            },
            ..Setup::of("streamed, transform fails")
        },
        Setup {
            records: REUSED,
            batch: 1,
            budget: Budget {
                rebalances: 1,
                crashes: 1,
                ..Budget::default()
            },
            ..Setup::of("streamed, key reused")
        },
        Setup {
            records: TWINS,
            batch: 1,
            window: 2,
            ticks: 3,
            budget: Budget {
                rebalances: 1,
                lost: 1,
                ..Budget::default()
            },
            ..Setup::of("streamed, window over")
        },
        Setup {
            batch: 1,
            is_ahead: true,
            budget: Budget {
                rebalances: 1,
                lost: 1,
                delayed: 1,
                ..Budget::default()
            },
            ..Setup::of("streamed, two under way")
        },
        Setup {
            batch: 1,
            is_ahead: true,
            records: TWINS,
            budget: Budget {
                rebalances: 1,
                crashes: 1,
                again: 1,
                ..Budget::default()
            },
            ..Setup::of("streamed, asked again")
        },
    ]
}
