//! A broker: delivers a message to one worker for a while, and then to the next one; may give a message up after
//! many deliveries. Checks every acknowledgement against the store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};
use semel_core::port::store::ListQuery;
use semel_core::{
    ByteString, Error, ErrorKind, Parked, Result, StateKind, Store, StoreExt, Timestamp,
};
use tokio::sync::Notify;

use crate::seeded::dice::Dice;
use crate::seeded::kind::Kind;
use crate::seeded::life::Life;
use crate::seeded::plan::Plan;
use crate::seeded::world::{World, number_in};

/// The messages, and the state of each.
pub(crate) struct Queue {
    pub(crate) messages: Vec<Message>,
    next_delivery: u64,
    /// Notified when a message is there again.
    changed: Arc<Notify>,
    visibility: Duration,
    most_deliveries: Option<u32>,
}

pub(crate) struct Message {
    pub(crate) operation: usize,
    payload: Bytes,
    coordinates: ByteString,
    pub(crate) born: Duration,
    deliveries: Vec<DeliveryId>,
    pub(crate) place: Place,
    /// The delivery that a transaction of the broker named.
    committed: Option<DeliveryId>,
}

/// The state of the delivery that a transaction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    Now,
    Before,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To be delivered from then on.
    Waiting {
        from: Duration,
    },
    InHand {
        delivery: DeliveryId,
        worker: usize,
        until: Duration,
    },
    Done,
    /// The broker gave it up, where everyone can see that.
    GivenUp,
}

impl Queue {
    pub(crate) fn new(plan: &Plan) -> Self {
        let planned = plan.messages.iter().enumerate();
        let messages = planned.map(|(number, planned)| {
            let first = planned.copy_of.unwrap_or(number);
            let operation = planned.operation;
            let other = if planned.is_other { ",\"other\":1" } else { "" };
            // Two entities, whose versions are published in random order.
            let (entity, version) = (operation % 2, operation / 2 + 1);
            let payload = format!(
                "{{\"key\":\"k{operation}\",\"entity\":\"e{entity}\",\"version\":{version}{other}}}"
            );
            Message {
                operation,
                payload: payload.into(),
                coordinates: format!("m{first}").into(),
                born: plan.messages[first].at,
                deliveries: Vec::new(),
                place: Place::Waiting { from: planned.at },
                committed: None,
            }
        });
        Self {
            messages: messages.collect(),
            next_delivery: 1,
            changed: Arc::default(),
            visibility: plan.visibility,
            most_deliveries: plan.most_deliveries,
        }
    }

    /// Returns whether no more deliveries will come.
    pub(crate) fn is_done(&self) -> bool {
        let is_done = |message: &Message| matches!(message.place, Place::Done | Place::GivenUp);
        self.messages.iter().all(is_done)
    }

    /// Operations of which a worker has a message in hand.
    pub(crate) fn in_hand(&self, of: usize) -> Vec<usize> {
        let is_its = |place| matches!(place, Place::InHand { worker, .. } if worker == of);
        let its = self.messages.iter().filter(|message| is_its(message.place));
        its.map(|message| message.operation).collect()
    }

    /// Returns whether the broker gave up a message of this operation.
    pub(crate) fn gave_up(&self, operation: usize) -> bool {
        let given_up = |it: &Message| it.operation == operation && it.place == Place::GivenUp;
        self.messages.iter().any(given_up)
    }

    /// Ends the worker's connection: the messages that it had in hand are there for others.
    pub(crate) fn hand_back(&mut self, of: usize, now: Duration) {
        for message in &mut self.messages {
            if matches!(message.place, Place::InHand { worker, .. } if worker == of) {
                message.place = Place::Waiting { from: now };
            }
        }
        self.changed.notify_waiters();
    }

    /// Takes the available messages for a worker, or returns the time at which to look again.
    fn take(
        &mut self,
        worker: usize,
        now: Duration,
        dice: &mut Dice,
        max: usize,
    ) -> std::result::Result<Vec<usize>, Option<Duration>> {
        let mut there = Vec::new();
        let mut next: Option<Duration> = None;
        for (number, message) in self.messages.iter_mut().enumerate() {
            let from = match message.place {
                Place::Waiting { from } => from,
                Place::InHand { until, .. } => until,
                Place::Done | Place::GivenUp => continue,
            };
            if from > now {
                next = Some(next.map_or(from, |next| next.min(from)));
                continue;
            }
            let deliveries = u32::try_from(message.deliveries.len()).unwrap_or(u32::MAX);
            if self.most_deliveries.is_some_and(|most| deliveries >= most) {
                message.place = Place::GivenUp;
                continue;
            }
            there.push(number);
        }
        if there.is_empty() {
            return Err(next);
        }
        // Now and then in another order than that of publication.
        if there.len() > 1 && dice.one_in(3) {
            let first = dice.place(there.len());
            there.rotate_left(first);
        }
        there.truncate(max);
        for &number in &there {
            let delivery = DeliveryId(self.next_delivery);
            self.next_delivery += 1;
            let message = &mut self.messages[number];
            message.deliveries.push(delivery);
            message.place = Place::InHand {
                delivery,
                worker,
                until: now + self.visibility,
            };
        }
        Ok(there)
    }

    /// Returns whether a worker has this delivery in hand.
    pub(crate) fn is_current(&mut self, delivery: DeliveryId) -> bool {
        self.current(&[delivery]).next().is_some()
    }

    /// Plays a transaction of the broker: the delivery's message is read, if the delivery is current.
    pub(crate) fn commit(&mut self, delivery: DeliveryId) -> Commit {
        if let Some(message) = self.current(&[delivery]).next() {
            message.place = Place::Done;
            message.committed = Some(delivery);
            return Commit::Now;
        }
        let is_its = |message: &Message| message.committed == Some(delivery);
        if self.messages.iter().any(is_its) {
            Commit::Before
        } else {
            Commit::Gone
        }
    }

    /// The messages of which these are the current deliveries.
    fn current(&mut self, batch: &[DeliveryId]) -> impl Iterator<Item = &mut Message> {
        let batch: BTreeSet<_> = batch.iter().copied().collect();
        let is_current = move |message: &&mut Message| matches!(message.place, Place::InHand { delivery, .. } if batch.contains(&delivery));
        self.messages.iter_mut().filter(is_current)
    }

    fn of(&self, delivery: DeliveryId) -> Option<&Message> {
        self.messages
            .iter()
            .find(|message| message.deliveries.contains(&delivery))
    }
}

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
            .map(|&number| delivery(&queue.messages[number], start_millis));
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

fn delivery(message: &Message, start_millis: u64) -> Delivery {
    let born = start_millis + u64::try_from(message.born.as_millis()).unwrap_or_default();
    let id = message.deliveries.last().copied().unwrap_or(DeliveryId(0));
    let (payload, coordinates) = (message.payload.clone(), message.coordinates.clone());
    let mut delivery = Delivery::new(id, payload, coordinates);
    delivery.appended_at = Some(Timestamp::from_millis(born));
    delivery.received = u32::try_from(message.deliveries.len()).ok();
    delivery
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
