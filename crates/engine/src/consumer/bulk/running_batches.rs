//! Batches under way, each on a task of its own.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Claim, Clock, Renewal};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use crate::consumer::context::Context;
use crate::consumer::in_hand::InHand;
use crate::consumer::steps::Admitted;
use crate::effect::{BulkEffect, Call, Verdict};
use crate::lease::renewal;
use crate::pipeline::Incoming;
use crate::trace::attempt::AttemptTrace;

/// The batches under way; see the module. Dropping this ends all of them.
#[derive(Default)]
pub(super) struct RunningBatches {
    tasks: JoinSet<(Vec<Verdict>, Duration)>,
    running: BTreeMap<Id, RunningBatch>,
}

/// One batch.
struct RunningBatch {
    /// Messages without the parts that their calls have borrowed.
    waiting: Vec<InHand>,
    calls: Arc<Vec<Call>>,
    is_protected: bool,
    began_at: Duration,
    clock: Arc<dyn Clock>,
    abort: AbortHandle,
}

/// A batch that has ended.
pub(super) struct FinishedBatch {
    pub(super) messages: Vec<(InHand, Claim, Verdict)>,
    /// The store knows of the claims.
    pub(super) is_protected: bool,
    /// The call was dropped.
    pub(super) is_broken_off: bool,
    /// The time that the call took.
    pub(super) took: Duration,
}

impl RunningBatches {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Tells whether another batch may begin in addition to these and `more` that are about to begin.
    pub(super) fn have_room(&self, more: usize) -> bool {
        self.running.len() + more < MAX_RUNNING
    }

    /// Counts the messages under way.
    pub(super) fn messages(&self) -> usize {
        self.running.values().map(|batch| batch.waiting.len()).sum()
    }

    /// Calls the effect for a batch, unless it is empty.
    pub(super) fn begin<E: BulkEffect>(
        &mut self,
        effect: &Arc<E>,
        clock: &Arc<dyn Clock>,
        batch: Admitted,
    ) {
        let Admitted {
            mut messages,
            is_protected,
        } = batch;
        if messages.is_empty() {
            return;
        }
        let began_at = clock.monotonic();
        for (incoming, _) in &mut messages {
            if let Some(trace) = incoming.trace_mut() {
                trace.effect_begins(began_at);
            }
        }
        let (waiting, calls): (Vec<_>, Vec<_>) = messages.into_iter().map(split).unzip();
        let calls = Arc::new(calls);
        let (effect, theirs) = (Arc::clone(effect), Arc::clone(&calls));
        let ends = Arc::clone(clock);
        let abort = self.tasks.spawn(async move {
            let verdicts = effect.call(&theirs).await;
            (verdicts, ends.monotonic())
        });
        let batch = RunningBatch {
            waiting,
            calls,
            is_protected,
            began_at,
            clock: Arc::clone(clock),
            abort,
        };
        self.running.insert(batch.abort.id(), batch);
    }

    /// Waits until one batch ends, and takes all that have; for ever if there is none. Cancel safe.
    pub(super) async fn ended(&mut self, finished: &mut Vec<FinishedBatch>) {
        match self.tasks.join_next_with_id().await {
            Some(joined) => {
                finished.extend(self.finished(joined));
                self.collect(finished);
            }
            None => std::future::pending().await,
        }
    }

    /// Takes all batches that have ended by now.
    pub(super) fn collect(&mut self, finished: &mut Vec<FinishedBatch>) {
        while let Some(joined) = self.tasks.try_join_next_with_id() {
            finished.extend(self.finished(joined));
        }
    }

    /// Breaks off all batches under way.
    pub(super) async fn break_off(&mut self, finished: &mut Vec<FinishedBatch>) {
        self.tasks.abort_all();
        while !self.tasks.is_empty() {
            self.ended(finished).await;
        }
    }

    /// Breaks off all batches under way once a shutdown has run out of patience, and waits on.
    pub(super) async fn broken_off_in_time(&self, context: &Context) -> Infallible {
        context.patience_is_over().await;
        for batch in self.running.values() {
            batch.abort.abort();
        }
        std::future::pending().await
    }

    /// Returns renewals for the claims under way.
    pub(super) fn renewals(&self, lease: Duration) -> Vec<Renewal> {
        let protected = self.running.values().filter(|batch| batch.is_protected);
        let claims = protected.flat_map(|batch| batch.calls.iter().map(|call| &call.claim));
        claims.map(|claim| renewal(claim, lease)).collect()
    }

    fn finished(
        &mut self,
        joined: Result<(Id, (Vec<Verdict>, Duration)), JoinError>,
    ) -> Option<FinishedBatch> {
        let (id, ended, why, is_broken_off) = match joined {
            Ok((id, ended)) => (id, Some(ended), "the effect gave no verdict", false),
            // A panic or a dropped call is neither a success nor a proof that nothing was applied.
            Err(error) if error.is_panic() => (error.id(), None, "the effect panicked", false),
            Err(error) => (error.id(), None, "the call was dropped", true),
        };
        let RunningBatch {
            waiting,
            calls,
            is_protected,
            began_at,
            clock,
            abort: _,
        } = self.running.remove(&id)?;
        let (verdicts, ended_at) = ended.unwrap_or_else(|| (Vec::new(), clock.monotonic()));
        let took = ended_at.saturating_sub(began_at);
        // Nobody knows anything about a call without a verdict.
        let unknown = || Verdict::MaybeApplied { error: why.into() };
        let verdicts = verdicts.into_iter().chain(std::iter::repeat_with(unknown));
        let calls = Arc::try_unwrap(calls).unwrap_or_else(|shared| shared.to_vec());
        let messages = waiting.into_iter().zip(calls).zip(verdicts);
        let messages = messages.map(|((mut incoming, call), verdict)| {
            let claim = unite(&mut incoming, call);
            (incoming, claim, verdict)
        });
        Some(FinishedBatch {
            messages: messages.collect(),
            is_protected,
            is_broken_off,
            took,
        })
    }
}

/// Moves to the call everything that only the call needs while it runs.
fn split((mut incoming, claim): (InHand, Claim)) -> (InHand, Call) {
    let call = Call {
        claim,
        payload: std::mem::take(&mut incoming.payload),
        headers: std::mem::take(&mut incoming.headers),
        coordinates: std::mem::take(&mut incoming.coordinates),
        span: incoming.trace().map(AttemptTrace::effect),
    };
    (incoming, call)
}

/// Moves it back from the call.
fn unite(incoming: &mut Incoming, call: Call) -> Claim {
    let Call {
        claim,
        payload,
        headers,
        coordinates,
        span: _,
    } = call;
    incoming.payload = payload;
    incoming.headers = headers;
    incoming.coordinates = coordinates;
    claim
}

/// The most batches under way. Beyond a few there is nothing left to wait for at the same time, and messages
/// that come meanwhile make a larger batch.
const MAX_RUNNING: usize = 4;
