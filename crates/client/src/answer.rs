//! The meaning of an answer: what it proves of this attempt and of earlier ones. Pure: no clock, no I/O.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use semel_core::Certainty;
use semel_engine::once::Happened;
use semel_gateway::{
    OPERATION_ID_HEADER, Past, Sender, Statuses, certainty_of_status, stated_certainty,
};
use serde_json::Value;

use crate::error::Reason;

/// The known facts that give an answer its meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// The request had a key, and the server recognises keys.
    pub(crate) is_keyed: bool,
    /// The earlier attempts under the key.
    pub(crate) past: Past,
    /// The refusals that speak for earlier attempts as well.
    pub(crate) decisive: &'a Statuses,
    /// The answers that prove nothing.
    pub(crate) unsure: &'a Statuses,
}

/// The meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It is what came of the request.
    Result {
        /// It speaks for every attempt under the key, so the server would give it to each.
        is_outcome: bool,
        /// The server says that it is the stored answer to an earlier attempt.
        is_replay: bool,
    },
    /// It is not what came of the request, and another attempt may be told more.
    Again {
        reason: Reason,
        certainty: Certainty,
    },
    /// It is not what came of the request, and another attempt would be told nothing else.
    Final { reason: Reason, happened: Happened },
}

/// Tells what an answer means, all of which is there.
pub(crate) fn meaning(answer: &Response<Bytes>, known: Known<'_>) -> Meaning {
    let status = answer.status();
    if known.is_keyed && is_stored(answer.headers()) {
        // The first attempt's own answer, whatever its code.
        return Meaning::Result {
            is_outcome: true,
            is_replay: true,
        };
    }
    if status.is_success() {
        return Meaning::Result {
            is_outcome: true,
            is_replay: false,
        };
    }
    let told = Told::of(answer);
    let by_code = told.as_ref().and_then(|told| told.meaning(known));
    let certainty = stated_certainty(status, answer.headers(), answer.body());
    let meaning = by_code.unwrap_or_else(|| by_status(status, known));
    match certainty {
        Some(Certainty::MaybeApplied) => meaning.doubtful(),
        Some(Certainty::NotApplied) | None => meaning,
    }
}

/// Tells what a status means. What it proves of this attempt, a gateway would say as well (decision 0018).
fn by_status(status: StatusCode, known: Known<'_>) -> Meaning {
    let certainty = certainty_of_status(status, Sender::Server, known.unsure);
    match (certainty, status.as_u16()) {
        // Another attempt may be told more.
        (Some(Certainty::NotApplied), 408 | 425 | 429 | 503) => {
            again(Reason::Throttled, Certainty::NotApplied)
        }
        // A request with the key is still under way there, or so the draft of the IETF and Stripe have it. What it does is
        // open.
        (None, 409) if known.is_keyed => again(Reason::InProgress, Certainty::MaybeApplied),
        (Some(Certainty::NotApplied), _) | (None, 300..=499) => refusal(status, known),
        (Some(Certainty::MaybeApplied) | None, _) => {
            again(Reason::Unclear, Certainty::MaybeApplied)
        }
    }
}

/// Tells what a redirect or a refusal means: the end, unless an earlier attempt may have been applied, of which it says
/// nothing. A redirect is the outcome of a request with a key, as a gateway has it: most are sent once it was applied.
fn refusal(status: StatusCode, known: Known<'_>) -> Meaning {
    let is_decisive = known.is_keyed && known.decisive.has(status);
    match known.past {
        Past::Doubtful if !is_decisive => Meaning::Final {
            reason: Reason::Unclear,
            happened: Happened::Maybe,
        },
        Past::Clean | Past::Doubtful => Meaning::Result {
            is_outcome: is_decisive || (known.is_keyed && status.is_redirection()),
            is_replay: false,
        },
    }
}

impl Meaning {
    /// Returns the meaning of an answer which says that the request may have been applied.
    const fn doubtful(self) -> Self {
        match self {
            Self::Final {
                reason,
                happened: Happened::No,
            } => Self::Final {
                reason,
                happened: Happened::Maybe,
            },
            Self::Again { reason, .. } => again(reason, Certainty::MaybeApplied),
            Self::Result { .. } => again(Reason::Unclear, Certainty::MaybeApplied),
            Self::Final { .. } => self,
        }
    }
}

