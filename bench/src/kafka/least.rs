//! The least that a worker without transactions has to do: a loop that is written for this alone.
//!
//! It copies every record whose id it has not met, and logs that in two steps, synced before it is sent and once it is
//! confirmed. No tool could list, resolve or expire the entries of that log, and it is never read; there are no leases,
//! attempts or order. One thread reads and decides, the other sends and commits.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::backlog::{PATIENCE, RECORDS, Site, next, send};
use super::{BATCH, await_commits, offsets};
use crate::figures::Stopwatch;

/// An error that a thread can hand over.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The records that were read and are to be sent.
struct Batch<'c> {
    records: Vec<BorrowedMessage<'c>>,
    /// The hashes of their ids.
    hashes: Vec<u128>,
    /// The offset of the next record, by partition.
    places: BTreeMap<i32, i64>,
    /// The number of records that were read, with the batches before.
    copied: u32,
}

/// The records that were sent: the number of all of them, and the log entries to write once they are confirmed.
struct Sent {
    count: usize,
    log: Vec<u8>,
    places: BTreeMap<i32, i64>,
    copied: u32,
}

/// Copies the backlog. Returns the time of its first commit, and its size.
pub(super) fn copy(
    site: &Site,
    output: &str,
    group: &str,
    watch: &Stopwatch,
) -> Result<(Duration, i64), Failure> {
    let consumer = site.consumer(group)?;
    consumer.subscribe(&[&site.input])?;
    let producer = site.producer(None)?;
    let folder = tempfile::tempdir_in(".")?;
    let path = folder.path().join("log");
    let log = OpenOptions::new().create(true).append(true).open(path)?;
    let (batches, from) = sync_channel(2);
    let sender = Sender {
        input: &site.input,
        output,
        watch,
        consumer: &consumer,
        producer: &producer,
        log: &log,
        sent: 0,
        waiting: VecDeque::new(),
        first: None,
    };
    let first = std::thread::scope(|scope| {
        let sending = scope.spawn(move || sender.run(from));
        let read = read(&consumer, &log, &batches);
        drop(batches);
        // If sending failed, reading has no purpose.
        let first = sending.join().map_err(|_| "the sender panicked")??;
        read.map(|()| first)
    })?;
    await_commits(&consumer)?;
    Ok(first)
}

/// Reads, and logs new records before they are sent.
fn read<'c>(
    consumer: &'c BaseConsumer,
    mut log: &File,
    batches: &SyncSender<Batch<'c>>,
) -> Result<(), Failure> {
    let mut known = HashSet::new();
    let halves = [RandomState::new(), RandomState::new()];
    let mut copied = 0;
    let mut begun = Vec::new();
    while copied < RECORDS {
        let mut batch = Batch {
            records: Vec::with_capacity(BATCH as usize),
            hashes: Vec::with_capacity(BATCH as usize),
            places: BTreeMap::new(),
            copied: copied + BATCH.min(RECORDS - copied),
        };
        while copied < batch.copied {
            let record = next(consumer)?;
            copied += 1;
            batch.places.insert(record.partition(), record.offset() + 1);
            let id = id(record.payload().unwrap_or_default()).ok_or("a record has no id")?;
            let [high, low] = halves.each_ref().map(|half| u128::from(half.hash_one(id)));
            let hash = high << 64 | low;
            if known.insert(hash) {
                begun.extend_from_slice(&hash.to_le_bytes());
                begun.extend_from_slice(&record.partition().to_le_bytes());
                begun.extend_from_slice(&record.offset().to_le_bytes());
                begun.extend_from_slice(id);
                batch.hashes.push(hash);
                batch.records.push(record);
            }
        }
        log.write_all(&begun)?;
        log.sync_data()?;
        begun.clear();
        batches.send(batch).map_err(|_| "the sender has ended")?;
    }
    Ok(())
}

/// The id that a payload begins with.
fn id(payload: &[u8]) -> Option<&[u8]> {
    payload
        .strip_prefix(b"{\"id\":\"")?
        .split(|byte| *byte == b'"')
        .next()
}

struct Sender<'c> {
    input: &'c str,
    output: &'c str,
    watch: &'c Stopwatch,
    consumer: &'c BaseConsumer,
    producer: &'c BaseProducer,
    log: &'c File,
    sent: usize,
    waiting: VecDeque<Sent>,
    first: Option<(Duration, i64)>,
}

impl Sender<'_> {
    fn run(mut self, batches: Receiver<Batch<'_>>) -> Result<(Duration, i64), Failure> {
        for batch in batches {
            for record in &batch.records {
                let copy =
                    BaseRecord::to(self.output).payload(record.payload().unwrap_or_default());
                send(
                    self.producer,
                    BaseRecord {
                        key: record.key(),
                        ..copy
                    },
                )?;
            }
            self.sent += batch.records.len();
            self.waiting.push_back(Sent {
                count: self.sent,
                log: batch
                    .hashes
                    .iter()
                    .flat_map(|hash| hash.to_le_bytes())
                    .collect(),
                places: batch.places,
                copied: batch.copied,
            });
            self.settle(MOST_WAITING)?;
        }
        self.settle(0)?;
        self.first.ok_or_else(|| "nothing was committed".into())
    }

    /// Logs confirmed records and commits them, until no more than this many batches wait.
    fn settle(&mut self, most: usize) -> Result<(), Failure> {
        loop {
            self.producer.poll(Duration::ZERO);
            // Records are confirmed in the order in which they were sent, or nearly.
            let under_way = usize::try_from(self.producer.in_flight_count())?;
            let confirmed = self.sent - under_way;
            let count = self
                .waiting
                .iter()
                .take_while(|it| it.count <= confirmed)
                .count();
            let settled: Vec<_> = self.waiting.drain(..count).collect();
            if let Some(last) = settled.last() {
                let mut log = self.log;
                log.write_all(
                    &settled
                        .iter()
                        .flat_map(|it| it.log.iter().copied())
                        .collect::<Vec<_>>(),
                )?;
                log.sync_data()?;
                let places = settled.iter().flat_map(|it| &it.places);
                let places = places
                    .map(|(partition, next)| (*partition, *next))
                    .collect();
                self.consumer
                    .commit(&offsets(self.input, places)?, CommitMode::Async)?;
                let copied = i64::from(last.copied);
                self.first
                    .get_or_insert_with(|| (self.watch.elapsed(), copied));
            }
            if self.waiting.len() <= most {
                return Ok(());
            }
            self.producer.poll(PATIENCE / 30_000);
        }
    }
}

/// The number of batches that may wait for their confirmation before the next one is sent.
const MOST_WAITING: usize = 3;
