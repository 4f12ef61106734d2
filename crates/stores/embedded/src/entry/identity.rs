//! Encoding of an operation's identity.

use bytes::Bytes;
use semel_core::{Key, Operation, Scope};

use crate::wire::{Put, Take};

/// Tenant, operation name and key, each with its length.
///
/// These bytes are hashed to find an operation, begin its entries, and are compared byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity<'a>(pub(crate) &'a [u8]);

impl<'a> Identity<'a> {
    /// Splits it into its three parts.
    pub(crate) fn parts(self) -> Option<(&'a str, &'a str, &'a [u8])> {
        let mut take = Take::new(self.0);
        Some((take.text()?, take.text()?, take.bytes()?))
    }

    /// Returns whether this is the identity of `operation`.
    pub(crate) fn is_of(self, operation: &Operation) -> bool {
        let scope = &operation.scope;
        let operation = (scope.tenant(), scope.operation(), operation.key.as_bytes());
        self.parts() == Some(operation)
    }

    /// Builds the operation, in memory of its own.
    pub(crate) fn operation(self, scopes: &mut Scopes) -> Option<Operation> {
        let (tenant, operation, key) = self.parts()?;
        let scope = scopes.scope(tenant, operation)?;
        let key = Key::from_canonical(Bytes::copy_from_slice(key))?;
        Some(Operation::new(scope, key))
    }
}

/// Scopes that were read lately. Creating one costs more than everything else about reading a record, and most logs
/// have few.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    known: Vec<Scope>,
    /// Index of the scope that was asked for last.
    last: usize,
}

impl Scopes {
    fn scope(&mut self, tenant: &str, operation: &str) -> Option<Scope> {
        let is_it = |scope: &Scope| scope.operation() == operation && scope.tenant() == tenant;
        if let Some(last) = self.known.get(self.last).filter(|last| is_it(last)) {
            return Some(last.clone());
        }
        self.last = match self.known.iter().position(is_it) {
            Some(known) => known,
            None if self.known.len() < MOST_SCOPES => {
                self.known.push(Scope::new(tenant, operation).ok()?);
                self.known.len() - 1
            }
            None => {
                let next = (self.last + 1) % MOST_SCOPES;
                self.known[next] = Scope::new(tenant, operation).ok()?;
                next
            }
        };
        self.known.get(self.last).cloned()
    }
}

/// Writes an identity.
pub(crate) fn put_identity(buffer: &mut Vec<u8>, scope: &Scope, key: &Key) {
    buffer.put_bytes(scope.tenant().as_bytes());
    buffer.put_bytes(scope.operation().as_bytes());
    buffer.put_bytes(key.as_bytes());
}

/// Scopes that are remembered at most.
const MOST_SCOPES: usize = 16;
