//! Reads an export line by line and accepts nothing that was not written.

use std::io::Read;
use std::ops::Range;

use crc32fast::Hasher;
use memchr::{memchr, memmem};
use semel_core::port::transfer::Item;
use semel_core::{Code, Error, ErrorKind, Result};
use serde::de::DeserializeOwned;

use super::line::{
    AnyHead, AuditedLine, EntityLine, HeadLine, MarkLine, ParkedLine, RecordLine, Scopes, token,
};
use super::value::unhex;
use super::writer::{SUM_ENDS, SUM_OPENS};
use super::{Counts, Head, OnTransfer, VERSION};

/// Reads an export.
///
/// # Cost   holds a block, or the longest line
pub struct Reader<R> {
    from: R,
    head: Head,
    lines: Lines,
    scopes: Scopes,
    counts: Counts,
    is_over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    ///
    /// `export-damaged`: this is no export; `store-newer`: a later version wrote it;
    /// `source-unavailable`: `from` cannot be read.
    pub fn open(mut from: R) -> Result<Self> {
        let mut lines = Lines::default();
        let first = lines.next(&mut from)?;
        let first = first.ok_or_else(|| damaged("there is nothing in it"))?;
        let head = lines.head(first)?;
        Ok(Self {
            from,
            head,
            lines,
            scopes: Scopes::default(),
            counts: Counts::default(),
            is_over: false,
        })
    }

    /// The content of the first line.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// Items so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes so far.
    pub const fn len_bytes(&self) -> u64 {
        self.lines.taken_bytes
    }

    /// The next items, at most `most` and about `most_bytes` bytes of them; none at the end of an
    /// export that is whole.
    ///
    /// # Errors
    ///
    /// `export-damaged`, with the line; `source-unavailable`.
    pub fn next_batch(&mut self, most: usize, most_bytes: u64) -> Result<Vec<Item>> {
        let mut items = Vec::with_capacity(most.min(1024));
        let enough = self.lines.taken_bytes.saturating_add(most_bytes);
        while !self.is_over && items.len() < most && self.lines.taken_bytes < enough {
            if let Some(item) = self.next_item()? {
                items.push(item);
            }
        }
        Ok(items)
    }

    /// Reads to the end of an export that is whole, and reports its progress now and then.
    ///
    /// # Errors
    ///
    /// As [`Reader::next_batch`].
    pub(super) fn skim(&mut self, on_transfer: &OnTransfer) -> Result<()> {
        while !self.is_over {
            let _ = self.next_item()?;
            if self.lines.count.is_multiple_of(TELL_EVERY) {
                on_transfer(self.counts.items(), self.len_bytes());
            }
        }
        Ok(())
    }

    fn next_item(&mut self) -> Result<Option<Item>> {
        let line = self.lines.next(&mut self.from)?;
        let line = line.ok_or_else(|| {
            let lines = self.lines.count;
            damaged(format!(
                "it was cut off after line {lines}: its last line is missing"
            ))
        })?;
        let number = self.lines.count;
        let body = self.lines.checked(line)?;
        if let Some(counts) = body.strip_prefix(br#"{"end":"#) {
            let counts: Counts = read(number, counts)?;
            if counts != self.counts {
                return Err(at(number, "it counts other items than there are"));
            }
            self.is_over = true;
            return match self.lines.next(&mut self.from)? {
                None => Ok(None),
                Some(_) => Err(at(number + 1, "something follows the last line")),
            };
        }
        let item = item(number, body, &mut self.scopes)?;
        self.counts.add(&item);
        Ok(Some(item))
    }
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("head", &self.head)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// Lines out of blocks, and the checksum of all of them.
#[derive(Default)]
struct Lines {
    buffer: Vec<u8>,
    /// The part of the buffer that was read and is not yet taken.
    unread: Range<usize>,
    sum: Hasher,
    count: u64,
    taken_bytes: u64,
}

impl Lines {
    /// The next line without its end, as a range of the buffer.
    fn next(&mut self, from: &mut impl Read) -> Result<Option<Range<usize>>> {
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(end) = memchr(b'\n', &unread[searched..]) {
                let start = self.unread.start;
                let line = start..start + searched + end;
                self.unread.start = line.end + 1;
                self.count += 1;
                self.taken_bytes += line.len() as u64 + 1;
                return Ok(Some(line));
            }
            searched = unread.len();
            if searched > LONGEST_LINE {
                return Err(at(self.count + 1, "it is longer than any item"));
            }
            if self.fill(from)? == 0 {
                return match searched {
                    0 => Ok(None),
                    _ if self.count == 0 => Err(foreign()),
                    _ => Err(at(self.count + 1, "it was cut off")),
                };
            }
        }
    }

