//! A body as the messages in it.

use std::sync::Arc;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, header};
use bytes::Bytes;
use semel_core::ByteString;
use semel_core::producer::{ProducerMessage, headers as own};
use semel_http::Problem;

use super::answer;
use super::identity::Identity;
use super::options::IngestOptions;
use crate::message::kept;
use crate::scheme::Scheme;

/// Takes the messages out of a body: its lines by its content type, else the whole of it.
pub(crate) fn messages(
    headers: &HeaderMap,
    identity: &Identity,
    body: &Bytes,
    options: &IngestOptions,
) -> Result<Arc<[ProducerMessage]>, Problem> {
    let mut shared: Vec<_> = kept(&Scheme::None, headers);
    shared.retain(|(name, _)| !LEFT_OUT.iter().any(|it| it.as_str() == &**name));
    if let Identity::Producer { epoch, .. } = identity {
        let epoch = Bytes::from(epoch.to_string());
        shared.push((ByteString::from_static(own::EPOCH), epoch));
    }
    let message = |payload: Bytes, id| {
        if payload.len() > options.max_message_bytes {
            return Err(answer::message_too_large(options.max_message_bytes));
        }
        Ok(ProducerMessage {
            id,
            order: None,
            headers: shared.clone(),
            payload,
        })
    };
    if !is_ndjson(headers) {
        if body.is_empty() {
            return Err(answer::no_message());
        }
        return Ok([message(body.clone(), id_of_sender(headers)?)?].into());
    }
    let whole = body.strip_suffix(b"\n").unwrap_or(body);
    if whole.is_empty() {
        return Err(answer::no_message());
    }
    let mut messages = Vec::new();
    let mut begin = 0;
    for line in whole.split(|byte| *byte == b'\n') {
        let end = begin + line.len();
        let payload = line.strip_suffix(b"\r").unwrap_or(line);
        if payload.is_empty() {
            // Does it count? Whoever numbers the lines knows, and nobody here.
            return Err(answer::empty_line(messages.len() + 1));
        }
        if messages.len() == MOST_MESSAGES {
            return Err(answer::too_many(MOST_MESSAGES));
        }
        messages.push(message(body.slice(begin..begin + payload.len()), None)?);
        begin = end + 1;
    }
    Ok(messages.into())
}

/// Tells whether each line of the body is a message.
fn is_ndjson(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let kind = kind.and_then(|it| it.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/x-ndjson")
}

/// Returns the id that the sender gave its message.
fn id_of_sender(headers: &HeaderMap) -> Result<Option<ByteString>, Problem> {
    let name = HeaderName::from_static(own::ID);
    let Some(id) = headers.get(&name) else {
        return Ok(None);
    };
    let text = id
        .to_str()
        .ok()
        .filter(|it| (1..=MAX_ID_BYTES).contains(&it.len()));
    let text =
        text.ok_or_else(|| answer::malformed(&name, "has from 1 to 255 characters of ASCII"));
    text.map(|it| Some(it.into()))
}

/// The headers that are about the request, beside those that no message keeps.
const LEFT_OUT: [HeaderName; 6] = [
    header::HOST,
    header::USER_AGENT,
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
];
/// The most messages of a request.
const MOST_MESSAGES: usize = 10_000;
const MAX_ID_BYTES: usize = 255;

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn of(kind: &'static str, body: &str) -> Result<Vec<Bytes>, (u16, &'static str)> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let address = ([127, 0, 0, 1], 0).into();
        let options = IngestOptions {
            max_message_bytes: 10,
            ..IngestOptions::new(address, "/", "orders")
        };
        let body = Bytes::from(body.to_owned());
        let read = messages(&headers, &Identity::None, &body, &options);
        let read = read.map_err(|it| (it.status().as_u16(), it.code()))?;
        Ok(read.iter().map(|it| it.payload.clone()).collect())
    }

    #[test]
    fn a_body_is_a_message_and_with_the_content_type_for_it_each_line_is_one() {
        assert_eq!(of("application/json", "{}\n{}").expect("one"), ["{}\n{}"]);
        for (kind, body) in [
            ("application/x-ndjson", "{}\n[1]"),
            ("application/x-ndjson; charset=utf-8", "{}\n[1]\n"),
            ("Application/X-NDJSON", "{}\r\n[1]\r\n"),
        ] {
            assert_eq!(of(kind, body).expect("two"), ["{}", "[1]"], "{body:?}");
        }
    }

    #[test]
    fn a_line_whose_place_is_a_guess_and_a_message_that_is_too_long_are_refused() {
        for body in ["", "\n", "{}\n\n{}", "\n{}", "{}\n\n", "{}\n\r\n"] {
            let refused = of("application/x-ndjson", body).expect_err(body);
            assert_eq!(refused, (400, "invalid-input"), "{body:?}");
        }
        assert_eq!(of("text/plain", ""), Err((400, "invalid-input")));
        let long = "x".repeat(11);
        for (kind, body) in [
            ("text/plain", long.clone()),
            ("application/x-ndjson", format!("{{}}\n{long}\n")),
            ("application/x-ndjson", "1\n".repeat(10_001)),
        ] {
            assert_eq!(of(kind, &body), Err((413, "body-too-large")), "{kind}");
        }
    }
}
