//! Redelivery, leases, limits, and the effects of others on the consumer.

use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use bytes::Bytes;
use semel_broker_nats::{HEAD_BYTES, NatsSource, Options};
use semel_conformance::source::Message;
use semel_conformance::source::applied;
use semel_core::port::source::{Fetched, Source};
use tokio::time::{Instant, sleep, timeout};

use crate::test_stream::{CONSUMER, TestStream};
use crate::{ids, in_front_of, nothing, numbers, some, take};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn coordinates_name_the_stream_and_the_place_in_it() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(2).await;
    let mut source = test_stream.source();
    let got = take(&mut source, 2).await;
    assert_eq!(*got[1].coordinates, format!("nats:{}:2", test_stream.name));
    let stored = test_stream
        .stream()
        .await
        .get_raw_message(2)
        .await
        .expect("the message");
    let millis = u64::try_from(stored.time.unix_timestamp_nanos() / 1_000_000).expect("a time");
    assert_eq!(got[1].appended_at.expect("a time").as_millis(), millis);
}

#[tokio::test]
async fn what_is_given_back_comes_again_after_a_respite() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(3).await;
    let mut source = test_stream.source();
    let held = take(&mut source, 3).await;
    let begun = Instant::now();
    source.requeue(&ids(&held)).await.expect("heard");
    nothing(&mut source, Duration::from_millis(150)).await;
    let again = take(&mut source, 3).await;
    assert!(
        begun.elapsed() < 2 * SECOND,
        "not only when the lease is over"
    );
    assert_eq!(numbers(&again), numbers(&held));
    source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect("ignored");
    sleep(test_stream.options().lease).await;
    assert_eq!(
        numbers(&take(&mut source, 3).await).len(),
        3,
        "the old ids mean nothing"
    );
}

#[tokio::test]
async fn a_delivery_tells_how_often_the_message_came() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(1).await;
    for received in 1..=3 {
        let mut source = test_stream.source();
        let got = take(&mut source, 1).await;
        assert_eq!(got[0].received, Some(received));
        source.close().await.expect("closed");
    }
}

#[tokio::test]
async fn an_acknowledgement_after_the_lease_settles_nothing() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(5).await;
    let mut late = test_stream.source();
    let held = take(&mut late, 5).await;
    sleep(test_stream.options().lease).await;
    let mut other = test_stream.source();
    let theirs = take(&mut other, 5).await;
    late.acknowledge(&applied(&ids(&held)))
        .await
        .expect("ignored");
    late.requeue(&ids(&held)).await.expect("ignored");
    late.extend(&ids(&held)).await.expect("ignored");
    late.close().await.expect("closed");
    nothing(&mut other, SECOND).await;
    drop((other, theirs));
    let mut last = test_stream.source();
    assert_eq!(take(&mut last, 5).await.len(), 5);
}

#[tokio::test]
async fn a_close_gives_back_what_is_held() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(20).await;
    let options = Options {
        lease: 60 * SECOND,
        ..test_stream.options()
    };
    let mut first = NatsSource::new(options.clone()).expect("good options");
    let held = take(&mut first, 20).await;
    first
        .acknowledge(&applied(&ids(&held[..5])))
        .await
        .expect("heard");
    first.close().await.expect("closed");
    let begun = Instant::now();
    let mut next = NatsSource::new(options).expect("good options");
    let rest = take(&mut next, 15).await;
    assert!(
        begun.elapsed() < 10 * SECOND,
        "not only when the lease is over"
    );
    assert_eq!(numbers(&rest), (5..20).collect());
}

#[tokio::test]
async fn no_more_is_held_than_the_consumer_allows() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(10).await;
    let options = Options {
        max_ack_pending: 4,
        lease: 60 * SECOND,
        ..test_stream.options()
    };
    let mut source = NatsSource::new(options).expect("good options");
    let held = take(&mut source, 4).await;
    assert_eq!(held.len(), 4);
    nothing(&mut source, SECOND).await;
    source
        .acknowledge(&applied(&ids(&held[..2])))
        .await
        .expect("heard");
    assert_eq!(numbers(&take(&mut source, 2).await), [4, 5].into());
}

#[tokio::test]
async fn a_message_that_is_too_long_comes_by_its_head() {
    let test_stream = TestStream::open().await;
    let long = Bytes::from(vec![b'x'; HEAD_BYTES + 1]);
    test_stream
        .put(&[Message::new(long.clone()), Message::new("short")])
        .await;
    let options = Options {
        max_message_bytes: HEAD_BYTES,
        ..test_stream.options()
    };
    let mut source = NatsSource::new(options).expect("good options");
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(some(&mut source, 2).await);
    }
    assert_eq!(got[0].oversize_bytes, Some(long.len() as u64));
    assert_eq!(got[0].payload, long.slice(..HEAD_BYTES));
    assert_eq!(
        (got[1].oversize_bytes, &*got[1].payload),
        (None, &b"short"[..])
    );
}

#[tokio::test]
async fn a_message_is_there_at_once_however_long_it_was_waited_for() {
    let test_stream = TestStream::open().await;
    let mut source = test_stream.source();
    nothing(&mut source, 6 * SECOND).await;
    let fetching = async {
        let got = some(&mut source, 10).await;
        (got, Instant::now())
    };
    let putting = async {
        sleep(SECOND).await;
        test_stream.put_numbers(1).await;
        Instant::now()
    };
    let ((got, came), put) = tokio::join!(fetching, putting);
    assert_eq!(numbers(&got), [0].into());
    assert!(
        came.duration_since(put) < SECOND / 2,
        "{:?}",
        came.duration_since(put)
    );
}

