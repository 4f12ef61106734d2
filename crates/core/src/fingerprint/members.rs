//! The members of a request, each as a short keyed hash, so that a conflict can name those that differ.
//!
//! Not for deciding: a key is reused if the fingerprints differ, whatever the members are.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip::SipHasher13;
use siphasher::sip128::{self, Hasher128};

use crate::operation::Operation;

/// The members of one request: for each the hash of its name and the keyed hash of its value, two bytes each.
///
/// The hash of a value is keyed by the operation, so that equal values of two operations do not show as equal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Members(Arc<[u8]>);

impl Members {
    /// The most members that are kept of a request; of a request with more, none are kept.
    pub const MAX: usize = 32;

    /// The longest form that [`from_bytes`](Self::from_bytes) takes.
    pub const MAX_BYTES: usize = 255;

    /// The bytes to store: the version of their form, then the members.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The members that were stored as these bytes, in any version of the form; `None` if there are none or too
    /// many.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (1..=Self::MAX_BYTES)
            .contains(&bytes.len())
            .then(|| Self(bytes.into()))
    }

    /// The number of members; `None` if another version wrote them in a form of its own.
    pub fn count(&self) -> Option<usize> {
        self.pairs().map(<[_]>::len)
    }

    /// The members of `operation`, each a name and the canonical bytes of its value; `None` if there are none or
    /// too many.
    pub(super) fn of<'m>(
        operation: &Operation,
        members: impl ExactSizeIterator<Item = (&'m [u8], &'m [u8])>,
    ) -> Option<Self> {
        let count = members.len();
        if !(1..=Self::MAX).contains(&count) {
            return None;
        }
        let mut bytes = [0; 1 + Self::MAX * PAIR_BYTES];
        bytes[0] = FORM;
        let hashed = Hashed::new(operation);
        for (place, (name, value)) in bytes[1..].chunks_exact_mut(PAIR_BYTES).zip(members) {
            place.copy_from_slice(&hashed.pair(name, value));
        }
        Some(Self(bytes[..=count * PAIR_BYTES].into()))
    }

    fn pairs(&self) -> Option<&[Pair]> {
        let (form, pairs) = self.0.split_first()?;
        let (pairs, rest) = pairs.as_chunks();
        (*form == FORM && rest.is_empty()).then_some(pairs)
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Members(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// The members in which a request differs from the first one under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Differing {
    /// These members differ.
    Members {
        /// Members that both have, with another value.
        changed: Vec<Box<str>>,
        /// Members that the first one did not have.
        added: Vec<Box<str>>,
        /// The number of members of the first one that this one does not have. Their names were not kept.
        missing_count: usize,
    },
    /// The store kept no members of the first one.
    NotKept,
    /// This many members differ; of the requests, only the hashes are at hand.
    Unnamed {
        /// The number of members that only one of them has, or that both have with different values.
        count: usize,
    },
    /// This one has no members to compare, or more than [`Members::MAX`].
    NoMembers,
    /// All their hashes are the same, though the requests are not: with two bytes each, that happens by chance.
    Alike,
}

impl Differing {
    /// Compares the `members` of a request, each a title and its content, with the `first` ones.
    pub(super) fn between<'m>(
        operation: &Operation,
        first: Option<&Members>,
        members: impl ExactSizeIterator<Item = (Box<str>, &'m [u8], &'m [u8])>,
    ) -> Self {
        let Some(first) = first.and_then(Members::pairs) else {
            return Self::NotKept;
        };
        if !(1..=Members::MAX).contains(&members.len()) {
            return Self::NoMembers;
        }
        let hashed = Hashed::new(operation);
        let members = members.map(|(title, name, value)| (title, hashed.pair(name, value)));
        let (changed, added, missing_count) = matched(first, members);
        if changed.is_empty() && added.is_empty() && missing_count == 0 {
            return Self::Alike;
        }
        Self::Members {
            changed,
            added,
            missing_count,
        }
    }

    /// Compares requests of which only the hashes are at hand.
    pub fn unnamed(first: Option<&Members>, second: Option<&Members>) -> Self {
        let Some(first) = first.and_then(Members::pairs) else {
            return Self::NotKept;
        };
        let Some(second) = second.and_then(Members::pairs) else {
            return Self::NoMembers;
        };
        let second = second.iter().map(|pair| ((), *pair));
        let (changed, added, missing_count) = matched(first, second);
        match changed.len() + added.len() + missing_count {
            0 => Self::Alike,
            count => Self::Unnamed { count },
        }
    }

    /// The titles of all members that differ and can be named.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (changed, added): (&[_], &[_]) = match self {
            Self::Members { changed, added, .. } => (changed, added),
            Self::Unnamed { .. } | Self::NotKept | Self::NoMembers | Self::Alike => (&[], &[]),
        };
        changed.iter().chain(added).map(|title| &**title)
    }
}

