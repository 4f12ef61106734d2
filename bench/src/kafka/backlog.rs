//! A backlog on a broker, and the tools that copy it.

use std::path::PathBuf;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tempfile::TempDir;
use tokio::runtime::Runtime;

type Failure = Box<dyn std::error::Error>;

/// A backlog on a broker.
pub(crate) struct Site {
    pub(crate) brokers: String,
    pub(crate) input: String,
    pub(crate) semel: PathBuf,
    pub(crate) folder: TempDir,
    runtime: Runtime,
}

impl Site {
    /// A topic without a record, and a folder.
    pub(crate) fn empty() -> Result<Self, Failure> {
        let site = Self {
            brokers: std::env::var("SEMEL_TEST_KAFKA_URL")?,
            input: format!("bench-{}", std::process::id()),
            semel: std::env::var_os("SEMEL_BIN").ok_or("SEMEL_BIN")?.into(),
            folder: tempfile::tempdir_in(".")?,
            runtime: Runtime::new()?,
        };
        site.make(&site.input)?;
        Ok(site)
    }

    pub(crate) fn new() -> Result<Self, Failure> {
        let site = Self::empty()?;
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

    /// The position of the group.
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
        // The default is a second, which starves a backlog.
        config.set("fetch.queue.backoff.ms", "5");
        config.create()
    }

    pub(crate) fn producer(&self, transactions: Option<&str>) -> Result<BaseProducer, KafkaError> {
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

/// The next record. Nothing also stands for an event, such as an assignment.
pub(super) fn next(consumer: &BaseConsumer) -> Result<BorrowedMessage<'_>, KafkaError> {
    let mut tries = (0..100).map(|_| consumer.poll(PATIENCE / 100));
    let none = KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut);
    tries.find_map(|polled| polled).unwrap_or(Err(none))
}

/// Sends a record; waits if there is no room for it.
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

/// Waits for the confirmations, without the crate's own flush, which sleeps for a tenth of a second.
pub(crate) fn drain(producer: &BaseProducer) {
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(1));
    }
}

/// Pseudo-random numbers, the same each time.
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
    /// Deletes what is left of the benchmark: the input, and changelogs, whose names contain that of a
    /// group.
    fn drop(&mut self) {
        let names = self.consumer(&self.input).and_then(|reader| {
            let metadata = reader.fetch_metadata(None, PATIENCE)?;
            let names = metadata.topics().iter().map(|it| it.name().to_owned());
            let ours = names.filter(|name| name.contains(&self.input));
            Ok(ours.collect::<Vec<_>>())
        });
        // A topic that stays does no harm.
        let names = names.unwrap_or_default();
        let _ = self.delete(&names.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

pub(crate) const RECORDS: u32 = 2_000_000;
/// One in this many repeats another, at most this many before it.
const REPEATED: u32 = 5;
const FARTHEST: usize = 100_000;
pub(crate) const DISTINCT: u32 = RECORDS - RECORDS / REPEATED;
pub(crate) const BACKLOG: &str = "2,000,000 records of 200 bytes, one in five a repeat of one up to 100,000 before it, 3 partitions";
const RECORD_BYTES: usize = 200;
pub(crate) const PARTITIONS: i32 = 3;
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
