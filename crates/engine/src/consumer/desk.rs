//! What every way of running an effect shares: messages in hand, their fates, parking and
//! acknowledging, and asking the store again until it answers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::source::{DeliveryId, Progress};
use semel_core::{
    Admission, Advice, ClaimRequest, Duplicate, Error, FencingToken, Parked, Result, StateKind,
    Store, Timestamp,
};

use super::intake::{Chunk, Intake};
use super::lanes::Lanes;
use super::{OnProgress, Shutdown, Surroundings};
use crate::event::Event;
use crate::pipeline::{Incoming, Pipeline, Rejected, random_claim_id};
use crate::summary::{Fate, Summary};

pub(super) struct Desk<S> {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) store: S,
    pub(super) surroundings: Surroundings,
    pub(super) shutdown: Shutdown,
    pub(super) lanes: Lanes,
    on_progress: Option<OnProgress>,
    progress: Option<Progress>,
    reported_at: Duration,
    started_at: Duration,
    ended: bool,
    summary: Summary,
    to_park: Vec<Parked>,
    /// Fates that count once everything in `to_park` is durable.
    settled: Vec<(DeliveryId, Option<bytes::Bytes>, Fate)>,
}

impl<S: Store + Clone> Desk<S> {
    pub(super) fn new(
        pipeline: Arc<Pipeline>,
        store: S,
        surroundings: Surroundings,
        shutdown: Shutdown,
        on_progress: Option<OnProgress>,
        every_lane: bool,
    ) -> Self {
        let started_at = surroundings.clock.monotonic();
        let lanes = Lanes::new(every_lane, &*surroundings.entropy);
        Self {
            pipeline,
            store,
            surroundings,
            shutdown,
            lanes,
            on_progress,
            progress: None,
            reported_at: started_at,
            started_at,
            ended: false,
            summary: Summary::default(),
            to_park: Vec::new(),
            settled: Vec::new(),
        }
    }

    pub(super) fn summary(&self) -> Summary {
        let mut summary = self.summary;
        summary.elapsed = self.now().saturating_sub(self.started_at);
        summary
    }

    /// Monotonic time.
    pub(super) fn now(&self) -> Duration {
        self.surroundings.clock.monotonic()
    }

    pub(super) fn observe(&self, event: &Event<'_>) {
        self.surroundings.observer.observe(&self.pipeline.name, event);
    }

    /// Whether all that ever comes has met its fate, or shutdown wants no more begun.
    pub(super) fn is_done(&self) -> bool {
        self.is_stopping() || (self.ended && self.lanes.is_empty())
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.shutdown.is_requested()
    }

    /// Whether more messages may be taken in hand: back-pressure holds the rest in the source.
    pub(super) fn has_room(&self) -> bool {
        !self.ended && self.lanes.len() < self.pipeline.batch.max(self.pipeline.concurrency) * 4
    }

    /// Takes in hand whatever is there, and waits for something to do if nothing is.
    pub(super) async fn gather(&mut self, intake: &mut Intake) -> Result<()> {
        loop {
            while self.has_room() {
                let Some(chunk) = intake.try_next() else { break };
                self.receive(chunk)?;
            }
            self.lanes.wake(self.now());
            if self.lanes.has_ready() || self.is_done() || !self.settled.is_empty() {
                return Ok(());
            }
            self.wait(intake).await?;
        }
    }

    /// Waits until a chunk is here, a message is due or shutdown is requested.
    async fn wait(&mut self, intake: &mut Intake) -> Result<()> {
        let due = self.lanes.next_due().map(|due| due.saturating_sub(self.now()));
        let has_room = self.has_room();
        let chunk = tokio::select! {
            biased;
            () = self.shutdown.request() => return Ok(()),
            chunk = intake.next(), if has_room => chunk,
            () = sleep_for(due), if due.is_some() => return Ok(()),
        };
        self.receive(chunk)
    }

