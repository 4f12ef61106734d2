//! Sweeps: what one would do, the sweep itself, and its entry in the audit trail.

use std::ops::ControlFlow;

use semel_core::decide::{self, Change};
use semel_core::port::store::{ListQuery, Listed, Store};
use semel_core::port::transfer::{AnyTransferStore, Item, TransferStore};
use semel_core::{AnyStore, Audited, Certainty, Error, Note, Result, Timestamp};
use serde::{Deserialize, Serialize};

use crate::paging::for_each_page;

/// The number of records that a sweep would remove, and of those that it would put in doubt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepForecast {
    /// Records past their window.
    pub removed: u64,
    /// Calls of workers that vanished.
    pub doubted: u64,
}

/// The result of a sweep: the documented object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepResult {
    /// Records removed.
    pub removed: u64,
    /// Records found in doubt.
    pub doubted: u64,
    /// Records that nobody has worked on for long.
    pub abandoned: u64,
}

impl SweepForecast {
    /// Counts what a sweep would do at `now`.
    ///
    /// # Cost
    ///
    /// Reads the list of records
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn of(store: &AnyStore, now: Timestamp) -> Result<Self> {
        let mut due = Self::default();
        for_each_page(store, ListQuery::default(), |page: Vec<Listed>| {
            for listed in page {
                match decide::sweep(&listed.record, now) {
                    Change::Remove => due.removed += 1,
                    Change::Put(_) => due.doubted += 1,
                    Change::Keep => {}
                }
            }
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        Ok(due)
    }

    /// Asks the store for about what a sweep would remove.
    ///
    /// # Cost
    ///
    /// Bounded, however much the store holds
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn estimate(store: &AnyStore) -> Result<Option<u64>> {
        Ok(store.estimate(LOOKED_AT).await?.remembered)
    }

    /// Sweeps until nothing is left to do, and leaves an entry in the audit trail; see [`sweep`].
    pub async fn sweep(
        &self,
        store: &AnyStore,
        trail: &AnyTransferStore,
        note: Note,
        now: Timestamp,
        mut visit: impl FnMut(&SweepResult) + Send,
    ) -> SweepEnd {
        let before = Some(self.removed);
        let visit = |done: &SweepResult| {
            visit(done);
            ControlFlow::Continue(())
        };
        sweep(store, trail, note, (before, now), visit).await
    }
}

/// The end of a sweep.
#[derive(Debug)]
#[must_use = "it may have failed"]
pub struct SweepEnd {
    /// Everything that was done, also before a failure.
    pub done: SweepResult,
    /// The failure that ended it early, or that kept its entry out of the audit trail.
    pub failure: Option<Error>,
    /// True if it was stopped with more to do.
    pub is_stopped: bool,
}

/// Sweeps until nothing is left to do or `visit`, which is passed what was done so far after each step, breaks. Leaves
/// an entry in the audit trail however it ends, unless surely nothing was done: of the time `now`, and with the count
/// of records past their window before, where that is known.
pub async fn sweep(
    store: &AnyStore,
    trail: &AnyTransferStore,
    note: Note,
    (before, now): (Option<u64>, Timestamp),
    mut visit: impl FnMut(&SweepResult) -> ControlFlow<()> + Send,
) -> SweepEnd {
    let (mut done, mut failure, mut is_stopped) = (SweepResult::default(), None, false);
    loop {
        match store.sweep(STEP).await {
            Ok(swept) => {
                done.removed += swept.removed;
                done.doubted += swept.doubted;
                done.abandoned += swept.abandoned;
                let next = visit(&done);
                if !swept.more {
                    break;
                }
                if next.is_break() {
                    is_stopped = true;
                    break;
                }
            }
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    let certainty = failure.as_ref().map(Error::certainty);
    if done == SweepResult::default() && certainty == Some(Certainty::NotApplied) {
        return SweepEnd {
            done,
            failure,
            is_stopped,
        };
    }
    let end = match (&failure, is_stopped) {
        (Some(_), _) => "; then it failed",
        (None, true) => "; it was stopped",
        (None, false) => "",
    };
    let entry = Audited {
        at: now,
        note,
        action: "sweep".into(),
        scope: None,
        key: None,
        before: before
            .map_or_else(String::new, |count| format!("{count} past their window"))
            .into(),
        after: format!("{} removed, {} in doubt{end}", done.removed, done.doubted).into(),
    };
    let entry = Item::Audited(Box::new(entry));
    let left = trail.import([entry].into()).await;
    failure = failure.or(left.err());
    SweepEnd {
        done,
        failure,
        is_stopped,
    }
}

/// The number of records that an estimate goes by.
const LOOKED_AT: usize = 4_096;
/// The number of records of one step.
const STEP: usize = 10_000;
