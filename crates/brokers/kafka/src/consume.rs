//! The thread that owns the consumer: reads, commits, rebalances.
//!
//! librdkafka calls back within `poll`, on this thread, and nothing that a callback waits for needs it:
//! what is finished is told under a lock.

use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use semel_rdkafka_batch::RecordQueue;
use tokio::time::Instant;

use crate::commit::{self, commit};
use crate::delivery::{Names, Record, record};
use crate::error::{away, fatal, no_thread};
use crate::options::Options;
use crate::pack::Pack;
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
    /// Where the records of the partitions go, for as long as somebody reads them.
    pub(crate) records: OnceLock<Weak<RecordQueue<Context>>>,
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        self.trouble.note(&error, reason);
        if let Some(code) = error.rdkafka_error_code() {
            let error = away(code, &self.options, &self.trouble);
            let mut state = self.shared.lock();
            state.goes_wrong(code, error);
            drop(state);
            self.shared.tell();
        }
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(partitions) => self.take(partitions),
            Rebalance::Revoke(partitions) => self.let_go(consumer, partitions),
            Rebalance::Error(_) => {}
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
    /// Has the records of these partitions come to where they are read many at a time, before any is there.
    fn take(&self, partitions: &TopicPartitionList) {
        let Some(records) = self.records.get().and_then(Weak::upgrade) else {
            // Nobody reads any more.
            return;
        };
        for partition in partitions.elements() {
            if let Err(error) = records.take(partition.topic(), partition.partition()) {
                self.shared.lock().failed(fatal(error));
            }
        }
    }

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
        let records = match RecordQueue::new(Arc::clone(&consumer)) {
            Ok(records) => Arc::new(records),
            Err(error) => {
                shared.lock().failed(fatal(error));
                return End::AtOnce;
            }
        };
        let _ = consumer.context().records.set(Arc::downgrade(&records));
        let consuming = Consuming {
            consumer: &consumer,
            records: &records,
            shared: &shared,
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
    records: &'c RecordQueue<Context>,
    shared: &'c Shared,
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
            if state.is_to_look() {
                drop(state);
                self.look();
                continue;
            }
            let (count, bytes) = state.ready();
            let is_full =
                count >= MOST_READY || bytes >= MOST_READY_BYTES || state.all_are_early(MOST_EARLY);
            if is_full {
                // What librdkafka has read ahead stays where it is, and the member in its group.
                drop(self.shared.wait(state, FULL));
                self.poll(true);
                continue;
            }
            let span = u64::from(options.span);
            pause(self.consumer, &mut state, |it| {
                it.prefix.span() >= span || it.early.len() >= MOST_EARLY
            });
            resume(self.consumer, &mut state, |it| {
                it.prefix.span() <= span / 5 * 4 && it.is_ready
            });
            let is_assigned = state.is_assigned();
            drop(state);
            self.poll(is_assigned);
            if is_assigned {
                self.read();
            }
        }
    }

    /// Looks whether a broker is reached again. What is read by then waits so long.
    fn look(&self) {
        let topic = self.consumer.context().options.topics.first();
        let found = self.consumer.fetch_metadata(topic.map(|it| &**it), LOOK);
        self.shared.lock().looked(found.is_ok());
        self.shared.tell();
    }

    /// Deals with what the consumer has been told. Records come elsewhere, so it waits here only while there is no
    /// partition to read.
    fn poll(&mut self, is_assigned: bool) {
        let patience = if is_assigned { Duration::ZERO } else { POLL };
        match self.consumer.poll(patience) {
            None => {}
            // Of a partition that nobody has taken, if there were one: lost otherwise.
            Some(Ok(message)) => {
                let options = &self.consumer.context().options;
                let (mut names, pack) = (Names::default(), &mut self.pack);
                let record = record(&message, options, &mut names, pack);
                self.take_in(vec![record]);
            }
            Some(Err(error)) => self.failed(error),
        }
    }

    /// Reads what is there, waiting a little for the first.
    fn read(&mut self) {
        let options = &self.consumer.context().options;
        let records = self.records.read(READ_AT_ONCE, POLL);
        let mut read = Vec::with_capacity(records.len());
        let mut names = Names::default();
        for message in records {
            match message {
                Ok(message) => read.push(record(&message, options, &mut names, &mut self.pack)),
                Err(error) => self.failed(error),
            }
        }
        if !read.is_empty() {
            self.take_in(read);
        }
    }

    fn take_in(&self, read: Vec<Record>) {
        let mut state = self.shared.lock();
        for (topic, partition, offset, delivery) in read {
            state.take_in(&topic, partition, offset, delivery);
        }
        drop(state);
        self.shared.tell();
    }

    fn failed(&self, error: KafkaError) {
        let Context {
            options, trouble, ..
        } = &**self.consumer.context();
        let mut state = self.shared.lock();
        match error {
            KafkaError::PartitionEOF(_) => return,
            KafkaError::MessageConsumptionFatal(_) => state.failed(fatal(error)),
            error => {
                let code = error.rdkafka_error_code();
                let code = code.unwrap_or(RDKafkaErrorCode::Fail);
                state.goes_wrong(code, away(code, options, trouble));
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

/// How long a broker has for the answer to a look.
const LOOK: Duration = Duration::from_millis(500);
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
/// How long to wait for room before the next look at what else there is to hear.
const FULL: Duration = Duration::from_millis(20);
