//! Memory for records that are read one behind the other, cut from larger pieces: one by one, payload, key, time
//! and coordinates of a small record would each be allocated and freed.

use bytes::{Bytes, BytesMut};
use semel_core::ByteString;

/// A piece of memory that is being filled. A part cut from it keeps all of it alive, so the piece is small, and a part
/// that is not small has its own.
#[derive(Default)]
pub(crate) struct Arena(BytesMut);

impl Arena {
    /// Keeps a copy of these bytes.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Bytes {
        self.keep_all([bytes])
    }

    /// Keeps a copy of this text.
    pub(crate) fn keep_text(&mut self, text: &str) -> ByteString {
        self.keep_texts([text])
    }

    /// Keeps a copy of these texts as one.
    pub(crate) fn keep_texts<const N: usize>(&mut self, texts: [&str; N]) -> ByteString {
        match ByteString::try_from(self.keep_all(texts.map(str::as_bytes))) {
            Ok(text) => text,
            Err(_) => unreachable!("texts one behind the other are a text"),
        }
    }

    fn keep_all<const N: usize>(&mut self, parts: [&[u8]; N]) -> Bytes {
        let len = parts.iter().map(|part| part.len()).sum();
        if len == 0 || len > LARGEST {
            return parts.concat().into();
        }
        if self.0.capacity() < len {
            self.0 = BytesMut::with_capacity(PIECE);
        }
        for part in parts {
            self.0.extend_from_slice(part);
        }
        self.0.split().freeze()
    }
}

const PIECE: usize = 16 << 10;
const LARGEST: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_as_one() {
        let mut arena = Arena::default();
        let long = "é".repeat(LARGEST);
        assert_eq!(arena.keep_text("naïve"), "naïve");
        assert_eq!(
            arena.keep_texts(["kafka:t:", "1:", "", "17"]),
            "kafka:t:1:17"
        );
        assert_eq!(arena.keep_texts(["a", &long]), format!("a{long}"));
        assert_eq!(arena.keep_texts(["", ""]), "");
    }

    #[test]
    fn each_keeps_its_own_bytes() {
        let mut arena = Arena::default();
        let lengths = (0..2_000).chain([LARGEST, LARGEST + 1, PIECE, 3 * PIECE, 0, 1]);
        let pieces: Vec<_> = lengths
            .map(|length| {
                let fill = u8::try_from(length % 251).expect("a byte");
                (length, fill, arena.keep(&vec![fill; length]))
            })
            .collect();
        for (length, fill, kept) in pieces {
            assert_eq!(kept.len(), length);
            assert!(kept.iter().all(|byte| *byte == fill), "{length}");
        }
    }
}
