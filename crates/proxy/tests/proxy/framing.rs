//! Requests by the byte: what is refused, and that the upstream never sees two requests for one.

use tokio::io::AsyncWriteExt;

use crate::site::{Seen, Site, read_until};
use crate::upstream::{Upstream, answer};

/// A proxy before an upstream, and every request that this one got.
async fn site() -> (Upstream, Site) {
    let upstream = Upstream::counting().await;
    let site = Site::before(upstream.address, |_| ()).await;
    (upstream, site)
}

/// The request that must never arrive.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n";

#[tokio::test]
async fn what_can_be_read_in_two_ways_is_refused_and_the_connection_closed() {
    let (upstream, site) = site().await;
    for request in [
        // No host, two, and none that is one.
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
        "GET http://b/ HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET http://me@a/ HTTP/1.1\r\nhost: a\r\n\r\n",
        // Lengths that differ, or are none.
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 40\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3, 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0x3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\nabc",
        // Codings that are not known, or known twice.
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: pigeon\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        // Fields that are none.
        "GET / HTTP/1.1\r\nhost: a\r\n folded: b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nna me: b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\ncontent-length : 3\r\n\r\nabc",
        "GET / HTTP/1.1\r\nhost: a\r\nx: b\0c\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx: b\rc: d\r\n\r\n",
        "nonsense\r\n\r\n",
        // What is for the upstream, taken out by the client.
        "POST /charges HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\nconnection: idempotency-key\r\ncontent-length: 0\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nconnection: X-Forwarded-For\r\n\r\n",
    ] {
        let answers = site.raw(&format!("{request}{HIDDEN}")).await;
        assert!(
            answers.starts_with("HTTP/1.1 400"),
            "{request:?}: {answers}"
        );
        assert_eq!(
            answers.matches("HTTP/1.1 ").count(),
            1,
            "{request:?}: {answers}"
        );
    }
    assert!(upstream.arrived().is_empty(), "{:?}", upstream.arrived());
}

#[tokio::test]
async fn a_coding_wins_over_a_length_and_the_connection_ends() {
    for fields in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
    ] {
        for (line, key) in [
            ("POST /other", ""),
            ("POST /charges", "idempotency-key: k\r\n"),
        ] {
            let (upstream, site) = site().await;
            let request = format!(
                "{line} HTTP/1.1\r\nhost: a\r\n{key}{fields}\r\n3\r\nabc\r\n0\r\n\r\n{HIDDEN}"
            );
            let answers = site.raw(&request).await;
            assert_eq!(
                answers.matches("HTTP/1.1 ").count(),
                1,
                "{fields:?}: {answers}"
            );
            assert_eq!(upstream.only().body, b"abc");
        }
    }
}

#[tokio::test]
async fn bad_chunks_end_the_connection_and_make_no_claim() {
    for chunks in [
        "zz\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3;a=\nb\r\nabc\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
    ] {
        let (upstream, site) = site().await;
        let request = format!(
            "POST /charges HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ntransfer-encoding: chunked\r\n\r\n{chunks}{HIDDEN}"
        );
        let answers = site.raw(&request).await;
        assert!(
            answers.matches("HTTP/1.1 ").count() <= 1,
            "{chunks:?}: {answers}"
        );
        assert!(!answers.contains("HTTP/1.1 2"), "{chunks:?}: {answers}");
        assert!(upstream.arrived().is_empty(), "{chunks:?}");
        // The key is free.
        assert_eq!(site.charge("k").await.status, 201);
    }
}

#[tokio::test]
async fn what_is_unusual_but_clear_goes_on_in_the_usual_form() {
    let (upstream, site) = site().await;
    for (request, body) in [
        // Lines that end with LF alone.
        (
            "POST /other HTTP/1.1\nhost: a\nconnection: close\ncontent-length: 3\n\nabc",
            "abc",
        ),
        // One length, twice.
        (
            "POST /other HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc",
            "abc",
        ),
        // Chunks with an extension.
        (
            "POST /other HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: Chunked\r\n\r\n3;x=\"1\"\r\nabc\r\n0\r\n\r\n",
            "abc",
        ),
        // The whole URL.
        (
            "POST http://A/other HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc",
            "abc",
        ),
        // An older version, whose connection ends.
        (
            "POST /other HTTP/1.0\r\ncontent-length: 3\r\n\r\nabc",
            "abc",
        ),
    ] {
        let before = upstream.arrived().len();
        let answers = site.raw(request).await;
        assert_eq!(
            answers.matches("HTTP/1.").count(),
            1,
            "{request:?}: {answers}"
        );
        let arrived = upstream.arrived();
        assert_eq!(arrived.len(), before + 1, "{request:?}: {answers}");
        let last = arrived.last().expect("it");
        assert_eq!(last.line(), "POST /other HTTP/1.1", "{request:?}");
        assert_eq!(last.body, body.as_bytes(), "{request:?}");
    }
}

