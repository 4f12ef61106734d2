//! A long changelog: all of it is known before any record is worked on, and progress can be seen.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::BufMut;
use rdkafka::ClientConfig;
use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use semel_core::port::streamed::Restored;

use crate::cluster::ADMIN;
use crate::streamed::{Flow, operation};

const PARTITIONS: i32 = 2;
/// Records of the changelog, each with a few operations, and the number that a transaction has.
const RECORDS: u32 = 200_000;
const OPERATIONS: u32 = 4;
const BATCH: u32 = 20_000;

/// Writes it as transactions of past workers would have: operation N is in partition N % 2, and each seventh
/// transaction is aborted.
async fn write_changelog(flow: &Flow) -> BTreeSet<u32> {
    let changelog = flow.changelog();
    let topic = NewTopic::new(&changelog, PARTITIONS, TopicReplication::Fixed(1))
        .set("retention.ms", "-1")
        .set("message.timestamp.type", "CreateTime");
    let admin = flow.input.admin();
    let made = admin.create_topics([&topic], &ADMIN()).await;
    made.expect("an answer").remove(0).expect("a topic");
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &flow.input.brokers);
    config.set("transactional.id", &changelog);
    let producer: BaseProducer = config.create().expect("a producer");
    let patience = Duration::from_secs(30);
    producer.init_transactions(patience).expect("a beginning");
    let at = flow.now().as_millis();
    let mut known = BTreeSet::new();
    let mut next = [0; 2];
    for (place, first) in (0..RECORDS).step_by(BATCH as usize).enumerate() {
        producer.begin_transaction().expect("a transaction");
        for record in first..first + BATCH {
            // One of them has three times as much as the other.
            let partition = u32::from(record % 4 == 3);
            let first = &mut next[partition as usize];
            let operations = (*first..*first + OPERATIONS).map(|it| it * 2 + partition);
            *first += OPERATIONS;
            let mut block = b"SEM1".to_vec();
            block.put_u64(at);
            block.put_u32(OPERATIONS);
            for key in operations.clone() {
                block.put_slice(&operation(key).id().as_bytes()[..16]);
                block.put_bytes(0, 20);
            }
            put(&producer, &changelog, partition.cast_signed(), &block);
            if place % 7 != 6 {
                known.extend(operations);
            }
        }
        if place % 7 == 6 {
            producer.flush(patience).expect("all are with the broker");
            producer.abort_transaction(patience).expect("an end");
        } else {
            producer.commit_transaction(patience).expect("an end");
        }
    }
    known
}

fn put(producer: &BaseProducer, topic: &str, partition: i32, block: &[u8]) {
    let mut record: BaseRecord<'_, [u8], [u8]> =
        BaseRecord::to(topic).partition(partition).payload(block);
    loop {
        match producer.send(record) {
            Ok(()) => return,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                record = again;
                producer.poll(Duration::from_millis(1));
            }
            Err((error, _)) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_changelog_is_known_before_anything_is_worked_on_and_its_progress_is_told() {
    let flow = Flow::with(PARTITIONS).await;
    let known = write_changelog(&flow).await;
    let last_of = |partition| known.iter().rfind(|key| **key % 2 == partition).copied();
    let (last, other) = (last_of(0).expect("some"), last_of(1).expect("some"));
    let aborted = (0..other).find(|key| !known.contains(key)).expect("one");
    for key in [0, 1, last, other, aborted, last + 2] {
        flow.put(key).await;
    }
    let mut member = flow.member("a");
    let stream = member.stream.clone();
    let (ended, mut is_over) = tokio::sync::oneshot::channel::<()>();
    let watching = tokio::spawn(async move {
        let mut seen: Vec<Vec<Restored>> = Vec::new();
        while is_over.try_recv().is_err() {
            let now = stream.restored();
            if seen.last() != Some(&now) {
                seen.push(now);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        seen
    });
    member.handle(6).await;
    ended.send(()).expect("somebody watches");
    let seen = watching.await.expect("what was seen");
    // Committed operations are duplicates, and no others are.
    let replayed: Vec<_> = member.replays.keys().copied().collect();
    assert_eq!(replayed, [0, 1, other, last]);
    assert_eq!(member.stream.remembered(), known.len() + 2);

    let end = member.stream.restored();
    assert_eq!(end.len(), 2, "{end:?}");
    let operations: u64 = end.iter().map(|it| it.operations).sum();
    assert_eq!(operations, known.len() as u64);
    for (partition, restored) in (0..).zip(&end) {
        assert_eq!(restored.partition, partition);
        assert!(restored.is_done);
        assert_eq!(Some(restored.read), restored.records);
        // With the marks of its transactions.
        let records = u64::from(RECORDS) / 4 * [3, 1][usize::from(partition == 1)];
        let counted = records + 1..records + 20;
        assert!(counted.contains(&restored.read), "{restored:?}");
    }
    // Progress was published on the way, and never went back.
    let of = |partition: i32| {
        let all = seen.iter().flatten();
        all.filter(move |it| it.partition == partition && it.records.is_some())
    };
    for partition in 0..PARTITIONS {
        let reads: Vec<_> = of(partition).map(|it| it.read).collect();
        assert!(reads.is_sorted(), "{reads:?}");
        let on_the_way = of(partition)
            .filter(|it| !it.is_done && it.read > 0)
            .count();
        assert!(on_the_way > 2, "{seen:?}");
    }
}
