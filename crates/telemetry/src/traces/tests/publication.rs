//! The spans of relays, and of requests that a server answers.

use semel_core::outbox::OutboxId;
use semel_engine::system::SystemEntropy;
use semel_engine::trace::ServedRequest;
use semel_outbox::{Observer as _, PublicationEnd, PublicationSpan};

use super::*;
use crate::traces::{RelayTraces, TracedRelay};

const ID: u128 = 0x0190_a6f1_2b3c_7d4e_8f50_1122_3344_5566;

fn orders() -> TracedTarget {
    TracedTarget::Broker {
        system: "nats",
        destination: "orders".into(),
        server: None,
    }
}

fn relay(exporter: &Exporter, target: TracedTarget) -> RelayTraces {
    let relay = TracedRelay {
        name: "out".into(),
        stream: "orders".into(),
        target,
    };
    exporter.traces().relay(&relay, Arc::new(SystemEntropy))
}

#[tokio::test(start_paused = true)]
async fn a_message_is_published_in_its_trace_or_in_one_that_its_id_names() {
    let collector = Collector::default();
    for (share, is_sampled) in [(SampleShare::NONE, false), (SampleShare::ALL, true)] {
        let (exporter, _, _) = collector.begin(share, KeyForm::Hashed);
        let relay = relay(&exporter, orders());
        let id = OutboxId::from_u128(ID);
        let parent = context(40, false);
        let tries = [(); 2].map(|()| relay.span_of(id, Some(parent)).expect("a span"));
        assert!(
            tries
                .iter()
                .all(|it| it.trace_id == parent.trace_id && it.flags == parent.flags)
        );
        assert_ne!(tries[0].span_id, tries[1].span_id);
        assert_ne!(tries[0].span_id, parent.span_id);
        let own = relay.span_of(id, None).expect("a span");
        assert_eq!(own.trace_id.to_string(), format!("{ID:032x}"));
        assert_eq!(own.flags.is_sampled(), is_sampled);
        assert_eq!(
            relay.span_of(OutboxId::from_u128(0), None),
            None,
            "no trace has this id"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_publication_is_the_span_of_a_producer_and_a_failure_an_error() {
    let collector = Collector::default();
    let (exporter, _, _) = collector.begin(SampleShare::NONE, KeyForm::Hashed);
    let id = OutboxId::from_u128(ID);
    for (target, end) in [
        (orders(), PublicationEnd::Published),
        (TracedTarget::Local, PublicationEnd::Dead),
        (orders(), PublicationEnd::GivenBack),
    ] {
        let relay = relay(&exporter, target);
        let mut span = PublicationSpan::new(context(1, true), id, end);
        span.parent = Some(context(40, true));
        span.state = Some("vendor=1");
        span.message_bytes = 12;
        span.error = end.is_failure().then_some("too large");
        relay.observe_span("out", &span);
    }
    exporter.close().await;
    let state = collector.state();
    let [published, dead, given_back] = &state.spans[..] else {
        panic!("{:?}", state.spans)
    };
    assert_eq!(&*published.name, "publish out");
    assert_eq!(published.kind, otlp::SpanKind::Producer as i32);
    assert_eq!(
        published.parent_span_id,
        context(40, true).span_id.to_bytes()
    );
    // The parent is of another process.
    assert_eq!(
        (&*published.trace_state, published.flags),
        ("vendor=1", 0x301)
    );
    assert_eq!(published.status, None);
    let said = attributes(published);
    let text = |text: &str| Value::String(text.into());
    for (name, value) in [
        ("messaging.operation.type", text("send")),
        ("messaging.message.id", text(&id.to_string())),
        ("messaging.message.body.size", Value::Int(12)),
        ("semel.relay", text("out")),
        ("semel.stream", text("orders")),
        ("semel.fate", text("published")),
    ] {
        assert_eq!(said[name], &value, "{name}");
    }
    assert!(!said.contains_key("error.type"));
    assert_eq!(dead.kind, otlp::SpanKind::Internal as i32);
    let status = dead.status.as_ref().map(|it| &*it.message);
    assert_eq!(
        (status, attributes(dead)["error.type"]),
        (Some("too large"), &text("dead"))
    );
    let said = attributes(given_back);
    assert_eq!(said["semel.fate"], &text("given_back"));
    assert!(given_back.status.is_none() && !said.contains_key("error.type"));
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_a_failure_has_the_order_key_only_where_keys_are_plain() {
    let collector = Collector::default();
    for keys in [KeyForm::Hashed, KeyForm::Plain] {
        let (exporter, _, _) = collector.begin(SampleShare::NONE, keys);
        let relay = relay(&exporter, orders());
        let id = OutboxId::from_u128(ID);
        let mut span = PublicationSpan::new(context(1, true), id, PublicationEnd::Dead);
        span.order_key = Some("alice@example.com");
        span.error = Some("422: no account alice@example.com");
        relay.observe_span("out", &span);
        exporter.close().await;
    }
    let state = collector.state();
    let reasons = state.spans.iter().flat_map(|it| &it.status);
    let reasons: Vec<_> = reasons.map(|it| &*it.message).collect();
    assert_eq!(
        reasons,
        ["422: no account ***", "422: no account alice@example.com"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_answered_is_the_span_of_a_server() {
    let collector = Collector::default();
    let (exporter, _, _) = collector.begin(SampleShare::NONE, KeyForm::Hashed);
    let handle = exporter.traces().handle();
    let mut claim = applied(1, true);
    claim.kind = ProcessKind::Server(ServedRequest {
        method: "POST",
        route: "/v1/claims",
        status: 200,
    });
    claim.coordinates = "";
    claim.parent = Some(context(40, true));
    claim.end = End::Claimed;
    claim.claim = Some(span(2, true));
    handle.observe_spans("charge", &claim);
    exporter.close().await;
    let state = collector.state();
    let [request, child] = &state.spans[..] else {
        panic!("{:?}", state.spans)
    };
    assert_eq!((&*request.name, &*child.name), ("POST /v1/claims", "claim"));
    assert_eq!(request.kind, otlp::SpanKind::Server as i32);
    assert_eq!((request.flags, request.links.len()), (0x301, 0));
    assert_eq!(request.status, None, "the attempt goes on");
    let said = attributes(request);
    let text = |text: &str| Value::String(text.into());
    for (name, value) in [
        ("http.request.method", text("POST")),
        ("http.route", text("/v1/claims")),
        ("http.response.status_code", Value::Int(200)),
        ("semel.pipeline", text("charge")),
        ("semel.fate", text("claimed")),
    ] {
        assert_eq!(said[name], &value, "{name}");
    }
    assert!(!said.keys().any(|name| name.starts_with("messaging")));
}
