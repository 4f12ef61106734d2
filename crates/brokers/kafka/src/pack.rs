//! Memory for records that are read one behind the other, cut from larger pieces: one by one, payload, key and
//! time of a small record would each be allocated, counted and freed.

use bytes::{Bytes, BytesMut};

/// A piece of memory that is being filled. What was cut from it keeps all of it, so it is small, and what is
/// not small has its own.
#[derive(Default)]
pub(crate) struct Pack(BytesMut);

impl Pack {
    /// Keeps a copy of these bytes.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.is_empty() || bytes.len() > LARGEST {
            return Bytes::copy_from_slice(bytes);
        }
        if self.0.capacity() < bytes.len() {
            self.0 = BytesMut::with_capacity(PIECE);
        }
        self.0.extend_from_slice(bytes);
        self.0.split().freeze()
    }
}

const PIECE: usize = 16 << 10;
const LARGEST: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_keeps_its_own_bytes() {
        let mut pack = Pack::default();
        let lengths = (0..2_000).chain([LARGEST, LARGEST + 1, PIECE, 3 * PIECE, 0, 1]);
        let pieces: Vec<_> = lengths
            .map(|length| {
                let fill = u8::try_from(length % 251).expect("a byte");
                (length, fill, pack.keep(&vec![fill; length]))
            })
            .collect();
        for (length, fill, kept) in pieces {
            assert_eq!(kept.len(), length);
            assert!(kept.iter().all(|byte| *byte == fill), "{length}");
        }
    }
}
