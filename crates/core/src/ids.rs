//! The numbers that name claims, their claimants and their order.

use std::fmt;

use crate::time::Entropy;

/// 128 random bits, the first 48 of them its [`Claimant`]'s. The claimant makes it *before* it asks, so that it
/// can ask again when the answer was lost. CLM-4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(u128);

/// The identity of a claimant: 48 random bits that a process draws once, which tell its claims from those of
/// others. Shown as twelve hexadecimal digits; never a secret, never a proof.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claimant([u8; 6]);

impl Claimant {
    /// A fresh claimant.
    pub fn random(entropy: &(impl Entropy + ?Sized)) -> Self {
        let mut bytes = [0; 6];
        entropy.fill(&mut bytes);
        Self(bytes)
    }

    /// A fresh claim id of this claimant: 80 random bits behind its own 48.
    pub fn claim(self, entropy: &(impl Entropy + ?Sized)) -> ClaimId {
        let mut bytes = [0; 16];
        let (own, random) = bytes.split_at_mut(6);
        own.copy_from_slice(&self.0);
        entropy.fill(random);
        ClaimId::from_bytes(bytes)
    }
}

impl fmt::Display for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claimant({self})")
    }
}

impl ClaimId {
    /// A fresh claim id.
    pub fn random(entropy: &impl Entropy) -> Self {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes);
        Self::from_bytes(bytes)
    }

    /// The claim id with these 128 bits.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The claim id that [`ClaimId::to_bytes`] wrote.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// The claimant that made it.
    pub fn claimant(self) -> Claimant {
        let mut bytes = [0; 6];
        bytes.copy_from_slice(&self.to_bytes()[..6]);
        Claimant(bytes)
    }

    /// Returns the last 64 of its random bits.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the bits above are not wanted"
    )]
    pub const fn randomness(self) -> u64 {
        self.0 as u64
    }

    /// Its sixteen bytes, most significant first.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId({self})")
    }
}

/// A number that rises with every claim over the whole life of a store and never restarts. It is passed to
/// effects that can refuse a smaller one. CLM-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random bytes that count up, each by one.
    struct Counts(std::sync::atomic::AtomicU8);

    impl Entropy for Counts {
        fn fill(&self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn a_claim_id_says_whose_it_is_and_is_else_by_chance() {
        let entropy = Counts(1.into());
        let claimant = Claimant::random(&entropy);
        assert_eq!(claimant.to_string(), "010203040506");
        let (one, other) = (claimant.claim(&entropy), claimant.claim(&entropy));
        assert_eq!(one.to_string(), "0102030405060708090a0b0c0d0e0f10");
        assert_ne!(one, other);
        assert_eq!((one.claimant(), other.claimant()), (claimant, claimant));
        let nobodys = ClaimId::random(&entropy);
        assert_eq!(nobodys.to_bytes()[0], 0x1b);
        assert_ne!(nobodys.claimant(), claimant);
    }

    #[test]
    fn a_claim_id_is_its_bytes() {
        let id = ClaimId::from_u128(0x0102);
        assert_eq!(ClaimId::from_bytes(id.to_bytes()), id);
        assert_eq!(id.to_bytes()[14..], [1, 2]);
    }

    #[test]
    fn a_fencing_token_is_shown_as_its_number() {
        assert_eq!(FencingToken::new(17).to_string(), "17");
        assert_eq!(FencingToken::new(17).get(), 17);
    }
}
