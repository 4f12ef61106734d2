//! The answers to a provider: success once a message is on record, and a problem as long as it is not.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use semel_core::{Code, Fate};
use semel_http::Problem;
use serde::Serialize;

use super::options::Options;
use super::refusal::Refusal;

/// Answers a request whose message has met its fate, which is on record. Each answer is a success, since the same
/// message would meet the same fate again; 202 says that a person has to look at it.
pub(crate) fn settled(fate: Fate) -> Response {
    #[derive(Serialize)]
    struct Settled {
        fate: &'static str,
    }
    let (status, name) = match fate {
        Fate::Applied => (StatusCode::OK, "applied"),
        Fate::Unprotected => (StatusCode::OK, "unprotected"),
        Fate::Replayed => (StatusCode::OK, "replayed"),
        Fate::Stale => (StatusCode::OK, "stale"),
        Fate::Conflict => (StatusCode::ACCEPTED, "conflict"),
        Fate::TooOld => (StatusCode::ACCEPTED, "too_old"),
        Fate::Dead => (StatusCode::ACCEPTED, "dead"),
        Fate::InDoubt => (StatusCode::ACCEPTED, "in_doubt"),
        Fate::Quarantined => (StatusCode::ACCEPTED, "quarantined"),
        // Never acknowledged; were it, the message would have to come again.
        Fate::Released => return unavailable().into_response(),
    };
    let body = serde_json::to_vec(&Settled { fate: name }).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if fate == Fate::Replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Answers the trial of an address with the text that came with it.
pub(crate) fn challenged(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

pub(crate) fn path_unknown() -> Problem {
    let detail = "no source has this path";
    problem(StatusCode::NOT_FOUND, Code::PathUnknown, detail)
}

pub(crate) fn method_not_allowed() -> Problem {
    let detail = "messages are sent by POST";
    problem(
        StatusCode::METHOD_NOT_ALLOWED,
        Code::MethodNotAllowed,
        detail,
    )
    .with_header(ALLOW, HeaderValue::from_static("POST"))
}

pub(crate) fn too_large(max_bytes: usize) -> Problem {
    let detail = format!("a body has at most {max_bytes} bytes here (`max_body`)");
    problem(StatusCode::PAYLOAD_TOO_LARGE, Code::BodyTooLarge, detail)
}

pub(crate) fn broken_off() -> Problem {
    let detail = "the body broke off";
    problem(StatusCode::BAD_REQUEST, Code::InvalidInput, detail)
}

pub(crate) fn slow_body(within: Duration) -> Problem {
    let detail = format!("the body took longer than {} ms", within.as_millis());
    problem(StatusCode::REQUEST_TIMEOUT, Code::Timeout, detail).with("certainty", "not_applied")
}

/// Refuses a request that is not genuine: 400 where nothing can be compared, 401 where it does not agree.
pub(crate) fn refused(refusal: &Refusal) -> Problem {
    let detail = refusal.to_string();
    match refusal {
        Refusal::Missing(header) | Refusal::Malformed(header, _) => {
            problem(StatusCode::BAD_REQUEST, Code::SignatureMissing, detail)
                .with("header", header.as_str())
        }
        Refusal::Wrong(_) | Refusal::Untimely { .. } => {
            problem(StatusCode::UNAUTHORIZED, Code::SignatureWrong, detail)
                .with_header(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE))
        }
    }
}

pub(crate) fn no_room() -> Problem {
    let detail = "too many requests are in hand";
    problem(StatusCode::SERVICE_UNAVAILABLE, Code::Throttled, detail)
        .with("certainty", "not_applied")
        .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
}

/// Refuses a request that comes before the source is there, or once it is closing.
pub(crate) fn closed() -> Problem {
    unavailable().with("certainty", "not_applied")
}

/// Answers a request in hand at the close of its source: its effect may have begun.
pub(crate) fn closing() -> Problem {
    unavailable().with("certainty", "maybe_applied")
}

/// Answers a request whose message is not on record in time. The message is still in hand.
pub(crate) fn late(options: &Options) -> Problem {
    let detail = format!(
        "the message is not on record after {} ms (`answer_within`); send it again",
        options.answer_within.as_millis()
    );
    problem(StatusCode::SERVICE_UNAVAILABLE, Code::Timeout, detail)
        .with("certainty", "maybe_applied")
        .with_header(RETRY_AFTER, AGAIN)
}

fn unavailable() -> Problem {
    let detail = "the worker starts or stops; send it again";
    let status = StatusCode::SERVICE_UNAVAILABLE;
    problem(status, Code::SourceUnavailable, detail).with_header(RETRY_AFTER, AGAIN)
}

pub(crate) fn problem(status: StatusCode, code: Code, detail: impl Into<String>) -> Problem {
    Problem::new(status, code.as_str(), detail)
}

/// The same problem, after which the connection ends: what is left of the request was not read.
pub(crate) fn ending(problem: Problem) -> Problem {
    problem.with_header(CONNECTION, HeaderValue::from_static("close"))
}

/// The mark of a replay, as a gateway sets it.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const CHALLENGE: &str = "Signature realm=\"semel\"";
/// The seconds after which a provider may send a message again.
const AGAIN: HeaderValue = HeaderValue::from_static("5");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_fate_is_a_success_and_202_asks_for_a_person() {
        for (fate, status) in [
            (Fate::Applied, 200),
            (Fate::Replayed, 200),
            (Fate::Stale, 200),
            (Fate::Unprotected, 200),
            (Fate::Conflict, 202),
            (Fate::TooOld, 202),
            (Fate::Dead, 202),
            (Fate::InDoubt, 202),
            (Fate::Quarantined, 202),
        ] {
            let answer = settled(fate);
            assert_eq!(answer.status(), status, "{fate:?}");
            let is_marked = answer.headers().contains_key(REPLAYED);
            assert_eq!(is_marked, fate == Fate::Replayed, "{fate:?}");
        }
    }

    #[test]
    fn a_message_that_is_not_on_record_is_asked_for_again() {
        let answer = settled(Fate::Released);
        assert_eq!(answer.status(), 503);
        assert!(answer.headers().contains_key(RETRY_AFTER));
    }
}
