//! The scope of a key, and the id of the operation that scope and key name together.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};

use super::Key;
use crate::planted;

/// The namespace within which a key is unique: a tenant and an operation name.
///
/// # Cost
/// Cheap to clone; the part that both add to an id is laid out once, when the scope is made
#[derive(Clone)]
pub struct Scope(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    tenant: Box<str>,
    operation: Box<str>,
    /// The bytes that are hashed before the key of an operation.
    prefix: Box<[u8]>,
    /// The context key that makes a hasher one of ids.
    context: ContextKey,
}

impl Scope {
    /// The longest tenant and the longest operation name.
    pub const MAX_BYTES: usize = 255;

    /// The operation names of the orders that pause and drain pipelines.
    pub const OF_ORDERS: [&str; 2] = ["semel-pause", "semel-drain"];

    /// Tells whether Semel keeps records of its own under this operation name: no pipeline, route or claim may have it.
    pub fn is_reserved(operation: &str) -> bool {
        Self::OF_ORDERS.contains(&operation)
    }

    /// The scope of `operation` for `tenant`, which is empty where there is only one.
    ///
    /// # Errors
    /// An empty operation, a part of over 255 bytes, a control character.
    pub fn new(tenant: &str, operation: &str) -> Result<Self, InvalidScope> {
        if operation.is_empty() {
            return Err(InvalidScope::OperationEmpty);
        }
        for (part, text) in [("tenant", tenant), ("operation", operation)] {
            if text.len() > Self::MAX_BYTES {
                return Err(InvalidScope::TooLong { part });
            }
            if text.chars().any(char::is_control) {
                return Err(InvalidScope::ControlCharacter { part });
            }
        }
        let mut prefix = Vec::new();
        if !planted("M24") {
            put_part(&mut prefix, tenant.as_bytes());
        }
        put_part(&mut prefix, operation.as_bytes());
        Ok(Self(Arc::new(Parts {
            tenant: tenant.into(),
            operation: operation.into(),
            prefix: prefix.into(),
            context: hash_derive_key_context(OP_ID_CONTEXT),
        })))
    }

    /// The tenant that owns the operation; empty where there is only one tenant.
    pub fn tenant(&self) -> &str {
        &self.0.tenant
    }

    /// The name of the operation: the pipeline, route or effect.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// A copy of the scope in memory of its own, for work that another thread will do. Clones of one scope share one
    /// reference count, and threads that clone and drop them would contend for it.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Arc::new((*self.0).clone()))
    }

    /// The scope's part of an operation's identity: the same for every key, and never the same for two scopes.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.0.prefix
    }

    fn parts(&self) -> (&str, &str) {
        (self.tenant(), self.operation())
    }
}

impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.parts() == other.parts()
    }
}

impl Eq for Scope {}

impl PartialOrd for Scope {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scope {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl Hash for Scope {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tenant, operation) = self.parts();
        f.debug_struct("Scope")
            .field("tenant", &tenant)
            .field("operation", &operation)
            .finish()
    }
}

/// The reason why two texts do not make a [`Scope`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidScope {
    /// The operation has no name.
    OperationEmpty,
    /// A part is over [`Scope::MAX_BYTES`] long.
    TooLong {
        /// `tenant` or `operation`.
        part: &'static str,
    },
    /// A part contains a control character.
    ControlCharacter {
        /// `tenant` or `operation`.
        part: &'static str,
    },
}

impl fmt::Display for InvalidScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OperationEmpty => f.write_str("the operation name is empty"),
            Self::TooLong { part } => {
                write!(f, "the {part} name is over {} bytes long", Scope::MAX_BYTES)
            }
            Self::ControlCharacter { part } => {
                write!(f, "the {part} name contains a control character")
            }
        }
    }
}

impl std::error::Error for InvalidScope {}

/// The id of one operation: the BLAKE3-256 of its tenant, name and key.
///
/// # Guarantee
/// Every part is length-prefixed, so parts never run into each other; no collation,
/// case or padding of any store can make two of them one
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId([u8; 32]);

impl OpId {
    /// The id of the operation that `key` names within `scope`.
    pub fn of(scope: &Scope, key: &Key) -> Self {
        let Parts {
            prefix, context, ..
        } = &*scope.0;
        if planted("M29") {
            return Self::hash(context, prefix, &key.as_bytes().to_ascii_lowercase());
        }
        Self::hash(context, prefix, key.as_bytes())
    }

