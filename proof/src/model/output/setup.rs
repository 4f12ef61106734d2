//! The events that one configuration of the output class allows, and their numbers.

use semel_core::planted;

use crate::model::setup::Post;

/// The behaviour of a worker. All but the first are wrong, to show that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// As it should.
    Right,
    /// Trusts a refusal, and does not ask whether an earlier try was recorded. M15
    CutsUnasked,
    /// Leaves at its start everything behind the mark.
    KeepsTail,
    /// Takes at its start everything behind the mark for recorded.
    AdoptsTail,
    /// Cuts at its start an output without a mark back to nothing.
    CutsUnmarked,
    /// Leaves the bytes of a failed append.
    KeepsHalf,
    /// Leaves the lines of a refused batch.
    KeepsRefused,
    /// Acknowledges as soon as it has appended. M04
    AcksFirst,
    /// Records before it appends. M01
    RecordsFirst,
    /// Records completions first, and the mark after.
    RecordsApart,
    /// Takes a lost answer for a success.
    TrustsSilence,
    /// Writes to the other worker's file, which is not locked.
    SharesFile,
    /// Cuts off what was admitted, although the answer was lost.
    UndoesUnknown,
}

/// The behaviour of a store. All but the first are wrong, to show that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// A batch and its mark, whole or not at all.
    Right,
    /// The items of a batch that can be settled, without the mark if that is not all.
    SettlesSome,
    /// The mark in any case.
    MarksAnyway,
    /// No mark after it was reopened.
    ForgetsMarks,
    /// The mark as it is, while a commit that will change it is under way.
    MarkAtOnce,
    /// Answers other calls while the lines of an admitted batch are appended.
    ServesOthers,
    /// Decides each item of an admitted batch as if it were alone.
    DecidesApart,
    /// Has the lines of an admitted batch appended twice.
    WritesTwice,
    /// Commits an admitted batch whose lines could not be appended.
    CommitsFailed,
}

/// The number of times that each event may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Crashes of workers.
    pub(crate) crashes: u8,
    /// Crashes in the middle of an append.
    pub(crate) torn: u8,
    /// Answers of the store that are lost.
    pub(crate) lost: u8,
    /// Deliveries that the broker hands to another worker.
    pub(crate) redelivered: u8,
    /// Appends that fail, with or without half of it written.
    pub(crate) failures: u8,
    /// Times that the store is reopened, without the claims that were not durable.
    pub(crate) reopened: u8,
    /// Commits that the store refuses.
    pub(crate) refused: u8,
}

/// One configuration: two workers, with a file each. Times are in ticks of eight seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    pub(crate) posts: &'static [Post],
    /// The most of them that are recorded together.
    pub(crate) batch: u8,
    /// The number of workers that have the store admit their lines; the others claim them.
    pub(crate) admitting: u8,
    pub(crate) ticks: u8,
    pub(crate) lease: u8,
    pub(crate) window: u8,
    pub(crate) age_gate: bool,
    /// Lines that the files hold before they have marks.
    pub(crate) before: u8,
    pub(crate) budget: Budget,
    pub(crate) conduct: Conduct,
    pub(crate) keeping: Keeping,
}

const fn post(operation: u8) -> Post {
    Post {
        operation,
        other_request: false,
    }
}

const ONE: &[Post] = &[post(0)];
const TWO: &[Post] = &[post(0), post(1)];
const TWICE: &[Post] = &[post(0), post(0)];

impl Setup {
    /// One message, and nothing goes wrong.
    pub(crate) const fn of(name: &'static str) -> Self {
        Self {
            name,
            posts: ONE,
            batch: 1,
            admitting: 0,
            ticks: 2,
            lease: 1,
            window: 20,
            age_gate: true,
            before: 0,
            budget: Budget {
                crashes: 0,
                torn: 0,
                lost: 0,
                redelivered: 0,
                failures: 0,
                reopened: 0,
                refused: 0,
            },
            conduct: Conduct::Right,
            keeping: Keeping::Right,
        }
    }

    /// The same, with more of everything, turn by turn.
    pub(crate) fn deeper(mut self, by: u8) -> Self {
        let budget = &mut self.budget;
        for step in 0..by {
            match step % 4 {
                0 => budget.lost += 1,
                1 => budget.crashes += 1,
                2 => budget.redelivered += 1,
                _ => self.ticks += 1,
            }
        }
        self
    }

    /// The setup with the bug that T14 plants in this process, if it is one of the model's own.
    pub(crate) fn planted(self) -> Self {
        let conduct = if planted("M01") {
            Conduct::RecordsFirst
        } else if planted("M04") {
            Conduct::AcksFirst
        } else if planted("M15") {
            Conduct::CutsUnasked
        } else {
            self.conduct
        };
        Self {
            conduct,
            age_gate: self.age_gate && !planted("M18"),
            ..self
        }
    }
}

/// The configurations that every merge checks.
pub(crate) fn all() -> Vec<Setup> {
    let mut all = recorded();
    all.extend(admitted());
    all
}

/// With workers that claim and record.
fn recorded() -> Vec<Setup> {
    vec![
        Setup {
            before: 1,
            budget: Budget {
                crashes: 2,
                torn: 1,
                lost: 1,
                redelivered: 2,
                ..Budget::default()
            },
            ..Setup::of("output, crashes")
        },
        Setup {
            posts: TWO,
            batch: 2,
            ticks: 1,
            budget: Budget {
                lost: 1,
                redelivered: 1,
                ..Budget::default()
            },
            ..Setup::of("output, batches")
        },
        Setup {
            posts: TWO,
            batch: 2,
            ticks: 1,
            budget: Budget {
                crashes: 1,
                torn: 1,
                ..Budget::default()
            },
            ..Setup::of("output, batches and crashes")
        },
        Setup {
            posts: TWO,
            batch: 2,
            ticks: 1,
            budget: Budget {
                redelivered: 1,
                failures: 2,
                ..Budget::default()
            },
            ..Setup::of("output, appends fail")
        },
        Setup {
            posts: TWICE,
            ticks: 3,
            window: 1,
            budget: Budget {
                lost: 1,
                redelivered: 1,
                ..Budget::default()
            },
            ..Setup::of("output, window over")
        },
        Setup {
            posts: TWICE,
            budget: Budget {
                lost: 1,
                crashes: 1,
                reopened: 1,
                ..Budget::default()
            },
            ..Setup::of("output, store reopened")
        },
    ]
}

/// With workers that have a batch admitted.
fn admitted() -> Vec<Setup> {
    vec![
        Setup {
            posts: TWO,
            batch: 2,
            admitting: 2,
            ticks: 1,
            before: 1,
            budget: Budget {
                crashes: 2,
                torn: 1,
                lost: 1,
                redelivered: 1,
                failures: 1,
                refused: 1,
                ..Budget::default()
            },
            ..Setup::of("output, admitted")
        },
        Setup {
            posts: TWICE,
            batch: 2,
            admitting: 2,
            ticks: 3,
            window: 1,
            budget: Budget {
                crashes: 1,
                lost: 1,
                redelivered: 1,
                ..Budget::default()
            },
            ..Setup::of("output, admitted twice")
        },
        Setup {
            posts: TWO,
            batch: 2,
            admitting: 1,
            budget: Budget {
                crashes: 1,
                lost: 1,
                redelivered: 1,
                ..Budget::default()
            },
            ..Setup::of("output, admitted beside claims")
        },
    ]
}