    /// Takes a chunk in hand.
    pub(super) fn receive(&mut self, chunk: Chunk) -> Result<()> {
        match chunk {
            Chunk::Messages { incoming, rejected, progress } => {
                self.progress = progress;
                for rejected in rejected {
                    self.quarantine(rejected);
                }
                for incoming in incoming {
                    self.lanes.admit(incoming);
                }
            }
            // What is in hand runs on: its record decides.
            Chunk::Revoked => {}
            Chunk::Ended => self.ended = true,
            Chunk::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn quarantine(&mut self, rejected: Rejected) {
        let Rejected { delivery, unusable, parked } = rejected;
        let coordinates = &parked.coordinates;
        self.observe(&Event::Unusable { coordinates, unusable: &unusable });
        self.to_park.push(parked);
        self.settled.push((delivery, None, Fate::Quarantined));
    }

    /// Deals with an admission that grants nothing.
    pub(super) fn refused(&mut self, incoming: Incoming, admission: Admission) -> Result<()> {
        let operation = &incoming.request.operation;
        match admission {
            Admission::Granted(_) => {
                // Callers keep grants to themselves; held back, it is resumed by its claim id.
                let due = self.now() + RECHECK;
                self.lanes.delay(incoming, due);
            }
            Admission::Replay { duplicate: Duplicate::Own, .. } => {
                self.completed(&incoming, false);
            }
            Admission::Replay { duplicate, .. } => {
                self.observe(&Event::Replayed { operation, duplicate });
                self.settle(&incoming, Fate::Replayed);
            }
            Admission::Busy { until, now } => self.hold_back(incoming, until, now),
            Admission::Conflict { duplicate } => {
                self.observe(&Event::Conflicted { operation, duplicate });
                let detail = "the key was used with another request";
                self.set_aside(&incoming, "fingerprint-conflict", detail, Fate::Conflict);
            }
            Admission::Stale { applied } => {
                self.observe(&Event::Stale { operation, applied });
                self.settle(&incoming, Fate::Stale);
            }
            Admission::Parked { state, .. } => {
                self.observe(&Event::Parked { operation, state });
                self.parked(&incoming, state, "its operation was given up before");
            }
            Admission::TooOld => {
                self.observe(&Event::TooOld { operation });
                let detail = "no record, and older than the window";
                self.set_aside(&incoming, "too-old", detail, Fate::TooOld);
            }
            Admission::Failed(error) => {
                self.hold_failed(incoming, error)?;
            }
        }
        Ok(())
    }

    /// Holds back an item that the store could not decide; fails if it never will.
    pub(super) fn hold_failed(&mut self, incoming: Incoming, error: Error) -> Result<()> {
        if is_final(&error) {
            return Err(error);
        }
        self.observe(&Event::StoreFailed { error: &error, wait: RECHECK });
        let due = self.now() + RECHECK;
        self.lanes.delay(incoming, due);
        Ok(())
    }

    /// The effect happened and is recorded.
    pub(super) fn completed(&mut self, incoming: &Incoming, takeover: bool) {
        self.summary.takeovers += u64::from(takeover);
        self.observe(&Event::Completed { operation: &incoming.request.operation });
        self.settle(incoming, Fate::Applied);
    }

    /// Another attempt follows at `not_before`.
    pub(super) fn released(&mut self, mut incoming: Incoming, error: &str, wait: Duration) {
        self.observe(&Event::Released { operation: &incoming.request.operation, error, wait });
        incoming.request.claim_id = random_claim_id(&*self.surroundings.entropy);
        let due = self.now() + wait;
        self.lanes.delay(incoming, due);
    }

    /// The attempt ended in a state that carries the case on: dead or in doubt.
    pub(super) fn given_up(&mut self, incoming: &Incoming, state: StateKind, error: &str) {
        let operation = &incoming.request.operation;
        if state == StateKind::Dead {
            self.observe(&Event::Dead { operation, error });
        } else {
            self.observe(&Event::InDoubt { operation });
        }
        self.parked(incoming, state, error);
    }

    fn parked(&mut self, incoming: &Incoming, state: StateKind, detail: &str) {
        if state == StateKind::Dead {
            self.set_aside(incoming, "dead", detail, Fate::Dead);
        } else {
            self.set_aside(incoming, "in-doubt", detail, Fate::InDoubt);
        }
    }

    /// The claim was lost: discard the result, acknowledge nothing, ask again.
    pub(super) fn fenced(
        &mut self,
        mut incoming: Incoming,
        token: FencingToken,
        found: Option<StateKind>,
    ) {
        self.summary.fenced += 1;
        let operation = &incoming.request.operation;
        self.observe(&Event::Fenced { operation, token, found });
        incoming.request.claim_id = random_claim_id(&*self.surroundings.entropy);
        let due = self.now() + RECHECK;
        self.lanes.delay(incoming, due);
    }

    /// Counts a claim that took the place of one whose lease ran out.
    pub(super) fn taken_over(&mut self) {
        self.summary.takeovers += 1;
    }

    fn hold_back(&mut self, incoming: Incoming, until: Timestamp, now: Timestamp) {
        // Its owner may be done long before its lease ends.
        let wait = until.since(now).clamp(Duration::from_millis(5), RECHECK);
        self.observe(&Event::Busy { operation: &incoming.request.operation, wait });
        let due = self.now() + wait;
        self.lanes.delay(incoming, due);
    }

    fn set_aside(&mut self, incoming: &Incoming, reason: &'static str, detail: &str, fate: Fate) {
        self.to_park.push(incoming.parked(reason, detail));
        self.settle(incoming, fate);
    }

    fn settle(&mut self, incoming: &Incoming, fate: Fate) {
        self.settled.push((incoming.delivery, Some(incoming.order()), fate));
    }

    /// Makes parked messages durable, then counts and acknowledges everything that met its fate.
    pub(super) async fn flush(&mut self, intake: &Intake) -> Result<()> {
        if !self.to_park.is_empty() {
            let to_park = std::mem::take(&mut self.to_park);
            self.ask(|| self.store.park(&to_park)).await?;
        }
        let mut acknowledge = Vec::with_capacity(self.settled.len());
        for (delivery, order, fate) in std::mem::take(&mut self.settled) {
            self.summary.count(fate);
            acknowledge.push(delivery);
            if let Some(order) = order {
                self.lanes.finish(&order);
            }
        }
        if !acknowledge.is_empty() {
            intake.acknowledge(acknowledge).await?;
        }
        self.report(false);
        Ok(())
    }

    fn report(&mut self, last: bool) {
        let Some(on_progress) = &self.on_progress else { return };
        let now = self.surroundings.clock.monotonic();
        if last || now.saturating_sub(self.reported_at) >= REPORT_EVERY {
            self.reported_at = now;
            on_progress(self.progress, &self.summary);
        }
    }

    /// Gives back what is in hand and not running, and closes the source.
    pub(super) async fn close(&mut self, intake: Intake) -> Result<()> {
        self.flush(&intake).await?;
        for _ in 0..self.lanes.abandon() {
            self.summary.count(Fate::Released);
        }
        self.report(true);
        intake.close().await;
        Ok(())
    }

    /// Makes a store call until it is answered, waiting longer each time. The call is repeated with
    /// the same claim ids, so that a lost answer is found again.
    ///
    /// # Errors
    ///
    /// what no repetition mends, and anything once shutdown ran out of patience
    pub(super) async fn ask<T, Fut>(&self, call: impl Fn() -> Fut + Send + Sync) -> Result<T>
    where
        Fut: Future<Output = Result<T>> + Send,
    {
        let mut wait = Duration::from_millis(20);
        let mut stopping_since = None;
        loop {
            let error = match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if self.is_stopping() {
                let since = *stopping_since.get_or_insert_with(|| self.now());
                if self.now().saturating_sub(since) >= self.shutdown.patience {
                    return Err(error);
                }
            }
            if is_final(&error) {
                return Err(error);
            }
            let hint = match error.advice() {
                Advice::Retry { after } => after,
                Advice::Fix | Advice::LookUpFirst | Advice::Stop | Advice::Alarm => Duration::ZERO,
            };
            let pause = self.jittered(wait.max(hint));
            self.observe(&Event::StoreFailed { error: &error, wait: pause });
            tokio::time::sleep(pause).await;
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    }

    /// `wait` and up to a quarter more, so that workers do not come back all at once.
    pub(super) fn jittered(&self, wait: Duration) -> Duration {
        let mut byte = [0];
        self.surroundings.entropy.fill(&mut byte);
        wait + wait * u32::from(byte[0]) / 1024
    }

    /// Asks for claims.
    pub(super) async fn claim(&self, requests: &[ClaimRequest]) -> Result<Vec<Admission>> {
        self.ask(|| self.store.claim(requests)).await
    }

    /// Whether a claim that was asked for at `asked_at` is still fresh enough to begin its effect:
    /// a worker that was stopped for two thirds of its lease fences itself.
    pub(super) fn may_begin(&self, asked_at: Duration) -> bool {
        self.now().saturating_sub(asked_at) < self.pipeline.lease * 2 / 3
    }
}

/// Whether no repetition can mend this.
fn is_final(error: &Error) -> bool {
    match error.advice() {
        Advice::Fix | Advice::Stop | Advice::Alarm => true,
        Advice::Retry { .. } | Advice::LookUpFirst => false,
    }
}

async fn sleep_for(wait: Option<Duration>) {
    tokio::time::sleep(wait.unwrap_or_default()).await;
}

/// The longest that a message is held back before its key is looked at again.
pub(super) const RECHECK: Duration = Duration::from_secs(1);
/// How often progress is told.
const REPORT_EVERY: Duration = Duration::from_millis(100);
