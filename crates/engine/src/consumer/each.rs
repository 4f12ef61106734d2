//! Effects that are called message by message, many in flight.
//!
//! Every turn settles the attempts that have finished and claims as many messages as there is room
//! for, side by side, so that one durable write can carry both; attempts that finish meanwhile are
//! the next turn's batch. A granted message does not wait long for a slow settlement, which is then
//! reported once more.

mod leases;
mod probe;
mod side_by_side;
mod unprotected;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::source::Acknowledgement;
use semel_core::{Admission, Claim, Clock, Fate, Result, StateKind, Store};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::pause::Judged;
use super::reader::{Disposition, ReaderHandle};
use super::report::{outcome_of, settlement};
use super::run_state::{RunState, past_provider};
use super::steps::{call, conclude_all, given_back, jitter};
use super::store_calls::{Asked, ReportAnswer};
use crate::consumer::in_hand::InHand;
use crate::differing::Measured;
use crate::effect::{Effect, Verdict};
use crate::trace::HttpExchange;
use probe::{Probed, probe};
use side_by_side::side_by_side;

pub(super) async fn run<S: Store + Clone, E: Effect>(
    run: &mut RunState<S>,
    reader: &mut ReaderHandle,
    effect: Arc<E>,
) -> Result<()> {
    let mut attempts = Attempts::new(&run.context.surroundings.clock);
    loop {
        if attempts.is_idle() && run.backlog.is_empty() {
            run.gather(reader).await;
            if run.outstanding.is_done() {
                return Ok(());
            }
        } else {
            if !attempts.are_over(run) {
                attempts.wait(run, reader).await;
            }
            if attempts.are_over(run) {
                return attempts.give_back(run).await;
            }
        }
        if semel_core::planted("M04") {
            let early = attempts.finished.iter().map(|(running, ..)| {
                Acknowledgement::new(running.incoming.delivery, Fate::Applied)
            });
            reader
                .send(Disposition::Acknowledge(early.collect()))
                .await?;
        }
        attempts.renew_if_due(run).await?;
        attempts.turn(run, &effect).await?;
        let context = Arc::clone(&run.context);
        tokio::select! {
            biased;
            flushed = run.flush(reader) => flushed?,
            never = attempts.broken_off(&context) => match never {},
        }
    }
}

/// Attempts under way and those that wait to be settled.
struct Attempts {
    tasks: JoinSet<Called>,
    running: BTreeMap<Id, Running>,
    /// With the time that each call took.
    finished: Vec<(Running, Verdict, Duration)>,
    clock: Arc<dyn Clock>,
    renew_at: Duration,
}

/// The verdict of a call, the status of the HTTP answer that it got, if any, and the time that it took.
type Called = (Verdict, Option<u16>, Duration);

/// The state found where a claim was lost; `None` is absent.
struct Found(Option<StateKind>);

struct Running {
    incoming: InHand,
    claim: Claim,
    abort: AbortHandle,
    /// The state that was found when the lease was lost while the effect ran; its verdict is
    /// discarded.
    lost: Option<Found>,
    /// The store knows of the claim.
    is_protected: bool,
    /// The effect is called for it.
    is_called: bool,
    began_at: Duration,
}

impl Attempts {
    fn new(clock: &Arc<dyn Clock>) -> Self {
        Self {
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            finished: Vec::new(),
            renew_at: clock.monotonic(),
            clock: Arc::clone(clock),
        }
    }

