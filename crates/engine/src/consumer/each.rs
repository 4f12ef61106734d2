//! Effects that are called message by message, many in flight.
//!
//! Every turn settles what has finished and claims what there is room for, side by side, so that
//! one durable write can carry both; whatever finishes meanwhile is the next turn's batch.

mod probe;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Admission, Claim, ClaimRequest, Renewal, Renewed, Result, StateKind, Store};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::desk::Desk;
use super::intake::{Intake, Told};
use super::stream::{call, conclude, given_back, jitter, settlement};
use crate::effect::{Effect, Verdict};
use crate::event::Event;
use crate::pipeline::Incoming;
use probe::probe;

pub(super) async fn run<S: Store + Clone, E: Effect>(
    desk: &mut Desk<S>,
    mut intake: Intake,
    effect: Arc<E>,
) -> Result<()> {
    let mut attempts = Attempts::new(desk.now());
    loop {
        if attempts.running.is_empty() && attempts.finished.is_empty() {
            desk.gather(&mut intake).await;
            if desk.is_done() {
                return desk.close(intake).await;
            }
        } else {
            attempts.wait(desk, &mut intake).await;
            if desk.is_stopping() && attempts.is_out_of_patience(desk) {
                attempts.give_back(desk).await?;
                return desk.close(intake).await;
            }
        }
        if cfg!(semel_planted = "M04") {
            let early = attempts
                .finished
                .iter()
                .map(|(running, _)| running.incoming.delivery);
            intake.tell(Told::Acknowledge(early.collect())).await?;
        }
        attempts.renew_if_due(desk).await?;
        attempts.turn(desk, &effect).await?;
        desk.flush(&intake).await?;
    }
}

/// Attempts under way and those that wait to be settled.
struct Attempts {
    tasks: JoinSet<Verdict>,
    running: BTreeMap<Id, Running>,
    finished: Vec<(Running, Verdict)>,
    renew_at: Duration,
    stopping_since: Option<Duration>,
}

/// The state found where a claim was lost; `None` is absent.
struct Found(Option<StateKind>);

struct Running {
    incoming: Incoming,
    claim: Claim,
    abort: AbortHandle,
    /// What was found when the lease was lost while the effect ran; what it says is discarded.
    lost: Option<Found>,
}

impl Attempts {
    fn new(now: Duration) -> Self {
        Self {
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            finished: Vec::new(),
            renew_at: now,
            stopping_since: None,
        }
    }

    /// Waits until an attempt ends, there is more to begin, or leases want renewing.
    async fn wait<S: Store + Clone>(&mut self, desk: &mut Desk<S>, intake: &mut Intake) {
        self.collect();
        let has_slot = self.running.len() < desk.pipeline.concurrency;
        let now = desk.now();
        desk.lanes.wake(now);
        if !self.finished.is_empty() || (has_slot && desk.lanes.has_ready() && !desk.is_stopping())
        {
            return;
        }
        let next_due = desk.lanes.next_due().filter(|_| has_slot);
        let patience = self.patience_ends(desk);
        let wake_at = [next_due, patience]
            .into_iter()
            .flatten()
            .fold(self.renew_at, Duration::min);
        let nap = wake_at.saturating_sub(now);
        let has_room = desk.has_room() && !desk.is_stopping();
        let is_stopping = desk.is_stopping();
        let chunk = tokio::select! {
            biased;
            joined = self.tasks.join_next_with_id() => {
                self.take(joined);
                self.collect();
                return;
            }
            chunk = intake.next(), if has_room => chunk,
            () = desk.shutdown.request(), if !is_stopping => return,
            () = tokio::time::sleep(nap) => return,
        };
        desk.receive(chunk);
    }

    /// Takes every attempt that has ended by now.
    fn collect(&mut self) {
        while let Some(joined) = self.tasks.try_join_next_with_id() {
            self.take(Some(joined));
        }
    }

    fn take(&mut self, joined: Option<Result<(Id, Verdict), JoinError>>) {
        let (id, verdict) = match joined {
            Some(Ok(ended)) => ended,
            Some(Err(error)) if cfg!(semel_planted = "M38") => {
                (error.id(), Verdict::Done(bytes::Bytes::new()))
            }
            // Neither a panic nor a dropped call is a success, nor surely not applied.
            Some(Err(error)) => {
                let why = if error.is_panic() {
                    "the effect panicked"
                } else {
                    "the call was dropped"
                };
                (error.id(), Verdict::MaybeApplied { error: why.into() })
            }
            None => return,
        };
        if let Some(running) = self.running.remove(&id) {
            self.finished.push((running, verdict));
        }
    }

