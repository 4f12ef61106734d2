//! Requests without a claim: they pass as they are, both ways, as they come.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::site::{Seen, Site, read_until, rest};
use crate::upstream::{Upstream, answer, created};

#[tokio::test]
async fn what_no_route_matches_passes_and_is_counted() {
    let upstream = Upstream::counting().await;
    let site = Site::before(upstream.address, |_| ()).await;
    for call in 1..=2 {
        let fields =
            "idempotency-key: pay-1\r\nsemel-operation-id: forged\r\ntraceparent: 00-1-2-01\r\n";
        let seen = site.send("POST /other?a=%2F&b", fields, "x").await;
        assert_eq!((seen.status, seen.body), (201, format!("call {call}")));
        assert_eq!(seen.head.matches("x-upstream").count(), 1);
    }
    let arrived = upstream.arrived();
    assert_eq!(arrived.len(), 2);
    assert_eq!(arrived[0].line(), "POST /other?a=%2F&b HTTP/1.1");
    assert_eq!(arrived[0].field("semel-operation-id"), None);
    assert_eq!(arrived[0].field("traceparent"), Some("00-1-2-01"));
    assert_eq!(arrived[0].field("idempotency-key"), Some("pay-1"));
    assert_eq!(arrived[0].field("connection"), None);
    // A route passes what is none of its methods, and what has no key.
    site.send("GET /charges", "", "").await;
    site.send("POST /charges", "", "x").await;
    let counts = site.proxy.counts();
    assert_eq!((counts.unmatched, counts.routes[0].counts.keyless), (2, 1));
    assert_eq!(counts.routes[0].path, "/charges");
}

