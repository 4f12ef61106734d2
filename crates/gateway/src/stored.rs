//! An answer as a record keeps it: an HTTP message (RFC 9112), so that every tool that shows outcomes shows it too.
//!
//! The outcome has the content type `message/http; msgtype=response` and is a status line, the headers that are kept, an
//! empty line and the body, byte for byte, with its length. With trailers, as gRPC has them, the body is one chunk and they
//! follow it. The version in the status line is that of this form: a reader refuses any other. Of an answer that was not
//! kept, the outcome is JSON of the content type `application/vnd.semel.unkept-answer+json`.

use std::str::FromStr;

use axum::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::Bytes;
use semel_core::Outcome;
use semel_engine::once::{Remember, Unreadable};
use serde::{Deserialize, Serialize};

/// An answer as a record keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The answer.
    Answer {
        /// The status.
        status: StatusCode,
        /// The headers that are kept, repeated ones in their order.
        headers: HeaderMap,
        /// The body, byte for byte.
        body: Bytes,
        /// The trailers, if there were any.
        trailers: Option<HeaderMap>,
    },
    /// The answer was not kept.
    Unkept {
        /// The reason.
        unkept: Unkept,
        /// Its status.
        status: StatusCode,
    },
    /// An outcome that somebody recorded by hand, in place of an answer that nobody has.
    ByHand {
        /// The outcome.
        body: Bytes,
    },
}

/// The reason why an answer was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unkept {
    /// It was over the limit.
    TooLarge,
    /// It was a stream.
    Streamed,
}

impl Stored {
    /// Returns the outcome of an answer that the store refuses to keep: the same as of one over the limit.
    pub(crate) fn refused(outcome: &Outcome) -> Option<Outcome> {
        let Self::Answer { status, .. } = Self::from_outcome(outcome).ok()? else {
            return None;
        };
        let unkept = Unkept::TooLarge;
        Some(Self::Unkept { unkept, status }.to_outcome(usize::MAX))
    }
}

impl Remember for Stored {
    fn to_outcome(&self, limit_bytes: usize) -> Outcome {
        let (content_type, bytes) = match self {
            Self::Answer {
                status,
                headers,
                body,
                trailers,
            } => {
                let message = message(*status, headers, body, trailers.as_ref());
                (MESSAGE, message.into())
            }
            Self::Unkept { unkept, status } => {
                let marker = Marker {
                    unkept: *unkept,
                    original_status: status.as_u16(),
                };
                // Two plain members can always be written.
                (
                    MARKER,
                    serde_json::to_vec(&marker).unwrap_or_default().into(),
                )
            }
            Self::ByHand { body } => return Outcome::raw(body.clone(), limit_bytes),
        };
        let kept = Outcome::media(content_type, bytes, limit_bytes);
        kept.unwrap_or_else(Outcome::empty)
    }

    fn from_outcome(outcome: &Outcome) -> Result<Self, Unreadable> {
        match outcome {
            Outcome::TooLarge { len_bytes, digest } => Err(Unreadable::TooLarge {
                len_bytes: *len_bytes,
                digest: *digest,
            }),
            Outcome::Kept { codec: 0, bytes } => Ok(Self::ByHand {
                body: bytes.clone(),
            }),
            Outcome::Kept { codec, bytes } => match outcome.as_media() {
                Some((MESSAGE, message)) => {
                    let message = bytes.slice(bytes.len() - message.len()..);
                    read(&message)
                }
                Some((MARKER, marker)) => Marker::read(marker),
                Some((other, _)) => Err(other_than(&format!("of the type {other}"))),
                None => Err(other_than(&format!("of codec {codec}"))),
            },
        }
    }
}

/// The outcome of an answer that was not kept.
#[derive(Serialize, Deserialize)]
struct Marker {
    unkept: Unkept,
    original_status: u16,
}

impl Marker {
    fn read(json: &[u8]) -> Result<Stored, Unreadable> {
        let marker: Self = serde_json::from_slice(json).map_err(|why| broken(&why.to_string()))?;
        let status = StatusCode::from_u16(marker.original_status);
        Ok(Stored::Unkept {
            unkept: marker.unkept,
            status: status.map_err(|_| broken("its status is none"))?,
        })
    }
}

