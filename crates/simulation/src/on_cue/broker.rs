//! A broker that delivers unacknowledged messages again, and checks every acknowledgement against
//! the store: I2, only what is durably finished or parked may be acknowledged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};
use semel_core::port::store::ListQuery;
use semel_core::{
    AnyStore, ByteString, Error, ErrorKind, Key, Operation, Result, Scope, StateKind, Store,
    StoreExt,
};
use semel_engine::summary::{Fate, Summary};

use super::crash::Crash;
use super::message::{Message, member};
use super::sink::EffectSink;

/// A queue. Clones are the same queue.
#[derive(Clone)]
pub struct Broker {
    queue: Arc<Mutex<Queue>>,
    store: AnyStore,
    sink: Arc<EffectSink>,
    scope: Scope,
    /// True if an effect that has happened may be acknowledged without a record.
    is_open: Arc<AtomicBool>,
}

#[derive(Default)]
struct Queue {
    messages: Vec<Message>,
    done: BTreeSet<usize>,
    /// Message of each delivery, in all sources.
    handed: BTreeMap<DeliveryId, usize>,
    acknowledged: Vec<Acknowledgement>,
    requeued: Vec<DeliveryId>,
    /// The number of deliveries of each extension.
    extended: Vec<usize>,
    /// Violations of the rules for consumers.
    violations: Vec<String>,
}

impl Broker {
    pub fn new(store: AnyStore, sink: Arc<EffectSink>, scope: Scope) -> Self {
        Self {
            queue: Arc::default(),
            store,
            sink,
            scope,
            is_open: Arc::default(),
        }
    }

    /// Accepts an acknowledgement without a record, if its effect has happened.
    pub fn accept_unprotected(&self) -> &Self {
        self.is_open.store(true, Ordering::Relaxed);
        self
    }

    pub fn publish(&self, message: Message) -> &Self {
        let mut queue = self.queue();
        let coordinates = format!("test:{:04}", queue.messages.len()).into();
        queue.messages.push(Message {
            coordinates,
            ..message
        });
        drop(queue);
        self
    }

    /// Another broker with a copy of each message: the same coordinates, other deliveries.
    pub fn copy(&self) -> Self {
        let copy = Self {
            queue: Arc::default(),
            ..self.clone()
        };
        copy.queue().messages.clone_from(&self.queue().messages);
        copy
    }

    /// Messages that nobody has acknowledged.
    pub fn unacknowledged(&self) -> usize {
        let queue = self.queue();
        queue.messages.len() - queue.done.len()
    }

    /// Deliveries handed over and not acknowledged, in all.
    pub fn in_hand(&self) -> usize {
        let queue = self.queue();
        queue.handed.len() - queue.acknowledged.len()
    }

