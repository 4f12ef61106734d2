//! `semel run` from one Kafka topic to another, in transactions and without, beside bare loops over librdkafka
//! that copy the same records and know of no key, and beside one that does no more than it has to.
//!
//! A backlog is copied by a fresh group into a fresh topic each time, which is deleted afterwards. The time is
//! measured from the start of the process until its group has committed everything, and separately from its first
//! commit.

mod backlog;
mod least;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use crate::figures::{Figures, Stopwatch};
use crate::process::processor_seconds;
pub(crate) use backlog::{BACKLOG, DISTINCT, PARTITIONS, RECORDS, Site, drain, send};
use backlog::{PATIENCE, next};

type Failure = Box<dyn std::error::Error>;

pub(crate) fn rate() -> crate::Outcome {
    let site = Site::new()?;
    let mut copied = [const { Vec::new() }; SIDES.len()];
    for round in 0..=ROUNDS {
        for (place, (_, side, _)) in SIDES.into_iter().enumerate() {
            let one = site.run(side, &format!("{round}-{place}"))?;
            // In the first, the broker's own machine warms up.
            if round > 0 {
                copied[place].push(one);
            }
        }
    }
    println!(
        "Kafka to Kafka, {BACKLOG}, one broker on the same machine, {ROUNDS} rounds, of which the first is not \
         counted"
    );
    println!(
        "| side | messages/s | over its bare loop, round by round | behind its first commit | over its bare loop | \
         its processor seconds, a million |"
    );
    println!("|---|---|---|---|---|---|");
    for (place, (name, _, bare)) in SIDES.into_iter().enumerate() {
        let of = |place: usize, what: fn(&Copied) -> f64| -> Vec<f64> {
            copied[place].iter().map(what).collect()
        };
        let columns = [Copied::rate, Copied::rate_behind_start].map(|rate| {
            let (ours, ratio) = (of(place, rate), bare.map(|bare| of(bare, rate)));
            let ratio = ratio.map(|theirs| Figures::ratios(&ours, &theirs).to_string());
            format!("{} | {}", Figures::of(ours), ratio.unwrap_or_default())
        });
        let processor = Figures::of(of(place, |it| it.processor));
        println!("| {name} | {} | {processor} |", columns.join(" | "));
    }
    Ok(())
}

/// The measurements of one copy of the backlog.
struct Copied {
    /// The time from the start of the process to its last commit.
    taken: Duration,
    /// The time at which its first commit was seen, and its number of records.
    first: (Duration, i64),
    /// The processor seconds of a million messages, without the broker's.
    processor: f64,
}

impl Copied {
    /// Messages per second.
    fn rate(&self) -> f64 {
        f64::from(RECORDS) / self.taken.as_secs_f64()
    }

    /// The rate behind the first commit.
    fn rate_behind_start(&self) -> f64 {
        let (at, records) = self.first;
        let left = i32::try_from(i64::from(RECORDS) - records).unwrap_or_default();
        f64::from(left) / self.taken.saturating_sub(at).as_secs_f64()
    }
}

#[derive(Clone, Copy)]
enum Side<'a> {
    /// A loop over librdkafka; in transactions or not.
    Bare { in_transactions: bool },
    /// The loop of [`least`].
    Least,
    /// The binary with this many messages a batch and these settings of its effect and store.
    Semel {
        batch: u32,
        effect: &'a str,
        store: &'a str,
    },
}

