//! The work of a run: doubts without a message are released, then the messages of one pipeline after the other run.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::http::StatusCode;
use semel_config::PipelineSettings;
use semel_core::{Claimant, Clock, Code, Entropy, Error, Note, ParkedId, Timestamp};
use semel_http::Problem;
use semel_operate::order::BATCH;
use semel_worker::replay::{Job, OnFate};
use tokio::select;
use tokio::sync::watch;
use tokio::time::sleep;

use super::super::execution::{Execution, Fate};
use super::super::plan::Rerun;
use super::{Came, Run, RunState};
use crate::settings::{Lent, Paused, Runner};

/// The work of a run, and everything that it takes.
pub(in super::super) struct RunTask {
    pub(in super::super) run: Arc<Run>,
    pub(in super::super) rerun: Rerun,
    pub(in super::super) runner: Arc<dyn Runner>,
    pub(in super::super) lent: Lent,
    pub(in super::super) pipelines: Vec<PipelineSettings>,
    pub(in super::super) note: Note,
    pub(in super::super) clock: Arc<dyn Clock>,
    pub(in super::super) entropy: Arc<dyn Entropy>,
    /// Turned `true` when the worker ends.
    pub(in super::super) end: watch::Receiver<bool>,
}

impl RunTask {
    /// Runs the messages, until all are through or the run is to end: when the worker does, when one of
    /// its pipelines is paused, when somebody stops it, or after [`LONGEST`]. What is in
    /// hand then is finished, and the rest stays set aside.
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
        let paused = self.runner.paused(&self.run.pipelines);
        let ended = select! {
            ended = self.work(&recalled) => ended,
            () = recall_in_time(recall, (self.end.clone(), self.run.stop.subscribe()), paused) => Ok(()),
        };
        let is_recalled = *recalled.borrow();
        let place = (&self.lent, &self.note);
        unfinished.ended(ended, is_recalled, place).await;
    }

    async fn work(&self, recalled: &watch::Receiver<bool>) -> Result<(), Error> {
        self.run.note_begin(&self.lent, &self.note).await?;
        self.release(recalled).await?;
        for (name, size) in &self.rerun.pipelines {
            let settings = self.pipelines.iter().find(|it| it.pipeline.name == *name);
            let Some(settings) = settings.filter(|_| !*recalled.borrow()) else {
                continue;
            };
            let job = self.job(*size);
            let report = self.runner.run(settings, job, recalled.clone()).await?;
            self.run.progress().reports.push(report);
        }
        Ok(())
    }

    /// Lets the next message or claim try those doubts again that have no message and stand as they were planned.
    async fn release(&self, recalled: &watch::Receiver<bool>) -> Result<(), Error> {
        let execution = Execution {
            lent: &self.lent,
            note: &self.note,
            clock: &*self.clock,
            entropy: &*self.entropy,
            claimant: Claimant::random(&*self.entropy),
            is_stopping: &AtomicBool::new(false),
        };
        let mut first = 0;
        for batch in self.rerun.alone.chunks(BATCH) {
            if *recalled.borrow() {
                break;
            }
            for at in first..first + batch.len() {
                self.run.note(at, Came::Taken);
            }
            let (fates, failure) = match execution.change(batch).await {
                Ok(batch) => (batch.fates, None),
                Err(error) => (vec![Fate::after(&error); batch.len()], Some(error)),
            };
            for (at, fate) in (first..).zip(fates) {
                self.run.note(at, Came::Order(fate));
            }
            first += batch.len();
            if let Some(error) = failure {
                return Err(error);
            }
        }
        Ok(())
    }

    fn job(&self, (count, total_bytes): (usize, u64)) -> Job {
        let [wanted, planned, taken, run] = [(); 4].map(|()| Arc::clone(&self.run));
        let on_fate: OnFate = Arc::new(move |id: ParkedId, fate| run.came(id, fate));
        Job {
            kind: self.rerun.kind,
            wanted: Arc::new(move |message| wanted.places.contains_key(&message.id())),
            stands: Some(Arc::new(move |message, record| {
                planned.stands(message, record)
            })),
            count: Some(count),
            until: Timestamp::from_millis(u64::MAX),
            total_bytes,
            note: self.note.clone(),
            key: self.rerun.key.clone(),
            on_taken: Some(Arc::new(move |id| taken.taken(id))),
            on_fate: Some(on_fate),
        }
    }
}

/// Recalls a run when the worker ends, when somebody stops it, when one of its pipelines is paused, or when it has lasted for too long; comes to no
/// end itself.
pub(super) async fn recall_in_time(
    recall: watch::Sender<bool>,
    (mut end, mut stop): (watch::Receiver<bool>, watch::Receiver<bool>),
    paused: Paused,
) {
    select! {
        _ = end.wait_for(|it| *it) => {}
        _ = stop.wait_for(|it| *it) => {}
        () = paused => {}
        () = sleep(LONGEST) => {}
    }
    recall.send_replace(true);
    pending::<()>().await;
}

/// Notes that a run broke off, unless it has ended otherwise.
pub(super) struct Unfinished<'a> {
    pub(super) run: &'a Run,
    pub(super) clock: &'a dyn Clock,
}

impl Unfinished<'_> {
    /// Notes that the run ended with this, on record as well; `is_recalled` if it was to end before it is through.
    pub(super) async fn ended(
        self,
        ended: Result<(), Error>,
        is_recalled: bool,
        (lent, note): (&Lent, &Note),
    ) {
        let (state, problem) = match ended {
            // All may have been through by then.
            Ok(()) if is_recalled && !self.run.is_through() => (RunState::Stopped, None),
            Ok(()) => (RunState::Ended, None),
            Err(error) => (RunState::Failed, Some(Problem::from(&error))),
        };
        let now = self.clock.now();
        self.run.note_end(lent, note, state, now).await;
        self.run.end(state, now, problem);
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let detail = if self.run.is_about_keys() {
            "the run was broken off: `results` has how many keys were extended at least, and some more may be; the same order \
             again extends the rest"
        } else {
            "the run was broken off: what was in hand may have happened, and waits for its leases; the rest is still set aside"
        };
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let problem = Problem::new(status, Code::StoreUnavailable.as_str(), detail);
        self.run
            .end(RunState::Failed, self.clock.now(), Some(problem));
    }
}

/// The longest time of a run.
pub(super) const LONGEST: Duration = Duration::from_secs(3_600);
