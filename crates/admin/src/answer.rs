//! Answers as clients read them.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use semel_core::Code;
use semel_http::Problem;
use serde::Serialize;

/// The answer to a request.
pub(crate) type Answer = Result<Response, Problem>;

/// Answers with a report.
///
/// # Errors
///
/// 500 `internal`
pub(crate) fn json(report: &impl Serialize) -> Answer {
    Ok(json_text(text(report)?.into()))
}

/// Returns a report as JSON text.
///
/// # Errors
///
/// 500 `internal`
pub(crate) fn text(report: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(report).map_err(|error| {
        // Only a defect explains it.
        let detail = format!("the answer does not fit into JSON: {error}");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Problem::new(status, Code::Internal.as_str(), detail)
    })
}

/// The answer that has this JSON text. No browser may take it for a page, or keep it.
pub(crate) fn json_text(text: Body) -> Response {
    let headers: [(HeaderName, HeaderValue); 3] = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            HeaderName::from_static("x-content-type-options"),
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (headers, text).into_response()
}