/// Name, side, and the bare loop that it is compared with.
const SIDES: [(&str, Side<'_>, Option<usize>); 6] = [
    (
        "bare loop, 10,000 a transaction, no deduplication",
        Side::Bare {
            in_transactions: true,
        },
        None,
    ),
    (
        "`semel run`, class streamed",
        Side::Semel {
            batch: BATCH,
            effect: "class = \"streamed\"",
            store: "url = \"memory:\"\nallow_volatile = true",
        },
        Some(0),
    ),
    (
        "bare loop, no transactions, no deduplication",
        Side::Bare {
            in_transactions: false,
        },
        None,
    ),
    (
        "`semel run`, class unkeyed, embedded store",
        Side::Semel {
            batch: SMALL_BATCH,
            effect: "on_doubt = \"repeat\"",
            store: "url = \"embedded:./data\"",
        },
        Some(2),
    ),
    (
        "the same, `id_header = false`",
        Side::Semel {
            batch: SMALL_BATCH,
            effect: "on_doubt = \"repeat\"\nid_header = false",
            store: "url = \"embedded:./data\"",
        },
        Some(2),
    ),
    (
        "a loop that is written for this alone, with a log of its own",
        Side::Least,
        Some(2),
    ),
];

impl Site {
    fn run(&self, side: Side<'_>, name: &str) -> Result<Copied, Failure> {
        let (output, group) = (
            format!("{}-out-{name}", self.input),
            format!("{}-group-{name}", self.input),
        );
        self.make(&output)?;
        let mut copied = match side {
            Side::Bare { in_transactions } => {
                here(|watch| self.copy(&output, &group, in_transactions, watch))?
            }
            Side::Least => here(|watch| {
                least::copy(self, &output, &group, watch).map_err(|error| -> Failure { error })
            })?,
            Side::Semel {
                batch,
                effect,
                store,
            } => {
                let folder = self.folder.path().join(name);
                std::fs::create_dir(&folder)?;
                let config = CONFIG
                    .replace("BATCH", &batch.to_string())
                    .replace("STORE", store)
                    .replace("EFFECT", effect)
                    .replace("BROKERS", &self.brokers)
                    .replace("INPUT", &self.input)
                    .replace("OUTPUT", &output)
                    .replace("GROUP", &group);
                std::fs::write(folder.join("semel.toml"), config)?;
                let copied = self.semel(&folder, &group)?;
                std::fs::remove_dir_all(&folder)?;
                copied
            }
        };
        self.delete(&[&output])?;
        copied.processor /= f64::from(RECORDS) / 1e6;
        Ok(copied)
    }

    /// The time of a copy by a worker with an embedded store and these tables more in its configuration.
    pub(crate) fn embedded(&self, name: &str, more: &str) -> Result<Duration, Failure> {
        let store = format!("url = \"embedded:./data\"\n{more}");
        let side = Side::Semel {
            batch: SMALL_BATCH,
            effect: "on_doubt = \"repeat\"",
            store: &store,
        };
        Ok(self.run(side, name)?.taken)
    }

    /// Copies it with a worker; the processor's seconds are all of them.
    fn semel(&self, folder: &Path, group: &str) -> Result<Copied, Failure> {
        let reader = self.consumer(group)?;
        let watch = Stopwatch::start();
        let mut child = Command::new(&self.semel)
            .arg("run")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("stderr"))?)
            .spawn()?;
        let first = self.until_copied(folder, &reader, &mut child, &watch);
        let taken = watch.elapsed();
        let processor = processor_seconds(&child.id().to_string());
        child.kill()?;
        child.wait()?;
        Ok(Copied {
            taken,
            first: first?,
            processor: processor?,
        })
    }

    /// Waits until everything is committed. Returns the time at which the first commit was seen, and its size.
    fn until_copied(
        &self,
        folder: &Path,
        reader: &BaseConsumer,
        child: &mut Child,
        watch: &Stopwatch,
    ) -> Result<(Duration, i64), Failure> {
        let mut first = None;
        loop {
            let committed = self.committed(reader)?;
            if committed > 0 {
                let first = *first.get_or_insert_with(|| (watch.elapsed(), committed));
                if committed >= i64::from(RECORDS) {
                    return Ok(first);
                }
            }
            if let Some(status) = child.try_wait()? {
                let said = std::fs::read_to_string(folder.join("stderr"))?;
                return Err(format!("semel ended with {status}: {said}").into());
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Copies with the bare loop. Returns the time of its first commit, and its size.
    fn copy(
        &self,
        output: &str,
        group: &str,
        in_transactions: bool,
        watch: &Stopwatch,
    ) -> Result<(Duration, i64), Failure> {
        let consumer = self.consumer(group)?;
        consumer.subscribe(&[&self.input])?;
        let producer = self.producer(in_transactions.then_some(group))?;
        let (mut copied, mut first) = (0, None);
        while copied < RECORDS {
            if in_transactions {
                producer.begin_transaction()?;
            }
            let mut places = BTreeMap::new();
            let mut batch = 0;
            while batch < BATCH && copied + batch < RECORDS {
                let record = next(&consumer)?;
                let mut copy = BaseRecord::to(output).payload(record.payload().unwrap_or_default());
                copy.key = record.key();
                send(&producer, copy)?;
                places.insert(record.partition(), record.offset() + 1);
                batch += 1;
            }
            drain(&producer);
            let offsets = offsets(&self.input, places)?;
            if in_transactions {
                let group = consumer.group_metadata().ok_or("no group")?;
                producer.send_offsets_to_transaction(&offsets, &group, PATIENCE)?;
                producer.commit_transaction(PATIENCE)?;
            } else {
                consumer.commit(&offsets, CommitMode::Async)?;
            }
            copied += batch;
            first.get_or_insert_with(|| (watch.elapsed(), i64::from(copied)));
        }
        if !in_transactions {
            await_commits(&consumer)?;
        }
        Ok(first.unwrap_or_default())
    }
}

/// Copies in this process.
fn here(
    copy: impl FnOnce(&Stopwatch) -> Result<(Duration, i64), Failure>,
) -> Result<Copied, Failure> {
    let (before, watch) = (processor_seconds("self")?, Stopwatch::start());
    let first = copy(&watch)?;
    Ok(Copied {
        taken: watch.elapsed(),
        first,
        processor: processor_seconds("self")? - before,
    })
}

/// Waits for the commits that are under way, by sending one more behind them.
fn await_commits(consumer: &BaseConsumer) -> Result<(), KafkaError> {
    match consumer.commit_consumer_state(CommitMode::Sync) {
        // All of them have ended, and nothing is left.
        Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => Ok(()),
        ended => ended,
    }
}

/// The list of these places, for a commit.
fn offsets(topic: &str, places: BTreeMap<i32, i64>) -> Result<TopicPartitionList, KafkaError> {
    let mut offsets = TopicPartitionList::new();
    for (partition, offset) in places {
        offsets.add_partition_offset(topic, partition, Offset::Offset(offset))?;
    }
    Ok(offsets)
}

pub(crate) const BATCH: u32 = 10_000;
/// The batch for runs without transactions, which need not be worth the end of one: four of them are in hand, and
/// fit the processor's cache better.
const SMALL_BATCH: u32 = 2_000;
const ROUNDS: usize = 3;

pub(crate) const CONFIG: &str = r#"
[store]
STORE

[pipelines.copy]
key = "json:/id"
fingerprint = "none"
batch = BATCH
window = "30d"

[pipelines.copy.source]
kind = "kafka"
brokers = "BROKERS"
topic = "INPUT"
group = "GROUP"

[pipelines.copy.effect]
kind = "kafka"
brokers = "BROKERS"
topic = "OUTPUT"
EFFECT
"#;
