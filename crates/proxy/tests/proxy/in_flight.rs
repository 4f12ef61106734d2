//! The most requests at once: who has a place, and until when.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::site::{LONG, Site, read_until};
use crate::upstream::Upstream;

#[tokio::test]
async fn requests_beyond_the_most_at_once_are_told_to_come_again() {
    let (upstream, free) = Upstream::gated().await;
    let one = |it: &mut semel_proxy::Settings| it.most_in_flight = 1;
    let site = Arc::new(Site::before(upstream.address, one).await);
    let first = Arc::clone(&site);
    let first = tokio::spawn(async move { first.charge("k1").await });
    upstream.has(1).await;
    let beyond = site.charge("k2").await;
    beyond.problem(503, "throttled");
    assert_eq!(beyond.field("retry-after"), Some("1"));
    free.add_permits(2);
    assert_eq!(first.await.expect("no panic").status, 201);
    assert_eq!(site.charge("k2").await.status, 201);
}

/// Its client is gone, and the upstream still works for it.
#[tokio::test]
async fn a_request_whose_client_hung_up_keeps_its_place_until_the_upstream_answers() {
    let (upstream, free) = Upstream::gated().await;
    let one = |it: &mut semel_proxy::Settings| it.most_in_flight = 1;
    let site = Site::before(upstream.address, one).await;
    let mut hasty = site.connect().await;
    let request = "POST /charges HTTP/1.1\r\nhost: api.example\r\nidempotency-key: k1\r\n\
                   content-length: 12\r\n\r\n{\"amount\":7}";
    hasty.write_all(request.as_bytes()).await.expect("sent");
    upstream.has(1).await;
    drop(hasty);
    // Meanwhile the proxy sees that the client is gone.
    for _ in 0..20 {
        site.charge("k2").await.problem(503, "throttled");
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(site.proxy.counts().in_flight, 1);
    free.add_permits(2);
    let answered = async {
        while site.charge("k2").await.status != 201 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let answered = timeout(LONG, answered).await;
    answered.expect("the place is free");
}

#[tokio::test]
async fn an_answer_keeps_its_place_until_it_has_gone() {
    let upstream = Upstream::new(|_, _, mut stream| {
        Box::pin(async move {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: one\n\n";
            stream.write_all(head.as_bytes()).await.ok()?;
            // It ends when its reader does.
            let _ = stream.read(&mut [0]).await;
            None
        })
    })
    .await;
    let one = |it: &mut semel_proxy::Settings| it.most_in_flight = 1;
    let site = Site::before(upstream.address, one).await;
    let mut reader = site.connect().await;
    let request = "GET /events HTTP/1.1\r\nhost: a\r\n\r\n";
    reader.write_all(request.as_bytes()).await.expect("sent");
    read_until(&mut reader, "data: one").await;
    site.send("GET /", "", "").await.problem(503, "throttled");
    drop(reader);
    let answered = async {
        while site.send("HEAD /", "", "").await.status != 200 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let answered = timeout(LONG, answered).await;
    answered.expect("the place is free");
}
