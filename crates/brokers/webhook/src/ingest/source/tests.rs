use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::RETRY_AFTER;
use axum::response::Response;
use http_body::Frame;
use http_body_util::BodyExt;
use semel_conformance::TestClock;
use semel_core::Fate;
use semel_core::producer::ProducerOrder;
use semel_store_memory::MemoryIngest;
use serde_json::{Value, json};

use super::*;
use crate::ingest::Token;

mod order;

fn journal() -> AnyIngestJournal {
    AnyIngestJournal::new(MemoryIngest::default())
}

fn options() -> IngestOptions {
    IngestOptions::new(([127, 0, 0, 1], 0).into(), "/in", "orders")
}

async fn source(options: IngestOptions, journal: &AnyIngestJournal) -> IngestSource {
    let clock = Arc::new(TestClock::new());
    let source = IngestSource::open(options, journal.clone(), clock).await;
    source.expect("a source")
}

/// A request with lines of these payloads.
fn request(identity: &[(&str, &str)], lines: &[&str]) -> Request {
    let request = Request::post("/in").header("host", "localhost");
    let request = request.header("content-type", "application/x-ndjson");
    let add = |request: axum::http::request::Builder, (name, value): &(&str, &str)| {
        request.header(*name, *value)
    };
    let request = identity.iter().fold(request, add);
    request
        .body(Body::from(lines.join("\n")))
        .expect("a request")
}

fn numbered(producer: &str, epoch: u64, first: u64, lines: &[&str]) -> Request {
    let (epoch, first) = (epoch.to_string(), first.to_string());
    let identity = [
        ("semel-producer", producer),
        ("semel-epoch", &epoch),
        ("semel-sequence", &first),
    ];
    request(&identity, lines)
}

async fn said(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body");
    let body = serde_json::from_slice(&body.to_bytes()).expect("JSON");
    (status, body)
}

async fn send(source: &IngestSource, request: Request) -> (u16, Value) {
    said(source.gate.answer(request).await).await
}

async fn fetch(source: &mut IngestSource) -> Vec<Delivery> {
    // With a bug that loses messages, there would be none to wait for.
    let fetched = tokio::time::timeout(Duration::from_secs(60), source.fetch(10)).await;
    match fetched.expect("in time").expect("deliveries") {
        Fetched::Deliveries(deliveries) => deliveries,
        other => panic!("{other:?}"),
    }
}

fn texts(deliveries: &[Delivery]) -> Vec<&str> {
    let payloads = deliveries.iter().map(|it| &*it.payload);
    payloads
        .map(|it| std::str::from_utf8(it).expect("text"))
        .collect()
}

fn applied(deliveries: &[Delivery]) -> Vec<Acknowledgement> {
    let done = deliveries.iter();
    done.map(|it| Acknowledgement::new(it.id, Fate::Applied))
        .collect()
}

#[tokio::test]
async fn messages_are_answered_by_what_the_journal_has_decided() {
    let (journal, billing) = (journal(), "billing-0a");
    let source = source(options(), &journal).await;
    for (request, status, expected) in [
        (
            numbered(billing, 2, 3, &["c"]),
            409,
            json!({"code": "producer-unknown", "expected": 1, "accepted": 0}),
        ),
        (
            numbered(billing, 2, 1, &["a", "b"]),
            200,
            json!({"accepted": 2, "duplicates": 0, "next": 3}),
        ),
        (
            numbered(billing, 2, 2, &["b", "c"]),
            200,
            json!({"accepted": 1, "duplicates": 1, "next": 4}),
        ),
        (
            numbered(billing, 2, 1, &["a"]),
            200,
            json!({"accepted": 0, "duplicates": 1, "next": 4}),
        ),
        (
            numbered(billing, 2, 5, &["e"]),
            409,
            json!({"code": "sequence-gap", "expected": 4, "accepted": 0}),
        ),
        (
            numbered(billing, 1, 4, &["d"]),
            409,
            json!({"code": "producer-fenced", "epoch": 2, "accepted": 0}),
        ),
        (
            request(&[("idempotency-key", "k")], &["x"]),
            200,
            json!({"accepted": 1, "duplicates": 0}),
        ),
        (
            request(&[("idempotency-key", "k")], &["x"]),
            200,
            json!({"accepted": 0, "duplicates": 1}),
        ),
        (
            request(&[], &["y"]),
            200,
            json!({"accepted": 1, "duplicates": 0}),
        ),
    ] {
        let (found, answer) = send(&source, request).await;
        assert_eq!(found, status, "{answer}");
        for (member, value) in expected.as_object().expect("members") {
            assert_eq!(&answer[member], value, "{member} of {answer}");
        }
        let is_numbered = expected.get("next").is_some();
        assert_eq!(answer.get("next").is_some(), is_numbered, "{answer}");
    }
}

