//! The count of what waits for a consumer of a real server.

use std::time::Duration;

use semel_broker_nats::Backlog;
use semel_conformance::source::applied;
use semel_core::port::source::Source;
use tokio::time::{Instant, sleep};

use crate::test_stream::TestStream;
use crate::{ids, take};

#[tokio::test]
async fn what_was_not_handed_over_is_counted() {
    let test_stream = TestStream::open().await;
    let mut backlog = Backlog::new(test_stream.options());
    backlog.count().await.expect_err("no consumer yet");
    let mut source = test_stream.source();
    test_stream.put_numbers(1).await;
    let first = take(&mut source, 1).await;
    source
        .acknowledge(&applied(&ids(&first)))
        .await
        .expect("it");
    source.close().await.expect("closed");
    assert_eq!(backlog.count().await.expect("a count"), 0);
    test_stream.put_numbers(7).await;
    // The server counts for a consumer a moment after it has confirmed the messages.
    let since = Instant::now();
    while backlog.count().await.expect("a count") != 7 {
        assert!(since.elapsed() < Duration::from_secs(60), "not counted");
        sleep(Duration::from_millis(5)).await;
    }
}
