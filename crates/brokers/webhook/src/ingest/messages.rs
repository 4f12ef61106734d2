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

/// Returns the memory of messages: their bodies, and the headers that each of them has.
pub(crate) fn memory(messages: &[ProducerMessage]) -> usize {
    let of = |message: &ProducerMessage| {
        let headers = message.headers.iter();
        let headers = headers.map(|(name, value)| name.len() + value.len() + PLACE);
        message.payload.len() + headers.sum::<usize>()
    };
    messages.iter().map(of).sum()
}

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
    // Each message has the headers, in memory and on the disk.
    let header_bytes: usize = shared
        .iter()
        .map(|it| it.0.len() + it.1.len() + PLACE)
        .sum();
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
        let id = id_of_sender(headers)?.or_else(|| identity.id_of(0));
        return Ok([message(body.clone(), id)?].into());
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
        if (messages.len() + 1).saturating_mul(header_bytes) > MAX_HEADERS_BYTES {
            return Err(answer::too_many_headers(messages.len()));
        }
        let id = identity.id_of(messages.len());
        // Every message would have it, whatever else names its sender.
        if !messages.is_empty() && options.is_key_whole && headers.contains_key("idempotency-key") {
            return Err(answer::many_under_a_key());
        }
        messages.push(message(body.slice(begin..begin + payload.len()), id)?);
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
/// The memory of a header beside its bytes.
const PLACE: usize = 64;
/// The most bytes of the headers of all messages of a request together.
pub(crate) const MAX_HEADERS_BYTES: usize = 16 << 20;
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

    /// Lines with a header of this many bytes each.
    fn lines(count: usize, header_len: usize, identity: &Identity) -> Result<usize, u16> {
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/x-ndjson");
        headers.insert(CONTENT_TYPE, kind);
        let long = HeaderValue::from_str(&"x".repeat(header_len)).expect("a value");
        headers.insert("trace", long);
        let options = IngestOptions::new(([127, 0, 0, 1], 0).into(), "/", "orders");
        let body = Bytes::from("1\n".repeat(count));
        let read = messages(&headers, identity, &body, &options);
        let ids = |it: Arc<[ProducerMessage]>| {
            let ids = it.iter().filter_map(|it| it.id.clone());
            ids.collect::<std::collections::BTreeSet<_>>().len()
        };
        read.map(ids).map_err(|it| it.status().as_u16())
    }

    #[test]
    fn headers_are_not_multiplied_without_bound() {
        assert_eq!(lines(10_000, 1_000, &Identity::None), Ok(0));
        assert_eq!(lines(200, 60_000, &Identity::None), Ok(0));
        assert_eq!(lines(10_000, 60_000, &Identity::None), Err(413));
    }

    #[test]
    fn where_the_key_of_the_request_is_that_of_the_operation_a_request_has_one_message() {
        let options = IngestOptions {
            is_key_whole: true,
            ..IngestOptions::new(([127, 0, 0, 1], 0).into(), "/", "orders")
        };
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/x-ndjson");
        headers.insert(CONTENT_TYPE, kind);
        let status = |headers: &HeaderMap, identity: &Identity, body| {
            let read = messages(headers, identity, &Bytes::from_static(body), &options);
            read.err().map(|it| it.status().as_u16())
        };
        assert_eq!(status(&headers, &Identity::None, b"1\n2"), None);
        headers.insert("idempotency-key", HeaderValue::from_static("k-1"));
        let key = Identity::Key((*b"k-1").into());
        let numbered = Identity::Producer {
            producer: "billing-0a".parse().expect("a name"),
            epoch: 1,
            first: 1,
        };
        for identity in [&key, &numbered] {
            assert_eq!(status(&headers, identity, b"1"), None);
            assert_eq!(status(&headers, identity, b"1\n1"), Some(400));
        }
    }

    #[test]
    fn lines_under_one_key_are_told_apart_by_their_ids() {
        let key = Identity::Key((*b"k-1").into());
        assert_eq!(lines(12, 1, &key), Ok(12));
        let other = Identity::Key((*b"k-2").into());
        assert_eq!(key.id_of(3), key.id_of(3));
        assert_ne!(key.id_of(3), other.id_of(3));
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
