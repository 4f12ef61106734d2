//! The answers to single requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use semel_broker_webhook::{Options, Scheme, Verification, WebhookSource};
use semel_conformance::TestClock;
use semel_core::Fate;
use semel_core::port::source::{Acknowledgement, Delivery, Fetched, Source};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::provider::{Answer, HOST, begin, raw, send};

/// The example of GitHub's documentation.
pub(crate) const SECRET: &str = "It's a Secret to Everybody";
const BODY: &[u8] = b"Hello, World!";
const SIGNATURE: (&str, &str) = (
    "X-Hub-Signature-256",
    "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
);
/// The line of a signature that nobody who knows the secret has made.
pub(crate) const FORGED: &str = "X-Hub-Signature-256: \
     sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e18\r\n";
/// Longer than any test takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn options() -> Options {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let verification = Verification::new(Scheme::GitHub, SECRET).expect("a secret");
    Options {
        answer_within: PATIENCE * 2,
        ..Options::new(listen, "/github", verification)
    }
}

pub(crate) async fn open(options: Options) -> (WebhookSource, SocketAddr) {
    let clock = Arc::new(TestClock::new());
    let source = WebhookSource::open(options, clock).await.expect("a source");
    let address = source.address().expect("an address");
    (source, address)
}

/// Sends the example in the background, under this id.
fn deliver(address: SocketAddr, id: &'static str) -> JoinHandle<Option<Answer>> {
    tokio::spawn(async move {
        let headers = [SIGNATURE, ("X-GitHub-Delivery", id)];
        send(address, "POST", "/github", &headers, BODY).await
    })
}

async fn fetch(source: &mut WebhookSource) -> Vec<Delivery> {
    let fetched = timeout(PATIENCE, source.fetch(10)).await;
    match fetched.expect("something comes") {
        Ok(Fetched::Deliveries(deliveries)) => deliveries,
        other => panic!("{other:?}"),
    }
}

async fn answer(request: JoinHandle<Option<Answer>>) -> Answer {
    let answered = timeout(PATIENCE, request).await.expect("an answer in time");
    answered.expect("a task").expect("an answer")
}

#[tokio::test]
async fn a_request_is_answered_once_it_is_acknowledged_and_not_before() {
    let (mut source, address) = open(options()).await;
    for (fate, status, said) in [
        (Fate::Applied, 200, "{\"fate\":\"applied\"}"),
        (Fate::Replayed, 200, "{\"fate\":\"replayed\"}"),
        (Fate::Quarantined, 202, "{\"fate\":\"quarantined\"}"),
    ] {
        let request = deliver(address, "72d3162e");
        let deliveries = fetch(&mut source).await;
        assert_eq!(deliveries[0].payload, BODY);
        assert_eq!(&*deliveries[0].coordinates, "webhook:/github:72d3162e");
        let id = (
            "x-github-delivery".into(),
            bytes::Bytes::from_static(b"72d3162e"),
        );
        assert!(deliveries[0].headers.contains(&id));
        assert!(!request.is_finished(), "nothing is on record yet");
        let told = Acknowledgement::new(deliveries[0].id, fate);
        source.acknowledge(&[told]).await.expect("a word");
        let answer = answer(request).await;
        assert_eq!((answer.status, &*answer.body), (status, said));
        let is_replay = answer.has("idempotency-replayed: true");
        assert_eq!(is_replay, fate == Fate::Replayed);
    }
}

#[tokio::test]
async fn what_is_not_genuine_reaches_nobody() {
    let (mut source, address) = open(options()).await;
    let zeros = format!("sha256={}", "0".repeat(64));
    for (headers, body, status, code) in [
        (&[][..], BODY, 400, "signature-missing"),
        (
            &[("X-Hub-Signature-256", "sha256=757107")],
            BODY,
            400,
            "signature-missing",
        ),
        (
            &[("X-Hub-Signature-256", &*zeros)],
            BODY,
            401,
            "signature-wrong",
        ),
        (&[SIGNATURE], b"Hello, World?", 401, "signature-wrong"),
    ] {
        let answer = send(address, "POST", "/github", headers, body).await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.body.contains(&format!("\"code\":\"{code}\"")));
        assert!(answer.has("content-type: application/problem+json"));
        assert!(!answer.body.contains(SECRET), "{answer:?}");
    }
    let request = deliver(address, "1");
    assert_eq!(fetch(&mut source).await.len(), 1, "the genuine one alone");
    source.close().await.expect("an end");
    assert_eq!(answer(request).await.status, 503);
}

