//! Iterates over the finished records on disk, in the order of the log.

use semel_core::Result;

use super::Ledger;
use crate::entry::{self, Header, Kind, RecordBody};
use crate::log::{Frame, Location};

/// Position at which a walk continues: the frame at this location, and the number of the entry in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskAt {
    pub(super) location: Location,
    pub(super) entry: u32,
}

/// A finished record on disk.
pub(super) struct OnDisk<'b> {
    pub(super) location: Location,
    pub(super) body: RecordBody<'b>,
    header: Header,
    bytes: &'b [u8],
}

impl OnDisk<'_> {
    /// The bytes of its outcome.
    pub(super) fn tail(&self) -> Option<&[u8]> {
        self.header.tail(self.bytes)
    }
}

impl DiskAt {
    /// The beginning of the log.
    pub(super) const START: Self = Self {
        location: Location {
            segment: 0,
            offset: 0,
        },
        entry: 0,
    };

    pub(super) fn to_bytes(self) -> [u8; 12] {
        let Self { location, entry } = self;
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&location.segment.to_be_bytes());
        bytes[4..8].copy_from_slice(&location.offset.to_be_bytes());
        bytes[8..].copy_from_slice(&entry.to_be_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; 12] = bytes.try_into().ok()?;
        let number = |at: usize| {
            let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            u32::from_be_bytes(bytes)
        };
        Some(Self {
            location: Location {
                segment: number(0),
                offset: number(4),
            },
            entry: number(8),
        })
    }
}

impl Ledger {
    /// Shows finished records to `visit`, which returns `false` if it has no room for one. Returns where to continue,
    /// after a bounded part of the log at the latest.
    pub(super) fn walk_finished(
        &self,
        from: DiskAt,
        mut visit: impl FnMut(&OnDisk<'_>) -> Result<bool>,
    ) -> Result<Option<DiskAt>> {
        let DiskAt {
            location:
                Location {
                    segment: first,
                    mut offset,
                },
            mut entry,
        } = from;
        if first < self.log.oldest() {
            // The segment may have been dropped since.
            (offset, entry) = (0, 0);
        }
        let mut read = 0_u64;
        let segments = self.log.segments().iter();
        for segment in segments.filter(|segment| segment.id >= first) {
            let Some(mut scan) = self.log.scan(segment.id, offset..u32::MAX) else {
                continue;
            };
            offset = 0;
            loop {
                let location = Location {
                    segment: segment.id,
                    offset: scan.offset(),
                };
                if read >= DISK_AT_ONCE {
                    return Ok(Some(DiskAt { location, entry }));
                }
                let Some(frame) = scan.next()? else { break };
                read += frame.header.frame_len() as u64;
                if let Some(entry) = self.walk_frame(segment.id, &frame, entry, &mut visit)? {
                    return Ok(Some(DiskAt { location, entry }));
                }
                entry = 0;
            }
        }
        Ok(None)
    }

    /// Shows the records of a frame that the table places there, from its entry of number `first` on. Returns the
    /// number of the one for which there was no room.
    pub(super) fn walk_frame(
        &self,
        segment: u32,
        frame: &Frame<'_>,
        first: u32,
        mut visit: impl FnMut(&OnDisk<'_>) -> Result<bool>,
    ) -> Result<Option<u32>> {
        let mut payload = frame.payload;
        let mut number = 0;
        let mut found = Vec::with_capacity(LOOKED_UP_AT_ONCE);
        loop {
            found.clear();
            while found.len() < LOOKED_UP_AT_ONCE {
                let at = u32::try_from(frame.payload.len() - payload.len()).unwrap_or(u32::MAX);
                let Some((header, bytes)) = entry::next(&mut payload) else {
                    break;
                };
                number += 1;
                if number <= first || header.kind != Kind::Record {
                    continue;
                }
                let Some(body) = header.trusted_meta(bytes).and_then(RecordBody::new) else {
                    continue;
                };
                let location = Location {
                    segment,
                    offset: frame.payload_offset() + at,
                };
                let tag = self.keyed_hash.digest(body.identity).tag;
                let on_disk = OnDisk {
                    location,
                    body,
                    header,
                    bytes,
                };
                found.push((number - 1, tag, on_disk));
            }
            if found.is_empty() {
                return Ok(None);
            }
            self.table.warm(found.iter().map(|(_, tag, _)| *tag));
            for (number, tag, on_disk) in &found {
                let is_placed = |location| location == on_disk.location;
                if self.table.locations(*tag).any(is_placed) && !visit(on_disk)? {
                    return Ok(Some(*number));
                }
            }
        }
    }
}

/// Bytes of the log that one walk reads at most.
const DISK_AT_ONCE: u64 = 16 << 20;
/// Records that are looked up together, so that memory is waited for once.
const LOOKED_UP_AT_ONCE: usize = 64;
