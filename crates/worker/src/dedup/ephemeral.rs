//! The same without a store: the keys are remembered in memory, and forgotten with the run.
//!
//! Not for exactness across crashes, nor for a window. Of each key 127 bits of a hash are kept, whose secret is
//! new in each run: among a thousand million keys, the chance that two are taken for one is three in 10²¹,
//! whoever chose them.

mod first_lines;

use std::io::{ErrorKind, Write};

use bytes::Bytes;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use semel_core::key::KeySelector;
use semel_core::port::source::Progress;
use semel_core::{ByteString, Entropy, Result, Unusable};
use semel_engine::summary::{Fate, Summary};
use semel_engine::surroundings::OnProgress;
use siphasher::sip128::SipHasher24;

use super::csv::lines_of;
use super::keys::{Format, Keys};
use super::split::Piece;
use super::{Input, sink};
use first_lines::FirstLines;

/// The rules by which two lines are the same, and the lines that are printed.
#[derive(Clone, Debug)]
pub struct Ephemeral {
    /// The place of the key in a line.
    pub key: KeySelector,
    /// The way in which lines and their fields are cut.
    pub format: Format,
    /// The lines that are printed.
    pub shown: Shown,
    /// The longest line; a longer one is left out.
    pub max_line_bytes: usize,
}

/// The lines that are printed, one of each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The first, where it comes.
    First,
    /// One that is repeated, where it comes the second time.
    Repeated,
    /// At the end, the first line of each key with a count in this range.
    AtEnd {
        /// The least count of its key.
        least: u64,
        /// The greatest count of its key.
        most: u64,
        /// True if a count is printed before it.
        is_counted: bool,
    },
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Printed lines are applied, others replayed, and those without a usable key quarantined, though they are
    /// not kept.
    pub summary: Summary,
    /// The first line without a usable key, and the reason.
    pub first_unusable: Option<(ByteString, Unusable)>,
}

impl Ephemeral {
    /// Prints to `output` until `input` ends or the reader is gone; blocks.
    ///
    /// # Cost
    ///
    /// 20 to 39 bytes of memory a key, 58 while the table grows; with [`Shown::AtEnd`] its first line as well
    ///
    /// # Errors
    ///
    /// `source-unavailable`, `target-unavailable`
    pub fn run(
        self,
        input: Input,
        output: &mut dyn Write,
        entropy: &dyn Entropy,
        on_progress: &OnProgress,
    ) -> Result<Counts> {
        let mut secret = [0; 16];
        entropy.fill(&mut secret);
        let keys = Keys::new(self.key, &self.format, input.name());
        let header = input.header().clone();
        let mut sieve = Sieve {
            is_line: keys.are_lines(),
            keys,
            hasher: SipHasher24::new_with_key(&secret),
            max_line_bytes: self.max_line_bytes,
            seen: match self.shown {
                Shown::First => Seen::First(HashTable::new()),
                Shown::Repeated => Seen::Repeated(HashTable::new()),
                Shown::AtEnd { .. } => Seen::AtEnd(FirstLines::default()),
            },
            number: memchr::memchr_iter(b'\n', &header).count() as u64,
            counts: Counts::default(),
            out: header.to_vec(),
        };
        let mut read_bytes = header.len() as u64;
        let total_bytes = input.total_bytes();
        let mut is_read = true;
        input.read(&self.format, self.max_line_bytes, |piece| {
            read_bytes += sieve.take(piece);
            // At once: a person who watches a slow input waits for each line.
            is_read = print(output, &mut sieve.out)?;
            let progress = Progress {
                read_bytes,
                total_bytes,
            };
            on_progress(Some(progress), &sieve.counts.summary);
            Ok(is_read)
        })?;
        if is_read {
            is_read = print(output, &mut sieve.out)?;
        }
        if let (
            Seen::AtEnd(first_lines),
            Shown::AtEnd {
                least,
                most,
                is_counted,
            },
        ) = (&sieve.seen, self.shown)
        {
            let summary = &mut sieve.counts.summary;
            for (line, count) in first_lines.lines() {
                let is_shown = (least..=most).contains(&count);
                summary.count_many(Fate::Applied, u64::from(is_shown));
                summary.count_many(Fate::Replayed, count - u64::from(is_shown));
                if !is_shown || !is_read {
                    continue;
                }
                if is_counted {
                    sieve
                        .out
                        .extend_from_slice(format!("{count:7} ").as_bytes());
                }
                sieve.out.extend_from_slice(line);
                sieve.out.push(b'\n');
                if sieve.out.len() > PRINTED_AT_ONCE {
                    is_read = print(output, &mut sieve.out)?;
                }
            }
            if is_read {
                print(output, &mut sieve.out)?;
            }
        }
        Ok(sieve.counts)
    }
}