    /// Tells whether nothing runs and nothing waits to be settled for the first time.
    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.finished.is_empty()
    }

    /// Tells whether the run is: then nothing waits for a store that is away.
    fn are_over<S: Store + Clone>(&self, run: &RunState<S>) -> bool {
        run.outstanding.is_stopping() && (self.is_idle() || run.context.is_out_of_patience())
    }

    /// Returns how many more attempts may begin.
    fn free<S: Store + Clone>(&self, run: &RunState<S>) -> usize {
        let running = self.running.len();
        let free = run.context.pipeline.concurrency.saturating_sub(running);
        free.min(run.room(running))
    }

    /// Waits until an attempt ends, another one may begin, leases need renewing, or the store may be
    /// asked again.
    async fn wait<S: Store + Clone>(&mut self, run: &mut RunState<S>, reader: &mut ReaderHandle) {
        let stage = run.outstanding.stage();
        self.collect();
        run.look_after();
        let now = run.outstanding.wake();
        let has_slot = self.free(run) > 0;
        let has_fates = run.outcomes.has_settled() || run.outstanding.has_revoked();
        if !self.finished.is_empty()
            || has_fates
            || (has_slot && run.outstanding.has_ready() && !run.outstanding.is_stopping())
        {
            return;
        }
        let patience = run.context.ends_at();
        // Nobody asks about suspended messages any more once nothing begins.
        let may_ask = run.waits_for_store(has_slot && !run.outstanding.is_stopping());
        let ask_at = may_ask.then(|| run.store.retry_at().unwrap_or(now));
        let at = [patience, ask_at].into_iter().flatten();
        let at = at.fold(self.renew_at, Duration::min);
        let tasks = &mut self.tasks;
        let ended = async {
            match tasks.join_next_with_id().await {
                Some(joined) => joined,
                None => std::future::pending().await,
            }
        };
        if let Some(joined) = run.wait(reader, stage, has_slot, Some(at), ended).await {
            self.take(joined);
            self.collect();
        }
    }

    /// Takes every attempt that has ended by now.
    fn collect(&mut self) {
        while let Some(joined) = self.tasks.try_join_next_with_id() {
            self.take(joined);
        }
    }

    fn take(&mut self, joined: Result<(Id, Called), JoinError>) {
        let (id, ended) = match joined {
            Ok((id, ended)) => (id, Ok(ended)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(mut running) = self.running.remove(&id) else {
            return;
        };
        let (verdict, status, took) = ended.unwrap_or_else(|error| {
            let now = self.clock.monotonic();
            let took = now.saturating_sub(running.began_at);
            (broken_off(&error), None, took)
        });
        if let (Some(status), Some(trace)) = (status, running.incoming.trace_mut()) {
            trace.exchanged(HttpExchange {
                status: Some(status),
                ..HttpExchange::default()
            });
        }
        self.finished.push((running, verdict, took));
    }

    /// Settles the attempts that have finished and claims as many messages as there is room for, side
    /// by side.
    async fn turn<S: Store + Clone, E: Effect>(
        &mut self,
        run: &mut RunState<S>,
        effect: &Arc<E>,
    ) -> Result<()> {
        let mut settling = run.backlog.take_unsettled();
        for (running, verdict, took) in self.finished.drain(..) {
            let Running {
                mut incoming,
                claim,
                lost,
                is_protected,
                is_called,
                ..
            } = running;
            if is_called {
                run.effect_ended(&mut incoming, &verdict, took);
            }
            if !is_protected {
                run.end_unprotected(incoming, verdict);
            } else if let Some(Found(found)) = lost {
                run.ends_unheard(incoming.delivery);
                if run.context.is_observed()
                    && let Some(outcome) = outcome_of(&run.context.pipeline, verdict)
                {
                    incoming.keep_lost(Measured::new(&outcome));
                }
                run.fenced(incoming, claim.token, found);
            } else {
                let token = claim.token;
                let settlement = run.report_of(incoming.delivery, claim, verdict);
                let settlement = jitter(&run.context, settlement);
                settling.push(incoming, token, settlement);
            }
        }
        let free = self.free(run);
        let begin = if run.outstanding.is_stopping() {
            0
        } else {
            free.min(run.context.pipeline.batch)
        };
        let (taken, suspended) = run.take_to_ask(begin);
        let settlements = settling.report();
        let requests: Arc<[_]> = taken
            .iter()
            .map(|incoming| incoming.request.clone())
            .collect();
        let asked_at = run.now();
        let asking = async {
            if run.store.is_away() {
                // One probe, not two.
                let settled = run.store.try_settle(&run.outstanding, &settlements).await?;
                return Ok((
                    Some(settled),
                    run.store.try_claim(&run.outstanding, &requests).await?,
                ));
            }
            let settled = run.store.try_settle(&run.outstanding, &settlements);
            let lease = run.context.pipeline.lease;
            let given_back_by = asked_at + lease / 3 * 2;
            let longer = || {
                let is_stopping = run.outstanding.is_stopping();
                is_stopping.then(|| given_back_by.saturating_sub(run.now()))
            };
            let claimed = run.store.try_claim(&run.outstanding, &requests);
            side_by_side(settled, claimed, (lease / 6, longer)).await
        };
        let (settled, admissions) = self.beside(run.parts(), asking).await?;
        let unanswered = || {
            settlements
                .iter()
                .map(|_| ReportAnswer::default())
                .collect()
        };
        let settled = settled.unwrap_or_else(unanswered);
        conclude_all(run, settling, settled)?;
        match admissions {
            Asked::Answered(admissions) => {
                let admitted = taken.into_iter().zip(admissions).collect();
                self.admit(run, effect, admitted, asked_at).await?;
            }
            Asked::NotNow { is_maybe } => {
                let is_stopping = run.outstanding.is_stopping();
                for (place, incoming) in taken.into_iter().enumerate() {
                    let is_maybe = is_maybe && !semel_core::planted("U02");
                    if is_maybe || place < suspended || is_stopping {
                        run.suspend(incoming);
                    } else {
                        self.begin_unprotected(run, effect, incoming);
                    }
                }
            }
        }
        self.run_unprotected(run, effect);
        Ok(())
    }

    /// Deals with the store's answers to messages that asked for a claim at `asked_at`.
    async fn admit<S: Store + Clone, E: Effect>(
        &mut self,
        run: &mut RunState<S>,
        effect: &Arc<E>,
        admitted: Vec<(InHand, Admission)>,
        asked_at: Duration,
    ) -> Result<()> {
        let mut doubts = Vec::new();
        let answered_at = run.now();
        let lease = run.context.lease(asked_at);
        let is_stopping = run.outstanding.is_stopping();
        for (mut incoming, admission) in admitted {
            match admission {
                Admission::Granted(claim)
                    if !is_stopping
                        && lease.may_begin(run.now())
                        && run.begins(incoming.delivery) =>
                {
                    if semel_core::planted("M01") {
                        let done = Verdict::Done(bytes::Bytes::new());
                        let judged = Judged::AsSaid;
                        let done = settlement(&run.context.pipeline, claim.clone(), done, judged);
                        let done = Arc::from([done]);
                        run.store.settle_all(&run.outstanding, &done).await?;
                    }
                    self.begin(run, effect, incoming, (claim, answered_at));
                }
                Admission::Parked {
                    state: StateKind::InDoubt,
                    duplicate,
                    now,
                } => {
                    incoming.trace_trouble();
                    doubts.push((incoming, duplicate, now));
                }
                admission => run.refused(incoming, admission, answered_at)?,
            }
        }
        // Only once all others have begun: a probe may take longer than a lease that nobody extends.
        for (incoming, duplicate, now) in doubts {
            let probed = probe(run.parts(), effect, &incoming, now);
            match self.beside(run.parts(), probed).await? {
                Probed::Resolved | Probed::OutOfTime => run.outstanding.put_back(vec![incoming]),
                Probed::Unresolved => {
                    let state = StateKind::InDoubt;
                    let parked = Admission::Parked {
                        state,
                        duplicate,
                        now,
                    };
                    run.refused(incoming, parked, answered_at)?;
                }
            }
        }
        Ok(())
    }

    fn begin<S: Store + Clone, E: Effect>(
        &mut self,
        run: &mut RunState<S>,
        effect: &Arc<E>,
        mut incoming: InHand,
        (claim, answered_at): (Claim, Duration),
    ) {
        if claim.takeover {
            run.taken_over();
        }
        if claim.resumed {
            // The lease of a resumed claim has been running since the claim was first granted.
            self.renew_at = run.now();
        }
        run.note_claimed(incoming.delivery);
        run.granted(&mut incoming, claim.grant(), answered_at);
        let is_past_provider = run.is_past_provider(incoming.delivery);
        self.spawn(incoming, claim, true, effect, is_past_provider);
    }

    /// Calls the effect, unless its provider would no longer recognise a call that it may have seen
    /// before.
    fn spawn<E: Effect>(
        &mut self,
        mut incoming: InHand,
        claim: Claim,
        is_protected: bool,
        effect: &Arc<E>,
        is_past_provider: bool,
    ) {
        let call = call(&incoming, claim.clone());
        let effect = Arc::clone(effect);
        let clock = Arc::clone(&self.clock);
        let began_at = clock.monotonic();
        if let Some(trace) = incoming.trace_mut() {
            trace.effect_begins(began_at);
        }
        let abort = self.tasks.spawn(async move {
            if is_past_provider {
                return (past_provider(), None, Duration::ZERO);
            }
            let (verdict, status) = effect.call_with_status(call).await;
            let took = clock.monotonic().saturating_sub(began_at);
            (verdict, status, took)
        });
        self.running.insert(
            abort.id(),
            Running {
                incoming,
                claim,
                abort,
                lost: None,
                is_protected,
                is_called: !is_past_provider,
                began_at,
            },
        );
    }

    /// Stops the calls that still run at the end of a shutdown and reports that nobody knows how they
    /// ended.
    async fn give_back<S: Store + Clone>(&mut self, run: &mut RunState<S>) -> Result<()> {
        self.tasks.abort_all();
        while let Some(joined) = self.tasks.join_next_with_id().await {
            self.take(joined);
        }
        run.put_back_suspended();
        let mut settling = run.backlog.take_unsettled();
        for (mut running, verdict, took) in std::mem::take(&mut self.finished) {
            if running.is_called {
                run.effect_ended(&mut running.incoming, &verdict, took);
            }
            if running.is_protected {
                let token = running.claim.token;
                let delivery = running.incoming.delivery;
                let settlement = run.report_of(delivery, running.claim, verdict);
                let settlement = given_back(settlement, true);
                settling.push(running.incoming, token, settlement);
            } else {
                run.end_unprotected(running.incoming, verdict);
            }
        }
        let settled = run
            .store
            .settle_all(&run.outstanding, &settling.report())
            .await?;
        conclude_all(run, settling, settled)
    }
}

/// Returns the verdict on a call that panicked or was dropped: neither a success nor a proof that nothing was applied.
fn broken_off(error: &JoinError) -> Verdict {
    if semel_core::planted("M38") {
        return Verdict::Done(bytes::Bytes::new());
    }
    let why = if error.is_panic() {
        "the effect panicked"
    } else {
        "the call was dropped"
    };
    Verdict::MaybeApplied { error: why.into() }
}
