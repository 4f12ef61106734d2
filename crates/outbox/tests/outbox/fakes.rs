//! An outbox in memory, a sink that does as it is told, and a clock that goes as tokio's does.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::outbox::{OutboxId, Outgoing, PARTITIONS, PartitionLease};
use semel_core::port::outbox::{OutboxStore, RelayName, Unsent};
use semel_core::port::sink::{Publication, Sink};
use semel_core::{ByteString, Clock, Error, ErrorKind, Result, Timestamp};
use semel_outbox::{Event, Observer};
use tokio::time::{Instant, sleep};

/// The relay of all tests.
pub(crate) fn name() -> RelayName {
    RelayName {
        name: "out".into(),
        stream: "orders".into(),
        sink: "fake".into(),
        process: "one".into(),
    }
}

/// The clock of tokio, which tests stop.
pub(crate) struct VirtualClock(Instant);

impl Default for VirtualClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.plus(self.0.elapsed())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

pub(crate) type Headers = Vec<(ByteString, bytes::Bytes)>;

/// An outbox, with all messages in its first partition.
#[derive(Clone, Default)]
pub(crate) struct FakeOutbox(Arc<Mutex<Contents>>);

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
struct Contents {
    messages: Vec<Message>,
    recorded: Vec<u128>,
    dead: Vec<u128>,
    lost_records: u32,
    renewals: u32,
    balances: u32,
    kept: u64,
    is_taken_away: bool,
    /// True if another process has all partitions but the last.
    is_shared: bool,
    is_away: bool,
    has_left: bool,
    refusal: Option<Error>,
}

struct Message {
    outgoing: Outgoing,
    due_at: Option<Instant>,
    is_dead: bool,
}

impl FakeOutbox {
    pub(crate) fn commit(&self, id: u128, key: Option<&'static str>) {
        self.commit_with(id, key, Ok(Vec::new()));
    }

    /// The same with these headers, or with the reason why they cannot be sent.
    pub(crate) fn commit_with(
        &self,
        id: u128,
        key: Option<&'static str>,
        headers: Result<Headers, Box<str>>,
    ) {
        let outgoing = Outgoing {
            id: OutboxId::from_u128(id),
            partition: 0,
            place: 0,
            order_key: key.map(ByteString::from_static),
            headers,
            payload: id.to_string().into(),
            attempts: 0,
        };
        self.contents().messages.push(Message {
            outgoing,
            due_at: None,
            is_dead: false,
        });
    }

    pub(crate) fn recorded(&self) -> Vec<u128> {
        self.contents().recorded.clone()
    }

    pub(crate) fn dead(&self) -> Vec<u128> {
        self.contents().dead.clone()
    }

    pub(crate) fn loses_records(&self, count: u32) {
        self.contents().lost_records = count;
    }

    pub(crate) fn renewals(&self) -> u32 {
        self.contents().renewals
    }

    /// Has so many messages that were published and kept.
    pub(crate) fn has_kept(&self, count: u64) {
        self.contents().kept = count;
    }

    pub(crate) fn kept(&self) -> u64 {
        self.contents().kept
    }

    pub(crate) fn balances(&self) -> u32 {
        self.contents().balances
    }

    pub(crate) fn take_leases_away(&self) {
        self.contents().is_taken_away = true;
    }

    /// Another process has the partition of all messages, or has died, and its lease has run out.
    pub(crate) fn is_shared(&self, is_shared: bool) {
        self.contents().is_shared = is_shared;
    }

    /// It answers nothing from now on.
    pub(crate) fn goes_away(&self) {
        self.contents().is_away = true;
    }

    pub(crate) fn has_left(&self) -> bool {
        self.contents().has_left
    }

