//! Partitions come and go: drained first, committed, then let go.

use std::time::Duration;

use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use semel_conformance::source::applied;
use semel_core::port::source::{Fetched, Source};
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{Topic, ids, numbers, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_leaves_is_drained_and_comes_again_only_where_it_was_not() {
    let topic = Topic::with(2, &[]).await;
    topic.number(0..40, 2).await;
    let mut first = topic.source();
    let held = take(&mut first, 40).await;
    let mut second = topic.source();
    // The second one joins; half of the first one's partitions are to leave.
    let joining = tokio::spawn(async move {
        let got = take(&mut second, 10).await;
        (second, got)
    });
    let revoked = loop {
        match timeout(Duration::from_secs(20), first.fetch(100)).await {
            Ok(Ok(Fetched::Revoked(revoked))) => break revoked,
            Ok(Ok(Fetched::Away(_) | Fetched::Back)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(revoked.len(), 20, "one of two partitions");
    // The first ten of them had begun and end in time, the others had not.
    let (ended, not_begun) = revoked.split_at(10);
    first.acknowledge(&applied(ended)).await.expect("a word");
    first.requeue(not_begun).await.expect("a word");
    let (mut second, got) = joining.await.expect("it joins");
    let not_begun: Vec<_> = held
        .into_iter()
        .filter(|it| not_begun.contains(&it.id))
        .collect();
    assert_eq!(numbers(&got), numbers(&not_begun));
    second
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("a word");
    second.close().await.expect("an end");
    first.close().await.expect("an end");
    assert_eq!(topic.committed(2).iter().sum::<i64>(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_longer_than_the_drain_for_what_does_not_end() {
    let topic = Topic::with(2, &[]).await;
    topic.number(0..10, 2).await;
    let mut options = topic.options();
    options.drain = Duration::from_millis(500);
    let mut first = semel_broker_kafka::KafkaSource::new(options).expect("a source");
    let held = take(&mut first, 10).await;
    let begun = Instant::now();
    let mut second = topic.source();
    let got = take(&mut second, 5).await;
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    assert!(numbers(&got).is_subset(&numbers(&held)));
    // It ends late: that is no report of the new owner's, and settles nothing.
    first
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect("it is ignored");
    first.close().await.expect("an end");
    drop(second);
    let mut third = topic.source();
    let again = take(&mut third, 5).await;
    assert!(
        numbers(&got).is_subset(&numbers(&again)),
        "{got:?} {again:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_are_added_are_read() {
    let topic = Topic::with(1, &[]).await;
    topic.number(0..5, 1).await;
    let mut source = topic.source();
    let got = take(&mut source, 5).await;
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("a word");
    topic.grow(3).await;
    topic.number(5..20, 3).await;
    let more = take(&mut source, 15).await;
    assert_eq!(numbers(&more), (5..20).collect());
    source
        .acknowledge(&applied(&ids(&more)))
        .await
        .expect("a word");
    source.close().await.expect("an end");
    assert_eq!(topic.committed(3).iter().sum::<i64>(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finished_prefixes_are_committed_as_time_passes() {
    let topic = Topic::with(1, &[]).await;
    topic.number(0..10, 1).await;
    let mut options = topic.options();
    options.commit_every = Duration::from_millis(50);
    let mut source = semel_broker_kafka::KafkaSource::new(options).expect("a source");
    let got = take(&mut source, 10).await;
    // All but the fourth.
    let mut finished = ids(&got);
    let fourth = finished.remove(3);
    source
        .acknowledge(&applied(&finished))
        .await
        .expect("a word");
    sleep(Duration::from_millis(600)).await;
    assert_eq!(topic.committed(1), [3], "nothing over an unfinished record");
    source
        .acknowledge(&applied(&[fourth]))
        .await
        .expect("a word");
    sleep(Duration::from_millis(600)).await;
    assert_eq!(topic.committed(1), [10]);
    drop(source);
}

/// No later record follows whose commit would make it good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_refused_is_asked_again() {
    let cluster = MockCluster::new(1).expect("a cluster of librdkafka's own");
    let topic = Topic::absent(&cluster.bootstrap_servers());
    cluster.create_topic(&topic.name, 1, 1).expect("a topic");
    topic.number(0..3, 1).await;
    let mut options = topic.options();
    options.commit_every = Duration::from_millis(50);
    let mut source = semel_broker_kafka::KafkaSource::new(options).expect("a source");
    let got = take(&mut source, 3).await;
    let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[refusal; 3]);
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("a word");
    for _ in 0..100 {
        if topic.committed(1) == [3] {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("the group stands at {:?}", topic.committed(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_read_over_one_record_than_the_span() {
    let topic = Topic::with(1, &[]).await;
    number_in_parts(&topic, 400, 1).await;
    let mut options = topic.options();
    options.span = 100;
    little_at_a_time(&mut options);
    let mut source = semel_broker_kafka::KafkaSource::new(options).expect("a source");
    let mut got = take(&mut source, 50).await;
    let mut finished = ids(&got);
    let oldest = finished.remove(0);
    source
        .acknowledge(&applied(&finished))
        .await
        .expect("a word");
    // Everything but the oldest is finished at once, and reading does not go on for ever.
    while let Ok(Ok(fetched)) = timeout(Duration::from_secs(2), source.fetch(50)).await {
        let Fetched::Deliveries(some) = fetched else {
            continue;
        };
        source
            .acknowledge(&applied(&ids(&some)))
            .await
            .expect("a word");
        got.extend(some);
    }
    assert!(
        got.len() < 400,
        "{} of 400 while the first one is open",
        got.len()
    );
    source
        .acknowledge(&applied(&[oldest]))
        .await
        .expect("a word");
    while got.len() < 400 {
        let more = take(&mut source, 10.min(400 - got.len())).await;
        source
            .acknowledge(&applied(&ids(&more)))
            .await
            .expect("a word");
        got.extend(more);
    }
    assert_eq!(numbers(&got), (0..400).collect());
    assert_eq!(got.len(), 400, "each once");
    source.close().await.expect("an end");
    assert_eq!(topic.committed(1), [400]);
}

/// Publishes in batches of a few records: a batch is read whole.
async fn number_in_parts(topic: &Topic, count: u32, partitions: i32) {
    for first in (0..count).step_by(50) {
        topic.number(first..first + 50, partitions).await;
    }
}

/// Limits reading ahead to hardly anything, so that the span is seen early however late the thread looks.
fn little_at_a_time(options: &mut semel_broker_kafka::Options) {
    for (name, value) in [
        ("fetch.message.max.bytes", "1000"),
        ("queued.min.messages", "1"),
        ("queued.max.messages.kbytes", "1"),
    ] {
        options.properties.push((name.into(), value.into()));
    }
}

/// librdkafka keeps the partition paused over the time that another member has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_left_while_it_was_full_is_read_when_it_comes_back() {
    let topic = Topic::with(2, &[]).await;
    number_in_parts(&topic, 800, 2).await;
    let mut options = topic.options();
    options.span = 100;
    options.drain = Duration::ZERO;
    little_at_a_time(&mut options);
    let mut first = semel_broker_kafka::KafkaSource::new(options).expect("a source");
    // Nothing is finished, so both are full at last.
    let mut held = take(&mut first, 100).await;
    while let Ok(Ok(fetched)) = timeout(Duration::from_secs(2), first.fetch(50)).await {
        if let Fetched::Deliveries(some) = fetched {
            held.extend(some);
        }
    }
    assert!(held.len() < 800, "neither is full: {}", held.len());
    let mut second = topic.source();
    let joining = tokio::spawn(async move {
        let got = take(&mut second, 1).await;
        second.requeue(&ids(&got)).await.expect("a word");
        second.close().await.expect("an end");
    });
    let mut seen = numbers(&held);
    let begun = Instant::now();
    while seen.len() < 800 {
        let left = Duration::from_secs(60).saturating_sub(begun.elapsed());
        match timeout(left, first.fetch(50)).await {
            Ok(Ok(Fetched::Revoked(revoked))) => {
                assert_ne!(revoked.len(), held.len(), "one of two partitions");
                first.requeue(&revoked).await.expect("a word");
                held.retain(|it| !revoked.contains(&it.id));
                // The other one goes on.
                first
                    .acknowledge(&applied(&ids(&held)))
                    .await
                    .expect("a word");
            }
            Ok(Ok(Fetched::Deliveries(some))) => {
                seen.extend(numbers(&some));
                first
                    .acknowledge(&applied(&ids(&some)))
                    .await
                    .expect("a word");
            }
            Ok(Ok(Fetched::Away(_) | Fetched::Back)) => {}
            other => panic!("{} of 800 were read: {other:?}", seen.len()),
        }
    }
    joining.await.expect("it joins and leaves");
    first.close().await.expect("an end");
    assert_eq!(topic.committed(2), [400, 400]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_slowly_stays_in_the_group() {
    let topic = Topic::with(1, &[]).await;
    let mut options = topic.options();
    for (name, value) in [
        ("max.poll.interval.ms", "6000"),
        ("fetch.message.max.bytes", "10000"),
    ] {
        options.properties.push((name.into(), value.into()));
    }
    let mut puts = tokio::task::JoinSet::new();
    let topic = std::sync::Arc::new(topic);
    for part in 0..10 {
        let topic = std::sync::Arc::clone(&topic);
        puts.spawn(async move { topic.number(part * 600..(part + 1) * 600, 1).await });
    }
    puts.join_all().await;
    let mut source = semel_broker_kafka::KafkaSource::new(options).expect("a source");
    let first = take(&mut source, 1).await;
    // Beyond the time after which a member that does not poll is thrown out.
    sleep(Duration::from_secs(9)).await;
    let rest = take(&mut source, 5_999).await;
    assert_eq!(rest.len(), 5_999, "nothing twice: nobody was thrown out");
    source
        .acknowledge(&applied(&ids(&first)))
        .await
        .expect("a word");
    source
        .acknowledge(&applied(&ids(&rest)))
        .await
        .expect("a word");
    source.close().await.expect("an end");
    assert_eq!(topic.committed(1), [6_000]);
}
