//! Digest of an operation: 128 bits of a keyed hash over its identity.
//!
//! The digest only locates; a reader that finds something there compares the whole identity. The key is random per
//! store, so that a client that chooses keys cannot choose digests.

use std::hash::Hasher as _;

use semel_core::{Key, Operation, Scope};
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::entry::{Identity, put_identity};
use crate::wire::Put as _;

/// The digest of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest {
    /// The part that the table of finished records keeps.
    pub(crate) tag: u64,
    rest: u64,
}

impl Digest {
    /// The least of all digests.
    pub(crate) const FIRST: Self = Self { tag: 0, rest: 0 };

    pub(crate) const fn to_bytes(self) -> [u8; 16] {
        ((self.tag as u128) << 64 | self.rest as u128).to_be_bytes()
    }

    /// Returns the part that finds it among those whose tags begin alike.
    pub(crate) const fn hash(self) -> u64 {
        self.rest
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let bits = u128::from_be_bytes(bytes);
        let half = |bits: u128| u64::try_from(bits).unwrap_or(u64::MAX);
        Self {
            tag: half(bits >> 64),
            rest: half(bits & u128::from(u64::MAX)),
        }
    }
}

/// The keyed hash of one store.
#[derive(Clone)]
pub(crate) struct KeyedHash(SipHasher13);

impl KeyedHash {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        Self(SipHasher13::new_with_key(key))
    }

    #[inline]
    pub(crate) fn digest(&self, identity: Identity<'_>) -> Digest {
        let mut hasher = self.0;
        hasher.write(identity.0);
        let hash = hasher.finish128();
        Digest {
            tag: hash.h1,
            rest: hash.h2,
        }
    }

    /// Computes the identities and digests of a batch, in the caller's thread and in one piece of memory.
    pub(crate) fn address<'o>(
        &self,
        operations: impl ExactSizeIterator<Item = &'o Operation>,
    ) -> Addresses {
        let mut addresses = Addresses {
            bytes: Vec::with_capacity(operations.len() * 64),
            items: Vec::with_capacity(operations.len()),
        };
        let mut known: Option<(&Scope, std::ops::Range<usize>)> = None;
        for Operation { scope, key } in operations {
            let start = addresses.bytes.len();
            match &known {
                // A batch mostly has one scope; its prefix is copied.
                Some((last, prefix)) if *last == scope => {
                    addresses.bytes.extend_from_within(prefix.clone());
                    addresses.bytes.put_bytes(key.as_bytes());
                    // The next operation more likely shares memory with this scope than with the first, and equal
                    // pointers compare at once.
                    known = Some((scope, prefix.clone()));
                }
                Some(_) | None => {
                    put_identity(&mut addresses.bytes, scope, key);
                    let prefix_len = addresses.bytes.len() - start - suffix_len(key);
                    known = Some((scope, start..start + prefix_len));
                }
            }
            let end = addresses.bytes.len();
            let digest = self.digest(Identity(&addresses.bytes[start..end]));
            addresses.items.push((digest, start, end));
        }
        addresses
    }
}

/// The identities and digests of a batch.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    bytes: Vec<u8>,
    items: Vec<(Digest, usize, usize)>,
}

/// The identity and digest of one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address<'a> {
    pub(crate) digest: Digest,
    pub(crate) identity: Identity<'a>,
    /// Its number in its batch.
    pub(crate) number: usize,
}

impl Address<'_> {
    /// The number of an operation that is in no batch.
    pub(crate) const ALONE: usize = usize::MAX;
}

impl Addresses {
    pub(crate) fn get(&self, index: usize) -> Address<'_> {
        let (digest, start, end) = self.items[index];
        Address {
            digest,
            identity: Identity(&self.bytes[start..end]),
            number: index,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds the bytes written by `put`: an identity, and the part behind it. Returns their range.
    pub(crate) fn push(
        &mut self,
        keyed_hash: &KeyedHash,
        operation: &Operation,
        follow: impl FnOnce(&mut Vec<u8>),
    ) -> std::ops::Range<usize> {
        let start = self.bytes.len();
        put_identity(&mut self.bytes, &operation.scope, &operation.key);
        let end = self.bytes.len();
        let digest = keyed_hash.digest(Identity(&self.bytes[start..end]));
        self.items.push((digest, start, end));
        follow(&mut self.bytes);
        start..self.bytes.len()
    }

    /// Returns bytes that were put there.
    pub(crate) fn bytes(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Returns the tags of up to `count` items from `number` on.
    pub(crate) fn tags(&self, number: usize, count: usize) -> impl Iterator<Item = u64> {
        self.digests(number, count).map(|digest| digest.tag)
    }

    /// Returns the digests of up to `count` items from `number` on.
    pub(crate) fn digests(&self, number: usize, count: usize) -> impl Iterator<Item = Digest> {
        let end = self.items.len().min(number + count);
        let items = self.items.get(number..end).unwrap_or_default();
        items.iter().map(|(digest, _, _)| *digest)
    }
}

/// Returns the length of a key together with its length prefix.
fn suffix_len(key: &Key) -> usize {
    let len = key.as_bytes().len();
    let bits = usize::BITS - len.leading_zeros();
    len + (bits.div_ceil(7).max(1) as usize)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::entry::Scopes;

    #[test]
    fn a_copied_prefix_makes_the_same_identity() {
        let keyed_hash = KeyedHash::new(&[7; 16]);
        let scope = Scope::new("t", "payments").expect("a scope");
        let operations: Vec<_> = [0, 1, 127, 128, 300, 20_000]
            .into_iter()
            .map(|len| {
                let key = Key::from_canonical(Bytes::from(vec![b'k'; len])).expect("UTF-8");
                Operation::new(scope.clone(), key)
            })
            .collect();
        let together = keyed_hash.address(operations.iter());
        for (index, operation) in operations.iter().enumerate() {
            let alone = keyed_hash.address(std::iter::once(operation));
            assert_eq!(together.get(index).identity, alone.get(0).identity);
            assert_eq!(together.get(index).digest, alone.get(0).digest);
            assert_eq!(
                together
                    .get(index)
                    .identity
                    .operation(&mut Scopes::default())
                    .as_ref(),
                Some(operation)
            );
        }
    }
}
