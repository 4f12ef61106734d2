//! Effects that take whole batches, several of them at once.
//!
//! Every turn reports the batches that have ended and asks for the claims of another one, side by side, so that one
//! durable write can carry both. The store works on that turn while the consumer deals with the answers to the one
//! before, and batches are under way meanwhile. Only one message of each order key is in hand at a time, so no
//! batch can overtake another in a way that matters.

mod asks;
mod flight;

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Result, Store};

use super::desk::{Desk, Parts};
use super::intake::Intake;
use super::patience::Patience;
use super::steps::{Admitted, Taken, admitted, conclude_all, given_back, jitter};
use super::store_calls::{Asked, RECHECK};
use super::unsettled::Unsettled;
use crate::effect::BulkEffect;
use crate::lease::renewal_interval;
use asks::{Ask, Asks};
use flight::{Flights, Landed};

pub(super) async fn run<S: Store + Clone, E: BulkEffect>(
    desk: &mut Desk<S>,
    mut intake: Intake,
    effect: Arc<E>,
) -> Result<()> {
    // Two that the store is asked about, one under way and one being gathered.
    desk.outstanding.limit(4);
    let mut bulk = Bulk {
        asks: Asks::default(),
        flights: Flights::default(),
        landed: Vec::new(),
        renew_at: desk.now(),
        patience: Patience::default(),
    };
    loop {
        let ended = bulk.wait(desk, &mut intake).await;
        if desk.outstanding.is_done()
            && (bulk.is_idle(ended.as_ref())
                || bulk.patience.is_over(&desk.context, &desk.outstanding))
        {
            bulk.give_back(desk, ended).await?;
            return desk.close(intake).await;
        }
        bulk.renew_if_due(desk.parts()).await?;
        bulk.turn(desk, &effect, ended).await?;
        desk.flush(&intake).await?;
    }
}

/// Batches under way, batches that wait to be settled, and the turns that the store works on.
struct Bulk {
    asks: Asks,
    flights: Flights,
    landed: Vec<Landed>,
    renew_at: Duration,
    patience: Patience,
}

impl Bulk {
    fn is_idle(&self, ended: Option<&Ask>) -> bool {
        let nothing_is_asked = self.asks.is_empty() && ended.is_none();
        nothing_is_asked && self.flights.is_empty() && self.landed.is_empty()
    }

    /// Tells whether another batch may be claimed in addition to those under way.
    fn may_claim<S: Store + Clone>(&self, desk: &Desk<S>, ended: Option<&Ask>) -> bool {
        let claiming = self.asks.claiming() + usize::from(ended.is_some_and(Ask::is_claiming));
        let has_room = self.asks.have_room(desk.store.is_left_alone());
        let has_flight = !desk.outstanding.is_stopping() && self.flights.have_room(claiming);
        has_room && has_flight && self.free(desk, ended) > 0
    }

    /// Counts the messages that may still begin as far as their target is concerned.
    fn free<S: Store + Clone>(&self, desk: &Desk<S>, ended: Option<&Ask>) -> usize {
        let asked = self.asks.messages() + ended.map_or(0, Ask::messages);
        // Nothing is asked ahead for a target that the pipeline waits for: its room counts what has begun.
        if desk.is_paused() && asked > 0 {
            return 0;
        }
        desk.room(self.flights.messages() + asked)
    }

    /// Waits until the store has answered, a batch ends, a batch is ready to begin, leases need renewing, or the
    /// store may be asked again. Returns the turn that the store has answered.
    async fn wait<S: Store + Clone>(
        &mut self,
        desk: &mut Desk<S>,
        intake: &mut Intake,
    ) -> Option<Ask> {
        self.flights.collect(&mut self.landed);
        desk.look_after();
        if !self.landed.is_empty() && self.asks.have_room(desk.store.is_left_alone()) {
            desk.take_in(intake);
            return self.asks.take_ended().await;
        }
        if self.flights.is_empty() && self.asks.is_empty() {
            desk.gather(intake).await;
            return None;
        }
        let at = [
            self.patience.ends(&desk.context, &desk.outstanding),
            desk.next_try(),
        ];
        let at = at.into_iter().flatten();
        let at = Some(at.fold(self.renew_at, Duration::min));
        let may_claim = self.may_claim(desk, None);
        let (asks, flights, landed) = (&mut self.asks, &mut self.flights, &mut self.landed);
        let ended = async {
            tokio::select! {
                biased;
                () = asks.ended() => true,
                () = flights.ended(landed) => false,
            }
        };
        let ended = if desk.outstanding.is_stopping() {
            desk.wait(intake, false, at, ended).await
        } else {
            desk.gather_beside(intake, may_claim, at, ended).await
        };
        match ended {
            Some(true) => self.asks.take_first(),
            Some(false) | None => None,
        }
    }

