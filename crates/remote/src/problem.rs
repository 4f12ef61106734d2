//! Refusals as RFC 9457 has them, and the failures that they are here.

use std::borrow::Cow;

use hyper::StatusCode;
use semel_core::{Code, Error, ErrorKind};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The refusal of a request.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The status of the answer.
    pub status: u16,
    /// The code.
    pub code: Code,
    /// A sentence about this request.
    pub detail: String,
    /// The other members.
    pub members: Map<String, Value>,
}

#[derive(Deserialize)]
struct Sent<'a> {
    code: Cow<'a, str>,
    detail: String,
    #[serde(flatten)]
    members: Map<String, Value>,
}

impl Problem {
    /// Reads the body of an answer; nothing if it is no problem with a code that this version knows.
    pub(crate) fn read(status: StatusCode, body: &[u8]) -> Option<Self> {
        let sent: Sent<'_> = serde_json::from_slice(body).ok()?;
        let code = Code::ALL.iter().find(|it| it.as_str() == sent.code)?;
        Some(Self {
            status: status.as_u16(),
            code: *code,
            detail: sent.detail,
            members: sent.members,
        })
    }

    /// Makes it of the members of one that is part of an answer.
    pub(crate) fn of_members(members: &Map<String, Value>) -> Option<Self> {
        let status = members.get("status").and_then(Value::as_u64);
        let status = status.and_then(|it| StatusCode::from_u16(u16::try_from(it).ok()?).ok());
        let text = serde_json::to_vec(members).ok()?;
        Self::read(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &text)
    }

    /// Returns the failure that it is here: of the same code, with the certainty that it tells.
    pub fn error(&self) -> Error {
        let pointer = self.members.get("pointer").and_then(Value::as_str);
        let pointer = pointer.unwrap_or_default().trim_start_matches('/');
        let message = match pointer {
            "" => self.detail.clone(),
            member => format!("{member}: {}", self.detail),
        };
        let error = Error::new(self.kind(), message).with_code(self.code);
        match self.members.get("certainty").and_then(Value::as_str) {
            Some("maybe_applied") => error.maybe_applied(),
            _ => error.not_applied(),
        }
    }

    /// The kind of failure: that of which the code is the usual one, else what the status says.
    fn kind(&self) -> ErrorKind {
        let kinds = [
            ErrorKind::InvalidInput,
            ErrorKind::Unsupported,
            ErrorKind::Conflict,
            ErrorKind::Throttled,
            ErrorKind::Unavailable,
            ErrorKind::Timeout,
            ErrorKind::Corrupt,
            ErrorKind::Poisoned,
            ErrorKind::Internal,
        ];
        let usual = kinds.into_iter().find(|it| it.code() == self.code);
        usual.unwrap_or(match self.status {
            409 => ErrorKind::Conflict,
            429 => ErrorKind::Throttled,
            400..=499 => ErrorKind::InvalidInput,
            501 => ErrorKind::Unsupported,
            502..=599 => ErrorKind::Unavailable,
            _ => ErrorKind::Internal,
        })
    }
}

#[cfg(test)]
mod tests {
    use semel_core::Certainty;

    use super::*;

    fn read(status: u16, text: &str) -> Option<Problem> {
        let status = StatusCode::from_u16(status).expect("a status");
        Problem::read(status, text.as_bytes())
    }

    #[test]
    fn a_problem_is_the_failure_of_its_code_and_certainty() {
        let text = r#"{"type":"urn:semel:problem:invalid-input","code":"invalid-input","status":400,"detail":"name one","pointer":"/pipeline"}"#;
        let error = read(400, text).expect("a problem").error();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::InvalidInput, Code::InvalidInput)
        );
        assert_eq!(error.to_string(), "pipeline: name one");
        for (status, code, certainty, kind) in [
            (401, "unauthorized", "", ErrorKind::InvalidInput),
            (403, "forbidden", "", ErrorKind::InvalidInput),
            (409, "run-unfinished", "not_applied", ErrorKind::Conflict),
            (500, "record-corrupt", "", ErrorKind::Corrupt),
            (
                503,
                "store-unavailable",
                "not_applied",
                ErrorKind::Unavailable,
            ),
            (503, "timeout", "maybe_applied", ErrorKind::Timeout),
            (503, "throttled", "", ErrorKind::Throttled),
        ] {
            let text =
                format!("{{\"code\":\"{code}\",\"detail\":\"x\",\"certainty\":\"{certainty}\"}}");
            let error = read(status, &text).expect("a problem").error();
            assert_eq!((error.kind(), error.code().as_str()), (kind, code));
            let is_open = certainty == "maybe_applied";
            assert_eq!(
                error.certainty() == Certainty::MaybeApplied,
                is_open,
                "{code}"
            );
        }
    }

    #[test]
    fn a_page_or_a_code_of_another_version_is_no_problem() {
        for text in [
            "<html>",
            "{}",
            r#"{"code":"of-tomorrow","detail":"x"}"#,
            "null",
        ] {
            assert!(read(400, text).is_none(), "{text}");
        }
    }
}
