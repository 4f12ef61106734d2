//! The thread that owns the consumer: reads, commits, rebalances.
//!
//! librdkafka calls back within `poll`, on this thread, and nothing that a callback waits for needs it:
//! what is finished is told under a lock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message, Timestamp as RecordTime};
use rdkafka::{Offset, TopicPartitionList};
use semel_core::Timestamp;
use semel_core::port::source::{Delivery, DeliveryId};
use tokio::time::Instant;

use crate::error::{away, fatal};
use crate::options::Options;
use crate::shared::{Assignment, AssignmentId, End, Shared, State};
use crate::streamed::Restoring;

/// What librdkafka calls back.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: Options,
    /// Where records are committed in transactions: what is known of a partition is restored before it is
    /// read.
    pub(crate) restoring: Option<Restoring>,
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, _reason: &str) {
        if let Some(code) = error.rdkafka_error_code() {
            let mut state = self.shared.lock();
            state.away(away(code, &self.options));
            drop(state);
            self.shared.tell();
        }
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(partitions) = rebalance {
            self.let_go(consumer, partitions);
        }
    }

    fn post_rebalance(&self, _consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Assign(partitions) = rebalance else {
            return;
        };
        let mut state = self.shared.lock();
        for partition in partitions.elements() {
            let (topic, partition) = (partition.topic(), partition.partition());
            let id = state.assign(topic, partition, self.restoring.is_none());
            if let Some(restoring) = &self.restoring {
                restoring.begin(id, partition);
            }
        }
    }
}

impl Context {
    /// Drains first, commits, and lets go then. Where the partitions are lost already, somebody else works
    /// on them, and there is nothing to wait for.
    fn let_go(&self, consumer: &BaseConsumer<Self>, partitions: &TopicPartitionList) {
        let named = partitions.elements();
        let named: Vec<_> = named
            .iter()
            .map(|it| (it.topic().into(), it.partition()))
            .collect();
        let is_lost = consumer.assignment_lost();
        let mut state = self.shared.lock();
        let leaving = state.leave(&named);
        self.shared.tell();
        let begun = Instant::now();
        while !is_lost && state.end != Some(End::AtOnce) && state.held(&leaving) > 0 {
            let left = self.options.drain.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            state = self.shared.wait(state, left);
        }
        if !is_lost && state.end != Some(End::AtOnce) {
            let finished = take_commits(&mut state, Some(&leaving));
            drop(state);
            if finished.count() > 0 {
                // Refused, they come again; so does what nobody finished.
                let _ = consumer.commit(&finished, CommitMode::Sync);
            }
            state = self.shared.lock();
        }
        state.left(&leaving);
        drop(state);
        if let Some(restoring) = &self.restoring {
            restoring.end(&leaving);
        }
    }
}

/// What is new to be committed, of these assignments or of all.
fn take_commits(state: &mut State, only: Option<&[AssignmentId]>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for assignment in state.assignments(only) {
        let Some(offset) = assignment.prefix.to_commit() else {
            continue;
        };
        let offset = if cfg!(semel_planted = "K01") {
            // Whatever is finished, as if all before it were.
            offset + i64::try_from(assignment.prefix.span()).unwrap_or(0)
        } else {
            offset
        };
        let added = list.add_partition_offset(
            &assignment.topic,
            assignment.partition,
            Offset::Offset(offset),
        );
        if added.is_ok() {
            assignment.prefix.committed(offset);
        }
    }
    list
}

/// The thread's work, until an end is asked for.
pub(crate) fn run(consumer: Arc<BaseConsumer<Context>>) {
    let context = Arc::clone(consumer.context());
    let mut consuming = Consuming {
        shared: Arc::clone(&context.shared),
        consumer,
        committed_at: Instant::now(),
        full_since: None,
        is_paused: false,
    };
    let end = consuming.run(&context.options);
    if end == End::Orderly {
        let finished = take_commits(&mut consuming.shared.lock(), None);
        if finished.count() > 0 {
            let committed = consuming.consumer.commit(&finished, CommitMode::Sync);
            if let Err(error) = committed {
                consuming.shared.lock().failed(fatal(error));
            }
        }
    }
    let shared = Arc::clone(&consuming.shared);
    // Leaves the group.
    drop(consuming);
    shared.lock().is_over = true;
    shared.tell();
}

struct Consuming {
    consumer: Arc<BaseConsumer<Context>>,
    shared: Arc<Shared>,
    committed_at: Instant,
    /// Since when there is no room for more.
    full_since: Option<Instant>,
    /// Whether everything is paused for that.
    is_paused: bool,
}

impl Consuming {
    fn run(&mut self, options: &Options) -> End {
        loop {
            let mut state = self.shared.lock();
            if let Some(end) = state.end {
                return end;
            }
            let (count, bytes) = state.ready();
            let is_full = count >= MOST_READY || bytes >= MOST_READY_BYTES;
            if is_full && !self.is_paused {
                let since = *self.full_since.get_or_insert_with(Instant::now);
                if since.elapsed() < PAUSE_AFTER {
                    // Not polled for so long: what librdkafka has read ahead is kept.
                    drop(self.shared.wait(state, Duration::from_millis(20)));
                    self.commit_if_due(options);
                    continue;
                }
                self.is_paused = true;
                pause(&self.consumer, &mut state, |_| true);
            } else if !is_full {
                self.full_since = None;
                if self.is_paused && count <= MOST_READY / 2 && bytes <= MOST_READY_BYTES / 2 {
                    self.is_paused = false;
                }
            }
            if !self.is_paused {
                let span = u64::from(options.span);
                pause(&self.consumer, &mut state, |it| {
                    it.prefix.span() >= span || it.early.len() >= MOST_EARLY
                });
                resume(&self.consumer, &mut state, |it| {
                    it.prefix.span() <= span / 5 * 4 && it.is_ready
                });
            }
            drop(state);
            self.poll(options);
            self.commit_if_due(options);
        }
    }

