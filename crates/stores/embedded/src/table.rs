//! Index of the finished records: 16 bytes for each, in memory.
//!
//! An open-addressing table in shards, probed linearly, its slots in the order of their tags. Order
//! ends a miss early and makes growth one walk from front to back. A shard grows by a quarter and
//! alone, so the memory in use stays under 24 bytes a key and no caller waits for the whole table.
//!
//! A tag is no identity: several slots may share one, and the caller compares the key on disk.

use crate::log::Location;

/// The table.
pub(crate) struct Table {
    shards: Vec<Shard>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot {
    tag: u64,
    segment: u32,
    offset: u32,
}

#[derive(Default)]
struct Shard {
    /// Slots: `homes` of them in which a tag can be at home, and some for those pushed off the end.
    slots: Vec<Slot>,
    homes: usize,
    len: usize,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    pub(crate) const fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns the number of slots in use, those of dropped segments included.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.len).sum()
    }

    /// Brings the homes of `tags` into the cache, all at once instead of one after the other, with their neighbours: a
    /// tag is seldom farther from home.
    #[inline]
    pub(crate) fn warm(&self, tags: impl Iterator<Item = u64>) {
        let mut seen = 0;
        for tag in tags {
            let shard = &self.shards[shard_of(tag)];
            let home = shard.home(tag);
            for at in [home, home + SLOTS_PER_LINE] {
                seen ^= shard.slots.get(at).map_or(0, |slot| slot.offset);
            }
        }
        std::hint::black_box(seen);
    }

    /// Returns the locations under `tag`.
    #[inline]
    pub(crate) fn locations(&self, tag: u64) -> impl Iterator<Item = Location> {
        let shard = &self.shards[shard_of(tag)];
        let first = shard.find(tag);
        shard.slots[first.min(shard.slots.len())..]
            .iter()
            .take_while(move |slot| slot.tag == tag && !slot.is_empty())
            .map(|slot| Location {
                segment: slot.segment,
                offset: slot.offset,
            })
    }

    /// Adds a location under `tag` unless there is one; returns whether it did.
    #[inline]
    pub(crate) fn insert_first(&mut self, tag: u64, location: Location) -> bool {
        let slot = Slot {
            tag,
            segment: location.segment,
            offset: location.offset,
        };
        let shard = &mut self.shards[shard_of(tag)];
        let at = shard.find(tag);
        match shard.slots.get(at) {
            Some(found) if found.tag == tag && !found.is_empty() => return false,
            Some(found) if found.is_empty() && !shard.is_full() => {
                shard.slots[at] = slot;
                shard.len += 1;
            }
            Some(_) | None => shard.insert(slot, 0),
        }
        true
    }

    /// Adds a location under `tag`; slots of segments before `oldest` may go to make room.
    #[inline]
    pub(crate) fn insert(&mut self, tag: u64, location: Location, oldest: u32) {
        let slot = Slot {
            tag,
            segment: location.segment,
            offset: location.offset,
        };
        self.shards[shard_of(tag)].insert(slot, oldest);
    }

    /// Removes a location under `tag`; returns whether it was there.
    pub(crate) fn remove(&mut self, tag: u64, location: Location) -> bool {
        self.shards[shard_of(tag)].remove(Slot {
            tag,
            segment: location.segment,
            offset: location.offset,
        })
    }

    /// Removes the slots of segments before `oldest` from one shard and frees memory; returns how many slots it
    /// visited.
    pub(crate) fn purge(&mut self, shard: usize, oldest: u32) -> usize {
        let Some(shard) = self.shards.get_mut(shard) else {
            return 0;
        };
        let visited = shard.len;
        shard.rebuild(oldest, 0);
        visited
    }
}

impl Slot {
    const EMPTY: Self = Self {
        tag: 0,
        segment: 0,
        offset: 0,
    };

    /// Segments count from 1.
    const fn is_empty(&self) -> bool {
        self.segment == 0
    }
}

impl Shard {
    /// Returns the slot at which the search for `tag` begins.
    #[inline]
    fn home(&self, tag: u64) -> usize {
        let within = u128::from(tag << SHARD_BITS) * self.homes as u128;
        usize::try_from(within >> 64).unwrap_or(usize::MAX)
    }

    /// Returns the first slot of `tag`, or the slot where it would go.
    #[inline]
    fn find(&self, tag: u64) -> usize {
        let mut at = self.home(tag);
        while let Some(slot) = self.slots.get(at) {
            if slot.is_empty() || slot.tag >= tag {
                break;
            }
            at += 1;
        }
        at
    }

    /// Returns whether the shard must grow before anything is added.
    #[inline]
    const fn is_full(&self) -> bool {
        self.len * LOAD_DENOMINATOR >= self.homes * LOAD_NUMERATOR
    }

    fn insert(&mut self, slot: Slot, oldest: u32) {
        if self.is_full() {
            self.rebuild(oldest, 1);
        }
        loop {
            let at = self.find(slot.tag);
            let free = self.slots[at..].iter().position(Slot::is_empty);
            if let Some(run) = free {
                self.slots.copy_within(at..at + run, at + 1);
                self.slots[at] = slot;
                self.len += 1;
                return;
            }
            // Pushed off the end: rare, and the end may be a little longer.
            self.slots.resize(self.slots.len() + END_SLOTS, Slot::EMPTY);
        }
    }

