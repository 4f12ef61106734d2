//! Splits the input into whole lines, without copying those that lie within one block.
//!
//! Not for reading, and not for splitting a piece into its lines: the user of a piece does that in
//! the same pass in which it looks at the lines.

use bytes::{Bytes, BytesMut};

/// A stretch of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Whole lines, each with its LF, but for the last one of the input.
    Lines(Bytes),
    /// Whole records of CSV, and their ends.
    Records { block: Bytes, ends: Vec<usize> },
    /// A line or record that is too long to be held in memory.
    Overlong {
        /// Its beginning.
        head: Bytes,
        /// Its length without the LF.
        len_bytes: u64,
        /// Its length with the LF, if it has one.
        taken_bytes: u64,
        /// The number of lines that it takes.
        lines: u64,
    },
}

/// Cuts a stream into pieces.
#[derive(Debug)]
pub(super) struct Splitter {
    /// The longest line.
    most_bytes: usize,
    /// Memory to read into, all of it initialised; its first `filled` bytes begin a line.
    block: BytesMut,
    filled: usize,
    /// Beginning and length so far of a line that is too long and has not ended yet.
    overlong: Option<(Bytes, u64)>,
}

impl Splitter {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            block: BytesMut::new(),
            filled: 0,
            overlong: None,
        }
    }

    /// The space to read the next bytes into; never empty.
    pub(super) fn space(&mut self) -> &mut [u8] {
        space(&mut self.block, self.filled)
    }

    /// Takes in the first `count` bytes of the space; hands over the pieces that they complete.
    pub(super) fn filled(&mut self, count: usize, mut take: impl FnMut(Piece)) {
        let mut searched = self.filled;
        self.filled += count;
        if let Some((head, len_bytes)) = self.overlong.take() {
            let Some(end) = memchr::memchr(b'\n', &self.block[..self.filled]) else {
                self.overlong = Some((head, len_bytes + self.filled as u64));
                self.filled = 0;
                return;
            };
            let len_bytes = len_bytes + end as u64;
            take(Piece::Overlong {
                head,
                len_bytes,
                taken_bytes: len_bytes + 1,
                lines: 1,
            });
            let _ = self.block.split_to(end + 1);
            self.filled -= end + 1;
            searched = 0;
        }
        if let Some(last) = memchr::memrchr(b'\n', &self.block[searched..self.filled]) {
            let end = searched + last + 1;
            take(Piece::Lines(self.block.split_to(end).freeze()));
            self.filled -= end;
        }
        if self.filled > self.most_bytes.max(HEAD_BYTES) {
            let head = Bytes::copy_from_slice(&self.block[..HEAD_BYTES]);
            self.overlong = Some((head, self.filled as u64));
            self.filled = 0;
        }
    }

    /// Ends the stream, and hands over what came after its last LF.
    pub(super) fn finish(&mut self, mut take: impl FnMut(Piece)) {
        if let Some((head, len_bytes)) = self.overlong.take() {
            take(Piece::Overlong {
                head,
                len_bytes,
                taken_bytes: len_bytes,
                lines: 1,
            });
        } else if self.filled > 0 {
            take(Piece::Lines(self.block.split_to(self.filled).freeze()));
            self.filled = 0;
        }
    }
}

/// The free part of a block behind `filled`, or of a larger one with the same beginning.
pub(super) fn space(block: &mut BytesMut, filled: usize) -> &mut [u8] {
    if block.len() - filled < LEAST_READ_BYTES {
        // A line of many blocks is copied a constant number of times if each block doubles.
        let mut larger = BytesMut::zeroed(BLOCK_BYTES.max(filled * 2));
        larger[..filled].copy_from_slice(&block[..filled]);
        *block = larger;
    }
    &mut block[filled..]
}

/// The number of bytes that are kept of a line that is too long.
pub(super) const HEAD_BYTES: usize = 64 << 10;
const BLOCK_BYTES: usize = 2 << 20;
/// The least space for a read: with less, more calls would cost more than a new block.
const LEAST_READ_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts `input`, handed over in parts of these lengths, over and over.
    fn cut(input: &[u8], parts: &[usize], most_bytes: usize) -> Vec<Piece> {
        let mut splitter = Splitter::new(most_bytes);
        let (mut pieces, mut rest) = (Vec::new(), input);
        for part in parts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let space = splitter.space();
            let count = (*part).min(rest.len()).min(space.len());
            space[..count].copy_from_slice(&rest[..count]);
            splitter.filled(count, |piece| pieces.push(piece));
            rest = &rest[count..];
        }
        splitter.finish(|piece| pieces.push(piece));
        pieces
    }

    fn joined(pieces: &[Piece]) -> Vec<u8> {
        let lines = pieces.iter().map(|piece| match piece {
            Piece::Lines(bytes) => &bytes[..],
            Piece::Records { .. } | Piece::Overlong { .. } => panic!("neither CSV nor too long"),
        });
        lines.collect::<Vec<_>>().concat()
    }

    #[test]
    fn pieces_are_whole_lines_however_the_bytes_come() {
        let input = b"one\n\n\0two\r\n\xFFthree";
        for parts in [&[1][..], &[2, 3], &[100], &[4, 1], &[5, 1, 7]] {
            let pieces = cut(input, parts, 1 << 20);
            assert_eq!(joined(&pieces), input, "{parts:?}");
            let (last, others) = pieces.split_last().expect("pieces");
            assert_eq!(*last, Piece::Lines(Bytes::from_static(b"\xFFthree")));
            for piece in others {
                let Piece::Lines(bytes) = piece else {
                    panic!("{piece:?}")
                };
                assert!(bytes.ends_with(b"\n"), "{piece:?}");
            }
        }
    }

    #[test]
    fn a_line_longer_than_a_block_is_one_piece() {
        let mut input = vec![b'x'; BLOCK_BYTES * 3];
        input.extend_from_slice(b"\nnext\n");
        let pieces = cut(&input, &[100_000], BLOCK_BYTES * 4);
        assert_eq!(joined(&pieces), input);
        let Piece::Lines(first) = &pieces[0] else {
            panic!("lines")
        };
        assert!(first.len() > BLOCK_BYTES * 3);
    }

    #[test]
    fn a_line_that_is_too_long_is_measured_and_not_held() {
        let most_bytes = HEAD_BYTES + 10;
        let long = vec![b'x'; BLOCK_BYTES * 2];
        for (end, taken) in [(&b"\n"[..], 1), (b"", 0)] {
            let mut input = b"before\n".to_vec();
            input.extend_from_slice(&long);
            input.extend_from_slice(end);
            let pieces = cut(&input, &[HEAD_BYTES], most_bytes);
            let len_bytes = long.len() as u64;
            assert_eq!(
                pieces,
                [
                    Piece::Lines(Bytes::from_static(b"before\n")),
                    Piece::Overlong {
                        head: Bytes::from(long[..HEAD_BYTES].to_vec()),
                        len_bytes,
                        taken_bytes: len_bytes + taken,
                        lines: 1,
                    }
                ]
            );
        }
    }

    #[test]
    fn what_follows_a_line_that_is_too_long_is_cut_as_ever() {
        let mut input = vec![b'x'; HEAD_BYTES * 3];
        input.extend_from_slice(b"\nafter\nlast");
        let pieces = cut(&input, &[HEAD_BYTES], HEAD_BYTES);
        assert!(matches!(pieces[0], Piece::Overlong { .. }));
        assert_eq!(joined(&pieces[1..]), b"after\nlast");
    }

    #[test]
    fn nothing_is_no_line() {
        assert_eq!(cut(b"", &[1], 10), []);
    }
}