    /// Reads more bytes behind the unread ones.
    fn fill(&mut self, from: &mut impl Read) -> Result<usize> {
        let unread = self.unread.len();
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..unread;
        let wanted = (unread * 2).max(BLOCK_BYTES);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        loop {
            match from.read(&mut self.buffer[unread..]) {
                Ok(count) => {
                    self.unread.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(cannot_read(error)),
            }
        }
    }

    /// The body of a line, once its checksum is verified.
    fn checked(&mut self, line: Range<usize>) -> Result<&[u8]> {
        let count = self.count;
        let line = &self.buffer[line];
        let (body, sum) = split(line).ok_or_else(|| at(count, "it has no checksum"))?;
        self.sum.update(body);
        if self.sum.clone().finalize() != sum {
            let what = "it was changed, or lines before it are missing";
            return Err(at(count, what));
        }
        self.sum.update(&line[body.len()..]);
        self.sum.update(b"\n");
        Ok(body)
    }

    fn head(&mut self, line: Range<usize>) -> Result<Head> {
        let any: AnyHead =
            serde_json::from_slice(&self.buffer[line.clone()]).map_err(|_| foreign())?;
        if !(1..=VERSION).contains(&any.semel_export) {
            return Err(newer(any.semel_export));
        }
        let body = self.checked(line)?;
        let whole = [body, b"}"].concat();
        let head: HeadLine<'_> = serde_json::from_slice(&whole).map_err(|why| unlike(1, &why))?;
        Ok(Head {
            created: head.created.boxed(),
            store: head.store.boxed(),
        })
    }
}

/// A line as its body and its checksum.
fn split(line: &[u8]) -> Option<(&[u8], u32)> {
    let rest = line.strip_suffix(SUM_ENDS)?;
    let (rest, digits) = rest.split_last_chunk::<8>()?;
    let body = rest.strip_suffix(SUM_OPENS)?;
    Some((body, u32::from_be_bytes(unhex(digits)?)))
}

/// The item of a line, of which its last brace was cut off.
pub(crate) fn item(line: u64, body: &[u8], scopes: &mut Scopes) -> Result<Item> {
    let kind = memmem::find(body, b":").map_or(body, |end| &body[..end]);
    let value = body.get(kind.len() + 1..).unwrap_or_default();
    let fault = |fault| at(line, fault);
    // serde borrows from the line, so each kind is read in a step of its own.
    match kind {
        br#"{"token""# => read(line, value).map(token),
        br#"{"record""# => {
            let value = std::str::from_utf8(value).map_err(|_| at(line, "it is not UTF-8"))?;
            let read = RecordLine::read(value).map_err(|why| unlike(line, &why))?;
            read.item(scopes).map_err(fault)
        }
        br#"{"entity""# => {
            let read: EntityLine<'_> = parse(line, value)?;
            read.item(scopes).map_err(fault)
        }
        br#"{"mark""# => {
            let read: MarkLine<'_> = parse(line, value)?;
            Ok(read.item())
        }
        br#"{"parked""# => {
            let read: ParkedLine<'_> = parse(line, value)?;
            read.item(scopes).map_err(fault)
        }
        br#"{"audited""# => {
            let read: AuditedLine<'_> = parse(line, value)?;
            read.item(scopes).map_err(fault)
        }
        _ => Err(at(line, "it is no kind of item")),
    }
}

fn read<T: DeserializeOwned>(line: u64, json: &[u8]) -> Result<T> {
    parse(line, json)
}

fn parse<'a, T: serde::Deserialize<'a>>(line: u64, json: &'a [u8]) -> Result<T> {
    serde_json::from_slice(json).map_err(|why| unlike(line, &why))
}

/// The fault of a line. JSON's own message may quote the line, so only the place is reported.
fn unlike(line: u64, why: &serde_json::Error) -> Error {
    let column = why.column();
    at(
        line,
        format!("it is no item: see column {column} of its value"),
    )
}

fn at(line: u64, what: impl std::fmt::Display) -> Error {
    damaged(format!("line {line}: {what}"))
}

fn foreign() -> Error {
    damaged("line 1: it does not begin like an export of semel")
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the export is refused: {what}"))
        .with_code(Code::ExportDamaged)
        .not_applied()
}

fn newer(version: u32) -> Error {
    let message = format!(
        "the export has format {version}, and this release reads up to {VERSION}: use the release that \
         wrote it, or a later one"
    );
    Error::new(ErrorKind::Unsupported, message)
        .with_code(Code::StoreNewer)
        .not_applied()
}

fn cannot_read(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "cannot read the export")
        .with_code(Code::SourceUnavailable)
        .not_applied()
        .with_source(error)
}

const BLOCK_BYTES: usize = 128 << 10;
/// Lines.
const TELL_EVERY: u64 = 16_384;
/// Beyond what a store keeps of one message, in base64.
const LONGEST_LINE: usize = 1 << 30;