    fn remove(&mut self, slot: Slot) -> bool {
        let mut at = self.find(slot.tag);
        loop {
            match self.slots.get(at) {
                Some(found) if *found == slot => break,
                Some(found) if !found.is_empty() && found.tag == slot.tag => at += 1,
                Some(_) | None => return false,
            }
        }
        // The slots behind move back, as far as they are not at home yet.
        while let Some(next) = self.slots.get(at + 1).copied() {
            if next.is_empty() || self.home(next.tag) > at {
                break;
            }
            self.slots[at] = next;
            at += 1;
        }
        self.slots[at] = Slot::EMPTY;
        self.len -= 1;
        true
    }

    /// Rebuilds the shard, without the slots of segments before `oldest` and with room for `more`. One walk: the order
    /// of tags is the order of homes, whatever their number.
    fn rebuild(&mut self, oldest: u32, more: usize) {
        let lives = |slot: &&Slot| slot.segment >= oldest.max(1);
        let len = self.slots.iter().filter(lives).count();
        let homes = if len + more == 0 {
            0
        } else {
            homes_for(len + more, self.homes)
        };
        let old = std::mem::replace(
            &mut self.slots,
            vec![Slot::EMPTY; homes + END_SLOTS.min(homes / 8)],
        );
        self.homes = homes;
        self.len = len;
        let mut next = 0;
        for slot in old.iter().filter(lives) {
            let at = self.home(slot.tag).max(next);
            if at >= self.slots.len() {
                self.slots.resize(at + END_SLOTS, Slot::EMPTY);
            }
            self.slots[at] = *slot;
            next = at + 1;
        }
    }
}

/// Returns the number of homes for a shard of `len` slots that has `homes` now.
const fn homes_for(len: usize, homes: usize) -> usize {
    // A shard that is kept has some room, so that it is not rebuilt at once; a shard that grows grows by a quarter.
    let roomy = len + len / 3;
    let grown = homes + homes / 4;
    let least = if roomy <= homes && roomy * 2 >= homes {
        homes
    } else if roomy > homes && roomy <= grown {
        grown
    } else {
        roomy
    };
    if least < MIN_HOMES { MIN_HOMES } else { least }
}

const fn shard_of(tag: u64) -> usize {
    (tag >> (64 - SHARD_BITS)) as usize
}

const SHARD_BITS: u32 = 10;
const SHARDS: usize = 1 << SHARD_BITS;
/// Load above which a shard is rebuilt.
const LOAD_NUMERATOR: usize = 17;
const LOAD_DENOMINATOR: usize = 20;
const MIN_HOMES: usize = 8;
/// Slots that come into the cache together.
const SLOTS_PER_LINE: usize = 4;
/// Slots behind the last home.
const END_SLOTS: usize = 32;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A small generator, so that the test is the same each time.
    fn numbers(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }
    }

    #[test]
    fn agrees_with_a_set_under_inserts_removals_and_dropped_segments() {
        let mut random = numbers(1);
        let mut table = Table::new();
        let mut set = BTreeSet::new();
        let mut oldest = 1;
        for step in 0..200_000_u32 {
            // Few shards and few tags, so that tags are shared and runs are long.
            let tag = ((random() % 3) << 54) | ((random() % 512) << 40) | (random() % 3);
            let location = Location {
                segment: oldest + step % 3,
                offset: step,
            };
            let is_first = table.locations(tag).next().is_none();
            if step % 5 == 0 {
                assert_eq!(table.insert_first(tag, location), is_first);
                if is_first {
                    set.insert((tag, location));
                }
            } else if !random().is_multiple_of(3) {
                table.insert(tag, location, oldest);
                set.insert((tag, location));
            } else if let Some(&(tag, location)) = set.range((tag, location)..).next() {
                assert!(table.remove(tag, location), "what was inserted is there");
                set.remove(&(tag, location));
            }
            if step % 20_000 == 0 {
                oldest += 1;
                set.retain(|(_, location)| location.segment >= oldest);
            }
            let mut found: Vec<_> = table
                .locations(tag)
                .filter(|at| at.segment >= oldest)
                .collect();
            found.sort_unstable();
            let min = Location {
                segment: 0,
                offset: 0,
            };
            let expected: Vec<_> = set
                .range((tag, min)..)
                .take_while(|item| item.0 == tag)
                .map(|item| item.1)
                .collect();
            assert_eq!(found, expected);
        }
        for shard in 0..table.shards() {
            table.purge(shard, oldest);
        }
        assert_eq!(table.len(), set.len());
    }

    #[test]
    fn a_key_costs_at_most_24_bytes_while_the_table_grows() {
        let mut random = numbers(2);
        let mut table = Table::new();
        for count in 1..=1_000_000_u32 {
            table.insert(
                random(),
                Location {
                    segment: 1,
                    offset: count,
                },
                1,
            );
            if count >= 100_000 && count % 10_000 == 0 {
                let slots: usize = table
                    .shards
                    .iter()
                    .map(|shard| shard.slots.capacity())
                    .sum();
                let most = if count < 300_000 { 28 } else { 24 };
                assert!(
                    slots * 16 <= count as usize * most,
                    "{slots} slots for {count} keys"
                );
            }
        }
    }
}
