//! Traces of claims over HTTP, as a collector gets them, and as the log and `keys explain` name them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::claim;
use super::server::{Reply, Request, Server};
use crate::collector::{Collector, Span};
use crate::site::{Site, wait_for};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A server that records a hundredth of the traces that begin with it.
fn server(collector: &Collector, store: &str, claims: &str) -> Server {
    let telemetry = format!(
        "[telemetry]\notlp = \"{}\"\nsample = \"1%\"\n",
        collector.url()
    );
    Server::start_in(Site::new(), store, claims, &telemetry)
}

/// Posts a body in the trace of a client that recorded it, or did not.
fn post(server: &Server, is_sampled: bool, path: &str, body: &Value) -> Reply {
    let mark = u8::from(is_sampled);
    let parent = format!("00-{TRACE}-{PARENT}-0{mark}");
    let body = body.to_string();
    server.ask(&Request {
        headers: vec![
            ("content-type", "application/json"),
            ("traceparent", &parent),
            ("tracestate", "vendor=1"),
        ],
        body: body.as_bytes(),
        ..Request::get(path).with_method("POST")
    })
}

fn claims(server: &Server, is_sampled: bool, body: &Value) -> Value {
    let reply = post(server, is_sampled, "/v1/claims", body);
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body
}

fn step(server: &Server, is_sampled: bool, granted: &Value, step: &str, body: &Value) -> u16 {
    let claim = granted["claim"].as_str().expect("a claim");
    post(
        server,
        is_sampled,
        &format!("/v1/claims/{claim}/{step}"),
        body,
    )
    .status
}

/// The spans of requests; each is checked for its one child, and that it is below the span of the client.
fn requests(spans: &[Span]) -> Vec<Span> {
    let (requests, children): (Vec<_>, Vec<_>) = spans.iter().cloned().partition(|it| it.kind == 2);
    for child in &children {
        let parent = requests.iter().find(|it| it.id == child.parent_id);
        let parent = parent.unwrap_or_else(|| panic!("nothing above {child:?}"));
        assert_eq!((child.kind, &child.trace_id), (1, &parent.trace_id));
        assert!(child.began_nanos >= parent.began_nanos);
        assert!(child.ended_nanos <= parent.ended_nanos);
    }
    for request in &requests {
        assert_eq!((&*request.trace_id, &*request.parent_id), (TRACE, PARENT));
        assert_eq!(request.trace_state, "vendor=1");
        assert!(request.links.is_empty(), "{request:?}");
        // It has a parent, which is of another process.
        assert_eq!(request.flags & 0x300, 0x300);
    }
    requests
}

#[test]
fn a_claim_and_its_completion_are_spans_in_the_trace_of_their_client() {
    for store in ["embedded:data", "sqlite:claims.db"] {
        let collector = Collector::new();
        let server = server(&collector, store, "");
        let asked = json!({ "operation": "charge", "key": "payment-1", "class": "unkeyed" });
        let granted = claims(&server, true, &asked);
        assert_eq!(
            step(
                &server,
                true,
                &granted,
                "complete",
                &json!({ "outcome": 7 })
            ),
            200
        );
        assert_eq!(claims(&server, true, &asked)["decision"], "replay");
        let site = server.site();
        let explained = site.semel(&["keys", "explain", "payment-1"]).done().stdout;
        let ended = server.stopped().done();

        let spans = collector.spans();
        let requests = requests(&spans);
        let [first, completion, again] = &requests[..] else {
            panic!("{requests:?}")
        };
        assert_eq!(first.name, "POST /v1/claims");
        assert_eq!(completion.name, "POST /v1/claims/{claim}/complete");
        for (name, value) in [
            ("http.request.method", "POST"),
            ("http.route", "/v1/claims"),
            ("http.response.status_code", "200"),
            ("semel.pipeline", "charge"),
            ("semel.decision", "granted"),
            ("semel.fate", "claimed"),
            ("semel.attempt", "1"),
            ("semel.takeover", "false"),
        ] {
            assert_eq!(first.attribute(name), value, "{name}");
        }
        assert_eq!(first.attribute("semel.key_hash").len(), 16);
        assert_eq!(completion.attribute("semel.fate"), "applied");
        assert_eq!(completion.attribute("semel.verdict"), "applied");
        assert_eq!(again.attribute("semel.fate"), "replayed");
        assert_eq!(again.attribute("semel.duplicate"), "unknown");
        let id = first.attribute("semel.claim_id");
        assert_eq!(completion.attribute("semel.claim_id"), id);
        assert!(explained.contains(&format!("claim {id}")), "{explained}");
        let names: Vec<_> = spans.iter().filter(|it| it.kind == 1).collect();
        let names: Vec<_> = names.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["claim", "settle", "claim"]);

        let logged = logged(&ended.stderr);
        let those = requests
            .iter()
            .map(|it| (it.trace_id.clone(), it.id.clone()));
        assert_eq!(logged, those.collect(), "{}", ended.stderr);
        let bodies = collector.asked("/v1/traces");
        let bodies: Vec<u8> = bodies.into_iter().flat_map(|it| it.body).collect();
        let bodies = String::from_utf8_lossy(&bodies);
        assert!(!bodies.contains("payment-1"), "a key in a span");
    }
}

