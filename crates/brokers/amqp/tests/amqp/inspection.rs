//! Horizons of queues of a real broker, which over AMQP are few.

use semel_broker_amqp::{Options, inspect};
use semel_core::ErrorKind;
use semel_core::port::horizon::Horizon;

use crate::lab::Queue;

#[tokio::test]
async fn a_queue_is_there_and_tells_no_more() {
    let queue = Queue::open().await;
    let horizons = inspect(&queue.options()).await.expect("an inspection");
    assert_eq!(horizons.redelivery, Horizon::Unknown);
    assert_eq!(horizons.replay, Horizon::Unknown);
    // `x-expires` is an argument of every queue of these tests, and AMQP does not say so.
    let facts: Vec<_> = horizons.facts.iter().map(|fact| &*fact.name).collect();
    assert_eq!(facts, ["messages", "consumers"]);
    let unread = horizons.unread.iter();
    assert!(unread.clone().any(|it| &*it.name == "x-message-ttl"));
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_an_error() {
    let queue = Queue::open().await;
    let absent = Options::new(&queue.url, "no-such-queue");
    let error = inspect(&absent).await.expect_err("no queue");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("no-such-queue"), "{error}");
    // The look did not create it.
    inspect(&absent).await.expect_err("still none");
    let nobody = free_port::take().expect("a free port");
    let away = Options::new(format!("amqp://127.0.0.1:{nobody}"), &queue.name);
    let error = inspect(&away).await.expect_err("nobody");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}
