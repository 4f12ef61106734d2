//! Bodies of requests that are refused before the handler is called.

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, Request};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full};

use crate::site::{Site, created, with};

fn sent(key: Option<&str>, body: Body) -> Request<Body> {
    let mut request = Request::post("/charges");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request.body(body).expect("a request")
}

fn trailing() -> Body {
    let trailers = std::future::ready(Some(Ok(HeaderMap::new())));
    Body::new(Full::new(Bytes::from_static(b"x")).with_trailers(trailers))
}

fn unannounced(pieces: &[&'static str]) -> Body {
    let pieces: Vec<_> = pieces
        .iter()
        .map(|it| Ok::<_, std::io::Error>(*it))
        .collect();
    Body::from_stream(stream::iter(pieces))
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_the_handler() {
    let site = Site::counting(|it| it.max_body_bytes = 10);
    for body in [Body::from("0123456789a"), unannounced(&["0123456789", "a"])] {
        site.send(sent(Some("pay-1"), body))
            .await
            .problem(413, "body-too-large");
    }
    let announced = [("idempotency-key", "pay-1"), ("content-length", "11")];
    site.send(with(&announced, ""))
        .await
        .problem(413, "body-too-large");
    assert_eq!(site.calls(), 0);
    // The key is free, and a body that fits is whole.
    let fits = unannounced(&["01234", "56789"]);
    site.send(sent(Some("pay-1"), fits))
        .await
        .is_created(1, false);
}

#[tokio::test]
async fn a_handler_gets_the_body_byte_for_byte() {
    let site = Site::new(
        |_| {},
        async |call, request: Request<Body>| {
            assert_eq!(request.body().size_hint().exact(), Some(4));
            let body = request.into_body().collect().await.expect("it").to_bytes();
            assert_eq!(&body[..], b"a\xff\r\n");
            Ok(created(call))
        },
    );
    let body = Body::from(&b"a\xff\r\n"[..]);
    site.send(sent(Some("pay-1"), body))
        .await
        .is_created(1, false);
}

#[tokio::test]
async fn trailers_and_upgrades_pass_without_a_key_alone() {
    let site = Site::new(
        |_| {},
        async |call, request: Request<Body>| {
            let body = request.into_body().collect().await.expect("it");
            assert!(body.trailers().is_some());
            Ok(created(call))
        },
    );
    site.send(sent(Some("pay-1"), trailing()))
        .await
        .problem(501, "unsupported");
    site.send(sent(None, trailing())).await.is_created(1, false);
    let site = Site::counting(|_| {});
    let upgrade = ("upgrade", "websocket");
    site.send(with(&[("idempotency-key", "k"), upgrade], ""))
        .await
        .problem(501, "unsupported");
    site.send(with(&[upgrade], "")).await.is_created(1, false);
}

#[tokio::test]
async fn a_body_that_breaks_off_burns_no_key() {
    let site = Site::counting(|_| {});
    let pieces = vec![Ok("a"), Err(std::io::Error::other("gone"))];
    let broken = Body::from_stream(stream::iter(pieces));
    site.send(sent(Some("pay-1"), broken))
        .await
        .problem(400, "invalid-input");
    assert_eq!(site.calls(), 0);
    site.send(sent(Some("pay-1"), Body::from("other")))
        .await
        .is_created(1, false);
}

/// The unread part of a request would be the next request on its connection.
#[tokio::test]
async fn a_replay_comes_after_the_whole_body_was_read() {
    let site = Site::counting(|_| {});
    for is_replay in [false, true] {
        let pieces = ["a", "b", "c"];
        let (read, count) = tokio::sync::watch::channel(0);
        let pieces = pieces.into_iter().map(move |piece| {
            read.send_modify(|read| *read += 1);
            Ok::<_, std::io::Error>(piece)
        });
        let body = Body::from_stream(stream::iter(pieces));
        let seen = site.send(sent(Some("pay-1"), body)).await;
        seen.is_created(1, is_replay);
        assert_eq!(*count.borrow(), 3, "replay: {is_replay}");
    }
}