#[tokio::test]
async fn a_message_is_handed_over_with_its_identity() {
    let journal = journal();
    let mut source = source(options(), &journal).await;
    send(&source, numbered("billing-0a", 7, 1, &["a", "b"])).await;
    let deliveries = fetch(&mut source).await;
    assert_eq!(texts(&deliveries), ["a", "b"]);
    let second = &deliveries[1];
    let header = |name| {
        let found = second.headers.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| std::str::from_utf8(value).expect("text"))
    };
    assert_eq!(header("semel-producer"), Some("billing-0a"));
    assert_eq!(header("semel-epoch"), Some("7"));
    assert_eq!(header("semel-sequence"), Some("2"));
    let id = MessageIds::of("billing-0a", "orders").id(2);
    assert_eq!(header("semel-id"), Some(&*id));
    assert_eq!(&*second.coordinates, "ingest:orders:billing-0a:2");
    assert!(second.appended_at.is_some());
}

#[tokio::test]
async fn what_is_not_settled_is_there_for_the_next_worker() {
    let journal = journal();
    let mut first = source(options(), &journal).await;
    send(&first, numbered("billing-0a", 1, 1, &["a", "b", "c", "d"])).await;
    let deliveries = fetch(&mut first).await;
    assert_eq!(deliveries.len(), 4);
    // Neither the first nor the last; and a kill instead of a close leaves it where it was.
    first
        .acknowledge(&applied(&deliveries[1..3]))
        .await
        .expect("noted");
    drop(first);
    let mut second = source(options(), &journal).await;
    let again = fetch(&mut second).await;
    assert_eq!(texts(&again), ["a", "b", "c", "d"]);
    second
        .acknowledge(&applied(&again[..2]))
        .await
        .expect("noted");
    second.close().await.expect("closed");
    let mut third = source(options(), &journal).await;
    assert_eq!(
        send(&third, numbered("billing-0a", 1, 2, &["b"])).await.1["duplicates"],
        1
    );
    let again = fetch(&mut third).await;
    assert_eq!(texts(&again), ["c", "d"]);
    third.acknowledge(&applied(&again)).await.expect("noted");
    third.close().await.expect("closed");
    let fourth = source(options(), &journal).await;
    assert_eq!(fourth.gate.lanes().waiting(), 0);
}

#[tokio::test]
async fn what_was_given_back_is_handed_over_again() {
    let journal = journal();
    let mut source = source(options(), &journal).await;
    send(&source, numbered("billing-0a", 1, 1, &["a", "b"])).await;
    let deliveries = fetch(&mut source).await;
    source
        .requeue(&[deliveries[0].id])
        .await
        .expect("taken back");
    source
        .acknowledge(&applied(&deliveries[1..]))
        .await
        .expect("noted");
    let again = fetch(&mut source).await;
    assert_eq!(texts(&again), ["a"]);
    source.acknowledge(&applied(&again)).await.expect("noted");
    assert_eq!(source.gate.lanes().waiting(), 0);
}

#[tokio::test]
async fn a_frozen_producer_is_parked_and_runs_in_order_once_it_thaws() {
    let (journal, other) = (journal(), "shop-0b");
    let mut source = source(options(), &journal).await;
    let billing = ProducerName::of_sender("billing-0a").expect("an id");
    send(&source, numbered("billing-0a", 1, 1, &["a"])).await;
    let first = fetch(&mut source).await;
    source.acknowledge(&applied(&first)).await.expect("noted");
    source.record().await.expect("recorded");
    journal
        .order(&billing, ProducerOrder::Freeze)
        .await
        .expect("frozen");
    let (status, answer) = send(&source, numbered("billing-0a", 1, 2, &["b", "c"])).await;
    assert_eq!((status, &answer["parked"]), (202, &json!(2)), "{answer}");
    let (status, _) = send(&source, numbered("billing-0a", 1, 2, &["b", "c"])).await;
    assert_eq!(status, 200, "known");
    send(&source, numbered(other, 1, 1, &["x"])).await;
    let deliveries = fetch(&mut source).await;
    assert_eq!(texts(&deliveries), ["x"], "the other one alone");
    journal
        .order(&billing, ProducerOrder::Release)
        .await
        .expect("released");
    send(&source, numbered("billing-0a", 1, 4, &["d"])).await;
    let deliveries = fetch(&mut source).await;
    assert_eq!(texts(&deliveries), ["b", "c"], "what was kept until then");
    journal
        .order(&billing, ProducerOrder::Thaw)
        .await
        .expect("thawed");
    assert_eq!(texts(&fetch(&mut source).await), ["d"]);
}