    /// Reads what is there, waiting a little for the first.
    fn poll(&mut self, options: &Options) {
        let mut patience = POLL;
        let mut read = Vec::new();
        while read.len() < READ_AT_ONCE {
            match self.consumer.poll(patience) {
                None => break,
                Some(Ok(message)) => read.push(delivery(&message, options)),
                Some(Err(error)) => {
                    self.failed(error, options);
                    break;
                }
            }
            patience = Duration::ZERO;
        }
        if read.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        for (topic, partition, offset, delivery) in read {
            state.take_in(&topic, partition, offset, delivery);
        }
        drop(state);
        self.shared.tell();
    }

    fn failed(&self, error: KafkaError, options: &Options) {
        let mut state = self.shared.lock();
        match error {
            KafkaError::PartitionEOF(_) => return,
            KafkaError::MessageConsumptionFatal(_) => state.failed(fatal(error)),
            error => {
                let code = error.rdkafka_error_code();
                state.away(away(code.unwrap_or(RDKafkaErrorCode::Fail), options));
            }
        }
        drop(state);
        self.shared.tell();
    }

    fn commit_if_due(&mut self, options: &Options) {
        if self.committed_at.elapsed() < options.commit_every {
            return;
        }
        self.committed_at = Instant::now();
        let finished = take_commits(&mut self.shared.lock(), None);
        if finished.count() > 0 {
            // A commit that is refused or lost is made good by the next one, or by a redelivery.
            let _ = self.consumer.commit(&finished, CommitMode::Async);
        }
    }
}

/// Pauses those of which there is so much.
fn pause(
    consumer: &BaseConsumer<Context>,
    state: &mut State,
    is_much: impl Fn(&Assignment) -> bool,
) {
    turn(state, false, is_much, |list| consumer.pause(list).is_ok());
}

/// Lets those go on of which there is so little.
fn resume(
    consumer: &BaseConsumer<Context>,
    state: &mut State,
    is_little: impl Fn(&Assignment) -> bool,
) {
    turn(state, true, is_little, |list| consumer.resume(list).is_ok());
}

fn turn(
    state: &mut State,
    is_paused: bool,
    chosen: impl Fn(&Assignment) -> bool,
    turn: impl Fn(&TopicPartitionList) -> bool,
) {
    for assignment in state.assignments(None) {
        if assignment.is_paused == is_paused && chosen(assignment) {
            let mut list = TopicPartitionList::new();
            list.add_partition(&assignment.topic, assignment.partition);
            if turn(&list) {
                assignment.is_paused = !is_paused;
            }
        }
    }
}

type Record = (Box<str>, i32, i64, Delivery);

fn delivery(message: &BorrowedMessage<'_>, options: &Options) -> Record {
    let (topic, partition, offset) = (message.topic(), message.partition(), message.offset());
    let payload = message.payload().unwrap_or_default();
    let is_long = payload.len() > options.max_message_bytes;
    let kept = if is_long {
        &payload[..payload.len().min(HEAD_BYTES)]
    } else {
        payload
    };
    let mut headers: Vec<(Box<str>, Bytes)> = Vec::new();
    if let Some(key) = message.key() {
        headers.push((KEY.into(), Bytes::copy_from_slice(key)));
    }
    let appended_at = match message.timestamp() {
        RecordTime::LogAppendTime(millis) => Some(Timestamp::from_millis(millis.cast_unsigned())),
        RecordTime::CreateTime(millis) => {
            headers.push((CREATE_TIME.into(), millis.to_string().into()));
            None
        }
        RecordTime::NotAvailable => None,
    };
    if let Some(sent) = message.headers() {
        headers.extend(sent.iter().map(|header| {
            let value = Bytes::copy_from_slice(header.value.unwrap_or_default());
            (header.key.into(), value)
        }));
    }
    let delivery = Delivery {
        // Given when it is fetched.
        id: DeliveryId(0),
        payload: Bytes::copy_from_slice(kept),
        headers,
        coordinates: format!("kafka:{topic}:{partition}:{offset}").into(),
        appended_at,
        oversize_bytes: is_long.then_some(payload.len() as u64),
    };
    (topic.into(), partition, offset, delivery)
}

/// The header that holds a record's key.
pub(crate) const KEY: &str = "kafka-key";
/// The header that holds the producer's time of a record, in milliseconds.
pub(crate) const CREATE_TIME: &str = "kafka-create-time";
/// How long a poll waits for the first record.
const POLL: Duration = Duration::from_millis(50);
/// Records that are read before they are handed on.
const READ_AT_ONCE: usize = 1_000;
/// Records and bytes that wait to be fetched, beyond which no more are read.
const MOST_READY: usize = 4_000;
const MOST_READY_BYTES: usize = 32 << 20;
/// Records of a partition that were read before they may be fetched, beyond which no more of it are read. Not
/// paused from the start: librdkafka loses its way when that meets the search for the first offset.
const MOST_EARLY: usize = 1_000;
/// How long reading may stand still before the partitions are paused, so that polling goes on: to pause them
/// throws away what librdkafka has read ahead, and not to poll throws the member out of its group.
const PAUSE_AFTER: Duration = Duration::from_secs(2);
/// What is kept of a message that is too long.
const HEAD_BYTES: usize = 64 << 10;
