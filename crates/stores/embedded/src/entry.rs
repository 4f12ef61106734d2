//! Entries: the parts of a frame.
//!
//! ```text
//! kind u8 · meta length u24 · tail length u32 · checksum of these and the meta u32 · meta ·
//! [tail · checksum of the tail u32]
//! ```
//!
//! The tail holds the parts that may be large (an outcome, a payload) and is read only on demand. An entry carries
//! checksums of its own, since it is read back alone, long after its frame was.

mod audited;
mod body;
mod identity;
mod record;

pub(crate) use audited::{AuditedBody, put_audited, put_contents};
pub(crate) use body::{EntityBody, SegmentBody, put_entity, take_dropped, take_parked_id};
pub(crate) use body::{MarkBody, ParkedBody, put_dropped, put_mark, put_parked, put_segment};
pub(crate) use identity::{Identity, Scopes, put_identity};
pub(crate) use record::{RecordBody, put_record, put_record_body};

use crate::wire::Take;

/// The length of an entry's header.
pub(crate) const HEADER_LEN: usize = 12;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing; skipped.
    Padding,
    /// The first entry of each segment.
    Segment,
    /// A record as it stands from here on.
    Record,
    /// The record is gone.
    Removed,
    /// An entity record as it stands from here on.
    Entity,
    /// A mark as it stands from here on.
    Mark,
    /// A parked message.
    Parked,
    /// The parked message is gone.
    Dropped,
    /// An entry of the audit trail.
    Audited,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Padding,
        Self::Segment,
        Self::Record,
        Self::Removed,
        Self::Entity,
        Self::Mark,
        Self::Parked,
        Self::Dropped,
        Self::Audited,
    ];
}

/// The header of an entry, not yet checked against the bytes that it describes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) meta_len: usize,
    pub(crate) tail_len: usize,
    checksum: u32,
    lead: [u8; 8],
}

impl Header {
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut take = Take::new(bytes);
        let lead: [u8; 8] = take.array()?;
        let [kind, a, b, c, tail @ ..] = lead;
        Some(Self {
            kind: *Kind::ALL.get(usize::from(kind))?,
            meta_len: u32::from_le_bytes([a, b, c, 0]) as usize,
            tail_len: u32::from_le_bytes(tail) as usize,
            checksum: take.u32()?,
            lead,
        })
    }

    /// Length of header and meta.
    pub(crate) const fn lead_len(&self) -> usize {
        HEADER_LEN + self.meta_len
    }

    /// Length of the whole entry.
    pub(crate) const fn entry_len(&self) -> usize {
        self.lead_len()
            + if self.tail_len == 0 {
                0
            } else {
                self.tail_len + 4
            }
    }

    /// Returns the meta part of the entry that begins `bytes`, if its checksum fits.
    pub(crate) fn meta<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let meta = bytes.get(HEADER_LEN..self.lead_len())?;
        (checksum(self.lead, meta) == self.checksum).then_some(meta)
    }

    /// Returns the meta part of the entry that begins `bytes`, in a frame whose checksum has been verified: that covers
    /// it, too.
    #[inline]
    pub(crate) fn trusted_meta<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        bytes.get(HEADER_LEN..self.lead_len())
    }

    /// Returns the tail of the entry that begins `bytes`, if its checksum fits.
    pub(crate) fn tail<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        if self.tail_len == 0 {
            return Some(&[]);
        }
        let (tail, checksum) = bytes
            .get(self.lead_len()..self.entry_len())?
            .split_at(self.tail_len);
        (crc32fast::hash(tail).to_le_bytes() == checksum).then_some(tail)
    }
}

/// Begins an entry at the end of `buffer`.
#[inline]
pub(crate) fn begin(buffer: &mut Vec<u8>) -> usize {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; HEADER_LEN]);
    start
}

/// Ends the entry that begins at `start` and whose meta part has been written.
#[inline]
pub(crate) fn end(buffer: &mut Vec<u8>, start: usize, kind: Kind, tail: &[u8]) {
    let meta_len = buffer.len() - start - HEADER_LEN;
    let mut lead = [0; 8];
    lead[..4].copy_from_slice(
        &u32::try_from(meta_len << 8)
            .unwrap_or(u32::MAX)
            .to_le_bytes(),
    );
    lead[0] = kind as u8;
    lead[4..].copy_from_slice(&u32::try_from(tail.len()).unwrap_or(u32::MAX).to_le_bytes());
    buffer[start..start + 8].copy_from_slice(&lead);
    let checksum = checksum(lead, &buffer[start + HEADER_LEN..]);
    buffer[start + 8..start + HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
    if !tail.is_empty() {
        buffer.extend_from_slice(tail);
        buffer.extend_from_slice(&crc32fast::hash(tail).to_le_bytes());
    }
}

/// Takes the next entry off the front of a frame's payload: its header and all of its bytes.
pub(crate) fn next<'a>(payload: &mut &'a [u8]) -> Option<(Header, &'a [u8])> {
    let header = Header::decode(payload)?;
    let (entry, rest) = payload.split_at_checked(header.entry_len())?;
    *payload = rest;
    Some((header, entry))
}

fn checksum(lead: [u8; 8], meta: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(SEED);
    hasher.update(&lead);
    hasher.update(meta);
    hasher.finalize()
}

/// Seed that keeps zeros from passing as an entry.
const SEED: u32 = 0x5345_4d45;
