//! The thread that owns the consumer: reads, commits, rebalances.
//!
//! librdkafka calls back within `poll`, on this thread, and nothing that a callback waits for needs it:
//! what is finished is told under a lock.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message, Timestamp as RecordTime};
use semel_core::port::source::{Delivery, DeliveryId};
use semel_core::{ByteString, Timestamp};
use tokio::time::Instant;

use crate::commit::{self, commit};
use crate::error::{away, fatal, no_thread};
use crate::options::Options;
use crate::pack::Pack;
use crate::record::{CREATE_TIME, KEY};
use crate::shared::{Assignment, End, Shared, State};
use crate::streamed::Restoring;
use crate::trouble::Trouble;

/// What librdkafka calls back.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: Options,
    /// Where records are committed in transactions: what is known of a partition is restored before it is
    /// read.
    pub(crate) restoring: Option<Restoring>,
    pub(crate) trouble: Arc<Trouble>,
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        self.trouble.note(&error, reason);
        if let Some(code) = error.rdkafka_error_code() {
            let mut state = self.shared.lock();
            state.away(away(code, &self.options, &self.trouble));
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
        let is_theirs = !is_lost && state.end != Some(End::AtOnce);
        drop(state);
        if is_theirs {
            // Refused, they come again; so does what nobody finished.
            let _ = commit(consumer, &self.shared, Some(&leaving));
        }
        self.shared.lock().left(&leaving);
        if let Some(restoring) = &self.restoring {
            restoring.end(&leaving);
        }
    }
}

/// The thread's work, until an end is asked for.
pub(crate) fn run(consumer: Arc<BaseConsumer<Context>>) {
    let shared = Arc::clone(&consumer.context().shared);
    let end = thread::scope(|scope| {
        let committing = thread::Builder::new().name("semel-kafka-commit".into());
        let begun = committing.spawn_scoped(scope, || commit::run(&consumer, &shared));
        if let Err(error) = begun {
            shared.lock().failed(no_thread(error));
            return End::AtOnce;
        }
        let consuming = Consuming {
            consumer: &consumer,
            shared: &shared,
            full_since: None,
            is_paused: false,
            pack: Pack::default(),
        };
        consuming.run()
    });
    if end == End::Orderly
        && let Err(error) = commit(&consumer, &shared, None)
    {
        shared.lock().failed(fatal(error));
    }
    // Leaves the group.
    drop(consumer);
    shared.lock().is_over = true;
    shared.tell();
}

struct Consuming<'c> {
    consumer: &'c BaseConsumer<Context>,
    shared: &'c Shared,
    /// Since when there is no room for more.
    full_since: Option<Instant>,
    /// Whether everything is paused for that.
    is_paused: bool,
    /// Where the next records are kept.
    pack: Pack,
}

impl Consuming<'_> {
    fn run(mut self) -> End {
        let options = &self.consumer.context().options;
        loop {
            let mut state = self.shared.lock();
            if let Some(end) = state.end {
                return end;
            }
            let (count, bytes) = state.ready();
            let is_full =
                count >= MOST_READY || bytes >= MOST_READY_BYTES || state.all_are_early(MOST_EARLY);
            if is_full && !self.is_paused {
                let since = *self.full_since.get_or_insert_with(Instant::now);
                if since.elapsed() < PAUSE_AFTER {
                    // Not polled for so long: what librdkafka has read ahead is kept.
                    drop(self.shared.wait(state, Duration::from_millis(20)));
                    continue;
                }
                self.is_paused = true;
                pause(self.consumer, &mut state, |_| true);
            } else if !is_full {
                self.full_since = None;
                if self.is_paused && count <= MOST_READY / 2 && bytes <= MOST_READY_BYTES / 2 {
                    self.is_paused = false;
                }
            }
            if !self.is_paused {
                let span = u64::from(options.span);
                pause(self.consumer, &mut state, |it| {
                    it.prefix.span() >= span || it.early.len() >= MOST_EARLY
                });
                resume(self.consumer, &mut state, |it| {
                    it.prefix.span() <= span / 5 * 4 && it.is_ready
                });
            }
            drop(state);
            self.poll(options);
        }
    }

    /// Reads what is there, waiting a little for the first.
    fn poll(&mut self, options: &Options) {
        let mut patience = POLL;
        let mut read = Vec::with_capacity(READ_AT_ONCE);
        let mut names = Names::default();
        while read.len() < READ_AT_ONCE {
            match self.consumer.poll(patience) {
                None => break,
                Some(Ok(message)) => {
                    read.push(record(&message, options, &mut names, &mut self.pack));
                }
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
                let code = code.unwrap_or(RDKafkaErrorCode::Fail);
                state.away(away(code, options, &self.consumer.context().trouble));
            }
        }
        drop(state);
        self.shared.tell();
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
    for (_, assignment) in state.assignments(None) {
        if assignment.is_paused == is_paused && chosen(assignment) {
            let mut list = TopicPartitionList::new();
            list.add_partition(&assignment.topic, assignment.partition);
            if turn(&list) {
                assignment.is_paused = !is_paused;
            }
        }
    }
}

pub(crate) type Record = (Arc<str>, i32, i64, Delivery);

