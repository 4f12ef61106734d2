//! Tests against librdkafka's own cluster, within the process: the protocol is Kafka's, and no server has to be
//! started.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::client::{Client, ClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, DefaultConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, Timestamp};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{
    BaseProducer, BaseRecord, DefaultProducerContext, DeliveryResult, Producer, ProducerContext,
};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr, RDKafkaType};
use rdkafka::{Offset, TopicPartitionList};
use semel_rdkafka_batch::{Batch, NotTaken, RecordQueue, Topic, flush};
use tokio::time::Instant;

type Cluster = MockCluster<'static, DefaultProducerContext>;

/// Creates a cluster with one topic.
fn cluster(partitions: i32) -> Cluster {
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("t", partitions, 1).expect("a topic");
    cluster
}

/// Keeps the results in reports, by the records' opaques.
#[derive(Default)]
struct Reports(Mutex<Vec<(usize, Option<RDKafkaErrorCode>)>>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: usize) {
        let error = result.as_ref().err();
        let error = error.and_then(|(error, _)| error.rdkafka_error_code());
        self.0.lock().expect("a lock").push((opaque, error));
    }
}

fn producer(cluster: &Cluster, settings: &[(&str, &str)]) -> BaseProducer<Reports> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers());
    for (name, value) in settings {
        config.set(*name, *value);
    }
    let context = Reports::default();
    config.create_with_context(context).expect("a producer")
}

/// Returns the reports, once nothing is in flight.
fn reported(producer: &BaseProducer<Reports>) -> Vec<(usize, Option<RDKafkaErrorCode>)> {
    producer.flush(PATIENCE).expect("everything is reported");
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(10));
    }
    let reports = producer.context();
    std::mem::take(&mut *reports.0.lock().expect("a lock"))
}

fn consumer(cluster: &Cluster, settings: &[(&str, &str)]) -> Arc<BaseConsumer> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "g")
        .set("enable.auto.commit", "false");
    for (name, value) in settings {
        config.set(*name, *value);
    }
    Arc::new(config.create().expect("a consumer"))
}

/// Has the partitions of `t` read from their starts, those of `taken` by the returned queue.
fn reading(
    consumer: &Arc<BaseConsumer>,
    partitions: i32,
    taken: impl IntoIterator<Item = i32>,
) -> RecordQueue<DefaultConsumerContext> {
    let queue = RecordQueue::new(Arc::clone(consumer)).expect("a queue");
    for partition in taken {
        queue.take("t", partition).expect("a partition");
    }
    let mut all = TopicPartitionList::new();
    for partition in 0..partitions {
        all.add_partition_offset("t", partition, Offset::Beginning)
            .expect("an offset");
    }
    consumer.assign(&all).expect("an assignment");
    queue
}

/// Reads until there are so many.
fn read<T>(
    consumer: &BaseConsumer,
    queue: &RecordQueue<DefaultConsumerContext>,
    count: usize,
    seen: impl Fn(&dyn Seen) -> T,
) -> Vec<T> {
    let (mut all, begun) = (Vec::new(), Instant::now());
    while all.len() < count {
        assert!(begun.elapsed() < PATIENCE, "{} of {count}", all.len());
        assert!(consumer.poll(Duration::ZERO).is_none());
        for record in queue.read(100, Duration::from_millis(20)) {
            let record = record.expect("a record");
            all.push(seen(&record));
        }
    }
    all
}

/// A record, whatever its type is.
trait Seen {
    fn place(&self) -> (String, i32, i64);
    fn parts(&self) -> (Option<Vec<u8>>, Option<Vec<u8>>);
    fn created_at(&self) -> Timestamp;
    fn names_and_values(&self) -> Vec<(String, Option<Vec<u8>>)>;
}

impl<M: Message> Seen for M {
    fn place(&self) -> (String, i32, i64) {
        (self.topic().to_owned(), self.partition(), self.offset())
    }

    fn parts(&self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (
            self.key().map(<[u8]>::to_vec),
            self.payload().map(<[u8]>::to_vec),
        )
    }

    fn created_at(&self) -> Timestamp {
        self.timestamp()
    }

    fn names_and_values(&self) -> Vec<(String, Option<Vec<u8>>)> {
        let Some(headers) = self.headers() else {
            return Vec::new();
        };
        let all: Vec<_> = headers
            .iter()
            .map(|it| (it.key.to_owned(), it.value.map(<[u8]>::to_vec)))
            .collect();
        assert_eq!(headers.count(), all.len());
        assert!(headers.try_get(all.len()).is_none());
        all
    }
}

