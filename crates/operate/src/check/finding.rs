//! The findings of a check. Each code has a row in the book, `reference/check.md`.

use std::borrow::Cow;

use semel_core::Error;
use serde::{Deserialize, Serialize};

/// One fact that the operator should know before the pipeline runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The stable code.
    pub code: Cow<'static, str>,
    /// Its weight.
    pub severity: Severity,
    /// The fact, one clause.
    pub message: String,
    /// The way to mend it.
    pub advice: String,
    /// The place at which an error arose, whose code does not tell; nothing for any other finding.
    #[serde(skip)]
    pub place: Option<Place>,
}

/// The place at which an error arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The store.
    Store,
    /// The source.
    Source,
}

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// There is nothing to report.
    Ok,
    /// The situation may be intended.
    Warn,
    /// The promise does not hold, or the run would end at once.
    Fail,
}

impl Severity {
    /// Returns the name for people and programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// Makes a finding about something that may be intended.
pub fn warn(code: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding {
        code: Cow::Borrowed(code),
        severity: Severity::Warn,
        message: message.into(),
        advice: advice.into(),
        place: None,
    }
}

/// Makes a finding of an error with which a run would end.
pub(super) fn of_error(error: &Error, place: Place) -> Finding {
    let code = error.code().as_str();
    let advice = format!("see `semel explain {code}`");
    Finding {
        place: Some(place),
        ..fail(code, error.to_string(), advice)
    }
}

/// Makes a finding about something that must change.
pub fn fail(code: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding {
        severity: Severity::Fail,
        ..warn(code, message, advice)
    }
}

/// The names as a report has them.
pub(super) fn cows(names: Vec<&'static str>) -> Vec<Cow<'static, str>> {
    names.into_iter().map(Cow::Borrowed).collect()
}