    /// Deliveries acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.queue().acknowledged.len()
    }

    /// The fates that were told of the messages so far, in the order in which these were published.
    pub fn fates(&self) -> Vec<Fate> {
        let queue = self.queue();
        let mut told: Vec<_> = queue
            .acknowledged
            .iter()
            .map(|it| (queue.handed.get(&it.delivery), it.fate))
            .collect();
        told.sort_by_key(|(message, _)| *message);
        told.into_iter().map(|(_, fate)| fate).collect()
    }

    /// Deliveries given back so far.
    pub fn requeued(&self) -> usize {
        self.queue().requeued.len()
    }

    /// The number of deliveries of each extension.
    pub fn extended(&self) -> Vec<usize> {
        self.queue().extended.clone()
    }

    /// Fails if any acknowledgement was early, repeated or invented.
    #[track_caller]
    pub fn check(&self) {
        assert_eq!(
            self.queue().violations,
            Vec::<String>::new(),
            "acknowledged against the rule"
        );
    }

    /// The unacknowledged messages, as a source.
    pub fn feed(&self, crash: Crash) -> Feed {
        let queue = self.queue();
        let waiting = (0..queue.messages.len()).filter(|index| !queue.done.contains(index));
        Feed {
            waiting: waiting.collect(),
            broker: self.clone(),
            crash,
            handed: Arc::default(),
            told: Arc::default(),
            at_most: usize::MAX,
            pause: Duration::ZERO,
            headers: Vec::new(),
            stays_open: false,
            hold: None,
            on_fetch: None,
            on_acknowledge: None,
            close_takes: Duration::ZERO,
        }
    }

    /// Returns whether the store records the fate of the message's operation.
    async fn is_settled(&self, message: &Message) -> bool {
        let everything = ListQuery {
            limit: usize::MAX,
            ..ListQuery::default()
        };
        let key = member(&message.payload, "key").and_then(|key| Key::new(&key).ok());
        if let Some(key) = key {
            // Only messages of pipelines with tenants name one.
            let tenant = member(&message.payload, "tenant");
            let scope = tenant.and_then(|it| Scope::new(&it, self.scope.operation()).ok());
            let operation = Operation::new(scope.unwrap_or_else(|| self.scope.clone()), key);
            let record = self.store.get_one(operation).await;
            if let Some(record) = record.expect("the memory store answers") {
                match record.state.kind() {
                    StateKind::Completed | StateKind::Dead | StateKind::InDoubt => return true,
                    StateKind::Claimed | StateKind::Started | StateKind::Released => {}
                }
            }
        }
        let key = member(&message.payload, "key").filter(|_| self.is_open.load(Ordering::Relaxed));
        if key.is_some_and(|key| self.sink.applied(&key) > 0) {
            return true;
        }
        let parked = self
            .store
            .list_parked(&everything)
            .await
            .expect("the memory store answers");
        if parked
            .items
            .iter()
            .any(|parked| parked.payload == message.payload)
        {
            return true;
        }
        self.is_stale(message)
    }

    /// Returns whether the sink has this version of its entity, or a later one.
    fn is_stale(&self, message: &Message) -> bool {
        let entity = member(&message.payload, "entity");
        let version = member(&message.payload, "version").and_then(|it| it.parse().ok());
        entity
            .zip(version)
            .is_some_and(|(entity, version)| self.sink.has(&entity, version))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue
            .lock()
            .expect("no test panics while it holds the queue")
    }
}

/// The fault of one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub enum OnAcknowledge {
    /// The worker dies before it is sent.
    Crash,
    /// It is lost on its way: the broker learns nothing.
    Lose,
    /// It arrives, and its answer is lost.
    LoseAnswer,
    /// It arrives, and the worker dies before it learns so.
    CrashAfter,
    /// The worker stands still before it sends it.
    Delay(Duration),
    /// It is never sent, and its call does not end.
    Hang,
}

/// The fault of the next fetch.
#[derive(Clone, Copy, Debug)]
pub enum OnFetch {
    /// The worker dies with the deliveries in its hands.
    Crash,
    /// The broker cannot be reached once it has delivered something.
    FailLater,
    /// The adapter has a bug.
    Panic,
}

/// One worker's source: delivers the messages that were unacknowledged when it was opened, and
/// ends.
pub struct Feed {
    broker: Broker,
    waiting: VecDeque<usize>,
    crash: Crash,
    /// Deliveries handed over by this feed.
    pub handed: Arc<Mutex<u64>>,
    /// The fates that this feed was told, whatever became of the acknowledgement.
    pub told: Arc<Mutex<Summary>>,
    /// Most deliveries in one fetch.
    pub at_most: usize,
    /// Wait before each fetch.
    pub pause: Duration,
    /// Headers of each delivery.
    pub headers: Vec<(ByteString, Bytes)>,
    /// True if it waits for ever instead of ending.
    pub stays_open: bool,
    /// The time for which it leaves a delivery with a consumer that does not extend it.
    pub hold: Option<Duration>,
    pub on_fetch: Option<OnFetch>,
    pub on_acknowledge: Option<OnAcknowledge>,
    /// The time that closing takes.
    pub close_takes: Duration,
}

