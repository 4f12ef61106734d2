//! Topics of a test's own, and short words for common steps.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use semel_broker_kafka::{KafkaSink, KafkaSource, Options, SinkOptions};
use semel_conformance::sink::SinkSubject;
use semel_conformance::source::{Message, SourceSubject};
use semel_core::port::source::{Delivery, DeliveryId, Fetched, Source};
use tokio::time::{Instant, timeout};

/// Returns the address of the tests' broker.
pub(crate) fn brokers() -> String {
    std::env::var("SEMEL_TEST_KAFKA_URL").expect(
        "SEMEL_TEST_KAFKA_URL: `cargo xtask services up kafka`, then `source target/services/env`",
    )
}

/// A topic that only this test uses, and a group of the same name.
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) brokers: String,
    producer: FutureProducer,
}

impl Topic {
    pub(crate) async fn with(partitions: i32, settings: &[(&str, &str)]) -> Self {
        Self::on(&brokers(), partitions, settings).await
    }

    pub(crate) async fn on(brokers: &str, partitions: i32, settings: &[(&str, &str)]) -> Self {
        let topic = Self::absent(brokers);
        topic.create(partitions, settings).await;
        topic
    }

    /// Returns the name of a topic that is not created yet.
    pub(crate) fn absent(brokers: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers);
        config.set("linger.ms", "0");
        config.set("topic.metadata.refresh.interval.ms", "300");
        Self {
            name: format!("test-{}-{number}", std::process::id()),
            brokers: brokers.to_owned(),
            producer: config.create().expect("a producer"),
        }
    }

    pub(crate) async fn create(&self, partitions: i32, settings: &[(&str, &str)]) {
        let replication = TopicReplication::Fixed(1);
        let mut topic = NewTopic::new(&self.name, partitions, replication);
        for (name, value) in settings {
            topic = topic.set(name, value);
        }
        let made = self.admin().create_topics([&topic], &ADMIN()).await;
        made.expect("an answer").remove(0).expect("a topic");
    }

    pub(crate) async fn grow(&self, partitions: usize) {
        let more = NewPartitions::new(&self.name, partitions);
        let made = self.admin().create_partitions([&more], &ADMIN()).await;
        made.expect("an answer").remove(0).expect("partitions");
        // Until the producer has heard of them.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    pub(crate) fn admin(&self) -> AdminClient<DefaultClientContext> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config.create().expect("an admin")
    }

    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new(&self.brokers, &self.name, &self.name);
        for (name, value) in [
            ("session.timeout.ms", "6000"),
            ("heartbeat.interval.ms", "500"),
            ("topic.metadata.refresh.interval.ms", "500"),
            ("fetch.wait.max.ms", "50"),
        ] {
            options.properties.push((name.into(), value.into()));
        }
        options
    }

    pub(crate) fn source(&self) -> KafkaSource {
        KafkaSource::new(self.options()).expect("a source")
    }

    pub(crate) async fn put(&self, partition: i32, message: &Message) {
        let headers = message.headers.iter().fold(OwnedHeaders::new(), |to, it| {
            to.insert(Header {
                key: &it.0,
                value: Some(&it.1[..]),
            })
        });
        let record = FutureRecord::<[u8], [u8]>::to(&self.name)
            .partition(partition)
            .payload(&message.payload)
            .headers(headers);
        let sent = self.producer.send(record, Duration::from_secs(30)).await;
        sent.expect("a record with the broker");
    }

    /// Publishes numbers, evenly over the partitions.
    pub(crate) async fn number(&self, range: std::ops::Range<u32>, partitions: i32) {
        let puts = range.map(|n| {
            let partition = i32::try_from(n).expect("few") % partitions;
            async move { self.put(partition, &Message::new(n.to_string())).await }
        });
        for put in puts {
            put.await;
        }
    }

    /// Returns the offset that the group would begin at, for each partition.
    pub(crate) fn committed(&self, partitions: i32) -> Vec<i64> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config.set("group.id", &self.name);
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.name, 0, partitions - 1);
        let committed = consumer.committed_offsets(list, Duration::from_secs(10));
        let committed = committed.expect("an answer");
        let offset =
            |it: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| match it.offset() {
                Offset::Offset(offset) => offset,
                _ => 0,
            };
        committed.elements().into_iter().map(offset).collect()
    }

    /// Returns every record of the topic, from the first on, as payloads.
    pub(crate) fn all(&self, count: usize) -> Vec<Bytes> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config.set("group.id", format!("{}-reader", self.name));
        config.set("auto.offset.reset", "earliest");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name, 0, Offset::Beginning)
            .expect("a place");
        consumer.assign(&list).expect("an assignment");
        let (mut all, begun) = (Vec::new(), Instant::now());
        while begun.elapsed() < Duration::from_secs(10) {
            let patience = if all.len() < count { 1_000 } else { 300 };
            match consumer.poll(Duration::from_millis(patience)) {
                Some(message) => {
                    let message = message.expect("a record");
                    all.push(Bytes::copy_from_slice(
                        message.payload().unwrap_or_default(),
                    ));
                }
                None if all.len() >= count => break,
                None => {}
            }
        }
        all
    }
}

#[expect(non_snake_case, reason = "as good as a constant")]
pub(crate) fn ADMIN() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)))
}

impl SourceSubject for Topic {
    type Source = KafkaSource;

    async fn open() -> Self {
        Self::with(3, &[]).await
    }

    async fn put(&self, messages: &[Message]) {
        for (place, message) in messages.iter().enumerate() {
            let partition = i32::try_from(place % 3).expect("few");
            Self::put(self, partition, message).await;
        }
    }

    async fn source(&self) -> KafkaSource {
        Self::source(self)
    }
}

impl SinkSubject for Topic {
    type Sink = KafkaSink;

    async fn open() -> Self {
        Self::with(1, &[]).await
    }

    async fn sink(&self) -> KafkaSink {
        KafkaSink::new(SinkOptions::new(&self.brokers, &self.name)).expect("a sink")
    }

    async fn read(&self, count: usize) -> Vec<Message> {
        semel_conformance::source::read(&mut Self::source(self), count).await
    }
}

/// Fetches until `count` different records are here; revoked ones are given back.
pub(crate) async fn take(source: &mut KafkaSource, count: usize) -> Vec<Delivery> {
    let (mut got, mut places) = (Vec::new(), BTreeSet::new());
    let begun = Instant::now();
    while places.len() < count {
        let left = Duration::from_secs(40).saturating_sub(begun.elapsed());
        let fetched = timeout(left, source.fetch(count - places.len())).await;
        match fetched.unwrap_or_else(|_| panic!("{} of {count} came", places.len())) {
            Ok(Fetched::Deliveries(some)) => {
                places.extend(some.iter().map(|it| it.coordinates.clone()));
                got.extend(some);
            }
            Ok(Fetched::Revoked(revoked)) => source.requeue(&revoked).await.expect("a word"),
            Ok(Fetched::Away(_) | Fetched::Back) => {}
            other => panic!("{other:?}"),
        }
    }
    got
}

pub(crate) fn ids(deliveries: &[Delivery]) -> Vec<DeliveryId> {
    deliveries.iter().map(|it| it.id).collect()
}

pub(crate) fn numbers(deliveries: &[Delivery]) -> BTreeSet<u32> {
    let number = |it: &Delivery| std::str::from_utf8(&it.payload).expect("text").parse();
    deliveries
        .iter()
        .map(|it| number(it).expect("a number"))
        .collect()
}