#[test]
fn what_is_sent_in_batches_is_read_in_batches() {
    let cluster = cluster(3);
    let producer = producer(&cluster, &[]);
    let texts: Vec<_> = (0..5_000).map(|number| number.to_string()).collect();
    let topic = Topic::new(producer.client(), "t").expect("a topic");
    for (place, some) in texts.chunks(700).enumerate() {
        let mut batch = Batch::with_capacity(some.len());
        for (number, text) in some.iter().enumerate() {
            let (key, payload) = (&text.as_bytes()[..1], text.as_bytes());
            batch.push(Some(key), Some(payload), place * 700 + number);
        }
        assert_eq!((batch.len(), batch.is_empty()), (some.len(), false));
        topic.send(&mut batch).expect("all are taken");
        assert!(batch.is_empty());
    }
    let mut reports = reported(&producer);
    reports.sort_unstable_by_key(|(opaque, _)| *opaque);
    let expected: Vec<_> = (0..5_000).map(|opaque| (opaque, None)).collect();
    assert!(reports == expected, "one report of each");

    let consumer = consumer(&cluster, &[]);
    let queue = reading(&consumer, 3, 0..3);
    let mut partitions: BTreeMap<i32, Vec<(i64, usize)>> = BTreeMap::new();
    let mut partition_of: BTreeMap<Vec<u8>, i32> = BTreeMap::new();
    for ((topic, partition, offset), (key, payload)) in
        read(&consumer, &queue, 5_000, |it| (it.place(), it.parts()))
    {
        assert_eq!(topic, "t");
        let (key, payload) = (key.expect("a key"), payload.expect("a payload"));
        assert_eq!(key, payload[..1]);
        assert_eq!(*partition_of.entry(key).or_insert(partition), partition);
        let number = String::from_utf8(payload).expect("a text").parse();
        let records = partitions.entry(partition).or_default();
        records.push((offset, number.expect("a number")));
    }
    assert!(partitions.len() > 1, "keys are spread");
    let all: usize = partitions.values().map(Vec::len).sum();
    assert_eq!(all, 5_000);
    for records in partitions.values() {
        assert!(records.iter().map(|it| it.0).eq((0..).take(records.len())));
        assert!(records.is_sorted_by_key(|it| it.1), "in their order");
    }
}

#[test]
fn a_record_has_what_was_sent() {
    let cluster = cluster(1);
    let producer = producer(&cluster, &[]);
    let topic = Topic::new(producer.client(), "t").expect("a topic");
    let mut batch = Batch::default();
    batch.push(None, None, 0);
    batch.push(Some(b""), Some(b""), 1);
    topic.send(&mut batch).expect("all are taken");
    let header = |key, value| Header { key, value };
    let headers = OwnedHeaders::new()
        .insert(header("a", Some(&b"1"[..])))
        .insert(header("b", None))
        .insert(header("a", Some(&b""[..])));
    let single = BaseRecord::<[u8], [u8], usize>::with_opaque_to("t", 2);
    let single = single.payload(&b"p"[..]).headers(headers).timestamp(17);
    producer.send(single).map_err(|it| it.0).expect("taken");
    assert_eq!(reported(&producer).len(), 3);

    let consumer = consumer(&cluster, &[]);
    let queue = reading(&consumer, 1, [0]);
    let seen = read(&consumer, &queue, 3, |it| {
        (it.place().2, it.parts(), it.names_and_values())
    });
    let times = read_times(&cluster);
    let text = |it: &str| Some(it.as_bytes().to_vec());
    let named = |name: &str, value| (name.to_owned(), value);
    let headers = vec![
        named("a", text("1")),
        named("b", None),
        named("a", text("")),
    ];
    assert_eq!(
        seen,
        [
            (0, (None, None), Vec::new()),
            (1, (text(""), text("")), Vec::new()),
            (2, (None, text("p")), headers),
        ]
    );
    assert!(matches!(
        times[0],
        Timestamp::CreateTime(1_700_000_000_000..)
    ));
    assert_eq!(times[2], Timestamp::CreateTime(17));
}

/// Returns the times of the three records, read once more.
fn read_times(cluster: &Cluster) -> Vec<Timestamp> {
    let consumer = consumer(cluster, &[]);
    let queue = reading(&consumer, 1, [0]);
    read(&consumer, &queue, 3, |it| it.created_at())
}