impl Source for Feed {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        tokio::time::sleep(self.pause).await;
        let has_handed = *self.handed.lock().expect("counts never panic") > 0;
        match self.on_fetch {
            Some(OnFetch::Crash) => {
                self.crash.befalls();
                return self.crash.now().await;
            }
            Some(OnFetch::FailLater) if has_handed => {
                return Err(Error::new(ErrorKind::Unavailable, "the broker is gone"));
            }
            Some(OnFetch::Panic) => panic!("a bug of the adapter"),
            Some(OnFetch::FailLater) | None => {}
        }
        if self.waiting.is_empty() {
            if self.stays_open {
                std::future::pending::<()>().await;
            }
            return Ok(Fetched::Ended);
        }
        let count = max.min(self.at_most).min(self.waiting.len());
        let mut queue = self.broker.queue();
        let mut deliveries = Vec::with_capacity(count);
        for index in self.waiting.drain(..count) {
            let id = DeliveryId(next_delivery());
            queue.handed.insert(id, index);
            let message = queue.messages[index].clone();
            let mut delivery = Delivery::new(id, message.payload, message.coordinates);
            delivery.headers.clone_from(&self.headers);
            delivery.appended_at = message.appended_at;
            delivery.oversize_bytes = message.oversize_bytes;
            deliveries.push(delivery);
        }
        *self.handed.lock().expect("counts never panic") += count as u64;
        Ok(Fetched::Deliveries(deliveries))
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        for told in batch {
            self.told
                .lock()
                .expect("counts never panic")
                .count(told.fate);
        }
        let befalls = self.on_acknowledge.take();
        if befalls.is_some() {
            self.crash.befalls();
        }
        match befalls {
            Some(OnAcknowledge::Crash) => return self.crash.now().await,
            Some(OnAcknowledge::Lose) => {
                return Err(Error::new(ErrorKind::Unavailable, "the connection broke"));
            }
            Some(OnAcknowledge::Delay(delay)) => tokio::time::sleep(delay).await,
            Some(OnAcknowledge::Hang) => std::future::pending().await,
            Some(OnAcknowledge::LoseAnswer | OnAcknowledge::CrashAfter) | None => {}
        }
        for told in batch {
            let id = &told.delivery;
            let found = self.broker.queue().handed.get(id).copied();
            let Some(index) = found else {
                self.broker
                    .queue()
                    .violations
                    .push(format!("{id:?} was never handed over"));
                continue;
            };
            let message = self.broker.queue().messages[index].clone();
            let is_settled = self.broker.is_settled(&message).await;
            let mut queue = self.broker.queue();
            if !is_settled {
                queue.violations.push(format!(
                    "{} before its fate was durable",
                    message.coordinates
                ));
            }
            if queue.acknowledged.iter().any(|it| it.delivery == *id) {
                queue
                    .violations
                    .push(format!("{} twice", message.coordinates));
            }
            queue.acknowledged.push(*told);
            queue.done.insert(index);
        }
        match befalls {
            Some(OnAcknowledge::LoseAnswer) => {
                Err(Error::new(ErrorKind::Unavailable, "the connection broke"))
            }
            Some(OnAcknowledge::CrashAfter) => self.crash.now().await,
            Some(
                OnAcknowledge::Crash
                | OnAcknowledge::Lose
                | OnAcknowledge::Delay(_)
                | OnAcknowledge::Hang,
            )
            | None => Ok(()),
        }
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.broker.queue().requeued.extend(batch);
        Ok(())
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        let mut queue = self.broker.queue();
        for id in batch {
            if queue.acknowledged.iter().any(|it| it.delivery == *id) {
                queue
                    .violations
                    .push(format!("{id:?} extended after its end"));
            }
        }
        queue.extended.push(batch.len());
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        tokio::time::sleep(self.close_takes).await;
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }

    fn hold(&self) -> Option<Duration> {
        self.hold
    }
}

/// An id that is never reused, in any feed of any broker.
fn next_delivery() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
