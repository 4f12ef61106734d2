//! Connections that break, and a broker that falls silent or is away.

use std::time::Duration;

use semel_broker_amqp::{AmqpSource, Options};
use semel_conformance::proxy::Proxy;
use semel_conformance::source::applied;
use semel_core::port::source::{Fetched, Source};
use semel_core::{Advice, Code, ErrorKind};
use tokio::time::{Instant, timeout};

use crate::lab::{PATIENCE, Queue, address, by_way_of, ids, numbers, some, take};

fn through(queue: &Queue, proxy: &Proxy) -> Options {
    Options::new(by_way_of(&queue.url, proxy.address()), &queue.name)
}

#[tokio::test]
async fn what_a_cut_takes_away_comes_again_under_other_ids() {
    let queue = Queue::open().await;
    let proxy = Proxy::start(address(&queue.url));
    let mut source = AmqpSource::connect(through(&queue, &proxy))
        .await
        .expect("up");
    queue.put(0..10).await;
    let first = take(&mut source, 10).await;
    source
        .acknowledge(&applied(&ids(&first[..5])))
        .await
        .expect("told");
    // The broker has received those five acknowledgements when the rest is requested on the same
    // channel.
    queue.put(10..11).await;
    let eleventh = some(&mut source, 1).await;
    queue.until_ready(0).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    proxy.cut_now();
    let mut held = ids(&first[5..]);
    held.extend(ids(&eleventh));
    match source.fetch(100).await.expect("of use") {
        Fetched::Revoked(revoked) => assert_eq!(revoked, held),
        other => panic!("{other:?}"),
    }
    let again = take(&mut source, 6).await;
    assert_eq!(numbers(&again), (5..11).collect());
    assert!(
        ids(&again)
            .iter()
            .all(|id| !held.contains(id) && !ids(&first).contains(id))
    );
    // Tags begin at 1 again: were an old one passed on, it would settle another message.
    source
        .acknowledge(&applied(&ids(&first)))
        .await
        .expect("ignored");
    source.requeue(&held).await.expect("ignored");
    source
        .acknowledge(&applied(&ids(&again[..1])))
        .await
        .expect("told");
    source.close().await.expect("an end");
    queue.until_ready(5).await;
}

#[tokio::test]
async fn an_acknowledgement_into_a_cut_connection_loses_nothing() {
    let queue = Queue::open().await;
    let proxy = Proxy::start(address(&queue.url));
    queue.put(0..55).await;
    let mut options = through(&queue, &proxy);
    options.prefetch = 50;
    let mut source = AmqpSource::connect(options).await.expect("up");
    let mut held = take(&mut source, 50).await;
    let heard = ids(&held.drain(..5).collect::<Vec<_>>());
    source.acknowledge(&applied(&heard)).await.expect("told");
    // They come once the broker has received those five acknowledgements.
    held.extend(take(&mut source, 5).await);
    proxy.cut_after_client_bytes(100);
    for id in ids(&held) {
        // Some may be received, most are not; a caller that gets an error tries nothing.
        let _ = source.acknowledge(&applied(&[id])).await;
    }
    proxy.until(|seen| seen.cuts == 1).await;
    let mut waiting = Vec::new();
    loop {
        match timeout(Duration::from_secs(1), source.fetch(100)).await {
            Ok(Ok(Fetched::Deliveries(again))) => waiting.extend(again),
            Ok(Ok(Fetched::Revoked(_) | Fetched::Away(_) | Fetched::Back)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(_) if waiting.is_empty() => {}
            Err(_) => break,
        }
    }
    let again = numbers(&waiting);
    assert!(again.is_subset(&numbers(&held)), "{again:?}");
    source
        .acknowledge(&applied(&ids(&waiting)))
        .await
        .expect("told");
    source.close().await.expect("an end");
    queue.until_ready(0).await;
}

#[tokio::test]
async fn a_broker_that_is_away_is_told_once_in_a_while_and_comes_back() {
    let queue = Queue::open().await;
    let proxy = Proxy::start(address(&queue.url));
    queue.put(0..3).await;
    let mut source = AmqpSource::connect(through(&queue, &proxy))
        .await
        .expect("up");
    let held = take(&mut source, 3).await;
    proxy.refuse(true);
    proxy.cut_now();
    let begun = Instant::now();
    let mut told = 0;
    while begun.elapsed() < Duration::from_secs(8) {
        match timeout(Duration::from_millis(100), source.fetch(10)).await {
            Ok(Ok(Fetched::Revoked(revoked))) => assert_eq!(revoked, ids(&held)),
            Ok(Ok(Fetched::Away(error))) => {
                told += 1;
                assert_eq!(
                    (error.kind(), error.code()),
                    (ErrorKind::Unavailable, Code::SourceUnavailable)
                );
                assert!(matches!(error.advice(), Advice::Retry { .. }));
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => {}
        }
    }
    assert!((1..=2).contains(&told), "told {told} times in 8 s");
    source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect("ignored");
    proxy.refuse(false);
    let again = take(&mut source, 3).await;
    assert_eq!(numbers(&again), (0..3).collect());
    source
        .acknowledge(&applied(&ids(&again)))
        .await
        .expect("told");
    source.close().await.expect("an end");
    queue.until_ready(0).await;
}

#[tokio::test]
async fn a_broker_that_is_away_from_the_start_is_waited_for() {
    let queue = Queue::open().await;
    let proxy = Proxy::start(address(&queue.url));
    proxy.refuse(true);
    let options = through(&queue, &proxy);
    let error = AmqpSource::connect(options.clone())
        .await
        .expect_err("nobody is there");
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unavailable, Code::SourceUnavailable)
    );
    let mut source = AmqpSource::new(options).expect("options");
    assert!(matches!(source.fetch(1).await, Ok(Fetched::Away(_))));
    proxy.refuse(false);
    queue.put(0..1).await;
    let got = take(&mut source, 1).await;
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("told");
    source.close().await.expect("an end");
}

