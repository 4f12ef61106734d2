//! The first line of each key and its count, until the end of the input.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::table_hash;

/// The first lines of all keys, in order.
#[derive(Default)]
pub(super) struct FirstLines {
    /// The hash of each key, and the index of its first line.
    firsts: HashTable<First>,
    lines: Vec<Line>,
    /// The lines, one behind the other, in blocks that never move.
    blocks: Vec<Vec<u8>>,
}

struct First {
    /// As bytes, so that it needs no alignment of 16.
    digest: [u8; 16],
    line: usize,
}

struct Line {
    block: u32,
    start: u32,
    end: u32,
    count: u64,
}

impl FirstLines {
    /// Adds a line of a key.
    pub(super) fn add(&mut self, digest: u128, text: &[u8]) {
        let hash = table_hash(&digest);
        let digest = digest.to_ne_bytes();
        let table_hash = |first: &First| table_hash(&u128::from_ne_bytes(first.digest));
        match self
            .firsts
            .entry(hash, |first| first.digest == digest, table_hash)
        {
            Entry::Occupied(entry) => self.lines[entry.get().line].count += 1,
            Entry::Vacant(entry) => {
                entry.insert(First {
                    digest,
                    line: self.lines.len(),
                });
                let last = self.blocks.last();
                if last.is_none_or(|block| block.capacity() - block.len() < text.len()) {
                    self.blocks
                        .push(Vec::with_capacity(text.len().max(BLOCK_BYTES)));
                }
                let at = self.blocks.len() - 1;
                let block = &mut self.blocks[at];
                let start = block.len();
                block.extend_from_slice(text);
                self.lines.push(Line {
                    block: index(at),
                    start: index(start),
                    end: index(block.len()),
                    count: 1,
                });
            }
        }
    }

    /// Each line without its LF, and the count of its key.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.lines.iter().map(|line| {
            let block = &self.blocks[line.block as usize];
            let text = &block[line.start as usize..line.end as usize];
            (text, line.count)
        })
    }
}

/// A block is at most as long as the longest line, and memory ends before there are so many blocks.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

const BLOCK_BYTES: usize = 4 << 20;
