//! Frames: the unit of one group commit, written whole or not at all.
//!
//! ```text
//! magic u32 · segment u32 · sequence u64 · payload length u32 · synced u32 · flags u32 ·
//! payload checksum u32 · reserved u32 · header checksum u32 · payload · zeros up to a multiple of 8
//! ```
//!
//! `synced` says how much of the segment was durable before this frame was written. It tells damage (a frame that was
//! durable is bad) from a torn tail (nothing after it was ever promised).

use crate::wire::Take;

/// The length of a frame's header.
pub(crate) const HEADER_LEN: usize = 40;
/// The same, as an offset.
pub(crate) const HEADER_END: u32 = 40;
/// Flag of a frame that repeats contents of an older segment, so that the older one may go.
pub(crate) const CARRIED: u32 = 1;
/// Frames begin at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;
/// The same, as an offset.
pub(crate) const STEP: u32 = 8;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) segment: u32,
    pub(crate) sequence: u64,
    pub(crate) payload_len: u32,
    pub(crate) synced: u32,
    pub(crate) flags: u32,
    pub(crate) checksum: u32,
}

impl Header {
    /// The header of no frame.
    pub(crate) const NONE: Self = Self {
        segment: 0,
        sequence: 0,
        payload_len: 0,
        synced: 0,
        flags: 0,
        checksum: 0,
    };

    /// The header in `bytes`, if its checksum fits.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_LEN)?;
        if !bytes.starts_with(&MAGIC) {
            return None;
        }
        let (body, checksum) = bytes.split_at(HEADER_LEN - 4);
        if crc32fast::hash(body).to_le_bytes() != checksum {
            return None;
        }
        let mut take = Take::new(&body[4..]);
        Some(Self {
            segment: take.u32()?,
            sequence: take.u64()?,
            payload_len: take.u32()?,
            synced: take.u32()?,
            flags: take.u32()?,
            checksum: take.u32()?,
        })
    }

    fn encode(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.segment.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.payload_len.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.synced.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.flags.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..HEADER_LEN - 4]);
        bytes[HEADER_LEN - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Length of the whole frame on disk.
    pub(crate) const fn frame_len(&self) -> usize {
        (HEADER_LEN + self.payload_len as usize).next_multiple_of(ALIGNMENT)
    }
}

/// Begins a frame at the end of `buffer`: leaves room for its header.
pub(crate) fn begin(buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(&[0; HEADER_LEN]);
}

/// Ends the frame that begins at `start`: pads it and fills its header in.
pub(crate) fn end(
    buffer: &mut Vec<u8>,
    start: usize,
    segment: u32,
    sequence: u64,
    synced: u32,
    flags: u32,
) {
    let payload = &buffer[start + HEADER_LEN..];
    let header = Header {
        segment,
        sequence,
        payload_len: u32::try_from(payload.len()).unwrap_or(u32::MAX),
        synced,
        flags,
        checksum: crc32fast::hash(payload),
    };
    buffer.resize(buffer.len().next_multiple_of(ALIGNMENT), 0);
    buffer[start..start + HEADER_LEN].copy_from_slice(&header.encode());
}

/// Magic number at the start of every frame.
pub(crate) const MAGIC: [u8; 4] = *b"SLF1";