/// Names that records of a batch have in common.
#[derive(Default)]
pub(crate) struct Names {
    topic: Option<Arc<str>>,
    /// Coordinates without the offset, and of which partition they are.
    prefix: String,
    partition: Option<i32>,
}

impl Names {
    fn topic(&mut self, topic: &str) -> Arc<str> {
        match &self.topic {
            Some(known) if **known == *topic => Arc::clone(known),
            Some(_) | None => {
                self.partition = None;
                Arc::clone(self.topic.insert(topic.into()))
            }
        }
    }

    /// Where a record of the topic is that was named last.
    fn coordinates(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        pack: &mut Pack,
    ) -> ByteString {
        if self.partition != Some(partition) {
            self.partition = Some(partition);
            self.prefix = format!("kafka:{topic}:{partition}:");
        }
        let mut digits = [0; 20];
        pack.keep_texts([&self.prefix, decimal(offset.unsigned_abs(), &mut digits)])
    }
}

/// The partition of a record of `topic` that has these coordinates; `None` if it is none of that topic's.
pub fn partition_of(coordinates: &str, topic: &str) -> Option<i32> {
    let rest = coordinates.strip_prefix("kafka:")?.strip_prefix(topic)?;
    let (partition, _offset) = rest.strip_prefix(':')?.split_once(':')?;
    partition.parse().ok()
}

/// The digits of a number.
fn decimal(number: u64, digits: &mut [u8; 20]) -> &str {
    let (mut rest, mut from) = (number, digits.len());
    loop {
        from -= 1;
        digits[from] = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        if rest == 0 || from == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[from..]).unwrap_or_default()
}

pub(crate) fn record(
    message: &BorrowedMessage<'_>,
    options: &Options,
    names: &mut Names,
    pack: &mut Pack,
) -> Record {
    let topic = names.topic(message.topic());
    let (partition, offset) = (message.partition(), message.offset());
    let payload = message.payload().unwrap_or_default();
    let is_long = payload.len() > options.max_message_bytes;
    let kept = if is_long {
        &payload[..payload.len().min(HEAD_BYTES)]
    } else {
        payload
    };
    let sent = message.headers();
    let count = sent.map_or(0, Headers::count);
    let mut headers: Vec<_> = Vec::with_capacity(2 + count);
    if let Some(key) = message.key() {
        headers.push((ByteString::from_static(KEY), pack.keep(key)));
    }
    let appended_at = match message.timestamp() {
        RecordTime::LogAppendTime(millis) => Some(Timestamp::from_millis(millis.cast_unsigned())),
        RecordTime::CreateTime(millis) => {
            let mut digits = [0; 20];
            let time = match u64::try_from(millis) {
                Ok(millis) => pack.keep(decimal(millis, &mut digits).as_bytes()),
                // Before 1970, says a producer without a clock.
                Err(_) => millis.to_string().into(),
            };
            headers.push((ByteString::from_static(CREATE_TIME), time));
            None
        }
        RecordTime::NotAvailable => None,
    };
    if let Some(sent) = sent {
        headers.extend(sent.iter().map(|header| {
            let value = pack.keep(header.value.unwrap_or_default());
            (pack.keep_text(header.key), value)
        }));
    }
    let delivery = Delivery {
        // Given when it is fetched.
        id: DeliveryId(0),
        payload: pack.keep(kept),
        headers,
        coordinates: names.coordinates(&topic, partition, offset, pack),
        appended_at,
        oversize_bytes: is_long.then_some(payload.len() as u64),
    };
    (topic, partition, offset, delivery)
}

/// How long a poll waits for the first record.
const POLL: Duration = Duration::from_millis(50);
/// Records that are read before they are handed on.
const READ_AT_ONCE: usize = 1_000;
/// Records and bytes that wait to be fetched, beyond which no more are read.
const MOST_READY: usize = 4_000;
const MOST_READY_BYTES: usize = 32 << 20;
/// Records of a partition that were read before they may be fetched, beyond which no more of it are read. Not
/// paused from the start: librdkafka loses its way when that meets the search for the first offset. Where no
/// partition may be fetched from yet, nothing is read at all: one that was paused is fetched again up to a second
/// after it was resumed.
const MOST_EARLY: usize = 1_000;
/// How long reading may stand still before the partitions are paused, so that polling goes on: to pause them
/// throws away what librdkafka has read ahead, and not to poll throws the member out of its group.
const PAUSE_AFTER: Duration = Duration::from_secs(2);
/// What is kept of a message that is too long.
const HEAD_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_those_of_each_record() {
        let (mut names, mut pack) = (Names::default(), Pack::default());
        for (topic, partition, offset) in [
            ("a", 0, 0),
            ("a", 0, 17),
            ("a", 12, 1_000),
            ("b", 12, i64::MAX),
            ("a", 12, 9),
        ] {
            let name = names.topic(topic);
            assert_eq!(&*name, topic);
            let expected = format!("kafka:{topic}:{partition}:{offset}");
            let coordinates = names.coordinates(&name, partition, offset, &mut pack);
            assert_eq!(coordinates, expected);
            assert_eq!(partition_of(&expected, topic), Some(partition));
            assert_eq!(partition_of(&expected, "other"), None);
        }
        let mut digits = [0; 20];
        assert_eq!(decimal(u64::MAX, &mut digits), u64::MAX.to_string());
    }
}
