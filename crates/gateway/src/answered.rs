//! The answer of a handler: read, kept, and given.

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, Response, response};

use crate::gather::{Gathered, gather, whole};
use crate::proof::{Answer, is_grpc};
use crate::route::Route;
use crate::stored::{Stored, Unkept};

/// A body that a handler can answer with.
pub(crate) trait Answers:
    HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static
{
}

impl<T: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static> Answers for T {}

/// The answer of a handler, as far as it was read.
pub(crate) struct Answered {
    pub(crate) head: response::Parts,
    body: AnsweredBody,
}

enum AnsweredBody {
    Whole(Bytes, Option<HeaderMap>),
    Unkept(Unkept, Body),
}

impl Answered {
    /// Reads an answer as far as it can be kept; none if it broke off.
    pub(crate) async fn read<R: Answers>(route: &Route, response: Response<R>) -> Option<Self> {
        let (head, body) = response.into_parts();
        let body = Body::new(body);
        let is_stream = head.headers.get(CONTENT_TYPE);
        let is_stream = is_stream.is_some_and(|it| it.as_bytes().starts_with(EVENT_STREAM));
        let body = if is_stream {
            AnsweredBody::Unkept(Unkept::Streamed, body)
        } else {
            match gather(body, route.max_answer_bytes).await {
                Gathered::Whole { bytes, trailers } => AnsweredBody::Whole(bytes, trailers),
                Gathered::Long(body) => AnsweredBody::Unkept(Unkept::TooLarge, body),
                Gathered::Broken(_) => return None,
            }
        };
        Some(Self { head, body })
    }

    /// The part of it that can prove something.
    pub(crate) fn answer(&self) -> Answer<'_> {
        Answer {
            status: self.head.status,
            headers: &self.head.headers,
            trailers: match &self.body {
                AnsweredBody::Whole(_, trailers) => trailers.as_ref(),
                AnsweredBody::Unkept(..) => None,
            },
            body: match &self.body {
                AnsweredBody::Whole(body, _) => Some(body),
                AnsweredBody::Unkept(..) => None,
            },
            sender: self.head.extensions.get().copied().unwrap_or_default(),
        }
    }

    pub(crate) fn stored(&self, route: &Route) -> Stored {
        let status = self.head.status;
        let (body, trailers) = match &self.body {
            AnsweredBody::Whole(body, trailers) => (body.clone(), trailers.clone()),
            AnsweredBody::Unkept(..) if semel_core::planted("H08") => (Bytes::new(), None),
            AnsweredBody::Unkept(unkept, _) => {
                let unkept = *unkept;
                return Stored::Unkept { unkept, status };
            }
        };
        let is_grpc = is_grpc(&self.head.headers);
        let is_kept = |name: &HeaderName| {
            route.kept_headers.contains(name)
                || (is_grpc && name.as_str().starts_with("grpc-"))
                || semel_core::planted("H11")
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &self.head.headers {
            if is_kept(name) {
                headers.append(name, value.clone());
            }
        }
        let fields = headers.iter().chain(trailers.iter().flatten());
        let fields: usize = fields
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        if fields > MOST_FIELD_BYTES {
            let unkept = Unkept::TooLarge;
            return Stored::Unkept { unkept, status };
        }
        Stored::Answer {
            status,
            headers,
            body,
            trailers,
        }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let body = match self.body {
            AnsweredBody::Whole(bytes, trailers) => whole(bytes, trailers),
            AnsweredBody::Unkept(_, body) => body,
        };
        Response::from_parts(self.head, body)
    }
}

const EVENT_STREAM: &[u8] = b"text/event-stream";
/// The most bytes of headers and trailers that are kept.
const MOST_FIELD_BYTES: usize = 64 << 10;
