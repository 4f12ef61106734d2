//! Reading ahead: loads the entries that the next items of a batch will be compared with before the first of them is
//! decided, in the order of the disk, neighbours at once.
//!
//! A duplicate is recognized by its whole key, which is on disk. Waiting for each read alone takes longer than
//! everything else about the item. Not a cache: it is forgotten with the batch.

use crate::digest::Addresses;
use crate::entry::Header;
use crate::log::{Location, Log};
use crate::table::Table;

/// The entries that were read ahead.
#[derive(Debug, Default)]
pub(super) struct Readahead {
    /// The number of the first item that was read ahead for.
    first: usize,
    /// For each of these items, the location of its entry, and the position in `bytes` that it was read to.
    items: Vec<Option<(Location, usize)>>,
    /// The wanted locations in the order of the disk, each with the item that wants it.
    wanted: Vec<(Location, usize)>,
    /// The bytes read, group by group.
    bytes: Vec<u8>,
    /// Bytes of an entry that are read at first: as many as the longest took the last time.
    lead_len: usize,
    longest: usize,
}

impl Readahead {
    /// Items that are read ahead for at once: few enough to stay in the cache.
    pub(super) const ITEMS: usize = 256;

    /// Reads the entries that the table places for the items from `first` on. An entry that cannot be read is left to
    /// the later look-up.
    ///
    /// Returns whether so many of them were written a moment ago that recent writes are better kept in memory.
    pub(super) fn read(
        &mut self,
        log: &Log,
        table: &Table,
        addresses: &Addresses,
        first: usize,
    ) -> bool {
        self.forget();
        let count = addresses.len().saturating_sub(first).min(Self::ITEMS);
        table.warm(addresses.tags(first, count));
        if count < LEAST_ITEMS {
            return false;
        }
        self.first = first;
        self.items.resize(count, None);
        let mut at_hand = [&[][..]; Self::ITEMS];
        let mut count_at_hand = 0;
        let mut count_recent = 0;
        for (number, tag) in addresses.tags(first, count).enumerate() {
            let Some(location) = table.locations(tag).next() else {
                continue;
            };
            match log.in_memory(location) {
                Some(bytes) => {
                    at_hand[count_at_hand] = bytes;
                    count_at_hand += 1;
                    count_recent += 1;
                }
                None if log.is_written(location) => {
                    count_recent += usize::from(log.is_recent(location));
                    self.wanted.push((location, number));
                }
                None => {}
            }
        }
        touch(&at_hand[..count_at_hand]);
        self.wanted.sort_unstable();
        if self.longest > 0 {
            self.lead_len = self.longest.next_multiple_of(32);
            self.longest = 0;
        }
        self.lead_len = self.lead_len.clamp(LEAST_LEAD, MOST_LEAD);
        let wanted = std::mem::take(&mut self.wanted);
        let mut rest = &wanted[..];
        while let Some((first, _)) = rest.first() {
            let mut end = first.offset as usize + self.lead_len;
            let mut count = 1;
            for (next, _) in &rest[1..] {
                let is_near = next.segment == first.segment
                    && next.offset as usize <= end + NEAR
                    && next.offset - first.offset < MOST_AT_ONCE;
                if !is_near {
                    break;
                }
                end = next.offset as usize + self.lead_len;
                count += 1;
            }
            let (group, others) = rest.split_at(count);
            self.read_group(log, group, *first, end - first.offset as usize);
            rest = others;
        }
        self.wanted = wanted;
        count_recent * RECENT >= count
    }

    /// Returns the bytes that were read for this item at `location`.
    #[inline]
    pub(super) fn get(&self, number: usize, location: Location) -> Option<&[u8]> {
        let (at, start) = (*self.items.get(number.wrapping_sub(self.first))?)?;
        if at != location {
            return None;
        }
        self.bytes.get(start..)
    }

    /// Forgets the entries that were read.
    pub(super) fn forget(&mut self) {
        self.items.clear();
        self.wanted.clear();
        self.bytes.clear();
    }

    fn read_group(&mut self, log: &Log, group: &[(Location, usize)], first: Location, len: usize) {
        let start = self.bytes.len();
        let Some(read) = log.read_into(first, len, &mut self.bytes) else {
            return;
        };
        for (location, number) in group {
            let at = start + (location.offset - first.offset) as usize;
            let bytes = self.bytes.get(at..start + read).unwrap_or_default();
            let lead_len = Header::decode(bytes).map_or(0, |header| header.lead_len());
            self.longest = self.longest.max(lead_len);
            if lead_len <= bytes.len()
                && let Some(item) = self.items.get_mut(*number)
            {
                *item = Some((*location, at));
            }
        }
    }
}

/// Touches the memory that comparisons will need, all at once instead of one after the other.
fn touch(entries: &[&[u8]]) {
    let mut seen = 0;
    for bytes in entries {
        for at in [0, 64, 128] {
            seen ^= bytes.get(at).copied().unwrap_or(0);
        }
    }
    std::hint::black_box(seen);
}

/// Fewer items than this are not worth it.
const LEAST_ITEMS: usize = 8;
const LEAST_LEAD: usize = 128;
const MOST_LEAD: usize = 4_096;
/// Share of recent items (one in so many) from which keeping all recent writes costs less than reading them back.
const RECENT: usize = 16;
/// A gap that is read over rather than read around: the fixed cost of a read, in bytes.
const NEAR: usize = 4_096;
const MOST_AT_ONCE: u32 = 1 << 16;