#[tokio::test]
async fn a_full_queue_sends_away_until_there_is_room() {
    let journal = journal();
    let bounded = IngestOptions {
        max_waiting: 2,
        ..options()
    };
    let mut source = source(bounded, &journal).await;
    let (status, _) = send(&source, numbered("p", 1, 1, &["a", "b"])).await;
    assert_eq!(status, 200);
    let refused = source.gate.answer(numbered("p", 1, 3, &["c"])).await;
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    let (status, answer) = said(refused).await;
    assert_eq!((status, &answer["code"]), (503, &json!("throttled")));
    assert_eq!(answer["certainty"], "not_applied");
    let deliveries = fetch(&mut source).await;
    source
        .acknowledge(&applied(&deliveries[..1]))
        .await
        .expect("noted");
    let (status, _) = send(&source, numbered("p", 1, 3, &["c"])).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn producers_take_turns() {
    let journal = journal();
    let mut source = source(options(), &journal).await;
    for first in 1..4 {
        send(&source, numbered("a", 1, first, &["a"])).await;
    }
    send(&source, numbered("b", 1, 1, &["b"])).await;
    let mut all = Vec::new();
    for _ in 0..2 {
        let Fetched::Deliveries(some) = source.fetch(1).await.expect("one") else {
            panic!("no deliveries")
        };
        all.extend(some.iter().map(|it| it.payload.clone()));
    }
    assert_eq!(all, ["a", "b"]);
}

#[tokio::test]
async fn messages_whose_sender_hung_up_run_all_the_same() {
    let journal = journal();
    let mut source = source(options(), &journal).await;
    {
        let mut answer = std::pin::pin!(source.gate.answer(numbered("p", 1, 1, &["a"])));
        // As far as the journal, and no further.
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(answer.as_mut().poll(context).is_ready())
        });
        assert!(!polled.await);
    }
    assert_eq!(texts(&fetch(&mut source).await), ["a"]);
}

#[tokio::test]
async fn only_who_shows_a_token_may_send_where_there_are_any() {
    let journal = journal();
    let guarded = IngestOptions {
        tokens: vec![Token::new("one"), Token::new("other")],
        ..options()
    };
    let source = source(guarded, &journal).await;
    for (shown, status) in [
        (None, 401),
        (Some("Bearer wrong"), 401),
        (Some("Bearer "), 401),
        (Some("Basic one"), 401),
        (Some("one"), 401),
        (Some("Bearer one"), 200),
        (Some("bearer other"), 200),
    ] {
        let identity: Vec<_> = shown.iter().map(|it| ("authorization", *it)).collect();
        let (found, answer) = send(&source, request(&identity, &["a"])).await;
        assert_eq!(found, status, "{shown:?}: {answer}");
    }
}

/// A body of which nothing comes.
struct Silent;

impl HttpBody for Silent {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>>>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn the_body_of_who_has_no_token_is_not_read_for_long() {
    let journal = journal();
    let guarded = IngestOptions {
        tokens: vec![Token::new("one")],
        ..options()
    };
    let source = source(guarded, &journal).await;
    for (expected, headers) in [
        (Duration::from_secs(1), &[][..]),
        (Duration::ZERO, &[("expect", "100-continue")]),
    ] {
        let (head, _) = request(headers, &[]).into_parts();
        let silent = Request::from_parts(head, Body::new(Silent));
        let begun = Instant::now();
        assert_eq!(send(&source, silent).await.0, 401);
        let took = begun.elapsed();
        assert!(took < expected + Duration::from_millis(100), "{took:?}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_may_not_send() {
    let journal = journal();
    let source = source(options(), &journal).await;
    let page = request(&[("origin", "https://evil.example")], &["a"]);
    let (status, answer) = send(&source, page).await;
    assert_eq!(
        (status, &answer["code"]),
        (403, &json!("origin-refused")),
        "{answer}"
    );
}

#[tokio::test]
async fn a_closed_source_takes_nothing_and_its_path_is_free() {
    let journal = journal();
    let mut source = source(options(), &journal).await;
    source.close().await.expect("closed");
    let (status, answer) = send(&source, numbered("p", 1, 1, &["a"])).await;
    assert_eq!(
        (status, &answer["code"]),
        (503, &json!("source-unavailable"))
    );
    assert!(matches!(source.fetch(1).await, Ok(Fetched::Ended)));
    assert_eq!(journal.list().await.expect("a list"), []);
}
