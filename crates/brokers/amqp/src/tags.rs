//! Delivery tags of the present channel that still need an answer, and the ids that stand for them.
//!
//! An id is the channel's tag plus a base that rises with each channel, so that an id of an older channel is below the
//! base and no longer valid.

use std::collections::BTreeSet;

use semel_core::port::source::DeliveryId;

/// The tags of one channel after another.
#[derive(Debug)]
pub(crate) struct Tags {
    /// The highest id of the earlier channels.
    base: u64,
    /// The highest tag that was handed out.
    seen: u64,
    /// Set while every tag up to `seen` was handed out.
    gapless: bool,
    /// Tags that were handed out, and of which the broker was told nothing.
    open: BTreeSet<u64>,
    /// Those of them that are to be given back, and are not yet.
    held: BTreeSet<u64>,
}

/// An acknowledgement as the protocol has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BasicAck {
    pub(crate) tag: u64,
    /// Set if it covers every open tag up to this one.
    pub(crate) is_multiple: bool,
}

impl Tags {
    pub(crate) fn new() -> Self {
        Self {
            base: 0,
            seen: 0,
            gapless: true,
            open: BTreeSet::new(),
            held: BTreeSet::new(),
        }
    }

    /// Hands out `tag`, in the order of the channel.
    pub(crate) fn hand_out(&mut self, tag: u64) -> DeliveryId {
        self.gapless &= tag == self.seen + 1;
        self.seen = self.seen.max(tag);
        self.open.insert(tag);
        DeliveryId(self.base + tag)
    }

    /// Returns the acknowledgements that settle these, and nothing else. Tags that were acknowledged before, or are to
    /// be given back, are left out.
    pub(crate) fn settle(&mut self, batch: impl IntoIterator<Item = DeliveryId>) -> Vec<BasicAck> {
        let mut named: Vec<u64> = batch.into_iter().filter_map(|id| self.tag(id)).collect();
        named.sort_unstable();
        named.dedup();
        for tag in &named {
            self.open.remove(tag);
        }
        // Every tag below the first one that stays open is either named here or was settled before.
        let first_open = self.open.first().copied().unwrap_or(u64::MAX);
        let together = if self.gapless {
            named.partition_point(|tag| *tag < first_open)
        } else {
            0
        };
        let (together, alone) = named.split_at(together);
        let together = together.last().map(|tag| BasicAck {
            tag: *tag,
            is_multiple: together.len() > 1,
        });
        let alone = alone.iter().map(|tag| BasicAck {
            tag: *tag,
            is_multiple: false,
        });
        together.into_iter().chain(alone).collect()
    }

    /// Keeps these until they are given back; returns whether there are any.
    pub(crate) fn hold(&mut self, batch: &[DeliveryId]) -> bool {
        let tags: Vec<u64> = batch.iter().filter_map(|id| self.tag(*id)).collect();
        let before = self.held.len();
        self.held.extend(tags);
        self.held.len() > before
    }

    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes the held tags, for the broker to take back.
    pub(crate) fn give_back(&mut self) -> BTreeSet<u64> {
        let held = std::mem::take(&mut self.held);
        for tag in &held {
            self.open.remove(tag);
        }
        held
    }

    /// Notes that the channel is gone. Returns the ids that the caller may still have.
    pub(crate) fn lose(&mut self) -> Vec<DeliveryId> {
        let lost = self.open.difference(&self.held);
        let lost = lost.map(|tag| DeliveryId(self.base + tag)).collect();
        // With the bug, ids of the next channel are those of this one.
        let is_new = !semel_core::planted("K05");
        let base = self.base + if is_new { self.seen } else { 0 };
        *self = Self {
            base,
            ..Self::new()
        };
        lost
    }

    /// Returns the tag of an id that is open and not held.
    fn tag(&self, id: DeliveryId) -> Option<u64> {
        let tag = id.0.checked_sub(self.base)?;
        (self.open.contains(&tag) && !self.held.contains(&tag)).then_some(tag)
    }
}

#[cfg(test)]
mod tests;
