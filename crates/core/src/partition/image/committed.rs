//! Committed operations, found by their ids and forgotten in the order in which they came. Not for knowing when
//! to forget them.

use std::collections::VecDeque;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;

use super::{Entry, Known};
use crate::time::Timestamp;

/// A log of operations and a table of their places in it. Only the small table is copied when it grows; the
/// entries of the log stay in place.
#[derive(Debug, Default)]
pub(super) struct Operations {
    log: Log,
    table: HashTable<Slot>,
}

/// The place of the latest entry of an operation.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Part of its id.
    mark: u32,
    /// The lower half of the number of its entry. There is no room for so many entries that two would share it.
    number: u32,
}

impl Operations {
    /// The number of operations.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The number of the next entry.
    pub(super) const fn end(&self) -> u64 {
        self.log.end
    }

    /// The knowledge of the operation with this id.
    pub(super) fn get(&self, id: u128) -> Option<Known> {
        let mark = mark(id);
        let slot = self
            .table
            .find(spread(mark), |it| self.log.is(*it, mark, id));
        slot.and_then(|slot| self.log.at(slot.number))
            .map(Packed::known)
    }

    /// Adds an entry; it replaces what was known of the operation before.
    pub(super) fn insert(&mut self, known: Known) {
        let id = known.entry.id;
        let mark = mark(id);
        let number = self.log.push(Packed::of(known));
        let is_same = |it: &Slot| self.log.is(*it, mark, id);
        let place = self
            .table
            .entry(spread(mark), is_same, |it| spread(it.mark));
        match place {
            Place::Occupied(mut slot) => slot.get_mut().number = number,
            Place::Vacant(place) => {
                place.insert(Slot { mark, number });
            }
        }
    }

    /// Forgets all operations whose latest entry came before the one with this number.
    pub(super) fn forget_before(&mut self, end: u64) {
        while self.log.first < end.min(self.log.end) {
            let Some(mark) = self.log.front().map(|it| mark(it.id())) else {
                return;
            };
            let number = low(self.log.first);
            if let Ok(slot) = self
                .table
                .find_entry(spread(mark), |it| it.number == number)
            {
                slot.remove();
            }
            self.log.pop();
        }
    }
}

/// Entries by their numbers, which rise by one from zero; in pieces that never move.
#[derive(Debug, Default)]
struct Log {
    /// The pieces; all but the first and the last are full.
    pieces: VecDeque<Vec<Packed>>,
    /// The number of the first entry that is still wanted.
    first: u64,
    /// The number of the next one.
    end: u64,
}

impl Log {
    /// Adds an entry, and returns the lower half of its number.
    fn push(&mut self, entry: Packed) -> u32 {
        let (number, piece) = (self.end, (self.end % PIECE) as usize);
        if piece == 0 || self.pieces.is_empty() {
            self.pieces.push_back(Vec::with_capacity(PIECE_LEN));
        }
        if let Some(last) = self.pieces.back_mut() {
            last.push(entry);
        }
        self.end += 1;
        low(number)
    }

    fn front(&self) -> Option<&Packed> {
        self.at(low(self.first))
    }

    /// Removes the first entry.
    fn pop(&mut self) {
        self.first += 1;
        if self.first.is_multiple_of(PIECE) {
            self.pieces.pop_front();
        }
    }

    /// The entry whose number has this lower half.
    fn at(&self, number: u32) -> Option<&Packed> {
        let behind = u64::from(number.wrapping_sub(low(self.first)));
        let place = self.first % PIECE + behind;
        let piece = self.pieces.get(usize::try_from(place / PIECE).ok()?)?;
        piece.get((place % PIECE) as usize)
    }

    fn is(&self, slot: Slot, mark: u32, id: u128) -> bool {
        slot.mark == mark && self.at(slot.number).is_some_and(|it| it.id() == id)
    }
}

/// The knowledge of an operation, without gaps.
#[derive(Clone, Copy, Debug)]
struct Packed {
    id: [u64; 2],
    at: Timestamp,
    transport: u64,
    digest: u64,
    scheme: u32,
    has_fingerprint: bool,
}

