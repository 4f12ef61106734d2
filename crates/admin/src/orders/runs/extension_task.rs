//! The work of a run that remembers keys for longer: page by page, until all are through or the run is to end.

use std::future::pending;
use std::sync::Arc;

use semel_core::{Certainty, Clock, Error, Note};
use tokio::select;
use tokio::sync::watch;

use super::super::execution::Fate;
use super::super::extension::Extension;
use super::task::{Unfinished, recall_in_time};
use super::{Came, Run};
use crate::settings::Lent;

/// The work of a run, and everything that it takes.
pub(in super::super) struct ExtensionTask {
    pub(in super::super) run: Arc<Run>,
    pub(in super::super) extension: Extension,
    pub(in super::super) lent: Lent,
    pub(in super::super) note: Note,
    pub(in super::super) clock: Arc<dyn Clock>,
    /// Turned `true` when the worker ends.
    pub(in super::super) end: watch::Receiver<bool>,
}

impl ExtensionTask {
    /// Extends the keys, until all are through or the run is to end: when the worker does, when somebody stops it, or after
    /// an hour. The batch in hand is finished then, and the rest is left as it is.
    ///
    /// # Cancel safety
    ///
    /// Dropping it is as safe as `kill -9`, and the run has failed.
    pub(in super::super) async fn run(self) {
        let unfinished = Unfinished {
            run: &self.run,
            clock: &*self.clock,
        };
        let (recall, recalled) = watch::channel(false);
        let ends = (self.end.clone(), self.run.stop.subscribe());
        let ended = select! {
            ended = self.work(&recalled) => ended,
            // A pause of the pipeline has nothing to do with it.
            () = recall_in_time(recall, ends, Box::pin(pending())) => Ok(()),
        };
        let is_recalled = *recalled.borrow();
        let place = (&self.lent, &self.note);
        unfinished.ended(ended, is_recalled, place).await;
    }

    async fn work(&self, recalled: &watch::Receiver<bool>) -> Result<(), Error> {
        self.run.note_begin(&self.lent, &self.note).await?;
        // If it breaks off from now on, some may be done.
        self.run.came_of_all(Came::Taken);
        let mut done = self.extension.result();
        let mut next = Some(self.extension.first());
        while let Some(query) = next {
            self.run.reports(&done);
            if *recalled.borrow() {
                return Ok(());
            }
            let (how, goes_on) = ((&self.note, self.clock.now()), || !*recalled.borrow());
            let store = &self.lent.store;
            let extended = self.extension.extend(store, query, how, goes_on, &mut done);
            next = match extended.await {
                Ok(next) => next,
                Err(error) => {
                    self.run.reports(&done);
                    let is_none = error.certainty() == Certainty::NotApplied && done.extended == 0;
                    let error = if is_none {
                        error
                    } else {
                        error.maybe_applied()
                    };
                    self.run.came_of_all(Came::Order(Fate::after(&error)));
                    return Err(error);
                }
            };
            // Whatever else waits for the store comes first.
            tokio::task::yield_now().await;
        }
        self.run.reports(&done);
        let why = (done.refused > 0).then(|| {
            let refused = done.refused;
            format!("{refused} keys were refused, since they changed meanwhile; plan again")
        });
        self.run.came_of_all(Came::Order(Fate::Done { why }));
        Ok(())
    }
}
