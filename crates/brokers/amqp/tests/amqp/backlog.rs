//! The count of what waits in a queue of a real broker.

use semel_broker_amqp::{Backlog, Options};

use crate::lab::Queue;

#[tokio::test]
async fn what_is_ready_in_the_queue_is_counted() {
    let queue = Queue::open().await;
    let mut backlog = Backlog::new(queue.options());
    assert_eq!(backlog.count().await.expect("a count"), 0);
    queue.put(0..7).await;
    queue.until_ready(7).await;
    assert_eq!(backlog.count().await.expect("a count"), 7);
    let mut absent = Backlog::new(Options::new(&queue.url, "no-such-queue"));
    for _ in 0..2 {
        absent.count().await.expect_err("no queue");
    }
}
