//! Deliveries that the broker takes back, and those that are given back.

use std::time::Duration;

use lapin::options::QueueDeleteOptions;
use semel_broker_amqp::AmqpSource;
use semel_conformance::source::applied;
use semel_core::ErrorKind;
use semel_core::port::source::{Fetched, Source};
use tokio::time::{Instant, timeout};

use crate::lab::{Queue, ids, numbers, some, take};
use crate::server::{CONSUMER_TIMEOUT, Own};

#[tokio::test]
async fn a_consumer_that_the_broker_cancels_is_made_again() {
    let queue = Queue::open().await;
    queue.put(0..3).await;
    let mut source = queue.source();
    let held = take(&mut source, 3).await;
    let deleted = queue
        .channel
        .queue_delete(queue.name.as_str().into(), QueueDeleteOptions::default());
    deleted.await.expect("deleted");
    match source.fetch(10).await.expect("of use") {
        Fetched::Revoked(revoked) => assert_eq!(revoked, ids(&held)),
        other => panic!("{other:?}"),
    }
    let error = source.fetch(10).await.expect_err("the queue is gone");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("does not exist"), "{error}");
    source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect("ignored");
    // A caller that asks again finds it when it is there.
    let durable = lapin::options::QueueDeclareOptions {
        durable: true,
        ..lapin::options::QueueDeclareOptions::default()
    };
    let declared = queue.channel.queue_declare(
        queue.name.as_str().into(),
        durable,
        lapin::types::FieldTable::default(),
    );
    declared.await.expect("a queue");
    queue.put(7..8).await;
    let got = take(&mut source, 1).await;
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("told");
    source.close().await.expect("an end");
    let deleted = queue
        .channel
        .queue_delete(queue.name.as_str().into(), QueueDeleteOptions::default());
    assert_eq!(deleted.await.expect("deleted"), 0);
}

#[tokio::test]
async fn what_is_held_for_too_long_is_taken_back_and_somebody_learns_of_it() {
    let mut own = Own::take().await;
    let queue = Queue::make(own.url(), &[]).await;
    queue.put(0..3).await;
    let mut source = queue.source();
    let held = take(&mut source, 3).await;
    let fetched = timeout(CONSUMER_TIMEOUT * 3, source.fetch(10)).await;
    match fetched.expect("in time").expect("of use") {
        Fetched::Revoked(revoked) => assert_eq!(revoked, ids(&held)),
        other => panic!("{other:?}"),
    }
    match source.fetch(10).await.expect("of use") {
        Fetched::Away(error) => {
            assert!(error.to_string().contains("consumer timeout"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let again = take(&mut source, 3).await;
    assert_eq!(numbers(&again), (0..3).collect());
    source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect("ignored");
    source
        .acknowledge(&applied(&ids(&again)))
        .await
        .expect("told");
    source.close().await.expect("an end");
    queue.until_ready(0).await;
}

#[tokio::test]
async fn what_is_given_back_again_and_again_comes_in_its_time() {
    let queue = Queue::open().await;
    queue.put(0..2).await;
    let mut source = queue.source();
    let begun = Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < Duration::from_secs(3) {
        if let Ok(fetched) = timeout(Duration::from_millis(100), source.fetch(10)).await
            && let Fetched::Deliveries(got) = fetched.expect("of use")
        {
            rounds += 1;
            source.requeue(&ids(&got)).await.expect("given back");
        }
    }
    assert!((4..=16).contains(&rounds), "{rounds} rounds in 3 s");
    let got = take(&mut source, 2).await;
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("told");
    source.close().await.expect("an end");
    queue.until_ready(0).await;
}

#[tokio::test]
async fn what_one_gives_back_another_gets() {
    let queue = Queue::open().await;
    queue.put(0..4).await;
    let mut options = queue.options();
    options.prefetch = 4;
    let mut one = AmqpSource::connect(options).await.expect("up");
    let held = take(&mut one, 4).await;
    let mut other = AmqpSource::connect(queue.options()).await.expect("up");
    one.requeue(&ids(&held[..2])).await.expect("given back");
    // Later than the first; the close reports it.
    one.requeue(&ids(&held[2..3])).await.expect("given back");
    one.acknowledge(&applied(&ids(&held[2..])))
        .await
        .expect("told");
    one.close().await.expect("an end");
    let got = take(&mut other, 3).await;
    assert_eq!(numbers(&got), numbers(&held[..3]));
    other.acknowledge(&applied(&ids(&got))).await.expect("told");
    other.close().await.expect("an end");
    queue.until_ready(0).await;
}

#[tokio::test]
async fn no_more_is_handed_over_ahead_than_the_prefetch() {
    let queue = Queue::open().await;
    queue.put(0..10).await;
    let mut options = queue.options();
    options.prefetch = 4;
    let mut source = AmqpSource::connect(options).await.expect("up");
    let held = take(&mut source, 4).await;
    assert!(
        timeout(Duration::from_millis(300), source.fetch(10))
            .await
            .is_err()
    );
    assert_eq!(queue.ready().await, 6);
    source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect("told");
    assert!(!some(&mut source, 10).await.is_empty());
}
