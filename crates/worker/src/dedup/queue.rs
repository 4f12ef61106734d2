//! The queue between the thread that reads and the task that decides: batches grow while they wait.
//!
//! The deciding task takes everything that is there, up to one batch. So a slow input is answered line
//! by line, and a fast one in large batches, without a timer.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use semel_core::{Error, ErrorKind, Result};
use tokio::sync::Notify;

use super::batch::Batch;

/// A queue of batches of at most `most_lines`, and its two ends.
pub(super) fn queue(most_lines: usize) -> (Sender, Receiver) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        room: Condvar::new(),
        ready: Notify::new(),
        most_lines,
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The reading thread's end.
#[derive(Debug)]
pub(super) struct Sender(Arc<Shared>);

/// The deciding task's end.
#[derive(Debug)]
pub(super) struct Receiver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    room: Condvar,
    ready: Notify,
    most_lines: usize,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<Batch>,
    lines: usize,
    bytes: usize,
    /// The result of the input, once it ended.
    end: Option<Result<()>>,
    /// True if no more lines will be taken.
    is_abandoned: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    const fn is_full(&self, state: &State) -> bool {
        state.lines >= 2 * self.most_lines || state.bytes >= 2 * MOST_BYTES
    }
}

impl Sender {
    /// Waits for room. Returns whether the batch was taken.
    pub(super) fn send(&self, batch: Batch) -> bool {
        let mut state = self.0.state();
        while !state.is_abandoned && self.0.is_full(&state) {
            state = self
                .0
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_abandoned {
            return false;
        }
        state.lines += batch.count();
        state.bytes += batch.len_bytes;
        state.batches.push_back(batch);
        drop(state);
        self.0.ready.notify_one();
        true
    }

    /// Ends the queue with the result of the input.
    pub(super) fn end(self, end: Result<()>) {
        self.0.state().end = Some(end);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.state().end.get_or_insert_with(|| {
            let message = "the thread that reads the input has stopped";
            Err(Error::new(ErrorKind::Internal, message).not_applied())
        });
        self.0.ready.notify_one();
    }
}

impl Receiver {
    /// Waits for lines, at most `most_lines`; returns nothing at the end of the input.
    ///
    /// # Errors   the error that ended the input, after all lines that came before
    /// # Cancel safety   safe
    pub(super) async fn next(&self, most_lines: usize) -> Result<Option<Batch>> {
        loop {
            // The sender may be faster than this: a call that comes before the wait is not lost.
            let ready = self.0.ready.notified();
            if let Some(next) = self.now(most_lines) {
                return next;
            }
            ready.await;
        }
    }

    /// The lines that are there.
    fn now(&self, most_lines: usize) -> Option<Result<Option<Batch>>> {
        let mut state = self.0.state();
        if let Some(mut first) = state.batches.pop_front() {
            if let Some(rest) = first.split_off(most_lines) {
                state.batches.push_front(rest);
            }
            while let Some(next) = state.batches.front()
                && first.count() + next.count() <= most_lines
                && first.len_bytes + next.len_bytes <= MOST_BYTES
            {
                first.append(state.batches.pop_front().unwrap_or_default());
            }
            state.lines -= first.count();
            state.bytes -= first.len_bytes;
            drop(state);
            self.0.room.notify_one();
            return Some(Ok(Some(first)));
        }
        match &state.end {
            Some(Ok(())) => Some(Ok(None)),
            Some(Err(error)) => Some(Err(error.clone())),
            None => None,
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.state().is_abandoned = true;
        self.0.room.notify_one();
    }
}

/// The most bytes of lines that go to the store at once, one long line apart.
const MOST_BYTES: usize = 4 << 20;
