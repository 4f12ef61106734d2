//! The remembered final result of an operation, given to every duplicate.

use bytes::Bytes;

use crate::planted;

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
    /// The longest result that is kept unless a pipeline sets another limit: 1 MiB.
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

/// A result that is still arriving: keeps it while it is short enough, and measures all of it.
#[derive(Clone, Debug)]
pub struct Gathering {
    kept: Vec<u8>,
    most_bytes: usize,
    /// The length and digest so far of a result that has grown too long.
    measured: Option<(u64, blake3::Hasher)>,
}

impl Gathering {
    /// A gathering that keeps at most `most_bytes`.
    pub const fn new(most_bytes: usize) -> Self {
        Self {
            kept: Vec::new(),
            most_bytes,
            measured: None,
        }
    }

    /// Takes in the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.measured.is_none() && self.kept.len() + bytes.len() > self.most_bytes {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&self.kept);
            self.measured = Some((self.kept.len() as u64, hasher));
        }
        match &mut self.measured {
            None => self.kept.extend_from_slice(bytes),
            Some((len_bytes, hasher)) => {
                hasher.update(bytes);
                *len_bytes += bytes.len() as u64;
            }
        }
    }

    /// The bytes that were kept: all, or the beginning.
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Returns the whole result, or [`Outcome::TooLarge`].
    ///
    /// # Errors
    ///
    /// The outcome that stands for a result that was not kept.
    pub fn finish(self) -> Result<Bytes, Outcome> {
        match self.measured {
            None => Ok(self.kept.into()),
            Some(_) if planted("M37") => Ok(self.kept.into()),
            Some((len_bytes, hasher)) => Err(Outcome::TooLarge {
                len_bytes,
                digest: hasher.finalize().into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mebibyte_is_kept_unless_told_otherwise() {
        assert_eq!(Outcome::DEFAULT_LIMIT_BYTES, 1_048_576);
    }

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

    #[test]
    fn an_empty_outcome_is_kept() {
        let kept = Outcome::Kept {
            codec: 0,
            bytes: Bytes::new(),
        };
        assert_eq!(Outcome::empty(), kept);
        assert_eq!(Outcome::raw(Bytes::new(), 0), kept);
    }

    #[test]
    fn a_result_that_comes_in_pieces_is_measured_whole() {
        let mut whole = Gathering::new(5);
        let mut cut = Gathering::new(4);
        for piece in [&b"12"[..], b"345"] {
            whole.push(piece);
            cut.push(piece);
        }
        assert_eq!(whole.finish(), Ok(Bytes::from_static(b"12345")));
        assert_eq!(cut.kept(), b"12");
        assert_eq!(
            cut.finish(),
            Err(Outcome::raw(Bytes::from_static(b"12345"), 4))
        );
    }
}
