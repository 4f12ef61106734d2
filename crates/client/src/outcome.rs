//! Results as a record keeps them, and the ways of a call through the store.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use semel_core::{Certainty, Outcome};
use semel_engine::once::{Error as OnceError, Failure, Happened, Remember, Unreadable};
use semel_gateway::{Stored, Unkept};

use crate::answer::operation_id;
use crate::call::AnswerFrom;
use crate::error::{Error, Parts, Reason};

/// A result that speaks for every attempt under a key: as it came, or as its record has it.
pub(crate) enum Kept {
    /// The answer of this call.
    Fresh {
        answer: Response<Bytes>,
        headers: Vec<HeaderName>,
        limit_bytes: usize,
    },
    /// The request was applied, and its answer is not there.
    Lost(Error),
    /// The answer on record.
    Record(Stored),
}

impl Kept {
    pub(crate) const fn new(
        answer: Response<Bytes>,
        headers: Vec<HeaderName>,
        limit_bytes: usize,
    ) -> Self {
        Self::Fresh {
            answer,
            headers,
            limit_bytes,
        }
    }

    /// Returns the result of an error that says that the request was applied.
    pub(crate) fn of_error(error: Error) -> Result<Self, Error> {
        if error.happened() == Happened::Yes {
            Ok(Self::Lost(error))
        } else {
            Err(error)
        }
    }

    /// Returns the outcome of an answer that the store refuses to keep: the same as of one over the limit.
    pub(crate) fn refused(outcome: &Outcome) -> Option<Outcome> {
        match Stored::from_outcome(outcome).ok()? {
            Stored::Answer { status, .. } => Some(too_large(status).to_outcome(usize::MAX)),
            Stored::Unkept { .. } | Stored::ByHand { .. } => None,
        }
    }

    /// Returns the answer, if there is one.
    pub(crate) fn into_answer(self) -> Result<Response<Bytes>, Error> {
        let stored = match self {
            Self::Fresh { answer, .. } => return Ok(answer),
            Self::Lost(error) => return Err(error),
            Self::Record(stored) => stored,
        };
        let (status, headers, body) = match stored {
            Stored::Answer {
                status,
                headers,
                body,
                ..
            } => (status, headers, body),
            Stored::ByHand { body } if body.is_empty() => {
                (StatusCode::NO_CONTENT, HeaderMap::new(), body)
            }
            Stored::ByHand { body } => (StatusCode::OK, HeaderMap::new(), body),
            Stored::Unkept { status, .. } => {
                let happened = if status.is_success() {
                    Happened::Yes
                } else {
                    Happened::Maybe
                };
                return Err(Error::new(Parts::of(Reason::NotKept, happened)));
            }
        };
        let mut answer = Response::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        answer.extensions_mut().insert(AnswerFrom::Store);
        Ok(answer)
    }

    fn stored(&self) -> Stored {
        match self {
            Self::Fresh {
                answer,
                limit_bytes,
                ..
            } if answer.body().len() > *limit_bytes => too_large(answer.status()),
            Self::Fresh {
                answer, headers, ..
            } => {
                let kept = answer
                    .headers()
                    .iter()
                    .filter(|(name, _)| headers.contains(name));
                let mut headers = HeaderMap::new();
                for (name, value) in kept {
                    headers.append(name, value.clone());
                }
                Stored::Answer {
                    status: answer.status(),
                    headers,
                    body: answer.body().clone(),
                    trailers: None,
                }
            }
            Self::Lost(_) => too_large(StatusCode::OK),
            Self::Record(stored) => stored.clone(),
        }
    }
}

const fn too_large(status: StatusCode) -> Stored {
    Stored::Unkept {
        unkept: Unkept::TooLarge,
        status,
    }
}

impl Remember for Kept {
    fn to_outcome(&self, limit_bytes: usize) -> Outcome {
        self.stored().to_outcome(limit_bytes)
    }

    fn from_outcome(outcome: &Outcome) -> Result<Self, Unreadable> {
        Stored::from_outcome(outcome).map(Self::Record)
    }
}

/// The end of a call that gives its intent back: a refusal, or an error.
struct GivenBack(Result<Response<Bytes>, Error>);

/// Returns the failure, for the engine, of a call that gives its intent back.
pub(crate) fn failure_of(ended: Result<Response<Bytes>, Error>) -> Failure {
    let certainty = ended
        .as_ref()
        .map_or_else(Error::certainty, |_| Certainty::NotApplied);
    match certainty {
        Certainty::NotApplied => Failure::not_applied(GivenBack(ended)),
        Certainty::MaybeApplied => Failure::maybe_applied(GivenBack(ended)),
    }
}

