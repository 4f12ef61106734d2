//! The connection breaks, the server dies: nothing is lost, and all goes on by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use semel_broker_nats::{NatsSource, Options};
use semel_conformance::source::applied;
use semel_core::port::source::Source;
use semel_core::{Certainty, Code, ErrorKind};
use tokio::time::{Instant, sleep};

use crate::own::Own;
use crate::test_stream::TestStream;
use crate::{ids, in_front_of, is_away, nothing, numbers, some, take};

const SECOND: Duration = Duration::from_secs(1);

fn through(url: String, test_stream: &TestStream) -> NatsSource {
    NatsSource::new(Options {
        url,
        ..test_stream.options()
    })
    .expect("good options")
}

#[tokio::test]
async fn what_is_held_when_the_connection_breaks_may_still_be_acknowledged() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(30).await;
    let (proxy, url) = in_front_of(&test_stream.url);
    let options = Options {
        url,
        lease: 20 * SECOND,
        ..test_stream.options()
    };
    let mut source = NatsSource::new(options).expect("good options");
    let held = some(&mut source, 10).await;
    proxy.cut_now();
    let more = some(&mut source, 20).await;
    source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect("heard");
    source
        .acknowledge(&applied(&ids(&more)))
        .await
        .expect("heard");
    source.close().await.expect("closed");
    let mut next = test_stream.source();
    let rest = take(&mut next, 30 - held.len() - more.len()).await;
    assert_eq!(numbers(&rest).len() + held.len() + more.len(), 30);
    assert!(proxy.seen().accepted > 1, "it was cut");
}

#[tokio::test]
async fn a_broker_that_is_away_is_mentioned_now_and_then_and_found_again() {
    let test_stream = TestStream::open().await;
    let (proxy, url) = in_front_of(&test_stream.url);
    proxy.refuse(true);
    let mut source = through(url, &test_stream);
    let begun = Instant::now();
    for _ in 0..2 {
        let error = is_away(&mut source, 10 * SECOND).await;
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Unavailable, Code::SourceUnavailable)
        );
        assert_eq!(error.certainty(), Certainty::NotApplied);
        assert!(
            error.to_string().contains(&proxy.address().to_string()),
            "{error}"
        );
    }
    assert!(
        begun.elapsed() > 5 * SECOND,
        "twice within {:?}",
        begun.elapsed()
    );
    test_stream.put_numbers(3).await;
    proxy.heal();
    assert_eq!(take(&mut source, 3).await.len(), 3);
    // And once more, in the middle of it.
    proxy.refuse(true);
    proxy.cut_now();
    is_away(&mut source, 10 * SECOND).await;
    proxy.heal();
    test_stream.put_numbers(2).await;
    take(&mut source, 2).await;
}

#[tokio::test]
async fn a_server_that_falls_silent_is_left() {
    let test_stream = TestStream::open().await;
    let (proxy, url) = in_front_of(&test_stream.url);
    let mut source = through(url, &test_stream);
    nothing(&mut source, SECOND).await;
    proxy.hold();
    let begun = Instant::now();
    is_away(&mut source, 30 * SECOND).await;
    assert!(begun.elapsed() < 20 * SECOND, "{:?}", begun.elapsed());
    proxy.release();
    test_stream.put_numbers(3).await;
    take(&mut source, 3).await;
}

#[tokio::test]
async fn an_acknowledgement_whose_answer_is_lost_is_repeated() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(10).await;
    let (proxy, url) = in_front_of(&test_stream.url);
    let options = Options {
        url,
        lease: 20 * SECOND,
        ..test_stream.options()
    };
    let mut source = NatsSource::new(options).expect("good options");
    let held = take(&mut source, 10).await;
    // The server receives nothing of it.
    proxy.cut_after_client_bytes(0);
    let error = source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect_err("the connection broke");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    source.close().await.expect("repeated");
    let info = test_stream
        .stream()
        .await
        .consumer_info(crate::test_stream::CONSUMER)
        .await
        .expect("there");
    assert_eq!(
        (info.ack_floor.stream_sequence, info.num_ack_pending),
        (10, 0)
    );
}

#[tokio::test]
async fn a_close_without_a_broker_says_so() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(2).await;
    let (proxy, url) = in_front_of(&test_stream.url);
    let mut source = through(url, &test_stream);
    let held = take(&mut source, 2).await;
    proxy.refuse(true);
    proxy.cut_now();
    proxy.until(|seen| seen.connections == 0).await;
    source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect_err("nobody hears it");
    let error = source.close().await.expect_err("nobody hears it");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // With nothing to tell, there is nothing to fail.
    through("nats://127.0.0.1:1".to_owned(), &test_stream)
        .close()
        .await
        .expect("closed");
}

#[tokio::test]
async fn cuts_at_any_byte_lose_nothing() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(300).await;
    let (proxy, url) = in_front_of(&test_stream.url);
    let mut source = through(url, &test_stream);
    proxy.storm(7, 8_000);
    let mut seen = BTreeSet::new();
    let begun = Instant::now();
    while seen.len() < 300 {
        assert!(begun.elapsed() < 60 * SECOND, "{} of 300", seen.len());
        let got = some(&mut source, 20).await;
        seen.extend(numbers(&got));
        // One that fails is repeated by the next fetch.
        let _ = source.acknowledge(&applied(&ids(&got))).await;
    }
    assert!(proxy.seen().cuts > 3, "{:?}", proxy.seen());
    proxy.heal();
    source.close().await.expect("closed");
    let mut next = test_stream.source();
    nothing(&mut next, 4 * SECOND).await;
}

#[tokio::test]
async fn a_server_that_is_killed_loses_nothing() {
    let mut own = Own::start().await;
    let test_stream = TestStream::at(&own.url()).await;
    test_stream.put_numbers(200).await;
    let lease = 8 * SECOND;
    let options = Options {
        lease,
        ..test_stream.options()
    };
    let mut source = NatsSource::new(options).expect("good options");
    let held = some(&mut source, 50).await;
    source
        .acknowledge(&applied(&ids(&held[..20])))
        .await
        .expect("heard");
    own.kill();
    is_away(&mut source, 10 * SECOND).await;
    source
        .acknowledge(&applied(&ids(&held[20..30])))
        .await
        .expect_err("nobody hears it");
    own.restart().await;
    let mut seen = numbers(&held[..30]);
    let begun = Instant::now();
    while seen.len() < 200 {
        assert!(begun.elapsed() < 60 * SECOND, "{} of 200", seen.len());
        let got = some(&mut source, 50).await;
        seen.extend(numbers(&got));
        source
            .acknowledge(&applied(&ids(&got)))
            .await
            .expect("heard");
    }
    source.close().await.expect("closed");
    sleep(lease).await;
    let mut next = test_stream.source();
    nothing(&mut next, 2 * SECOND).await;
}
