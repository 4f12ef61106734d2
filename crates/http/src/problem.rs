//! The answer when something went wrong, as RFC 9457 has it.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use semel_core::{Advice, Certainty, Error, ErrorKind};
use serde::Serialize;
use serde_json::{Map, Value};

/// An answer of the type `application/problem+json`.
#[derive(Clone, Debug)]
pub struct Problem(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    status: StatusCode,
    code: &'static str,
    detail: String,
    members: Map<String, Value>,
    headers: HeaderMap,
}

/// The members of the answer, in their order.
#[derive(Serialize)]
struct Document<'a> {
    r#type: String,
    code: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(flatten)]
    members: &'a Map<String, Value>,
}

impl Problem {
    /// The problem with this stable code, which `semel explain` knows; `detail` says what was wrong with this request.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            status,
            code,
            detail: detail.into(),
            members: Map::new(),
            headers: HeaderMap::new(),
        }))
    }

    /// The same problem with one more member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.members.insert(name.to_owned(), value.into());
        self
    }

    /// The same problem with a header of the answer.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.insert(name, value);
        self
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The sentence about this request.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }
}

/// Writes the members alone, for an answer that has several problems in it.
impl Serialize for Problem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = Document {
            r#type: format!("urn:semel:problem:{}", self.0.code),
            code: self.0.code,
            status: self.0.status.as_u16(),
            detail: &self.0.detail,
            members: &self.0.members,
        };
        document.serialize(serializer)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let Parts {
            status,
            mut headers,
            ..
        } = *self.0;
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(CONTENT_TYPE, kind);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// Tells a failure with its certainty; one that passes by itself has the header `Retry-After`.
impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let status = match error.kind() {
            ErrorKind::InvalidInput => StatusCode::BAD_REQUEST,
            ErrorKind::ClaimLost | ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Throttled => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Poisoned => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            ErrorKind::InvalidConfig | ErrorKind::Corrupt | ErrorKind::Internal => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        let certainty = match error.certainty() {
            Certainty::NotApplied => "not_applied",
            Certainty::MaybeApplied => "maybe_applied",
        };
        let problem = Self::new(status, error.code().as_str(), error.to_string())
            .with("certainty", certainty);
        match (error.advice(), error.kind()) {
            (Advice::Retry { after }, ErrorKind::Throttled | ErrorKind::Unavailable) => {
                problem.with_header(RETRY_AFTER, whole_seconds(after.as_secs_f64()))
            }
            // The claim id makes the same call harmless.
            (Advice::LookUpFirst, _) => problem.with_header(RETRY_AFTER, whole_seconds(0.0)),
            (Advice::Fix | Advice::Stop | Advice::Alarm | Advice::Retry { .. }, _) => problem,
        }
    }
}

/// Rounds up to whole seconds, of which there is one at least.
fn whole_seconds(seconds: f64) -> HeaderValue {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is rounded up, and between 1 and a day"
    )]
    let seconds = seconds.ceil().clamp(1.0, 86_400.0) as u64;
    HeaderValue::from(seconds)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use semel_core::Code;
    use serde_json::json;

    use super::*;

    fn members(problem: &Problem) -> Value {
        serde_json::to_value(problem).expect("an object")
    }

    #[test]
    fn a_problem_has_its_type_its_code_and_its_status() {
        let problem = Problem::new(StatusCode::CONFLICT, "claim-lost", "too late")
            .with("operation_id", "ab")
            .with_header(RETRY_AFTER, HeaderValue::from_static("1"));
        let expected = json!({
            "type": "urn:semel:problem:claim-lost", "code": "claim-lost", "status": 409, "detail": "too late",
            "operation_id": "ab",
        });
        assert_eq!(members(&problem), expected);
        let response = problem.into_response();
        assert_eq!(response.status(), StatusCode::CONFLICT);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers()[RETRY_AFTER], "1");
    }

    #[test]
    fn a_failure_says_its_certainty_and_when_to_come_again() {
        let after = |error: &Error| {
            let response = Problem::from(error).into_response();
            response
                .headers()
                .get(RETRY_AFTER)
                .map(|it| it.to_str().expect("digits").to_owned())
        };
        let away = Error::new(ErrorKind::Unavailable, "no connection");
        let refused = away
            .clone()
            .not_applied()
            .retry_after(Duration::from_millis(1_200));
        let corrupt = Error::new(ErrorKind::Corrupt, "damaged");
        for (error, status, code, certainty, retry) in [
            (&away, 503, "store-unavailable", "maybe_applied", Some("1")),
            (&refused, 503, "store-unavailable", "not_applied", Some("2")),
            (&corrupt, 500, "record-corrupt", "maybe_applied", None),
        ] {
            let found = members(&Problem::from(error));
            assert_eq!(found["status"], status);
            assert_eq!(found["code"], code);
            assert_eq!(found["certainty"], certainty);
            assert_eq!(after(error).as_deref(), retry, "{code}");
        }
        let full = Error::new(ErrorKind::Unavailable, "no room").with_code(Code::StoreFull);
        assert_eq!(Problem::from(&full).code(), "store-full");
    }
}
