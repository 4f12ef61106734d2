//! A stream that is read again: all its messages, once, and then the end; the workers do not
//! notice.

use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::RetentionPolicy;
use semel_broker_nats::Options;
use semel_conformance::source::applied;
use semel_core::port::rescan::RescanSource;
use semel_core::port::source::{Delivery, Fetched, Source};
use semel_core::{Error, ErrorKind, Timestamp};
use tokio::time::{sleep, timeout};

use crate::test_stream::{CONSUMER, TestStream};
use crate::{ids, in_front_of, numbers, take};

fn rescan(options: Options, since: Option<Timestamp>) -> RescanSource {
    semel_broker_nats::rescan(options, since).expect("good options")
}

/// Returns all messages until the end, whatever is away meanwhile.
async fn rest(source: &mut RescanSource) -> Result<Vec<Delivery>, Error> {
    let mut all = Vec::new();
    loop {
        let fetched = timeout(Duration::from_secs(40), source.fetch(300));
        match fetched.await.expect("something comes, or the end")? {
            Fetched::Deliveries(some) => all.extend(some),
            Fetched::Away(_) | Fetched::Back => {}
            Fetched::Ended => return Ok(all),
            other @ (Fetched::Revoked(_) | Fetched::Elsewhere { .. }) => panic!("{other:?}"),
        }
    }
}

fn in_order(count: u32) -> Vec<u32> {
    (0..count).collect()
}

fn read(deliveries: &[Delivery]) -> Vec<u32> {
    let number = |delivery: &Delivery| {
        let text = std::str::from_utf8(&delivery.payload).expect("a number");
        text.parse().expect("a number")
    };
    deliveries.iter().map(number).collect()
}

#[tokio::test]
async fn it_is_read_to_the_end_that_it_had_and_its_consumer_stays_where_it_is() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(2_500).await;
    let mut live = test_stream.source();
    let held = take(&mut live, 10).await;
    live.acknowledge(&applied(&ids(&held[..5])))
        .await
        .expect("heard");
    let mut source = rescan(test_stream.options(), None);
    let Ok(Fetched::Deliveries(mut all)) = source.fetch(100).await else {
        panic!("nothing came");
    };
    // Messages that come once it has begun are for the workers.
    test_stream.put_numbers(5).await;
    all.extend(rest(&mut source).await.expect("the end"));
    assert_eq!(read(&all), in_order(2_500));
    assert_eq!(
        *all[2_499].coordinates,
        format!("nats:{}:2500", test_stream.name)
    );
    assert!(all[0].appended_at.is_some());
    assert!(matches!(source.fetch(1).await, Ok(Fetched::Ended)));
    source
        .acknowledge(&applied(&ids(&all)))
        .await
        .expect("ignored");
    let info = test_stream.stream().await.consumer_info(CONSUMER).await;
    let info = info.expect("the consumer");
    assert_eq!(info.ack_floor.stream_sequence, 5);
    // The deliveries it holds are still its own.
    live.acknowledge(&applied(&ids(&held[5..])))
        .await
        .expect("heard");
    assert_eq!(numbers(&take(&mut live, 1).await).len(), 1);
}

#[tokio::test]
async fn what_is_older_is_left_out_and_an_empty_stream_ends() {
    let test_stream = TestStream::open().await;
    let nothing = rest(&mut rescan(test_stream.options(), None)).await;
    assert!(nothing.expect("the end").is_empty());
    test_stream.put_numbers(3).await;
    sleep(Duration::from_millis(300)).await;
    test_stream.put_numbers(2).await;
    let stored = test_stream.stream().await.get_raw_message(4).await;
    let nanos = stored.expect("the message").time.unix_timestamp_nanos();
    let since = Timestamp::from_millis(u64::try_from(nanos / 1_000_000).expect("a time"));
    let young = rest(&mut rescan(test_stream.options(), Some(since))).await;
    assert_eq!(read(&young.expect("the end")), in_order(2));
    let later = since.plus(Duration::from_secs(60));
    let none = rest(&mut rescan(test_stream.options(), Some(later))).await;
    assert!(none.expect("the end").is_empty());
}

#[tokio::test]
async fn connections_that_break_repeat_nothing_and_leave_nothing_out() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(4_000).await;
    let (proxy, url) = in_front_of(&test_stream.url);
    let options = Options {
        url,
        ..test_stream.options()
    };
    let mut source = rescan(options, None);
    let mut all = Vec::new();
    for _ in 0..3 {
        let Ok(Fetched::Deliveries(some)) = source.fetch(100).await else {
            panic!("nothing came");
        };
        all.extend(some);
        proxy.cut_now();
    }
    all.extend(rest(&mut source).await.expect("the end"));
    assert_eq!(read(&all), in_order(4_000));
    assert!(proxy.seen().accepted > 1, "it was cut");
}

#[tokio::test]
async fn it_ends_although_what_was_to_come_is_deleted() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(9_000).await;
    let mut source = rescan(test_stream.options(), None);
    let Ok(Fetched::Deliveries(mut all)) = source.fetch(1).await else {
        panic!("nothing came");
    };
    test_stream.stream().await.purge().await.expect("deleted");
    all.extend(rest(&mut source).await.expect("the end"));
    assert!(all.len() < 9_000, "it was read before it was deleted");
    let count = u32::try_from(all.len()).expect("few");
    assert_eq!(read(&all), in_order(count));
}

#[tokio::test]
async fn it_has_the_subjects_of_its_consumer() {
    let test_stream = TestStream::open().await;
    let wanted = format!("{}.wanted", test_stream.name);
    let config = pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        filter_subject: wanted.clone(),
        ..pull::Config::default()
    };
    let made = test_stream.stream().await.create_consumer(config).await;
    let _ = made.expect("a consumer");
    test_stream.put_numbers(2).await;
    let sent = test_stream
        .context
        .publish(wanted.clone(), "7".into())
        .await;
    sent.expect("sent").await.expect("stored");
    test_stream.put_numbers(2).await;
    let filtered = rest(&mut rescan(test_stream.options(), None)).await;
    assert_eq!(read(&filtered.expect("the end")), [7]);
    let mut options = test_stream.options();
    options.filter_subject = Some(test_stream.name.clone());
    let others = rest(&mut rescan(options, None)).await;
    assert_eq!(read(&others.expect("the end")), [0, 1, 0, 1]);
}

#[tokio::test]
async fn what_is_gone_or_not_there_is_refused() {
    let test_stream = TestStream::open().await;
    let mut options = test_stream.options();
    options.stream.push_str("-not");
    let error = rest(&mut rescan(options, None))
        .await
        .expect_err("no stream");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    let queue = TestStream::open().await;
    let client = queue.context.delete_stream(&queue.name).await;
    client.expect("deleted");
    queue
        .make(|config| config.retention = RetentionPolicy::WorkQueue)
        .await;
    queue.put_numbers(1).await;
    let error = rest(&mut rescan(queue.options(), None)).await;
    let error = error.expect_err("it keeps nothing");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("deletes what is acknowledged"));
}