#[tokio::test]
async fn a_close_that_is_not_heard_says_so() {
    let queue = Queue::open().await;
    let proxy = Proxy::start(address(&queue.url));
    queue.put(0..3).await;
    let mut source = AmqpSource::connect(through(&queue, &proxy))
        .await
        .expect("up");
    let held = take(&mut source, 3).await;
    proxy.hold();
    source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect("the driver has sent it");
    let closing = tokio::spawn(async move { source.close().await });
    proxy.until(|seen| seen.held > 0).await;
    proxy.cut_now();
    let error = closing.await.expect("a task").expect_err("nobody heard");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("may come again"), "{error}");
    queue.until_ready(3).await;
}

#[tokio::test]
async fn a_broker_that_never_answers_is_given_up() {
    let queue = Queue::open().await;
    let proxy = Proxy::start(address(&queue.url));
    queue.put(0..3).await;
    let mut options = through(&queue, &proxy);
    options.url = options.url.replace('?', "?heartbeat=2&");
    assert!(options.url.contains("heartbeat"));
    let mut source = AmqpSource::connect(options).await.expect("up");
    let held = take(&mut source, 3).await;
    proxy.hold();
    let fetched = timeout(Duration::from_secs(20), source.fetch(10)).await;
    assert!(matches!(fetched, Ok(Ok(Fetched::Revoked(revoked))) if revoked == ids(&held)));
    proxy.heal();
    let again = take(&mut source, 3).await;
    source
        .acknowledge(&applied(&ids(&again)))
        .await
        .expect("told");
    source.close().await.expect("an end");
    queue.until_ready(0).await;
}

#[tokio::test]
async fn through_a_storm_everything_arrives_and_nothing_is_settled_unasked() {
    let queue = Queue::open().await;
    let proxy = Proxy::start(address(&queue.url));
    let mut source = AmqpSource::new(through(&queue, &proxy)).expect("options");
    queue.put(0..2_000).await;
    proxy.storm(7, 20_000);
    let mut seen = std::collections::BTreeSet::new();
    let begun = Instant::now();
    // The driver waits out its time where a handshake is cut.
    while seen.len() < 2_000
        && begun.elapsed() < PATIENCE
        && (proxy.seen().cuts < 5 || begun.elapsed() < Duration::from_secs(5))
    {
        let Ok(fetched) = timeout(Duration::from_millis(500), source.fetch(50)).await else {
            continue;
        };
        if let Fetched::Deliveries(some) = fetched.expect("of use") {
            // Every fifth is never settled.
            let settled: Vec<_> = some
                .iter()
                .filter(|it| !numbers(std::slice::from_ref(it)).iter().all(|n| n % 5 == 0))
                .map(|it| it.id)
                .collect();
            let _ = source.acknowledge(&applied(&settled)).await;
            seen.extend(numbers(&some));
        }
    }
    assert!(proxy.seen().cuts > 3, "{:?}", proxy.seen());
    proxy.heal();
    drop(source);
    let mut options = queue.options();
    options.prefetch = 5_000;
    let mut last = AmqpSource::new(options).expect("options");
    let mut rest = std::collections::BTreeSet::new();
    let missing = |rest: &std::collections::BTreeSet<u32>| {
        let is_missing = |n: &u32| !rest.contains(n) && (n.is_multiple_of(5) || !seen.contains(n));
        (0..2_000).filter(is_missing).count()
    };
    while missing(&rest) > 0 {
        let Ok(got) = timeout(Duration::from_secs(5), some(&mut last, 100)).await else {
            panic!("{} are lost", missing(&rest));
        };
        rest.extend(numbers(&got));
    }
}
