//! The count of what a group of a real cluster has not committed.

use semel_broker_kafka::Backlog;
use semel_conformance::source::applied;
use semel_core::port::source::Source;

use crate::cluster::{Topic, ids, take};

#[tokio::test]
async fn what_the_group_has_not_committed_is_counted() {
    let topic = Topic::with(3, &[]).await;
    let mut backlog = Backlog::new(topic.options());
    assert_eq!(backlog.count().await.expect("a count"), Some(0));
    topic.number(0..10, 3).await;
    assert_eq!(backlog.count().await.expect("a count"), Some(10));
    let mut source = topic.source();
    let some = take(&mut source, 10).await;
    assert_eq!(backlog.count().await.expect("a count"), Some(10), "in hand");
    source.acknowledge(&applied(&ids(&some))).await.expect("it");
    source.close().await.expect("closed");
    assert_eq!(backlog.count().await.expect("a count"), Some(0));
    topic.number(10..14, 3).await;
    assert_eq!(backlog.count().await.expect("a count"), Some(4));
}
