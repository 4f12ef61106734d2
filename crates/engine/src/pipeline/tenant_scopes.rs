//! The scopes of the tenants whose messages are read: made once each, not once a message.

use std::collections::BTreeMap;

use semel_core::Scope;

/// The scopes of the tenants that were met of late.
#[derive(Default)]
pub(super) struct TenantScopes {
    known: BTreeMap<Box<str>, Known>,
    chunk: u64,
}

struct Known {
    scope: Scope,
    /// The chunk for which the scope is in memory of its own.
    chunk: u64,
}

impl TenantScopes {
    /// Begins a chunk: its scopes go to another thread together, so they share no memory with those before.
    pub(super) fn begin_chunk(&mut self) {
        self.chunk += 1;
    }

    /// Returns the scope of `operation` for `tenant`; nothing if that is no tenant.
    pub(super) fn of(&mut self, tenant: &str, operation: &str) -> Option<Scope> {
        if let Some(known) = self.known.get_mut(tenant) {
            if known.chunk != self.chunk {
                known.scope = known.scope.detached();
                known.chunk = self.chunk;
            }
            return Some(known.scope.clone());
        }
        let scope = Scope::new(tenant, operation).ok()?;
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let known = Known {
            scope: scope.clone(),
            chunk: self.chunk,
        };
        self.known.insert(tenant.into(), known);
        Some(scope)
    }
}

/// The number of tenants whose scopes are kept: whoever sends more of them costs a scope a message, not memory.
const MOST: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tenant_has_its_scope_however_many_there_are() {
        let mut scopes = TenantScopes::default();
        for round in 0..2 {
            scopes.begin_chunk();
            for number in 0..3 * MOST {
                let tenant = format!("t{number}");
                let scope = scopes.of(&tenant, "pay").expect("a scope");
                assert_eq!((scope.tenant(), scope.operation()), (&*tenant, "pay"));
                assert!(scopes.known.len() <= MOST, "{round}");
            }
        }
        assert!(scopes.of("a\nb", "pay").is_none());
    }
}
