//! The messages that are handed over: their size, and their headers.

use std::sync::atomic::Ordering;

use semel_core::ErrorKind;
use semel_core::producer::ProducerMessage;
use semel_outbox::producer::MOST_BYTES_AT_ONCE;

use super::lab::World;

#[tokio::test(start_paused = true)]
async fn more_bytes_than_are_handed_over_at_once_are_refused_and_fewer_are_divided() {
    let world = World::default();
    let producer = world.producer().await;
    let large = |bytes: usize| ProducerMessage::new(vec![b'x'; bytes]);
    let batch = vec![ProducerMessage::new("a"), large(MOST_BYTES_AT_ONCE + 1)];
    let refused = producer.publish(batch).await.expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let together = vec![large(MOST_BYTES_AT_ONCE / 2 + 1); 2];
    let refused = producer.submit(together.clone(), None).await;
    assert!(refused.is_err(), "handed over");
    assert_eq!(world.unconfirmed().await, (1, 0), "nothing of it is taken");
    producer.publish(together).await.expect("published");
    let largest = world.journal.0.largest_body.load(Ordering::Relaxed);
    let most = MOST_BYTES_AT_ONCE as u64 / 2 + 100;
    assert!(largest <= most, "{largest} bytes in a batch");
}

#[tokio::test(start_paused = true)]
async fn headers_of_a_forwarded_message_say_nothing_of_this_one() {
    let world = World::default();
    let producer = world.producer().await;
    let theirs = [
        "Semel-Id",
        "semel-producer",
        "semel-epoch",
        "SEMEL-SEQUENCE",
        "kafka-key",
        "Nats-Msg-Id",
        "kind",
    ];
    let message = ProducerMessage {
        headers: theirs.map(|name| (name.into(), "theirs".into())).into(),
        ..ProducerMessage::new("a")
    };
    producer.publish(vec![message]).await.expect("published");
    let names = world.broker.contents().headers.concat();
    let expected = [
        "kind",
        "semel-id",
        "semel-producer",
        "semel-epoch",
        "semel-sequence",
    ];
    assert_eq!(names, expected);
}
