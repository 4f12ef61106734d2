//! The images of the partitions that a member has, and when they are complete.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicI32;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::partition::Image;
use semel_core::port::streamed::Restored;
use semel_core::{Clock, Code, Error, ErrorKind, Result, Window};

use crate::shared::AssignmentId;

/// The images of the partitions that this member has.
pub(crate) struct Images {
    pub(super) window: Window,
    pub(super) clock: Arc<dyn Clock>,
    /// Number of partitions of the input, once that is known.
    pub(super) partitions: AtomicI32,
    pub(super) state: Mutex<Known>,
    /// Notified when an image is to be restored, or no longer is.
    pub(super) changed: Condvar,
}

pub(super) type Known = BTreeMap<AssignmentId, Partition>;

/// State of one assignment of one partition.
pub(super) struct Partition {
    pub(super) number: i32,
    pub(super) image: Image,
    /// The offset of the changelog behind the image's last record, once something was read.
    pub(super) next: Option<i64>,
    /// The range of the changelog that is read, once that is known.
    pub(super) reach: Option<(i64, i64)>,
    /// Operations that were found there.
    pub(super) operations: usize,
    /// Set once the image has everything that was committed before.
    pub(super) is_restored: bool,
}

impl Partition {
    /// Returns an error while the image may lack committed operations.
    pub(super) fn is_known(&self) -> Result<()> {
        if self.is_restored {
            return Ok(());
        }
        let message = "what was committed is being restored from the changelog";
        Err(unavailable(message).not_applied())
    }

    pub(super) fn restored(&self) -> Restored {
        let (from, end) = self.reach.unwrap_or_default();
        let records = u64::try_from(end - from).unwrap_or_default();
        let read = self.next.map_or(0, |next| next - from);
        let read = u64::try_from(read).unwrap_or_default().min(records);
        Restored {
            partition: self.number,
            read: if self.is_restored { records } else { read },
            records: self.reach.map(|_| records),
            operations: self.operations as u64,
            is_done: self.is_restored,
        }
    }
}

impl Images {
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        lock(&self.state)
    }

    /// Marks all images as incomplete, since it is unknown how the last transaction ended: they are restored again.
    pub(super) fn doubt(&self) {
        for known in self.lock().values_mut() {
            known.is_restored = false;
            known.reach = None;
        }
        self.changed.notify_all();
    }
}

/// Receiver of a consumer's assignments.
pub(crate) struct Restoring(pub(super) Arc<Images>);

impl Restoring {
    /// Notes that a partition was assigned.
    pub(crate) fn begin(&self, id: AssignmentId, partition: i32) {
        let known = Partition {
            number: partition,
            image: Image::new(self.0.window),
            next: None,
            reach: None,
            operations: 0,
            is_restored: false,
        };
        self.0.lock().insert(id, known);
        self.0.changed.notify_all();
    }

    /// Notes that these assignments are over.
    pub(crate) fn end(&self, ids: &[AssignmentId]) {
        let mut state = self.0.lock();
        for id in ids {
            state.remove(id);
        }
        self.0.changed.notify_all();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Error for transactions that are unavailable now.
pub(super) fn unavailable(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unavailable, message.into())
        .with_code(Code::TargetUnavailable)
        .retry_after(AGAIN)
}

/// Pause before the next look at a partition whose image is being restored.
pub(super) const AGAIN: Duration = Duration::from_millis(50);