#[tokio::test]
async fn another_path_or_method_is_a_problem_and_no_message() {
    let (_source, address) = open(options()).await;
    let ask = async |method, path| {
        let answer = send(address, method, path, &[SIGNATURE], BODY).await;
        answer.expect("an answer")
    };
    let other = ask("POST", "/github/").await;
    assert_eq!(other.status, 404, "{other:?}");
    assert!(other.body.contains("path-unknown"), "{other:?}");
    for method in ["GET", "PUT", "DELETE"] {
        let refused = ask(method, "/github").await;
        assert_eq!(refused.status, 405, "{refused:?}");
        assert!(refused.has("allow: POST"), "{refused:?}");
        assert!(refused.body.contains("method-not-allowed"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_whether_it_is_announced_or_not() {
    let (_source, address) = open(Options {
        max_body_bytes: 1_000,
        ..options()
    })
    .await;
    let body = vec![b'x'; 1_001];
    let announced = send(address, "POST", "/github", &[SIGNATURE], &body).await;
    let mut chunked = format!(
        "POST /github HTTP/1.1\r\nHost: semel\r\n{FORGED}Transfer-Encoding: chunked\r\n\r\n3e9\r\n"
    )
    .into_bytes();
    chunked.extend_from_slice(&body);
    chunked.extend_from_slice(b"\r\n0\r\n\r\n");
    for answer in [announced, raw(address, &chunked).await] {
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 413, "{answer:?}");
        assert!(answer.body.contains("body-too-large"), "{answer:?}");
    }
}

#[tokio::test]
async fn forged_requests_that_trickle_keep_no_genuine_one_out() {
    // Two such bodies are as much as all together may take, and there is one place.
    let most = 32 << 20;
    let options = Options {
        max_body_bytes: most,
        max_in_hand: 1,
        ..options()
    };
    let announced = format!("POST /github HTTP/1.1\r\n{FORGED}Content-Length: {most}\r\n");
    let chunked = format!("POST /github HTTP/1.1\r\n{FORGED}Transfer-Encoding: chunked\r\n");
    for (head, beginning) in [(announced, &b"x"[..]), (chunked, b"1\r\nx\r\n")] {
        let (mut source, address) = open(options.clone()).await;
        let forged = begin(address, &head, beginning).await;
        let also = begin(address, &head, beginning).await;
        let genuine = deliver(address, "1");
        let deliveries = tokio::select! {
            deliveries = fetch(&mut source) => deliveries,
            refused = answer(genuine) => panic!("{head}: {refused:?}"),
        };
        assert_eq!(deliveries[0].payload, BODY, "{head}");
        drop((forged, also));
    }
}

#[tokio::test]
async fn a_web_page_cannot_send_what_nobody_signs() {
    let (mut source, address) = open(Options {
        verification: Verification::none(),
        ..options()
    })
    .await;
    let own = format!("http://{address}");
    let host = address.to_string();
    for (headers, code) in [
        (&[("Origin", "https://evil.example")][..], "origin-refused"),
        (&[("Origin", "null")], "origin-refused"),
        (&[("Origin", &own), (HOST, &host)], "origin-refused"),
        (&[(HOST, "evil.example")], "host-refused"),
        (&[(HOST, "10.0.0.7:8282")], "host-refused"),
    ] {
        let send = send(address, "POST", "/github", headers, b"{}");
        let refused = tokio::select! {
            refused = send => refused.expect("an answer"),
            taken = fetch(&mut source) => panic!("{headers:?}: {taken:?}"),
        };
        assert_eq!(refused.status, 403, "{headers:?}: {refused:?}");
        let code = format!("\"code\":\"{code}\"");
        assert!(refused.body.contains(&code), "{headers:?}: {refused:?}");
    }
    for own in ["localhost", "127.0.0.1:80", &host] {
        let headers = [(HOST, own)];
        let sent = send(address, "POST", "/github", &headers, b"{}");
        tokio::select! {
            deliveries = fetch(&mut source) => assert_eq!(deliveries[0].payload, &b"{}"[..]),
            refused = sent => panic!("{own}: {refused:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_signed_may_be_called_by_any_name() {
    let (mut source, address) = open(options()).await;
    let headers = [
        SIGNATURE,
        (HOST, "hooks.example"),
        ("Origin", "https://example.com"),
    ];
    let sent = send(address, "POST", "/github", &headers, BODY);
    tokio::select! {
        deliveries = fetch(&mut source) => assert_eq!(deliveries[0].payload, BODY),
        refused = sent => panic!("{refused:?}"),
    }
}

#[tokio::test]
async fn beyond_what_may_be_in_hand_a_provider_is_told_to_wait() {
    let (mut source, address) = open(Options {
        max_in_hand: 2,
        ..options()
    })
    .await;
    let first = deliver(address, "1");
    let mut deliveries = fetch(&mut source).await;
    let second = deliver(address, "2");
    deliveries.extend(fetch(&mut source).await);
    let refused = answer(deliver(address, "3")).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.has("retry-after: 1"), "{refused:?}");
    assert!(refused.body.contains("throttled"), "{refused:?}");
    let told = deliveries
        .iter()
        .map(|it| Acknowledgement::new(it.id, Fate::Applied));
    let told: Vec<_> = told.collect();
    source.acknowledge(&told).await.expect("a word");
    for request in [first, second] {
        assert_eq!(answer(request).await.status, 200);
    }
    let again = deliver(address, "3");
    assert_eq!(fetch(&mut source).await.len(), 1, "there is room again");
    source.close().await.expect("an end");
    assert_eq!(answer(again).await.status, 503);
}

#[tokio::test]
async fn a_close_answers_what_is_in_hand_and_lets_nothing_go_with_success() {
    let (mut source, address) = open(options()).await;
    let (one, two, three) = (
        deliver(address, "1"),
        deliver(address, "2"),
        deliver(address, "3"),
    );
    let mut deliveries = Vec::new();
    while deliveries.len() < 3 {
        deliveries.extend(fetch(&mut source).await);
    }
    source
        .requeue(&[deliveries[1].id])
        .await
        .expect("it is given back");
    source.close().await.expect("an end");
    for request in [one, two, three] {
        let answer = answer(request).await;
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.has("retry-after: 5"), "{answer:?}");
        assert!(answer.body.contains("source-unavailable"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_provider_that_hangs_up_leaves_its_message_in_hand() {
    let (mut source, address) = open(options()).await;
    let request = deliver(address, "1");
    let deliveries = fetch(&mut source).await;
    request.abort();
    let told = Acknowledgement::new(deliveries[0].id, Fate::Applied);
    source.acknowledge(&[told]).await.expect("a word");
    let again = deliver(address, "1");
    let deliveries = fetch(&mut source).await;
    let told = Acknowledgement::new(deliveries[0].id, Fate::Replayed);
    source.acknowledge(&[told]).await.expect("a word");
    assert_eq!(answer(again).await.status, 200);
}

#[tokio::test]
async fn slack_gets_its_challenge_back_and_no_message_comes_of_it() {
    let verification = Verification::new(Scheme::Slack, "geheim").expect("a secret");
    let (mut source, address) = open(Options {
        verification,
        ..options()
    })
    .await;
    // At the time of the test clock.
    let body = br#"{"type":"url_verification","challenge":"3eZb"}"#;
    let right = [
        ("X-Slack-Request-Timestamp", "1795255200"),
        ("X-Slack-Signature", SLACK_SIGNATURE),
    ];
    let answer = send(address, "POST", "/github", &right, body).await;
    let answer = answer.expect("an answer");
    assert_eq!((answer.status, &*answer.body), (200, "3eZb"));
    let forged = send(address, "POST", "/github", &right, &body[1..]).await;
    assert_eq!(forged.expect("an answer").status, 401);
    let early = timeout(Duration::from_millis(100), source.fetch(1)).await;
    assert!(early.is_err(), "{early:?}");
}

const SLACK_SIGNATURE: &str = "v0=88935b74f989b46876ac84eb77813d0f11f3b8f2293e561ab11bc1c640fea8d8";