#[test]
fn what_is_not_taken_stays_and_goes_with_the_next_call() {
    let cluster = cluster(1);
    let settings = [("queue.buffering.max.messages", "10")];
    let producer = producer(&cluster, &settings);
    let topic = Topic::new(producer.client(), "t").expect("a topic");
    let texts: Vec<_> = (0..25).map(|number| number.to_string()).collect();
    let mut batch = Batch::default();
    for (opaque, text) in texts.iter().enumerate() {
        batch.push(None, Some(text.as_bytes()), opaque);
    }
    let NotTaken { opaque, error } = topic.send(&mut batch).expect_err("it is full");
    let is_full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
    assert_eq!((opaque, batch.len(), error), (10, 15, is_full));
    let begun = Instant::now();
    while topic.send(&mut batch).is_err() {
        assert!(begun.elapsed() < PATIENCE);
        producer.poll(Duration::from_millis(1));
    }
    assert_eq!(reported(&producer).len(), 25);

    let consumer = consumer(&cluster, &[]);
    let queue = reading(&consumer, 1, [0]);
    let payloads = read(&consumer, &queue, 25, |it| it.parts().1);
    let sent: Vec<_> = texts.into_iter().map(|it| Some(it.into_bytes())).collect();
    assert_eq!(payloads, sent);
}

#[test]
fn one_that_is_too_large_is_told_and_all_others_are_taken() {
    let cluster = cluster(1);
    let producer = producer(&cluster, &[("message.max.bytes", "2000")]);
    let topic = Topic::new(producer.client(), "t").expect("a topic");
    let large = vec![b'x'; 3_000];
    let mut batch = Batch::default();
    batch.push(None, Some(b"a"), 1);
    batch.push(None, Some(&large), 2);
    batch.push(None, Some(b"b"), 3);
    let NotTaken { opaque, error } = topic.send(&mut batch).expect_err("it is too large");
    let too_large = KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge);
    assert_eq!((opaque, batch.len(), error), (2, 1, too_large));
    assert_eq!(reported(&producer), [(1, None), (3, None)]);
    batch.leave_out_first();
    assert!(batch.is_empty());
    batch.leave_out_first();
    topic.send(&mut batch).expect("nothing is left");
}

#[test]
fn only_what_is_taken_comes_and_the_end_of_a_partition_is_an_error() {
    let cluster = cluster(2);
    let producer = producer(&cluster, &[]);
    for partition in [0, 1] {
        let record = BaseRecord::<[u8], [u8], usize>::with_opaque_to("t", 0);
        let record = record.payload(&b"p"[..]).partition(partition);
        producer.send(record).map_err(|it| it.0).expect("taken");
    }
    assert_eq!(reported(&producer).len(), 2);
    let consumer = consumer(&cluster, &[("enable.partition.eof", "true")]);
    let queue = reading(&consumer, 2, [1]);
    let (mut polled, mut read, begun) = (Vec::new(), Vec::new(), Instant::now());
    while polled.len() < 2 || read.len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "{polled:?} {read:?}");
        let found = consumer.poll(Duration::ZERO);
        polled.extend(found.map(|it| it.map(|it| it.partition())));
        let found = queue.read(10, Duration::from_millis(20));
        read.extend(found.map(|it| it.map(|it| it.partition())));
    }
    assert_eq!(polled, [Ok(0), Err(KafkaError::PartitionEOF(0))]);
    assert_eq!(read, [Ok(1), Err(KafkaError::PartitionEOF(1))]);
}

#[test]
fn a_partition_is_taken_each_time_that_it_is_assigned() {
    let cluster = cluster(1);
    let producer = producer(&cluster, &[]);
    let topic = Topic::new(producer.client(), "t").expect("a topic");
    let consumer = consumer(&cluster, &[]);
    let queue = RecordQueue::new(Arc::clone(&consumer)).expect("a queue");
    for turn in 0..3 {
        let mut batch = Batch::default();
        for opaque in 0..10 {
            batch.push(None, Some(b"p"), opaque);
        }
        topic.send(&mut batch).expect("all are taken");
        assert_eq!(reported(&producer).len(), 10);
        queue.take("t", 0).expect("a partition");
        let mut assigned = TopicPartitionList::new();
        assigned
            .add_partition_offset("t", 0, Offset::Offset(turn * 10))
            .expect("an offset");
        consumer.assign(&assigned).expect("an assignment");
        let offsets = read(&consumer, &queue, 10, |it| it.place().2);
        assert!(offsets.into_iter().eq(turn * 10..turn * 10 + 10));
        consumer.unassign().expect("no assignment");
        assert!(consumer.poll(Duration::from_millis(20)).is_none());
        assert_eq!(queue.read(10, Duration::ZERO).len(), 0);
    }
}

