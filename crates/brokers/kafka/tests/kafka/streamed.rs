//! Class E against the real broker: the output, read as committed from its first record on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::admin::{NewTopic, TopicReplication};
use semel_broker_kafka::{KafkaSource, KafkaStream, StreamOptions};
use semel_conformance::TestClock;
use semel_conformance::source::Message;
use semel_conformance::source::applied;
use semel_core::claim::Duplicate;
use semel_core::partition::Entry;
use semel_core::port::source::{Delivery, Fetched, Source};
use semel_core::port::streamed::{
    AtOnce, Claimed, Committed, Finished, Outgoing, Standing, StreamedStore,
};
use semel_core::{
    Admission, ClaimId, ClaimRequest, Clock, ErrorKind, Key, OpId, Operation, Result, Scope,
    Timestamp, Window,
};
use tokio::time::timeout;

use crate::cluster::{ADMIN, Topic, take};

const WINDOW: Duration = Duration::from_secs(7 * 86_400);

/// Input and output, and a clock that stands still at the present.
pub(crate) struct Flow {
    pub(crate) input: Topic,
    pub(crate) output: Topic,
    clock: TestClock,
    partitions: i32,
}

impl Flow {
    pub(crate) async fn with(partitions: i32) -> Self {
        let input = Topic::with(partitions, &[]).await;
        let output = Topic::with(1, &[("max.message.bytes", "10000")]).await;
        let clock = TestClock::new();
        Self {
            input,
            output,
            clock,
            partitions,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn changelog(&self) -> String {
        format!("{}-changelog", self.input.name)
    }

    pub(crate) fn options(&self, name: &str) -> StreamOptions {
        let id = format!("{}-{name}", self.input.name);
        let window = Window::new(WINDOW);
        let mut options = StreamOptions::new(&self.output.name, &self.changelog(), &id, window);
        // These tests choose the partition of a record.
        options.is_copartitioned = true;
        options
    }

    pub(crate) fn member(&self, name: &str) -> Member {
        self.member_with(self.options(name))
    }

    pub(crate) fn member_with(&self, options: StreamOptions) -> Member {
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let made = KafkaSource::streamed(self.input.options(), options, clock);
        let (source, stream) = made.expect("a member");
        Member {
            source,
            stream,
            replays: BTreeMap::new(),
        }
    }

    /// Publishes a message of the key; it goes to the partition of its last digit.
    pub(crate) async fn put(&self, key: u32) {
        let partition = i32::try_from(key).expect("few") % self.partitions;
        let message = Message::new(key.to_string());
        self.input.put(partition, &message).await;
    }

    /// Counts each key in the output.
    pub(crate) fn output(&self, count: usize) -> BTreeMap<u32, usize> {
        let mut times = BTreeMap::new();
        for payload in self.output.all(count) {
            let key = std::str::from_utf8(&payload).expect("text");
            *times.entry(key.parse().expect("a key")).or_default() += 1;
        }
        times
    }
}

pub(crate) fn once(keys: std::ops::Range<u32>) -> BTreeMap<u32, usize> {
    keys.map(|key| (key, 1)).collect()
}

/// One worker.
pub(crate) struct Member {
    pub(crate) source: KafkaSource,
    pub(crate) stream: KafkaStream,
    pub(crate) replays: BTreeMap<u32, Duplicate>,
}

impl Member {
    pub(crate) async fn fetch(&mut self) -> Vec<Delivery> {
        let fetched = timeout(Duration::from_secs(40), self.source.fetch(100)).await;
        match fetched.expect("something comes").expect("a source") {
            Fetched::Deliveries(some) => some,
            Fetched::Revoked(revoked) => {
                self.source.requeue(&revoked).await.expect("a word");
                Vec::new()
            }
            Fetched::Away(_) | Fetched::Back | Fetched::Elsewhere { .. } => Vec::new(),
            Fetched::Ended => panic!("it never ends"),
        }
    }

    /// Handles deliveries until at least so many are done or replayed.
    pub(crate) async fn handle(&mut self, count: usize) {
        let mut fates = 0;
        while fates < count {
            let deliveries = self.fetch().await;
            fates += self.settle(&deliveries).await;
        }
    }

    async fn settle(&mut self, deliveries: &[Delivery]) -> usize {
        let mut done = Vec::new();
        // One of a key at a time, as the engine does.
        for delivery in deliveries {
            let granted = self.admit(delivery).await;
            let granted = match granted {
                Some(Ok(())) => true,
                Some(Err(Admission::Replay { duplicate, .. })) => {
                    self.replays.insert(key(delivery), duplicate);
                    false
                }
                None => continue,
                other => panic!("{other:?}"),
            };
            if granted {
                match self.commit(std::slice::from_ref(delivery)).await[..] {
                    [Committed::Done] => {}
                    [Committed::Gone] => continue,
                    ref other => panic!("{other:?}"),
                }
            }
            done.push(delivery.id);
        }
        self.source
            .acknowledge(&applied(&done))
            .await
            .expect("a word");
        done.len()
    }

    /// Returns whether it may be worked on, and else why not. `None`: it is another member's.
    pub(crate) async fn admit(&self, delivery: &Delivery) -> Option<Result<(), Admission>> {
        let (id, request) = request(delivery);
        loop {
            let claimed = Claimed {
                delivery: delivery.id,
                id,
                request: &request,
            };
            let mut standings = self.stream.admit(&[claimed]).await.expect("standings");
            match standings.remove(0) {
                Standing::Free(_) => return Some(Ok(())),
                Standing::Ours(admission) => match *admission {
                    Admission::Busy { .. } => tokio::time::sleep(Duration::from_millis(20)).await,
                    admission => return Some(Err(admission)),
                },
                Standing::Gone => return None,
            }
        }
    }

    async fn commit(&self, deliveries: &[Delivery]) -> Vec<Committed> {
        let requests: Vec<_> = deliveries.iter().map(request).collect();
        let batch = deliveries
            .iter()
            .zip(&requests)
            .map(|(delivery, asked)| finished(delivery, asked, delivery.payload.clone()));
        let batch = Arc::new(batch.collect());
        for _ in 0..400 {
            match self.stream.commit(&batch, AtOnce).await {
                Ok(committed) => return committed,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no commit came about");
    }
}

/// Returns the item to commit for a delivery.
pub(crate) fn finished(
    delivery: &Delivery,
    (id, request): &(OpId, ClaimRequest),
    payload: Bytes,
) -> Finished {
    let output = Outgoing {
        payload,
        headers: Vec::new(),
    };
    Finished {
        delivery: delivery.id,
        key: request.operation.key.clone(),
        id: *id,
        entry: Entry::of(*id, request),
        output: Some(output),
    }
}

fn key(delivery: &Delivery) -> u32 {
    let text = std::str::from_utf8(&delivery.payload).expect("text");
    text.parse().expect("a number")
}

pub(crate) fn request(delivery: &Delivery) -> (OpId, ClaimRequest) {
    let Operation { scope, key } = operation(key(delivery));
    let mut request = ClaimRequest::new(scope, key, ClaimId::from_u128(1));
    request.window = Window::new(WINDOW);
    request.transport = Some(Bytes::copy_from_slice(delivery.coordinates.as_bytes()));
    (request.operation.id(), request)
}

pub(crate) fn operation(key: u32) -> Operation {
    let scope = Scope::new("", "copy").expect("a scope");
    let key = Key::parse(&key.to_string()).expect("a key");
    Operation::new(scope, key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_is_put_out_once_whoever_repeats_it() {
    let flow = Flow::with(2).await;
    for key in (0..10).chain(0..10) {
        flow.put(key).await;
    }
    let mut member = flow.member("a");
    member.handle(20).await;
    assert_eq!(flow.output(10), once(0..10));
    assert_eq!(member.replays.len(), 10);
    let kinds = member.replays.values();
    assert!(kinds.into_iter().all(|it| *it == Duplicate::Republish));
    assert_eq!(member.stream.remembered(), 10);
    // With the transactions, and for the replays behind them with the end.
    member.source.close().await.expect("an end");
    assert_eq!(flow.input.committed(2).iter().sum::<i64>(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_has_the_key_of_its_operation_and_its_id_where_that_is_wanted() {
    let flow = Flow::with(1).await;
    for (key, has_id_header) in [(1, false), (2, true)] {
        flow.put(key).await;
        let mut options = flow.options("a");
        options.has_id_header = has_id_header;
        let mut member = flow.member_with(options);
        member.handle(1).await;
        member.source.close().await.expect("an end");
    }
    let got = take(&mut flow.output.source(), 2).await;
    let headers: Vec<_> = got.iter().map(sent_along).collect();
    let id = operation(2).id().to_string();
    let key = |key: &str| ("kafka-key".to_owned(), key.to_owned());
    let expected = [vec![key("1")], vec![key("2"), ("semel-id".to_owned(), id)]];
    assert_eq!(headers, expected);
}

/// Returns the key and headers of a record, all but its payload and its time.
fn sent_along(delivery: &Delivery) -> Vec<(String, String)> {
    let headers = delivery.headers.iter();
    let headers = headers.filter(|(name, _)| *name != "kafka-create-time");
    let text = |value: &Bytes| String::from_utf8(value.to_vec()).expect("text");
    headers
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_next_knows_what_was_put_out() {
    let flow = Flow::with(2).await;
    for key in 0..10 {
        flow.put(key).await;
    }
    let mut first = flow.member("a");
    first.handle(10).await;
    // As a kill does: nothing is closed.
    drop(first);
    for key in 0..12 {
        flow.put(key).await;
    }
    let mut second = flow.member("b");
    second.handle(12).await;
    assert_eq!(flow.output(12), once(0..12));
    assert_eq!(second.replays.len(), 10);
    assert_eq!(second.stream.remembered(), 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_reads_all_over_again_puts_out_nothing_again() {
    let flow = Flow::with(1).await;
    for key in 0..10 {
        flow.put(key).await;
    }
    let mut first = flow.member("a");
    first.handle(10).await;
    first.source.close().await.expect("an end");
    drop(first);
    let mut options = flow.input.options();
    options.group = format!("{}-again", flow.input.name).into();
    let clock: Arc<dyn Clock> = Arc::new(flow.clock.clone());
    let made = KafkaSource::streamed(options, flow.options("a"), clock);
    let (source, stream) = made.expect("a member");
    let mut again = Member {
        source,
        stream,
        replays: BTreeMap::new(),
    };
    again.handle(10).await;
    let kinds: Vec<_> = again.replays.values().collect();
    assert_eq!(kinds, [&Duplicate::Redelivery; 10]);
    assert_eq!(flow.output(10), once(0..10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_left_is_committed_for_no_more() {
    let flow = Flow::with(1).await;
    flow.put(1).await;
    let mut first = flow.member("a");
    let held = loop {
        let held = first.fetch().await;
        if !held.is_empty() {
            break held;
        }
    };
    assert!(matches!(first.admit(&held[0]).await, Some(Ok(()))));
    // It leaves the group, and does not know that its effect is late.
    first.source.close().await.expect("an end");
    let mut second = flow.member("b");
    second.handle(1).await;
    assert!(matches!(first.commit(&held).await[..], [Committed::Gone]));
    assert_eq!(flow.output(1), once(1..2));
    second.source.close().await.expect("an end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_move_between_members_without_a_repeat() {
    let flow = Flow::with(4).await;
    for key in 0..40 {
        flow.put(key).await;
    }
    let mut first = flow.member("a");
    first.handle(40).await;
    let mut second = flow.member("b");
    // Both are at work on repeats and on what is new.
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let work = |mut member: Member, mut stopped: tokio::sync::watch::Receiver<bool>| async move {
        loop {
            tokio::select! {
                biased;
                deliveries = member.fetch() => { member.settle(&deliveries).await; }
                _ = stopped.changed() => return member,
            }
        }
    };
    let others = stopped.clone();
    let left = tokio::spawn(work(first, stopped));
    // Repeats, until half of them arrive at the second one.
    let mut sent = 40;
    while second.replays.is_empty() {
        for key in 0..4 {
            flow.put(key).await;
        }
        sent += 4;
        if let Ok(deliveries) = timeout(Duration::from_millis(300), second.fetch()).await {
            second.settle(&deliveries).await;
        }
    }
    let right = tokio::spawn(work(second, others));
    for key in 20..80 {
        flow.put(key).await;
    }
    sent += 60;
    for _ in 0..600 {
        if flow.input.committed(4).iter().sum::<i64>() == sent {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.send(true).expect("they listen");
    let (left, right) = (left.await.expect("it ends"), right.await.expect("it ends"));
    assert_eq!(flow.output(80), once(0..80));
    assert!(!right.replays.is_empty(), "the second one restored nothing");
    drop((left, right));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_of_a_worker_that_is_gone_is_waited_for() {
    let flow = Flow::with(1).await;
    flow.put(1).await;
    // A worker died between its offsets and its commit: they are pending, and hold the partition up.
    let producer = semi_transaction(&flow).await;
    let mut member = flow.member("b");
    member.handle(1).await;
    // It was aborted when its time was over, so the second one put the key out.
    assert_eq!(flow.output(1), once(1..2));
    drop(producer);
}

/// Begins a transaction with an output and the group's offset, never ended by its producer.
async fn semi_transaction(flow: &Flow) -> rdkafka::producer::BaseProducer {
    use rdkafka::consumer::{BaseConsumer, Consumer};
    use rdkafka::producer::{BaseRecord, Producer};

    let (brokers, input, output) = (
        flow.input.brokers.clone(),
        flow.input.name.clone(),
        flow.output.name.clone(),
    );
    let begun = tokio::task::spawn_blocking(move || {
        let mut config = rdkafka::ClientConfig::new();
        config.set("bootstrap.servers", &brokers);
        config.set("transactional.id", format!("{input}-gone"));
        config.set("transaction.timeout.ms", "4000");
        let producer: rdkafka::producer::BaseProducer = config.create().expect("a producer");
        let patience = Duration::from_secs(10);
        producer.init_transactions(patience).expect("a producer");
        producer.begin_transaction().expect("a transaction");
        let record = BaseRecord::<[u8], [u8]>::to(&output).payload(b"1");
        producer.send(record).expect("a record");
        producer.flush(patience).expect("it is sent");
        let mut config = rdkafka::ClientConfig::new();
        config.set("bootstrap.servers", &brokers);
        config.set("group.id", &input);
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let mut offsets = rdkafka::TopicPartitionList::new();
        offsets
            .add_partition_offset(&input, 0, rdkafka::Offset::Offset(1))
            .expect("a place");
        let metadata = consumer.group_metadata().expect("of no generation");
        producer
            .send_offsets_to_transaction(&offsets, &metadata, patience)
            .expect("offsets");
        producer
    });
    begun.await.expect("it begins")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_no_topic_takes_is_refused_and_the_rest_is_committed() {
    let flow = Flow::with(1).await;
    for key in 0..3 {
        flow.put(key).await;
    }
    let mut member = flow.member("a");
    let mut held = Vec::new();
    while held.len() < 3 {
        held.extend(member.fetch().await);
    }
    let requests: Vec<_> = held.iter().map(request).collect();
    let batch = held
        .iter()
        .zip(&requests)
        .enumerate()
        .map(|(place, (delivery, asked))| {
            let payload = match place {
                1 => vec![b'x'; 20_000].into(),
                _ => delivery.payload.clone(),
            };
            finished(delivery, asked, payload)
        });
    let batch = Arc::new(batch.collect());
    let committed = member.stream.commit(&batch, AtOnce).await.expect("answers");
    match &committed[..] {
        [Committed::Done, Committed::Refused(error), Committed::Done] => {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains("max.message.bytes"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(flow.output(2), [(0, 1), (2, 1)].into());
    // No offset is committed over undone work.
    assert_eq!(flow.input.committed(1), [1]);
    assert_eq!(member.stream.remembered(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_producer_of_the_same_name_is_no_harm() {
    let flow = Flow::with(1).await;
    flow.put(1).await;
    let mut member = flow.member("a");
    member.handle(1).await;
    let (brokers, id) = (flow.input.brokers.clone(), format!("{}-a", flow.input.name));
    let thrown_out = tokio::task::spawn_blocking(move || {
        use rdkafka::producer::Producer;
        let mut config = rdkafka::ClientConfig::new();
        config.set("bootstrap.servers", &brokers);
        config.set("transactional.id", id);
        let producer: rdkafka::producer::BaseProducer = config.create().expect("a producer");
        producer.init_transactions(Duration::from_secs(10))
    });
    thrown_out.await.expect("it runs").expect("a producer");
    flow.put(1).await;
    flow.put(2).await;
    // It creates a new producer, and checks how its last transaction ended.
    member.handle(2).await;
    assert_eq!(flow.output(2), once(1..3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changelog_that_forgets_inside_the_window_is_refused() {
    for (setting, value) in [
        ("retention.ms", "60000"),
        ("cleanup.policy", "compact"),
        ("retention.bytes", "1000000"),
    ] {
        let flow = Flow::with(1).await;
        let changelog = flow.changelog();
        let topic = NewTopic::new(&changelog, 1, TopicReplication::Fixed(1)).set(setting, value);
        let made = flow.input.admin().create_topics([&topic], &ADMIN()).await;
        made.expect("an answer").remove(0).expect("a topic");
        let error = refusal(&flow).await;
        assert!(error.contains(setting), "{error}");
        assert!(error.contains(&changelog), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changelog_with_other_partitions_is_refused() {
    let flow = Flow::with(2).await;
    let mut member = flow.member("a");
    flow.put(1).await;
    member.handle(1).await;
    drop(member);
    flow.input.grow(3).await;
    let error = refusal(&flow).await;
    assert!(error.contains("3 partitions"), "{error}");
    assert!(error.contains("has 2"), "{error}");
}

async fn refusal(flow: &Flow) -> String {
    let mut member = flow.member("refused");
    loop {
        let fetched = timeout(Duration::from_secs(30), member.source.fetch(1)).await;
        match fetched.expect("an answer") {
            Ok(Fetched::Away(_) | Fetched::Back) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
                return error.to_string();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_past_its_window_is_forgotten() {
    let flow = Flow::with(1).await;
    flow.put(1).await;
    let mut member = flow.member("a");
    member.handle(1).await;
    flow.clock.advance(WINDOW + WINDOW / 4);
    flow.put(2).await;
    member.handle(1).await;
    assert_eq!(member.stream.remembered(), 1);
    assert!(Timestamp::EPOCH < flow.clock.now());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_tell_nothing_of_their_place_are_refused() {
    let flow = Flow::with(2).await;
    flow.put(1).await;
    let mut options = flow.options("a");
    options.is_copartitioned = false;
    let mut member = flow.member_with(options);
    let held = loop {
        let held = member.fetch().await;
        if !held.is_empty() {
            break held;
        }
    };
    assert!(member.admit(&held[0]).await.is_some());
    let asked = request(&held[0]);
    let finished = finished(&held[0], &asked, "1".into());
    let error = member
        .stream
        .commit(&Arc::new(vec![finished]), AtOnce)
        .await
        .expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    assert!(error.to_string().contains("no record key"), "{error}");
    assert!(flow.output(0).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_that_would_read_open_transactions_is_refused() {
    let flow = Flow::with(1).await;
    let mut options = flow.input.options();
    let isolation = ("isolation.level".into(), "read_uncommitted".into());
    options.properties.push(isolation);
    let clock: Arc<dyn Clock> = Arc::new(flow.clock.clone());
    let refused = KafkaSource::streamed(options, flow.options("a"), clock);
    let error = refused.expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("isolation.level"), "{error}");
}
