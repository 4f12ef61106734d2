//! Which delivery tags of the present channel are still owed a word, and which ids stand for them.
//!
//! An id is the channel's tag plus a base that rises with each channel, so that an id of an older
//! channel is below the base and means nothing any more.

use std::collections::BTreeSet;

use semel_core::port::source::DeliveryId;

/// The tags of one channel after another.
#[derive(Debug)]
pub(crate) struct Tags {
    /// The highest id of the channels before.
    base: u64,
    /// The highest tag that was handed out.
    seen: u64,
    /// Whether every tag up to `seen` was handed out.
    gapless: bool,
    /// Handed out, and the broker was told nothing of it.
    open: BTreeSet<u64>,
    /// Those of them that are to be given back, and are not yet.
    held: BTreeSet<u64>,
}

/// An acknowledgement as the protocol has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BasicAck {
    pub(crate) tag: u64,
    /// Every open tag up to this one is meant.
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

    /// What to tell the broker so that these are settled, and nothing else. What it was told once, and what
    /// it is to get back, is left out.
    pub(crate) fn settle(&mut self, batch: impl IntoIterator<Item = DeliveryId>) -> Vec<BasicAck> {
        let mut named: Vec<u64> = batch.into_iter().filter_map(|id| self.tag(id)).collect();
        named.sort_unstable();
        named.dedup();
        for tag in &named {
            self.open.remove(tag);
        }
        // Whatever is below the first tag that stays open is either named here or was settled before.
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

    /// Keeps these until they are given back; says whether it is any.
    pub(crate) fn hold(&mut self, batch: &[DeliveryId]) -> bool {
        let tags: Vec<u64> = batch.iter().filter_map(|id| self.tag(*id)).collect();
        let before = self.held.len();
        self.held.extend(tags);
        self.held.len() > before
    }

    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Gives back what is held: the tags to tell the broker.
    pub(crate) fn give_back(&mut self) -> BTreeSet<u64> {
        let held = std::mem::take(&mut self.held);
        for tag in &held {
            self.open.remove(tag);
        }
        held
    }

    /// The channel is gone. The ids that somebody may still have.
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

    /// The tag of an id that is open and not held.
    fn tag(&self, id: DeliveryId) -> Option<u64> {
        let tag = id.0.checked_sub(self.base)?;
        (self.open.contains(&tag) && !self.held.contains(&tag)).then_some(tag)
    }
}

#[cfg(test)]
mod tests;
