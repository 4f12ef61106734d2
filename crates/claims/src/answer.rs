//! Answers as clients read them.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use semel_core::{Code, StateKind, Timestamp};
use semel_http::Problem;
use serde::{Serialize, Serializer};

use crate::outcome::Remembered;

/// An answer with status 200, as JSON.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(text) => json_response(text.into()),
            Err(_) => internal("the answer could not be written").into_response(),
        }
    }
}

/// Returns the answer that has this JSON text.
pub(crate) fn json_response(text: Body) -> Response {
    let mut response = Response::new(text);
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/json");
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The decision about a claim.
#[derive(Debug, Serialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub(crate) enum Decision {
    Granted(Box<Granted>),
    Replay {
        operation_id: String,
        #[serde(flatten)]
        outcome: Remembered,
        #[serde(skip_serializing_if = "Option::is_none")]
        completed_at: Option<Instant>,
        duplicate: &'static str,
    },
    Busy {
        operation_id: String,
        until: Instant,
        retry_after_ms: u64,
    },
    Conflict {
        operation_id: String,
    },
    Stale {
        operation_id: String,
        applied: u64,
    },
    TooOld {
        operation_id: String,
    },
    Parked {
        operation_id: String,
        state: &'static str,
        certainty: &'static str,
    },
}

/// The members of a grant.
#[derive(Debug, Serialize)]
pub(crate) struct Granted {
    pub(crate) claim: String,
    pub(crate) idempotency_key: String,
    pub(crate) operation_id: String,
    pub(crate) token: u64,
    pub(crate) attempt: u32,
    pub(crate) lease_until: Instant,
    pub(crate) takeover: bool,
    pub(crate) resumed: bool,
    pub(crate) possible_repeat: bool,
}

/// The state of an operation after a step of its claim.
#[derive(Debug, Serialize)]
pub(crate) struct Stepped {
    #[serde(serialize_with = "name_of_state")]
    pub(crate) state: StateKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease_until: Option<Instant>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn name_of_state<S: Serializer>(state: &StateKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.as_str())
}

/// The answers to a batch, in its order.
#[derive(Debug, Serialize)]
pub(crate) struct Answers<T> {
    answers: Vec<Item<T>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Item<T> {
    Answer(T),
    Problem(Problem),
}

impl<T> FromIterator<Result<T, Problem>> for Answers<T> {
    fn from_iter<I: IntoIterator<Item = Result<T, Problem>>>(answers: I) -> Self {
        let item = |answer| match answer {
            Ok(answer) => Item::Answer(answer),
            Err(problem) => Item::Problem(problem),
        };
        Self {
            answers: answers.into_iter().map(item).collect(),
        }
    }
}

/// A time: RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant(pub(crate) Timestamp);

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// The problem of an answer that only a defect explains.
pub(crate) fn internal(detail: &str) -> Problem {
    let code = Code::Internal.as_str();
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail)
}