fn message(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    trailers: Option<&HeaderMap>,
) -> Vec<u8> {
    let mut message = Vec::with_capacity(256 + body.len());
    let reason = status.canonical_reason().unwrap_or_default();
    message.extend_from_slice(format!("{VERSION} {} {reason}{LINE}", status.as_u16()).as_bytes());
    let framing = match trailers {
        Some(_) => format!("{TRANSFER_ENCODING}: {CHUNKED}{LINE}"),
        None => format!("{CONTENT_LENGTH}: {}{LINE}", body.len()),
    };
    message.extend_from_slice(framing.as_bytes());
    write_fields(headers, &mut message);
    message.extend_from_slice(LINE.as_bytes());
    let Some(trailers) = trailers else {
        message.extend_from_slice(body);
        return message;
    };
    if !body.is_empty() {
        message.extend_from_slice(format!("{:x}{LINE}", body.len()).as_bytes());
        message.extend_from_slice(body);
        message.extend_from_slice(LINE.as_bytes());
    }
    message.extend_from_slice(format!("0{LINE}").as_bytes());
    write_fields(trailers, &mut message);
    message.extend_from_slice(LINE.as_bytes());
    message
}

/// No name and no value has a line break in it.
fn write_fields(fields: &HeaderMap, message: &mut Vec<u8>) {
    for (name, value) in fields {
        message.extend_from_slice(name.as_str().as_bytes());
        message.extend_from_slice(b": ");
        message.extend_from_slice(value.as_bytes());
        message.extend_from_slice(LINE.as_bytes());
    }
}

/// Reads what [`message`] writes, and refuses all else.
fn read(message: &Bytes) -> Result<Stored, Unreadable> {
    if let Some(version) = version(message).filter(|it| it != VERSION) {
        return Err(other_than(&format!("an answer of {version}")));
    }
    parse(message).ok_or_else(|| broken("it is cut off or changed"))
}

/// Reads the version of a form like this one.
fn version(message: &[u8]) -> Option<String> {
    let end = message.iter().position(|byte| *byte == b' ')?;
    let version = String::from_utf8(message[..end].to_vec()).ok()?;
    version.starts_with("HTTP/").then_some(version)
}

fn parse(message: &Bytes) -> Option<Stored> {
    let mut rest = message.clone();
    let first = line(&mut rest)?;
    let mut words = std::str::from_utf8(&first).ok()?.splitn(3, ' ');
    words.next().filter(|version| *version == VERSION)?;
    let status = StatusCode::from_str(words.next()?).ok()?;
    let mut headers = fields(&mut rest)?;
    if headers.remove(TRANSFER_ENCODING).is_none() {
        let len = headers.remove(CONTENT_LENGTH)?;
        let len: usize = len.to_str().ok()?.parse().ok()?;
        return (rest.len() == len).then_some(Stored::Answer {
            status,
            headers,
            body: rest,
            trailers: None,
        });
    }
    let len = chunk_len(&mut rest)?;
    let body = rest.split_to(Some(len).filter(|len| *len <= rest.len())?);
    if len > 0 {
        line(&mut rest).filter(Bytes::is_empty)?;
        chunk_len(&mut rest).filter(|len| *len == 0)?;
    }
    let trailers = Some(fields(&mut rest)?);
    rest.is_empty().then_some(Stored::Answer {
        status,
        headers,
        body,
        trailers,
    })
}

fn chunk_len(rest: &mut Bytes) -> Option<usize> {
    let digits = line(rest)?;
    usize::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()
}

/// Reads fields, and the empty line after them.
fn fields(rest: &mut Bytes) -> Option<HeaderMap> {
    let mut fields = HeaderMap::new();
    loop {
        let line = line(rest)?;
        if line.is_empty() {
            return Some(fields);
        }
        let colon = line.windows(2).position(|pair| pair == b": ")?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        let value = HeaderValue::from_maybe_shared(line.slice(colon + 2..)).ok()?;
        fields.append(name, value);
    }
}

/// Takes the next line, without its end.
fn line(rest: &mut Bytes) -> Option<Bytes> {
    let end = rest.windows(2).position(|pair| pair == LINE.as_bytes())?;
    let line = rest.split_to(end);
    let _ = rest.split_to(LINE.len());
    Some(line)
}

fn broken(why: &str) -> Unreadable {
    Unreadable::Broken {
        wanted: WANTED.into(),
        why: why.into(),
    }
}

fn other_than(found: &str) -> Unreadable {
    Unreadable::Other {
        found: found.into(),
        wanted: WANTED.into(),
    }
}

const MESSAGE: &str = "message/http; msgtype=response";
const MARKER: &str = "application/vnd.semel.unkept-answer+json";
const VERSION: &str = "HTTP/1.1";
const CHUNKED: &str = "chunked";
const LINE: &str = "\r\n";
const WANTED: &str = "an HTTP answer";

#[cfg(test)]
mod tests {
    use super::*;

