//! Reads entries back: from the pending bytes, the recent writes, or the files.

use semel_core::Result;

use super::recent::Recent;
use super::{Location, Log, Segment};
use crate::entry::Header;
use crate::error;

impl Log {
    /// Reads the entry at `location`: header and meta always, the tail where it is wanted.
    pub(crate) fn read<'b>(
        &self,
        location: Location,
        wants_tail: bool,
        buffer: &'b mut Vec<u8>,
    ) -> Result<(Header, &'b [u8])> {
        let bad = |what| {
            error::corrupt(
                &self.name_of(location.segment),
                u64::from(location.offset),
                what,
            )
        };
        let segment = self
            .segment(location.segment)
            .ok_or_else(|| bad("no such segment"))?;
        let len = self.fill(segment, location.offset, READ_BYTES, buffer)?;
        let header = Header::decode(&buffer[..len]).ok_or_else(|| bad("no such entry"))?;
        let wanted = if wants_tail {
            header.entry_len()
        } else {
            header.lead_len()
        };
        let mut len = len;
        if wanted > len {
            len = self.fill(segment, location.offset, wanted, buffer)?;
        }
        let entry = buffer
            .get(..wanted)
            .filter(|_| wanted <= len)
            .ok_or_else(|| bad("entry cut off"))?;
        Ok((header, entry))
    }

    /// Keeps the writes from here on in memory, within bounds and for a while.
    pub(crate) const fn want_recent(&mut self) {
        self.recent.want();
    }

    /// Returns the bytes from `location` on, if they are in memory: pending, or written a moment
    /// ago.
    #[inline]
    pub(crate) fn in_memory(&self, location: Location) -> Option<&[u8]> {
        let segment = self.segment(location.segment)?;
        if let Some(skip) = location.offset.checked_sub(segment.len) {
            return self.pending.get(skip as usize..);
        }
        let position = segment.begins_at + u64::from(location.offset);
        self.recent.get(position)
    }

    /// Returns whether the entry at `location` would be in memory if recent writes were kept.
    pub(crate) fn is_recent(&self, location: Location) -> bool {
        let (Some(segment), Some(last)) = (self.segment(location.segment), self.segments.back())
        else {
            return false;
        };
        let position = segment.begins_at + u64::from(location.offset);
        Recent::reaches(position, last.begins_at + u64::from(last.len))
    }

    /// Returns whether an entry is in a file already, as opposed to pending or gone.
    pub(crate) fn is_written(&self, location: Location) -> bool {
        self.segment(location.segment)
            .is_some_and(|segment| location.offset < segment.len)
    }

    /// Appends up to `len` bytes of a file to `buffer`; returns how many there were.
    pub(crate) fn read_into(
        &self,
        from: Location,
        len: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<usize> {
        let segment = self.segment(from.segment)?;
        let len = len.min(segment.len.saturating_sub(from.offset) as usize);
        let start = buffer.len();
        buffer.resize(start + len, 0);
        let read = segment
            .file
            .read_at(&mut buffer[start..], u64::from(from.offset));
        let read = read.unwrap_or(0);
        buffer.truncate(start + read);
        Some(read)
    }

    /// Reads up to `wanted` bytes, from the pending ones or from the file.
    fn fill(
        &self,
        segment: &Segment,
        offset: u32,
        wanted: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<usize> {
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        if offset >= segment.len {
            let pending = self
                .pending
                .get((offset - segment.len) as usize..)
                .unwrap_or_default();
            let len = wanted.min(pending.len());
            buffer[..len].copy_from_slice(&pending[..len]);
            return Ok(len);
        }
        // Never beyond what is known to be there: a torn write may lie behind it.
        let wanted = wanted.min((segment.len - offset) as usize);
        segment
            .file
            .read_at(&mut buffer[..wanted], u64::from(offset))
            .map_err(|error| error::unreadable(&self.name_of(segment.id), error))
    }
}

/// Bytes that are read at first; most entries are shorter.
const READ_BYTES: usize = 256;
