//! Position of a batch in line, for the thread that commits it. Not for deciding what is committed.

use std::future::{Future, ready};
use std::sync::Weak;
use std::time::Duration;

use semel_core::Result;
use semel_core::port::streamed::{CommitProgress, Turn};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::images::unavailable;

/// A batch's place in line. Dropped without a commit, it counts as unwritten.
pub(super) struct Line<T: Turn> {
    turn: T,
    runtime: Handle,
    /// Dead once no caller waits for the result.
    asked: Weak<()>,
}

impl<T: Turn> Line<T> {
    /// Creates it within a Tokio runtime.
    pub(super) fn new(turn: T, asked: Weak<()>) -> Self {
        Self {
            turn,
            runtime: Handle::current(),
            asked,
        }
    }

    /// Waits until the batch before has come so far.
    pub(super) fn come(&self, progress: CommitProgress) -> Result<()> {
        self.runtime.block_on(self.turn.come(progress))?;
        self.is_asked()
    }

    /// Returns whether the batch may be committed now.
    pub(super) fn may_commit(&self) -> Result<bool> {
        self.may_commit_until(ready(()))
    }

    /// Waits until the batch may be committed. Returns `false` if it may not within this time, or if the batch before
    /// is to be written again.
    pub(super) fn may_commit_within(&self, patience: Duration) -> Result<bool> {
        self.may_commit_until(async move { sleep(patience).await })
    }

    fn may_commit_until(&self, end: impl Future<Output = ()>) -> Result<bool> {
        let may_commit = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.turn.falls_back(), if !semel_core::planted("K09") => Ok(false),
                come = self.turn.come(CommitProgress::Committed) => come.map(|()| true),
                () = end => Ok(false),
            }
        })?;
        self.is_asked().map(|()| may_commit)
    }

    /// Notes that this batch has come so far.
    pub(super) fn pass(&self, progress: CommitProgress) {
        self.turn.pass(progress);
    }

    fn is_asked(&self) -> Result<()> {
        if self.asked.strong_count() == 0 && !semel_core::planted("K07") {
            return Err(unavailable("nobody waits for the commit any more").not_applied());
        }
        Ok(())
    }
}

impl<T: Turn> Drop for Line<T> {
    fn drop(&mut self) {
        self.turn.pass(CommitProgress::Unwritten);
    }
}
