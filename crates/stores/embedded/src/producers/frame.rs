//! The layout of a log: its header, its frames, and the pieces in which it is read and written.

use semel_core::producer::ledger::Ledger;
use semel_core::{Error, ErrorKind, Result};

use super::record::{Location, Record, apply};
use crate::error;
use crate::files::File;
use crate::wire::Take;

pub(super) fn header(version: u32, generation: u64) -> Vec<u8> {
    let mut bytes = Vec::from(MAGIC);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&generation.to_le_bytes());
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Reads a header: the version and the generation, or else a version that is not known.
pub(super) fn generation(header: &[u8]) -> Result<Result<(u32, u64), u32>, &'static str> {
    let (body, checksum) = header
        .split_at_checked(HEADER_LEN - 4)
        .ok_or("header cut off")?;
    if !body.starts_with(&MAGIC) || crc32fast::hash(body).to_le_bytes() != checksum {
        return Err("the header does not check out");
    }
    let mut take = Take::new(&body[4..]);
    let (version, generation) = (take.u32(), take.u64());
    let version = version.ok_or("header cut off")?;
    if !(VERSION..=GROUPED_VERSION).contains(&version) {
        return Ok(Err(version));
    }
    let generation = generation.ok_or("header cut off")?;
    Ok(Ok((version, generation)))
}

/// Writes a frame that is to be at this place of the log.
pub(super) fn put_frame(
    bytes: &mut Vec<u8>,
    record: &Record<'_>,
    offset: u64,
    generation: u64,
) -> Result<()> {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; FRAME_LEN]);
    record.write(bytes);
    let written = &bytes[start + FRAME_LEN..];
    if written.len() > MOST_RECORD {
        let error = error::too_large("batch of messages", written.len(), MOST_RECORD);
        bytes.truncate(start);
        return Err(error);
    }
    let length = u32::try_from(written.len()).unwrap_or(u32::MAX);
    let checksum = checksum(written, offset, generation);
    bytes[start..start + 4].copy_from_slice(&FRAME);
    bytes[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    bytes[start + 8..start + 12].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// A log that is read in pieces, however long it is.
pub(super) struct Window<'a> {
    file: &'a dyn File,
    name: &'a str,
    /// The end of the log.
    pub(super) end: u64,
    /// The place of the piece.
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    pub(super) fn of(file: &'a dyn File, name: &'a str, end: u64) -> Self {
        Self {
            file,
            name,
            end,
            start: 0,
            bytes: Vec::new(),
        }
    }

    /// Returns so many bytes of the log; nothing if it ends before.
    pub(super) fn slice(&mut self, at: u64, len: usize) -> Result<Option<&[u8]>> {
        let end = at.saturating_add(len as u64);
        if end > self.end {
            return Ok(None);
        }
        if at < self.start || end > self.start + self.bytes.len() as u64 {
            let left = usize::try_from(self.end - at).unwrap_or(usize::MAX);
            self.bytes.resize(len.max(PIECE).min(left), 0);
            self.start = at;
            let read = self.file.read_at(&mut self.bytes, at);
            let read = read.map_err(|why| error::unreadable(self.name, why))?;
            self.bytes.truncate(read);
            if read < len {
                self.end = at + read as u64;
                return Ok(None);
            }
        }
        let begin = usize::try_from(at - self.start).unwrap_or(usize::MAX);
        Ok(self.bytes.get(begin..begin + len))
    }

    /// Returns the length of the record of a frame that checks out at this place.
    pub(super) fn frame(&mut self, at: u64, generation: u64) -> Result<Option<usize>> {
        let Some(begin) = self.slice(at, FRAME_LEN)? else {
            return Ok(None);
        };
        if !begin.starts_with(&FRAME) {
            return Ok(None);
        }
        let mut take = Take::new(&begin[FRAME.len()..]);
        let (Some(length), Some(expected)) = (take.u32(), take.u32()) else {
            return Ok(None);
        };
        let length = length as usize;
        if length > MOST_RECORD {
            return Ok(None);
        }
        let record = self.slice(at + FRAME_LEN as u64, length)?;
        let checks_out = record.is_some_and(|it| checksum(it, at, generation) == expected);
        Ok(checks_out.then_some(length))
    }
}

/// The log that takes the place of another, written in pieces.
pub(super) struct NextLog<'a> {
    file: &'a dyn File,
    generation: u64,
    written: u64,
    /// The bytes behind those.
    rest: Vec<u8>,
    state: Option<Ledger<Location>>,
}

impl<'a> NextLog<'a> {
    pub(super) fn of(file: &'a dyn File, version: u32, generation: u64) -> Self {
        Self {
            file,
            generation,
            written: 0,
            rest: header(version, generation),
            state: None,
        }
    }

    /// Writes a record.
    pub(super) fn put(&mut self, record: &Record<'_>) -> Result<()> {
        let begin = self.rest.len();
        let at = self.written + begin as u64;
        put_frame(&mut self.rest, record, at, self.generation)?;
        let written = &self.rest[begin + FRAME_LEN..];
        if apply(&mut self.state, written, at + FRAME_LEN as u64).is_none() {
            let message = "a record of a producer cannot be read back";
            return Err(Error::new(ErrorKind::Internal, message));
        }
        if self.rest.len() >= PIECE {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let written = self.file.write_at(&self.rest, self.written);
        written.map_err(unwritten)?;
        self.written += self.rest.len() as u64;
        self.rest.clear();
        Ok(())
    }

    /// Syncs it; returns its generation, its end and the state that it has.
    pub(super) fn end(mut self) -> Result<(u64, u64, Option<Ledger<Location>>)> {
        self.write()?;
        self.file.sync().map_err(unwritten)?;
        Ok((self.generation, self.written, self.state))
    }
}

pub(super) fn unwritten(why: std::io::Error) -> Error {
    error::unopened("writing the log of a producer", why)
}

fn checksum(record: &[u8], offset: u64, generation: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&generation.to_le_bytes());
    hasher.update(&offset.to_le_bytes());
    hasher.update(record);
    hasher.finalize()
}

const MAGIC: [u8; 4] = *b"SLPJ";
const FRAME: [u8; 4] = *b"SLPF";
/// The version of a log without times.
pub(super) const VERSION: u32 = 1;
/// That of a log of messages that others send, with the times of its streams.
pub(super) const TIMED_VERSION: u32 = 2;
/// That of one whose appends may be together in a record.
pub(super) const GROUPED_VERSION: u32 = 3;
pub(super) const HEADER_LEN: usize = 20;
pub(super) const FRAME_LEN: usize = 12;
/// The bytes that are read and written together.
const PIECE: usize = 1 << 20;
/// The largest record: twice of what is handed over at once.
const MOST_RECORD: usize = 64 << 20;
