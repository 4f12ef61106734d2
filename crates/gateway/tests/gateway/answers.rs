//! Answers that are replayed.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, Request, Response};
use bytes::Bytes;
use futures_util::stream;
use semel_engine::once::Op;
use semel_gateway::Mode;
use serde_json::Value;

use crate::site::{Seen, Site, answer, created, request, with};

#[tokio::test]
async fn a_request_that_is_sent_again_gets_the_first_answer() {
    let site = Site::new(
        |_| {},
        async |call, _| {
            let response = Response::builder()
                .status(201)
                .header("content-type", "application/json")
                .header("link", "<a>; rel=next")
                .header("link", "<b>; rel=prev")
                .header("location", "/charges/1")
                .header("set-cookie", "session=secret")
                .header("x-request-id", call.to_string())
                .header("date", "Sat, 28 Nov 2026 20:00:00 GMT");
            let body = Body::from(&b"{\"id\":1,\"\xff\"}\r\n"[..]);
            Ok(response.body(body).expect("a response"))
        },
    );
    let first = site.post("pay-1").await;
    assert!(first.headers.contains_key("set-cookie") && !first.is_replay());
    for key in ["pay-1", "\"pay-1\""] {
        let again = site.post(key).await;
        assert_eq!((again.status, &again.body), (201, &first.body));
        assert!(again.is_replay());
        let mut names: Vec<_> = again.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["content-type", "idempotency-replayed", "link", "location"]
        );
        let links: Vec<_> = again.headers.get_all("link").iter().collect();
        assert_eq!(links, ["<a>; rel=next", "<b>; rel=prev"]);
    }
    assert_eq!(site.calls(), 1);
    site.post("pay-2").await;
    assert_eq!(site.calls(), 2, "another key is another request");
}

