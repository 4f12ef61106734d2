//! The thread that owns the consumer: reads, commits, rebalances.
//!
//! librdkafka calls back within `poll`, on this thread, and no callback waits for something that needs the thread:
//! finished records are reported under a lock.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use semel_rdkafka_batch::RecordQueue;

use crate::arena::Arena;
use crate::commit::{self, commit};
use crate::context::Context;
use crate::delivery::{Names, Record, record};
use crate::error::{away, fatal, no_thread};
use crate::shared::{Assignment, End, Shared, State};

/// Does the thread's work, until an end is asked for.
pub(crate) fn run(consumer: Arc<BaseConsumer<Context>>) {
    let shared = Arc::clone(&consumer.context().shared);
    let every = consumer.context().options.commit_every;
    let end = thread::scope(|scope| {
        let committing = thread::Builder::new().name("semel-kafka-commit".into());
        let begun = committing.spawn_scoped(scope, || commit::run(&consumer, &shared, every));
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
            arena: Arena::default(),
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
    /// Memory for the next records.
    arena: Arena,
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
                // Records that librdkafka has read ahead stay where they are, and the member stays in its group.
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

    /// Checks whether a broker is reached again. Records that were read meanwhile wait that long.
    fn look(&self) {
        let topic = self.consumer.context().options.topics.first();
        let found = self.consumer.fetch_metadata(topic.map(|it| &**it), LOOK);
        self.shared.lock().looked(found.is_ok());
        self.shared.tell();
    }

    /// Handles the consumer's events. Records come elsewhere, so it waits here only while there is no partition to
    /// read.
    fn poll(&mut self, is_assigned: bool) {
        let patience = if is_assigned { Duration::ZERO } else { POLL };
        match self.consumer.poll(patience) {
            None => {}
            // A record of a partition that nobody has taken, if there were one: lost otherwise.
            Some(Ok(message)) => {
                let options = &self.consumer.context().options;
                let (mut names, arena) = (Names::default(), &mut self.arena);
                let record = record(&message, options, &mut names, arena);
                self.take_in(vec![record]);
            }
            Some(Err(error)) => self.failed(error),
        }
    }

    /// Reads the records that are there, waiting a little for the first.
    fn read(&mut self) {
        let options = &self.consumer.context().options;
        let records = self.records.read(READ_AT_ONCE, POLL);
        let mut read = Vec::with_capacity(records.len());
        let mut names = Names::default();
        for message in records {
            match message {
                Ok(message) => read.push(record(&message, options, &mut names, &mut self.arena)),
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
            options,
            connection_error,
            ..
        } = &**self.consumer.context();
        let mut state = self.shared.lock();
        match error {
            KafkaError::PartitionEOF(_) => return,
            KafkaError::MessageConsumptionFatal(_) => state.failed(fatal(error)),
            error => {
                let code = error.rdkafka_error_code();
                let code = code.unwrap_or(RDKafkaErrorCode::Fail);
                state.goes_wrong(code, away(code, options, connection_error));
            }
        }
        drop(state);
        self.shared.tell();
    }
}

/// Pauses assignments for which `is_much` holds.
fn pause(
    consumer: &BaseConsumer<Context>,
    state: &mut State,
    is_much: impl Fn(&Assignment) -> bool,
) {
    turn(state, false, is_much, |list| consumer.pause(list).is_ok());
}

/// Resumes assignments for which `is_little` holds.
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

/// The longest wait for a broker's answer to a look.
const LOOK: Duration = Duration::from_millis(500);
/// The longest wait of a poll for the first record.
const POLL: Duration = Duration::from_millis(50);
/// Records that are read before they are handed over.
const READ_AT_ONCE: usize = 1_000;
/// Records and bytes that wait to be fetched, beyond which no more are read.
const MOST_READY: usize = 4_000;
const MOST_READY_BYTES: usize = 32 << 20;
/// Records of a partition that were read before they may be fetched, beyond which no more of it are read. The partition
/// is not paused from the start: librdkafka loses its way when that meets the search for the first offset. Where no
/// partition may be fetched from yet, nothing is read at all: one that was paused is fetched again up to a second after
/// it was resumed.
const MOST_EARLY: usize = 1_000;
/// The longest wait for room before the next poll for events.
const FULL: Duration = Duration::from_millis(20);