    /// Asks the store about another turn, then deals with its answers to the one before, so that the store is busy
    /// meanwhile.
    async fn turn<S: Store + Clone, E: BulkEffect>(
        &mut self,
        desk: &mut Desk<S>,
        effect: &Arc<E>,
        ended: Option<Ask>,
    ) -> Result<()> {
        // Settlements that a store that is away has not taken are asked about again, but not at once.
        if ended.is_none() || !desk.store.is_left_alone() {
            self.ask(desk, ended.as_ref());
        }
        let Some(ask) = ended.or_else(|| self.asks.take_unbegun()) else {
            return Ok(());
        };
        if desk.outstanding.is_stopping() {
            return self.conclude_only(desk, ask).await;
        }
        let answered = self
            .beside(desk.parts(), ask.answered(&desk.store, &desk.outstanding))
            .await?;
        // The batch runs while the consumer deals with what has ended.
        let admitted = admitted(desk, answered.taken, answered.admitted)?;
        self.begin(desk, effect, admitted);
        conclude_all(desk, answered.settling, answered.settled)
    }

    /// Deals with the store's answers during a shutdown: messages that were claimed do not begin, and their claims
    /// are given back.
    async fn conclude_only<S: Store + Clone>(&self, desk: &mut Desk<S>, ask: Ask) -> Result<()> {
        let answered = self
            .beside(desk.parts(), ask.answered(&desk.store, &desk.outstanding))
            .await?;
        match answered.admitted {
            Asked::Answered(admissions) => {
                for (incoming, admission) in answered.taken.messages.into_iter().zip(admissions) {
                    desk.refused(incoming, admission)?;
                }
            }
            Asked::NotNow { .. } => {
                for incoming in answered.taken.messages {
                    desk.suspend(incoming);
                }
            }
        }
        conclude_all(desk, answered.settling, answered.settled)
    }

    /// Asks the store to settle what has ended and to grant claims for as many messages as there is room for.
    fn ask<S: Store + Clone>(&mut self, desk: &mut Desk<S>, ended: Option<&Ask>) {
        if !self.asks.have_room(desk.store.is_left_alone()) {
            return;
        }
        // The batches that have ended may say something about the target.
        let settling = self.ended(desk, desk.outstanding.is_stopping());
        let room = if self.may_claim(desk, ended) {
            desk.context.pipeline.batch.min(self.free(desk, ended))
        } else {
            0
        };
        let (messages, suspended) = desk.take_to_ask(room);
        let begins_unprotected = room > 0 && desk.store.is_away() && desk.outstanding.has_ready();
        if settling.is_empty() && messages.is_empty() && !begins_unprotected {
            return;
        }
        let taken = Taken {
            messages,
            suspended,
            room,
            asked_at: desk.now(),
        };
        self.asks.begin(&desk.store, settling, taken);
    }

    fn begin<S: Store + Clone, E: BulkEffect>(
        &mut self,
        desk: &Desk<S>,
        effect: &Arc<E>,
        batch: Admitted,
    ) {
        if batch.messages.iter().any(|(_, claim)| claim.resumed) {
            // The lease of a resumed claim has been running since the claim was first granted.
            self.renew_at = desk.now();
        }
        let clock = &desk.context.surroundings.clock;
        self.flights.begin(effect, clock, batch);
    }

    /// Returns the settlements of the batches that have ended, behind those that were left over.
    fn ended<S: Store + Clone>(&mut self, desk: &mut Desk<S>, is_stopping: bool) -> Unsettled {
        let mut settling = desk.away.take_unsettled();
        for landed in self.landed.drain(..) {
            let is_broken_off = landed.is_broken_off;
            for (mut incoming, claim, verdict) in landed.messages {
                desk.effect_ended(&mut incoming, &verdict, landed.took);
                if !landed.is_protected {
                    desk.end_unprotected(incoming, verdict);
                    continue;
                }
                let token = claim.token;
                let settlement = desk.report_of(incoming.delivery, claim, verdict);
                let settlement = if is_stopping {
                    given_back(settlement, is_broken_off)
                } else {
                    jitter(&desk.context, settlement)
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
        if self.flights.is_empty() {
            self.renew_at = context.lease(now).renew_at();
            return Ok(());
        }
        if now < self.renew_at {
            return Ok(());
        }
        self.renew_at = context.lease(now).renew_at();
        // A lost claim shows when it is settled.
        if store
            .try_renew(outstanding, &self.flights.renewals(lease))
            .await?
            .is_none()
        {
            self.renew_at = context.now() + RECHECK.min(renewal_interval(lease));
        }
        Ok(())
    }

    /// Waits for `work` and meanwhile keeps the leases of everything under way, however long that takes.
    async fn beside<S: Store + Clone, T>(
        &self,
        (context, store, outstanding): Parts<'_, S>,
        work: impl Future<Output = T>,
    ) -> T {
        let first = self.renew_at.saturating_sub(context.now());
        tokio::select! {
            biased;
            done = work => done,
            never = store.keep(outstanding, first, || self.flights.renewals(context.pipeline.lease)) => match never {},
        }
    }

    /// Breaks off everything still under way at the end, and reports that nobody knows how it ended.
    async fn give_back<S: Store + Clone>(
        &mut self,
        desk: &mut Desk<S>,
        ended: Option<Ask>,
    ) -> Result<()> {
        let mut next = ended;
        while let Some(ask) = next.take().or_else(|| self.asks.take_first()) {
            self.conclude_only(desk, ask).await?;
        }
        self.flights.break_off(&mut self.landed).await;
        let settling = self.ended(desk, true);
        let settled = desk
            .store
            .settle_all(&desk.outstanding, settling.settlements())
            .await?;
        conclude_all(desk, settling, settled.into_iter().map(Some))?;
        desk.put_back_suspended();
        Ok(())
    }
}
