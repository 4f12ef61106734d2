use semel_core::{ByteString, Claim, ClaimId, FencingToken, Key, Scope};

use super::*;

fn operation() -> Operation {
    let scope = Scope::new("", "charge").expect("a scope");
    Operation::new(scope, Key::new("pay-1").expect("a key"))
}

fn headers(names: &[&str]) -> Vec<(ByteString, Bytes)> {
    let headers = names.iter();
    headers
        .map(|name| ((*name).into(), Bytes::from_static(b"theirs")))
        .collect()
}

fn call(headers: Vec<(ByteString, Bytes)>) -> Call {
    Call {
        claim: Claim {
            operation: operation(),
            claim_id: ClaimId::from_u128(1),
            token: FencingToken::new(1),
            lease_until: Timestamp::EPOCH,
            attempt: 3,
            takeover: false,
            resumed: false,
            formerly_expired: false,
            possible_repeat: false,
            first_started_at: None,
        },
        payload: Bytes::from_static(b"\x00\xff"),
        headers,
        coordinates: "file\n:1".into(),
        span: None,
    }
}

fn parked(headers: Vec<(ByteString, Bytes)>) -> Parked {
    Parked {
        scope: operation().scope,
        key: Some(operation().key),
        reason: "dead".into(),
        detail: "given up before".into(),
        transport: None,
        coordinates: "file\n:1".into(),
        headers,
        payload: Bytes::from_static(b"{}"),
        since: Timestamp::EPOCH,
    }
}

fn names(publication: &Publication) -> Vec<&str> {
    let headers = publication.headers.iter();
    headers.map(|(name, _)| &**name).collect()
}

#[test]
fn a_message_keeps_its_headers_and_has_an_id() {
    let theirs = [
        "traceparent",
        "semel-replay-id",
        "Semel-Origin",
        "semel-id",
        "semel-error",
        "semel-given-key",
        "kafka-key",
        "kafka-create-time",
        "traceparent",
    ];
    let call = call(headers(&theirs));
    let publication = of_call(&call, true);
    assert_eq!(&*publication.id, operation().id().to_string());
    assert_eq!(publication.order, Some(Bytes::from_static(b"pay-1")));
    assert_eq!(publication.payload, call.payload);
    assert_eq!(
        names(&publication),
        ["traceparent", "semel-replay-id", "traceparent"]
    );
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SPAN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-01";

fn in_trace(parent: &'static str) -> Call {
    let mut call = call(headers(&["other"]));
    call.headers
        .push(("TraceParent".into(), Bytes::from_static(parent.as_bytes())));
    call.headers
        .push(("tracestate".into(), Bytes::from_static(b"vendor=1")));
    call
}

#[test]
fn a_message_is_published_in_the_span_of_the_effect() {
    let untouched = in_trace(PARENT);
    assert_eq!(of_call(&untouched, true).headers, untouched.headers);

    let mut call = in_trace(PARENT);
    call.span = TraceContext::parse(SPAN.as_bytes());
    let publication = of_call(&call, true);
    assert_eq!(names(&publication), ["other", "tracestate", "traceparent"]);
    assert_eq!(publication.headers[2].1, SPAN.as_bytes());

    // The state belongs to another trace, if to any.
    let mut call = in_trace("00-ab-cd-01");
    call.span = TraceContext::parse(SPAN.as_bytes());
    let publication = of_call(&call, true);
    assert_eq!(names(&publication), ["other", "traceparent"]);
}

#[test]
fn every_header_of_ours_has_our_prefix() {
    for name in OURS {
        assert!(is_ours(name) && is_ours(&name.to_uppercase()), "{name}");
    }
    assert!(!is_ours("semel-") && !is_ours("semel-idx") && !is_ours("id"));
}

#[test]
fn a_dead_letter_of_a_kafka_record_keeps_its_key() {
    let letter = of_dead(&operation(), &parked(headers(&["kafka-key"])), None);
    assert_eq!(letter.order, Some(Bytes::from_static(b"theirs")));
    let letter = of_dead(&operation(), &parked(Vec::new()), None);
    assert_eq!(letter.order, Some(Bytes::from_static(b"pay-1")));
}

#[test]
fn without_its_record_a_dead_letter_says_what_is_known() {
    let parked = parked(headers(&["a", "semel-error"]));
    let letter = of_dead(&operation(), &parked, None);
    let ours = [OPERATION, OPERATION_ID, ORIGIN, KEY, REASON, ERROR];
    assert_eq!(names(&letter), [&["a"][..], &ours].concat());
    let (_, origin) = &letter.headers[3];
    assert_eq!(
        origin, "file\\n:1",
        "no line break, which NATS cannot carry"
    );
    assert_eq!(letter.headers[6].1, "given up before");
    assert_eq!(names(&bare(&letter)), ours);
}

#[test]
fn a_dead_letter_names_its_tenant() {
    let mut operation = operation();
    operation.scope = semel_core::Scope::new("acme", "payments").expect("a scope");
    let letter = of_dead(&operation, &parked(headers(&["semel-tenant"])), None);
    let tenants = letter.headers.iter().filter(|(name, _)| name == TENANT);
    let tenants: Vec<_> = tenants.map(|(_, value)| &value[..]).collect();
    assert_eq!(tenants, [b"acme"]);
}
