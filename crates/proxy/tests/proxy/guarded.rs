//! Requests under a key: one call of the upstream, whatever happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel_engine::effect::Class;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::site::{Site, nobody};
use crate::upstream::{Upstream, answer, created};

#[tokio::test]
async fn a_retry_gets_the_same_bytes_and_the_upstream_is_called_once() {
    let upstream = Upstream::answering(|call, _| {
        let fields = "content-type: application/json\r\netag: \"1\"\r\nset-cookie: a=b\r\n\
                      keep-alive: timeout=5\r\n";
        answer("201 Created", fields, &format!("{{\"call\":{call}}}"))
    })
    .await;
    let site = Site::before(upstream.address, |_| ()).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let fields = format!("idempotency-key: \"pay-1\"\r\ntraceparent: {trace}\r\n");
    let first = site.send("POST /charges", &fields, "{\"amount\":7}").await;
    let again = site.charge("pay-1").await;
    assert_eq!((first.status, &first.body[..]), (201, "{\"call\":1}"));
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    for name in ["content-type", "etag"] {
        assert_eq!(again.field(name), first.field(name), "{name}");
    }
    assert!(again.is_replay() && !first.is_replay());
    assert_eq!(first.field("set-cookie"), Some("a=b"));
    assert_eq!(again.field("set-cookie"), None);
    assert_eq!(first.field("keep-alive"), None, "it was for the proxy");
    let arrived = upstream.only();
    assert_eq!(arrived.line(), "POST /charges HTTP/1.1");
    assert_eq!(arrived.body, b"{\"amount\":7}");
    assert_eq!(arrived.field("idempotency-key"), Some("\"pay-1\""));
    assert_eq!(arrived.field("traceparent"), Some(trace));
    let id = arrived.field("semel-operation-id").expect("it is told");
    assert_eq!(id.len(), 64);
    site.send("POST /charges", "idempotency-key: pay-1\r\n", "{}")
        .await
        .problem(422, "key-reused");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_requests_at_once_are_one_call() {
    let (upstream, free) = Upstream::gated().await;
    let change = |it: &mut semel_proxy::Settings| {
        it.routes[0].route.wait = Duration::from_secs(60);
    };
    let site = Arc::new(Site::before(upstream.address, change).await);
    let mut clients = JoinSet::new();
    for _ in 0..200 {
        let site = Arc::clone(&site);
        clients.spawn(async move { site.charge("pay-1").await });
    }
    upstream.has(1).await;
    free.add_permits(200);
    let answers = clients.join_all().await;
    assert_eq!(answers.len(), 200);
    for seen in &answers {
        assert_eq!((seen.status, &seen.body[..]), (201, "call 1"));
    }
    let replays = answers.iter().filter(|it| it.is_replay()).count();
    assert_eq!(replays, 199);
    upstream.only();
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_stop_its_request() {
    let (upstream, free) = Upstream::gated().await;
    let site = Site::before(upstream.address, |_| ()).await;
    let mut hasty = site.connect().await;
    let request = "POST /charges HTTP/1.1\r\nhost: api.example\r\nidempotency-key: pay-1\r\n\
                   content-length: 12\r\n\r\n{\"amount\":7}";
    hasty.write_all(request.as_bytes()).await.expect("sent");
    upstream.has(1).await;
    drop(hasty);
    free.add_permits(1);
    let again = site.charge("pay-1").await;
    assert_eq!((again.status, &again.body[..]), (201, "call 1"));
    upstream.only();
}

#[tokio::test]
async fn an_upstream_that_was_not_reached_costs_the_key_nothing() {
    let address = nobody();
    let site = Site::before(address, |_| ()).await;
    for _ in 0..3 {
        let seen = site.charge("pay-1").await;
        seen.problem(502, "upstream-unreachable");
    }
    assert_eq!(site.proxy.counts().unreachable, 3);
    let listener = TcpListener::bind(address).await.expect("the port is free");
    let upstream = Upstream::at(listener, |call, _, mut stream| {
        Box::pin(async move {
            stream.write_all(&created(call)).await.ok()?;
            Some(stream)
        })
    });
    assert_eq!(site.charge("pay-1").await.status, 201);
    assert!(site.charge("pay-1").await.is_replay());
    upstream.only();
}

/// A proxy before an upstream that answers its first request with these bytes, and hangs up.
async fn broken(with: &'static [u8]) -> (Upstream, Site) {
    let upstream = Upstream::new(move |call, _, mut stream| {
        Box::pin(async move {
            let bytes = if call == 1 {
                with.to_vec()
            } else {
                created(call)
            };
            stream.write_all(&bytes).await.ok()?;
            (call > 1).then_some(stream)
        })
    })
    .await;
    let site = Site::before(upstream.address, |_| ()).await;
    (upstream, site)
}

#[tokio::test]
async fn an_answer_that_breaks_off_leaves_a_doubt() {
    for with in [
        &b""[..],
        b"HTTP/1.1 201 Crea",
        b"HTTP/1.1 201 Created\r\ncontent-length: 10\r\n\r\nhalf",
        b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        b"nonsense\r\n\r\n",
    ] {
        let (upstream, site) = broken(with).await;
        let seen = site.charge("pay-1").await;
        seen.problem(502, "upstream-broken");
        assert!(seen.body.contains("\"operation_id\":\""), "{seen:?}");
        site.charge("pay-1").await.problem(409, "in-doubt");
        upstream.only();
    }
}

#[tokio::test]
async fn a_keyed_upstream_gets_the_same_key_again_after_a_doubt() {
    let upstream = Upstream::new(|call, _, mut stream| {
        Box::pin(async move {
            if call == 1 {
                return None;
            }
            stream.write_all(&created(call)).await.ok()?;
            Some(stream)
        })
    })
    .await;
    let provider_window = Duration::from_secs(86_400);
    let change = |it: &mut semel_proxy::Settings| {
        it.routes[0].route.class = Class::Keyed { provider_window };
    };
    let site = Site::before(upstream.address, change).await;
    site.charge("pay-1").await.problem(502, "upstream-broken");
    assert_eq!(site.charge("pay-1").await.status, 201);
    let arrived = upstream.arrived();
    let keys = arrived.iter().map(|it| it.field("idempotency-key"));
    assert_eq!(keys.collect::<Vec<_>>(), [Some("pay-1"), Some("pay-1")]);
}

#[tokio::test]
async fn an_upstream_without_an_answer_in_time_leaves_a_doubt() {
    let upstream = Upstream::new(|_, _, stream| {
        Box::pin(async move {
            std::future::pending::<()>().await;
            Some(stream)
        })
    })
    .await;
    let change = |it: &mut semel_proxy::Settings| {
        it.connect_timeout = Duration::from_secs(1);
        it.routes[0].route.upstream_timeout = Duration::from_secs(3);
    };
    let site = Site::before(upstream.address, change).await;
    let seen = site.charge("pay-1").await;
    seen.problem(504, "upstream-timeout");
    assert!(seen.body.contains("\"operation_id\":\""), "{seen:?}");
    site.charge("pay-1").await.problem(409, "in-doubt");
    upstream.only();
}

/// The server says that it did not get all of the request, or has no room for it. A layer that limits the time of a handler
/// answers so, too: there the route has to be told.
#[tokio::test]
async fn a_408_and_a_503_release_the_key_unless_the_route_is_unsure() {
    for (line, status) in [("408 Request Timeout", 408), ("503 Unavailable", 503)] {
        for is_unsure in [false, true] {
            let upstream = Upstream::answering(move |call, _| match call {
                1 => answer(line, "", ""),
                call => created(call),
            })
            .await;
            let unsure = |it: &mut semel_proxy::Settings| {
                if is_unsure {
                    it.routes[0].route.unsure = "408,503".parse().expect("statuses");
                }
            };
            let site = Site::before(upstream.address, unsure).await;
            assert_eq!(site.charge("pay-1").await.status, status);
            let again = site.charge("pay-1").await;
            if is_unsure {
                again.problem(409, "in-doubt");
                assert_eq!(upstream.only().body, b"{\"amount\":7}");
            } else {
                assert_eq!(again.status, 201, "{again:?}");
            }
        }
    }
}

/// The upstream closes each connection once it has answered, without a word: the next request goes over another one.
#[tokio::test]
async fn connections_that_the_upstream_closed_while_idle_are_no_doubt() {
    let closed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&closed);
    let upstream = Upstream::new(move |call, _, mut stream| {
        let count = Arc::clone(&count);
        Box::pin(async move {
            stream.write_all(&created(call)).await.ok()?;
            stream.shutdown().await.ok()?;
            // The proxy closes its end once it has seen that.
            let _ = stream.read(&mut [0]).await;
            count.fetch_add(1, Ordering::SeqCst);
            None
        })
    })
    .await;
    let site = Site::before(upstream.address, |_| ()).await;
    for at in 1..=20 {
        let seen = site.charge(&format!("pay-{at}")).await;
        assert_eq!(seen.status, 201, "{seen:?}");
        while closed.load(Ordering::SeqCst) < at {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_request_body_that_stops_is_no_claim() {
    let upstream = Upstream::counting().await;
    let idle = |it: &mut semel_proxy::Settings| it.body_idle = Duration::from_millis(300);
    let site = Site::before(upstream.address, idle).await;
    let begun = "POST /charges HTTP/1.1\r\nhost: a\r\nidempotency-key: pay-1\r\n\
                 content-length: 12\r\n\r\n{\"am";
    let seen = crate::site::Seen::of(&site.raw(begun).await);
    seen.problem(400, "invalid-input");
    assert!(upstream.arrived().is_empty());
    assert_eq!(site.charge("pay-1").await.status, 201);
}

#[tokio::test]
async fn a_request_in_shadow_may_pause_in_its_body() {
    let upstream = Upstream::counting().await;
    let idle = |it: &mut semel_proxy::Settings| {
        it.body_idle = Duration::from_millis(50);
        it.routes[0].route.shadow = true;
    };
    let site = Site::before(upstream.address, idle).await;
    let mut client = site.connect().await;
    let begun = "POST /charges HTTP/1.1\r\nhost: a\r\nconnection: close\r\nidempotency-key: pay-1\r\n\
                 content-length: 12\r\n\r\n{\"am";
    client.write_all(begun.as_bytes()).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(500)).await;
    client.write_all(b"ount\":7}").await.expect("sent");
    let answer = crate::site::rest(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(upstream.only().body, b"{\"amount\":7}");
}

#[tokio::test]
async fn a_stop_lets_the_request_in_hand_end() {
    let (upstream, free) = Upstream::gated().await;
    let mut site = Site::before(upstream.address, |_| ()).await;
    let address = site.address;
    let mut client = site.connect().await;
    let request = "POST /charges HTTP/1.1\r\nhost: api.example\r\nidempotency-key: pay-1\r\n\
                   content-length: 2\r\n\r\n{}";
    client.write_all(request.as_bytes()).await.expect("sent");
    upstream.has(1).await;
    assert_eq!(site.proxy.counts().in_flight, 1);
    let stopped = site.stop();
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    free.add_permits(1);
    let answer = crate::site::rest(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let ended = tokio::time::timeout(crate::site::LONG, stopped).await;
    ended.expect("it ends").expect("no panic");
    assert_eq!(site.proxy.counts().in_flight, 0);
}
