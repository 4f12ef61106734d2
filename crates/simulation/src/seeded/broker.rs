//! A broker: delivers a message to one worker for a while, and then to the next one; may give a message up after
//! many deliveries. Checks every acknowledgement against the store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};
use semel_core::port::store::ListQuery;
use semel_core::{Error, ErrorKind, Parked, Result, StateKind, Store, StoreExt};
use tokio::sync::Notify;

use crate::seeded::dice::Dice;
use crate::seeded::kind::Kind;
use crate::seeded::life::Life;
use crate::seeded::payload::number_in;
use crate::seeded::queue::Place;
use crate::seeded::world::World;

/// One worker's connection.
pub(crate) struct Feed {
    pub(crate) world: Arc<World>,
    pub(crate) life: Arc<Life>,
}

impl Feed {
    /// The available deliveries, or the notification to wait for, and how long.
    fn take(&self, max: usize) -> std::result::Result<Vec<Delivery>, (Arc<Notify>, Duration)> {
        let now = self.world.now();
        let site = self.life.site(&[18, self.life.next("fetch")]);
        let mut dice = Dice::new(self.world.seed, site);
        let mut queue = self.world.queue();
        let numbers = queue
            .take(self.life.worker, now, &mut dice, max)
            .map_err(|next| {
                let wait = next.map_or(FOR_EVER, |next| next.saturating_sub(now));
                (Arc::clone(&queue.changed), wait)
            })?;
        let start_millis = self.world.plan.start_millis;
        let deliveries = numbers
            .iter()
            .map(|&number| queue.messages[number].delivery(start_millis));
        let deliveries: Vec<_> = deliveries.collect();
        drop(queue);
        self.world.log(format_args!(
            "{} is handed {}",
            self.life,
            names(&deliveries)
        ));
        Ok(deliveries)
    }
}

impl Source for Feed {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        loop {
            self.life.awake().await;
            match self.take(max) {
                Ok(deliveries) => return Ok(Fetched::Deliveries(deliveries)),
                Err((changed, wait)) => tokio::select! {
                    biased;
                    () = changed.notified() => {}
                    () = tokio::time::sleep(wait) => {}
                },
            }
        }
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        self.life.awake().await;
        let batch: Vec<_> = batch.iter().map(|told| told.delivery).collect();
        for id in &batch {
            judge(&self.world, &self.life, *id).await;
        }
        if self.life.loses_acknowledgement() {
            return Err(Error::new(ErrorKind::Unavailable, "the connection broke"));
        }
        let mut queue = self.world.queue();
        let mut count = 0;
        for message in queue.current(&batch) {
            message.place = Place::Done;
            count += 1;
        }
        drop(queue);
        if count < batch.len() && self.world.kind != Kind::Streamed {
            self.world.saw("stale acknowledgement");
        }
        self.world
            .log(format_args!("{} acknowledges {batch:?}", self.life));
        Ok(())
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        let now = self.world.now();
        let mut queue = self.world.queue();
        for message in queue.current(batch) {
            message.place = Place::Waiting { from: now };
        }
        queue.changed.notify_waiters();
        Ok(())
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.life.awake().await;
        let later = self.world.now() + self.world.plan.visibility;
        for message in self.world.queue().current(batch) {
            if let Place::InHand { until, .. } = &mut message.place {
                *until = later;
            }
        }
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

fn names(deliveries: &[Delivery]) -> String {
    let name = |it: &Delivery| {
        format!(
            "k{} ({} as {})",
            number_in(&it.payload),
            it.coordinates,
            it.id.0
        )
    };
    deliveries.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Checks that an operation is durably finished or set aside before it is acknowledged: by the store's last
/// answer to this worker, or by what it holds now. Between the two a record may leave its window.
async fn judge(world: &World, life: &Life, id: DeliveryId) {
    let found = {
        let queue = world.queue();
        queue
            .of(id)
            .map(|message| (message.operation, message.payload.clone()))
    };
    let Some((number, payload)) = found else {
        world.violation(format!(
            "{life} acknowledged {id:?}, which nobody handed over"
        ));
        return;
    };
    if !life.was_told_of_the_end(number) && !is_settled(world, number, &payload).await {
        world.violation(format!(
            "{life} acknowledged k{number} before its fate was durable"
        ));
    }
}

async fn is_settled(world: &World, number: usize, payload: &Bytes) -> bool {
    if world.tally().remembered.contains(&number) {
        return true;
    }
    let store = world.store();
    if let Ok(Some(record)) = store.get_one(world.operation(number)).await {
        match record.state.kind() {
            StateKind::Completed | StateKind::Dead | StateKind::InDoubt => return true,
            StateKind::Claimed | StateKind::Started | StateKind::Released => {}
        }
    }
    let is_applied = match world.kind {
        _ if world.is_gated() => world.provider().is_superseded(number),
        Kind::Streamed => world.provider().applied(number) > 0,
        Kind::Gated
        | Kind::Output
        | Kind::Transaction
        | Kind::Keyed
        | Kind::Repeat
        | Kind::Stream
        | Kind::Park
        | Kind::Once
        | Kind::OnceParked
        | Kind::Http
        | Kind::HttpParked
        | Kind::Claims => false,
    };
    if is_applied {
        return true;
    }
    let everything = ListQuery {
        limit: usize::MAX,
        ..ListQuery::default()
    };
    let parked = store.list_parked(&everything).await;
    let parked = parked.map(|page| page.items).unwrap_or_default();
    // One message is kept for each operation that was given up.
    let is_its = |it: &Parked| {
        it.payload == *payload
            || (matches!(&*it.reason, "dead" | "in-doubt") && number_in(&it.payload) == number)
    };
    parked.iter().any(is_its)
}

/// Longer than any scenario.
const FOR_EVER: Duration = Duration::from_secs(1 << 20);