#[test]
fn a_queue_may_end_with_records_in_it_and_in_hand() {
    let cluster = cluster(1);
    let producer = producer(&cluster, &[]);
    let topic = Topic::new(producer.client(), "t").expect("a topic");
    let mut batch = Batch::default();
    for opaque in 0..100 {
        batch.push(None, Some(b"p"), opaque);
    }
    topic.send(&mut batch).expect("all are taken");
    assert_eq!(reported(&producer).len(), 100);
    let consumer = consumer(&cluster, &[]);
    let queue = reading(&consumer, 1, [0]);
    let begun = Instant::now();
    let mut some = loop {
        let some = queue.read(10, Duration::from_millis(20));
        if some.len() > 1 {
            break some;
        }
        assert!(begun.elapsed() < PATIENCE);
    };
    let first = some.next().expect("one").expect("a record");
    drop(some);
    assert_eq!(first.payload(), Some(&b"p"[..]));
    drop(first);
    drop(queue);
    // Records for a queue that has ended are nobody's, and the consumer ends as ever.
    assert!(consumer.poll(Duration::from_millis(100)).is_none());
    drop(consumer);
}

#[test]
fn an_empty_queue_is_waited_at_as_long_as_was_said() {
    let cluster = cluster(1);
    let consumer = consumer(&cluster, &[]);
    let queue = reading(&consumer, 1, [0]);
    let begun = Instant::now();
    assert_eq!(queue.read(10, Duration::from_millis(80)).len(), 0);
    assert!(begun.elapsed() >= Duration::from_millis(80));
    assert_eq!(queue.read(0, Duration::ZERO).len(), 0);
}

#[test]
fn a_flush_has_what_lingers_sent_at_once() {
    let cluster = cluster(1);
    let settings = [
        ("linger.ms", "20000"),
        ("delivery.report.only.error", "true"),
    ];
    let producer = producer(&cluster, &settings);
    let topic = Topic::new(producer.client(), "t").expect("a topic");
    let mut batch = Batch::default();
    batch.push(None, Some(b"p"), 1);
    topic.send(&mut batch).expect("it is taken");
    assert_eq!(producer.in_flight_count(), 1);
    let begun = Instant::now();
    while !flush(producer.client(), Duration::from_secs(1)) {
        assert!(begun.elapsed() < PATIENCE / 3, "it lingers");
    }
    assert_eq!(producer.in_flight_count(), 0);
}

#[test]
fn a_refusal_is_under_way_until_it_is_polled() {
    let cluster = cluster(1);
    let producer = producer(&cluster, &[("delivery.report.only.error", "true")]);
    let refused = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE];
    cluster.request_errors(RDKafkaApiKey::Produce, &refused);
    let topic = Topic::new(producer.client(), "t").expect("a topic");
    let mut batch = Batch::default();
    batch.push(None, Some(b"p"), 7);
    topic.send(&mut batch).expect("it is taken");
    let begun = Instant::now();
    while !flush(producer.client(), Duration::from_millis(10)) {
        assert!(begun.elapsed() < PATIENCE);
        producer.poll(Duration::ZERO);
    }
    let too_large = Some(RDKafkaErrorCode::MessageSizeTooLarge);
    assert_eq!(reported(&producer), [(7, too_large)]);
}

#[test]
fn names_that_are_none_are_refused() {
    let cluster = cluster(1);
    let producer = producer(&cluster, &[]);
    let long = "t".repeat(600);
    for name in ["a\0b", &long] {
        assert!(Topic::new(producer.client(), name).is_err(), "{name:?}");
    }
    let consumer = consumer(&cluster, &[]);
    let queue = RecordQueue::new(consumer).expect("a queue");
    assert!(queue.take("a\0b", 0).is_err());
}

#[test]
fn a_consumer_s_client_sends_nothing() {
    let config = ClientConfig::new();
    let native = config.create_native_config().expect("settings");
    let kind = RDKafkaType::RD_KAFKA_CONSUMER;
    let client = Client::new(&config, native, kind, Reports::default()).expect("a client");
    assert!(Topic::new(&client, "t").is_err());
}

const PATIENCE: Duration = Duration::from_secs(30);