#[tokio::test]
async fn requests_in_a_row_on_a_connection_are_answered_in_their_order() {
    let (upstream, site) = site().await;
    let one = |at: usize| {
        format!(
            "POST /charges HTTP/1.1\r\nhost: a\r\nidempotency-key: k{at}\r\ncontent-length: 1\r\n\r\n{at}"
        )
    };
    let all = format!(
        "{}{}{}GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        one(1),
        one(2),
        one(1)
    );
    let answers = site.raw(&all).await;
    assert_eq!(answers.matches("HTTP/1.1 201").count(), 4, "{answers}");
    let bodies: Vec<_> = upstream
        .arrived()
        .iter()
        .map(|it| it.body.clone())
        .collect();
    assert_eq!(bodies, [b"1".to_vec(), b"2".to_vec(), Vec::new()]);
}

/// A refusal before the body was read does not make a request of the body.
#[tokio::test]
async fn a_body_that_was_not_read_is_never_the_next_request() {
    let (upstream, site) = site().await;
    let limit = 1 << 20;
    let filling = "x".repeat(limit);
    let request = format!(
        "POST /charges HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: {}\r\n\r\n{HIDDEN}{filling}",
        HIDDEN.len() + limit
    );
    let mut stream = site.connect().await;
    // The proxy may close before it has read all of it.
    let _ = stream.write_all(request.as_bytes()).await;
    let answer = read_until(&mut stream, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    drop(stream);
    assert!(upstream.arrived().is_empty());
}

#[tokio::test]
async fn heads_that_are_too_long_are_refused() {
    let (upstream, site) = site().await;
    let many: Vec<_> = (0..200).map(|at| format!("x-{at}: 1\r\n")).collect();
    let many = many.concat();
    let long = format!("x-long: {}\r\n", "y".repeat(100 << 10));
    for fields in [many, long] {
        let answer = site
            .raw(&format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n"))
            .await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
    let path = "p".repeat(70 << 10);
    let answer = site
        .raw(&format!("GET /{path} HTTP/1.1\r\nhost: a\r\n\r\n"))
        .await;
    let is_refused = ["HTTP/1.1 414", "HTTP/1.1 431"]
        .iter()
        .any(|it| answer.starts_with(it));
    assert!(is_refused, "{answer}");
    assert!(upstream.arrived().is_empty());
}

#[tokio::test]
async fn a_client_that_waits_to_send_its_body_is_told_to() {
    for (line, key) in [
        ("POST /other", ""),
        ("POST /charges", "idempotency-key: k\r\n"),
    ] {
        let (upstream, site) = site().await;
        let mut stream = site.connect().await;
        let head = format!(
            "{line} HTTP/1.1\r\nhost: a\r\n{key}expect: 100-continue\r\nconnection: close\r\ncontent-length: 3\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let told = read_until(&mut stream, "\r\n\r\n").await;
        assert!(told.starts_with("HTTP/1.1 100"), "{told}");
        stream.write_all(b"abc").await.expect("sent");
        let answer = crate::site::rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        let arrived = upstream.only();
        assert_eq!(
            (arrived.field("expect"), &arrived.body[..]),
            (None, &b"abc"[..])
        );
    }
    let (_upstream, site) = site().await;
    let seen = site.send("POST /other", "expect: miracles\r\n", "x").await;
    seen.problem(417, "unsupported");
}

#[tokio::test]
async fn answers_without_a_body_have_none() {
    let upstream = Upstream::answering(|_, arrived| {
        let path = arrived.line().split(' ').nth(1).unwrap_or_default();
        match path {
            "/head" => b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n".to_vec(),
            "/204" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            "/304" => b"HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\n\r\n".to_vec(),
            "/103" => [
                &b"HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n"[..],
                &answer("200 OK", "", "late"),
            ]
            .concat(),
            _ => answer("200 OK", "", "body"),
        }
    })
    .await;
    let site = Site::before(upstream.address, |_| ()).await;
    let head = site.send("HEAD /head", "", "").await;
    assert_eq!(
        (head.field("content-length"), &head.body[..]),
        (Some("10"), "")
    );
    for (path, status) in [("/204", 204), ("/304", 304)] {
        let seen = site.send(&format!("GET {path}"), "", "").await;
        assert_eq!((seen.status, &seen.body[..]), (status, ""), "{seen:?}");
        assert_eq!(seen.field("transfer-encoding"), None);
    }
    let hinted = site.send("GET /103", "", "").await;
    assert_eq!((hinted.status, &hinted.body[..]), (200, "late"));
    // Under a key, and from the record.
    for _ in 0..2 {
        let fields = "idempotency-key: k\r\n";
        let route = site.send("POST /charges", fields, "").await;
        assert_eq!((route.status, &route.body[..]), (200, "body"));
    }
}

#[tokio::test]
async fn a_path_does_not_get_around_its_route() {
    let (upstream, site) = site().await;
    for path in [
        "/x/../charges",
        "//charges",
        "/./charges",
        "/%63harges",
        "/x/%2e%2e/charges",
        "/%2fcharges",
        "/x%2f..%2fcharges",
        "/%2563harges",
        "/\\charges",
        "/charges;v=1",
        "/a%2fb/../charges",
    ] {
        let seen = site
            .send(&format!("POST {path}"), "idempotency-key: k\r\n", "")
            .await;
        assert_eq!(seen.status, 400, "{path}: {seen:?}");
    }
    assert!(upstream.arrived().is_empty());
    // What stays outside of every route passes as it is.
    let path = "/files/a%2Fb/../c";
    site.send(&format!("GET {path}"), "", "").await;
    assert_eq!(upstream.only().line(), format!("GET {path} HTTP/1.1"));
    assert_eq!(site.proxy.counts().refused, 11);
}

/// The route `/charges` guards `/v1/charges` of the upstream.
#[tokio::test]
async fn a_path_does_not_lead_out_of_that_of_the_upstream() {
    let upstream = Upstream::counting().await;
    let url = format!("http://{}/v1", upstream.address);
    let below = semel_proxy::Upstream::new(url.parse().expect("a URL"));
    let site = Site::over(vec![below], None, |_| ()).await;
    for path in [
        "/../v1/charges",
        "/x/../../v1/charges",
        "/%2e%2e/v1/charges",
        "/a%2fb/../../v1/charges",
        "/..;/v1/charges",
    ] {
        let seen = site
            .send(&format!("POST {path}"), "idempotency-key: k\r\n", "")
            .await;
        seen.problem(400, "invalid-input");
    }
    assert!(upstream.arrived().is_empty());
    assert_eq!(site.charge("k").await.status, 201);
    assert_eq!(upstream.only().line(), "POST /v1/charges HTTP/1.1");
}

#[tokio::test]
async fn it_is_no_proxy_to_other_hosts() {
    let (upstream, site) = site().await;
    let connect = "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n";
    Seen::of(&site.raw(connect).await).problem(501, "unsupported");
    let options = "OPTIONS * HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    assert_eq!(Seen::of(&site.raw(options).await).status, 204);
    for method in ["GET", "POST"] {
        let other = format!(
            "{method} * HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: 0\r\n\r\n"
        );
        Seen::of(&site.raw(&other).await).problem(400, "invalid-input");
    }
    assert!(upstream.arrived().is_empty());
}

#[tokio::test]
async fn three_hundred_idle_connections_keep_nobody_from_an_answer() {
    let (_upstream, site) = site().await;
    let mut idle = Vec::new();
    for at in 0..300 {
        let mut stream = site.connect().await;
        match at % 3 {
            0 => {}
            1 => stream.write_all(b"P").await.expect("sent"),
            _ => stream
                .write_all(b"POST /charges HTTP/1.1\r\nho")
                .await
                .expect("sent"),
        }
        idle.push(stream);
    }
    assert_eq!(site.charge("k").await.status, 201);
    drop(idle);
}

/// Answers that can be read in two ways, or are two: nobody gets another's.
#[tokio::test]
async fn an_upstream_cannot_answer_the_next_request_in_advance() {
    let evil = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    for first in [
        // A second answer behind the first one.
        format!("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood{evil}"),
        // A body where there is none.
        format!("HTTP/1.1 204 No Content\r\n\r\n{evil}"),
        format!("HTTP/1.1 304 Not Modified\r\ncontent-length: 4\r\n\r\n{evil}"),
        // Two lengths, and a length beside a coding.
        format!("HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\ngood{evil}"),
        format!(
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{evil}"
        ),
    ] {
        let bytes = first.clone();
        let upstream = Upstream::answering(move |_, arrived| {
            if arrived.line().starts_with("GET /first") {
                bytes.clone().into_bytes()
            } else {
                answer("200 OK", "", "next")
            }
        })
        .await;
        let site = Site::before(upstream.address, |_| ()).await;
        let two = "GET /first HTTP/1.1\r\nhost: a\r\n\r\nGET /next HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let answers = site.raw(two).await;
        assert!(!answers.contains("evil"), "{first:?}: {answers}");
        // Over the connections that are kept, too.
        for _ in 0..3 {
            let seen = site.send("GET /next", "", "").await;
            assert_eq!(seen.body, "next", "{first:?}");
        }
    }
}
