//! The body of a request, and who sends it.

use std::ops::Deref;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use http_body_util::LengthLimitError;
use semel_core::Code;

use crate::access::LargeBody;
use crate::caller::{Caller, Role};
use crate::member::INVALID;
use crate::problem::Problem;

/// The body of a request, with its place among the large ones until it is dropped.
#[derive(Debug)]
pub struct Text {
    bytes: Bytes,
    _place: Option<LargeBody>,
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the body of a request whose caller has the rights of `role`.
///
/// # Errors
///
/// 401 without a caller, 403, 415 for a body that is not JSON by its content type, 413 for one that is too long, 400
/// for one that breaks off.
pub async fn read(
    request: Request,
    role: Role,
    max_bytes: usize,
) -> Result<(Caller, Text), Problem> {
    let (mut parts, body) = request.into_parts();
    let caller = caller(&parts, role)?;
    let content_type = content_type(&parts.headers)?;
    let place = parts.extensions.remove::<LargeBody>();
    let body = bytes(body, max_bytes).await?;
    if content_type == ContentType::Other || (content_type == ContentType::None && !body.is_empty())
    {
        let detail = "the body must be JSON, with the content type application/json";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Problem::new(
            status,
            Code::UnsupportedMediaType.as_str(),
            detail,
        ));
    }
    let text = Text {
        bytes: body,
        _place: place,
    };
    Ok((caller, text))
}

/// Returns the caller of a request, who has the rights of `role`.
///
/// # Errors
///
/// 401 without a caller, 403
pub fn caller(parts: &Parts, role: Role) -> Result<Caller, Problem> {
    let Some(caller) = parts.extensions.get::<Caller>() else {
        // Fails closed: a listener that forgets to say who calls serves nobody.
        let detail = "nobody knows who calls";
        let problem = Problem::new(
            StatusCode::UNAUTHORIZED,
            Code::Unauthorized.as_str(),
            detail,
        );
        return Err(problem);
    };
    caller.may(role)?;
    Ok(caller.clone())
}

#[derive(Debug, PartialEq, Eq)]
enum ContentType {
    None,
    Json,
    Other,
}

fn content_type(headers: &HeaderMap) -> Result<ContentType, Problem> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        if headers.contains_key(CONTENT_TYPE) {
            let detail = "the header content-type occurs twice";
            return Err(Problem::new(StatusCode::BAD_REQUEST, INVALID, detail));
        }
        return Ok(ContentType::None);
    };
    let text = value.to_str().unwrap_or_default();
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    let is_json = essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    let is_utf8 = parts.all(|parameter| {
        let charset = parameter
            .split_once('=')
            .filter(|(name, _)| name.eq_ignore_ascii_case("charset"));
        charset.is_none_or(|(_, value)| value.trim_matches('"').eq_ignore_ascii_case("utf-8"))
    });
    Ok(if is_json && is_utf8 {
        ContentType::Json
    } else {
        ContentType::Other
    })
}

async fn bytes(body: Body, max_bytes: usize) -> Result<Bytes, Problem> {
    to_bytes(body, max_bytes).await.map_err(|error| {
        let is_long = std::error::Error::source(&error)
            .is_some_and(<dyn std::error::Error>::is::<LengthLimitError>);
        if is_long {
            let detail = format!("the body is over {max_bytes} bytes long");
            Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                Code::BodyTooLarge.as_str(),
                detail,
            )
        } else {
            Problem::new(StatusCode::BAD_REQUEST, INVALID, "the body broke off")
        }
    })
}
