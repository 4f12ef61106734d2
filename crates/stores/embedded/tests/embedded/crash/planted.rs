//! Bugs of the store, as seen from below: the writes of a store that had them.

/// A bug.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Planted {
    #[default]
    Nothing,
    /// Files are never synced.
    NoSync,
    /// The directory is never synced.
    NoDirSync,
    /// Entries of these kinds are not written when they are carried forward.
    NoCarrying(Carried),
    /// Recovery takes the bytes it read for durable without copying them first.
    NoRenewal,
    /// The audit trail is written, and synced, after the orders in the log of records.
    OrdersToldLater,
    /// The audit trail is written, and synced, after the drops in the log of parked messages.
    DropsToldLater,
    /// Tokens begin where they would have begun without the import.
    TokensNotRaised,
    /// An admitted batch is kept although its output could not be written.
    KeptThoughFailed,
}

/// Entries that are carried forward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Carried {
    /// Records, removals, entities and marks: parked messages are read back and would be missed at
    /// once.
    Records,
    /// The audit trail.
    Audit,
}

impl Planted {
    /// Returns whether the bytes that [`Planted::change`] leaves out are written later.
    pub(crate) fn is_apart(self) -> bool {
        matches!(self, Self::OrdersToldLater | Self::DropsToldLater)
    }

    /// Turns a write to the file `name` into the write that the bug would do.
    pub(crate) fn change(self, name: &str, bytes: &mut [u8]) {
        match self {
            Self::NoCarrying(Carried::Records) => {
                erase(bytes, |flags, kind| {
                    flags & CARRIED != 0 && (2..=5).contains(&kind)
                });
            }
            Self::NoCarrying(Carried::Audit) => {
                erase(bytes, |flags, kind| flags & CARRIED != 0 && kind == AUDITED);
            }
            Self::OrdersToldLater if name.starts_with("records-") => {
                erase(bytes, |flags, kind| flags & CARRIED == 0 && kind == AUDITED);
            }
            Self::DropsToldLater if name.starts_with("parked-") => {
                erase(bytes, |flags, kind| flags & CARRIED == 0 && kind == AUDITED);
            }
            Self::TokensNotRaised if name == "superblock.new" => lower_epoch(bytes),
            Self::Nothing
            | Self::NoSync
            | Self::NoDirSync
            | Self::NoRenewal
            | Self::OrdersToldLater
            | Self::DropsToldLater
            | Self::TokensNotRaised
            | Self::KeptThoughFailed => {}
        }
    }
}

/// Turns entries that `is_lost` picks by the flags of their frame and their kind into padding, with checksums that fit.
fn erase(bytes: &mut [u8], is_lost: impl Fn(usize, u8) -> bool) {
    const HEADER: usize = 40;
    let mut at = 0;
    while at + HEADER <= bytes.len() && bytes[at..].starts_with(b"SLF1") {
        let payload_len = number(bytes, at + 16);
        let frame_len = (HEADER + payload_len).next_multiple_of(8);
        if at + frame_len > bytes.len() {
            return;
        }
        let flags = number(bytes, at + 24);
        let mut entry = at + HEADER;
        while entry < at + HEADER + payload_len {
            let meta_len = number(bytes, entry) >> 8;
            let tail_len = number(bytes, entry + 4);
            if is_lost(flags, bytes[entry]) {
                bytes[entry] = 0;
            }
            entry += 12 + meta_len + if tail_len == 0 { 0 } else { tail_len + 4 };
        }
        let checksum = crc32fast::hash(&bytes[at + HEADER..at + HEADER + payload_len]);
        bytes[at + 28..at + 32].copy_from_slice(&checksum.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[at..at + HEADER - 4]);
        bytes[at + HEADER - 4..at + HEADER].copy_from_slice(&checksum.to_le_bytes());
        at += frame_len;
    }
}

/// Takes the bits that an import may have raised out of the epoch of a superblock: openings alone do not get there.
fn lower_epoch(bytes: &mut [u8]) {
    const LEN: usize = 72;
    if bytes.len() != LEN {
        return;
    }
    let epoch = number(bytes, 44);
    if epoch > MOST_OPENINGS {
        bytes[44..48].copy_from_slice(&1_u32.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..LEN - 4]);
        bytes[LEN - 4..].copy_from_slice(&checksum.to_le_bytes());
    }
}

fn number(bytes: &[u8], at: usize) -> usize {
    let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    u32::from_le_bytes(bytes) as usize
}

/// The flag of frames that carry forward.
const CARRIED: usize = 1;
/// The kind of the entries of the audit trail.
const AUDITED: u8 = 8;
/// Most openings of a store in these tests.
const MOST_OPENINGS: usize = 30;
