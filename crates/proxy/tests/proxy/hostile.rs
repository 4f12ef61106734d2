//! Clients and upstreams that do what is allowed and seldom done: nothing runs twice for it, and nobody else is asked.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::site::{Seen, Site, rest};
use crate::upstream::{Upstream, answer};

#[tokio::test]
async fn a_redirect_goes_to_the_client_and_is_never_followed() {
    let other = Upstream::counting().await;
    let location = format!("location: http://{}/latest/meta-data\r\n", other.address);
    for (status, line) in [
        ("302 Found", "GET /other"),
        ("307 Temporary Redirect", "POST /charges"),
    ] {
        let fields = location.clone();
        let upstream = Upstream::answering(move |_, _| answer(status, &fields, "there")).await;
        let site = Site::before(upstream.address, |_| ()).await;
        let asked = async || site.send(line, "idempotency-key: k\r\n", "x").await;
        let first = asked().await;
        assert_eq!(first.status.to_string(), status[..3]);
        let told = first.field("location").map(str::to_owned);
        assert!(told.is_some_and(|it| location.contains(&it)), "{first:?}");
        if line.starts_with("POST") {
            let again = asked().await;
            assert!(again.is_replay(), "{again:?}");
            assert_eq!(again.field("location"), first.field("location"));
        }
        upstream.only();
    }
    assert!(other.arrived().is_empty(), "{:?}", other.arrived());
}

#[tokio::test]
async fn an_answer_with_hints_before_it_and_trailers_behind_it_is_one_answer() {
    let upstream = Upstream::answering(|_, _| {
        let hints = "HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n";
        let body = "4\r\nlate\r\n0\r\nx-sum: 1\r\n\r\n";
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n";
        format!("{hints}{head}{body}").into_bytes()
    })
    .await;
    let site = Site::before(upstream.address, |_| ()).await;
    for is_replay in [false, true] {
        let seen = site.charge("k").await;
        assert_eq!((seen.status, &seen.body[..]), (200, "late"), "{seen:?}");
        assert_eq!(seen.is_replay(), is_replay);
    }
    upstream.only();
}

/// A client that has closed its side of a connection may not read any more: it counts as one that hung up.
#[tokio::test]
async fn a_client_that_closes_its_side_alone_does_not_stop_its_request() {
    let (upstream, free) = Upstream::gated().await;
    let site = Site::before(upstream.address, |_| ()).await;
    let mut client = site.connect().await;
    let request = "POST /charges HTTP/1.1\r\nhost: api.example\r\nidempotency-key: k\r\n\
                   content-length: 12\r\n\r\n{\"amount\":7}";
    client.write_all(request.as_bytes()).await.expect("sent");
    upstream.has(1).await;
    client.shutdown().await.expect("half closed");
    free.add_permits(1);
    let told = rest(&mut client).await;
    assert!(
        told.is_empty() || told.starts_with("HTTP/1.1 201"),
        "{told}"
    );
    let again = site.charge("k").await;
    assert_eq!((again.status, again.is_replay()), (201, true), "{again:?}");
    upstream.only();
}

#[tokio::test]
async fn a_client_that_is_told_to_go_on_and_sends_nothing_makes_no_claim() {
    let upstream = Upstream::counting().await;
    let idle = |it: &mut semel_proxy::Settings| it.body_idle = Duration::from_millis(300);
    let site = Site::before(upstream.address, idle).await;
    let head = "POST /charges HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\nexpect: 100-continue\r\n\
                content-length: 12\r\n\r\n";
    let told = site.raw(head).await;
    let (first, last) = told.split_once("\r\n\r\n").expect("two answers");
    assert!(first.starts_with("HTTP/1.1 100"), "{told}");
    Seen::of(last).problem(400, "invalid-input");
    assert!(upstream.arrived().is_empty());
    assert_eq!(site.charge("k").await.status, 201);
}

/// Without a length it has no body (RFC 9112, 6.3), and its connection ends with the answer: what follows is read by
/// nobody.
#[tokio::test]
async fn what_follows_a_request_of_http_1_0_without_a_length_is_no_body_and_no_request() {
    let upstream = Upstream::counting().await;
    let site = Site::before(upstream.address, |_| ()).await;
    for (line, key) in [
        ("POST /other", ""),
        ("POST /charges", "idempotency-key: k\r\n"),
    ] {
        let before = upstream.arrived().len();
        let hidden = "GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n";
        let told = site
            .raw(&format!("{line} HTTP/1.0\r\n{key}\r\n{hidden}"))
            .await;
        assert_eq!(told.matches("HTTP/1.").count(), 1, "{told}");
        let arrived = upstream.arrived();
        assert_eq!(arrived.len(), before + 1, "{arrived:?}");
        assert!(arrived[before].body.is_empty(), "{arrived:?}");
    }
}
