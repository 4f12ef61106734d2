//! Effects that take whole batches, several of them at once.
//!
//! Every turn reports the batches that have ended and asks for the claims of another one, side by side, so that one
//! durable write can carry both. The store works on that turn while the consumer deals with the answers to the one
//! before, and batches are under way meanwhile. Only one message of each order key is in hand at a time, so no
//! batch can overtake another in a way that matters.

mod background_calls;
mod running_batches;

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Result, Store};

use super::outstanding::Stage;
use super::pending_settlements::PendingSettlements;
use super::reader::ReaderHandle;
use super::run_state::{Parts, RunState};
use super::steps::{Admitted, Taken, admitted, conclude_all, given_back, jitter};
use super::store_calls::{Asked, RECHECK};
use crate::effect::BulkEffect;
use crate::lease::renewal_interval;
use background_calls::{BackgroundCall, BackgroundCalls};
use running_batches::{FinishedBatch, RunningBatches};

pub(super) async fn run<S: Store + Clone, E: BulkEffect>(
    run: &mut RunState<S>,
    reader: &mut ReaderHandle,
    effect: Arc<E>,
) -> Result<()> {
    // Two that the store is asked about, one under way and one being gathered.
    run.outstanding.limit(4);
    let mut bulk = Bulk {
        background: BackgroundCalls::default(),
        running: RunningBatches::default(),
        finished: Vec::new(),
        renew_at: run.now(),
    };
    loop {
        let ended = bulk.wait(run, reader).await;
        if run.outstanding.is_done()
            && (bulk.is_idle(ended.as_ref()) || run.context.is_out_of_patience())
        {
            return bulk.give_back(run, ended).await;
        }
        bulk.renew_if_due(run.parts()).await?;
        bulk.turn(run, &effect, ended).await?;
        let context = Arc::clone(&run.context);
        tokio::select! {
            biased;
            flushed = run.flush(reader) => flushed?,
            never = bulk.running.broken_off_in_time(&context) => match never {},
        }
    }
}

/// Batches under way, batches that wait to be settled, and the turns that the store works on.
struct Bulk {
    background: BackgroundCalls,
    running: RunningBatches,
    finished: Vec<FinishedBatch>,
    renew_at: Duration,
}

impl Bulk {
    fn is_idle(&self, ended: Option<&BackgroundCall>) -> bool {
        let nothing_is_asked = self.background.is_empty() && ended.is_none();
        nothing_is_asked && self.running.is_empty() && self.finished.is_empty()
    }

    /// Tells whether another batch may be claimed in addition to those under way.
    fn may_claim<S: Store + Clone>(
        &self,
        run: &RunState<S>,
        ended: Option<&BackgroundCall>,
    ) -> bool {
        let claiming = self.background.claiming()
            + usize::from(ended.is_some_and(BackgroundCall::is_claiming));
        let has_room = self.background.have_room(run.store.is_left_alone());
        let may_run = !run.outstanding.is_stopping() && self.running.have_room(claiming);
        has_room && may_run && self.free(run, ended) > 0
    }

    /// Counts the messages that may still begin as far as their target is concerned.
    fn free<S: Store + Clone>(&self, run: &RunState<S>, ended: Option<&BackgroundCall>) -> usize {
        let asked = self.background.messages() + ended.map_or(0, BackgroundCall::messages);
        // Nothing is asked ahead for a target that the pipeline waits for: its room counts what has begun.
        if run.is_paused() && asked > 0 {
            return 0;
        }
        run.room(self.running.messages() + asked)
    }

    /// Waits until the store has answered, a batch ends, a batch is ready to begin, leases need renewing, or the
    /// store may be asked again. Returns the turn that the store has answered.
    async fn wait<S: Store + Clone>(
        &mut self,
        run: &mut RunState<S>,
        reader: &mut ReaderHandle,
    ) -> Option<BackgroundCall> {
        self.running.collect(&mut self.finished);
        run.look_after();
        if !self.finished.is_empty() && self.background.have_room(run.store.is_left_alone()) {
            run.take_in(reader);
            return self.background.take_ended().await;
        }
        if self.running.is_empty() && self.background.is_empty() {
            run.gather(reader).await;
            return None;
        }
        let stage = run.outstanding.stage();
        let at = [run.context.ends_at(), run.next_try()];
        let at = at.into_iter().flatten();
        let at = Some(at.fold(self.renew_at, Duration::min));
        let may_claim = self.may_claim(run, None);
        let (background, running, finished) =
            (&mut self.background, &mut self.running, &mut self.finished);
        let ended = async {
            tokio::select! {
                biased;
                () = background.ended() => true,
                () = running.ended(finished) => false,
            }
        };
        let ended = if stage == Stage::Running {
            run.gather_beside(reader, may_claim, at, ended).await
        } else {
            run.wait(reader, stage, false, at, ended).await
        };
        match ended {
            Some(true) => self.background.take_first(),
            Some(false) | None => None,
        }
    }

    /// Asks the store about another turn, then deals with its answers to the one before, so that the store is busy
    /// meanwhile.
    async fn turn<S: Store + Clone, E: BulkEffect>(
        &mut self,
        run: &mut RunState<S>,
        effect: &Arc<E>,
        ended: Option<BackgroundCall>,
    ) -> Result<()> {
        // Settlements that a store that is away has not taken are asked about again, but not at once.
        if ended.is_none() || !run.store.is_left_alone() {
            self.begin_turn(run, ended.as_ref());
        }
        let Some(call) = ended.or_else(|| self.background.take_unbegun()) else {
            return Ok(());
        };
        if run.outstanding.is_stopping() {
            return self.conclude_only(run, call).await;
        }
        let answered = self
            .beside(run.parts(), call.answered(&run.store, &run.outstanding))
            .await?;
        // The batch runs while the consumer deals with what has ended.
        let admitted = admitted(run, answered.taken, answered.admitted)?;
        self.begin(run, effect, admitted);
        conclude_all(run, answered.settling, answered.settled)
    }

