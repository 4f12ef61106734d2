//! Reading a segment front to back, frame by frame, in bounded memory.

use semel_core::Result;

use crate::error;
use crate::files::File;
use crate::frame::{self, Header};

/// Walks the frames of one segment.
pub(crate) struct Scan<'f> {
    file: &'f dyn File,
    name: String,
    segment: u32,
    /// Offset of the next frame.
    offset: u32,
    /// End of the segment.
    end: u32,
    buffer: Vec<u8>,
    /// The buffer's offset in the file, and the number of bytes in it.
    buffered: (u32, usize),
}

/// A frame whose checksums fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'b> {
    pub(crate) header: Header,
    /// Its offset in the segment.
    pub(crate) offset: u32,
    /// Its entries.
    pub(crate) payload: &'b [u8],
}

impl Frame<'_> {
    /// Returns the offset of its payload in the segment.
    pub(crate) const fn payload_offset(&self) -> u32 {
        self.offset + frame::HEADER_END
    }
}

impl<'f> Scan<'f> {
    pub(crate) fn new(
        file: &'f dyn File,
        name: String,
        segment: u32,
        offset: u32,
        end: u32,
    ) -> Self {
        Self {
            file,
            name,
            segment,
            offset,
            end,
            buffer: Vec::new(),
            buffered: (0, 0),
        }
    }

    /// Returns the number of the segment.
    pub(crate) const fn segment(&self) -> u32 {
        self.segment
    }

    /// Returns the offset of the next frame.
    pub(crate) const fn offset(&self) -> u32 {
        self.offset
    }

    pub(crate) const fn is_at_end(&self) -> bool {
        self.offset >= self.end
    }

    /// Returns the next frame; `None` at the end, and where the bytes that follow are no frame of
    /// this segment.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>> {
        let offset = self.offset;
        let Some(header) = Header::decode(self.bytes(offset, frame::HEADER_LEN)?) else {
            return Ok(None);
        };
        let len = header.frame_len();
        let fits = u32::try_from(len)
            .ok()
            .and_then(|len| offset.checked_add(len));
        let Some(next) = fits.filter(|&next| next <= self.end && header.segment == self.segment)
        else {
            return Ok(None);
        };
        self.offset = next;
        let payload_len = header.payload_len as usize;
        let payload = self
            .bytes(offset, len)?
            .get(frame::HEADER_LEN..frame::HEADER_LEN + payload_len);
        if payload.is_none_or(|payload| crc32fast::hash(payload) != header.checksum) {
            self.offset = offset;
            return Ok(None);
        }
        let start = (offset - self.buffered.0) as usize + frame::HEADER_LEN;
        let payload = &self.buffer[start..start + payload_len];
        Ok(Some(Frame {
            header,
            offset,
            payload,
        }))
    }

    /// Finds the first frame of this segment that begins behind the current offset, wherever it is.
    pub(crate) fn seek_frame(&mut self) -> Result<Option<Header>> {
        let mut at = self.offset + frame::STEP;
        while at < self.end {
            let is_frame = self.bytes(at, frame::MAGIC.len())? == frame::MAGIC;
            if is_frame {
                let back = std::mem::replace(&mut self.offset, at);
                if let Some(frame) = self.next()? {
                    return Ok(Some(frame.header));
                }
                self.offset = back;
            }
            at += frame::STEP;
        }
        Ok(None)
    }

    /// Reads up to `len` bytes at `offset`; fewer only at the end.
    fn bytes(&mut self, offset: u32, len: usize) -> Result<&[u8]> {
        let len = len.min(self.end.saturating_sub(offset) as usize);
        let (start, filled) = self.buffered;
        let within = offset.checked_sub(start).map(|skip| skip as usize);
        let skip = if let Some(skip) = within.filter(|skip| skip + len <= filled) {
            skip
        } else {
            let wanted = len
                .max(CHUNK_BYTES)
                .min(self.end.saturating_sub(offset) as usize);
            self.buffer.resize(wanted, 0);
            let read = self
                .file
                .read_at(&mut self.buffer, u64::from(offset))
                .map_err(|why| error::unreadable(&self.name, why))?;
            self.buffered = (offset, read);
            0
        };
        let end = (skip + len).min(self.buffered.1);
        Ok(self.buffer.get(skip..end).unwrap_or_default())
    }
}

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;
