//! Names of keys: every key of an operation carries the hash tag of its bucket, so that one script can reach all keys
//! of the bucket.
//!
//! On a single server there is one bucket. On a cluster there are many, spread evenly over the slots, so that no
//! slot is hot and no tag depends on anything that a user wrote.

use semel_core::{OpId, ParkedId};

use crate::slots::{SLOTS, slot_of};

/// The buckets of a store.
#[derive(Debug)]
pub(crate) struct Buckets {
    prefix: Box<str>,
    tags: Vec<(Box<str>, u16)>,
}

impl Buckets {
    /// Creates as many buckets as the store was created with.
    pub(crate) fn new(prefix: &str, count: u16) -> Self {
        let tag = |number: u16| {
            let width = SLOTS / count.clamp(1, MOST);
            // The first number that falls into the bucket's share of the slots.
            let mut numbers = 0_u32..;
            loop {
                let tag = numbers.next().unwrap_or_default().to_string();
                let slot = slot_of(&tag);
                if slot / width == number {
                    return (tag.into(), slot);
                }
            }
        };
        Self {
            prefix: prefix.into(),
            tags: (0..count.clamp(1, MOST)).map(tag).collect(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.tags.len()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.tags.len()
    }

    /// Returns the bucket of an operation or an entity.
    pub(crate) fn of(&self, id: &OpId) -> usize {
        let [first, second, ..] = *id.as_bytes();
        self.at(first, second)
    }

    /// Returns the bucket of a producer.
    pub(crate) fn of_producer(&self, name: &str) -> usize {
        let [first, second, ..] = *blake3::hash(name.as_bytes()).as_bytes();
        self.at(first, second)
    }

    /// Returns the bucket of a message.
    pub(crate) fn of_parked(&self, id: ParkedId) -> usize {
        let [first, second, ..] = id.to_bytes();
        self.at(first, second)
    }

    fn at(&self, first: u8, second: u8) -> usize {
        usize::from(u16::from_be_bytes([first, second])) % self.tags.len()
    }

    pub(crate) fn slot(&self, bucket: usize) -> u16 {
        self.tags[bucket].1
    }

    /// Returns the key of this name.
    pub(crate) fn key(&self, bucket: usize, name: Name) -> Vec<u8> {
        let tag = &self.tags[bucket].0;
        format!("{}:{{{tag}}}:{}", self.prefix, name.letter()).into_bytes()
    }

    /// Returns the key of a record or an entity.
    pub(crate) fn id_key(&self, bucket: usize, name: Name, id: &OpId) -> Vec<u8> {
        let mut key = self.key(bucket, name);
        key.extend_from_slice(id.as_bytes());
        key
    }

    /// Returns a bucket's share of the stamps, as an argument of scripts: its number, and the number of buckets.
    pub(crate) fn share(&self, bucket: usize) -> [u8; 4] {
        let number = |number: usize| u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
        let ([a, b], [c, d]) = (number(bucket), number(self.count()));
        [a, b, c, d]
    }

    /// Returns the keys that every script begins with.
    pub(crate) fn fixed(&self, bucket: usize) -> Vec<Vec<u8>> {
        let names = [
            Name::Counter,
            Name::Runs,
            Name::Journal,
            Name::Live,
            Name::Listed,
            Name::Due,
        ];
        names
            .into_iter()
            .map(|name| self.key(bucket, name))
            .collect()
    }
}

/// Returns the key of the store's own settings, whatever its buckets are.
pub(crate) fn settings_key(prefix: &str) -> Vec<u8> {
    format!("{prefix}:{{0}}:m").into_bytes()
}

/// Returns the key of the settings of the journal of producers, in the slot of [`settings_key`].
pub(crate) fn producers_key(prefix: &str) -> Vec<u8> {
    format!("{prefix}:{{0}}:g").into_bytes()
}

/// Returns the slot of [`settings_key`].
pub(crate) fn settings_slot() -> u16 {
    slot_of("0")
}

/// Contents of a bucket's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    /// The last stamp and the last number of a token under it.
    Counter,
    /// The server processes that have counted.
    Runs,
    /// Ids of records, in the order in which they were added.
    Journal,
    /// Counts of the claimed or started records in each segment of the journal.
    Live,
    /// Records that are more than simply under way or done.
    Listed,
    /// Records that a sweep has to look at, with the times.
    Due,
    /// One record.
    Record,
    /// One entity.
    Entity,
    /// Ids of entities, in the order in which they came.
    Entities,
    /// Parked messages.
    Parked,
    /// Their order.
    ParkedOrder,
    /// The audit trail.
    Audit,
    /// Digests of its entries.
    AuditDigests,
    /// Named numbers.
    Marks,
    /// Nothing: commands are tried on this key.
    Scratch,
    /// Producers, by name.
    Producers,
    /// The streams of a producer.
    ProducerStreams,
    /// The messages of a stream that are not confirmed.
    ProducerBatches,
    /// The inputs of a stream.
    ProducerInputs,
}

impl Name {
    const fn letter(self) -> char {
        match self {
            Self::Counter => 'c',
            Self::Runs => 'n',
            Self::Journal => 'j',
            Self::Live => 'l',
            Self::Listed => 'o',
            Self::Due => 'd',
            Self::Record => 'r',
            Self::Entity => 'e',
            Self::Entities => 'f',
            Self::Parked => 'p',
            Self::ParkedOrder => 'q',
            Self::Audit => 'a',
            Self::AuditDigests => 'x',
            Self::Marks => 'k',
            Self::Scratch => 't',
            Self::Producers => 'h',
            Self::ProducerStreams => 's',
            Self::ProducerBatches => 'b',
            Self::ProducerInputs => 'i',
        }
    }
}

/// Buckets that a store on a cluster is created with.
pub(crate) const OF_CLUSTER: u16 = 64;
/// More would be less than sixteen slots each.
const MOST: u16 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_of_a_cluster_are_spread_evenly_over_its_slots() {
        let buckets = Buckets::new("semel", OF_CLUSTER);
        let mut thirds = [0; 3];
        for bucket in buckets.all() {
            let key = String::from_utf8(buckets.key(bucket, Name::Journal)).expect("text");
            let tag = key.split(['{', '}']).nth(1).expect("a tag");
            assert_eq!(slot_of(tag), buckets.slot(bucket), "{key}");
            thirds[usize::from(buckets.slot(bucket)) * 3 / usize::from(SLOTS)] += 1;
        }
        assert_eq!(thirds, [21, 22, 21]);
    }

    #[test]
    fn a_single_server_has_one_bucket_beside_its_settings() {
        let buckets = Buckets::new("shop", 1);
        assert_eq!(buckets.key(0, Name::Counter), b"shop:{0}:c");
        assert_eq!(
            (settings_key("shop"), settings_slot()),
            (b"shop:{0}:m".to_vec(), buckets.slot(0))
        );
        assert_eq!(buckets.of(&OpId::from_bytes([255; 32])), 0);
    }
}
