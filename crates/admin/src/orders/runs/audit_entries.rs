//! The entries of a run in the audit trail, about the store as a whole: one at its begin and one at its end. Those of the
//! records that it changes and of the messages that it drops stand between them.

use std::fmt::Write;

use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{Audited, Error, Note, Timestamp};

use super::super::request::Action;
use super::{Run, RunState};
use crate::settings::Lent;

impl Run {
    /// Leaves the entry of its begin, where the store takes one.
    ///
    /// # Errors
    ///
    /// Those of the store: without the entry, nothing begins
    pub(super) async fn note_begin(&self, lent: &Lent, note: &Note) -> Result<(), Error> {
        let after = format!("begun {}", self.id);
        self.leave(lent, note, self.begun, after).await
    }

    /// Leaves the entry of its end. One that cannot be left is missing: what was done stands.
    pub(super) async fn note_end(&self, lent: &Lent, note: &Note, state: RunState, at: Timestamp) {
        let (came, stopped) = self.sums();
        let mut after = format!("{} {}", state.as_str(), self.id);
        for (word, count) in came {
            let _ = write!(after, ", {count} {word}");
        }
        if self.is_about_keys() {
            let progress = self.progress();
            for word in ["extended", "refused"] {
                let report = progress.reports.first();
                let count = report.and_then(|it| it[word].as_u64()).unwrap_or(0);
                let _ = write!(after, ", {count} keys {word}");
            }
        }
        // Who stopped it, and why, where somebody did.
        let stopped = stopped.map(|it| Note {
            by: it.by().into(),
            reason: it.reason().into(),
        });
        let _ = self
            .leave(lent, stopped.as_ref().unwrap_or(note), at, after)
            .await;
    }

    pub(super) fn is_about_keys(&self) -> bool {
        self.action == Action::Extend
    }

    async fn leave(
        &self,
        lent: &Lent,
        note: &Note,
        at: Timestamp,
        after: String,
    ) -> Result<(), Error> {
        let Some(trail) = &lent.trail else {
            return Ok(());
        };
        let of: Vec<&str> = self.pipelines.iter().map(|it| &**it).collect();
        let before = if self.is_about_keys() {
            format!("the finished keys of {}", of.join(", "))
        } else {
            format!("{} of {}", self.changes.len(), of.join(", "))
        };
        let entry = Audited {
            at,
            note: note.clone(),
            action: self.action.path().into(),
            scope: None,
            key: None,
            before: before.into(),
            after: after.into(),
        };
        let entry = Item::Audited(Box::new(entry));
        trail.import([entry].into()).await.map(|_| ())
    }
}