#[tokio::test]
async fn the_upstream_is_told_who_asks() {
    let upstream = Upstream::counting().await;
    let site = Site::before(upstream.address, |_| ()).await;
    let fields = "x-forwarded-for: 6.6.6.6\r\nforwarded: for=6.6.6.6\r\nvia: 1.0 a\r\n";
    site.send("GET /", fields, "").await;
    let arrived = upstream.only();
    assert_eq!(arrived.field("host"), Some("api.example"));
    assert_eq!(arrived.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(arrived.field("x-forwarded-proto"), Some("http"));
    assert_eq!(arrived.field("x-forwarded-host"), Some("api.example"));
    assert_eq!(
        arrived.field("forwarded"),
        Some("for=127.0.0.1;proto=http;host=\"api.example\"")
    );
    assert_eq!(arrived.field("via"), Some("1.0 a, 1.1 semel"));
}

#[tokio::test]
async fn an_upstream_can_be_told_its_own_name() {
    let upstream = Upstream::counting().await;
    let own = |it: &mut semel_proxy::Settings| it.keep_host = false;
    let site = Site::before(upstream.address, own).await;
    site.send("GET /", "", "").await;
    let (arrived, name) = (upstream.only(), upstream.address.to_string());
    assert_eq!(arrived.field("host"), Some(&name[..]));
    assert_eq!(arrived.field("x-forwarded-host"), Some("api.example"));
}

#[tokio::test]
async fn an_answer_is_passed_as_it_comes_guarded_or_not() {
    for line in ["GET /events", "POST /charges"] {
        let upstream = Upstream::new(|_, _, mut stream| {
            Box::pin(async move {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
                stream.write_all(head.as_bytes()).await.ok()?;
                stream.write_all(b"data: one\n\n").await.ok()?;
                // It goes on when the client has seen that.
                let mut sign = [0];
                let _ = stream.read(&mut sign).await;
                None
            })
        })
        .await;
        let site = Site::before(upstream.address, |_| ()).await;
        let mut client = site.connect().await;
        let request = format!(
            "{line} HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: 0\r\n\r\n"
        );
        client.write_all(request.as_bytes()).await.expect("sent");
        let read = read_until(&mut client, "data: one").await;
        assert!(read.starts_with("HTTP/1.1 200"), "{read}");
        drop(client);
        if line.starts_with("POST") {
            site.send("POST /charges", "idempotency-key: k\r\n", "")
                .await
                .problem(410, "answer-streamed");
            upstream.only();
        }
    }
}

#[tokio::test]
async fn a_body_is_passed_as_it_comes() {
    let upstream = Upstream::new(|_, arrived, mut stream| {
        Box::pin(async move {
            let body = answer("200 OK", "", &arrived.body.len().to_string());
            stream.write_all(&body).await.ok()?;
            Some(stream)
        })
    })
    .await;
    let site = Site::before(upstream.address, |_| ()).await;
    // Larger than what a guarded request may have.
    let large = "x".repeat(3 << 20);
    let seen = site.send("PUT /files/1", "", &large).await;
    assert_eq!(seen.body, large.len().to_string());
    let chunked = format!(
        "PUT /files/1 HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
        large.len()
    );
    assert_eq!(
        Seen::of(&site.raw(&chunked).await).body,
        large.len().to_string()
    );
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_waited_for_as_long_as_the_settings_say() {
    let upstream = Upstream::new(|_, _, stream| {
        Box::pin(async move {
            std::future::pending::<()>().await;
            Some(stream)
        })
    })
    .await;
    let short = |it: &mut semel_proxy::Settings| {
        it.unguarded_timeout = Some(Duration::from_millis(300));
    };
    let site = Site::before(upstream.address, short).await;
    site.send("GET /", "", "")
        .await
        .problem(504, "upstream-timeout");
    site.send("POST /charges", "", "x")
        .await
        .problem(504, "upstream-timeout");
}

#[tokio::test]
async fn an_upstream_that_hangs_up_is_told_and_not_asked_again() {
    let upstream = Upstream::new(|_, _, _| Box::pin(async { None })).await;
    let site = Site::before(upstream.address, |_| ()).await;
    site.send("GET /", "", "")
        .await
        .problem(502, "upstream-broken");
    upstream.only();
}

const UPGRADE: &str = "GET /socket HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                       sec-websocket-key: x\r\n\r\n";

#[tokio::test]
async fn an_upgraded_connection_belongs_to_both_ends() {
    let upstream = Upstream::new(|_, arrived, mut stream| {
        Box::pin(async move {
            assert_eq!(arrived.field("connection"), Some("upgrade"));
            assert_eq!(arrived.field("upgrade"), Some("websocket"));
            let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhello";
            stream.write_all(head.as_bytes()).await.ok()?;
            let mut said = [0; 4];
            stream.read_exact(&mut said).await.ok()?;
            stream.write_all(&said).await.ok()?;
            None
        })
    })
    .await;
    let site = Site::before(upstream.address, |_| ()).await;
    let mut client = site.connect().await;
    client.write_all(UPGRADE.as_bytes()).await.expect("sent");
    let read = read_until(&mut client, "hello").await;
    assert!(read.starts_with("HTTP/1.1 101"), "{read}");
    assert_eq!(Seen::of(&read).field("upgrade"), Some("websocket"));
    client.write_all(b"GET ").await.expect("sent");
    assert_eq!(rest(&mut client).await, "GET ");
    upstream.only();
}

#[tokio::test]
async fn an_upgrade_that_the_upstream_declines_is_a_request_like_any_other() {
    let upstream = Upstream::counting().await;
    let site = Site::before(upstream.address, |_| ()).await;
    // What follows is the next request, and no part of a tunnel.
    let two = format!("{UPGRADE}GET /next HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    let read = site.raw(&two).await;
    assert_eq!(read.matches("HTTP/1.1 201").count(), 2, "{read}");
    let lines: Vec<_> = upstream
        .arrived()
        .iter()
        .map(|it| it.line().to_owned())
        .collect();
    assert_eq!(lines, ["GET /socket HTTP/1.1", "GET /next HTTP/1.1"]);
}

#[tokio::test]
async fn an_upgrade_with_a_key_is_refused_and_one_to_http2_is_none() {
    let upstream = Upstream::counting().await;
    let site = Site::before(upstream.address, |_| ()).await;
    let upgrade = |to: &str| {
        format!(
            "POST /charges HTTP/1.1\r\nhost: a\r\nconnection: upgrade, close\r\nupgrade: {to}\r\nidempotency-key: k\r\n\r\n"
        )
    };
    let seen = Seen::of(&site.raw(&upgrade("websocket")).await);
    seen.problem(501, "unsupported");
    assert!(upstream.arrived().is_empty());
    assert_eq!(Seen::of(&site.raw(&upgrade("h2c")).await).status, 201);
    assert_eq!(upstream.only().field("upgrade"), None);
}

#[tokio::test]
async fn a_stop_ends_upgraded_connections() {
    let upstream = Upstream::new(|_, _, mut stream| {
        Box::pin(async move {
            let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhello";
            stream.write_all(head.as_bytes()).await.ok()?;
            let _ = stream.read(&mut [0]).await;
            None
        })
    })
    .await;
    let mut site = Site::before(upstream.address, |_| ()).await;
    let mut client = site.connect().await;
    client.write_all(UPGRADE.as_bytes()).await.expect("sent");
    read_until(&mut client, "hello").await;
    let ended = tokio::time::timeout(crate::site::LONG, site.stop()).await;
    ended.expect("it ends").expect("no panic");
    assert_eq!(rest(&mut client).await, "");
}

#[tokio::test]
async fn an_upgraded_connection_ends_once_nothing_moves() {
    let upstream = Upstream::new(|_, _, mut stream| {
        Box::pin(async move {
            let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhello";
            stream.write_all(head.as_bytes()).await.ok()?;
            let mut said = Vec::new();
            // It ends with an end of the stream, whatever the client does.
            stream.read_to_end(&mut said).await.ok()?;
            assert_eq!(said, b"ping");
            None
        })
    })
    .await;
    let idle = |it: &mut semel_proxy::Settings| it.upgrade_idle = Duration::from_millis(300);
    let site = Site::before(upstream.address, idle).await;
    let mut client = site.connect().await;
    client.write_all(UPGRADE.as_bytes()).await.expect("sent");
    read_until(&mut client, "hello").await;
    client.write_all(b"ping").await.expect("sent");
    assert_eq!(rest(&mut client).await, "", "it ends by itself");
}

#[tokio::test]
async fn whoever_takes_trailers_says_so_to_the_next_server() {
    let upstream = Upstream::counting().await;
    let site = Site::before(upstream.address, |_| ()).await;
    let fields = "te: trailers, gzip\r\n";
    assert_eq!(site.send("GET /", fields, "").await.status, 201);
    let arrived = upstream.only();
    assert_eq!(arrived.field("te"), Some("trailers"));
    assert_eq!(arrived.field("connection"), Some("te"));
}

#[tokio::test]
async fn a_body_in_chunks_passes_whatever_the_method() {
    for method in ["GET", "HEAD", "DELETE", "POST"] {
        let upstream = Upstream::answering(|_, _| answer("200 OK", "", "")).await;
        let site = Site::before(upstream.address, |_| ()).await;
        let request = format!(
            "{method} /other HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
             3\r\nask\r\n0\r\n\r\n"
        );
        let passed = site.raw(&request).await;
        assert!(passed.starts_with("HTTP/1.1 200"), "{method}: {passed}");
        assert_eq!(upstream.only().body, b"ask", "{method}");
    }
}

#[tokio::test]
async fn trailers_pass_without_a_key() {
    let upstream = Upstream::answering(|call, _| created(call)).await;
    let site = Site::before(upstream.address, |_| ()).await;
    let request = |line: &str, fields: &str| {
        format!(
            "{line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n{fields}\r\n1\r\na\r\n0\r\nx-sum: 1\r\n\r\n"
        )
    };
    let passed = site.raw(&request("POST /other", "")).await;
    assert!(passed.starts_with("HTTP/1.1 201"), "{passed}");
    assert_eq!(upstream.only().body, b"a");
    let refused = site
        .raw(&request("POST /charges", "idempotency-key: k\r\n"))
        .await;
    Seen::of(&refused).problem(501, "unsupported");
}