#[tokio::test]
async fn no_more_is_handed_over_than_is_asked_for_even_if_more_was() {
    let test_stream = TestStream::open().await;
    let mut source = test_stream.source();
    nothing(&mut source, SECOND).await;
    test_stream.put_numbers(50).await;
    let mut seen = 0;
    while seen < 50 {
        let got = some(&mut source, 7).await;
        assert!(got.len() <= 7, "{}", got.len());
        seen += got.len();
    }
}

#[tokio::test]
async fn who_does_not_fetch_gets_nothing() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(1).await;
    let (mut busy, mut idle) = (test_stream.source(), test_stream.source());
    assert_eq!(some(&mut busy, 50).await.len(), 1);
    sleep(SECOND / 4).await;
    test_stream.put_numbers(10).await;
    let begun = Instant::now();
    assert_eq!(numbers(&take(&mut idle, 10).await).len(), 10);
    assert!(
        begun.elapsed() < 2 * SECOND,
        "not only when a lease is over"
    );
}

#[tokio::test]
async fn waiting_costs_next_to_nothing() {
    let test_stream = TestStream::open().await;
    let (proxy, url) = in_front_of(&test_stream.url);
    let options = Options {
        url,
        max_ack_pending: 2,
        lease: 60 * SECOND,
        ..test_stream.options()
    };
    let mut source = NatsSource::new(options).expect("good options");
    source.connect().await.expect("connected");
    let before = proxy.seen().client_bytes;
    nothing(&mut source, 4 * SECOND).await;
    let idle = proxy.seen().client_bytes - before;
    assert!(idle < 1_000, "{idle} bytes to ask of an empty stream");
    // No more may be held, though there is more.
    test_stream.put_numbers(10).await;
    take(&mut source, 2).await;
    let before = proxy.seen().client_bytes;
    nothing(&mut source, 4 * SECOND).await;
    let full = proxy.seen().client_bytes - before;
    assert!(full < 5_000, "{full} bytes to ask for what may not be held");
}

#[tokio::test]
async fn only_what_is_on_the_subject_comes() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(1).await;
    let subject = format!("{}.mine", test_stream.name);
    let sent = test_stream
        .context
        .publish(subject.clone(), "7".into())
        .await
        .expect("sent");
    sent.await.expect("stored");
    let options = Options {
        filter_subject: Some(subject),
        ..test_stream.options()
    };
    let mut source = NatsSource::new(options).expect("good options");
    assert_eq!(numbers(&some(&mut source, 10).await), [7].into());
    nothing(&mut source, SECOND).await;
}

#[tokio::test]
async fn a_consumer_that_somebody_deletes_is_made_anew() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(3).await;
    let mut source = test_stream.source();
    let held = take(&mut source, 3).await;
    source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect("heard");
    // One that waits gets an error, one that asks later finds nobody.
    for _ in 0..2 {
        let deleting = async {
            sleep(SECOND / 2).await;
            let deleted = test_stream.stream().await.delete_consumer(CONSUMER).await;
            deleted.expect("deleted");
        };
        let (again, ()) = tokio::join!(
            async {
                let waited = tokio::time::timeout(20 * SECOND, take(&mut source, 3)).await;
                waited.expect("all of the stream comes again")
            },
            deleting
        );
        assert_eq!(numbers(&again), (0..3).collect());
        source
            .acknowledge(&applied(&ids(&again)))
            .await
            .expect("heard");
    }
    let deleted = test_stream.stream().await.delete_consumer(CONSUMER).await;
    deleted.expect("deleted");
    assert_eq!(take(&mut source, 3).await.len(), 3);
}

#[tokio::test]
async fn a_batch_is_no_larger_than_the_consumer_allows() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(9).await;
    let config = pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ack_wait: test_stream.options().lease,
        max_batch: 2,
        max_expires: SECOND,
        ..pull::Config::default()
    };
    test_stream
        .stream()
        .await
        .create_consumer(config)
        .await
        .expect("a consumer");
    let mut source = test_stream.source();
    let got = take(&mut source, 9).await;
    assert_eq!(got.len(), 9);
    nothing(&mut source, 2 * SECOND).await;
}

/// The other source was killed or lives; nobody can tell which.
#[tokio::test]
async fn what_another_source_has_in_hand_is_told_while_nothing_comes() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(5).await;
    let mut first = test_stream.source();
    assert_eq!(take(&mut first, 5).await.len(), 5);
    drop(first);
    let mut source = test_stream.source();
    let told = timeout(2 * SECOND, source.fetch(10)).await;
    match told.expect("a word in time").expect("a source of use") {
        Fetched::Elsewhere { deliveries, within } => {
            assert_eq!((deliveries, within), (5, test_stream.options().lease));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(source.hold(), Some(test_stream.options().lease));
    // Once, and then they come.
    let again = timeout(10 * SECOND, source.fetch(10)).await;
    let again = again.expect("they come again").expect("a source of use");
    assert!(matches!(again, Fetched::Deliveries(_)), "{again:?}");
}

/// Deliveries in its own hand are not reported.
#[tokio::test]
async fn nothing_is_told_of_deliveries_of_its_own() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(5).await;
    let mut source = test_stream.source();
    let held = take(&mut source, 5).await;
    let idle = timeout(2 * SECOND, source.fetch(10)).await;
    assert!(idle.is_err(), "{idle:?}");
    source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect("heard");
}
