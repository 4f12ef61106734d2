//! `semel run` from one Kafka topic to another, in transactions and without, beside bare loops over librdkafka
//! that copy the same records and know of no key.
//!
//! A backlog is copied by a fresh group into a fresh topic each time, which is deleted then. What is timed is from
//! the start of the process until its group has committed everything, and apart from that from its first commit.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::figures::{Figures, Stopwatch};
use crate::process::processor_seconds;

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

/// How the backlog was copied.
struct Copied {
    /// From the start of the process to its last commit.
    taken: Duration,
    /// When its first commit was seen, and how many records that was.
    first: (Duration, i64),
    /// What a million messages cost of a processor, in seconds, beside the broker's.
    processor: f64,
}

impl Copied {
    /// Messages per second.
    fn rate(&self) -> f64 {
        f64::from(RECORDS) / self.taken.as_secs_f64()
    }

    /// The same of those behind the first commit.
    fn rate_behind_start(&self) -> f64 {
        let (at, records) = self.first;
        let left = i32::try_from(i64::from(RECORDS) - records).unwrap_or_default();
        f64::from(left) / self.taken.saturating_sub(at).as_secs_f64()
    }
}

#[derive(Clone, Copy)]
enum Side {
    /// A loop over librdkafka; in transactions or not.
    Bare { in_transactions: bool },
    /// The binary with these settings of its effect and store.
    Semel {
        effect: &'static str,
        store: &'static str,
    },
}

/// Name, side, and the bare loop that it is compared with.
const SIDES: [(&str, Side, Option<usize>); 4] = [
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
            effect: "on_doubt = \"repeat\"",
            store: "url = \"embedded:./data\"",
        },
        Some(2),
    ),
];

/// A backlog on a broker.
pub(crate) struct Site {
    pub(crate) brokers: String,
    pub(crate) input: String,
    pub(crate) semel: PathBuf,
    pub(crate) folder: TempDir,
    runtime: Runtime,
}

impl Site {
    pub(crate) fn new() -> Result<Self, Failure> {
        let site = Self {
            brokers: std::env::var("SEMEL_TEST_KAFKA_URL")?,
            input: format!("bench-{}", std::process::id()),
            semel: std::env::var_os("SEMEL_BIN").ok_or("SEMEL_BIN")?.into(),
            folder: tempfile::tempdir_in(".")?,
            runtime: Runtime::new()?,
        };
        site.make(&site.input)?;
        let producer = site.producer(None)?;
        let mut ids: Vec<u32> = Vec::with_capacity(RECORDS as usize);
        for (number, chance) in (0..RECORDS).zip(chances()) {
            let id = if number % REPEATED == REPEATED - 1 {
                ids[ids.len() - 1 - chance % ids.len().min(FARTHEST)]
            } else {
                number
            };
            ids.push(id);
            let key = format!("pay-{id}");
            let payload = format!(
                "{{\"id\":\"{key}\",\"amount\":{},\"currency\":\"EUR\",\"customer\":\"customer-{}\",\"note\":\"",
                id % 1_000,
                id % 77
            );
            let payload = format!("{payload:x<0$}\"}}", RECORD_BYTES - 2);
            let record = BaseRecord::to(&site.input).key(key.as_bytes());
            send(&producer, record.payload(payload.as_bytes()))?;
        }
        drain(&producer);
        Ok(site)
    }

    fn run(&self, side: Side, name: &str) -> Result<Copied, Failure> {
        let (output, group) = (
            format!("{}-out-{name}", self.input),
            format!("{}-group-{name}", self.input),
        );
        self.make(&output)?;
        let mut copied = match side {
            Side::Bare { in_transactions } => {
                let (before, watch) = (processor_seconds("self")?, Stopwatch::start());
                let first = self.copy(&output, &group, in_transactions, &watch)?;
                Copied {
                    taken: watch.elapsed(),
                    first,
                    processor: processor_seconds("self")? - before,
                }
            }
            Side::Semel { effect, store } => {
                let folder = self.folder.path().join(name);
                std::fs::create_dir(&folder)?;
                let config = CONFIG
                    .replace("STORE", store)
                    .replace("EFFECT", effect)
                    .replace("BROKERS", &self.brokers)
                    .replace("INPUT", &self.input)
                    .replace("OUTPUT", &output)
                    .replace("GROUP", &group);
                std::fs::write(folder.join("semel.toml"), config)?;
                self.semel(&folder, &group)?
            }
        };
        self.delete(&[&output])?;
        copied.processor /= f64::from(RECORDS) / 1e6;
        Ok(copied)
    }

    /// How a worker copies it; the processor's seconds are all of them.
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

