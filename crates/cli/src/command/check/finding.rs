//! What a check can find. Each has a row in the book, `reference/check.md`.

use serde::Serialize;

/// One thing that somebody should know before the pipeline runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Stable.
    pub(super) code: &'static str,
    pub(super) severity: Severity,
    /// What is so, one clause.
    pub(super) message: String,
    /// What to do about it.
    pub(super) advice: String,
}

/// How much it weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Nothing to say.
    Ok,
    /// It may be meant.
    Warn,
    /// The promise does not hold, or the run would end at once.
    Fail,
}

impl Severity {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// Something that may be meant.
pub(super) fn warn(
    code: &'static str,
    message: impl Into<String>,
    advice: impl Into<String>,
) -> Finding {
    Finding {
        code,
        severity: Severity::Warn,
        message: message.into(),
        advice: advice.into(),
    }
}

/// Something that must not stay so.
pub(super) fn fail(
    code: &'static str,
    message: impl Into<String>,
    advice: impl Into<String>,
) -> Finding {
    Finding {
        severity: Severity::Fail,
        ..warn(code, message, advice)
    }
}
