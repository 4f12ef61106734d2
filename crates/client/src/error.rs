//! Errors, and what is known of the request of each.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use semel_core::{Advice, Certainty};
use semel_engine::once::Happened;

/// An error of a service below.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// A call without a result.
///
/// Each says whether the request was applied, by this call or an earlier one under the same key
/// ([`certainty`](Self::certainty), [`happened`](Self::happened)), why no further attempt was made
/// ([`stopped`](Self::stopped)), and what to do ([`advice`](Self::advice)). Calling again with the same
/// [`Intent`](crate::Intent) is always safe inside the server's window; with another intent it is safe only where
/// nothing was applied. `Display` is one line without key, address or payload.
pub struct Error(Box<Parts>);

pub(crate) struct Parts {
    pub(crate) reason: Reason,
    pub(crate) stopped: Stopped,
    pub(crate) happened: Happened,
    pub(crate) attempts: u32,
    pub(crate) key: Option<Box<str>>,
    pub(crate) operation_id: Option<Box<str>>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) answer: Option<Response<Bytes>>,
    pub(crate) source: Option<BoxError>,
}

/// The reason why an attempt, the last one of a call, has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The request, the key or a setting is not acceptable, or its body broke off. Nothing was sent.
    Invalid,
    /// The server was not reached. Nothing was sent.
    Unreached,
    /// The connection broke off before all of the answer was there.
    Broken,
    /// All of the answer was not there in time.
    Late,
    /// The server asks to come later: 425, 429, and 503 with `Retry-After`.
    Throttled,
    /// Another request under the key is under way, at the server or here: what it does is not known yet.
    InProgress,
    /// The answer does not say what became of the request: a 5xx, or a refusal after an attempt that may have been
    /// applied.
    Unclear,
    /// The server, or the store of intents, says that nobody knows what became of an earlier request under the key.
    InDoubt,
    /// The server, or the store of intents, has given the operation up.
    Dead,
    /// The key belongs to another request.
    KeyReused,
    /// The request was answered before, and that answer was not kept; or the answer is over the limit here.
    NotKept,
    /// The store of intents does not answer.
    Store,
    /// Semel was closed.
    Closed,
}

impl Reason {
    /// Returns the stable code, which `semel explain` knows.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Invalid | Self::Closed => "invalid-input",
            Self::Unreached => "target-away",
            Self::Broken => "upstream-broken",
            Self::Late => "upstream-timeout",
            Self::Throttled => "throttled",
            Self::InProgress => "in-progress",
            Self::Unclear => "effect-failed",
            Self::InDoubt => "in-doubt",
            Self::Dead => "dead",
            Self::KeyReused => "key-reused",
            Self::NotKept => "answer-too-large",
            Self::Store => "store-unavailable",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Invalid => "the request cannot be sent",
            Self::Unreached => "the server was not reached",
            Self::Broken => "the connection broke off before all of the answer was there",
            Self::Late => "the answer was not there in time",
            Self::Throttled => "the server asks to come later",
            Self::InProgress => "another request under the key is under way",
            Self::Unclear => "the answer does not say what became of the request",
            Self::InDoubt => "nobody knows what became of an earlier request under the key",
            Self::Dead => "the operation was given up",
            Self::KeyReused => "the key belongs to another request",
            Self::NotKept => "the answer is not there any more, or is over the limit",
            Self::Store => "the store of intents does not answer",
            Self::Closed => "semel is closed",
        }
    }
}

/// The reason why no further attempt was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stopped {
    /// Another attempt would be told nothing else.
    Final,
    /// The request may have been applied, and it has neither a key that the server recognises nor an idempotent method.
    Unkeyed,
    /// All attempts are used up.
    Attempts,
    /// The time of the call is used up, or would be before the server wants to hear of the request again.
    Budget,
    /// The request may have been applied, and the server may soon have forgotten its key.
    Window,
}

impl Stopped {
    const fn words(self) -> &'static str {
        match self {
            Self::Final => "",
            Self::Unkeyed => ", and without a key it is not repeated",
            Self::Attempts => ", and the attempts are used up",
            Self::Budget => ", and the time of the call is used up",
            Self::Window => ", and the window of the server is over",
        }
    }
}