const fn again(reason: Reason, certainty: Certainty) -> Meaning {
    Meaning::Again { reason, certainty }
}

/// Returns the id of the operation by which the server knows the request, from a header or a problem.
pub(crate) fn operation_id(answer: &Response<Bytes>) -> Option<Box<str>> {
    let header = answer.headers().get(OPERATION_ID_HEADER);
    let named = header.and_then(|id| Some(id.to_str().ok()?.into()));
    named.or_else(|| Told::of(answer)?.operation_id)
}

/// The parts of a problem's body that say more than its status.
#[derive(Debug)]
struct Told {
    /// None if the problem is not one that is known here.
    code: Option<Box<str>>,
    /// The status of the answer that was not kept.
    original_status: Option<u64>,
    operation_id: Option<Box<str>>,
}

impl Told {
    /// Reads a problem of Semel, or an error of Stripe.
    fn of(answer: &Response<Bytes>) -> Option<Self> {
        let kind = answer.headers().get(CONTENT_TYPE)?.to_str().ok()?;
        if answer.status().is_success() || !kind.contains("json") || answer.body().len() > LONGEST {
            return None;
        }
        let body: Value = serde_json::from_slice(answer.body()).ok()?;
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let problem = text("type").and_then(|it| it.strip_prefix("urn:semel:problem:"));
        let stripe = body.pointer("/error/type").and_then(Value::as_str);
        let code = match (problem, stripe) {
            (Some(code), _) => Some(code),
            (None, Some("idempotency_error")) => Some(KEY_REUSED),
            (None, _) => None,
        };
        let operation_id = text("operation_id").filter(|_| code.is_some());
        Some(Self {
            code: code.map(Into::into),
            original_status: body.get("original_status").and_then(Value::as_u64),
            operation_id: operation_id.map(Into::into),
        })
    }

    /// Tells what the code means beyond the status, which decides about all others.
    fn meaning(&self, known: Known<'_>) -> Option<Meaning> {
        let of_past = match known.past {
            Past::Clean => Happened::No,
            Past::Doubtful => Happened::Maybe,
        };
        let end = |reason, happened| Some(Meaning::Final { reason, happened });
        match self.code.as_deref()? {
            KEY_REUSED => end(Reason::KeyReused, of_past),
            "in-doubt" => end(Reason::InDoubt, Happened::Maybe),
            "dead" => end(Reason::Dead, Happened::Maybe),
            "record-corrupt" => end(Reason::Unclear, Happened::Maybe),
            "answer-too-large" | "answer-streamed" => {
                let applied = self
                    .original_status
                    .is_none_or(|it| (200..300).contains(&it));
                let happened = if applied {
                    Happened::Yes
                } else {
                    Happened::Maybe
                };
                end(Reason::NotKept, happened)
            }
            "in-progress" => Some(again(Reason::InProgress, Certainty::MaybeApplied)),
            "upstream-unreachable" => Some(again(Reason::Unclear, Certainty::NotApplied)),
            // The handler ran, and its answer belongs to another process now, or could not be stored.
            "claim-lost" | "outcome-unrecorded" => {
                Some(again(Reason::Unclear, Certainty::MaybeApplied))
            }
            _ => None,
        }
    }
}

/// Tells whether an answer says that it is the stored one, given to the first request with the key.
fn is_stored(headers: &HeaderMap) -> bool {
    STORED.iter().any(|name| {
        let value = headers.get(name);
        value.is_some_and(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"true"))
    })
}

/// The wait before another attempt can be told more, where the answer names none.
pub(crate) const fn least_wait(reason: Reason) -> Duration {
    match reason {
        // The first request is at work: asking at once helps nobody.
        Reason::InProgress => Duration::from_millis(50),
        _ => Duration::ZERO,
    }
}

/// The headers by which an answer says that it is a stored one: ours, and Stripe's.
const STORED: [HeaderName; 2] = [
    HeaderName::from_static("idempotency-replayed"),
    HeaderName::from_static("idempotent-replayed"),
];
const KEY_REUSED: &str = "key-reused";
/// The longest problem that is read, in bytes.
const LONGEST: usize = 64 << 10;

#[cfg(test)]
mod tests;