    /// Hashes prefix and key. A hasher is large: making a new one is faster than copying one; and it reads one piece
    /// faster than three.
    fn hash(context: &ContextKey, prefix: &[u8], key: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_from_context_key(context);
        let len = len_of(key);
        let parts = [prefix, length(&len), key];
        let end = parts.iter().map(|part| part.len()).sum();
        let mut whole = [0; 256];
        if let Some(whole) = whole.get_mut(..end) {
            let mut rest = &mut *whole;
            for part in parts {
                let (piece, behind) = rest.split_at_mut(part.len());
                piece.copy_from_slice(part);
                rest = behind;
            }
            hasher.update(whole);
        } else {
            for part in parts {
                hasher.update(part);
            }
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The id that a store kept as these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpId({self})")
    }
}

impl FromStr for OpId {
    type Err = InvalidOpId;

    fn from_str(hex: &str) -> Result<Self, InvalidOpId> {
        match blake3::Hash::from_hex(hex) {
            Ok(hash) => Ok(Self(*hash.as_bytes())),
            Err(_) => Err(InvalidOpId),
        }
    }
}

/// A text that is not an [`OpId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidOpId;

impl fmt::Display for InvalidOpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an operation id is 64 hexadecimal digits")
    }
}

impl std::error::Error for InvalidOpId {}

/// Hashes [`OpId`]s and other digests for a map in memory: they are hashes already, so eight of their bytes are
/// enough.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpIdHasher(u64);

impl Hasher for OpIdHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(chunk) = bytes.last_chunk() {
            self.0 = u64::from_le_bytes(*chunk);
        }
    }

    fn write_usize(&mut self, _: usize) {
        // The length of an id says nothing, since all have the same.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn put_part(parts: &mut Vec<u8>, part: &[u8]) {
    parts.extend_from_slice(length(&len_of(part)));
    parts.extend_from_slice(part);
}

const fn len_of(part: &[u8]) -> [u8; 8] {
    (part.len() as u64).to_le_bytes()
}

/// The length that goes before a part, so that parts never run into each other.
fn length(len: &[u8; 8]) -> &[u8] {
    if planted("M25") { &[] } else { len }
}

/// Part of the stored format: ids made under another context are other ids.
const OP_ID_CONTEXT: &str = "semel 2026-11-21 operation id v1";

#[cfg(test)]
mod tests {
    use std::hash::BuildHasherDefault;

    use super::*;

    fn scope(tenant: &str, operation: &str) -> Scope {
        Scope::new(tenant, operation).expect("a scope")
    }

    #[test]
    fn a_scope_is_its_tenant_and_its_operation() {
        let one = scope("acme", "charge");
        assert_eq!((one.tenant(), one.operation()), ("acme", "charge"));
        assert_eq!(one, one.clone());
        assert_eq!(one, scope("acme", "charge"));
        assert_ne!(one, scope("acme", "refund"));
        assert_ne!(one, scope("other", "charge"));
        assert_ne!(scope("a", "bc"), scope("ab", "c"));
    }

    #[test]
    fn scopes_go_by_tenant_and_then_by_operation() {
        let mut scopes = [scope("b", "a"), scope("a", "c"), scope("a", "b")];
        scopes.sort();
        assert_eq!(scopes, [scope("a", "b"), scope("a", "c"), scope("b", "a")]);
        assert!(
            scope("a", "b")
                .partial_cmp(&scope("a", "c"))
                .is_some_and(std::cmp::Ordering::is_lt)
        );
    }

    #[test]
    fn equal_scopes_have_one_hash_and_others_another() {
        let hash = |scope: &Scope| {
            let mut hasher = std::hash::DefaultHasher::new();
            scope.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(&scope("a", "b")), hash(&scope("a", "b")));
        assert_ne!(hash(&scope("a", "b")), hash(&scope("a", "c")));
        assert_ne!(hash(&scope("a", "b")), hash(&scope("b", "b")));
    }

    #[test]
    fn what_is_no_scope_is_told_in_words() {
        let long = "x".repeat(Scope::MAX_BYTES + 1);
        for (tenant, operation, why) in [
            ("", "", "the operation name is empty"),
            (&*long, "charge", "the tenant name is over 255 bytes long"),
            ("", &*long, "the operation name is over 255 bytes long"),
            (
                "a\n",
                "charge",
                "the tenant name contains a control character",
            ),
            ("", "a\0", "the operation name contains a control character"),
        ] {
            let error = Scope::new(tenant, operation).expect_err(why);
            assert_eq!(error.to_string(), why);
        }
        assert!(Scope::new(&long[1..], &long[1..]).is_ok());
        let why = "0".parse::<OpId>().expect_err("too short").to_string();
        assert_eq!(why, "an operation id is 64 hexadecimal digits");
    }

    #[test]
    fn an_id_is_its_own_hash_in_a_map() {
        use std::hash::BuildHasher;
        let build = BuildHasherDefault::<OpIdHasher>::default();
        let mut bytes = [0; 32];
        bytes[24..].copy_from_slice(&7_u64.to_le_bytes());
        assert_eq!(build.hash_one(OpId::from_bytes(bytes)), 7);
        assert_eq!(build.hash_one(7_u128 << 64 | 5), 7);
    }
}
