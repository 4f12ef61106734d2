//! The answers to those who send messages.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use semel_core::Code;
use semel_core::ingest::GateAnswer;
use semel_http::Problem;
use serde::Serialize;

use crate::answer::problem;

/// Answers messages about which the journal has decided. `is_numbered` says whether their producer has use for the
/// sequence of the next.
pub(crate) fn decided(answer: GateAnswer, is_numbered: bool) -> Response {
    match answer {
        GateAnswer::Taken {
            known,
            new,
            next,
            is_kept,
        } => taken(&Taken {
            accepted: new,
            duplicates: known,
            next: is_numbered.then_some(next),
            parked: is_kept.then_some(new),
        }),
        GateAnswer::Fenced { epoch } => {
            let detail = format!(
                "a later opening of this producer, of epoch {epoch}, has sent here; this one is over"
            );
            refused(Code::ProducerFenced, detail).with("epoch", epoch)
        }
        .into_response(),
        GateAnswer::Gap { expected } => {
            let detail = format!("messages from sequence {expected} on are missing; send them first");
            refused(Code::SequenceGap, detail).with("expected", expected)
        }
        .into_response(),
        GateAnswer::Unknown { expected } => {
            let detail = format!(
                "nothing of this producer is on record for this path; begin with sequence {expected}, or let the source \
                 take any (`first = \"any\"`)"
            );
            refused(Code::ProducerUnknown, detail).with("expected", expected)
        }
        .into_response(),
    }
}

#[derive(Serialize)]
struct Taken {
    accepted: u32,
    duplicates: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parked: Option<u32>,
}

fn taken(taken: &Taken) -> Response {
    let body = serde_json::to_vec(taken).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    if taken.parked.is_some() {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The refusal of messages that the gate does not take.
fn refused(code: Code, detail: String) -> Problem {
    problem(StatusCode::CONFLICT, code, detail)
        .with("accepted", 0)
        .with("certainty", "not_applied")
}

pub(crate) fn missing() -> Problem {
    let detail = "the messages have no identity: send the headers semel-producer, semel-epoch and semel-sequence, or \
                  idempotency-key";
    problem(StatusCode::BAD_REQUEST, Code::ProducerMissing, detail)
}

/// Refuses an identity that lacks this header.
pub(crate) fn incomplete(header: &HeaderName) -> Problem {
    let detail = format!(
        "the identity of the messages is incomplete: the request has no header {header}, which goes with semel-producer, \
         semel-epoch and semel-sequence"
    );
    problem(StatusCode::BAD_REQUEST, Code::ProducerMissing, detail).with("header", header.as_str())
}

pub(crate) fn malformed(header: &HeaderName, what: &str) -> Problem {
    let detail = format!("the header {header} is of no use: it {what}");
    invalid(detail).with("header", header.as_str())
}

pub(crate) fn no_message() -> Problem {
    invalid("the body is empty, and has no message".to_owned())
}

pub(crate) fn empty_line(line: usize) -> Problem {
    let detail = format!("line {line} of the body is empty: each line is a message");
    invalid(detail)
}

fn invalid(detail: String) -> Problem {
    problem(StatusCode::BAD_REQUEST, Code::InvalidInput, detail)
}

pub(crate) fn message_too_large(most: usize) -> Problem {
    let detail = format!("a message has at most {most} bytes here (`max_message`)");
    problem(StatusCode::PAYLOAD_TOO_LARGE, Code::BodyTooLarge, detail)
}

pub(crate) fn too_many(most: usize) -> Problem {
    let detail = format!("a request has at most {most} messages");
    problem(StatusCode::PAYLOAD_TOO_LARGE, Code::BodyTooLarge, detail)
}

pub(crate) fn too_many_producers(most: usize) -> Problem {
    let detail = format!(
        "{most} producers have sent messages here, and no further one may (`max_producers`)"
    );
    problem(StatusCode::SERVICE_UNAVAILABLE, Code::Throttled, detail)
        .with("certainty", "not_applied")
        .with_header(RETRY_AFTER, HeaderValue::from_static("60"))
}

pub(crate) fn many_under_a_key() -> Problem {
    invalid(
        "the pipeline takes the idempotency-key for the key of its operation, and the body has several messages: send one a \
         key, or let `key` be `header:semel-id`"
            .to_owned(),
    )
}

pub(crate) fn too_many_headers(most: usize) -> Problem {
    let detail = format!(
        "each message of a request keeps its headers, and these are too long for more than {most} messages: send fewer at \
         once, or shorter headers"
    );
    problem(StatusCode::PAYLOAD_TOO_LARGE, Code::BodyTooLarge, detail)
}

pub(crate) fn unauthorized() -> Problem {
    let detail = "the request shows no token that this path takes";
    problem(StatusCode::UNAUTHORIZED, Code::Unauthorized, detail)
        .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

pub(crate) fn from_page() -> Problem {
    let detail = "web pages may not send messages, not even those of this listener";
    problem(StatusCode::FORBIDDEN, Code::OriginRefused, detail)
}

pub(crate) fn confined() -> Problem {
    let detail = "a message may be of any tenant, and the token is confined to one; use a token without a tenant";
    problem(StatusCode::FORBIDDEN, Code::Forbidden, detail)
}
