//! The fingerprint, which exposes a reused key: a digest of the request that a key is bound to.
//!
//! Not for identity: two messages are the same operation because of their key, never because of
//! their fingerprint.

mod members;
mod reading;
mod selector;

pub use members::{Differing, Members};
pub use reading::Reading;
pub use selector::{Fields, FingerprintSelector};

use std::fmt;

/// The digest of one request, and the scheme that made it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// The scheme: the selectors and the canonical form that were used.
    pub scheme: u32,
    /// The first half of the BLAKE3 digest.
    pub digest: [u8; 16],
}

/// The result of comparing the fingerprints of two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The requests are the same.
    Same,
    /// The requests differ: the key was reused.
    Different,
    /// The schemes differ, so the fingerprints cannot be compared.
    Incomparable,
}

impl Fingerprint {
    /// The bytes to store: the scheme, little-endian, then the digest.
    pub fn to_bytes(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&self.scheme.to_le_bytes());
        bytes[4..].copy_from_slice(&self.digest);
        bytes
    }

    /// The fingerprint that was stored as these bytes.
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        let [a, b, c, d, digest @ ..] = bytes;
        Self {
            scheme: u32::from_le_bytes([a, b, c, d]),
            digest,
        }
    }

    /// Compares the requests behind two fingerprints.
    pub fn compare(self, other: Self) -> Comparison {
        if self.scheme != other.scheme {
            Comparison::Incomparable
        } else if self.digest == other.digest {
            Comparison::Same
        } else {
            Comparison::Different
        }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}:", self.scheme)?;
        self.digest
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests;