    /// Waits until everything is committed. When something was seen to be at first, and how much.
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
                if committed == i64::from(RECORDS) {
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

    /// How far the group is.
    pub(crate) fn committed(&self, reader: &BaseConsumer) -> Result<i64, Failure> {
        let mut places = TopicPartitionList::new();
        places.add_partition_range(&self.input, 0, PARTITIONS - 1);
        let committed = reader.committed_offsets(places, PATIENCE)?;
        let offsets = committed
            .elements()
            .into_iter()
            .map(|it| match it.offset() {
                Offset::Offset(offset) => offset,
                _ => 0,
            });
        Ok(offsets.sum())
    }

    /// The bare loop. When it first committed something, and how much.
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
            let mut places = std::collections::BTreeMap::new();
            let mut batch = 0;
            while batch < BATCH && copied + batch < RECORDS {
                // Nothing also stands for an event, such as an assignment.
                let mut tries = (0..100).map(|_| consumer.poll(PATIENCE / 100));
                let record = tries.find_map(|polled| polled);
                let record = record.ok_or("no more records came")?;
                let record = record?;
                let mut copy = BaseRecord::to(output).payload(record.payload().unwrap_or_default());
                copy.key = record.key();
                send(&producer, copy)?;
                places.insert(record.partition(), record.offset() + 1);
                batch += 1;
            }
            drain(&producer);
            let mut offsets = TopicPartitionList::new();
            for (partition, offset) in places {
                offsets.add_partition_offset(&self.input, partition, Offset::Offset(offset))?;
            }
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
            // Behind all that are under way.
            consumer.commit_consumer_state(CommitMode::Sync)?;
        }
        Ok(first.unwrap_or_default())
    }

    pub(crate) fn make(&self, topic: &str) -> crate::Outcome {
        let admin: AdminClient<DefaultClientContext> = self.config().create()?;
        let topic = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
        let made = admin.create_topics([&topic], &AdminOptions::new());
        for made in self.runtime.block_on(made)? {
            made.map_err(|(name, code)| format!("{name}: {code}"))?;
        }
        Ok(())
    }

    /// Deletes topics, so that benchmarks do not fill the disk.
    pub(crate) fn delete(&self, topics: &[&str]) -> crate::Outcome {
        let admin: AdminClient<DefaultClientContext> = self.config().create()?;
        let deleted = admin.delete_topics(topics, &AdminOptions::new());
        for deleted in self.runtime.block_on(deleted)? {
            deleted.map_err(|(name, code)| format!("{name}: {code}"))?;
        }
        Ok(())
    }

    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config
    }

    pub(crate) fn consumer(&self, group: &str) -> Result<BaseConsumer, KafkaError> {
        let mut config = self.config();
        config.set("group.id", group);
        config.set("enable.auto.commit", "false");
        config.set("auto.offset.reset", "earliest");
        // A second as it comes, which starves a backlog.
        config.set("fetch.queue.backoff.ms", "5");
        config.create()
    }

    fn producer(&self, transactions: Option<&str>) -> Result<BaseProducer, KafkaError> {
        let mut config = self.config();
        config.set("linger.ms", "5");
        config.set("enable.idempotence", "true");
        config.set("queue.buffering.max.messages", "200000");
        if let Some(name) = transactions {
            config.set("transactional.id", name);
        }
        let producer: BaseProducer = config.create()?;
        if transactions.is_some() {
            producer.init_transactions(PATIENCE)?;
        }
        Ok(producer)
    }
}

/// Waits where there is no room for it.
pub(crate) fn send(
    producer: &BaseProducer,
    mut record: BaseRecord<'_, [u8], [u8]>,
) -> Result<(), KafkaError> {
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                record = again;
                producer.poll(Duration::from_millis(1));
            }
            Err((error, _)) => return Err(error),
        }
    }
}

/// Not by the crate's own flush, which sleeps for a tenth of a second.
fn drain(producer: &BaseProducer) {
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(1));
    }
}

/// Numbers as if by chance, the same each time.
fn chances() -> impl Iterator<Item = usize> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    std::iter::repeat_with(move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        usize::try_from(state >> 11).unwrap_or_default()
    })
}

impl Drop for Site {
    /// Deletes what is left of the benchmark: the input, and changelogs, whose names have that of a group.
    fn drop(&mut self) {
        let names = self.consumer(&self.input).and_then(|reader| {
            let metadata = reader.fetch_metadata(None, PATIENCE)?;
            let names = metadata.topics().iter().map(|it| it.name().to_owned());
            let ours = names.filter(|name| name.contains(&self.input));
            Ok(ours.collect::<Vec<_>>())
        });
        // A topic that stays is only in the way.
        let names = names.unwrap_or_default();
        let _ = self.delete(&names.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

pub(crate) const RECORDS: u32 = 2_000_000;
/// One in so many repeats another, at most so many before it.
const REPEATED: u32 = 5;
const FARTHEST: usize = 100_000;
pub(crate) const DISTINCT: u32 = RECORDS - RECORDS / REPEATED;
pub(crate) const BACKLOG: &str = "2,000,000 records of 200 bytes, one in five a repeat of one up to 100,000 before it, 3 partitions";
const RECORD_BYTES: usize = 200;
pub(crate) const PARTITIONS: i32 = 3;
const BATCH: u32 = 10_000;
const ROUNDS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const CONFIG: &str = r#"
[store]
STORE

[pipelines.copy]
key = "json:/id"
fingerprint = "none"
batch = 10000
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
