//! Splits blocks of bytes into lines, without copying those that lie within one block.
//!
//! Not for reading: the reader asks for [`space`](Splitter::space), and says how much of it was
//! [`filled`](Splitter::filled).

use bytes::{Buf, Bytes, BytesMut};

use crate::{Format, HEAD_BYTES, Options};

/// One line of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The line without its terminator; its beginning, if it is too long.
    pub(crate) payload: Bytes,
    /// Its number, from 1.
    pub(crate) number: u64,
    /// The length of a line that is too long.
    pub(crate) oversize_bytes: Option<u64>,
    /// Bytes of the source up to its end.
    pub(crate) end_bytes: u64,
}

/// Cuts a stream into lines.
#[derive(Debug)]
pub(crate) struct Splitter {
    options: Options,
    /// Memory to read into, all of it initialised; its first `filled` bytes begin a line.
    block: BytesMut,
    filled: usize,
    /// Offset of the block in the stream.
    offset: u64,
    number: u64,
    /// Set while nothing but a byte order mark can have come so far.
    at_start: bool,
    /// The line that is too long and has not ended yet.
    overlong: Option<Overlong>,
}

#[derive(Debug)]
struct Overlong {
    head: Bytes,
    len_bytes: u64,
}

impl Splitter {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            block: BytesMut::zeroed(BLOCK_BYTES),
            filled: 0,
            offset: 0,
            number: 0,
            at_start: options.format == Format::Ndjson,
            overlong: None,
        }
    }

    /// Returns the space to read the next bytes into; never empty.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.block.len() - self.filled < LEAST_READ_BYTES {
            // A line of many blocks is copied a constant number of times if each block doubles.
            let mut block = BytesMut::zeroed(BLOCK_BYTES.max(self.filled * 2));
            block[..self.filled].copy_from_slice(&self.block[..self.filled]);
            self.block = block;
        }
        &mut self.block[self.filled..]
    }

    /// Takes in the first `count` bytes of the space; appends the lines that they complete.
    pub(crate) fn filled(&mut self, count: usize, lines: &mut Vec<Line>) {
        let mut searched = self.filled;
        self.filled += count;
        if self.at_start && self.filled >= BYTE_ORDER_MARK.len() {
            self.at_start = false;
            if self.block.starts_with(BYTE_ORDER_MARK) {
                self.skip(BYTE_ORDER_MARK.len());
                searched = 0;
            }
        }
        if let Some(overlong) = &mut self.overlong {
            let Some(end) = memchr::memchr(b'\n', &self.block[..self.filled]) else {
                overlong.len_bytes += self.filled as u64;
                self.offset += self.filled as u64;
                self.filled = 0;
                return;
            };
            overlong.len_bytes += end as u64;
            self.skip(end + 1);
            self.end_overlong(lines);
            searched = 0;
        }
        if let Some(last) = memchr::memrchr(b'\n', &self.block[searched..self.filled]) {
            self.cut(searched + last + 1, searched, lines);
        }
        if self.filled > self.options.max_message_bytes.max(HEAD_BYTES) {
            let head = Bytes::copy_from_slice(&self.block[..HEAD_BYTES]);
            self.overlong = Some(Overlong {
                head,
                len_bytes: self.filled as u64,
            });
            self.offset += self.filled as u64;
            self.filled = 0;
        }
    }

    /// Notes that the stream has ended; appends the bytes behind its last terminator as a line.
    pub(crate) fn finish(&mut self, lines: &mut Vec<Line>) {
        if self.overlong.is_some() {
            self.end_overlong(lines);
        } else if self.filled > 0 {
            let rest = self.block.split_to(self.filled).freeze();
            self.offset += rest.len() as u64;
            self.filled = 0;
            self.line(rest, self.offset, lines);
        }
    }

    /// Returns the number of bytes taken in.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.offset + self.filled as u64
    }

    /// Cuts the first `end` bytes, which end with a terminator, into lines. There is none before
    /// `searched`.
    fn cut(&mut self, end: usize, searched: usize, lines: &mut Vec<Line>) {
        let whole = self.block.split_to(end).freeze();
        self.filled -= end;
        let offset = self.offset;
        self.offset += end as u64;
        self.at_start = false;
        let mut start = 0;
        for at in memchr::memchr_iter(b'\n', &whole[searched..]) {
            let at = searched + at;
            self.line(whole.slice(start..at), offset + at as u64 + 1, lines);
            start = at + 1;
        }
    }

    fn line(&mut self, payload: Bytes, end_bytes: u64, lines: &mut Vec<Line>) {
        self.number += 1;
        if self.options.format == Format::Ndjson && is_blank(&payload) {
            return;
        }
        let (number, len) = (self.number, payload.len());
        lines.push(if len <= self.options.max_message_bytes {
            Line {
                payload,
                number,
                oversize_bytes: None,
                end_bytes,
            }
        } else {
            let payload = Bytes::copy_from_slice(&payload[..len.min(HEAD_BYTES)]);
            Line {
                payload,
                number,
                oversize_bytes: Some(len as u64),
                end_bytes,
            }
        });
    }

    fn end_overlong(&mut self, lines: &mut Vec<Line>) {
        if let Some(Overlong { head, len_bytes }) = self.overlong.take() {
            self.number += 1;
            lines.push(Line {
                payload: head,
                number: self.number,
                oversize_bytes: Some(len_bytes),
                end_bytes: self.offset,
            });
        }
    }

    fn skip(&mut self, count: usize) {
        self.block.advance(count);
        self.filled -= count;
        self.offset += count as u64;
    }
}

/// Returns whether nothing but JSON's white space is there.
fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

const BLOCK_BYTES: usize = 256 << 10;
/// Space below which reading on would cost more calls than a new block costs.
const LEAST_READ_BYTES: usize = 4 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[cfg(test)]
mod tests;
