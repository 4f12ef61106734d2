//! The image of one partition's changelog: which operations were committed, and when. In memory, about sixty bytes
//! an operation.

mod committed;

use std::collections::VecDeque;
use std::time::Duration;

use super::entry::{Entry, leading};
use crate::claim::{Admission, ClaimRequest, Grant};
use crate::decide;
use crate::ids::FencingToken;
use crate::key::OpId;
use crate::port::streamed::Standing;
use crate::time::Timestamp;
use crate::window::Window;
use committed::Operations;

/// The committed operations of one partition that are still inside their window.
#[derive(Debug)]
pub struct Image {
    window: Window,
    operations: Operations,
    /// The operations in the order in which they are forgotten, a sixteenth of the window at a time.
    ages: VecDeque<Age>,
}

/// The knowledge of one committed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    at: Timestamp,
    entry: Entry,
}

/// A group of operations that are forgotten together.
#[derive(Debug)]
struct Age {
    oldest: Timestamp,
    newest: Timestamp,
    /// The number of the first operation behind the group.
    end: u64,
}

impl Image {
    /// An image that knows no operation yet.
    pub fn new(window: Window) -> Self {
        Self {
            window,
            operations: Operations::default(),
            ages: VecDeque::new(),
        }
    }

    /// The number of operations that are remembered.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns whether no operation is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Brings the data of an operation into the processor's cache. A caller that does this for several operations at
    /// once, before it decides them, waits for their data only once.
    pub fn warm(&self, id: OpId) {
        std::hint::black_box(self.operations.get(leading(id)).is_some());
    }

    /// Decides a claim as every store does that keeps no versions. The token rises with the offset, which orders the
    /// messages of a key.
    pub fn admit(&self, id: OpId, request: &ClaimRequest, offset: i64, now: Timestamp) -> Standing {
        let token = FencingToken::new(offset.unsigned_abs());
        let is_too_old = |birth| request.window.is_too_old(birth, now);
        let record = match self.operations.get(leading(id)) {
            // Most operations are new: they need no record, which nobody would keep.
            None if !request.birth.is_some_and(is_too_old) => {
                return Standing::Free(Grant::first(token));
            }
            None => None,
            Some(Known { at, entry }) => Some(entry.record(at, self.window, Some(request), token)),
        };
        match decide::claim(record.as_ref(), None, request, now, token).answer {
            Admission::Granted(claim) => Standing::Free(claim.grant()),
            admission => Standing::Ours(Box::new(admission)),
        }
    }

    /// Returns whether a granted operation is known to be committed since. If its commit was `tried` with an unknown
    /// end, a commit counts past the window, too: otherwise the output would be written again.
    pub fn is_committed(&self, entry: &Entry, tried: Option<Timestamp>, now: Timestamp) -> bool {
        let known = self.operations.get(entry.id);
        known.is_some_and(|known| {
            tried == Some(known.at) || self.window.forgotten_at(known.at) > now
        })
    }

    /// Remembers that these operations were committed at this time.
    pub fn insert(&mut self, at: Timestamp, entries: impl IntoIterator<Item = Entry>) {
        let span = self.window.duration() / 16;
        let is_new = self.ages.back().is_none_or(|age| {
            let begun = age.oldest.min(at);
            at.max(age.newest).since(begun) > span
        });
        if is_new {
            self.ages.push_back(Age {
                oldest: at,
                newest: at,
                end: 0,
            });
        }
        let Some(age) = self.ages.back_mut() else {
            return;
        };
        age.oldest = age.oldest.min(at);
        age.newest = age.newest.max(at);
        for entry in entries {
            self.operations.insert(Known { at, entry });
        }
        age.end = self.operations.end();
    }

    /// Forgets the operations that are past their window, at the latest when they must be forgotten.
    pub fn sweep(&mut self, now: Timestamp) {
        while let Some(age) = self.ages.front() {
            if self.window.expires_at(age.newest).plus(GRACE) > now {
                return;
            }
            self.operations.forget_before(age.end);
            self.ages.pop_front();
        }
    }
}

/// The time beyond its window for which an operation is remembered.
const GRACE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
