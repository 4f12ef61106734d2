//! The spans of claims and of their steps, as an observer gets them.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Request;
use semel_conformance::TestClock;
use semel_core::{Error, ErrorKind, Result, Settled, Settlement, Store, forward_store};
use semel_engine::event::{Event, Observer, Origin};
use semel_engine::trace::{End, ProcessKind, SampleShare, Span, Spans};
use semel_store_memory::MemoryStore;
use serde_json::{Value, json};

use crate::site::{Answer, Site, claim_of, settings};

/// A trace that its client recorded, and one that it did not.
const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// The spans of a claim or of a step.
#[derive(Clone, Debug)]
struct Traced {
    name: String,
    route: &'static str,
    status: u16,
    process: Span,
    parent: Option<String>,
    claim: Option<Span>,
    settle: Option<Span>,
    claim_id: String,
    decision: Option<&'static str>,
    verdict: Option<&'static str>,
    takeover: bool,
    asked: u32,
    end: End,
    error: Option<String>,
}

/// Notes spans, and the span of each event.
struct Seen {
    share: SampleShare,
    spans: Mutex<Vec<Traced>>,
    told: Mutex<Vec<Option<String>>>,
}

impl Seen {
    fn take(&self) -> Vec<Traced> {
        std::mem::take(&mut *self.spans.lock().expect("no panic"))
    }
}

impl Observer for Seen {
    fn observe(&self, _: &str, _: &Event<'_>) {
        self.told.lock().expect("no panic").push(None);
    }

    fn observe_message(&self, _: &str, _: &Event<'_>, origin: Origin<'_>) {
        let span = origin.span.map(|it| it.to_string());
        self.told.lock().expect("no panic").push(span);
    }

    fn wants_spans(&self) -> Option<SampleShare> {
        Some(self.share)
    }

    fn observe_spans(&self, name: &str, spans: &Spans<'_>) {
        let ProcessKind::Server(request) = spans.kind else {
            panic!("{spans:?}")
        };
        assert!(spans.are_recorded() && request.method == "POST");
        self.spans.lock().expect("no panic").push(Traced {
            name: name.to_owned(),
            route: request.route,
            status: request.status,
            process: spans.process,
            parent: spans.parent.map(|it| it.to_string()),
            claim: spans.claim,
            settle: spans.settle,
            claim_id: spans.claim_id.map(|it| it.to_string()).unwrap_or_default(),
            decision: spans.decision,
            verdict: spans.verdict,
            takeover: spans.takeover,
            asked: spans.asked,
            end: spans.end,
            error: spans.error.map(str::to_owned),
        });
    }
}

fn seen(share: SampleShare) -> Arc<Seen> {
    Arc::new(Seen {
        share,
        spans: Mutex::default(),
        told: Mutex::default(),
    })
}

fn site(share: SampleShare) -> (Arc<Seen>, Site) {
    let seen = seen(share);
    let observer = Arc::clone(&seen);
    let site = Site::with(|mut settings| {
        settings.surroundings.observer = observer;
        settings
    });
    (seen, site)
}

/// A store that answers every report with a failure of this kind.
#[derive(Clone)]
struct Refusing {
    inner: Arc<MemoryStore>,
    kind: ErrorKind,
}

impl Store for Refusing {
    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        let refused = |_: &Settlement| Settled::Failed(Error::new(self.kind, "as it was told"));
        Ok(batch.iter().map(refused).collect())
    }

    forward_store!(self => self.inner; but settle);
}

/// Posts a body in this trace.
async fn post(site: &Site, parent: &str, path: &str, body: &Value) -> Answer {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .header("traceparent", parent);
    let request = request.body(Body::from(body.to_string()));
    site.send(request.expect("a request")).await
}

/// Claims in this trace, and returns the name of the claim.
async fn granted(site: &Site, parent: &str, body: &Value) -> String {
    let answer = post(site, parent, "/v1/claims", body).await.json();
    assert_eq!(answer["decision"], "granted", "{answer}");
    answer["claim"].as_str().expect("a claim").to_owned()
}

async fn step(site: &Site, parent: &str, claim: &str, verb: &str, body: &Value) -> u16 {
    let path = format!("/v1/claims/{claim}/{verb}");
    post(site, parent, &path, body).await.status
}

