//! A whole check, as the admin API answers it: the reports, what follows from them, and the failure that ended it.

use std::borrow::Cow;

use semel_core::{Code, Error, ErrorKind};
use serde::{Deserialize, Serialize};

use super::finding::Severity;
use super::subject_report::CheckReport;
use super::window_line::WindowLine;

/// The documented object of `/v1/check`.
#[derive(Debug, Serialize, Deserialize)]
pub struct CheckAnswer {
    /// The version of the format.
    pub semel: u32,
    /// The worst of all findings; of a list before production, of its lines.
    pub verdict: Severity,
    /// The reports, in the order in which they are printed.
    pub items: Vec<CheckReport>,
    /// The windows of the pipelines that read a broker.
    pub windows: Vec<WindowLine>,
    /// The store or the server that was not looked at; none where all of them were.
    pub failure: Option<CheckFailure>,
}

/// A failure to look at the store or at a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFailure {
    /// The code.
    pub code: Cow<'static, str>,
    /// The kind, which may be another than the usual one of the code.
    pub kind: Cow<'static, str>,
    /// The words.
    pub detail: String,
}

impl CheckAnswer {
    /// The version of the format.
    pub const VERSION: u32 = 1;
}

impl From<&Error> for CheckFailure {
    fn from(error: &Error) -> Self {
        Self {
            code: error.code().as_str().into(),
            kind: word_of(error.kind()).into(),
            detail: error.to_string(),
        }
    }
}

impl From<&CheckFailure> for Error {
    /// Returns the failure that it is here; of a word that is not known, one of the environment.
    fn from(failure: &CheckFailure) -> Self {
        let mut kinds = KINDS.iter();
        let kind = kinds.find(|(_, word)| *word == failure.kind);
        let kind = kind.map_or(ErrorKind::Unavailable, |(kind, _)| *kind);
        let code = Code::ALL.iter().find(|it| it.as_str() == failure.code);
        let error = Self::new(kind, failure.detail.clone()).not_applied();
        match code {
            Some(code) => error.with_code(*code),
            None => error,
        }
    }
}

/// Returns the word for a kind.
fn word_of(kind: ErrorKind) -> &'static str {
    let mut kinds = KINDS.iter();
    let found = kinds.find(|(known, _)| *known == kind);
    found.map_or("internal", |(_, word)| *word)
}

const KINDS: [(ErrorKind, &str); 11] = [
    (ErrorKind::InvalidInput, "invalid-input"),
    (ErrorKind::InvalidConfig, "invalid-config"),
    (ErrorKind::Unsupported, "unsupported"),
    (ErrorKind::ClaimLost, "claim-lost"),
    (ErrorKind::Conflict, "conflict"),
    (ErrorKind::Throttled, "throttled"),
    (ErrorKind::Unavailable, "unavailable"),
    (ErrorKind::Timeout, "timeout"),
    (ErrorKind::Corrupt, "corrupt"),
    (ErrorKind::Poisoned, "poisoned"),
    (ErrorKind::Internal, "internal"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_comes_back_with_its_kind_and_its_code() {
        for (kind, _) in KINDS {
            let error = Error::new(kind, "words").with_code(Code::StoreUnavailable);
            let sent = serde_json::to_value(CheckFailure::from(&error)).expect("JSON");
            let read: CheckFailure = serde_json::from_value(sent).expect("a failure");
            let back = Error::from(&read);
            assert_eq!((back.kind(), back.code()), (kind, Code::StoreUnavailable));
            assert_eq!(back.to_string(), "words");
        }
        let other = CheckFailure {
            code: "of-tomorrow".into(),
            kind: "of-tomorrow".into(),
            detail: "words".to_owned(),
        };
        assert_eq!(Error::from(&other).kind(), ErrorKind::Unavailable);
    }
}