impl Packed {
    fn of(known: Known) -> Self {
        let Known { at, entry } = known;
        let (scheme, digest) = entry.fingerprint.unwrap_or_default();
        Self {
            id: halves(entry.id),
            at,
            transport: entry.transport,
            digest,
            scheme,
            has_fingerprint: entry.fingerprint.is_some(),
        }
    }

    fn known(&self) -> Known {
        let fingerprint = self.has_fingerprint.then_some((self.scheme, self.digest));
        let entry = Entry {
            id: self.id(),
            fingerprint,
            transport: self.transport,
        };
        Known { at: self.at, entry }
    }

    fn id(&self) -> u128 {
        let [high, low] = self.id;
        u128::from(high) << 64 | u128::from(low)
    }
}

fn halves(id: u128) -> [u64; 2] {
    let bytes = id.to_be_bytes();
    let half = |at: usize| {
        let mut half = [0; 8];
        half.copy_from_slice(&bytes[at..at + 8]);
        u64::from_be_bytes(half)
    };
    [half(0), half(8)]
}

/// Ids are digests, so any of their bytes will do.
fn mark(id: u128) -> u32 {
    low(halves(id)[1])
}

/// Spreads the mark, so that all bits that a table looks at depend on it.
fn spread(mark: u32) -> u64 {
    u64::from(mark).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the lower half is what is asked for"
)]
const fn low(number: u64) -> u32 {
    number as u32
}

/// The number of entries of a piece, of 48 bytes each.
const PIECE_LEN: usize = 1_024;
const PIECE: u64 = PIECE_LEN as u64;

#[cfg(test)]
mod tests {
    use super::*;

    fn known(id: u128, at: u64) -> Known {
        let fingerprint = (!id.is_multiple_of(3)).then_some((u32::MAX, u64::MAX - at));
        Known {
            at: Timestamp::from_millis(at),
            entry: Entry {
                id,
                fingerprint,
                transport: at << 40 | 5,
            },
        }
    }

    #[test]
    fn what_is_packed_is_known_as_it_was() {
        assert_eq!(size_of::<Packed>(), 48);
        for id in [
            0,
            1,
            u128::MAX,
            u128::MAX << 64,
            u128::from(u64::MAX),
            1 << 127,
        ] {
            assert_eq!(Packed::of(known(id, 17)).known(), known(id, 17));
        }
    }

    /// Compares with the simplest rule there is, with ids that share a mark.
    #[test]
    fn operations_are_those_that_came_last_and_are_not_forgotten() {
        let mut operations = Operations::default();
        let mut plain: Vec<Known> = Vec::new();
        let mut forgotten = 0;
        let id = |number: u64| u128::from(number % 7_000) << 40 | u128::from(number % 500);
        let mut seed = 7_u64;
        for at in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let known = known(id(seed >> 33), at);
            assert_eq!(operations.end(), at);
            operations.insert(known);
            plain.push(known);
            if at % 3_001 == 3_000 {
                forgotten = at - 2_500;
                operations.forget_before(forgotten);
            }
        }
        let mut latest = std::collections::BTreeMap::new();
        for known in plain
            .into_iter()
            .skip(usize::try_from(forgotten).expect("few"))
        {
            latest.insert(known.entry.id, known);
        }
        assert_eq!(operations.len(), latest.len());
        for number in 0..21_000 {
            let id = id(number);
            assert_eq!(operations.get(id), latest.get(&id).copied(), "{id}");
        }
        operations.forget_before(u64::MAX);
        assert_eq!((operations.len(), operations.log.pieces.len()), (0, 1));
        operations.insert(known(1, 1));
        assert_eq!(operations.get(1), Some(known(1, 1)));
    }

    #[test]
    fn numbers_go_on_where_their_lower_half_is_used_up() {
        let begin = (1 << 32) - 2 * PIECE;
        let mut operations = Operations::default();
        (operations.log.first, operations.log.end) = (begin, begin);
        for at in 0..3_000 {
            operations.insert(known(u128::from(at), at));
        }
        let all = |from: u64, operations: &Operations| {
            (0..3_000).all(|at| {
                let found = operations.get(u128::from(at));
                found == (at >= from).then(|| known(u128::from(at), at))
            })
        };
        assert!(all(0, &operations));
        operations.forget_before(begin + 10);
        assert!(all(10, &operations));
        operations.forget_before(begin + 2_990);
        assert!(all(2_990, &operations));
    }
}
