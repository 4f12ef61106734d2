//! CSV as RFC 4180 has it: the ends of records, and their fields without quotes.
//!
//! `csv-core` knows the format. It skips empty lines and adds them to the next record; here each is a record
//! of its own, so that every byte of the input belongs to one.

use std::io::{self, Read};

use bytes::{Bytes, BytesMut};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use semel_core::select::Fields;

use super::split::{self, HEAD_BYTES, Piece};

/// The format of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csv {
    /// The byte that separates fields.
    pub delimiter: u8,
    /// True if the first record names the columns.
    pub has_header: bool,
}

impl Csv {
    fn reader(&self) -> Reader {
        ReaderBuilder::new()
            .delimiter(self.delimiter)
            // The CR before it belongs to the last field for now: otherwise the library would leave the LF
            // to the next record.
            .terminator(Terminator::Any(b'\n'))
            .build()
    }
}

/// Splits one record at a time into fields.
#[derive(Debug)]
pub(super) struct Record {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Record {
    pub(super) fn new(csv: &Csv) -> Self {
        Self {
            reader: csv.reader(),
            text: vec![0; 256],
            ends: vec![0; 16],
        }
    }

    /// The fields of a record without its LF.
    pub(super) fn fields(&mut self, record: &[u8]) -> Fields<'_> {
        self.reader.reset();
        let (mut rest, mut text_len, mut count) = (record, 0, 0);
        loop {
            let (text, ends) = (&mut self.text[text_len..], &mut self.ends[count..]);
            let (result, taken, written, ended) = self.reader.read_record(rest, text, ends);
            let was_empty = rest.is_empty();
            rest = &rest[taken..];
            text_len += written;
            count += ended;
            match result {
                // For the library, an empty input is the end of the record.
                ReadRecordResult::InputEmpty if !was_empty => {}
                ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::InputEmpty | ReadRecordResult::Record | ReadRecordResult::End => {
                    break;
                }
            }
        }
        if record.ends_with(b"\r") && self.text[..text_len].ends_with(b"\r") && count > 0 {
            self.ends[count - 1] -= 1;
        }
        Fields::Cut {
            text: &self.text[..text_len],
            ends: &self.ends[..count],
        }
    }

    /// The fields of a header, as text.
    fn names(&mut self, header: &[u8]) -> Vec<String> {
        let header = header.strip_suffix(b"\n").unwrap_or(header);
        let Fields::Cut { text, ends } = self.fields(header) else {
            return Vec::new();
        };
        let mut start = 0;
        let name = |end: &usize| {
            let name = &text[std::mem::replace(&mut start, *end)..*end];
            String::from_utf8_lossy(name).into_owned()
        };
        ends.iter().map(name).collect()
    }
}

/// Finds the ends of records.
struct Ends {
    reader: Reader,
    /// True if nothing of the next record was seen yet.
    is_between: bool,
    text: Box<[u8]>,
    fields: Box<[usize]>,
}

impl Ends {
    fn new(csv: &Csv) -> Self {
        Self {
            reader: csv.reader(),
            is_between: true,
            text: vec![0; 16 << 10].into(),
            fields: vec![0; 1 << 10].into(),
        }
    }

    /// Looks at the next bytes of the input. Returns how many of them end the record that is under way.
    fn next(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.is_between && bytes.first() == Some(&b'\n') {
            return Some(1);
        }
        let mut at = 0;
        while at < bytes.len() {
            self.is_between = false;
            // The fields are overwritten: only the end of the record matters.
            let (result, taken, ..) =
                self.reader
                    .read_record(&bytes[at..], &mut self.text, &mut self.fields);
            at += taken;
            if result == ReadRecordResult::Record {
                self.is_between = true;
                return Some(at);
            }
        }
        None
    }
}

impl std::fmt::Debug for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Ends");
        debug
            .field("is_between", &self.is_between)
            .finish_non_exhaustive()
    }
}

/// Cuts a stream into records.
#[derive(Debug)]
pub(super) struct Splitter {
    most_bytes: usize,
    block: BytesMut,
    filled: usize,
    /// The number of bytes of the block that were looked at.
    seen: usize,
    ends: Ends,
    /// A record that is too long and has not ended yet: its beginning, its bytes and line feeds so far.
    overlong: Option<(Bytes, u64, u64)>,
}

