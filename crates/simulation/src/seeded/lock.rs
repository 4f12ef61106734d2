//! Locks of a scenario, which runs on one thread.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex that is never contended; a panic in a scenario is a finding of its own.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
