//! From lines to claims: the key of each line, or the reason why it has none.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use semel_core::{
    ClaimId, ClaimRequest, Error, ErrorKind, Key, Parked, Result, Scope, Start, Timestamp, Unusable,
};

use super::Dedup;
use super::batch::{Batch, Lines};
use super::csv::lines_of;
use super::keys::Keys;
use super::park::LEASE;
use super::split::{HEAD_BYTES, Piece};

/// Reads the lines of one input.
#[derive(Debug)]
pub(super) struct Extractor {
    dedup: Arc<Dedup>,
    keys: Keys,
    start: Start,
    ids: ClaimIds,
    /// Lines so far.
    number: u64,
    /// Bytes so far.
    taken_bytes: u64,
}

impl Extractor {
    /// An extractor whose claims begin as `start` says, with ids that count up from `first`.
    pub(super) fn new(dedup: Arc<Dedup>, input: &str, start: Start, first: ClaimId) -> Self {
        Self {
            keys: Keys::new(dedup.key.clone(), &dedup.format, input),
            start,
            ids: ClaimIds::from(first),
            number: 0,
            taken_bytes: 0,
            dedup,
        }
    }

    /// The same extractor, behind lines and bytes that were read before.
    pub(super) const fn behind(mut self, lines: u64, bytes: u64) -> Self {
        self.number = lines;
        self.taken_bytes = bytes;
        self
    }

    /// Takes in the next piece of the input; hands over batches of at most `most` lines.
    pub(super) fn take(&mut self, piece: Piece, most: usize, mut hand_over: impl FnMut(Batch)) {
        match piece {
            Piece::Overlong {
                head,
                len_bytes,
                taken_bytes,
                lines,
            } => {
                self.taken_bytes += taken_bytes;
                let mut batch = Batch::default();
                self.too_long(head, len_bytes, self.number + 1, &mut batch);
                self.number += lines;
                batch.len_bytes = HEAD_BYTES;
                batch.end_bytes = self.taken_bytes;
                hand_over(batch);
            }
            Piece::Lines(block) => {
                let mut start = 0;
                while start < block.len() {
                    let (batch, end) = self.lines(&block, start, most);
                    start = end;
                    hand_over(batch);
                }
            }
            Piece::Records { block, ends } => {
                let mut start = 0;
                for ends in ends.chunks(most) {
                    let batch = self.records(&block, start, ends);
                    start = ends.last().copied().unwrap_or(start);
                    hand_over(batch);
                }
            }
        }
    }

    /// Makes the claims of `lines` again, with claim ids of their own.
    ///
    /// # Errors   `Internal`: a line that had a key has none any more
    pub(super) fn again(
        &mut self,
        lines: &Lines,
        range: Range<usize>,
    ) -> Result<Vec<ClaimRequest>> {
        let scope = own(&self.dedup.scope);
        let claim = |at| {
            let key = self.keys.key(&lines.payload(at), lines.number(at));
            let key = key.map_err(|unusable| {
                Error::new(ErrorKind::Internal, "a line has lost its key").with_source(unusable)
            })?;
            Ok(self.request(scope.clone(), key))
        };
        range.map(claim).collect()
    }

    /// A message to be set aside with its operation.
    pub(super) fn parked(
        &mut self,
        lines: &Lines,
        at: usize,
        reason: &'static str,
        detail: &str,
    ) -> Parked {
        let (payload, number) = (lines.payload(at), lines.number(at));
        let key = self.keys.key(&payload, number).ok();
        self.set_aside(key, reason, detail, payload, number)
    }

    /// The lines of `block` from `start` on, at most `most` of them, and the start of the next.
    fn lines(&mut self, block: &Bytes, start: usize, most: usize) -> (Batch, usize) {
        // Counted beforehand, so that no growing vector is ever copied.
        let ends = memchr::memchr_iter(b'\n', &block[start..]).take(most);
        let count = (ends.count() + usize::from(!block.ends_with(b"\n"))).min(most);
        let mut batch = Batch::default();
        batch.requests.reserve_exact(count);
        batch.lines.begin(block.clone(), count);
        // A scope of its own: both threads count its holders, and would wait for each other.
        let scope = own(&self.dedup.scope);
        let mut from = start;
        let ends = memchr::memchr_iter(b'\n', &block[start..]).map(|at| start + at);
        for end in ends.chain([block.len()]).take(count) {
            let next = (end + 1).min(block.len());
            self.number += 1;
            let payload = block.slice(from..end);
            if payload.len() > self.dedup.max_line_bytes {
                let head = Bytes::copy_from_slice(&payload[..payload.len().min(HEAD_BYTES)]);
                self.too_long(head, payload.len() as u64, self.number, &mut batch);
            } else {
                match self.keys.key(&payload, self.number) {
                    Ok(key) => {
                        let request = self.request(scope.clone(), key);
                        batch.requests.push(request);
                        batch.lines.push(from..next, self.number);
                    }
                    Err(unusable) => self.unusable(unusable, payload, self.number, &mut batch),
                }
            }
            from = next;
        }
        self.taken_bytes += (from - start) as u64;
        batch.len_bytes = from - start;
        batch.end_bytes = self.taken_bytes;
        (batch, from)
    }

