//! The answers to requests that the engine has no outcome for.

use std::time::Duration;

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use semel_core::{Advice, Code, ErrorKind, OpId, StateKind};
use semel_engine::once::{Error, Happened, Unreadable};
use semel_http::Problem;
use serde_json::json;

use crate::proof::Proof;
use crate::route::{Mode, OnOutage, Route};
use crate::stored::Unkept;

/// The header of an answer that was given without protection; its value is the reason.
pub const UNPROTECTED_HEADER: HeaderName = HeaderName::from_static("semel-unprotected");

/// The answer to a request for which the engine has no outcome.
#[derive(Debug)]
pub enum Reply {
    /// This problem.
    Problem(Problem),
    /// The handler's own answer, which is not remembered.
    Handler,
    /// The handler's own answer, with the header that says that the store could not be told or asked: the handler is called
    /// now if it was not yet.
    Unprotected,
}

impl Route {
    /// Decides what becomes of a request that the engine has no outcome for. `answered` says that the handler was called
    /// by this request and gave an answer.
    pub fn reply(&self, error: &Error, answered: bool) -> Reply {
        let id = error.operation_id();
        match error {
            Error::Conflict { .. } => Reply::Problem(self.key_reused(id)),
            Error::Busy { .. } if self.fail == OnOutage::Open && semel_core::planted("H10") => {
                Reply::Unprotected
            }
            Error::Busy { retry_after, .. } => Reply::Problem(self.in_progress(id, *retry_after)),
            Error::InDoubt { ran: false, .. } => Reply::Problem(in_doubt(id)),
            Error::Dead { ran: false, .. } => Reply::Problem(dead(id)),
            // An answer that came as the time ran out is on no record: nobody after this client would be told it.
            Error::Failed { .. } | Error::InDoubt { .. } | Error::Dead { .. }
                if answered && (!error.is_timeout() || semel_core::planted("H24")) =>
            {
                Reply::Handler
            }
            Error::Failed { .. } | Error::InDoubt { .. } | Error::Dead { .. } => {
                Reply::Problem(unanswered(error))
            }
            Error::ClaimLost { .. } => Reply::Problem(claim_lost(id)),
            Error::Unrecorded { .. } if answered && self.fail == OnOutage::Open => {
                Reply::Unprotected
            }
            Error::Unrecorded { happened, .. } if *happened != Happened::No => {
                Reply::Problem(unrecorded(id))
            }
            Error::Store { source, .. } if is_damaged(source) => Reply::Problem(corrupt(id)),
            Error::Store { source, .. } if !is_away(source) => Reply::Problem(internal(id)),
            Error::Store { .. } if self.fail == OnOutage::Open => Reply::Unprotected,
            Error::Store { source, .. } => {
                let after = match source.advice() {
                    Advice::Retry { after } => after,
                    Advice::LookUpFirst | Advice::Fix | Advice::Stop | Advice::Alarm => {
                        Duration::ZERO
                    }
                };
                Reply::Problem(store_unavailable(id, after))
            }
            // Nothing happened; or the store is not away, and another process answers.
            Error::Unrecorded { .. } | Error::Closed => {
                Reply::Problem(store_unavailable(id, Duration::ZERO))
            }
            Error::Unreadable {
                source: Unreadable::Broken { .. },
                ..
            } => Reply::Problem(corrupt(id)),
            Error::Unreadable { source, .. } => Reply::Problem(unreadable(id, source)),
            // Nothing of these depends on the request: the route sets no birth and no version.
            _ => Reply::Problem(internal(id)),
        }
    }

    fn key_reused(&self, id: Option<OpId>) -> Problem {
        let detail =
            "this idempotency key belongs to another request; a new request needs a new key";
        let status = match self.mode {
            Mode::Ietf => StatusCode::UNPROCESSABLE_ENTITY,
            Mode::Stripe => StatusCode::BAD_REQUEST,
        };
        let problem = Problem::new(status, Code::KeyReused.as_str(), detail);
        self.in_dialect(about(problem, id), json!({"type": "idempotency_error"}))
    }

    fn in_progress(&self, id: Option<OpId>, after: Duration) -> Problem {
        let detail = "the first request under this idempotency key has not finished";
        let problem = Problem::new(StatusCode::CONFLICT, Code::InProgress.as_str(), detail);
        let problem = retry(about(problem, id), after);
        let error = json!({"type": "idempotency_error", "code": "idempotency_key_in_use"});
        self.in_dialect(problem, error)
    }

    /// Adds the member by which Stripe's clients tell their errors apart.
    fn in_dialect(&self, problem: Problem, mut error: serde_json::Value) -> Problem {
        match self.mode {
            Mode::Ietf => problem,
            Mode::Stripe => {
                error["message"] = problem.detail().into();
                problem.with("error", error)
            }
        }
    }
}

