//! Bodies that are read as far as a limit allows.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full};

/// A body, as far as it was read.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// All of it.
    Whole {
        bytes: Bytes,
        trailers: Option<HeaderMap>,
    },
    /// It is longer than the limit; none of it is lost.
    Long(Body),
    /// It broke off; what came before, and the error, are in it.
    Broken(Body),
}

/// Reads a body of at most `most_bytes`.
pub(crate) async fn gather(mut body: Body, most_bytes: usize) -> Gathered {
    if body.size_hint().lower() > most_bytes as u64 {
        return Gathered::Long(body);
    }
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                let read = [Ok(Frame::data(bytes.freeze())), Err(error)];
                return Gathered::Broken(Prefixed::body(read, body));
            }
        };
        match frame.into_data() {
            Ok(data) if bytes.len() + data.len() > most_bytes => {
                let read = [Ok(Frame::data(bytes.freeze())), Ok(Frame::data(data))];
                return Gathered::Long(Prefixed::body(read, body));
            }
            // Most bodies are one part, which need not be copied.
            Ok(data) if bytes.is_empty() && body.is_end_stream() => {
                return Gathered::Whole {
                    bytes: data,
                    trailers: None,
                };
            }
            Ok(data) => bytes.extend_from_slice(&data),
            // Nothing follows trailers.
            Err(frame) => {
                let bytes = bytes.freeze();
                let trailers = frame.into_trailers().ok();
                return Gathered::Whole { bytes, trailers };
            }
        }
    }
    let bytes = bytes.freeze();
    Gathered::Whole {
        bytes,
        trailers: None,
    }
}

/// Makes a body of what was read.
pub(crate) fn whole(bytes: Bytes, trailers: Option<HeaderMap>) -> Body {
    match trailers {
        None => Body::from(bytes),
        Some(trailers) => {
            let trailers = std::future::ready(Some(Ok(trailers)));
            Body::new(Full::new(bytes).with_trailers(trailers))
        }
    }
}

/// A body whose beginning was read.
struct Prefixed {
    read: VecDeque<Result<Frame<Bytes>, axum::Error>>,
    rest: Body,
}

impl Prefixed {
    fn body<const N: usize>(read: [Result<Frame<Bytes>, axum::Error>; N], rest: Body) -> Body {
        let is_empty = |frame: &Frame<Bytes>| frame.data_ref().is_some_and(Bytes::is_empty);
        let read = read.into_iter();
        let read = read.filter(|frame| !frame.as_ref().is_ok_and(is_empty));
        Body::new(Self {
            read: read.collect(),
            rest,
        })
    }
}

impl HttpBody for Prefixed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.read.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self
            .read
            .iter()
            .filter_map(|frame| frame.as_ref().ok()?.data_ref());
        let read: u64 = read.map(|data| data.len() as u64).sum();
        let mut hint = self.rest.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + read);
        }
        hint.set_lower(hint.lower() + read);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body that comes in these pieces, and then breaks off if `breaks` says so.
    fn pieces(pieces: &[&'static str], breaks: bool) -> Body {
        let pieces = pieces
            .iter()
            .map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes()))));
        let end = breaks.then(|| Err(axum::Error::new("it broke off")));
        Body::new(Prefixed {
            read: pieces.chain(end).collect(),
            rest: Body::empty(),
        })
    }

    async fn text(body: Body) -> Result<String, axum::Error> {
        let bytes = body.collect().await?.to_bytes();
        Ok(String::from_utf8(bytes.to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn a_body_within_the_limit_is_read_whole() {
        for limit in [5, 6] {
            let Gathered::Whole { bytes, trailers } =
                gather(pieces(&["ab", "", "cde"], false), limit).await
            else {
                panic!("it fits");
            };
            assert_eq!((&bytes[..], trailers), (&b"abcde"[..], None));
        }
        let Gathered::Whole { bytes, .. } = gather(Body::empty(), 0).await else {
            panic!("it fits");
        };
        assert!(bytes.is_empty());
    }

    #[tokio::test]
    async fn nothing_of_a_longer_body_is_lost() {
        for (body, limit) in [
            (pieces(&["ab", "cde", "f"], false), 4),
            (Body::from("abcdef"), 4),
        ] {
            let Gathered::Long(body) = gather(body, limit).await else {
                panic!("it is longer");
            };
            assert_eq!(text(body).await.expect("whole"), "abcdef");
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_still_does() {
        let Gathered::Broken(mut body) = gather(pieces(&["ab"], true), 9).await else {
            panic!("it breaks off");
        };
        let first = body.frame().await.expect("a frame").expect("data");
        assert_eq!(first.into_data().expect("data"), "ab");
        assert!(body.frame().await.expect("a frame").is_err());
    }

    #[tokio::test]
    async fn trailers_come_with_the_body() {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().expect("a value"));
        let sent = whole(Bytes::from_static(b"ab"), Some(trailers.clone()));
        let Gathered::Whole {
            bytes,
            trailers: found,
        } = gather(sent, 2).await
        else {
            panic!("it fits");
        };
        assert_eq!((&bytes[..], found), (&b"ab"[..], Some(trailers)));
    }
}