#[tokio::test]
async fn refusals_are_answers_too() {
    let scripts: [&'static [u16]; 6] = [&[303], &[400], &[402], &[404], &[409], &[422]];
    for script in scripts {
        let (site, status) = (Site::scripted(|_| {}, script), script[0]);
        let first = site.post("pay-1").await;
        let again = site.post("pay-1").await;
        assert_eq!((first.status, again.status), (status, status));
        assert!(again.is_replay() && site.calls() == 1);
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_reaches_the_first_client_whole_and_no_other() {
    for body in ["0123456789a", "x"] {
        let site = Site::new(
            |it| it.max_answer_bytes = 10,
            move |_, _| async move {
                if body == "x" {
                    // A length that nobody announced.
                    let pieces = vec![Ok::<_, std::io::Error>("0123456789"), Ok("a")];
                    return Ok(answer(200, Body::from_stream(stream::iter(pieces))));
                }
                Ok(answer(200, body))
            },
        );
        let first = site.post("pay-1").await;
        assert_eq!((first.status, &first.body[..]), (200, &b"0123456789a"[..]));
        for _ in 0..2 {
            let members = site.post("pay-1").await.problem(410, "answer-too-large");
            assert_eq!(members["original_status"], 200);
            assert_eq!(members["operation_id"].as_str().map(str::len), Some(64));
        }
        assert_eq!(site.calls(), 1);
    }
    let fits = Site::new(
        |it| it.max_answer_bytes = 10,
        async |_, _| Ok(answer(200, "0123456789")),
    );
    fits.post("pay-1").await;
    assert!(fits.post("pay-1").await.is_replay());
}

#[tokio::test]
async fn headers_without_end_are_not_kept() {
    let site = Site::new(
        |_| {},
        async |_, _| {
            let mut response = answer(200, "short");
            let long = "l".repeat(70 << 10).parse().expect("a value");
            response.headers_mut().insert("link", long);
            Ok(response)
        },
    );
    assert_eq!(site.post("pay-1").await.status, 200);
    site.post("pay-1").await.problem(410, "answer-too-large");
}

#[tokio::test]
async fn a_stream_goes_through_once() {
    let site = Site::new(
        |_| {},
        async |_, _| {
            let events = vec![Ok::<_, std::io::Error>("data: 1\n\n"), Ok("data: 2\n\n")];
            let mut response = Response::new(Body::from_stream(stream::iter(events)));
            let kind = "text/event-stream; charset=utf-8".parse().expect("a value");
            response.headers_mut().insert("content-type", kind);
            Ok(response)
        },
    );
    let first = site.post("pay-1").await;
    assert_eq!(&first.body[..], b"data: 1\n\ndata: 2\n\n");
    let members = site.post("pay-1").await.problem(410, "answer-streamed");
    assert_eq!(
        (&members["original_status"], site.calls()),
        (&Value::from(200), 1)
    );
}

/// An endless stream reaches its client while it lasts: nobody waits for its end.
#[tokio::test]
async fn a_stream_begins_before_it_ends() {
    let site = Site::new(
        |_| {},
        async |_, _| {
            let mut response = Response::new(Body::from_stream(stream::repeat_with(|| {
                Ok::<_, std::io::Error>("data: 1\n\n")
            })));
            let kind = "text/event-stream".parse().expect("a value");
            response.headers_mut().insert("content-type", kind);
            Ok(response)
        },
    );
    let response = tower::ServiceExt::oneshot(site.service.clone(), request("pay-1"));
    let response = tokio::time::timeout(Duration::from_secs(5), response).await;
    assert_eq!(
        response.expect("its head").expect("an answer").status(),
        200
    );
}

#[tokio::test]
async fn a_handler_finds_its_attempt_and_no_client_can_forge_it() {
    let site = Site::new(
        |_| {},
        async |_, request: Request<Body>| {
            let op = request.extensions().get::<Op>().expect("the attempt");
            let told = &request.headers()["semel-operation-id"];
            assert_eq!(told, op.idempotency_key());
            assert_eq!(op.operation_id().to_string(), op.idempotency_key());
            assert_eq!((op.key().as_str(), op.attempt()), ("pay-1", 1));
            assert!(op.fencing_token().get() > 0 && !op.is_possible_repeat());
            assert_eq!(
                request.headers()["idempotency-key"],
                "\"pay-1\"",
                "as it came"
            );
            Ok(created(1))
        },
    );
    let headers = [
        ("idempotency-key", "\"pay-1\""),
        ("semel-operation-id", "forged"),
    ];
    site.send(with(&headers, "{}")).await.is_created(1, false);
    let keyless = Site::new(
        |_| {},
        async |_, request: Request<Body>| {
            assert!(!request.headers().contains_key("semel-operation-id"));
            Ok(created(1))
        },
    );
    keyless
        .send(with(&[("semel-operation-id", "forged")], "{}"))
        .await;
}

#[tokio::test]
async fn stripe_names_its_own_header() {
    let site = Site::counting(|it| it.mode = Mode::Stripe);
    site.post("pay-1").await;
    let again = site.post("pay-1").await;
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert!(!again.is_replay());
    let other = with(&[("idempotency-key", "pay-1")], r#"{"amount":1}"#);
    site.send(other).await.problem(400, "key-reused");
    assert_eq!(site.calls(), 1);
    let failing = Site::scripted(|it| it.mode = Mode::Stripe, &[500]);
    assert_eq!(failing.post("pay-1").await.status, 500);
    assert_eq!(failing.post("pay-1").await.status, 500);
    assert_eq!(failing.calls(), 1, "the error is the outcome");
}

#[tokio::test]
async fn an_outcome_that_was_recorded_by_hand_is_an_answer() {
    let site = Site::counting(|_| {});
    for (key, outcome, status, kind) in [
        ("a", &b"{\"id\":7}"[..], 200, Some("application/json")),
        ("b", b"\xff\x00", 200, Some("application/octet-stream")),
        ("c", b"", 204, None),
    ] {
        let outcome = Bytes::from_static(outcome);
        let recorded = outcome.clone();
        let by_hand = site.once.operation("http");
        let by_hand = by_hand.once(key, async move |_| Ok(recorded));
        assert!(by_hand.await.is_ok());
        let again: Seen = site.post(key).await;
        assert_eq!((again.status, &again.body), (status, &outcome));
        assert_eq!(
            again
                .headers
                .get("content-type")
                .map(|it| it.to_str().expect("it")),
            kind
        );
        assert!(again.is_replay());
    }
    assert_eq!(site.calls(), 0);
}