/// The traces and spans that the decisions of a log name.
fn logged(log: &str) -> BTreeSet<(String, String)> {
    let lines = log.lines().filter_map(|it| serde_json::from_str(it).ok());
    let decisions = lines.filter(|it: &Value| it["decision"].is_string());
    let named = decisions.map(|it| {
        assert!(it["coordinates"].is_null(), "{it}");
        let text = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
        (text("trace_id"), text("span_id"))
    });
    named.collect()
}

#[test]
fn of_claims_that_nobody_sampled_the_hard_cases_arrive() {
    let collector = Collector::new();
    let server = server(&collector, "sqlite:claims.db", "lease = \"1s\"\n");
    for number in 0..50 {
        let asked = json!({ "operation": "charge", "key": format!("plain-{number}") });
        let granted = claims(&server, false, &asked);
        assert_eq!(step(&server, false, &granted, "complete", &json!({})), 200);
    }
    let asked = |key: &str, amount: u64| {
        let fingerprint = json!({ "amount": amount });
        json!({ "operation": "charge", "key": key, "fingerprint": fingerprint, "lease": "60s" })
    };
    let ended = |key: &str, verb: &str, report: Value| {
        let granted = claims(&server, false, &asked(key, 1));
        assert_eq!(step(&server, false, &granted, verb, &report), 200);
    };
    ended("once-1", "complete", json!({}));
    claims(&server, false, &asked("once-1", 2));
    let declined = json!({ "certainty": "not_applied", "error": "declined dead-1" });
    ended("dead-1", "fail", declined);
    ended("doubt-1", "fail", json!({ "error": "no answer" }));
    claims(&server, false, &asked("doubt-1", 1));
    // The lease of the first one ends, and another takes over.
    let mut short = json!({ "operation": "charge", "key": "lost-1", "class": "unkeyed" });
    short["on_doubt"] = json!("repeat");
    let lost = claims(&server, false, &short);
    wait_for("a takeover", || {
        claims(&server, false, &short)["decision"] == "granted"
    });
    assert_eq!(step(&server, false, &lost, "complete", &json!({})), 409);
    server.stopped().done();

    let requests = requests(&collector.spans());
    let what = requests.iter().map(|it| {
        assert_eq!(it.flags & 1, 0, "nobody sampled it");
        let takeover = it.attribute("semel.takeover") == "true";
        let fate = it.attribute("semel.fate").to_owned();
        (
            fate,
            takeover,
            it.attribute("http.response.status_code").to_owned(),
        )
    });
    let hard = |fate: &str, takeover, status: &str| (fate.to_owned(), takeover, status.to_owned());
    assert_eq!(
        what.collect::<Vec<_>>(),
        [
            hard("conflict", false, "200"),
            hard("dead", false, "200"),
            hard("in_doubt", false, "200"),
            hard("in_doubt", false, "200"),
            hard("claimed", true, "200"),
            hard("fenced", false, "409"),
        ]
    );
    let dead = &requests[1];
    assert_eq!((dead.status, &*dead.status_text), (2, "declined ***"));
}

#[test]
fn without_a_collector_a_trace_changes_nothing() {
    let server = Server::start("embedded:data", "");
    let granted = claims(&server, true, &claim("payment-1", super::FIRST));
    assert_eq!(step(&server, true, &granted, "complete", &json!({})), 200);
    let log = server.stopped().done().stderr;
    assert!(!log.contains("trace_id"), "{log}");
}
