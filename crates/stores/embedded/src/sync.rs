//! Threads: those of the system, or those of a scheduler that plays every order (`proof/scheduled`).

#[cfg(not(semel_scheduled))]
pub(crate) use std::thread;

#[cfg(semel_scheduled)]
pub(crate) use shuttle::thread;
use tokio::sync::mpsc;

/// Waits for the next job on a thread of its own; `None` once every sender is gone.
#[cfg(not(semel_scheduled))]
pub(crate) fn next<T>(queue: &mut mpsc::Receiver<T>) -> Option<T> {
    queue.blocking_recv()
}

#[cfg(semel_scheduled)]
pub(crate) fn next<T>(queue: &mut mpsc::Receiver<T>) -> Option<T> {
    shuttle::future::block_on(queue.recv())
}