    /// Deals with the store's answers during a shutdown: messages that were claimed do not begin, and their claims
    /// are given back.
    async fn conclude_only<S: Store + Clone>(
        &self,
        run: &mut RunState<S>,
        call: BackgroundCall,
    ) -> Result<()> {
        let answered = self
            .beside(run.parts(), call.answered(&run.store, &run.outstanding))
            .await?;
        match answered.admitted {
            Asked::Answered(admissions) => {
                let answered_at = run.now();
                for (incoming, admission) in answered.taken.messages.into_iter().zip(admissions) {
                    run.refused(incoming, admission, answered_at)?;
                }
            }
            Asked::NotNow { .. } => {
                for incoming in answered.taken.messages {
                    run.suspend(incoming);
                }
            }
        }
        conclude_all(run, answered.settling, answered.settled)
    }

    /// Asks the store to settle what has ended and to grant claims for as many messages as there is room for.
    fn begin_turn<S: Store + Clone>(
        &mut self,
        run: &mut RunState<S>,
        ended: Option<&BackgroundCall>,
    ) {
        if !self.background.have_room(run.store.is_left_alone()) {
            return;
        }
        // The batches that have ended may say something about the target.
        let settling = self.ended(run, run.outstanding.is_stopping());
        let room = if self.may_claim(run, ended) {
            run.context.pipeline.batch.min(self.free(run, ended))
        } else {
            0
        };
        let (messages, suspended) = run.take_to_ask(room);
        let begins_unprotected = room > 0 && run.store.is_away() && run.outstanding.has_ready();
        if settling.is_empty() && messages.is_empty() && !begins_unprotected {
            return;
        }
        let taken = Taken {
            messages,
            suspended,
            room,
            asked_at: run.now(),
        };
        self.background.begin(&run.store, settling, taken);
    }

    fn begin<S: Store + Clone, E: BulkEffect>(
        &mut self,
        run: &RunState<S>,
        effect: &Arc<E>,
        batch: Admitted,
    ) {
        if batch.messages.iter().any(|(_, claim)| claim.resumed) {
            // The lease of a resumed claim has been running since the claim was first granted.
            self.renew_at = run.now();
        }
        let clock = &run.context.surroundings.clock;
        self.running.begin(effect, clock, batch);
    }

    /// Returns the settlements of the batches that have ended, behind those that were left over.
    fn ended<S: Store + Clone>(
        &mut self,
        run: &mut RunState<S>,
        is_stopping: bool,
    ) -> PendingSettlements {
        let mut settling = run.backlog.take_unsettled();
        for finished in self.finished.drain(..) {
            let is_broken_off = finished.is_broken_off;
            for (mut incoming, claim, verdict) in finished.messages {
                run.effect_ended(&mut incoming, &verdict, finished.took);
                if !finished.is_protected {
                    run.end_unprotected(incoming, verdict);
                    continue;
                }
                let token = claim.token;
                let settlement = run.report_of(incoming.delivery, claim, verdict);
                let settlement = if is_stopping {
                    given_back(settlement, is_broken_off)
                } else {
                    jitter(&run.context, settlement)
                };
                settling.push(incoming, token, settlement);
            }
        }
        settling
    }

    /// Extends the leases of everything under way, at a third of the lease.
    async fn renew_if_due<S: Store + Clone>(
        &mut self,
        (context, store, outstanding): Parts<'_, S>,
    ) -> Result<()> {
        let (now, lease) = (context.now(), context.pipeline.lease);
        if self.running.is_empty() {
            self.renew_at = context.lease(now).renew_at();
            return Ok(());
        }
        if now < self.renew_at {
            return Ok(());
        }
        self.renew_at = context.lease(now).renew_at();
        // A lost claim shows when it is settled.
        if store
            .try_renew(outstanding, self.running.renewals(lease))
            .await?
            .is_none()
        {
            self.renew_at = context.now() + RECHECK.min(renewal_interval(lease));
        }
        Ok(())
    }

    /// Waits for `work` and meanwhile keeps the leases of everything under way, however long that takes. Batches that run
    /// when a shutdown runs out of patience are broken off, whatever is waited for.
    async fn beside<S: Store + Clone, T>(
        &self,
        (context, store, outstanding): Parts<'_, S>,
        work: impl Future<Output = T>,
    ) -> T {
        let first = self.renew_at.saturating_sub(context.now());
        tokio::select! {
            biased;
            done = work => done,
            never = store.keep(outstanding, first, || self.running.renewals(context.pipeline.lease)) => match never {},
            never = self.running.broken_off_in_time(context) => match never {},
        }
    }

    /// Breaks off everything still under way at the end, and reports that nobody knows how it ended.
    async fn give_back<S: Store + Clone>(
        &mut self,
        run: &mut RunState<S>,
        ended: Option<BackgroundCall>,
    ) -> Result<()> {
        self.running.break_off(&mut self.finished).await;
        // Turns under way go on meanwhile, and may have been answered even if there is no time to ask once more.
        self.report(run).await?;
        let mut next = ended;
        while let Some(call) = next.take().or_else(|| self.background.take_first()) {
            self.conclude_only(run, call).await?;
        }
        self.report(run).await
    }

    /// Reports what has ended, and what was left over.
    async fn report<S: Store + Clone>(&mut self, run: &mut RunState<S>) -> Result<()> {
        let mut settling = self.ended(run, true);
        let settled = run
            .store
            .settle_all(&run.outstanding, &settling.report())
            .await?;
        conclude_all(run, settling, settled)
    }
}
