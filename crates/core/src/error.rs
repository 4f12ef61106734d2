//! Errors, and the two questions that every error answers: did the operation take effect, and what
//! should the caller do next?
//!
//! Expected answers are no errors: a duplicate, a busy key or a conflict is an
//! [`Admission`](crate::Admission).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::code::Code;

/// The result of everything fallible here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The certainty about the effect of an operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It surely did not.
    NotApplied,
    /// Nobody knows: a request went out and no answer came.
    MaybeApplied,
}

/// The caller's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Change the input or the configuration; a retry will fail the same way.
    Fix,
    /// Try again, at the earliest after this long.
    Retry {
        /// The time to wait.
        after: Duration,
    },
    /// Find out what became of it (with the same claim id) before trying again.
    LookUpFirst,
    /// Give this attempt up; another claim owns the operation.
    Stop,
    /// Wake a person: stored bytes are wrong or a promise is broken.
    Alarm,
}

/// The kind of failure. Every kind has a page, shown by `semel explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The caller must change its input.
    InvalidInput,
    /// The operator must change the configuration.
    InvalidConfig,
    /// This backend cannot promise that.
    Unsupported,
    /// Another claimant holds a newer claim; discard the result.
    ClaimLost,
    /// The record changed meanwhile.
    Conflict,
    /// Refused for load.
    Throttled,
    /// There is no connection or no file, or it broke.
    Unavailable,
    /// No answer arrived in time.
    Timeout,
    /// Stored bytes are wrong.
    Corrupt,
    /// A flush failed; the store refuses further writes.
    Poisoned,
    /// A bug of Semel, or a driver error that is not classified.
    Internal,
}

impl ErrorKind {
    /// The code of the kind, for failures of which nothing more precise is known.
    pub const fn code(self) -> Code {
        match self {
            Self::InvalidInput => Code::InvalidInput,
            Self::InvalidConfig => Code::InvalidConfig,
            Self::Unsupported => Code::Unsupported,
            Self::ClaimLost => Code::ClaimLost,
            Self::Conflict => Code::Conflict,
            Self::Throttled => Code::Throttled,
            Self::Unavailable => Code::StoreUnavailable,
            Self::Timeout => Code::Timeout,
            Self::Corrupt => Code::RecordCorrupt,
            Self::Poisoned => Code::StorePoisoned,
            Self::Internal => Code::Internal,
        }
    }

    const fn certainty(self) -> Certainty {
        match self {
            Self::InvalidInput
            | Self::InvalidConfig
            | Self::Unsupported
            | Self::ClaimLost
            | Self::Conflict
            | Self::Throttled => Certainty::NotApplied,
            // Optimism duplicates; a caller that knows better says so with `not_applied`.
            Self::Unavailable | Self::Timeout | Self::Corrupt | Self::Poisoned | Self::Internal => {
                Certainty::MaybeApplied
            }
        }
    }
}

