//! The meaning that an answer has by itself, whoever asks: a gateway of its upstream, a client of its server. Pure.
//! Source: decision 0018.

use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use semel_core::Certainty;
use serde_json::Value;

use crate::statuses::Statuses;

/// The one who sent an answer. A service that hands on what a server said puts [`Sender::Server`] among the extensions of
/// its answer; without one, it is the handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sender {
    /// A handler in the same process, or a layer around it.
    #[default]
    Handler,
    /// A server at the other end of a connection.
    Server,
}

/// Returns what the status of an answer says of the attempt that it answers; none where that depends on the handler, as
/// of 404 and 500. `unsure` are the codes that this handler or server also gives after it began.
///
/// # Shape
///
/// one of `unsure`, or 408 of a handler → maybe applied; 401, 403, 407, 408, 425, 429, 503 → not applied
pub fn certainty_of_status(
    status: StatusCode,
    sender: Sender,
    unsure: &Statuses,
) -> Option<Certainty> {
    let code = status.as_u16();
    // A layer around a handler answers 408 when it has stopped waiting for it; a server, when it has not got all of the
    // request.
    let is_time_limit = sender == Sender::Handler && status == TIME_LIMIT;
    if unsure.has(status) || is_time_limit {
        Some(Certainty::MaybeApplied)
    } else if REFUSED_BEFORE.contains(&code) {
        Some(Certainty::NotApplied)
    } else {
        None
    }
}

/// Returns the certainty that an answer states in its body, which counts more than its status: a doubt is believed of
/// anybody, its absence of a problem of Semel alone. A success states none; a problem that is compressed is taken for one
/// that states a doubt.
pub fn stated_certainty(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<Certainty> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let is_readable = headers
        .get(CONTENT_ENCODING)
        .is_none_or(|it| it == "identity");
    if !is_readable && !status.is_success() && kind.contains("problem+json") {
        // It may state a doubt, which nobody here can read.
        return Some(Certainty::MaybeApplied);
    }
    if status.is_success() || !kind.contains("json") || body.len() > LONGEST_BYTES {
        return None;
    }
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    match text("certainty")? {
        "maybe_applied" => Some(Certainty::MaybeApplied),
        "not_applied" if text("type")?.starts_with(PROBLEM) => Some(Certainty::NotApplied),
        _ => None,
    }
}

/// The codes that are given before anything is done, or instead of it.
pub(crate) const REFUSED_BEFORE: [u16; 7] = [401, 403, 407, 408, 425, 429, 503];

/// The code by which a layer says that it has stopped waiting for the handler.
pub(crate) const TIME_LIMIT: StatusCode = StatusCode::REQUEST_TIMEOUT;

const PROBLEM: &str = "urn:semel:problem:";
/// The longest problem that is read.
const LONGEST_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::Certainty::{MaybeApplied, NotApplied};
    use super::*;

    fn said(code: u16, sender: Sender, unsure: &str) -> Option<Certainty> {
        let status = StatusCode::from_u16(code).expect("a status");
        certainty_of_status(status, sender, &unsure.parse().expect("statuses"))
    }

    #[test]
    fn seven_codes_say_that_nothing_was_applied() {
        for sender in [Sender::Handler, Sender::Server] {
            for code in 200..600 {
                let expected = match (code, sender) {
                    (408, Sender::Handler) => Some(MaybeApplied),
                    (401 | 403 | 407 | 408 | 425 | 429 | 503, _) => Some(NotApplied),
                    _ => None,
                };
                assert_eq!(said(code, sender, ""), expected, "{code} {sender:?}");
            }
        }
    }

    #[test]
    fn a_code_that_is_also_given_after_the_beginning_proves_nothing() {
        for code in [401, 404, 408, 503] {
            let expected = Some(MaybeApplied);
            assert_eq!(said(code, Sender::Server, "401,404,408,5xx"), expected);
        }
        assert_eq!(said(429, Sender::Server, "503"), Some(NotApplied));
    }

    #[test]
    fn a_doubt_is_believed_of_anybody_and_its_absence_of_semel() {
        let stated = |code: u16, kind: &'static str, body: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            let status = StatusCode::from_u16(code).expect("a status");
            stated_certainty(status, &headers, body.as_bytes())
        };
        let problem = "application/problem+json";
        let of = |kind: &str, certainty: &str| {
            format!(r#"{{"type":"{kind}","certainty":"{certainty}"}}"#)
        };
        let (ours, other) = ("urn:semel:problem:timeout", "about:blank");
        for (kind, certainty, expected) in [
            (ours, "maybe_applied", Some(MaybeApplied)),
            (other, "maybe_applied", Some(MaybeApplied)),
            (ours, "not_applied", Some(NotApplied)),
            (other, "not_applied", None),
            (ours, "perhaps", None),
        ] {
            assert_eq!(stated(503, problem, &of(kind, certainty)), expected);
        }
        let doubt = of(ours, "maybe_applied");
        assert_eq!(stated(200, problem, &doubt), None);
        assert_eq!(stated(503, "text/html", &doubt), None);
        for body in ["", "{", "[]", "7", "{\"certainty\":7}", "\u{0}"] {
            assert_eq!(stated(503, problem, body), None, "{body:?}");
        }
        let long = format!("{}{doubt}", " ".repeat(LONGEST_BYTES));
        assert_eq!(stated(503, problem, &long), None);
    }
}