#[tokio::test]
async fn a_claim_and_its_report_are_in_the_trace_of_their_client() {
    let (seen, site) = site(SampleShare::NONE);
    let claim = granted(&site, SAMPLED, &claim_of("a", json!({}))).await;
    for verb in ["start", "renew", "complete"] {
        assert_eq!(step(&site, SAMPLED, &claim, verb, &json!({})).await, 200);
    }
    let spans = seen.take();
    let routes: Vec<_> = spans.iter().map(|it| it.route).collect();
    let paths = ["start", "renew", "complete"].map(|it| format!("/v1/claims/{{claim}}/{it}"));
    assert_eq!(routes[0], "/v1/claims");
    assert_eq!(routes[1..], paths);
    for it in &spans {
        assert_eq!((&*it.name, it.status), ("charge", 200));
        assert_eq!(it.parent.as_deref(), Some(SAMPLED));
        assert_eq!(it.process.context.trace_id.to_string(), SAMPLED[3..35]);
        assert_eq!(it.claim_id, spans[0].claim_id);
        let below = [it.claim, it.settle];
        for below in below.into_iter().flatten() {
            assert_eq!(below.context.trace_id, it.process.context.trace_id);
            assert_ne!(below.context.span_id, it.process.context.span_id);
        }
    }
    let has = |it: &Traced| (it.claim.is_some(), it.settle.is_some(), it.end);
    let applied = End::Fate(semel_engine::summary::Fate::Applied);
    assert_eq!(
        spans.iter().map(has).collect::<Vec<_>>(),
        [
            (true, false, End::Claimed),
            (false, true, End::Claimed),
            (false, false, End::Claimed),
            (false, true, applied),
        ]
    );
    assert_eq!(spans[0].decision, Some("granted"));
    assert_eq!(spans[3].verdict, Some("applied"));
    let ids: std::collections::BTreeSet<_> = spans
        .iter()
        .map(|it| it.process.context.span_id.to_string())
        .collect();
    assert_eq!(ids.len(), 4, "each request has a span of its own");
    // What is told of them names their spans.
    let told = seen.told.lock().expect("no panic").clone();
    let of = |it: &Traced| Some(it.process.context.to_string());
    assert_eq!(told, [of(&spans[0]), of(&spans[3])]);
}

#[tokio::test]
async fn of_what_nobody_sampled_the_hard_cases_are_kept() {
    let (seen, site) = site(SampleShare::NONE);
    let body = claim_of("a", json!({"fingerprint": 1}));
    let claim = granted(&site, UNSAMPLED, &body).await;
    post(&site, UNSAMPLED, "/v1/claims", &body).await;
    step(&site, UNSAMPLED, &claim, "renew", &json!({})).await;
    step(&site, UNSAMPLED, &claim, "complete", &json!({})).await;
    site.claim(&body).await;
    assert!(seen.take().is_empty(), "all of it is ordinary");

    site.claim(&claim_of("a", json!({"fingerprint": 2}))).await;
    let surely = json!({"certainty": "not_applied", "error": "declined"});
    for (key, verb, report) in [
        ("b", "release", &surely),
        ("c", "fail", &surely),
        ("d", "fail", &json!({"error": "no answer"})),
    ] {
        let claim = site.granted(&claim_of(key, json!({}))).await;
        site.state_after(&claim, verb, report).await;
    }
    site.claim(&claim_of("d", json!({}))).await;
    let body = claim_of("e", json!({"lease": "10s"}));
    let first = granted(&site, UNSAMPLED, &body).await;
    site.advance(10);
    site.claim(&body).await;
    for verb in ["renew", "complete"] {
        assert_eq!(step(&site, UNSAMPLED, &first, verb, &json!({})).await, 409);
    }
    let spans = seen.take();
    let what = |it: &Traced| {
        let end = format!("{:?}", it.end);
        format!("{} {end} {}", it.decision.unwrap_or("-"), it.status)
    };
    let what: Vec<_> = spans.iter().map(what).collect();
    assert_eq!(
        what,
        [
            "conflict Fate(Conflict) 200",
            "- Released 200",
            "- Fate(Dead) 200",
            "- Fate(InDoubt) 200",
            "parked Fate(InDoubt) 200",
            "granted Claimed 200",
            "- Fenced 409",
            "- Fenced 409",
        ]
    );
    assert!(spans[5].takeover);
    let verdicts: Vec<_> = spans[1..4].iter().map(|it| it.verdict).collect();
    let expected = ["not_applied", "failed", "maybe_applied"].map(Some);
    assert_eq!(verdicts, expected);
    assert_eq!(spans[2].error.as_deref(), Some("declined"));
    assert!(
        spans
            .iter()
            .all(|it| !it.process.context.flags.is_sampled())
    );
}

