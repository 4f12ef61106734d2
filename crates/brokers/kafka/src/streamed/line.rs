//! Where a batch stands in line, for whoever commits it on a thread of its own. Not for deciding what is committed.

use std::future::{Future, ready};
use std::sync::Weak;
use std::time::Duration;

use semel_core::Result;
use semel_core::port::streamed::{CommitProgress, Turn};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::unavailable;

/// Whoever leaves it uncommitted has unwritten what it wrote.
pub(super) struct Line<T: Turn> {
    turn: T,
    runtime: Handle,
    /// Whether somebody waits for what comes of it.
    asked: Weak<()>,
}

impl<T: Turn> Line<T> {
    /// Within a Tokio runtime.
    pub(super) fn new(turn: T, asked: Weak<()>) -> Self {
        Self {
            turn,
            runtime: Handle::current(),
            asked,
        }
    }

    /// Waits until the batch before is so far.
    pub(super) fn come(&self, progress: CommitProgress) -> Result<()> {
        self.runtime.block_on(self.turn.come(progress))?;
        self.is_asked()
    }

    /// Whether what is written may be committed now.
    pub(super) fn may_commit(&self) -> Result<bool> {
        self.may_commit_until(ready(()))
    }

    /// Waits until what is written may be committed. If not within this time, or if the batch before is to be written
    /// again, it may not.
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

    /// This batch is so far.
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
