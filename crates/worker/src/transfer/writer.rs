//! Writes an export line by line, each with the checksum of all before it.

use std::io::Write;

use crc32fast::Hasher;
use semel_core::port::transfer::Item;
use semel_core::{Code, Error, ErrorKind, Result, Timestamp};
use serde::Serialize;

use super::line::{AuditedLine, EntityLine, HeadLine, MarkLine, ParkedLine, RecordLine};
use super::value::{Text, hex};
use super::{Counts, VERSION};

/// Writes an export.
pub struct Writer<W> {
    to: W,
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that the checksum has seen.
    summed: usize,
    sum: Hasher,
    counts: Counts,
    written_bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Begins an export of a store of this kind.
    ///
    /// # Errors
    ///
    /// `target-unavailable`: `to` takes nothing.
    pub fn begin(to: W, store: &str, created: Timestamp) -> Result<Self> {
        let mut writer = Self {
            to,
            buffer: Vec::with_capacity(BUFFER_BYTES * 2),
            summed: 0,
            sum: Hasher::new(),
            counts: Counts::default(),
            written_bytes: 0,
        };
        let created = created.to_string();
        let head = HeadLine {
            semel_export: VERSION,
            created: Text::of(&created),
            store: Text::of(store),
        };
        writer.json(&head)?;
        // Its checksum goes before the brace that ends it.
        writer.buffer.pop();
        writer.end_line()?;
        Ok(writer)
    }

    /// Writes an item.
    ///
    /// # Errors
    ///
    /// As [`Writer::begin`].
    pub fn item(&mut self, item: &Item) -> Result<()> {
        self.counts.add(item);
        write_item(item, &mut self.buffer)?;
        self.end_line()
    }

    /// Writes the last line, without which the export counts as cut off, and returns the
    /// destination.
    ///
    /// # Errors
    ///
    /// As [`Writer::begin`].
    pub fn end(mut self) -> Result<(W, Counts)> {
        let counts = self.counts;
        self.member(r#"{"end":"#, &counts)?;
        self.end_line()?;
        self.flush()?;
        self.to.flush().map_err(cannot_write)?;
        Ok((self.to, counts))
    }

    /// Items so far.
    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes so far.
    pub(super) fn len_bytes(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    fn member(&mut self, opening: &str, value: &impl Serialize) -> Result<()> {
        member(opening, value, &mut self.buffer)
    }

    fn json(&mut self, value: &impl Serialize) -> Result<()> {
        json(value, &mut self.buffer)
    }

    fn end_line(&mut self) -> Result<()> {
        self.sum.update(&self.buffer[self.summed..]);
        self.summed = self.buffer.len();
        let sum = self.sum.clone().finalize().to_be_bytes();
        let mut digits = [0; 8];
        self.buffer.extend_from_slice(SUM_OPENS);
        self.buffer
            .extend_from_slice(hex(&sum, &mut digits).as_bytes());
        self.buffer.extend_from_slice(SUM_ENDS);
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.sum.update(&self.buffer[self.summed..]);
        self.to.write_all(&self.buffer).map_err(cannot_write)?;
        self.written_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        self.summed = 0;
        Ok(())
    }
}

impl<W> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

pub(super) fn cannot_write(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "cannot write the export")
        .with_code(Code::TargetUnavailable)
        .with_source(error)
}

/// The opening of the checksum at the end of each line.
pub(super) const SUM_OPENS: &[u8] = br#","crc":""#;
pub(super) const SUM_ENDS: &[u8] = br#""}"#;
const BUFFER_BYTES: usize = 256 << 10;

/// Appends the line of an item, all but its last brace.
///
/// # Errors   `Internal`: it does not fit into JSON
pub(crate) fn write_item(item: &Item, to: &mut Vec<u8>) -> Result<()> {
    match item {
        Item::Token(token) => member(r#"{"token":"#, &token.get(), to),
        Item::Record(listed) => member(r#"{"record":"#, &RecordLine::of(listed), to),
        Item::Entity(scope, entity, record) => {
            member(r#"{"entity":"#, &EntityLine::of(scope, entity, record), to)
        }
        Item::Mark(mark) => member(r#"{"mark":"#, &MarkLine::of(mark), to),
        Item::Parked(message) => member(r#"{"parked":"#, &ParkedLine::of(message), to),
        Item::Audited(entry) => member(r#"{"audited":"#, &AuditedLine::of(entry), to),
    }
}

fn member(opening: &str, value: &impl Serialize, to: &mut Vec<u8>) -> Result<()> {
    to.extend_from_slice(opening.as_bytes());
    json(value, to)
}

fn json(value: &impl Serialize, to: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(to, value).map_err(|error| {
        Error::new(ErrorKind::Internal, "an item does not fit into JSON").with_source(error)
    })
}