    fn fields_of(fields: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            let value = HeaderValue::from_bytes(value).expect("a value");
            map.append(*name, value);
        }
        map
    }

    fn answer(body: &'static [u8], trailers: Option<HeaderMap>) -> Stored {
        Stored::Answer {
            status: StatusCode::CREATED,
            headers: fields_of(&[
                ("content-type", b"application/json"),
                ("link", b"<a>; rel=next"),
                ("link", b"<b>; rel=prev"),
                ("etag", b"\"\xff: x\""),
            ]),
            body: Bytes::from_static(body),
            trailers,
        }
    }

    fn message_of(stored: &Stored) -> Vec<u8> {
        let outcome = stored.to_outcome(usize::MAX);
        let (content_type, message) = outcome.as_media().expect("media");
        assert_eq!(content_type, MESSAGE);
        message.to_vec()
    }

    #[test]
    fn an_answer_comes_back_byte_for_byte() {
        let grpc = || Some(fields_of(&[("grpc-status", b"0"), ("grpc-message", b"")]));
        for body in [
            &b""[..],
            b"{}",
            b"\r\n\r\n0\r\n\r\n",
            b"\x00\xff\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
        ] {
            for trailers in [None, Some(HeaderMap::new()), grpc()] {
                let stored = answer(body, trailers);
                let outcome = stored.to_outcome(usize::MAX);
                assert_eq!(Stored::from_outcome(&outcome), Ok(stored));
            }
        }
        let bare = Stored::Answer {
            status: StatusCode::from_u16(599).expect("a status"),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            trailers: None,
        };
        assert_eq!(Stored::from_outcome(&bare.to_outcome(usize::MAX)), Ok(bare));
    }

    /// Records that were written once are read for ever.
    #[test]
    fn the_form_stays_as_it_is() {
        let whole = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\
                     link: <a>; rel=next\r\nlink: <b>; rel=prev\r\netag: \"\u{fffd}: x\"\r\n\r\n{}";
        let found = message_of(&answer(b"{}", None));
        assert_eq!(String::from_utf8_lossy(&found), whole);
        let trailers = Some(fields_of(&[("grpc-status", b"0")]));
        let found = message_of(&answer(b"{}", trailers));
        let found = String::from_utf8_lossy(&found).into_owned();
        let start = "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\ncontent-type: ";
        assert!(found.starts_with(start), "{found}");
        assert!(
            found.ends_with("\r\n\r\n2\r\n{}\r\n0\r\ngrpc-status: 0\r\n\r\n"),
            "{found}"
        );
        let unkept = Stored::Unkept {
            unkept: Unkept::TooLarge,
            status: StatusCode::OK,
        };
        let outcome = unkept.to_outcome(usize::MAX);
        let marker = br#"{"unkept":"too-large","original_status":200}"#;
        assert_eq!(outcome.as_media(), Some((MARKER, &marker[..])));
        assert_eq!(Stored::from_outcome(&outcome), Ok(unkept));
    }

    #[test]
    fn what_is_cut_off_or_of_another_form_is_refused() {
        let read = |message: &[u8]| {
            let message = Bytes::copy_from_slice(message);
            Stored::from_outcome(&Outcome::media(MESSAGE, message, usize::MAX).expect("it"))
        };
        for trailers in [None, Some(fields_of(&[("grpc-status", b"0")]))] {
            let mut whole = message_of(&answer(b"{}", trailers));
            for len in 0..whole.len() {
                let read = read(&whole[..len]);
                assert!(
                    matches!(read, Err(Unreadable::Broken { .. })),
                    "{len}: {read:?}"
                );
            }
            whole.push(b'}');
            assert!(matches!(read(&whole), Err(Unreadable::Broken { .. })));
        }
        // What a later version may write is not taken for damage.
        let newer = read(b"HTTP/2 200 \r\n\r\n");
        assert!(matches!(newer, Err(Unreadable::Other { .. })), "{newer:?}");
        let other = Outcome::media("text/plain", Bytes::new(), 0).expect("it");
        let typed = Outcome::Kept {
            codec: 1,
            bytes: Bytes::new(),
        };
        for outcome in [other, typed] {
            let read = Stored::from_outcome(&outcome);
            assert!(matches!(read, Err(Unreadable::Other { .. })), "{read:?}");
        }
        let too_large = Outcome::raw(Bytes::from_static(b"12"), 1);
        let read = Stored::from_outcome(&too_large);
        assert!(matches!(read, Err(Unreadable::TooLarge { .. })), "{read:?}");
    }

    #[test]
    fn an_outcome_that_was_recorded_by_hand_is_its_bytes() {
        let body = Bytes::from_static(b"{\"id\":7}");
        let outcome = Outcome::raw(body.clone(), 100);
        let read = Stored::from_outcome(&outcome);
        assert_eq!(read, Ok(Stored::ByHand { body }));
    }
}