    pub(crate) fn refuses(&self, refusal: Error) {
        self.contents().refusal = Some(refusal);
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutboxStore for FakeOutbox {
    async fn lease(
        &self,
        _: &RelayName,
        _: Duration,
        balanced: bool,
    ) -> Result<Vec<PartitionLease>> {
        let mut contents = self.contents();
        if let Some(refusal) = &contents.refusal {
            return Err(refusal.clone());
        }
        contents.renewals += 1;
        contents.balances += u32::from(balanced);
        if contents.is_away {
            return Err(Error::new(ErrorKind::Unavailable, "away"));
        }
        let first = match (contents.is_taken_away, contents.is_shared) {
            (true, _) => PARTITIONS,
            (false, true) => PARTITIONS - 1,
            (false, false) => 0,
        };
        let leases = (first..PARTITIONS).map(|partition| PartitionLease {
            partition,
            token: 1,
        });
        Ok(leases.collect())
    }

    async fn pending(
        &self,
        _: &RelayName,
        leases: &[PartitionLease],
        most: u32,
    ) -> Result<Vec<Outgoing>> {
        let contents = self.contents();
        let now = Instant::now();
        let mut held_up = BTreeSet::new();
        let mut pending = Vec::new();
        if contents.is_away {
            return Err(Error::new(ErrorKind::Unavailable, "away"));
        }
        let has_it = leases.iter().any(|it| it.partition == 0);
        for message in contents.messages.iter().filter(|_| has_it) {
            let key = message.outgoing.order_key.clone();
            if message.is_dead || message.due_at.is_some_and(|due| due > now) {
                held_up.extend(key);
            } else if key.is_none_or(|key| !held_up.contains(&key)) {
                pending.push(message.outgoing.clone());
            }
        }
        pending.truncate(most as usize);
        Ok(pending)
    }

    async fn sent(&self, ids: &[OutboxId], _: bool) -> Result<u64> {
        let mut contents = self.contents();
        if contents.lost_records > 0 {
            contents.lost_records -= 1;
            return Err(Error::new(ErrorKind::Unavailable, "away"));
        }
        contents
            .messages
            .retain(|it| !ids.contains(&it.outgoing.id));
        let ids = ids.iter().map(|id| id.as_u128());
        contents.recorded.extend(ids);
        Ok(0)
    }

    async fn put_off(&self, _: &RelayName, unsent: &[Unsent]) -> Result<Vec<OutboxId>> {
        let contents = &mut *self.contents();
        let mut changed = Vec::new();
        if contents.is_taken_away {
            return Ok(changed);
        }
        for it in unsent {
            let mut messages = contents.messages.iter_mut();
            let Some(message) = messages.find(|message| message.outgoing.id == it.id) else {
                continue;
            };
            message.outgoing.attempts += u32::from(it.counted);
            message.due_at = it.wait.map(|wait| Instant::now() + wait);
            message.is_dead = it.wait.is_none();
            if message.is_dead {
                contents.dead.push(it.id.as_u128());
            }
            changed.push(it.id);
        }
        Ok(changed)
    }

    async fn forget(&self, _: &str, published_for: Duration, most: u32) -> Result<u64> {
        let mut contents = self.contents();
        let gone = if published_for.is_zero() {
            contents.kept.min(u64::from(most))
        } else {
            0
        };
        contents.kept -= gone;
        Ok(gone)
    }

    async fn leave(&self, _: &RelayName) -> Result<()> {
        self.contents().has_left = true;
        Ok(())
    }

    async fn committed(&self) -> Result<()> {
        pending().await
    }
}

/// A sink that fails with some messages.
#[derive(Clone, Default)]
pub(crate) struct FakeSink(Arc<Mutex<Orders>>);

#[derive(Default)]
struct Orders {
    failing: BTreeMap<u128, ErrorKind>,
    published: Vec<u128>,
    headers: BTreeMap<u128, Headers>,
    time: Duration,
    /// The time that a batch takes with one of these in it, and the number of such batches.
    late: BTreeMap<u128, Duration>,
    late_batches: u32,
}

impl FakeSink {
    pub(crate) fn fails(&self, id: u128, kind: ErrorKind) {
        self.orders().failing.insert(id, kind);
    }

    pub(crate) fn takes(&self, id: u128) {
        self.orders().failing.remove(&id);
    }

    pub(crate) fn takes_its_time(&self, time: Duration) {
        self.orders().time = time;
    }

    /// Fails with a message, and keeps its whole batch waiting for so long.
    pub(crate) fn fails_late(&self, id: u128, kind: ErrorKind, time: Duration) {
        self.fails(id, kind);
        self.orders().late.insert(id, time);
    }

    pub(crate) fn late_batches(&self) -> u32 {
        self.orders().late_batches
    }

    pub(crate) fn published(&self) -> Vec<u128> {
        self.orders().published.clone()
    }

    /// The headers of a message that was published, in order.
    pub(crate) fn headers(&self, id: u128) -> Vec<String> {
        let headers = self.orders().headers.remove(&id).unwrap_or_default();
        let each = headers.iter();
        each.map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
            .collect()
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for FakeSink {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        let id_of = |message: &Publication| {
            let id: OutboxId = message.id.parse().expect("the id of the outbox");
            id.as_u128()
        };
        let time = {
            let mut orders = self.orders();
            let late = batch.iter().filter_map(|it| orders.late.get(&id_of(it)));
            let late = late.copied().max();
            orders.late_batches += u32::from(late.is_some());
            late.unwrap_or_default().max(orders.time)
        };
        sleep(time).await;
        let mut orders = self.orders();
        let answer = |message: &Publication| {
            let id = id_of(message);
            if let Some(kind) = orders.failing.get(&id) {
                return Err(Error::new(*kind, "as it was told"));
            }
            orders.published.push(id);
            orders.headers.insert(id, message.headers.clone());
            Ok(())
        };
        batch.iter().map(answer).collect()
    }
}

/// The events that were told, as text.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Observer for Told {
    fn observe(&self, _: &str, event: &Event<'_>) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(format!("{event:?}"));
    }
}
