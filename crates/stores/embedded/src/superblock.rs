//! The superblock: identifies the folder as a store, and holds the values that must outlive
//! everything else in it.
//!
//! Replaced whole (new file, sync, rename, directory sync), so that it is the old or the new one
//! after a crash, never a mixture.

use semel_core::{FencingToken, Result};

use crate::error;
use crate::files::{File, Files};
use crate::wire::Take;

/// The newest format, which is the one that this version writes.
pub(crate) const VERSION: u32 = 3;
/// The oldest format that this version reads.
const OLDEST_VERSION: u32 = 1;
/// The name of the superblock.
pub(crate) const NAME: &str = "superblock";
/// The name under which the next one is written.
pub(crate) const NEXT_NAME: &str = "superblock.new";

/// A place up to which a log is proven to have been durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The segment; 0 before the first.
    pub(crate) segment: u32,
    /// The length of it that was durable.
    pub(crate) offset: u32,
}

/// The contents of the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Random id, so that two stores can be told apart.
    pub(crate) store_id: [u8; 16],
    /// Random key of the hash, so that no client can make keys collide.
    pub(crate) hash_key: [u8; 16],
    /// Number that rises with every opening; the high bits of the fencing tokens.
    pub(crate) epoch: u64,
    /// Position up to which the log of records was proven durable when this was written.
    pub(crate) records: Position,
    /// The same for the log of parked messages.
    pub(crate) parked: Position,
}

/// Returns the fencing token before the first one of `epoch`.
pub(crate) const fn token_of(epoch: u64) -> u64 {
    epoch << COUNTER_BITS
}

/// Returns the epoch that a fencing token belongs to.
pub(crate) const fn epoch_of(token: FencingToken) -> u64 {
    token.get() >> COUNTER_BITS
}

impl Superblock {
    /// Reads the superblock, if there is one.
    pub(crate) fn read(files: &dyn Files) -> Result<Self> {
        let file = files
            .open(NAME)
            .map_err(|error| error::unopened("opening the superblock", error))?;
        Self::read_from(&*file)
    }

    /// Reads the superblock in `file`.
    pub(crate) fn read_from(file: &dyn File) -> Result<Self> {
        // One byte more than there should be, so that a longer file is noticed.
        let mut bytes = [0; LEN + 1];
        let len = file
            .read_at(&mut bytes, 0)
            .map_err(|error| error::unopened("reading the superblock", error))?;
        let bytes = &bytes[..len];
        let mut take = Take::new(bytes);
        if take.array() != Some(MAGIC) {
            return Err(error::foreign(
                "the folder's superblock is not that of a semel store",
            ));
        }
        match take.u32() {
            Some(OLDEST_VERSION..=VERSION) => {}
            Some(version) if version > VERSION => return Err(error::newer(version, VERSION)),
            _ => return Err(error::corrupt(NAME, 8, "no such version")),
        }
        let superblock = Self::decode(bytes)
            .ok_or_else(|| error::corrupt(NAME, 0, "wrong checksum or length"))?;
        // Beyond it, tokens would begin at zero again.
        if superblock.epoch >= LAST_EPOCH {
            return Err(error::corrupt(NAME, 44, "no epoch is left"));
        }
        Ok(superblock)
    }

    /// Returns the format that the superblock in `file` names.
    pub(crate) fn version_in(file: &dyn File) -> Result<u32> {
        Self::read_from(file)?;
        let mut bytes = [0; 4];
        file.read_at(&mut bytes, MAGIC.len() as u64)
            .map_err(|error| error::unopened("reading the superblock", error))?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Replaces the superblock durably.
    pub(crate) fn write(&self, files: &dyn Files) -> std::io::Result<()> {
        let file = files.create(NEXT_NAME)?;
        file.write_at(&self.encode(), 0)?;
        file.sync()?;
        files.rename(NEXT_NAME, NAME)?;
        files.sync_dir()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEN);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.store_id);
        bytes.extend_from_slice(&self.hash_key);
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        for position in [self.records, self.parked] {
            bytes.extend_from_slice(&position.segment.to_le_bytes());
            bytes.extend_from_slice(&position.offset.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != LEN {
            return None;
        }
        let (body, checksum) = bytes.split_at(LEN - 4);
        if crc32fast::hash(body).to_le_bytes() != checksum {
            return None;
        }
        let mut take = Take::new(&body[MAGIC.len() + 4..]);
        Some(Self {
            store_id: take.array()?,
            hash_key: take.array()?,
            epoch: take.u64()?,
            records: Position {
                segment: take.u32()?,
                offset: take.u32()?,
            },
            parked: Position {
                segment: take.u32()?,
                offset: take.u32()?,
            },
        })
    }
}

/// Tokens given out within one epoch.
const COUNTER_BITS: u32 = 40;
/// The last epoch that tokens have room for.
const LAST_EPOCH: u64 = u64::MAX >> COUNTER_BITS;
const MAGIC: [u8; 8] = *b"SEMELEMB";
const LEN: usize = 8 + 4 + 16 + 16 + 8 + 2 * 8 + 4;
