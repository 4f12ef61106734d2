//! Contents of a message, and the parts that stay the same when it comes again.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use semel_broker_amqp::{AmqpSource, HEAD_BYTES};
use semel_conformance::source::applied;
use semel_core::port::source::Source;

use crate::lab::{Queue, header, ids, some, take};

#[tokio::test]
async fn a_message_without_an_id_is_known_by_its_content() {
    let queue = Queue::open().await;
    queue.put_raw(b"one", BasicProperties::default()).await;
    queue.put_raw(b"one", BasicProperties::default()).await;
    queue.put_raw(b"two", BasicProperties::default()).await;
    queue
        .put_raw(
            b"two",
            BasicProperties::default().with_message_id("m-1".into()),
        )
        .await;
    let mut first = queue.source();
    let mut got = Vec::new();
    while got.len() < 4 {
        got.extend(some(&mut first, 4).await);
    }
    assert_eq!(
        got[0].coordinates, got[1].coordinates,
        "nothing tells them apart"
    );
    assert_ne!(got[0].coordinates, got[2].coordinates);
    assert!(
        got[0]
            .coordinates
            .starts_with(&format!("amqp-hash:{}:", queue.name))
    );
    assert_eq!(*got[3].coordinates, format!("amqp:{}:m-1", queue.name));
    drop(first);
    let mut next = queue.source();
    let mut again = Vec::new();
    while again.len() < 4 {
        again.extend(some(&mut next, 4).await);
    }
    let places = |of: &[semel_core::port::source::Delivery]| -> Vec<_> {
        of.iter().map(|it| it.coordinates.clone()).collect()
    };
    assert_eq!(places(&got), places(&again));
}

#[tokio::test]
async fn a_long_message_is_handed_over_by_its_beginning() {
    let queue = Queue::open().await;
    let long = vec![b'x'; HEAD_BYTES * 3];
    queue.put_raw(&long, BasicProperties::default()).await;
    queue.put_raw(b"short", BasicProperties::default()).await;
    let mut options = queue.options();
    options.max_message_bytes = HEAD_BYTES * 3 - 1;
    let mut source = AmqpSource::connect(options).await.expect("up");
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(some(&mut source, 2).await);
    }
    assert_eq!(got[0].oversize_bytes, Some(long.len() as u64));
    assert_eq!(got[0].payload, long[..HEAD_BYTES]);
    assert_eq!(got[1].oversize_bytes, None);
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("told");
    source.close().await.expect("an end");
    // The hash covers the whole message.
    let other = queue.name.clone();
    let mut hash = blake3::Hasher::new();
    hash.update(&(other.len() as u64).to_le_bytes());
    hash.update(other.as_bytes());
    hash.update(&long);
    let place = format!("amqp-hash:{other}:{}", hash.finalize().to_hex());
    assert_eq!(*got[0].coordinates, place);
}

#[tokio::test]
async fn a_quorum_queue_counts_how_often_a_message_came() {
    let queue = Queue::quorum().await;
    queue.put(0..1).await;
    for count in 0..3 {
        let mut source = queue.source();
        let got = take(&mut source, 1).await;
        let text = header(&got[0], "x-delivery-count");
        if count > 0 {
            assert_eq!(text, Some(count.to_string().as_bytes()));
        }
        assert_eq!(got[0].received, Some(count + 1));
        source.close().await.expect("an end");
    }
}

#[tokio::test]
async fn a_classic_queue_tells_only_the_first_time_from_later_ones() {
    let queue = Queue::open().await;
    queue.put(0..1).await;
    for received in [Some(1), None, None] {
        let mut source = queue.source();
        let got = take(&mut source, 1).await;
        assert_eq!(got[0].received, received);
        source.close().await.expect("an end");
    }
}

#[tokio::test]
async fn a_dead_letter_tells_where_it_died() {
    let dead = Queue::open().await;
    let name: &'static str = Box::leak(dead.name.clone().into_boxed_str());
    let more = [
        ("x-dead-letter-exchange", "".into()),
        ("x-dead-letter-routing-key", name.into()),
        ("x-message-ttl", 1.into()),
    ];
    let queue = Queue::make(dead.url.clone(), &more).await;
    let mut table = FieldTable::default();
    table.insert("n".into(), AMQPValue::LongLongInt(-7));
    let properties = BasicProperties::default()
        .with_message_id("m-1".into())
        .with_headers(table);
    queue.put_raw(b"late", properties).await;
    let mut source = dead.source();
    let got = some(&mut source, 1).await;
    let death: serde_json::Value =
        serde_json::from_slice(header(&got[0], "x-death").expect("a death")).expect("JSON");
    assert_eq!(death[0]["reason"], "expired");
    assert_eq!(death[0]["queue"], queue.name);
    assert_eq!(death[0]["count"], 1);
    assert_eq!(header(&got[0], "n"), Some(&b"-7"[..]));
    assert_eq!(header(&got[0], "amqp-message-id"), Some(&b"m-1"[..]));
}
