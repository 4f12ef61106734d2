//! A service that answers as a script says, and remembers what it was sent.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use semel_client::{Retry, RetryLayer, Settings};
use semel_core::Entropy;
use semel_engine::system::SystemClock;
use tokio::time::Instant;
use tower::{Layer, Service};

/// One step of a script.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Answer(u16, Vec<(&'static str, &'static str)>, &'static str),
    /// An answer whose body breaks off.
    Torn(u16),
    Fail(io::ErrorKind),
    /// No answer, ever.
    Hang,
    /// An answer after that long.
    Slow(Duration, u16),
}

impl Act {
    pub(crate) fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new(), "")
    }

    pub(crate) fn with(status: u16, name: &'static str, value: &'static str) -> Self {
        Self::Answer(status, vec![(name, value)], "")
    }

    pub(crate) fn problem(status: u16, body: &'static str) -> Self {
        Self::Answer(
            status,
            vec![("content-type", "application/problem+json")],
            body,
        )
    }
}

pub(crate) const RESET: Act = Act::Fail(io::ErrorKind::ConnectionReset);
pub(crate) const REFUSED: Act = Act::Fail(io::ErrorKind::ConnectionRefused);

/// One request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: Option<HeaderValue>,
    pub(crate) body: Bytes,
    pub(crate) at: Instant,
}

/// A service whose last act goes on for ever.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    script: Arc<Mutex<VecDeque<Act>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    key_header: HeaderName,
}

impl Scripted {
    pub(crate) fn new(script: impl Into<VecDeque<Act>>) -> Self {
        Self {
            script: Arc::new(Mutex::new(script.into())),
            seen: Arc::default(),
            key_header: HeaderName::from_static("idempotency-key"),
        }
    }

    pub(crate) fn with_key_header(self, key_header: HeaderName) -> Self {
        Self { key_header, ..self }
    }

    /// Goes on with another script.
    pub(crate) fn continue_with(&self, script: impl Into<VecDeque<Act>>) {
        *self.script.lock().expect("no panic") = script.into();
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }

    pub(crate) fn keys(&self) -> Vec<Option<String>> {
        let text = |key: HeaderValue| key.to_str().expect("text").to_owned();
        self.seen()
            .into_iter()
            .map(|seen| seen.key.map(text))
            .collect()
    }

    /// This service under retries, without jitter.
    pub(crate) fn retried(&self, settings: Settings) -> Retry<Self> {
        retries(settings, 0).layer(self.clone())
    }
}

/// A layer whose entropy says the same byte again and again: 0 for no jitter, 255 for the longest.
pub(crate) fn retries(settings: Settings, byte: u8) -> RetryLayer {
    let entropy = Arc::new(Constant(byte));
    RetryLayer::with(settings, Arc::new(SystemClock::new()), entropy).expect("settings that hold")
}

struct Constant(u8);

impl Entropy for Constant {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

pub(crate) fn post() -> Request<Full<Bytes>> {
    request("POST")
}

pub(crate) fn request(method: &str) -> Request<Full<Bytes>> {
    let request = Request::builder()
        .method(method)
        .uri("http://provider.test/charges");
    request
        .body(Full::new(Bytes::from_static(b"{\"cents\":4200}")))
        .expect("a request")
}

impl Service<Request<Full<Bytes>>> for Scripted {
    type Response = Response<BoxBody<Bytes, io::Error>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let key = request.headers().get(&this.key_header).cloned();
            let body = request.into_body().collect().await.expect("a whole body");
            let seen = Seen {
                key,
                body: body.to_bytes(),
                at: Instant::now(),
            };
            let act = {
                let mut script = this.script.lock().expect("no panic");
                this.seen.lock().expect("no panic").push(seen);
                let act = script.front().expect("an act").clone();
                if script.len() > 1 {
                    script.pop_front();
                }
                act
            };
            this.carry_out(act).await
        })
    }
}

impl Scripted {
    async fn carry_out(self, act: Act) -> io::Result<Response<BoxBody<Bytes, io::Error>>> {
        let whole = |body: &'static str| {
            Full::new(Bytes::from_static(body.as_bytes()))
                .map_err(|never| match never {})
                .boxed()
        };
        let (status, headers, body) = match act {
            Act::Answer(status, headers, body) => (status, headers, whole(body)),
            Act::Torn(status) => {
                let torn = [
                    Ok(http_body::Frame::data(Bytes::from_static(b"{\"char"))),
                    Err(io::Error::from(io::ErrorKind::ConnectionReset)),
                ];
                let torn = stream_of(torn);
                (status, Vec::new(), BoxBody::new(StreamBody::new(torn)))
            }
            Act::Fail(kind) => return Err(kind.into()),
            Act::Hang => pending().await,
            Act::Slow(after, status) => {
                tokio::time::sleep(after).await;
                (status, Vec::new(), whole("slow"))
            }
        };
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(name, value);
        }
        Ok(response.body(body).expect("an answer"))
    }
}

type Piece = io::Result<http_body::Frame<Bytes>>;

fn stream_of<const N: usize>(
    pieces: [Piece; N],
) -> impl futures_util::Stream<Item = Piece> + Send + Sync {
    futures_util::stream::iter(pieces)
}