/// A failure: kind, code, certainty, what was attempted, and why.
///
/// `Display` is one lowercase line without its source, a key or a payload; reports walk the chain.
/// Cheap to clone, so that one failure can answer a whole batch.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    code: Code,
    certainty: Certainty,
    retry_after: Duration,
    message: Box<str>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` is one lowercase line that says what was wrong.
    pub fn new(kind: ErrorKind, message: impl Into<Box<str>>) -> Self {
        Self(Arc::new(Inner {
            kind,
            code: kind.code(),
            certainty: kind.certainty(),
            retry_after: Duration::ZERO,
            message: message.into(),
            source: None,
        }))
    }

    /// The same error under a more precise code.
    #[must_use]
    pub fn with_code(self, code: Code) -> Self {
        self.change(|inner| inner.code = code)
    }

    /// The same error, known not to have taken effect.
    #[must_use]
    pub fn not_applied(self) -> Self {
        self.change(|inner| inner.certainty = Certainty::NotApplied)
    }

    /// The same error, where nobody knows whether it took effect.
    #[must_use]
    pub fn maybe_applied(self) -> Self {
        self.change(|inner| inner.certainty = Certainty::MaybeApplied)
    }

    /// The same error with a hint when to try again.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        self.change(|inner| inner.retry_after = after)
    }

    /// The same error with what caused it.
    #[must_use]
    pub fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.change(|inner| inner.source = Some(Arc::new(source)))
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The stable code, for people (`semel explain CODE`) and programs.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The certainty about the effect of the failed operation.
    pub fn certainty(&self) -> Certainty {
        self.0.certainty
    }

    /// The caller's next step.
    pub fn advice(&self) -> Advice {
        let retry = Advice::Retry {
            after: self.0.retry_after,
        };
        match (self.0.kind, self.0.certainty) {
            (ErrorKind::InvalidInput | ErrorKind::InvalidConfig | ErrorKind::Unsupported, _) => {
                Advice::Fix
            }
            (ErrorKind::ClaimLost, _) => Advice::Stop,
            (ErrorKind::Corrupt | ErrorKind::Poisoned | ErrorKind::Internal, _) => Advice::Alarm,
            (ErrorKind::Conflict | ErrorKind::Throttled, _)
            | (ErrorKind::Unavailable | ErrorKind::Timeout, Certainty::NotApplied) => retry,
            (ErrorKind::Unavailable | ErrorKind::Timeout, Certainty::MaybeApplied) => {
                Advice::LookUpFirst
            }
        }
    }

    fn change(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("code", &self.0.code.as_str())
            .field("certainty", &self.0.certainty)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_connection_is_never_taken_for_not_applied() {
        let broken = Error::new(ErrorKind::Unavailable, "connection reset");
        assert_eq!(broken.certainty(), Certainty::MaybeApplied);
        assert_eq!(broken.advice(), Advice::LookUpFirst);
        let refused = broken
            .clone()
            .not_applied()
            .retry_after(Duration::from_secs(2));
        assert_eq!(
            refused.advice(),
            Advice::Retry {
                after: Duration::from_secs(2)
            }
        );
        assert_eq!(
            broken.certainty(),
            Certainty::MaybeApplied,
            "the original is untouched"
        );
        let unknown = refused.maybe_applied();
        assert_eq!(unknown.certainty(), Certainty::MaybeApplied);
    }

    #[test]
    fn each_kind_says_whether_it_was_applied_and_what_to_do() {
        use Certainty::{MaybeApplied, NotApplied};
        let now = Advice::Retry {
            after: Duration::ZERO,
        };
        for (kind, code, certainty, advice) in [
            (
                ErrorKind::InvalidInput,
                "invalid-input",
                NotApplied,
                Advice::Fix,
            ),
            (
                ErrorKind::InvalidConfig,
                "invalid-config",
                NotApplied,
                Advice::Fix,
            ),
            (
                ErrorKind::Unsupported,
                "unsupported",
                NotApplied,
                Advice::Fix,
            ),
            (ErrorKind::ClaimLost, "claim-lost", NotApplied, Advice::Stop),
            (ErrorKind::Conflict, "conflict", NotApplied, now),
            (ErrorKind::Throttled, "throttled", NotApplied, now),
            (
                ErrorKind::Unavailable,
                "store-unavailable",
                MaybeApplied,
                Advice::LookUpFirst,
            ),
            (
                ErrorKind::Timeout,
                "timeout",
                MaybeApplied,
                Advice::LookUpFirst,
            ),
            (
                ErrorKind::Corrupt,
                "record-corrupt",
                MaybeApplied,
                Advice::Alarm,
            ),
            (
                ErrorKind::Poisoned,
                "store-poisoned",
                MaybeApplied,
                Advice::Alarm,
            ),
            (ErrorKind::Internal, "internal", MaybeApplied, Advice::Alarm),
        ] {
            let error = Error::new(kind, "why");
            let found = (error.kind(), error.code().as_str(), error.certainty());
            assert_eq!(found, (kind, code, certainty));
            assert_eq!(error.advice(), advice, "{kind:?}");
        }
        let foreign = Error::new(ErrorKind::Corrupt, "why").with_code(Code::StoreForeign);
        assert_eq!(foreign.code(), Code::StoreForeign);
    }

    #[test]
    fn display_leaves_the_source_to_the_report() {
        let error = Error::new(ErrorKind::Unavailable, "cannot open the store")
            .with_source(std::io::Error::other("secret detail"));
        assert_eq!(error.to_string(), "cannot open the store");
        assert!(std::error::Error::source(&error).is_some());
    }
}
