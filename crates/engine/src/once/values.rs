//! The values of effects, on their way to the caller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The values of effects, until their caller takes them.
pub(super) struct Values<T>(Arc<Mutex<Vec<Option<T>>>>);

impl<T> Values<T> {
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new((0..count).map(|_| None).collect())))
    }

    pub(super) fn put(&self, index: usize, value: T) {
        if let Some(place) = locked(&self.0).get_mut(index) {
            *place = Some(value);
        }
    }

    pub(super) fn take(&self, index: usize) -> Option<T> {
        locked(&self.0).get_mut(index).and_then(Option::take)
    }
}

impl<T> Clone for Values<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Locks a mutex; a panic of the effect leaves nothing in it half done.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
