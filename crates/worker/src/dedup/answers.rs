//! The consequences of the store's answers: lines to write, lines to set aside, lines that must
//! wait.

use std::time::Duration;

use semel_core::{Admission, Error, StateKind};
use semel_engine::summary::{Fate, Summary};

use super::batch::Lines;

/// The answers to one batch.
#[derive(Debug)]
pub(super) struct Answers {
    /// The counts of the run, with this batch.
    pub(super) summary: Summary,
    /// Lines that are granted, in order.
    pub(super) granted: Vec<u32>,
    /// The number of lines that are duplicates of something finished.
    pub(super) known: usize,
    /// Lines that are set aside because of their operation.
    pub(super) aside: Vec<(usize, Aside)>,
    /// The first line whose key another claim holds, and the time to wait.
    pub(super) busy: Option<(usize, Duration)>,
    /// The error of an item that the store could not decide.
    pub(super) failed: Option<Error>,
}

/// The reason why a line is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    Dead,
    InDoubt,
    Conflict,
    TooOld,
}

impl Answers {
    /// Counts on from `summary`.
    pub(super) fn of<'a>(
        answers: impl IntoIterator<Item = &'a Admission>,
        summary: Summary,
    ) -> Self {
        let mut all = Self {
            summary,
            granted: Vec::new(),
            known: 0,
            aside: Vec::new(),
            busy: None,
            failed: None,
        };
        for (at, answer) in answers.into_iter().enumerate() {
            all.add(at, answer);
        }
        all
    }

    /// Counts on from `summary` the lines that are given back because the reader is gone.
    pub(super) fn given_up(answers: &[Admission], mut summary: Summary) -> Summary {
        for answer in answers {
            summary.count(match answer {
                Admission::Replay { .. } => Fate::Replayed,
                Admission::Granted(_)
                | Admission::Busy { .. }
                | Admission::Conflict { .. }
                | Admission::Stale { .. }
                | Admission::Parked { .. }
                | Admission::TooOld
                | Admission::Failed(_) => Fate::Released,
            });
        }
        summary
    }

    fn add(&mut self, at: usize, answer: &Admission) {
        match answer {
            Admission::Granted(claim) => {
                self.summary.takeovers += u64::from(claim.takeover);
                self.summary.count(Fate::Applied);
                self.granted.push(u32::try_from(at).unwrap_or(u32::MAX));
            }
            Admission::Replay { .. } => {
                self.known += 1;
                self.summary.count(Fate::Replayed);
            }
            Admission::Stale { .. } => self.summary.count(Fate::Stale),
            Admission::Busy { until, now } => {
                self.busy.get_or_insert((at, until.since(*now)));
            }
            Admission::Conflict { .. } => self.aside(at, Aside::Conflict),
            Admission::Parked { state, .. } => self.aside(
                at,
                match state {
                    StateKind::Dead => Aside::Dead,
                    StateKind::InDoubt
                    | StateKind::Claimed
                    | StateKind::Started
                    | StateKind::Released
                    | StateKind::Completed => Aside::InDoubt,
                },
            ),
            Admission::TooOld => self.aside(at, Aside::TooOld),
            Admission::Failed(error) => {
                self.failed.get_or_insert_with(|| error.clone());
            }
        }
    }

    fn aside(&mut self, at: usize, aside: Aside) {
        self.summary.count(aside.fate());
        self.aside.push((at, aside));
    }

    /// Appends the lines that are granted.
    pub(super) fn gather(&self, lines: &Lines, buffer: &mut Vec<u8>) {
        for at in &self.granted {
            buffer.extend_from_slice(lines.bytes(*at as usize));
        }
    }
}

impl Aside {
    /// The reason to set a line of this fate aside, if there is one.
    pub(super) const fn of(fate: Fate) -> Option<Self> {
        match fate {
            Fate::Dead => Some(Self::Dead),
            Fate::InDoubt => Some(Self::InDoubt),
            Fate::Conflict => Some(Self::Conflict),
            Fate::TooOld => Some(Self::TooOld),
            Fate::Applied
            | Fate::Replayed
            | Fate::Stale
            | Fate::Released
            | Fate::Quarantined
            | Fate::Unprotected => None,
        }
    }

    const fn fate(self) -> Fate {
        match self {
            Self::Dead => Fate::Dead,
            Self::InDoubt => Fate::InDoubt,
            Self::Conflict => Fate::Conflict,
            Self::TooOld => Fate::TooOld,
        }
    }

    /// The reason as it is kept, and a line about it.
    pub(super) const fn reason(self) -> (&'static str, &'static str) {
        const GIVEN_UP: &str = "its operation was given up before";
        match self {
            Self::Dead => ("dead", GIVEN_UP),
            Self::InDoubt => ("in-doubt", GIVEN_UP),
            Self::Conflict => (
                "fingerprint-conflict",
                "the key was used with another request",
            ),
            Self::TooOld => ("too-old", "no record, and older than the window"),
        }
    }
}