    /// The records of `block` from `start` on, with their `ends`.
    fn records(&mut self, block: &Bytes, start: usize, ends: &[usize]) -> Batch {
        let mut batch = Batch::default();
        batch.requests.reserve_exact(ends.len());
        batch.lines.begin(block.clone(), ends.len());
        let scope = own(&self.dedup.scope);
        let mut from = start;
        for end in ends {
            let record = &block[from..*end];
            let number = self.number + 1;
            self.number += lines_of(record);
            let record = record.strip_suffix(b"\n").unwrap_or(record);
            let payload = block.slice_ref(record);
            if record.len() > self.dedup.max_line_bytes {
                let head = Bytes::copy_from_slice(&record[..record.len().min(HEAD_BYTES)]);
                self.too_long(head, record.len() as u64, number, &mut batch);
            } else {
                match self.keys.key(&payload, number) {
                    Ok(key) => {
                        let request = self.request(scope.clone(), key);
                        batch.requests.push(request);
                        batch.lines.push(from..*end, number);
                    }
                    Err(unusable) => self.unusable(unusable, payload, number, &mut batch),
                }
            }
            from = *end;
        }
        self.taken_bytes += (from - start) as u64;
        batch.len_bytes = from - start;
        batch.end_bytes = self.taken_bytes;
        batch
    }

    fn request(&mut self, scope: Scope, key: Key) -> ClaimRequest {
        ClaimRequest {
            window: self.dedup.window,
            start: self.start,
            lease: LEASE,
            wants_outcome: false,
            ..ClaimRequest::new(scope, key, self.ids.next())
        }
    }

    fn too_long(&self, head: Bytes, size_bytes: u64, number: u64, batch: &mut Batch) {
        let unusable = Unusable::MessageTooLarge {
            size_bytes,
            limit_bytes: self.dedup.max_line_bytes as u64,
        };
        self.unusable(unusable, head, number, batch);
    }

    fn unusable(&self, unusable: Unusable, payload: Bytes, number: u64, batch: &mut Batch) {
        let detail = unusable.to_string();
        let parked = self.set_aside(None, unusable.code(), &detail, payload, number);
        batch.unusable.push((parked, unusable));
    }

    fn set_aside(
        &self,
        key: Option<Key>,
        reason: &str,
        detail: &str,
        payload: Bytes,
        number: u64,
    ) -> Parked {
        Parked {
            scope: self.dedup.scope.clone(),
            key,
            reason: reason.into(),
            detail: detail.into(),
            transport: None,
            coordinates: self.keys.coordinates(number),
            headers: Vec::new(),
            payload,
            since: Timestamp::EPOCH,
        }
    }
}

/// The same scope under a count of its own.
fn own(scope: &Scope) -> Scope {
    Scope::new(scope.tenant(), scope.operation()).unwrap_or_else(|_| scope.clone())
}

/// Claim ids that count up from a random one: different from all others, without a random number for
/// each line.
#[derive(Debug)]
struct ClaimIds {
    claimant: u128,
    next: u128,
}

impl ClaimIds {
    fn from(first: ClaimId) -> Self {
        let bits = u128::from_be_bytes(first.to_bytes());
        Self {
            claimant: bits & !COUNTED,
            next: bits,
        }
    }

    fn next(&mut self) -> ClaimId {
        let id = ClaimId::from_u128(self.claimant | (self.next & COUNTED));
        self.next = self.next.wrapping_add(1);
        id
    }
}

/// All but the 48 bits of the claimant.
const COUNTED: u128 = (1 << 80) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_ids_differ_and_stay_with_their_claimant() {
        let first = ClaimId::from_u128((7 << 80) | (COUNTED - 1));
        let mut ids = ClaimIds::from(first);
        let three = [ids.next(), ids.next(), ids.next()];
        assert_eq!(three[0], first);
        assert_eq!(three[2], ClaimId::from_u128(7 << 80));
        assert!(three.iter().all(|id| id.claimant() == first.claimant()));
        assert_ne!(three[1], three[2]);
    }
}
