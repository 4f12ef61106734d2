//! The names by which observers are told of operations.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The operations that are told by name. Clients choose the names, and observers remember them.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<HashSet<Box<str>>>);

impl Names {
    /// Returns the name under which an operation is told.
    pub(crate) fn of<'n>(&self, operation: &'n str) -> &'n str {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(operation) {
            return operation;
        }
        if known.len() >= MOST_NAMED {
            return OTHERS;
        }
        known.insert(operation.into());
        operation
    }
}

/// The most operations that an observer is told by their names.
pub const MOST_NAMED: usize = 100;

/// The name by which it is told the others.
pub const OTHERS: &str = "(others)";
