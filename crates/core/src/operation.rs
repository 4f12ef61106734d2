//! The thing to do once: a key within its scope.

use crate::key::{Key, OpId, Scope};

/// The declared thing to do once: (tenant, operation name, key). Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Tenant and operation name, within which the key is unique.
    pub scope: Scope,
    /// The business key.
    pub key: Key,
}

impl Operation {
    /// The operation of `key` in `scope`.
    pub const fn new(scope: Scope, key: Key) -> Self {
        Self { scope, key }
    }

    /// A copy in memory of its own; see [`Key::detached`].
    #[must_use]
    pub fn detached(&self) -> Self {
        Self::new(self.scope.clone(), self.key.detached())
    }

    /// Its fixed-size identity, the primary key in every server store. Costs one BLAKE3.
    pub fn id(&self) -> OpId {
        OpId::of(&self.scope, &self.key)
    }
}
