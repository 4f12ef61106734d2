//! The time that a run has left once it ends, since a stop is requested or its source has failed.
//!
//! It is one for the whole run, counted from the moment at which the run noticed, whatever is waited for then: what runs
//! has the patience of the shutdown, and reports of how it ended have [`LAST_REPORTS`] more. What is still waited for
//! at the end of its time is cut off, and whether it happened is unknown: it is neither reported nor acknowledged. The
//! source, which may keep what it is told in the same store, has [`LAST_OF_SOURCE`] after that.

use std::time::Duration;

use semel_core::{Error, ErrorKind, Result};

use super::context::Context;

/// The time after a shutdown's patience in which a run still reports how its work has ended.
pub const LAST_REPORTS: Duration = Duration::from_secs(5);

/// The time after that in which a source still passes on what it was told, and is closed.
pub const LAST_OF_SOURCE: Duration = Duration::from_secs(1);

/// The kinds of calls, which differ in the time that they have once the run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It leads to more work, like a claim: it begins as long as there is patience, and is waited for as long, at least for
    /// [`LAST_REPORTS`]: a claim that is cut off stands until its lease ends.
    Work,
    /// It extends leases, which is of no use any more once the work under them is broken off: as long as what runs.
    Lease,
    /// It tells how something has ended: [`LAST_REPORTS`] longer.
    Report,
    /// It does some work and reports it in one: it begins as work does, and is waited for as a report is.
    Both,
}

impl Context {
    /// Notes that the run ends, unless it does so already.
    pub(super) fn note_ending(&self) {
        self.ending.since.get_or_init(|| self.now());
    }

    /// Returns the time by which what runs has to end; nothing while the run goes on. What runs when a run is recalled
    /// has no limit.
    pub(super) fn ends_at(&self) -> Option<Duration> {
        let since = self.ends_since()?;
        Some(since.saturating_add(self.shutdown.patience))
    }

    /// Returns the time at which the run noticed that it ends.
    fn ends_since(&self) -> Option<Duration> {
        if self.shutdown.is_stop() {
            self.note_ending();
        }
        self.ending.since.get().copied()
    }

    /// Returns the time until which an answer is waited for, once the run ends.
    pub(super) fn waits_until(&self, purpose: Purpose) -> Option<Duration> {
        let since = self.ends_since()?;
        let end = since.saturating_add(self.shutdown.patience);
        Some(match purpose {
            Purpose::Work => end.max(since.saturating_add(LAST_REPORTS)),
            Purpose::Lease => end,
            Purpose::Report | Purpose::Both => end.saturating_add(LAST_REPORTS),
        })
    }

    /// Tells whether there is time to begin a call.
    pub(super) fn may_begin(&self, purpose: Purpose) -> bool {
        let until = match purpose {
            Purpose::Work | Purpose::Lease | Purpose::Both => self.ends_at(),
            Purpose::Report => self.waits_until(purpose),
        };
        until.is_none_or(|until| self.now() < until)
    }

    /// Tells whether what runs has no time left.
    pub(super) fn is_out_of_patience(&self) -> bool {
        !self.may_begin(Purpose::Work)
    }

    /// Waits until the run ends and what runs has no time left.
    pub(super) async fn patience_is_over(&self) {
        self.ending().await;
        self.has_passed(self.ends_at()).await;
    }

    /// Waits until the run ends and no answer to such a call is waited for any more.
    pub(super) async fn time_is_up(&self, purpose: Purpose) {
        self.ending().await;
        self.has_passed(self.waits_until(purpose)).await;
    }

    /// Waits until the run ends and its source is not waited for any more either; at least for `least`.
    pub(super) async fn source_is_left(&self, least: Duration) {
        let least = self.now().saturating_add(least);
        self.ending().await;
        let end = self.waits_until(Purpose::Report);
        let end = end.map(|end| end.saturating_add(LAST_OF_SOURCE).max(least));
        self.has_passed(end).await;
    }

    /// Waits until the run ends.
    async fn ending(&self) {
        if self.ending.since.get().is_none() {
            self.stop_is_requested().await;
        }
    }

    async fn has_passed(&self, end: Option<Duration>) {
        let end = end.unwrap_or_default();
        tokio::time::sleep(end.saturating_sub(self.now())).await;
    }

    /// Notes that a call was cut off, or not begun any more, after this failure of it, if there was one. Returns the
    /// failure with which the run ends.
    pub(super) fn cut_off(&self, purpose: Purpose, failure: Option<Error>) -> Error {
        let error = || failure.unwrap_or_else(out_of_time);
        if purpose == Purpose::Lease {
            return error();
        }
        self.ending.cut_off.get_or_init(error).clone()
    }

    /// Fails if a call was cut off whose result would have mattered.
    pub(super) fn is_complete(&self) -> Result<()> {
        self.ending.cut_off.get().cloned().map_or(Ok(()), Err)
    }
}

/// Returns the error of a source that was left behind: it may not have passed on what it was told.
pub(super) fn source_out_of_time() -> Error {
    let message = "the source has not ended, and the time for the stop is over";
    Error::new(ErrorKind::Timeout, message)
}

/// Returns the error of a call that was cut off; it may have been carried out.
pub(super) fn out_of_time() -> Error {
    let message = "the store has not answered, and the time for the stop is over";
    Error::new(ErrorKind::Timeout, message)
}