/// Lets lines through according to the lines before them.
struct Sieve {
    keys: Keys,
    /// True if the line itself is its key.
    is_line: bool,
    hasher: SipHasher24,
    max_line_bytes: usize,
    seen: Seen,
    /// Lines so far.
    number: u64,
    counts: Counts,
    /// The lines to print.
    out: Vec<u8>,
}

/// The upper 127 bits of each key's hash. The lowest bit says whether it was repeated, if that is asked.
enum Seen {
    First(HashTable<u128>),
    Repeated(HashTable<u128>),
    AtEnd(FirstLines),
}

impl Sieve {
    /// Takes in a piece of the input; returns its length.
    fn take(&mut self, piece: Piece) -> u64 {
        match piece {
            Piece::Lines(block) => {
                let mut from = 0;
                for end in memchr::memchr_iter(b'\n', &block) {
                    self.number += 1;
                    self.line(&block, from, end, end + 1, self.number);
                    from = end + 1;
                }
                if from < block.len() {
                    self.number += 1;
                    self.line(&block, from, block.len(), block.len(), self.number);
                }
                block.len() as u64
            }
            Piece::Records { block, ends } => {
                let mut from = 0;
                for next in ends {
                    let record = &block[from..next];
                    let end = next - usize::from(record.ends_with(b"\n"));
                    let number = self.number + 1;
                    self.number += lines_of(record);
                    self.line(&block, from, end, next, number);
                    from = next;
                }
                block.len() as u64
            }
            Piece::Overlong {
                len_bytes,
                taken_bytes,
                lines,
                ..
            } => {
                self.too_long(len_bytes, self.number + 1);
                self.number += lines;
                taken_bytes
            }
        }
    }

    /// The line of `block` from `from` to `end`, behind which the next begins at `next`.
    fn line(&mut self, block: &Bytes, from: usize, end: usize, next: usize, number: u64) {
        let text = &block[from..end];
        if text.len() > self.max_line_bytes {
            return self.too_long(text.len() as u64, number);
        }
        let digest = if self.is_line {
            self.hasher.hash(text)
        } else {
            match self.keys.key(&block.slice(from..end), number) {
                Ok(key) => self.hasher.hash(key.as_bytes()),
                Err(unusable) => return self.unusable(unusable, number),
            }
        };
        let digest = digest.as_u128() & !REPEATED;
        let is_printed = match &mut self.seen {
            Seen::First(seen) => {
                match seen.entry(table_hash(&digest), |it| *it == digest, table_hash) {
                    Entry::Vacant(entry) => {
                        entry.insert(digest);
                        true
                    }
                    Entry::Occupied(_) => false,
                }
            }
            Seen::Repeated(seen) => {
                match seen.entry(
                    table_hash(&digest),
                    |it| it & !REPEATED == digest,
                    table_hash,
                ) {
                    Entry::Vacant(entry) => {
                        entry.insert(digest);
                        false
                    }
                    Entry::Occupied(mut entry) => {
                        let is_second = entry.get() & REPEATED == 0;
                        *entry.get_mut() |= REPEATED;
                        is_second
                    }
                }
            }
            // It is counted at the end.
            Seen::AtEnd(first_lines) => return first_lines.add(digest, text),
        };
        if is_printed {
            self.out.extend_from_slice(&block[from..next]);
            self.counts.summary.count(Fate::Applied);
        } else {
            self.counts.summary.count(Fate::Replayed);
        }
    }

    #[cold]
    fn too_long(&mut self, size_bytes: u64, number: u64) {
        let unusable = Unusable::MessageTooLarge {
            size_bytes,
            limit_bytes: self.max_line_bytes as u64,
        };
        self.unusable(unusable, number);
    }

    #[cold]
    fn unusable(&mut self, unusable: Unusable, number: u64) {
        self.counts.summary.count(Fate::Quarantined);
        let keys = &self.keys;
        self.counts
            .first_unusable
            .get_or_insert_with(|| (keys.coordinates(number), unusable));
    }
}

/// Prints the collected lines and clears them. Returns whether the output still has a reader.
fn print(output: &mut dyn Write, out: &mut Vec<u8>) -> Result<bool> {
    let printed = output.write_all(out);
    out.clear();
    match printed {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(sink::cannot_print("print", error)),
    }
}

/// The hash that a table takes of a digest: its upper half.
fn table_hash(digest: &u128) -> u64 {
    (digest >> 64) as u64
}

const REPEATED: u128 = 1;
const PRINTED_AT_ONCE: usize = 1 << 20;

#[cfg(test)]
mod tests;
