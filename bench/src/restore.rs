//! The time until a worker of class `streamed` knows which operations are completed: a changelog is restored,
//! beside a loop that only reads it.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use semel_broker_kafka::{KafkaSource, Options, StreamOptions};
use semel_core::{Clock, Key, Operation, Scope, Window};
use semel_engine::system::SystemClock;
use tokio::runtime::Runtime;

use crate::figures::{Figures, timed};
use crate::kafka::send;

type Failure = Box<dyn std::error::Error>;

/// A changelog: its name here, the number of records, and of operations in each.
const SHAPES: [(&str, u32, u32); 2] = [
    ("200,000 records of 16 operations", 200_000, 16),
    ("480 records of 10,000 operations", 480, 10_000),
];

pub(crate) fn rate() -> crate::Outcome {
    println!(
        "Restoring a changelog of {PARTITIONS} partitions, one broker on the same machine, {ROUNDS} rounds"
    );
    println!(
        "| changelog | read in a bare loop, operations/s | restored, operations/s | over the bare loop, round \
         by round |"
    );
    println!("|---|---|---|---|");
    for (place, (name, records, operations)) in SHAPES.into_iter().enumerate() {
        let site = Site::new(place, records, operations)?;
        let all = f64::from(records) * f64::from(operations);
        let (mut bare, mut restored) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            bare.push(all / site.read()?.as_secs_f64());
            restored.push(all / site.restore(round)?.as_secs_f64());
        }
        let ratio = Figures::ratios(&restored, &bare);
        let (bare, restored) = (Figures::of(bare), Figures::of(restored));
        println!("| {name} | {bare} | {restored} | {ratio} |");
    }
    Ok(())
}

/// A changelog on a broker, and the input that it belongs to.
struct Site {
    brokers: String,
    input: String,
    changelog: String,
    operations: u64,
    runtime: Runtime,
}

impl Site {
    fn new(place: usize, records: u32, operations: u32) -> Result<Self, Failure> {
        let input = format!("restore-{}-{place}", std::process::id());
        let site = Self {
            brokers: std::env::var("SEMEL_TEST_KAFKA_URL")?,
            changelog: format!("{input}-changelog"),
            input,
            operations: u64::from(records) * u64::from(operations),
            runtime: Runtime::new()?,
        };
        site.make(&site.input)?;
        site.make(&site.changelog)?;
        site.fill(records, operations)?;
        Ok(site)
    }

    /// Writes it as workers would have: in the format of the specification.
    fn fill(&self, records: u32, operations: u32) -> crate::Outcome {
        let mut config = self.config();
        config.set("transactional.id", &self.changelog);
        config.set("queue.buffering.max.kbytes", "131072");
        let producer: BaseProducer = config.create()?;
        producer.init_transactions(PATIENCE)?;
        let at = SystemClock::new().now().as_millis();
        let scope = Scope::new("", "bench")?;
        let mut bytes = 0;
        producer.begin_transaction()?;
        for record in 0..records {
            let mut block = b"SEM1".to_vec();
            block.extend(at.to_be_bytes());
            block.extend(operations.to_be_bytes());
            for number in 0..operations {
                let key = Key::new(&format!("pay-{record}-{number}"))?;
                let id = Operation::new(scope.clone(), key).id();
                block.extend(&id.as_bytes()[..16]);
                block.extend([0; 20]);
            }
            let partition = i32::try_from(record)? % PARTITIONS;
            let record = BaseRecord::to(&self.changelog).partition(partition);
            send(&producer, record.payload(&block))?;
            bytes += block.len();
            if bytes > BYTES {
                producer.commit_transaction(PATIENCE)?;
                producer.begin_transaction()?;
                bytes = 0;
            }
        }
        producer.commit_transaction(PATIENCE)?;
        Ok(())
    }

    /// The time it takes to read all of it.
    fn read(&self) -> Result<Duration, Failure> {
        let mut config = self.config();
        config.set("group.id", &self.changelog);
        config.set("enable.auto.commit", "false");
        config.set("enable.partition.eof", "true");
        config.set("fetch.queue.backoff.ms", "5");
        config.set("fetch.message.max.bytes", "8388608");
        let consumer: BaseConsumer = config.create()?;
        // It knows its broker before it begins, as the other side does.
        consumer.fetch_watermarks(&self.changelog, 0, PATIENCE)?;
        let mut places = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            places.add_partition_offset(&self.changelog, partition, Offset::Beginning)?;
        }
        let (taken, read) = timed(|| -> Result<u64, Failure> {
            consumer.assign(&places)?;
            let (mut ended, mut operations) = (0, 0);
            while ended < PARTITIONS {
                match consumer.poll(PATIENCE).ok_or("nothing came")? {
                    Ok(record) => {
                        let head = record
                            .payload()
                            .and_then(|it| it.get(12..16))
                            .ok_or("no head")?;
                        operations += u64::from(u32::from_be_bytes(head.try_into()?));
                    }
                    Err(KafkaError::PartitionEOF(_)) => ended += 1,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(operations)
        });
        self.check(read?)?;
        Ok(taken)
    }

    /// The time until all of it is known, from the moment at which its length is known.
    fn restore(&self, round: usize) -> Result<Duration, Failure> {
        let _within = self.runtime.enter();
        let group = format!("{}-{round}", self.input);
        let options = Options::new(&self.brokers, &self.input, &group);
        let window = Window::new(Duration::from_secs(30 * 86_400));
        let stream = StreamOptions::new(&self.input, &self.changelog, &group, window);
        let (source, stream) =
            KafkaSource::streamed(options, stream, Arc::new(SystemClock::new()))?;
        let look = || {
            sleep(Duration::from_micros(500));
            stream.restored()
        };
        while !look().iter().any(|restored| restored.records.is_some()) {}
        let (taken, ()) = timed(|| {
            loop {
                let all = look();
                if all.len() == usize::try_from(PARTITIONS).unwrap_or_default()
                    && all.iter().all(|restored| restored.is_done)
                {
                    return;
                }
            }
        });
        let known = stream.restored().iter().map(|it| it.operations).sum();
        drop(source);
        self.check(known)?;
        Ok(taken)
    }

    fn check(&self, operations: u64) -> crate::Outcome {
        if operations == self.operations {
            return Ok(());
        }
        Err(format!("{operations} of {} operations were met", self.operations).into())
    }

    fn make(&self, topic: &str) -> crate::Outcome {
        let admin: AdminClient<DefaultClientContext> = self.config().create()?;
        let topic = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1))
            .set("retention.ms", "-1")
            .set("retention.bytes", "-1");
        let made = admin.create_topics([&topic], &AdminOptions::new());
        for made in self.runtime.block_on(made)? {
            made.map_err(|(name, code)| format!("{name}: {code}"))?;
        }
        Ok(())
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config
    }
}

const PARTITIONS: i32 = 6;
const ROUNDS: usize = 5;
/// The bytes of one transaction.
const BYTES: usize = 8 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
