//! Refusals as RFC 9457 has them, and the failures that they are here.

use std::borrow::Cow;

use hyper::StatusCode;
use semel_core::{Code, Error, ErrorKind};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::effects::{Effects, in_doubt};

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
    /// True if it may have been carried out all the same, in part or as a whole.
    is_open: bool,
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
            is_open: sent.members.get("certainty").and_then(Value::as_str) == Some("maybe_applied"),
            members: sent.members,
        })
    }

    /// The words of a problem, also of one whose code this version does not know.
    pub(crate) fn words(body: &[u8]) -> Option<String> {
        let sent: Sent<'_> = serde_json::from_slice(body).ok()?;
        Some(format!("{} [{}]", sent.detail, sent.code))
    }

    /// The same of a request with these effects: a server that fails and does not say that it did nothing may have.
    pub(crate) fn after(self, effects: Effects) -> Self {
        let is_told = self.members.contains_key("certainty");
        let is_silent = self.status >= 500 && !is_told;
        match effects {
            Effects::Some(place) if self.is_open || is_silent => Self {
                is_open: true,
                detail: self.detail + &in_doubt(place),
                ..self
            },
            Effects::Some(_) => self,
            // Whatever failed, it was a look.
            Effects::None => Self {
                is_open: false,
                ..self
            },
        }
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
        if self.is_open {
            error.maybe_applied()
        } else {
            error.not_applied()
        }
    }

    /// The kind of failure: that of which the code is the usual one, else what the status says. One that cannot be done
    /// here has a status of its own, whatever its code is.
    fn kind(&self) -> ErrorKind {
        if self.status == StatusCode::NOT_IMPLEMENTED {
            return ErrorKind::Unsupported;
        }
        let kinds = [
            ErrorKind::InvalidInput,
            ErrorKind::InvalidConfig,
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
            (
                501,
                "store-unavailable",
                "not_applied",
                ErrorKind::Unsupported,
            ),
            (
                500,
                "invalid-config",
                "not_applied",
                ErrorKind::InvalidConfig,
            ),
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
    fn an_order_that_a_server_fails_in_may_have_been_given_unless_it_says_otherwise() {
        for (status, certainty, is_open) in [
            (500, "", true),
            (503, "", true),
            (503, ",\"certainty\":\"maybe_applied\"", true),
            (503, ",\"certainty\":\"not_applied\"", false),
            (409, "", false),
        ] {
            let text = format!("{{\"code\":\"internal\",\"detail\":\"x\"{certainty}}}");
            let sent = || read(status, &text).expect("a problem");
            let error = sent().after(Effects::Some("a place")).error();
            let said = error.to_string().contains("may have been given");
            let certain = error.certainty() != Certainty::MaybeApplied;
            assert_eq!((said, !certain), (is_open, is_open), "{status} {certainty}");
            // Whoever only looked changed nothing.
            let looked = sent().after(Effects::None).error();
            assert_eq!(looked.to_string(), "x");
            assert_ne!(looked.certainty(), Certainty::MaybeApplied, "{certainty}");
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
        // A person reads what it says all the same.
        let words = Problem::words(br#"{"code":"of-tomorrow","detail":"x"}"#);
        assert_eq!(words.as_deref(), Some("x [of-tomorrow]"));
    }
}