impl Error {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Box::new(parts))
    }

    /// Returns the error of a request that was not sent, and never will be in this form.
    pub(crate) fn invalid(source: impl Into<BoxError>) -> Self {
        Self::new(Parts {
            source: Some(source.into()),
            ..Parts::of(Reason::Invalid, Happened::No)
        })
    }

    /// Returns the reason why the last attempt has no result.
    pub const fn reason(&self) -> Reason {
        self.0.reason
    }

    /// Returns the reason why no further attempt was made.
    pub const fn stopped(&self) -> Stopped {
        self.0.stopped
    }

    /// Returns the stable code, for programs and for `semel explain CODE`.
    pub const fn code(&self) -> &'static str {
        self.0.reason.code()
    }

    /// Returns `NotApplied` only if the request was surely not applied, by no attempt of this call or of an earlier
    /// one.
    pub const fn certainty(&self) -> Certainty {
        match self.0.happened {
            Happened::No => Certainty::NotApplied,
            Happened::Maybe | Happened::Yes => Certainty::MaybeApplied,
        }
    }

    /// Says whether the request was applied, as far as is known: by this call or an earlier one under its key.
    pub const fn happened(&self) -> Happened {
        self.0.happened
    }

    /// Returns the next step. [`Advice::Retry`] means with the same intent, whose key is the same.
    pub fn advice(&self) -> Advice {
        let after = self.0.retry_after.unwrap_or_default();
        match (self.0.reason, self.0.stopped) {
            (Reason::Invalid | Reason::KeyReused, _) => Advice::Fix,
            (Reason::Closed, _) => Advice::Stop,
            (Reason::InDoubt | Reason::Dead | Reason::NotKept, _)
            | (_, Stopped::Unkeyed | Stopped::Window)
            | (Reason::Unclear, Stopped::Final) => Advice::LookUpFirst,
            _ => Advice::Retry { after },
        }
    }

    /// Returns the number of attempts that this call made.
    pub const fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Returns the idempotency key of the request, for whoever looks it up at the server.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Returns the id of the operation by which the server knows the request, if it named one; for an operation that
    /// the store of intents gave up, that of the store: `semel keys explain ID` tells more.
    pub fn operation_id(&self) -> Option<&str> {
        self.0.operation_id.as_deref()
    }

    /// Returns the time after which the server, or the store of intents, wants to hear of the request again.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns the last answer, if there was one: it is not what became of the request.
    pub const fn answer(&self) -> Option<&Response<Bytes>> {
        self.0.answer.as_ref()
    }

    /// Returns the last answer, if there was one, for a caller that passes it on all the same.
    pub fn into_answer(self) -> Option<Response<Bytes>> {
        self.0.answer
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        change(&mut self.0);
        self
    }
}

impl Parts {
    pub(crate) const fn of(reason: Reason, happened: Happened) -> Self {
        Self {
            reason,
            stopped: Stopped::Final,
            happened,
            attempts: 0,
            key: None,
            operation_id: None,
            retry_after: None,
            answer: None,
            source: None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &self.0;
        f.write_str(parts.reason.words())?;
        if let Some(answer) = &parts.answer {
            write!(f, " (HTTP {})", answer.status().as_u16())?;
        }
        if parts.attempts > 1 {
            write!(f, " after {} attempts", parts.attempts)?;
        }
        f.write_str(parts.stopped.words())?;
        f.write_str(match parts.happened {
            Happened::No => "; nothing was applied",
            Happened::Maybe => "; it may have been applied",
            Happened::Yes => "; it was applied",
        })
    }
}

/// Shows neither the key nor the body of an answer.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &self.0;
        f.debug_struct("Error")
            .field("reason", &parts.reason)
            .field("stopped", &parts.stopped)
            .field("happened", &parts.happened)
            .field("attempts", &parts.attempts)
            .field("operation_id", &parts.operation_id)
            .field("retry_after", &parts.retry_after)
            .field("status", &parts.answer.as_ref().map(Response::status))
            .field("source", &parts.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_is_known_and_shows_no_key() {
        let answer = Response::builder()
            .status(503)
            .body(Bytes::from_static(b"secret"));
        let error = Error::new(Parts {
            stopped: Stopped::Budget,
            attempts: 3,
            key: Some("pay-1".into()),
            answer: answer.ok(),
            ..Parts::of(Reason::Throttled, Happened::Maybe)
        });
        let line = "the server asks to come later (HTTP 503) after 3 attempts, and the time of the call is used up; \
                    it may have been applied";
        assert_eq!(error.to_string(), line);
        let shown = format!("{error:?}");
        assert!(
            !shown.contains("pay-1") && !shown.contains("secret"),
            "{shown}"
        );
        assert_eq!((error.key(), error.code()), (Some("pay-1"), "throttled"));
    }

    #[test]
    fn only_what_surely_did_not_happen_is_not_applied() {
        for (happened, certainty) in [
            (Happened::No, Certainty::NotApplied),
            (Happened::Maybe, Certainty::MaybeApplied),
            (Happened::Yes, Certainty::MaybeApplied),
        ] {
            let error = Error::new(Parts::of(Reason::Unclear, happened));
            assert_eq!(error.certainty(), certainty);
        }
    }

    #[test]
    fn each_error_says_what_to_do() {
        let advice = |reason, stopped| {
            let parts = Parts::of(reason, Happened::Maybe);
            Error::new(Parts { stopped, ..parts }).advice()
        };
        let now = Advice::Retry {
            after: Duration::ZERO,
        };
        for (reason, stopped, expected) in [
            (Reason::Invalid, Stopped::Final, Advice::Fix),
            (Reason::KeyReused, Stopped::Final, Advice::Fix),
            (Reason::InDoubt, Stopped::Final, Advice::LookUpFirst),
            (Reason::NotKept, Stopped::Final, Advice::LookUpFirst),
            (Reason::Unclear, Stopped::Final, Advice::LookUpFirst),
            (Reason::Late, Stopped::Unkeyed, Advice::LookUpFirst),
            (Reason::Late, Stopped::Window, Advice::LookUpFirst),
            (Reason::Late, Stopped::Budget, now),
            (Reason::Unreached, Stopped::Attempts, now),
        ] {
            assert_eq!(advice(reason, stopped), expected, "{reason:?} {stopped:?}");
        }
    }
}
