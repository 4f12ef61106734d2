//! Effects that take whole batches, several of them at once.
//!
//! Every turn settles the batches that have ended and claims another one, side by side, so that one durable
//! write can carry both; meanwhile the others are under way. A message of each order key is in hand at a time,
//! so no batch can overtake another where that would matter.

mod flight;

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Result, Store};
use tokio::time::sleep;

use super::desk::{Desk, RECHECK};
use super::intake::Intake;
use super::patience::Patience;
use super::stream::{self, Admitted, given_back, jitter, settlement};
use super::unsettled::Unsettled;
use crate::effect::BulkEffect;
use flight::{Flights, Landed};

pub(super) async fn run<S: Store + Clone, E: BulkEffect>(
    desk: &mut Desk<S>,
    mut intake: Intake,
    effect: Arc<E>,
) -> Result<()> {
    let mut bulk = Bulk {
        flights: Flights::default(),
        landed: Vec::new(),
        renew_at: desk.now(),
        patience: Patience::default(),
    };
    loop {
        bulk.wait(desk, &mut intake).await;
        let is_idle = bulk.flights.is_empty() && bulk.landed.is_empty();
        if desk.is_done() && (is_idle || bulk.patience.is_over(desk)) {
            bulk.give_back(desk).await?;
            return desk.close(intake).await;
        }
        bulk.renew_if_due(desk).await?;
        bulk.turn(desk, &effect).await?;
        desk.flush(&intake).await?;
    }
}

/// Batches under way and those that wait to be settled.
struct Bulk {
    flights: Flights,
    landed: Vec<Landed>,
    renew_at: Duration,
    patience: Patience,
}

impl Bulk {
    /// Waits until a batch ends, there is one to begin, leases want renewing, or the store may be asked again.
    async fn wait<S: Store + Clone>(&mut self, desk: &mut Desk<S>, intake: &mut Intake) {
        self.flights.collect(&mut self.landed);
        if !self.landed.is_empty() {
            desk.take_in(intake);
            return;
        }
        if self.flights.is_empty() {
            return desk.gather(intake).await;
        }
        let patience = self.patience.ends(desk);
        let wake_at = patience.map_or(self.renew_at, |end| end.min(self.renew_at));
        let nap = wake_at.saturating_sub(desk.now());
        let is_stopping = desk.is_stopping();
        if is_stopping || !self.flights.have_room() {
            let mut shutdown = desk.shutdown.clone();
            tokio::select! {
                biased;
                () = self.flights.ended(&mut self.landed) => {}
                () = shutdown.request(), if !is_stopping => {}
                () = sleep(nap) => {}
                never = desk.keep_in_hand() => match never {},
            }
        } else {
            tokio::select! {
                biased;
                () = self.flights.ended(&mut self.landed) => {}
                () = desk.gather(intake) => {}
                () = sleep(nap) => {}
            }
        }
    }

    /// Settles what has ended and claims what there is room for, side by side.
    async fn turn<S: Store + Clone, E: BulkEffect>(
        &mut self,
        desk: &mut Desk<S>,
        effect: &Arc<E>,
    ) -> Result<()> {
        let settling = self.ended(desk, desk.is_stopping());
        let room = if desk.is_stopping() || !self.flights.have_room() {
            0
        } else {
            desk.pipeline.batch
        };
        let (taken, suspended) = desk.take_to_ask(room);
        let requests: Vec<_> = taken
            .iter()
            .map(|incoming| incoming.request.clone())
            .collect();
        let asked_at = desk.now();
        let asking = async {
            if desk.is_away() {
                // One probe, not two.
                let settled = desk.try_settle(settling.settlements()).await?;
                return Ok((settled, desk.try_claim(&requests).await?));
            }
            tokio::try_join!(
                desk.try_settle(settling.settlements()),
                desk.try_claim(&requests)
            )
        };
        let (settled, asked) = self.beside(desk, asking).await?;
        settling.conclude(desk, settled)?;
        let taken = stream::Taken {
            messages: taken,
            suspended,
            room,
            asked_at,
        };
        let admitted = stream::admitted(desk, taken, asked)?;
        self.begin(desk, effect, admitted);
        Ok(())
    }

    fn begin<S: Store + Clone, E: BulkEffect>(
        &mut self,
        desk: &Desk<S>,
        effect: &Arc<E>,
        batch: Admitted,
    ) {
        if batch.messages.iter().any(|(_, claim)| claim.resumed) {
            // Its lease has been running since it was first granted.
            self.renew_at = desk.now();
        }
        self.flights.begin(effect, batch);
    }

    /// What has ended and is to be reported, with what was left over from before.
    fn ended<S: Store + Clone>(&mut self, desk: &mut Desk<S>, is_stopping: bool) -> Unsettled {
        let mut settling = std::mem::take(&mut desk.away.unsettled);
        for landed in self.landed.drain(..) {
            let is_broken_off = landed.is_broken_off;
            for (incoming, claim, verdict) in landed.messages {
                if !landed.is_protected {
                    desk.end_unprotected(incoming, verdict);
                    continue;
                }
                let token = claim.token;
                let settlement = settlement(&desk.pipeline, claim, verdict);
                let settlement = if is_stopping {
                    given_back(settlement, is_broken_off)
                } else {
                    jitter(desk, settlement)
                };
                settling.push(incoming, token, settlement);
            }
        }
        settling
    }

    /// Extends the leases of everything under way, at a third of the lease.
    async fn renew_if_due<S: Store + Clone>(&mut self, desk: &Desk<S>) -> Result<()> {
        let (now, lease) = (desk.now(), desk.pipeline.lease);
        if self.flights.is_empty() {
            self.renew_at = now + lease / 3;
            return Ok(());
        }
        if now < self.renew_at {
            return Ok(());
        }
        self.renew_at = now + lease / 3;
        // A claim that was lost is found out when it is settled.
        if desk
            .try_renew(&self.flights.renewals(lease))
            .await?
            .is_none()
        {
            self.renew_at = desk.now() + RECHECK.min(lease / 3);
        }
        Ok(())
    }

    /// Waits for `work`. However long that takes, what is under way keeps its lease.
    async fn beside<S: Store + Clone, T>(
        &self,
        desk: &Desk<S>,
        work: impl Future<Output = T>,
    ) -> T {
        let first = self.renew_at.saturating_sub(desk.now());
        tokio::select! {
            biased;
            done = work => done,
            never = desk.keep(first, || self.flights.renewals(desk.pipeline.lease)) => match never {},
        }
    }

    /// Breaks off what is still under way at the end, and reports that nobody knows how it ended.
    async fn give_back<S: Store + Clone>(&mut self, desk: &mut Desk<S>) -> Result<()> {
        self.flights.break_off(&mut self.landed).await;
        let settling = self.ended(desk, true);
        let settled = desk.settle_all(settling.settlements()).await?;
        settling.conclude(desk, settled.into_iter().map(Some))?;
        desk.put_back_suspended();
        Ok(())
    }
}
