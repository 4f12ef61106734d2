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

    /// The codec of bytes with their content type: its length in one byte, the content type, the bytes.
    pub const MEDIA_CODEC: u16 = 2;

    /// The longest content type.
    pub const CONTENT_TYPE_BYTES: usize = 255;

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

    /// Bytes with their content type, or [`Outcome::TooLarge`] when the bytes exceed `limit_bytes`; nothing if the
    /// content type is over [`Outcome::CONTENT_TYPE_BYTES`] long.
    pub fn media(content_type: &str, bytes: Bytes, limit_bytes: usize) -> Option<Self> {
        let len = u8::try_from(content_type.len()).ok()?;
        if bytes.len() > limit_bytes {
            return Some(Self::raw(bytes, limit_bytes));
        }
        let mut media = Vec::with_capacity(1 + content_type.len() + bytes.len());
        media.push(len);
        media.extend_from_slice(content_type.as_bytes());
        media.extend_from_slice(&bytes);
        Some(Self::Kept {
            codec: Self::MEDIA_CODEC,
            bytes: media.into(),
        })
    }

    /// The content type and the bytes that [`Outcome::media`] keeps; nothing of any other outcome.
    pub fn as_media(&self) -> Option<(&str, &[u8])> {
        let Self::Kept { codec, bytes } = self else {
            return None;
        };
        let (&len, rest) = bytes
            .split_first()
            .filter(|_| *codec == Self::MEDIA_CODEC)?;
        let (content_type, bytes) = rest.split_at_checked(len.into())?;
        Some((std::str::from_utf8(content_type).ok()?, bytes))
    }

    /// The bytes of the result, without the content type that may be kept with them; nothing of a result that was too
    /// large.
    pub fn result(&self) -> Option<&[u8]> {
        match (self, self.as_media()) {
            (_, Some((_, bytes))) => Some(bytes),
            (Self::Kept { bytes, .. }, None) => Some(bytes),
            (Self::TooLarge { .. }, None) => None,
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
    fn bytes_come_back_with_their_content_type() {
        let png = Bytes::from_static(b"\x89PNG");
        for content_type in ["image/png", "", &"x".repeat(255)] {
            let outcome = Outcome::media(content_type, png.clone(), 4).expect("it is short enough");
            assert_eq!(outcome.as_media(), Some((content_type, &png[..])));
            assert_eq!(outcome.result(), Some(&png[..]));
        }
        assert_eq!(Outcome::media(&"x".repeat(256), png.clone(), 4), None);
        let large = Outcome::media("image/png", png.clone(), 3);
        assert_eq!(large, Some(Outcome::raw(png.clone(), 3)));
        assert_eq!(large.and_then(|it| it.result().map(<[u8]>::len)), None);
        let raw = Outcome::raw(png.clone(), 4);
        assert_eq!((raw.as_media(), raw.result()), (None, Some(&png[..])));
        for damaged in [&b""[..], b"\x03ab", b"\x01\xff"] {
            let codec = Outcome::MEDIA_CODEC;
            let bytes = Bytes::copy_from_slice(damaged);
            assert_eq!(Outcome::Kept { codec, bytes }.as_media(), None);
        }
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