/// Returns what a caller is told where the engine has no outcome: the refusal or the error of its own call, or why it
/// made none.
pub(crate) fn error_of(error: OnceError) -> Result<Response<Bytes>, Error> {
    let happened = error.happened();
    let operation_id = error.operation_id().map(|id| id.to_string().into());
    let (reason, retry_after) = match error {
        OnceError::Failed { source, .. }
        | OnceError::InDoubt {
            ran: true, source, ..
        } => {
            return match source.downcast::<GivenBack>() {
                Ok(ended) => given_back(*ended, happened),
                // The call was dropped with its runtime, or panicked.
                Err(source) => Err(Error::new(Parts {
                    operation_id,
                    source: Some(source),
                    ..Parts::of(Reason::Broken, happened)
                })),
            };
        }
        OnceError::Busy { retry_after, .. } => (Reason::InProgress, Some(retry_after)),
        OnceError::ClaimLost { .. } => (Reason::InProgress, None),
        OnceError::Conflict { .. } => (Reason::KeyReused, None),
        OnceError::InDoubt { .. } => (Reason::InDoubt, None),
        OnceError::Dead { .. } => (Reason::Dead, None),
        OnceError::Unreadable { .. } => (Reason::NotKept, None),
        OnceError::Store { .. } | OnceError::Unrecorded { .. } => (Reason::Store, None),
        OnceError::Closed => (Reason::Closed, None),
        _ => (Reason::Invalid, None),
    };
    Err(Error::new(Parts {
        operation_id,
        retry_after,
        source: Some(Box::new(error)),
        ..Parts::of(reason, happened)
    }))
}

/// Returns the end of a call, with what the record knows of earlier ones.
fn given_back(ended: GivenBack, happened: Happened) -> Result<Response<Bytes>, Error> {
    match ended.0 {
        Ok(answer) if happened == Happened::No => Ok(answer),
        Ok(answer) => Err(Error::new(Parts {
            attempts: attempts_of(&answer),
            operation_id: operation_id(&answer),
            answer: Some(answer),
            ..Parts::of(Reason::Unclear, happened)
        })),
        Err(error) if error.happened() == Happened::No => {
            Err(error.change(|parts| parts.happened = happened))
        }
        Err(error) => Err(error),
    }
}

fn attempts_of(answer: &Response<Bytes>) -> u32 {
    match answer.extensions().get() {
        Some(AnswerFrom::Server { attempts } | AnswerFrom::ServerRecord { attempts }) => *attempts,
        Some(AnswerFrom::Store) | None => 0,
    }
}

impl fmt::Display for GivenBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(answer) => write!(f, "HTTP {}", answer.status().as_u16()),
            Err(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for GivenBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for GivenBack {}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(body: &'static str, limit_bytes: usize) -> Kept {
        let answer = Response::builder()
            .status(201)
            .header("content-type", "application/json")
            .header("set-cookie", "secret=1")
            .body(Bytes::from_static(body.as_bytes()));
        let headers = vec![http::header::CONTENT_TYPE];
        Kept::new(answer.expect("an answer"), headers, limit_bytes)
    }

    fn back(kept: &Kept) -> Result<Response<Bytes>, Error> {
        let outcome = kept.to_outcome(usize::MAX);
        Kept::from_outcome(&outcome)
            .expect("it reads")
            .into_answer()
    }

    #[test]
    fn an_answer_comes_back_without_the_headers_that_are_not_kept() {
        let answer = back(&fresh("{}", 100)).expect("an answer");
        assert_eq!(
            (answer.status(), &answer.body()[..]),
            (StatusCode::CREATED, &b"{}"[..])
        );
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert!(!answer.headers().contains_key("set-cookie"));
        assert_eq!(answer.extensions().get(), Some(&AnswerFrom::Store));
    }

    #[test]
    fn an_answer_over_the_limit_reaches_the_first_caller_alone() {
        let kept = fresh("{}", 1);
        let error = back(&kept).expect_err("it is not kept");
        assert_eq!(
            (error.reason(), error.happened()),
            (Reason::NotKept, Happened::Yes)
        );
        assert_eq!(kept.into_answer().expect("the answer").body(), "{}");
    }

    #[test]
    fn what_a_store_refuses_is_kept_as_not_kept() {
        let refused = Kept::refused(&fresh("{}", 100).to_outcome(usize::MAX)).expect("another");
        let kept = Kept::from_outcome(&refused).expect("it reads");
        assert!(kept.into_answer().is_err());
        assert!(Kept::refused(&refused).is_none());
    }

    #[test]
    fn a_doubt_on_record_is_never_talked_away() {
        let refusal = || Response::builder().status(404).body(Bytes::new());
        let ended = |happened| given_back(GivenBack(Ok(refusal().expect("it"))), happened);
        assert!(ended(Happened::No).is_ok());
        let error = ended(Happened::Maybe).expect_err("a doubt");
        assert_eq!(error.happened(), Happened::Maybe);
        assert_eq!(
            error.into_answer().map(|it| it.status().as_u16()),
            Some(404)
        );
        let unreached = Error::new(Parts::of(Reason::Unreached, Happened::No));
        let error = given_back(GivenBack(Err(unreached)), Happened::Maybe).expect_err("a doubt");
        assert_eq!(
            (error.reason(), error.happened()),
            (Reason::Unreached, Happened::Maybe)
        );
    }

    #[test]
    fn an_outcome_that_was_recorded_by_hand_is_an_answer() {
        for (body, status) in [("", 204), ("{}", 200)] {
            let outcome = Outcome::raw(Bytes::from_static(body.as_bytes()), 100);
            let answer = Kept::from_outcome(&outcome)
                .expect("it reads")
                .into_answer();
            let answer = answer.expect("an answer");
            assert_eq!(
                (answer.status().as_u16(), &answer.body()[..]),
                (status, body.as_bytes())
            );
        }
    }
}
