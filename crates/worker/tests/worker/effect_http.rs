//! HTTP calls, against a server that breaks off at any point that a test names.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::Code;
use semel_core::outcome::Gathering;
use semel_engine::effect::{Effect, Verdict};
use semel_worker::effect::HttpEffect;
use semel_worker::effect::http::{Decisive, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::call::call;

/// The server's act once it has read a request.
enum Act {
    /// Writes this and waits for the next request.
    Answer(String),
    /// Writes this and closes the connection.
    AnswerAndClose(String),
    /// Writes this and then nothing more.
    AnswerAndHang(String),
}

use Act::{Answer, AnswerAndClose, AnswerAndHang};

/// The requests that came in: the connection's number and the request.
type Seen = Arc<Mutex<Vec<(usize, String)>>>;

/// Starts a server that does one act per request; returns its address, and the requests that it has
/// seen.
async fn serve(acts: impl IntoIterator<Item = Act>) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let place = listener.local_addr().expect("an address").to_string();
    let seen = Seen::default();
    let acts = Arc::new(Mutex::new(acts.into_iter().collect::<VecDeque<_>>()));
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(handle(stream, number, Arc::clone(&acts), Arc::clone(&log)));
        }
    });
    (place, seen)
}

async fn handle(mut stream: TcpStream, number: usize, acts: Arc<Mutex<VecDeque<Act>>>, seen: Seen) {
    while let Some(request) = read_request(&mut stream).await {
        seen.lock().expect("no panic").push((number, request));
        let act = acts.lock().expect("no panic").pop_front();
        let (text, then) = match act.expect("an act per request") {
            Answer(text) => (text, 0),
            AnswerAndClose(text) => (text, 1),
            AnswerAndHang(text) => (text, 2),
        };
        stream.write_all(text.as_bytes()).await.expect("written");
        match then {
            0 => {}
            1 => return,
            _ => {
                let _ = stream.read(&mut [0; 1]).await;
                seen.lock()
                    .expect("no panic")
                    .push((number, "closed".into()));
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    loop {
        let mut buffer = [0; 4_096];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
        }
        let so_far = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = so_far.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| {
                line.to_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            })
            .unwrap_or(0);
        if body.len() >= length {
            return Some(so_far);
        }
    }
}

/// An answer with `status`, further `head` lines and `body`.
fn answer(status: u16, head: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\n{head}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn effect(url: impl Into<String>) -> HttpEffect {
    effect_within(url, Duration::from_secs(10))
}

fn effect_within(url: impl Into<String>, timeout: Duration) -> HttpEffect {
    let mut settings = Settings::new(url);
    settings.timeout = timeout;
    HttpEffect::new(settings).expect("an effect")
}

/// The verdict on a server that does one act.
async fn verdict_on(act: Act) -> Verdict {
    let (place, _) = serve([act]).await;
    effect_within(format!("http://{place}/charge"), Duration::from_millis(500))
        .call(call("{}"))
        .await
}

fn error_of(verdict: &Verdict) -> (&'static str, &str) {
    match verdict {
        Verdict::Done(_) | Verdict::DoneUnkept { .. } => ("done", ""),
        Verdict::NotApplied { error, .. } => ("not applied", error),
        Verdict::MaybeApplied { error } => ("maybe applied", error),
        Verdict::Away { error } => ("away", error),
        Verdict::Dead { error, .. } => ("dead", error),
        Verdict::Broken { error, .. } => ("broken", error),
    }
}

#[track_caller]
fn assert_is(verdict: &Verdict, kind: &str, told: &str) {
    let (found, error) = error_of(verdict);
    assert!(
        found == kind && error.contains(told),
        "{kind} with {told:?}, not {verdict:?}"
    );
}

/// The verdict on an answer of a provider that recognises the key.
async fn keyed_verdict_on(status: u16, head: &str, decisive: &str) -> Verdict {
    let (place, _) = serve([Answer(answer(status, head, "why"))]).await;
    let mut settings = Settings::new(format!("http://{place}/charge"));
    settings.is_keyed = true;
    if !decisive.is_empty() {
        settings.decisive = Decisive::parse(decisive).expect("codes");
    }
    let effect = HttpEffect::new(settings).expect("an effect");
    effect.call(call("{}")).await
}

#[tokio::test]
async fn a_refusal_speaks_for_earlier_attempts_only_from_behind_the_look_up_of_the_key() {
    let stored = "Idempotent-Replayed: true\r\n";
    let stored_here = "Idempotency-Replayed: true\r\n";
    for (status, head, decisive, expected) in [
        (402, "", "", false),
        (402, "", "402,422", true),
        (404, "", "402", false),
        (401, "", "402", false),
        (302, "", "402", false),
        (402, stored, "", true),
        (500, stored_here, "", true),
        (404, stored, "", true),
        (402, "Idempotent-Replayed: false\r\n", "", false),
    ] {
        let verdict = keyed_verdict_on(status, head, decisive).await;
        let Verdict::Dead { decisive, .. } = verdict else {
            panic!("{status} {head}: {verdict:?}")
        };
        assert_eq!(decisive, expected, "{status} {head}");
    }
}

#[tokio::test]
async fn a_conflict_under_a_key_is_tried_again() {
    let verdict = keyed_verdict_on(409, "Retry-After: 3\r\n", "").await;
    let Verdict::NotApplied { retry_after, .. } = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(retry_after, Some(Duration::from_secs(3)));
    let unkeyed = verdict_on(Answer(answer(409, "", "no"))).await;
    assert_is(&unkeyed, "dead", "HTTP 409");
    let stored = keyed_verdict_on(200, "Idempotent-Replayed: true\r\n", "").await;
    assert_eq!(stored, Verdict::Done("why".into()));
}

#[tokio::test]
async fn a_request_hands_on_the_trace() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let own = parent.replace("00f067aa0ba902b7", "0102030405060708");
    let (place, seen) = serve([Answer(answer(200, "", "")), Answer(answer(200, "", ""))]).await;
    let effect = HttpEffect::new(Settings::new(format!("http://{place}/"))).expect("an effect");
    let mut call = call("{}");
    call.headers = vec![
        ("Traceparent".into(), parent.into()),
        ("tracestate".into(), "a=1".into()),
    ];
    effect.call(call.clone()).await;
    call.span = semel_core::TraceContext::parse(own.as_bytes());
    effect.call(call).await;
    let seen = seen.lock().expect("seen");
    for ((_, request), parent) in seen.iter().zip([parent, &own]) {
        assert!(
            request.contains(&format!("traceparent: {parent}\r\n")),
            "{request}"
        );
        assert!(request.contains("tracestate: a=1\r\n"), "{request}");
    }
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn a_request_carries_the_message_and_its_key() {
    let (place, seen) = serve([Answer(answer(200, "", "ok")), Answer(answer(204, "", ""))]).await;
    let mut settings = Settings::new(format!("http://us%65r:p@{place}/charge?a=b%20c"));
    settings.headers = vec![
        ("X-Team".into(), "billing".into()),
        ("x-team".into(), "two".into()),
    ];
    let effect = HttpEffect::new(settings).expect("an effect");
    let first = call("{\"amount\": 1}");
    let id = first.idempotency_key();
    assert_eq!(effect.call(first).await, Verdict::Done("ok".into()));
    let (_, request) = seen.lock().expect("seen")[0].clone();
    let (head, body) = request.split_once("\r\n\r\n").expect("a head");
    assert_eq!(body, "{\"amount\": 1}");
    let mut lines: Vec<_> = head.lines().map(str::to_lowercase).collect();
    assert_eq!(lines.remove(0), "post /charge?a=b%20c http/1.1");
    lines.sort();
    let mut expected = [
        "authorization: basic dxnlcjpw".to_owned(),
        "content-length: 13".into(),
        "content-type: application/json".into(),
        format!("host: {place}"),
        format!("idempotency-key: {id}"),
        "semel-attempt: 2".into(),
        "semel-fencing-token: 7".into(),
        format!("semel-operation-id: {id}"),
        "x-team: billing".into(),
        "x-team: two".into(),
    ];
    expected.sort();
    assert_eq!(lines, expected);
    assert_eq!(effect.call(call("no json")).await, Verdict::Done("".into()));
    let (connection, request) = seen.lock().expect("seen")[1].clone();
    assert!(
        request.contains("content-type: application/octet-stream"),
        "{request}"
    );
    assert_eq!(connection, 0, "the connection was kept");
}

#[tokio::test]
async fn settings_replace_what_may_be_replaced() {
    let (place, seen) = serve([Answer(answer(200, "", ""))]).await;
    let mut settings = Settings::new(format!("http://{place}"));
    settings.method = "PUT".into();
    settings.headers = [
        ("Content-Type", "text/csv"),
        ("Host", "example.org"),
        ("Authorization", "Bearer t"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let effect = HttpEffect::new(settings).expect("an effect");
    assert_eq!(effect.call(call("a,b")).await, Verdict::Done("".into()));
    let (_, request) = seen.lock().expect("seen")[0].clone();
    assert!(request.starts_with("PUT / HTTP/1.1\r\n"), "{request}");
    for line in [
        "content-type: text/csv",
        "host: example.org",
        "authorization: Bearer t",
    ] {
        assert_eq!(request.matches(line).count(), 1, "{request}");
    }
}

#[tokio::test]
async fn a_status_is_a_verdict() {
    for (status, kind) in [
        (200, "done"),
        (201, "done"),
        (299, "done"),
        (408, "not applied"),
        (425, "not applied"),
        (429, "not applied"),
        (503, "not applied"),
        (301, "dead"),
        (304, "dead"),
        (307, "dead"),
        (400, "dead"),
        (401, "dead"),
        (404, "dead"),
        (409, "dead"),
        (422, "dead"),
        (500, "maybe applied"),
        (501, "maybe applied"),
        (502, "maybe applied"),
        (504, "maybe applied"),
    ] {
        let told = if kind == "done" {
            String::new()
        } else {
            format!("HTTP {status} from http://127")
        };
        assert_is(
            &verdict_on(Answer(answer(status, "Location: /\r\n", ""))).await,
            kind,
            &told,
        );
    }
}

#[tokio::test]
async fn a_wish_when_to_try_again_is_passed_on() {
    let date =
        "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:50:07 GMT\r\n";
    for (head, seconds) in [
        ("Retry-After: 7\r\n", Some(7)),
        (date, Some(30)),
        ("", None),
    ] {
        let Verdict::NotApplied { retry_after, .. } =
            verdict_on(Answer(answer(429, head, ""))).await
        else {
            panic!("429 is not applied")
        };
        assert_eq!(retry_after, seconds.map(Duration::from_secs), "{head}");
    }
}

#[tokio::test]
async fn what_the_server_says_of_a_failure_is_shown_on_one_line() {
    let verdict = verdict_on(Answer(answer(
        422,
        "",
        "{\n\"error\": \"no such account\"}",
    )))
    .await;
    assert_is(
        &verdict,
        "dead",
        "/charge: {\\n\"error\": \"no such account\"}",
    );
    let verdict = verdict_on(Answer(answer(500, "", &"x".repeat(9_999)))).await;
    assert!(error_of(&verdict).1.len() < 400, "{verdict:?}");
}

#[tokio::test]
async fn nothing_was_applied_where_nobody_was_reached() {
    let port = free_port::take().expect("a free port");
    let place = format!("127.0.0.1:{port}");
    let verdict = effect(format!("http://{place}/")).call(call("1")).await;
    assert_is(&verdict, "away", "connection refused");
    assert_is(
        &verdict,
        "away",
        &format!("cannot reach http://127.0.0.1:{port}/"),
    );
    let nowhere = effect_within("http://nowhere.invalid/", Duration::from_secs(3));
    assert_is(
        &nowhere.call(call("1")).await,
        "away",
        "cannot reach http://nowhere.invalid/",
    );
}

#[tokio::test]
async fn nothing_was_applied_without_a_tls_handshake() {
    for (bytes, closes) in [
        ("no TLS at all, plain text", false),
        ("", true),
        ("", false),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let place = listener.local_addr().expect("an address").to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.write_all(bytes.as_bytes()).await.expect("written");
            if !closes {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
        });
        let mut settings = Settings::new(format!("https://{place}/"));
        settings.timeout = Duration::from_millis(500);
        match HttpEffect::new(settings) {
            Ok(effect) => assert_is(&effect.call(call("1")).await, "away", "cannot reach https:"),
            Err(error) => assert!(error.to_string().contains("no certificates"), "{error}"),
        }
    }
}

#[tokio::test]
async fn a_broken_answer_may_be_an_applied_effect() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    for broken in [
        "",
        "HTTP/1.1 2",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "nonsense\r\n\r\n",
        head,
        chunked,
    ] {
        assert_is(
            &verdict_on(AnswerAndClose(broken.into())).await,
            "maybe applied",
            "broke off",
        );
    }
    for stalled in ["", "HTTP/1.1 2", head, chunked] {
        let verdict = verdict_on(AnswerAndHang(stalled.into())).await;
        assert_is(&verdict, "maybe applied", "within 500ms");
    }
    let until_close = AnswerAndClose("HTTP/1.1 200 OK\r\n\r\nall".into());
    assert_eq!(
        verdict_on(until_close).await,
        Verdict::Done("all".into()),
        "that is how it ends"
    );
}

#[tokio::test]
async fn a_status_counts_even_if_its_body_breaks_off() {
    for (status, kind) in [
        (404, "dead"),
        (429, "not applied"),
        (301, "dead"),
        (500, "maybe applied"),
    ] {
        let half = format!("HTTP/1.1 {status} X\r\nContent-Length: 100\r\n\r\nhalf");
        let told = format!("HTTP {status}");
        assert_is(&verdict_on(AnswerAndClose(half.clone())).await, kind, &told);
        assert_is(&verdict_on(AnswerAndHang(half)).await, kind, &told);
    }
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_costs_nothing() {
    let (place, seen) = serve([
        AnswerAndClose(answer(200, "", "one")),
        Answer(answer(200, "", "two")),
        Answer(answer(200, "Connection: close\r\n", "three")),
        Answer(answer(200, "", "four")),
    ])
    .await;
    let effect = effect(format!("http://{place}/"));
    for text in ["one", "two", "three", "four"] {
        assert_eq!(effect.call(call("1")).await, Verdict::Done(text.into()));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let connections: Vec<_> = seen
        .lock()
        .expect("seen")
        .iter()
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(connections, [0, 1, 1, 2]);
}

#[tokio::test]
async fn an_idle_connection_that_breaks_under_a_request_is_a_doubt() {
    let (place, seen) = serve([
        Answer(answer(200, "", "one")),
        AnswerAndClose(String::new()),
    ])
    .await;
    let effect = effect(format!("http://{place}/"));
    assert_eq!(effect.call(call("1")).await, Verdict::Done("one".into()));
    assert_is(
        &effect.call(call("2")).await,
        "maybe applied",
        "broke off before it answered",
    );
    assert_eq!(seen.lock().expect("seen").len(), 2, "and is not sent again");
}

#[tokio::test]
async fn a_long_body_is_measured_but_not_kept() {
    let body = "x".repeat(9 << 20);
    let mut whole = Gathering::new(0);
    whole.push(body.as_bytes());
    let verdict = verdict_on(Answer(answer(200, "", &body))).await;
    assert_eq!(
        verdict,
        whole.into(),
        "its length and digest are those of all of it"
    );
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection() {
    let (place, seen) = serve([AnswerAndHang(String::new())]).await;
    let effect = effect(format!("http://{place}/"));
    let dropped = tokio::time::timeout(Duration::from_millis(100), effect.call(call("1"))).await;
    assert!(dropped.is_err());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(seen.lock().expect("seen").last().expect("one").1, "closed");
}

#[tokio::test]
async fn secrets_of_the_url_are_never_shown() {
    let echo = "user s3cr3t-pass s3cr3t-token";
    let (place, _) = serve([Answer(answer(400, "", echo)), AnswerAndClose(String::new())]).await;
    let mut settings = Settings::new(format!(
        "http://user:s3cr3t-pass@{place}/x?key=s3cr3t-token"
    ));
    settings.headers = vec![("x-api-key".into(), "s3cr3t-key".into())];
    assert!(!format!("{settings:?}").contains("s3cr3t"), "{settings:?}");
    let effect = HttpEffect::new(settings).expect("an effect");
    assert!(!format!("{effect:?}").contains("s3cr3t"), "{effect:?}");
    let told = format!("from http://***@{place}/x?key=***: *** *** ***");
    assert_is(&effect.call(call("1")).await, "dead", &told);
    let verdict = effect.call(call("1")).await;
    assert_is(&verdict, "maybe applied", "http://***@");
    assert!(!error_of(&verdict).1.contains("s3cr3t"), "{verdict:?}");
    let refused = "http://user:s3cr3t-pass@127.0.0.1:1/?key=s3cr3t-token";
    let verdict = self::effect(refused).call(call("1")).await;
    assert!(!error_of(&verdict).1.contains("s3cr3t"), "{verdict:?}");
}

#[test]
fn a_mistake_names_the_setting() {
    let settings = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::new("http://localhost/");
        change(&mut settings);
        settings
    };
    let header = |name: &str, value: &str| {
        let header = (name.to_owned(), value.to_owned());
        settings(&move |settings| settings.headers = vec![header.clone()])
    };
    for (settings, message) in [
        (
            settings(&|settings| settings.method = "PO ST".into()),
            "method: ",
        ),
        (
            settings(&|settings| settings.method = "CONNECT".into()),
            "method: ",
        ),
        (Settings::new("localhost/charge"), "url: "),
        (
            Settings::new("ftp://localhost/"),
            "url: it must begin with http:// or https://",
        ),
        (header("bad name", "x"), "headers.bad name: "),
        (header("x-ok", "a\nb"), "headers.x-ok: "),
        (
            header("Idempotency-Key", "1"),
            "headers.Idempotency-Key: it is set by us",
        ),
        (
            header("Content-Length", "1"),
            "headers.Content-Length: it is set by us",
        ),
    ] {
        let error = settings.validate().expect_err(message);
        assert_eq!(error.code(), Code::InvalidConfig);
        assert!(error.to_string().starts_with(message), "{error}");
    }
}

#[tokio::test]
async fn the_status_of_an_answer_is_told_beside_its_verdict() {
    for status in [200, 302, 404, 429, 500] {
        let text = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
        let (place, _) = serve([Answer(text)]).await;
        let effect = HttpEffect::new(Settings::new(format!("http://{place}/"))).expect("valid");
        let (_, told) = effect.call_with_status(call("{}")).await;
        assert_eq!(told, Some(status));
    }
    // The head of an answer says it, however the body ends.
    let broken = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab".to_owned();
    for (act, expected) in [
        (AnswerAndClose(broken), Some(200)),
        (AnswerAndClose(String::new()), None),
    ] {
        let (place, _) = serve([act]).await;
        let effect = HttpEffect::new(Settings::new(format!("http://{place}/"))).expect("valid");
        let (verdict, told) = effect.call_with_status(call("{}")).await;
        assert!(
            matches!(verdict, Verdict::MaybeApplied { .. }),
            "{verdict:?}"
        );
        assert_eq!(told, expected);
    }
}
