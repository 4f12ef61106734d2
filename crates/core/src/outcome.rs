//! The remembered final result of an operation, given to every duplicate.

use bytes::Bytes;

/// The result of an effect, as it was reported the first time.
///
/// Guarantee: OUT-1, OUT-2. An outcome is written once and every duplicate inside the window gets
/// the same bytes. A result over the limit is never cut: it becomes [`Outcome::TooLarge`] and a
/// replay says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The bytes of the result under the codec that wrote them (0 = raw bytes).
    Kept {
        /// Names the encoding of `bytes`; readers refuse one that they do not know.
        codec: u16,
        /// The result, byte for byte.
        bytes: Bytes,
    },
    /// The result exceeded the limit; the effect happened all the same.
    TooLarge {
        /// Length of the result in bytes.
        len_bytes: u64,
        /// BLAKE3-256 of the result, so that it can be recognised elsewhere.
        digest: [u8; 32],
    },
}

impl Outcome {
    /// The longest result that is kept unless a pipeline says otherwise: 1 MiB.
    pub const DEFAULT_LIMIT_BYTES: usize = 1 << 20;

    /// An outcome without a result.
    pub const fn empty() -> Self {
        Self::Kept {
            codec: 0,
            bytes: Bytes::new(),
        }
    }

    /// Raw bytes, or [`Outcome::TooLarge`] when they exceed `limit_bytes`.
    pub fn raw(bytes: Bytes, limit_bytes: usize) -> Self {
        if bytes.len() <= limit_bytes {
            return Self::Kept { codec: 0, bytes };
        }
        Self::TooLarge {
            len_bytes: bytes.len() as u64,
            digest: blake3::hash(&bytes).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_over_the_limit_is_never_cut() {
        let bytes = Bytes::from_static(b"12345");
        assert!(matches!(
            Outcome::raw(bytes.clone(), 5),
            Outcome::Kept { .. }
        ));
        let Outcome::TooLarge { len_bytes, digest } = Outcome::raw(bytes, 4) else {
            panic!("five bytes exceed a limit of four");
        };
        assert_eq!((len_bytes, digest), (5, blake3::hash(b"12345").into()));
    }
}