    /// Settles what has finished and claims what there is room for, side by side.
    async fn turn<S: Store + Clone, E: Effect>(
        &mut self,
        desk: &mut Desk<S>,
        effect: &Arc<E>,
    ) -> Result<()> {
        let mut settling = Vec::with_capacity(self.finished.len());
        for (running, verdict) in self.finished.drain(..) {
            let Running {
                incoming,
                claim,
                lost,
                ..
            } = running;
            if let Some(Found(found)) = lost {
                desk.fenced(incoming, claim.token, found);
                continue;
            }
            let settlement = jitter(desk, settlement(&desk.pipeline, &claim, verdict));
            settling.push((incoming, claim, settlement));
        }
        let free = desk.pipeline.concurrency.saturating_sub(self.running.len());
        let begin = if desk.is_stopping() {
            0
        } else {
            free.min(desk.pipeline.batch)
        };
        let taken = desk.lanes.take(begin);
        let requests: Vec<_> = taken
            .iter()
            .map(|incoming| incoming.request.clone())
            .collect();
        let settlements: Vec<_> = settling
            .iter()
            .map(|(.., settlement)| settlement.clone())
            .collect();
        let asked_at = desk.now();
        let asking =
            async { tokio::try_join!(desk.settle_all(&settlements), claim(desk, &requests)) };
        let (settled, admissions) = self.beside(desk, asking).await?;
        for ((incoming, claim, settlement), settled) in settling.into_iter().zip(settled) {
            conclude(desk, incoming, &claim, &settlement.step, settled)?;
        }
        for (incoming, admission) in taken.into_iter().zip(admissions) {
            match admission {
                Admission::Granted(claim) if desk.may_begin(asked_at) => {
                    self.begin(desk, effect, incoming, claim);
                }
                Admission::Parked {
                    state: StateKind::InDoubt,
                    duplicate,
                } => {
                    let state = StateKind::InDoubt;
                    if self.beside(desk, probe(desk, effect, &incoming)).await? {
                        desk.lanes.put_back(vec![incoming]);
                    } else {
                        desk.refused(incoming, Admission::Parked { state, duplicate })?;
                    }
                }
                admission => desk.refused(incoming, admission)?,
            }
        }
        Ok(())
    }

    fn begin<S: Store + Clone, E: Effect>(
        &mut self,
        desk: &mut Desk<S>,
        effect: &Arc<E>,
        incoming: Incoming,
        claim: Claim,
    ) {
        if claim.takeover {
            desk.taken_over();
        }
        if claim.resumed {
            // Its lease has been running since it was first granted.
            self.renew_at = desk.now();
        }
        desk.observe_message(&incoming, &Event::Granted { claim: &claim });
        let call = call(&incoming, claim.clone());
        let effect = Arc::clone(effect);
        let abort = self.tasks.spawn(async move { effect.call(call).await });
        self.running.insert(
            abort.id(),
            Running {
                incoming,
                claim,
                abort,
                lost: None,
            },
        );
    }

    /// Extends the leases of everything under way, at a third of the lease.
    async fn renew_if_due<S: Store + Clone>(&mut self, desk: &mut Desk<S>) -> Result<()> {
        let (now, lease) = (desk.now(), desk.pipeline.lease);
        if self.running.is_empty() {
            self.renew_at = now + lease / 3;
            return Ok(());
        }
        if now < self.renew_at {
            return Ok(());
        }
        self.renew_at = now + lease / 3;
        if cfg!(semel_planted = "M16") {
            return Ok(());
        }
        let renewals = self.renewals(lease);
        let renewed = desk.ask(|| desk.store.renew(&renewals)).await?;
        desk.observe(&Event::Renewed {
            count: renewals.len(),
        });
        for (running, renewed) in self.running.values_mut().zip(renewed) {
            // In doubt, nobody else runs it, and its completion is still accepted: DBT-2.
            if let Renewed::Lost { found } = renewed
                && found != Some(StateKind::InDoubt)
            {
                running.lost = Some(Found(found));
                running.abort.abort();
            }
        }
        Ok(())
    }

    /// Waits for `work`. However long that takes, what runs keeps its lease.
    async fn beside<S: Store + Clone, T>(
        &self,
        desk: &Desk<S>,
        work: impl Future<Output = T>,
    ) -> T {
        let first = self.renew_at.saturating_sub(desk.now());
        tokio::select! {
            biased;
            done = work => done,
            never = desk.keep(first, || self.renewals(desk.pipeline.lease)) => match never {},
        }
    }

    fn renewals(&self, lease: Duration) -> Vec<Renewal> {
        let claims = self.running.values().map(|running| &running.claim);
        claims
            .map(|claim| Renewal {
                operation: claim.operation.clone(),
                claim_id: claim.claim_id,
                lease,
            })
            .collect()
    }

    fn patience_ends<S: Store + Clone>(&mut self, desk: &Desk<S>) -> Option<Duration> {
        if !desk.is_stopping() {
            return None;
        }
        let since = *self.stopping_since.get_or_insert_with(|| desk.now());
        Some(since.saturating_add(desk.shutdown.patience))
    }

    fn is_out_of_patience<S: Store + Clone>(&mut self, desk: &Desk<S>) -> bool {
        self.patience_ends(desk)
            .is_some_and(|end| end <= desk.now())
    }

    /// Stops what still runs at the end of a shutdown and reports that nobody knows how it ended.
    async fn give_back<S: Store + Clone>(&mut self, desk: &mut Desk<S>) -> Result<()> {
        self.tasks.abort_all();
        while let Some(joined) = self.tasks.join_next_with_id().await {
            self.take(Some(joined));
        }
        let finished = std::mem::take(&mut self.finished);
        let settlements: Vec<_> = finished
            .iter()
            .map(|(running, verdict)| {
                given_back(settlement(&desk.pipeline, &running.claim, verdict.clone()))
            })
            .collect();
        let settled = desk.settle_all(&settlements).await?;
        for (((running, _), settlement), settled) in
            finished.into_iter().zip(settlements).zip(settled)
        {
            conclude(
                desk,
                running.incoming,
                &running.claim,
                &settlement.step,
                settled,
            )?;
        }
        Ok(())
    }
}

async fn claim<S: Store + Clone>(
    desk: &Desk<S>,
    requests: &[ClaimRequest],
) -> Result<Vec<Admission>> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    desk.claim(requests).await
}
