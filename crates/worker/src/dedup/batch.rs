//! The unit that goes to the store at once: claims, and the positions of their lines.

use std::ops::Range;

use bytes::Bytes;
use semel_core::{ClaimRequest, Parked, Unusable};

/// Lines in the order of the input, and the claim of each.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// One per line of `lines`.
    pub(super) requests: Vec<ClaimRequest>,
    pub(super) lines: Lines,
    /// Lines without a usable key.
    pub(super) unusable: Vec<(Parked, Unusable)>,
    /// The number of bytes that it holds.
    pub(super) len_bytes: usize,
    /// The length of the input up to its end, in bytes.
    pub(super) end_bytes: u64,
}

/// Lines by their positions.
#[derive(Debug, Default)]
pub(super) struct Lines {
    blocks: Vec<Bytes>,
    spans: Vec<LineSpan>,
}

/// One line, its LF included where it has one.
#[derive(Clone, Copy, Debug)]
struct LineSpan {
    block: u32,
    start: u32,
    end: u32,
    /// Its number in the input, from 1.
    number: u64,
}

impl Batch {
    /// Lines of both kinds.
    pub(super) fn count(&self) -> usize {
        self.lines.len() + self.unusable.len()
    }

    /// Removes the lines after the first `most`, and returns them. Lines without a usable key stay.
    pub(super) fn split_off(&mut self, most: usize) -> Option<Self> {
        if self.lines.len() <= most {
            return None;
        }
        let requests = self.requests.split_off(most);
        let lines = self.lines.split_off(most);
        let len_bytes = lines.len_bytes();
        self.len_bytes -= len_bytes;
        let end_bytes = self.end_bytes;
        self.end_bytes -= len_bytes as u64;
        Some(Self {
            requests,
            lines,
            unusable: Vec::new(),
            len_bytes,
            end_bytes,
        })
    }

    /// Appends `next`.
    pub(super) fn append(&mut self, mut next: Self) {
        let first = index(self.lines.blocks.len());
        self.requests.append(&mut next.requests);
        self.lines.blocks.append(&mut next.lines.blocks);
        let spans = next.lines.spans.iter().map(|span| LineSpan {
            block: span.block + first,
            ..*span
        });
        self.lines.spans.extend(spans);
        self.unusable.append(&mut next.unusable);
        self.len_bytes += next.len_bytes;
        self.end_bytes = next.end_bytes;
    }
}

impl Lines {
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    fn split_off(&mut self, at: usize) -> Self {
        Self {
            blocks: self.blocks.clone(),
            spans: self.spans.split_off(at),
        }
    }

    fn len_bytes(&self) -> usize {
        let lens = self.spans.iter().map(|span| span.end - span.start);
        lens.map(|len| len as usize).sum()
    }

    /// Announces that the next lines lie in `block`, about `count` of them.
    pub(super) fn begin(&mut self, block: Bytes, count: usize) {
        self.blocks.push(block);
        self.spans.reserve_exact(count);
    }

    /// A line of the block that was begun last.
    pub(super) fn push(&mut self, range: Range<usize>, number: u64) {
        self.spans.push(LineSpan {
            block: index(self.blocks.len().saturating_sub(1)),
            start: index(range.start),
            end: index(range.end),
            number,
        });
    }

    /// The number of a line in the input, from 1.
    pub(super) fn number(&self, at: usize) -> u64 {
        self.spans[at].number
    }

    /// A line, its LF included where it has one.
    pub(super) fn bytes(&self, at: usize) -> &[u8] {
        let span = self.spans[at];
        &self.blocks[span.block as usize][span.start as usize..span.end as usize]
    }

    /// A line without its LF.
    pub(super) fn payload(&self, at: usize) -> Bytes {
        let line = self.bytes(at);
        let payload = line.strip_suffix(b"\n").unwrap_or(line);
        self.blocks[self.spans[at].block as usize].slice_ref(payload)
    }
}

/// A block is about as long as the longest line, which is far below four gigabytes.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
