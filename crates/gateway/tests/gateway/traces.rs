//! Spans of requests: below that of their client, with what HTTP says of the answer.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{HeaderValue, Request};
use semel_core::{Claimant, Store, TraceContext};
use semel_engine::effect::Class;
use semel_engine::event::{Event, Observer};
use semel_engine::once::{Once, Settings};
use semel_engine::summary::Fate;
use semel_engine::surroundings::Surroundings;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_engine::trace::{End, HttpExchange, ProcessKind, SampleShare, Spans};
use semel_gateway::{IdempotencyLayer, Route};

use crate::inbox::{Bank, Tx, commit, inbox};
use crate::site::{Site, answer, created, memory, request};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Attempt {
    kind: ProcessKind,
    class: Option<Class>,
    parent: Option<TraceContext>,
    has_effect: bool,
    has_settle: bool,
    verdict: Option<&'static str>,
    end: End,
    http: Option<HttpExchange>,
}

/// Keeps what it is told of each attempt.
#[derive(Default)]
struct Gathered(Mutex<Vec<Attempt>>);

impl Observer for Gathered {
    fn observe(&self, _: &str, _: &Event<'_>) {}

    fn wants_spans(&self) -> Option<SampleShare> {
        Some(SampleShare::ALL)
    }

    fn observe_spans(&self, _: &str, spans: &Spans<'_>) {
        self.0.lock().expect("no panic").push(Attempt {
            kind: spans.kind,
            class: spans.class,
            parent: spans.parent,
            has_effect: spans.effect.is_some(),
            has_settle: spans.settle.is_some(),
            verdict: spans.verdict,
            end: spans.end,
            http: spans.http.cloned(),
        });
    }
}

impl Gathered {
    fn attempts(&self) -> Vec<Attempt> {
        self.0.lock().expect("no panic").clone()
    }
}

fn traced<S: Store + Clone>(store: S, gathered: &Arc<Gathered>) -> Once<S> {
    let surroundings = Surroundings {
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        claimant: Claimant::random(&SystemEntropy),
        observer: gathered.clone(),
    };
    Once::with(store, surroundings, Settings::default(), None)
}

fn charge() -> Request<Body> {
    let mut request = request("pay-1");
    let parent = HeaderValue::from_static(PARENT);
    request.headers_mut().insert("traceparent", parent);
    request
}

fn post(status: u16) -> HttpExchange {
    HttpExchange {
        method: Some("POST".into()),
        status: Some(status),
        ..HttpExchange::default()
    }
}

#[tokio::test]
async fn an_answer_has_its_status_in_the_span_of_the_effect() {
    let gathered = Arc::new(Gathered::default());
    let once = traced(memory(), &gathered);
    let layer = IdempotencyLayer::new(&once, Route::default()).expect("settings that hold");
    let site = Site::under(once, layer, |call, _| async move {
        Ok(answer([500, 201][call - 1], "charged".to_owned()))
    });
    assert_eq!(site.send(charge()).await.status, 500);
    let attempts = gathered.attempts();
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    assert_eq!(attempts[0].verdict, Some("maybe_applied"));
    assert_eq!(attempts[0].parent, TraceContext::parse(PARENT.as_bytes()));
    assert_eq!(attempts[0].http, Some(post(500)));
}

#[tokio::test]
async fn an_answer_that_a_handler_commits_has_the_spans_of_a_call() {
    let gathered = Arc::new(Gathered::default());
    let bank = Bank::new();
    let once = traced(bank.clone(), &gathered);
    let layer = IdempotencyLayer::with_inbox(&once, Route::default(), bank);
    let layer = layer.expect("settings that hold");
    let site = Site::under(once, layer, |call, request: Request<Body>| async move {
        Ok(commit(inbox(&request), Tx::Commits, created(call)).await)
    });
    for _ in 0..2 {
        assert_eq!(site.send(charge()).await.status, 201);
    }
    let parent = TraceContext::parse(PARENT.as_bytes());
    let attempt = |fate, verdict: Option<&'static str>| Attempt {
        kind: ProcessKind::Internal,
        class: Some(Class::Transactional),
        parent,
        has_effect: verdict.is_some(),
        // The transaction of the effect has the record.
        has_settle: false,
        verdict,
        end: End::Fate(fate),
        http: verdict.map(|_| post(201)),
    };
    let expected = [
        attempt(Fate::Applied, Some("applied")),
        attempt(Fate::Replayed, None),
    ];
    assert_eq!(gathered.attempts(), expected);
}