#[tokio::test]
async fn a_step_that_the_store_refuses_is_no_failure_of_the_store() {
    let hard = vec![End::StoreFailed; 2];
    for (kind, status, ends) in [
        (ErrorKind::InvalidInput, 400, vec![End::Claimed]),
        (ErrorKind::Unsupported, 501, vec![End::Claimed]),
        (ErrorKind::Internal, 500, hard.clone()),
        (ErrorKind::Unavailable, 503, hard),
    ] {
        let (seen, clock) = (seen(SampleShare::NONE), TestClock::new());
        let mut settings = settings(&clock);
        settings.surroundings.observer = seen.clone();
        let inner = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let site = Site::over_with(Refusing { inner, kind }, clock, settings);
        let claim = site.granted(&claim_of("a", json!({}))).await;
        for parent in [UNSAMPLED, SAMPLED] {
            let answered = step(&site, parent, &claim, "complete", &json!({})).await;
            assert_eq!(answered, status, "{kind:?}");
        }
        let found: Vec<_> = seen.take().iter().map(|it| it.end).collect();
        assert_eq!(found, ends, "{kind:?}");
    }
}

#[tokio::test]
async fn without_a_trace_the_claim_names_one_which_its_steps_belong_to() {
    let (seen, site) = site(SampleShare::ALL);
    let claim = site.granted(&claim_of("a", json!({}))).await;
    site.state_after(&claim, "complete", &json!({})).await;
    // What is no trace is none, whatever comes along with it.
    let body = claim_of("b", json!({}));
    post(&site, "00-1-2-01", "/v1/claims", &body).await;
    let spans = seen.take();
    assert_eq!(spans.len(), 3);
    for it in &spans {
        assert_eq!(it.process.context.trace_id.to_string(), it.claim_id);
        assert_eq!(it.parent, None);
    }
    assert_eq!(spans[0].claim_id, spans[1].claim_id);
    // A request that is refused has no claim to tell of.
    assert_eq!(
        post(&site, SAMPLED, "/v1/claims", &json!({})).await.status,
        400
    );
    assert!(seen.take().is_empty());
}

#[tokio::test]
async fn each_item_of_a_batch_has_spans_of_its_own() {
    let (seen, site) = site(SampleShare::NONE);
    let claims = json!({"claims": [claim_of("a", json!({})), {}, claim_of("b", json!({}))]});
    let answer = post(&site, SAMPLED, "/v1/claims/batch", &claims)
        .await
        .json();
    let spans = seen.take();
    assert_eq!(spans.len(), 2, "{spans:?}");
    for it in &spans {
        assert_eq!((it.route, it.status), ("/v1/claims/batch", 200));
        assert!(it.claim.is_some() && it.asked == 1);
    }
    assert_ne!(spans[0].claim_id, spans[1].claim_id);
    let complete = |at: usize| json!({"claim": answer["answers"][at]["claim"], "step": "complete"});
    let steps = json!({"settlements": [complete(0), complete(2), complete(0)]});
    post(&site, SAMPLED, "/v1/settle/batch", &steps).await;
    let spans = seen.take();
    assert_eq!(spans.len(), 3);
    assert!(
        spans
            .iter()
            .all(|it| it.route == "/v1/settle/batch" && it.settle.is_some())
    );
}

#[tokio::test]
async fn a_claim_that_waits_has_one_span_and_says_how_often_it_asked() {
    let (seen, site) = site(SampleShare::NONE);
    let first = site.granted(&claim_of("a", json!({}))).await;
    let waits = claim_of("a", json!({"wait": "60s"}));
    let waiting = post(&site, SAMPLED, "/v1/claims", &waits);
    let freeing = async {
        // Its first question is answered by now.
        while seen.told.lock().expect("no panic").len() < 2 {
            tokio::task::yield_now().await;
        }
        let surely = json!({"certainty": "not_applied"});
        site.state_after(&first, "release", &surely).await;
    };
    let (answer, ()) = tokio::join!(waiting, freeing);
    assert_eq!(answer.json()["decision"], "granted");
    let spans = seen.take();
    let waited = spans.iter().find(|it| it.decision == Some("granted"));
    assert!(waited.is_some_and(|it| it.asked >= 2), "{spans:?}");
}