/// The answer to a duplicate of a request whose answer was not kept.
pub(crate) fn unkept_answer(unkept: Unkept, status: StatusCode, id: OpId) -> Problem {
    let (code, detail) = match unkept {
        Unkept::TooLarge => (
            Code::AnswerTooLarge,
            "the request was carried out once; its answer was too large to be kept",
        ),
        Unkept::Streamed => (
            Code::AnswerStreamed,
            "the request was carried out once; its answer was a stream, which is not kept",
        ),
    };
    let problem = Problem::new(StatusCode::GONE, code.as_str(), detail);
    about(problem, Some(id)).with("original_status", status.as_u16())
}

/// The answer of a service that passes requests on, where the next service was not reached: nothing was applied, so the
/// key is free.
pub fn upstream_unreachable() -> Response {
    let detail = "the service was not reached; nothing of the request was sent";
    let code = Code::UpstreamUnreachable.as_str();
    let mut response = Problem::new(StatusCode::BAD_GATEWAY, code, detail).into_response();
    response.extensions_mut().insert(Proof::NotApplied);
    response
}

fn in_doubt(id: Option<OpId>) -> Problem {
    let show = id.map_or_else(String::new, |id| {
        format!(" `semel in-doubt show {id}` explains.")
    });
    let detail = format!(
        "an earlier request under this idempotency key may have been carried out, and nobody knows.{show}"
    );
    about(Problem::new(StatusCode::CONFLICT, "in-doubt", detail), id)
}

fn dead(id: Option<OpId>) -> Problem {
    let explain = id.map_or_else(String::new, |id| {
        format!("; `semel keys explain {id}` says whether it may have been carried out")
    });
    let detail = format!("the request under this idempotency key was given up{explain}");
    let code = StateKind::Dead.as_str();
    about(Problem::new(StatusCode::CONFLICT, code, detail), id)
}

fn claim_lost(id: Option<OpId>) -> Problem {
    let detail = "another process took this request over; send it again for its answer";
    let code = Code::ClaimLost.as_str();
    retry(
        about(Problem::new(StatusCode::CONFLICT, code, detail), id),
        Duration::ZERO,
    )
}

/// The answer to a request whose handler was called, or was to be, and gave none.
fn unanswered(error: &Error) -> Problem {
    let id = error.operation_id();
    let (status, code, detail) = if error.is_timeout() {
        let detail = "the service gave no answer in time; the request may have been carried out";
        (StatusCode::GATEWAY_TIMEOUT, Code::UpstreamTimeout, detail)
    } else if error.happened() == Happened::No {
        // It was granted too late to begin.
        return store_unavailable(id, Duration::ZERO);
    } else {
        let detail = "the service gave no whole answer; the request may have been carried out";
        (StatusCode::BAD_GATEWAY, Code::UpstreamBroken, detail)
    };
    about(Problem::new(status, code.as_str(), detail), id)
}

fn unrecorded(id: Option<OpId>) -> Problem {
    let detail = "the service was called, and what came of it could not be stored; send the request again under the same key";
    let code = Code::OutcomeUnrecorded.as_str();
    // 503 would say that nothing was applied.
    let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail);
    let problem = problem.with("certainty", "maybe_applied");
    retry(about(problem, id), Duration::ZERO)
}

fn store_unavailable(id: Option<OpId>, after: Duration) -> Problem {
    let detail = "the store of idempotency keys did not answer, so the request was not carried out";
    let code = Code::StoreUnavailable.as_str();
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail);
    let problem = problem.with("certainty", "not_applied");
    retry(about(problem, id), after)
}

fn corrupt(id: Option<OpId>) -> Problem {
    let detail = "the record of this idempotency key is damaged, so nothing was done";
    let code = Code::RecordCorrupt.as_str();
    about(
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail),
        id,
    )
}

fn unreadable(id: Option<OpId>, source: &Unreadable) -> Problem {
    if let Unreadable::TooLarge { .. } = source {
        let detail = "the request was carried out once; its answer was too large for the store";
        let code = Code::AnswerTooLarge.as_str();
        return about(Problem::new(StatusCode::GONE, code, detail), id);
    }
    let detail =
        "the request was carried out once; its answer is in a form that this version does not know";
    let code = Code::OutcomeUnreadable.as_str();
    about(
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail),
        id,
    )
}

/// The answer to a request that the engine refused though the route had checked it.
pub(crate) fn internal(id: Option<OpId>) -> Problem {
    let detail = "the request could not be put under its idempotency key, so nothing was done";
    let code = Code::Internal.as_str();
    about(
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail),
        id,
    )
}

fn about(problem: Problem, id: Option<OpId>) -> Problem {
    match id {
        Some(id) => problem.with("operation_id", id.to_string()),
        None => problem,
    }
}

/// Adds when to come again, in whole seconds, of which there is one at least.
fn retry(problem: Problem, after: Duration) -> Problem {
    let seconds = after
        .as_secs()
        .saturating_add(u64::from(after.subsec_nanos() > 0));
    problem.with_header(RETRY_AFTER, HeaderValue::from(seconds.clamp(1, 86_400)))
}

fn is_damaged(source: &semel_core::Error) -> bool {
    source.kind() == ErrorKind::Corrupt
}

fn is_away(source: &semel_core::Error) -> bool {
    matches!(
        source.kind(),
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Throttled | ErrorKind::Poisoned
    )
}

#[cfg(test)]
mod tests;
