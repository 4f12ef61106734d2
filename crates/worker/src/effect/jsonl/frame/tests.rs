use std::num::NonZeroU32;
use std::time::Duration;

use semel_core::{Claim, ClaimId, FencingToken, Key, Operation, Scope, Timestamp};

use super::*;

fn call(payload: &'static [u8]) -> Call {
    let scope = Scope::new("", "pay\"ments").expect("a scope");
    let claim = Claim {
        operation: Operation::new(scope, Key::parse("k\\1").expect("a key")),
        claim_id: ClaimId::from_u128(1),
        token: FencingToken::new(7),
        lease_until: Timestamp::EPOCH,
        attempt: NonZeroU32::MIN.get() + 1,
        takeover: false,
        resumed: false,
        formerly_expired: false,
        possible_repeat: false,
        first_started_at: None,
    };
    Call {
        claim,
        payload: Bytes::from_static(payload),
        headers: Vec::new(),
        coordinates: "f:1".into(),
        span: None,
    }
}

#[test]
fn a_request_hands_on_the_trace() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut call = call(b"{}");
    let line = |call: &Call| String::from_utf8(request(5, call)).expect("text");
    assert!(!line(&call).contains("trace"));
    call.headers = vec![
        ("traceparent".into(), parent.into()),
        ("tracestate".into(), "a=\"b".into()),
    ];
    let traced =
        format!("\"traceparent\":\"{parent}\",\"tracestate\":\"a=\\\"b\",\"payload\":{{}}}}\n");
    assert!(line(&call).ends_with(&traced), "{}", line(&call));
    let own = parent.replace("00f067aa0ba902b7", "0102030405060708");
    call.span = semel_core::TraceContext::parse(own.as_bytes());
    assert!(line(&call).ends_with(&traced.replace(parent, &own)));
    call.span = None;
    call.headers[0].1 = "00-ab-cd-01".into();
    assert!(!line(&call).contains("trace"), "it is none");
}

#[test]
fn a_request_names_its_tenant() {
    let mut call = call(b"{}");
    call.claim.operation.scope = semel_core::Scope::new("ac\"me", "pay").expect("a scope");
    let line = String::from_utf8(request(5, &call)).expect("text");
    let named = "\"operation\":\"pay\",\"tenant\":\"ac\\\"me\",\"key\":";
    assert!(line.contains(named), "{line}");
}

#[test]
fn a_request_is_one_line_of_json() {
    for (payload, written) in [
        (&b"{\"a\": 1.0}"[..], "\"payload\":{\"a\": 1.0}}\n"),
        (b"[\n1,\r\n2]", "\"payload\":[ 1,  2]}\n"),
        (b"no json", "\"payload_base64\":\"bm8ganNvbg==\"}\n"),
        (b"", "\"payload_base64\":\"\"}\n"),
    ] {
        let call = call(payload);
        let line = request(5, &call);
        let id = call.idempotency_key();
        assert_eq!(
            String::from_utf8_lossy(&line),
            format!(
                "{{\"id\":5,\"operation_id\":\"{id}\",\"operation\":\"pay\\\"ments\",\
                 \"key\":\"k\\\\1\",\"attempt\":2,\"fencing_token\":7,\
                 \"idempotency_key\":\"{id}\",\"coordinates\":\"f:1\",{written}"
            )
        );
        assert!(Document::parse(&line).is_ok());
    }
}

#[test]
fn an_answer_says_how_it_ended() {
    let not_applied = |error: &str, retry_after| Verdict::NotApplied {
        error: error.into(),
        retry_after,
    };
    let done = |bytes: &'static str| Verdict::Done(bytes.into());
    for (line, verdict) in [
        (r#"{"id":3,"status":"done"}"#, done("")),
        (
            r#"{"id":3,"status":"done","result":"a\"b c"}"#,
            done(r#""a\"b c""#),
        ),
        (
            r#" {"x":0, "result":{ "a" : [1.0 ,"\\" , " "] },"status":"done","id":3}"#,
            done(r#"{"a":[1.0,"\\"," "]}"#),
        ),
        (
            r#"{"id":3,"status":"retry"}"#,
            not_applied("no reason given", None),
        ),
        (
            r#"{"id":3,"status":"retry","error":"full\n","retry_after":"5s"}"#,
            not_applied("full", Some(Duration::from_secs(5))),
        ),
        (
            r#"{"id":3,"status":"dead","error":"a\nb"}"#,
            Verdict::Dead {
                decisive: false,
                error: "a\\nb".into(),
            },
        ),
        (
            r#"{"id":3,"status":"dead","error":"declined","decisive":true}"#,
            Verdict::Dead {
                decisive: true,
                error: "declined".into(),
            },
        ),
        (
            r#"{"id":3,"status":"dead","error":"declined","decisive":null}"#,
            Verdict::Dead {
                decisive: false,
                error: "declined".into(),
            },
        ),
        (
            r#"{"id":3,"status":"unknown","error":null}"#,
            Verdict::MaybeApplied {
                error: "no reason given".into(),
            },
        ),
    ] {
        let answer = answer(line.as_bytes(), &mut Tape::default()).expect(line);
        assert_eq!(answer, Answer { id: 3, verdict });
    }
}

#[test]
fn an_answer_that_is_none_is_named() {
    for (line, fault) in [
        ("", "that is no JSON"),
        ("debug: 1", "that is no JSON"),
        ("[1]", "that is no object"),
        (r#"{"status":"done"}"#, "without the id"),
        (r#"{"id":"3","status":"done"}"#, "without the id"),
        (r#"{"id":-3,"status":"done"}"#, "without the id"),
        (r#"{"id":3,"id":3,"status":"done"}"#, "with id twice"),
        (r#"{"id":3}"#, "without a status"),
        (r#"{"id":3,"status":"ok"}"#, "whose status is none"),
        (
            r#"{"id":3,"status":"dead","decisive":"yes"}"#,
            "whose decisive is neither true nor false",
        ),
        (
            r#"{"id":3,"status":"dead","error":5}"#,
            "whose error is no string",
        ),
        (
            r#"{"id":3,"status":"retry","retry_after":"soon"}"#,
            "whose retry_after `soon` is no duration",
        ),
        (
            r#"{"id":3,"status":"retry","retry_after":"a\nb\u001b"}"#,
            "whose retry_after `a\\nb\\u{1b}` is no duration",
        ),
    ] {
        let found = answer(line.as_bytes(), &mut Tape::default()).expect_err(line);
        assert!(found.starts_with(fault), "{line}: {found}");
    }
}
