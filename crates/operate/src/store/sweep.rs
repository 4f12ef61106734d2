//! Sweeps: what one would do, the sweep itself, and its entry in the audit trail.

use std::ops::ControlFlow;

use semel_core::decide::{self, Change};
use semel_core::port::store::{ListQuery, Listed, Store};
use semel_core::port::transfer::{AnyTransferStore, Item, TransferStore};
use semel_core::{AnyStore, Audited, Note, Result, Timestamp};
use serde::Serialize;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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

    /// Sweeps until nothing is left to do, leaves an entry in the audit trail, and passes what was done so far to
    /// `visit` after each step.
    ///
    /// # Errors
    ///
    /// Those of the store. What was swept by then is swept, and has no entry.
    pub async fn sweep(
        &self,
        store: &AnyStore,
        trail: &AnyTransferStore,
        note: Note,
        now: Timestamp,
        mut visit: impl FnMut(&SweepResult) + Send,
    ) -> Result<SweepResult> {
        let mut done = SweepResult::default();
        loop {
            let swept = store.sweep(STEP).await?;
            done.removed += swept.removed;
            done.doubted += swept.doubted;
            done.abandoned += swept.abandoned;
            visit(&done);
            if !swept.more {
                break;
            }
        }
        let entry = Audited {
            at: now,
            note,
            action: "sweep".into(),
            scope: None,
            key: None,
            before: format!("{} past their window", self.removed).into(),
            after: format!("{} removed, {} in doubt", done.removed, done.doubted).into(),
        };
        let entry = Item::Audited(Box::new(entry));
        trail.import([entry].into()).await?;
        Ok(done)
    }
}

/// The number of records of one step.
const STEP: usize = 10_000;
