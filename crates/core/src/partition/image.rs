//! The image of one partition's changelog: which operations were committed, and when. In memory, about sixty bytes
//! an operation.

mod committed;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::claim::{Admission, ClaimId, ClaimRequest, FencingToken, Grant};
use crate::decide;
use crate::fingerprint::{Comparison, Fingerprint};
use crate::key::OpId;
use crate::outcome::Outcome;
use crate::port::streamed::Standing;
use crate::record::{Record, State};
use crate::time::Timestamp;
use crate::window::Window;
use committed::Operations;

/// One operation that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The leading half of the operation's id.
    pub id: u128,
    /// Scheme and half of the digest of its fingerprint.
    pub fingerprint: Option<(u32, u64)>,
    /// A digest of the transport id of the message that it was committed for.
    pub transport: u64,
}

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

impl Entry {
    /// The entry of an operation that was committed for this request.
    pub fn of(id: OpId, request: &ClaimRequest) -> Self {
        let fingerprint = request.fingerprint.map(|it| (it.scheme, short(it.digest)));
        let transport = request.transport.as_ref().map_or(0, |it| digest(it));
        Self {
            id: leading(id),
            fingerprint,
            transport,
        }
    }

    /// The record that stands for an operation that was committed at `at`. The image keeps only digests of
    /// fingerprint and transport id, so a digest that equals the request's is taken for the request's own value, and
    /// any other for another one; without a request neither value is known.
    pub fn record(
        &self,
        at: Timestamp,
        window: Window,
        request: Option<&ClaimRequest>,
        token: FencingToken,
    ) -> Record {
        let fingerprint = request.and_then(|request| self.fingerprint_beside(request.fingerprint));
        let transport = request.and_then(|request| request.transport.as_ref());
        let transport = transport.map(|requested| {
            if digest(requested) == self.transport {
                requested.clone()
            } else {
                Bytes::new()
            }
        });
        Record {
            state: State::Completed { at, window },
            fingerprint,
            members: None,
            transport,
            // The id of no claimant: the caller has another one.
            claim_id: ClaimId::from_u128(0),
            token,
            claimed_at: at,
            attempts: 1,
            vanished: 0,
            possible_repeats: 0,
            doubt: None,
            past: Vec::new(),
            created_at: at,
            first_started_at: None,
            last_error: None,
            gate: None,
            held: false,
            outcome: Some(Outcome::empty()),
        }
    }

    fn fingerprint_beside(&self, requested: Option<Fingerprint>) -> Option<Fingerprint> {
        let (scheme, digest) = self.fingerprint?;
        let same = requested.filter(|it| (it.scheme, short(it.digest)) == (scheme, digest));
        let mut other = Fingerprint {
            scheme,
            digest: [0; 16],
        };
        if requested.is_some_and(|it| it.compare(other) == Comparison::Same) {
            other.digest = [1; 16];
        }
        Some(same.unwrap_or(other))
    }
}

/// The first half of the digest that names an operation: 128 bits, which no two of them share.
fn leading(id: OpId) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&id.as_bytes()[..16]);
    u128::from_be_bytes(bytes)
}

fn short(digest: [u8; 16]) -> u64 {
    let mut half = [0; 8];
    half.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(half)
}

/// A digest that tells one transport id from another for people; it decides only how a duplicate is named. FNV-1a.
fn digest(transport: &[u8]) -> u64 {
    transport.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The time beyond its window for which an operation is remembered.
const GRACE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