impl Splitter {
    pub(super) fn new(csv: &Csv, most_bytes: usize) -> Self {
        Self {
            most_bytes,
            block: BytesMut::new(),
            filled: 0,
            seen: 0,
            ends: Ends::new(csv),
            overlong: None,
        }
    }

    /// As of lines.
    pub(super) fn space(&mut self) -> &mut [u8] {
        split::space(&mut self.block, self.filled)
    }

    /// As of lines.
    pub(super) fn filled(&mut self, count: usize, mut take: impl FnMut(Piece)) {
        self.filled += count;
        let mut ends = Vec::new();
        while let Some(taken) = self.ends.next(&self.block[self.seen..self.filled]) {
            self.seen += taken;
            if let Some(overlong) = self.overlong.take() {
                // It is the first record of the block.
                let last = self.block.split_to(self.seen);
                self.filled -= self.seen;
                self.seen = 0;
                take(too_long(overlong, &last));
            } else {
                ends.push(self.seen);
            }
        }
        self.seen = self.filled;
        if let Some(last) = ends.last().copied() {
            let block = self.block.split_to(last).freeze();
            self.filled -= last;
            self.seen -= last;
            take(Piece::Records { block, ends });
        }
        if self.overlong.is_some() || self.filled > self.most_bytes.max(HEAD_BYTES) {
            let part = &self.block[..self.filled];
            let (head, len_bytes, feeds) = self
                .overlong
                .take()
                .unwrap_or_else(|| (Bytes::copy_from_slice(&part[..HEAD_BYTES]), 0, 0));
            let (len_bytes, feeds) = (len_bytes + part.len() as u64, feeds + feeds_of(part));
            self.overlong = Some((head, len_bytes, feeds));
            self.filled = 0;
            self.seen = 0;
        }
    }

    /// Ends the stream, and hands over what came after its last record, quotes closed or not.
    pub(super) fn finish(&mut self, mut take: impl FnMut(Piece)) {
        let last = self.block.split_to(self.filled).freeze();
        self.filled = 0;
        if let Some(overlong) = self.overlong.take() {
            take(too_long(overlong, &last));
        } else if !last.is_empty() {
            let ends = vec![last.len()];
            take(Piece::Records { block: last, ends });
        }
    }
}

/// Reads the header off the beginning of a stream: its bytes, its names, and what was read behind it.
pub(super) fn header(
    csv: &Csv,
    stream: &mut dyn Read,
    most_bytes: usize,
) -> io::Result<(Bytes, Vec<String>, Bytes)> {
    let mut ends = Ends::new(csv);
    let mut read = BytesMut::new();
    let end = loop {
        let filled = read.len();
        if filled > most_bytes {
            let message = format!("its header is longer than {most_bytes} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        read.resize(filled + HEAD_BYTES, 0);
        let count = loop {
            match stream.read(&mut read[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        read.truncate(filled + count);
        if count == 0 {
            break read.len();
        }
        if let Some(taken) = ends.next(&read[filled..]) {
            break filled + taken;
        }
    };
    let header = read.split_to(end).freeze();
    let mut names = Record::new(csv).names(&header);
    if names.is_empty() && !header.is_empty() {
        names.push(String::new());
    }
    Ok((header, names, read.freeze()))
}

fn too_long((head, len_bytes, feeds): (Bytes, u64, u64), last: &[u8]) -> Piece {
    let taken_bytes = len_bytes + last.len() as u64;
    let ends_with_feed = u64::from(last.ends_with(b"\n"));
    Piece::Overlong {
        head,
        len_bytes: taken_bytes - ends_with_feed,
        taken_bytes,
        lines: feeds + feeds_of(last) + 1 - ends_with_feed,
    }
}

/// The number of lines that a record takes.
pub(super) fn lines_of(record: &[u8]) -> u64 {
    feeds_of(record) + u64::from(!record.ends_with(b"\n"))
}

fn feeds_of(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests;