impl fmt::Display for Differing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (changed, added, missing_count) = match self {
            Self::Members {
                changed,
                added,
                missing_count,
            } => (changed, added, *missing_count),
            Self::Unnamed { count: 1 } => return f.write_str("one member differs"),
            Self::Unnamed { count } => return write!(f, "{count} members differ"),
            Self::NotKept => {
                return f.write_str("what differs cannot be told: no member of the first was kept");
            }
            Self::NoMembers => {
                return write!(
                    f,
                    "what differs cannot be told: there are no members, or more than {}",
                    Members::MAX
                );
            }
            Self::Alike => {
                return f.write_str(
                    "the members that differ cannot be told: their short hashes are the same",
                );
            }
        };
        let mut parts = Vec::new();
        if !changed.is_empty() {
            let verb = if changed.len() == 1 {
                "differs"
            } else {
                "differ"
            };
            parts.push(format!("{} {verb}", listed(changed)));
        }
        if !added.is_empty() {
            let verb = if added.len() == 1 { "is" } else { "are" };
            parts.push(format!("{} {verb} new", listed(added)));
        }
        match missing_count {
            0 => {}
            1 => parts.push("one member of the first is missing".to_owned()),
            count => parts.push(format!("{count} members of the first are missing")),
        }
        f.write_str(&parts.join("; "))
    }
}

/// Finds for each member the one of the first request that it is or was. Returns the members with another value,
/// the new ones, and the number of the first ones that are left over.
fn matched<T>(first: &[Pair], members: impl Iterator<Item = (T, Pair)>) -> (Vec<T>, Vec<T>, usize) {
    let mut first = first.to_vec();
    let mut take = |is_wanted: &dyn Fn(&Pair) -> bool| {
        let found = first.iter().position(is_wanted);
        found.map(|place| first.swap_remove(place)).is_some()
    };
    let others: Vec<_> = members
        .filter(|(_, pair)| !take(&|it| it == pair))
        .collect();
    let (mut changed, mut added) = (Vec::new(), Vec::new());
    for (title, pair) in others {
        if take(&|it| it[..2] == pair[..2]) {
            changed.push(title);
        } else {
            added.push(title);
        }
    }
    (changed, added, first.len())
}

/// The titles in a sentence; of many, only the first few.
fn listed(titles: &[Box<str>]) -> String {
    let (shown, rest) = titles.split_at(titles.len().min(SHOWN));
    match (shown, rest.len()) {
        ([before @ .., last], 0) if !before.is_empty() => {
            format!("{} and {last}", before.join(", "))
        }
        (shown, 0) => shown.join(", "),
        (shown, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Hashes the values of one operation, with a key of its own.
struct Hashed(SipHasher13);

impl Hashed {
    fn new(operation: &Operation) -> Self {
        let (first, second) = KEY;
        let mut hasher = sip128::SipHasher13::new_with_keys(first, second);
        hasher.write(operation.scope.prefix());
        hasher.write(operation.key.as_bytes());
        let (first, second) = hasher.finish128().as_u64();
        Self(SipHasher13::new_with_keys(first, second))
    }

    fn pair(&self, name: &[u8], value: &[u8]) -> Pair {
        let [first, second] = short(name).to_le_bytes();
        let [third, fourth, ..] = self.0.hash(value).to_le_bytes();
        [first, second, third, fourth]
    }
}

/// The hash of a name: FNV-1a, folded to two bytes. It has to be cheap; names are no secrets.
fn short(name: &[u8]) -> u16 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = name.iter().fold(0x811c_9dc5, step);
    let [a, b, c, d] = hash.to_le_bytes();
    u16::from_le_bytes([a ^ c, b ^ d])
}

/// The hash of a name, the hash of a value.
type Pair = [u8; PAIR_BYTES];

/// The key from which the keys of the operations are made.
const KEY: (u64, u64) = (
    u64::from_le_bytes(*b"semel me"),
    u64::from_le_bytes(*b"mbers v1"),
);
const PAIR_BYTES: usize = 4;
/// The version of the form.
const FORM: u8 = 1;
/// The most titles in a sentence.
const SHOWN: usize = 8;

#[cfg(test)]
mod tests;
