//! The memory of the cache, bounded in bytes: two generations, the older one dropped whole.
//!
//! Not for judging whether an entry may be used.

#[expect(
    clippy::disallowed_types,
    reason = "keyed by hashes already; its order decides nothing"
)]
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use semel_core::OpId;
use semel_core::key::OpIdHasher;

use super::entry::Entry;

/// The layer's knowledge of a key.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// Its record was read.
    Read(Arc<Entry>),
    /// It was completed when it was last heard of; nothing of its record is known.
    Likely,
}

/// Entries and hints by operation. A key that is looked up moves to the younger generation; once that
/// takes half of the allowed memory, the older one is dropped and the younger takes its place.
#[derive(Debug)]
pub(super) struct Memory {
    young: Generation,
    old: Generation,
    most_bytes: usize,
    epoch: u64,
    /// Orders of this process that are under way.
    orders: usize,
}

#[derive(Debug, Default)]
struct Generation {
    known: Places,
    bytes: usize,
}

#[expect(
    clippy::disallowed_types,
    reason = "keyed by hashes already; its order decides nothing"
)]
type Places = HashMap<OpId, Known, BuildHasherDefault<OpIdHasher>>;

impl Memory {
    /// Returns an empty memory for `most_bytes`.
    pub(super) fn new(most_bytes: usize) -> Self {
        Self {
            young: Generation::default(),
            old: Generation::default(),
            most_bytes,
            epoch: 0,
            orders: 0,
        }
    }

    /// Returns the knowledge of `id`.
    pub(super) fn look(&mut self, id: &OpId) -> Option<Known> {
        if let Some(known) = self.young.known.get(id) {
            return Some(known.clone());
        }
        let known = self.old.take(id)?;
        self.add(*id, known.clone());
        Some(known)
    }

    /// Keeps an entry, in place of anything known before.
    pub(super) fn put(&mut self, id: OpId, entry: Entry) {
        self.evict(&id);
        self.add(id, Known::Read(Arc::new(entry)));
    }

    /// Notes that a key was completed, unless more is known.
    pub(super) fn hint(&mut self, id: OpId) {
        if self.look(&id).is_none() {
            self.add(id, Known::Likely);
        }
    }

    /// Forgets a key.
    pub(super) fn evict(&mut self, id: &OpId) {
        self.young.take(id);
        self.old.take(id);
    }

    /// Returns a number that rises with every order of this process.
    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Tells whether no order was under way since `epoch`: a record that was read before the end of
    /// an order may be older than it.
    pub(super) const fn is_undisturbed(&self, epoch: u64) -> bool {
        self.epoch == epoch && self.orders == 0
    }

    /// Notes that an order about these keys begins.
    pub(super) fn order_begins(&mut self, ids: &[OpId]) {
        self.orders += 1;
        self.ordered(ids);
    }

    /// Notes that an order about these keys is over, or that its caller no longer waits for its end.
    pub(super) fn order_ends(&mut self, ids: &[OpId]) {
        self.orders -= 1;
        self.ordered(ids);
    }

    fn ordered(&mut self, ids: &[OpId]) {
        self.epoch += 1;
        if !semel_core::planted("T06") {
            for id in ids {
                self.evict(id);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.young.known.len() + self.old.known.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.young.bytes + self.old.bytes
    }

    /// Tells whether another entry would soon push others out.
    pub(super) const fn is_half_full(&self) -> bool {
        self.bytes() >= self.most_bytes / 2
    }

    fn add(&mut self, id: OpId, known: Known) {
        let bytes = weight(&known);
        if bytes > self.most_bytes / 2 {
            return;
        }
        if self.young.bytes + bytes > self.most_bytes / 2 && !semel_core::planted("T11") {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.bytes += bytes;
        self.young.known.insert(id, known);
    }
}

impl Generation {
    fn take(&mut self, id: &OpId) -> Option<Known> {
        let known = self.known.remove(id)?;
        self.bytes -= weight(&known);
        Some(known)
    }
}

/// Returns the bytes that an entry takes, its place in the table included.
fn weight(known: &Known) -> usize {
    match known {
        Known::Likely => PLACE_BYTES,
        Known::Read(entry) => PLACE_BYTES + ENTRY_BYTES + entry.extra_bytes(),
    }
}

/// A key, the knowledge of it, and the share of a table that is on average two thirds full.
const PLACE_BYTES: usize = (size_of::<(OpId, Known)>() + 1) * 3 / 2;
/// An entry with the counters of its handle and the bytes to which the allocator rounds up.
const ENTRY_BYTES: usize = size_of::<Entry>() + 32;
