//! The findings of a check. Each code has a row in the book, `reference/check.md`.

use serde::Serialize;

/// One thing that somebody should know before the pipeline runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable.
    pub code: &'static str,
    /// Its weight.
    pub severity: Severity,
    /// The fact, one clause.
    pub message: String,
    /// The way to mend it.
    pub advice: String,
}

/// Its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing to say.
    Ok,
    /// It may be meant.
    Warn,
    /// The promise does not hold, or the run would end at once.
    Fail,
}

impl Severity {
    /// For people and programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// Something that may be meant.
pub fn warn(code: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding {
        code,
        severity: Severity::Warn,
        message: message.into(),
        advice: advice.into(),
    }
}

/// Something that must not stay so.
pub fn fail(code: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding {
        severity: Severity::Fail,
        ..warn(code, message, advice)
    }
}
