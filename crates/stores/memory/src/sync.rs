//! Locks: those of the standard library, or those of a scheduler that plays every order
//! (`proof/scheduled`).

#[cfg(not(semel_scheduled))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(semel_scheduled)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
