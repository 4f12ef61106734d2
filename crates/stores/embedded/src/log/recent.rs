//! The end of the log, kept in memory: the most recent writes, within bounds.
//!
//! Serves a caller that reads back much of its recent writes, in many small pieces: a read of the file costs more than
//! the comparison that it is for. Holds nothing unless a caller wants it.

use std::ops::Range;

/// The most recent writes, in a ring. Positions are those of the whole log: a segment begins where the one before
/// ended.
#[derive(Debug, Default)]
pub(super) struct Recent {
    ring: Vec<u8>,
    /// Positions that are held.
    held: Range<u64>,
    /// Number of further groups for which it is wanted.
    wanted_for: u32,
}

impl Recent {
    /// Keeps the writes from here on, until nobody has wanted them for a while.
    pub(super) const fn want(&mut self) {
        self.wanted_for = WANTED_GROUPS;
    }

    /// Returns whether the bytes at `position` would be here, had they been kept, in a log that ends at `end`.
    pub(super) const fn reaches(position: u64, end: u64) -> bool {
        end.saturating_sub(position) <= RING_BYTES as u64
    }

    /// Takes in a group that was written at `position`.
    pub(super) fn wrote(&mut self, position: u64, group: &[u8]) {
        if self.wanted_for == 0 {
            return;
        }
        self.wanted_for -= 1;
        if self.wanted_for == 0 {
            *self = Self::default();
            return;
        }
        if self.ring.is_empty() {
            // Not touched, and so not in use, before something is written there.
            self.ring = vec![0; RING_BYTES];
            self.held = position..position;
        }
        let end = position + group.len() as u64;
        let skipped = group.len().saturating_sub(RING_BYTES);
        let mut at = within(position + skipped as u64);
        let mut rest = &group[skipped..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(RING_BYTES - at));
            self.ring[at..at + now.len()].copy_from_slice(now);
            (rest, at) = (later, 0);
        }
        let first = end.saturating_sub(RING_BYTES as u64);
        self.held = self.held.start.max(first)..end;
    }

    /// Returns the bytes from `position` on, as far as they are here in one piece.
    #[inline]
    pub(super) fn get(&self, position: u64) -> Option<&[u8]> {
        if !self.held.contains(&position) {
            return None;
        }
        let start = within(position);
        let len = usize::try_from(self.held.end - position).unwrap_or(usize::MAX);
        self.ring
            .get(start..RING_BYTES.min(start.saturating_add(len)))
    }
}

/// Returns the index of a position in the ring.
#[inline]
fn within(position: u64) -> usize {
    usize::try_from(position % RING_BYTES as u64).unwrap_or(0)
}

/// Number of groups after which a ring that nobody wanted is freed.
const WANTED_GROUPS: u32 = 64;
const RING_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_last_is_there_and_nothing_else() {
        let mut recent = Recent::default();
        recent.wrote(40, b"not wanted yet");
        assert_eq!(recent.get(40), None);
        let mut position = 54;
        let begin = position;
        let mut groups = Vec::new();
        for number in 0..30 {
            recent.want();
            // A new segment leaves a gap.
            position += if number % 4 == 3 { 80 } else { 0 };
            let group = vec![number; 5_000_000 + usize::from(number)];
            recent.wrote(position, &group);
            groups.push((position, number));
            position += group.len() as u64;
        }
        assert_eq!(recent.get(position), None, "behind the end");
        assert_eq!(recent.get(begin), None, "long gone");
        let oldest = position - RING_BYTES as u64;
        assert_eq!(recent.get(oldest - 1), None);
        assert!(recent.get(oldest).is_some());
        let reached = [oldest - 1, oldest, position].map(|at| Recent::reaches(at, position));
        assert_eq!(reached, [false, true, true]);
        for (start, number) in groups.into_iter().filter(|(start, _)| *start >= oldest) {
            for at in [start, start + 4_999_999] {
                let bytes = recent.get(at).expect("it is there");
                assert_eq!(bytes[0], number);
                assert!(bytes.len() as u64 <= position - at);
            }
        }
        let whole = vec![77; RING_BYTES + 9];
        recent.wrote(position, &whole);
        assert_eq!(recent.get(position + 8), None);
        assert_eq!(recent.get(position + 9).map(|bytes| bytes[0]), Some(77));
    }

    #[test]
    fn nothing_is_kept_once_nobody_wants_it() {
        let mut recent = Recent::default();
        recent.want();
        for group in 0..u64::from(WANTED_GROUPS) {
            recent.wrote(40 + 8 * group, &[1; 8]);
        }
        assert_eq!((recent.ring.len(), recent.get(40)), (0, None));
    }
}
