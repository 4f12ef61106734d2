//! Index of the audit entries in one log: 16 bytes per entry, in order.
//!
//! Each entry is stored next to the change it records, in one of two logs; a number that rises over both restores the
//! order. Entry bodies stay on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::log::Location;

/// The entries of one log, in chunks, so that growing copies nothing.
#[derive(Debug, Default)]
pub(crate) struct AuditIndex {
    chunks: Vec<Vec<Spot>>,
}

/// Order and location of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) order: u64,
    pub(crate) location: Location,
}

/// A spot met while replaying, and the length of its entry.
pub(crate) type Met = (Spot, u32);

impl AuditIndex {
    /// Builds the index from the spots met, in any order. Also returns the spots met twice: the older copies of entries
    /// that were carried forward.
    pub(crate) fn of(mut met: Vec<Met>) -> (Self, Vec<Met>) {
        met.sort_unstable_by_key(|(spot, _)| (spot.order, spot.location));
        let mut audit_index = Self::default();
        let mut older = Vec::new();
        for (index, &(spot, len)) in met.iter().enumerate() {
            match met.get(index + 1) {
                Some((next, _)) if next.order == spot.order => older.push((spot, len)),
                Some(_) | None => audit_index.push(spot),
            }
        }
        (audit_index, older)
    }

    /// Adds an entry of a greater order than all before.
    pub(crate) fn push(&mut self, spot: Spot) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_SPOTS => chunk.push(spot),
            Some(_) | None => {
                // The first one is small, since most trails are.
                let room = if self.chunks.is_empty() {
                    4
                } else {
                    CHUNK_SPOTS
                };
                let mut chunk = Vec::with_capacity(room);
                chunk.push(spot);
                self.chunks.push(chunk);
            }
        }
    }

    /// Takes the last entry back.
    pub(crate) fn pop(&mut self) -> Option<Spot> {
        let chunk = self.chunks.last_mut()?;
        let spot = chunk.pop();
        if chunk.is_empty() {
            self.chunks.pop();
        }
        spot
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> u64 {
        self.chunks.iter().map(|it| it.len() as u64).sum()
    }

    /// Returns the location of the entry of `order`.
    pub(crate) fn location(&self, order: u64) -> Option<Location> {
        let spot = self.from(order).next()?;
        (spot.order == order).then_some(spot.location)
    }

    /// Notes a new location for the entry of `order`.
    pub(crate) fn relocate(&mut self, order: u64, location: Location) {
        let (chunk, at) = self.find(order);
        let spot = self.chunks.get_mut(chunk).and_then(|it| it.get_mut(at));
        if let Some(spot) = spot.filter(|spot| spot.order == order) {
            spot.location = location;
        }
    }

    /// Returns the entries from `order` on.
    pub(crate) fn from(&self, order: u64) -> impl Iterator<Item = Spot> {
        let (chunk, at) = self.find(order);
        let rest = self.chunks.get(chunk).map_or(&[][..], |it| &it[at..]);
        let later = self.chunks.get(chunk + 1..).unwrap_or_default();
        rest.iter().chain(later.iter().flatten()).copied()
    }

    /// Returns chunk and index of the first entry from `order` on.
    fn find(&self, order: u64) -> (usize, usize) {
        let is_before = |chunk: &Vec<Spot>| chunk.last().is_some_and(|last| last.order < order);
        let chunk = self.chunks.partition_point(is_before);
        let at = self.chunks.get(chunk);
        let at = at.map_or(0, |it| it.partition_point(|spot| spot.order < order));
        (chunk, at)
    }
}

/// Numbers the entries over both logs. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders(Arc<AtomicU64>);

impl Orders {
    /// Returns the next order. A number that is not used is a gap, which does no harm.
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes an order that is in use.
    pub(crate) fn seen(&self, order: u64) {
        self.0.fetch_max(order, Ordering::Relaxed);
    }
}

const CHUNK_SPOTS: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(order: u64, offset: u32) -> Spot {
        let location = Location { segment: 1, offset };
        Spot { order, location }
    }

    #[test]
    fn entries_are_found_from_any_order_on() {
        let mut audit_index = AuditIndex::default();
        let count = 3 * CHUNK_SPOTS as u64 + 7;
        for order in 1..=count {
            audit_index.push(spot(order * 2, 8));
        }
        for from in [0, 1, 2, 3, 8_191, 8_192, 8_193, 8_194, count * 2] {
            let found: Vec<_> = audit_index.from(from).map(|spot| spot.order).collect();
            let expected: Vec<_> = (1..=count)
                .map(|it| it * 2)
                .filter(|it| *it >= from)
                .collect();
            assert_eq!(found, expected, "from {from}");
        }
        assert_eq!(audit_index.location(3), None);
        audit_index.relocate(8_194, spot(0, 99).location);
        assert_eq!(audit_index.location(8_194), Some(spot(0, 99).location));
        assert_eq!(audit_index.pop(), Some(spot(count * 2, 8)));
        while audit_index.pop().is_some() {}
        assert_eq!(audit_index.from(0).count(), 0);
    }

    #[test]
    fn of_two_copies_the_later_one_counts() {
        let met = vec![(spot(3, 8), 10), (spot(9, 16), 11), (spot(3, 24), 10)];
        let (audit_index, older) = AuditIndex::of(met);
        assert_eq!(older, [(spot(3, 8), 10)]);
        let all: Vec<_> = audit_index.from(0).collect();
        assert_eq!(all, [spot(3, 24), spot(9, 16)]);
    }

    #[test]
    fn an_entry_costs_16_bytes() {
        assert_eq!(size_of::<Spot>(), 16);
    }
}
