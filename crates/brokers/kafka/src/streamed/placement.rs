//! Check that records of one key are in one partition, as far as the records themselves tell.
//!
//! A record tells by its own key: that must be the key of its operation, and its partition the one where a partitioner
//! puts that key. A second partitioner, or added partitions, put a key in two places, and neither changelog has the
//! operations of the other one.

use std::fmt;

/// Common properties of the records seen so far.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// Partitioners that would have put all of them where they are.
    possible: Vec<Partitioner>,
}

/// A function from a key to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Partitioner {
    /// The one of Kafka's own clients: murmur2.
    Murmur2,
    /// The one of librdkafka unless it is configured otherwise: CRC-32.
    Crc32,
}

/// Reason why records of one key may be in several partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misplaced {
    NoKey,
    OtherKey,
    NoPartitioner,
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoKey => "it has no record key, so its key may be in any partition",
            Self::OtherKey => {
                "its record key is another than its operation's, so one operation may be in several \
                 partitions"
            }
            Self::NoPartitioner => {
                "no one partitioner puts the keys that were seen where they are: there are several, or \
                 partitions were added"
            }
        })
    }
}

impl Placement {
    pub(crate) fn new() -> Self {
        Self {
            possible: vec![Partitioner::Murmur2, Partitioner::Crc32],
        }
    }

    /// Takes a record into account that has this key, for an operation of this key, in a topic of so many partitions.
    pub(crate) fn see(
        &mut self,
        record_key: Option<&[u8]>,
        operation_key: &[u8],
        partition: i32,
        count: i32,
    ) -> Result<(), Misplaced> {
        if count < 2 {
            return Ok(());
        }
        let key = record_key.ok_or(Misplaced::NoKey)?;
        let number = operation_key
            .strip_prefix(b"json:")
            .unwrap_or(operation_key);
        if key != operation_key && key != number {
            return Err(Misplaced::OtherKey);
        }
        self.possible
            .retain(|partitioner| partitioner.place(key, count) == partition);
        if self.possible.is_empty() {
            return Err(Misplaced::NoPartitioner);
        }
        Ok(())
    }
}

impl Partitioner {
    fn place(self, key: &[u8], count: i32) -> i32 {
        let count = count.unsigned_abs();
        let place = match self {
            Self::Murmur2 => (murmur2(key) & 0x7fff_ffff) % count,
            Self::Crc32 => crc32fast::hash(key) % count,
        };
        place.cast_signed()
    }
}

/// Computes the hash of Kafka's own clients.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut hash = 0x9747_b28c ^ length;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_is_that_of_kafka() {
        // The values of Kafka's own tests.
        for (key, expected) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), expected, "{key}");
        }
    }

    #[test]
    fn one_partitioner_is_enough_and_two_are_too_many() {
        let count = 8;
        for (mine, other) in [
            (Partitioner::Murmur2, Partitioner::Crc32),
            (Partitioner::Crc32, Partitioner::Murmur2),
        ] {
            let mut placement = Placement::new();
            for number in 0..100 {
                let key = format!("pay-{number}");
                let place = mine.place(key.as_bytes(), count);
                let seen = placement.see(Some(key.as_bytes()), key.as_bytes(), place, count);
                assert_eq!(seen, Ok(()), "{key}");
            }
            let stray = (0..100)
                .map(|number| format!("pay-{number}"))
                .find(|key| mine.place(key.as_bytes(), count) != other.place(key.as_bytes(), count))
                .expect("they differ");
            let place = other.place(stray.as_bytes(), count);
            let seen = placement.see(Some(stray.as_bytes()), stray.as_bytes(), place, count);
            assert_eq!(seen, Err(Misplaced::NoPartitioner));
        }
    }

    #[test]
    fn a_record_tells_by_its_own_key() {
        let mut placement = Placement::new();
        assert_eq!(placement.see(None, b"a", 0, 4), Err(Misplaced::NoKey));
        assert_eq!(
            placement.see(Some(b"b"), b"a", 0, 4),
            Err(Misplaced::OtherKey)
        );
        // Whatever it is, there is no other partition.
        assert_eq!(placement.see(None, b"a", 0, 1), Ok(()));
    }

    #[test]
    fn a_number_is_its_digits() {
        let mut placement = Placement::new();
        let place = Partitioner::Murmur2.place(b"17", 4);
        assert_eq!(placement.see(Some(b"17"), b"json:17", place, 4), Ok(()));
    }
}
