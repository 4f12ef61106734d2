//! The whole state at one instant: records and marks, two files, two workers.

use super::setup::{Budget, Setup};
use crate::model::named::Breakable;
use crate::model::numbers::NONE;
use crate::model::record::Rec;
use crate::model::setup::{MOST_OPERATIONS, MOST_POSTS};

pub(crate) const WORKERS: usize = 2;
/// The most items that one worker has in hand.
pub(crate) const HAND: usize = 2;
/// Lines of a file.
const MOST_LINES: usize = 8;

/// Half a line, without its end.
pub(crate) const HALF: u8 = 0x40;
/// A line that was there before.
pub(crate) const FOREIGN: u8 = 0x41;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: u8,
    pub(crate) records: [Option<Rec>; MOST_OPERATIONS],
    /// The number of copies of each message that the broker has to hand out.
    pub(crate) queued: [u8; MOST_POSTS],
    pub(crate) files: [File; WORKERS],
    /// The number of lines of each file that are recorded; `NONE` before the first time.
    pub(crate) marks: [u8; WORKERS],
    pub(crate) workers: [Worker; WORKERS],
    /// A batch of a dead worker that is on its way.
    pub(crate) late: Option<Batch>,
    /// The batch that the store has decided for each worker, and not committed.
    pub(crate) open: [Option<Open>; WORKERS],
    /// Operations that were completed at some time, that were acknowledged, that were set aside: a bit each.
    pub(crate) ended: u8,
    pub(crate) acknowledged: u8,
    pub(crate) listed: u8,
    pub(crate) left: Budget,
    /// The laws that are broken, a bit each.
    pub(crate) broken: u32,
}

/// Lines, each the number of its operation plus one, or one of the other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct File {
    lines: [u8; MOST_LINES],
    pub(crate) len: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) phase: Phase,
    pub(crate) hand: [Option<Item>; HAND],
    /// The mark as far as the worker knows.
    pub(crate) recorded: u8,
}

/// A message in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Item {
    pub(crate) post: u8,
    pub(crate) claim: u8,
    /// It may be appended.
    pub(crate) granted: bool,
    /// The broker has delivered it to another worker.
    pub(crate) stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// About to read its mark, and to cut its file back to it.
    Opening,
    /// Takes messages and claims them.
    Ready,
    /// About to append what is granted.
    Writing,
    /// The append failed: about to cut back, and to give the claims back.
    Undoing,
    /// About to record what is granted, and the length of its file.
    Recording { value: u8, asked: bool },
    /// Has recorded the completions alone, and is about to set the mark. Wrong.
    Marking { value: u8 },
    /// Has appended what is admitted: the store is about to commit it.
    Committing,
}

/// Completions and a mark, to be written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Batch {
    pub(crate) file: u8,
    pub(crate) items: [Option<Item>; HAND],
    pub(crate) value: u8,
}

/// A batch that is admitted: decided and completed, and visible to no one before its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Open {
    /// Its worker is dead, and its commit on the way.
    pub(crate) is_left: bool,
    pub(crate) file: u8,
    pub(crate) records: [Option<Rec>; MOST_OPERATIONS],
    /// Places of the hand that are set aside, a bit each.
    pub(crate) aside: u8,
    /// The new value of the mark: the length of the file, once its lines are appended.
    pub(crate) value: u8,
}

impl World {
    /// Nothing has happened yet.
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut queued = [0; MOST_POSTS];
        queued[..setup.posts.len()].fill(1);
        let mut file = File {
            lines: [0; MOST_LINES],
            len: 0,
        };
        for _ in 0..setup.before {
            file.push(FOREIGN);
        }
        Self {
            now: 0,
            records: [None; MOST_OPERATIONS],
            queued,
            files: [file; WORKERS],
            marks: [NONE; WORKERS],
            workers: [STARTED; WORKERS],
            late: None,
            open: [None; WORKERS],
            ended: 0,
            acknowledged: 0,
            listed: 0,
            left: setup.budget,
            broken: 0,
        }
    }

    /// A claim id that is used nowhere.
    pub(crate) fn fresh_claim(&self) -> u8 {
        let late = self.late.iter().flat_map(|batch| &batch.items);
        let hands = self.workers.iter().flat_map(|worker| &worker.hand);
        let items = hands.chain(late).flatten().map(|item| item.claim);
        let open = self.open.iter().flatten().flat_map(|open| &open.records);
        let records = self.records.iter().chain(open).flatten();
        let records = records.map(|record| record.claim);
        let used = items
            .chain(records)
            .filter(|&claim| claim != NONE)
            .fold(0_u32, |used, claim| used | 1 << claim);
        u8::try_from(used.trailing_ones()).unwrap_or(NONE)
    }

    /// Returns whether the workers are interchangeable.
    pub(crate) fn are_alike(&self) -> bool {
        let all = |at: usize| {
            (
                self.workers[at],
                self.files[at],
                self.marks[at],
                self.open[at],
            )
        };
        all(0) == all(1)
    }

    /// The lines of a file that count.
    pub(crate) fn recorded(&self, file: usize) -> &[u8] {
        let mark = self.marks[file];
        let end = if mark == NONE {
            0
        } else {
            mark.min(self.files[file].len)
        };
        &self.files[file].lines[..end.into()]
    }

    /// The number of times that an operation is recorded.
    pub(crate) fn lines_of(&self, operation: usize) -> usize {
        let lines = (0..WORKERS).flat_map(|file| self.recorded(file));
        lines
            .filter(|&&line| usize::from(line) == operation + 1)
            .count()
    }
}

impl File {
    /// Appends a line. Returns whether there was room for it.
    pub(crate) fn push(&mut self, line: u8) -> bool {
        match self.lines.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = line;
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// Cuts the file back. Returns whether there was half a line behind it.
    pub(crate) fn cut_back(&mut self, len: u8) -> bool {
        let cut = &mut self.lines[len.into()..];
        let had_half = cut.contains(&HALF);
        cut.fill(0);
        self.len = len;
        had_half
    }

    /// Its first lines.
    pub(crate) fn first(&self, count: u8) -> &[u8] {
        &self.lines[..count.min(self.len).into()]
    }
}

impl Worker {
    pub(crate) fn granted(&self) -> impl Iterator<Item = Item> {
        let items = self.hand.iter().flatten().copied();
        items.filter(|item| item.granted)
    }
}

/// A worker that was just started.
pub(crate) const STARTED: Worker = Worker {
    phase: Phase::Opening,
    hand: [None; HAND],
    recorded: 0,
};

impl Breakable for World {
    fn broken(&self) -> u32 {
        self.broken
    }
}
