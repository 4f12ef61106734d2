//! The layer that retries, and its service.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use semel_core::{Clock, Entropy, Result};
use semel_engine::system::{SystemClock, SystemEntropy};
use tower::{Layer, Service};

use crate::attempts::Run;
use crate::call::{Answered, Call, Counters, Counts, Prior, Shared, count};
use crate::error::{BoxError, Error};
use crate::intent::Intent;
use crate::settings::Settings;

/// Retries the requests of a `tower` service, each under one key. Cheap to clone.
///
/// It goes around a service that sends requests, such as a client of hyper-util or a
/// [`ReqwestService`](crate::ReqwestService). Nothing is kept: for keys and answers that outlive the process, put an
/// [`IntentLayer`](crate::IntentLayer) in its place.
#[derive(Clone)]
pub struct RetryLayer {
    shared: Arc<Shared>,
}

impl RetryLayer {
    /// Returns a layer with these settings.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, as [`Settings::check`]
    pub fn new(settings: Settings) -> Result<Self> {
        Self::with(
            settings,
            Arc::new(SystemClock::new()),
            Arc::new(SystemEntropy),
        )
    }

    /// Returns a layer with a clock, for dates in headers, and an entropy, for jitter and fresh keys, of the caller's
    /// own.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, as [`Settings::check`]
    pub fn with(
        settings: Settings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self> {
        settings.check()?;
        let shared = Shared {
            settings,
            clock,
            entropy,
            advertised_secs: AtomicU64::new(u64::MAX),
            counters: Counters::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Returns how much was sent so far, through this layer and its clones.
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }

    pub(crate) fn count_store_replay(&self) {
        count(&self.shared.counters.store_replays);
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}

impl fmt::Debug for RetryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryLayer").field(self.settings()).finish()
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, service: S) -> Retry<S> {
        Retry {
            shared: Arc::clone(&self.shared),
            service,
        }
    }
}

/// A service whose requests are retried, each under one key.
///
/// # Guarantee
///
/// Every attempt of a call has the same key, head and body. A request that may have been applied is repeated only under
/// a key that the server recognises and surely still remembers, or if its method is idempotent.
///
/// # Shape
///
/// `Ok` is what came of the request: a success, a refusal where no earlier attempt may have been applied, or whatever the
/// server says it had stored. Everything else is an [`Error`], which has the last answer. The body of an answer is read
/// whole; [`AnswerFrom`](crate::AnswerFrom) is among its extensions.
///
/// # Cancel safety
///
/// A call that is dropped while an attempt is under way may have been applied; call again with the same
/// [`Intent`].
#[derive(Clone)]
pub struct Retry<S> {
    shared: Arc<Shared>,
    service: S,
}

impl<S> Retry<S> {
    /// Sends `request` under the key of `intent`.
    ///
    /// # Errors
    ///
    /// [`Error`]: there is no result
    ///
    /// # Cancel safety
    ///
    /// That of [`Retry`]
    pub async fn send<B, A>(
        &self,
        intent: &Intent,
        mut request: Request<B>,
    ) -> Result<Response<Full<Bytes>>, Error>
    where
        S: Service<Request<Full<Bytes>>, Response = Response<A>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        A: Body + Send + 'static,
        A::Data: Send,
        A::Error: Into<BoxError>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        request.extensions_mut().insert(intent.clone());
        let answered = self.answered(whole(request).await?, Prior::NONE).await?;
        Ok(answered.answer.map(Full::new))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Makes the attempts of one request.
    pub(crate) async fn answered<A>(
        &self,
        request: Request<Bytes>,
        prior: Prior,
    ) -> Result<Answered, Error>
    where
        S: Service<Request<Full<Bytes>>, Response = Response<A>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        A: Body + Send + 'static,
        A::Data: Send,
        A::Error: Into<BoxError>,
    {
        let (mut head, body) = request.into_parts();
        let key = self.key_of(&head)?;
        if let Some(key) = &key {
            head.headers
                .insert(self.settings().key_header.clone(), key.clone());
        }
        let call = Call {
            shared: Arc::clone(&self.shared),
            service: self.service.clone(),
            head,
            body,
            key: key.and_then(|key| Some(key.to_str().ok()?.into())),
            prior,
        };
        Run::new(call).go().await
    }

    /// Returns the key under which a request goes out, if it has one: that of its intent, its own, or a fresh one.
    fn key_of(&self, head: &http::request::Parts) -> Result<Option<HeaderValue>, Error> {
        let settings = self.settings();
        let own = head.headers.get(&settings.key_header);
        let fresh = match (head.extensions.get::<Intent>(), own) {
            (Some(intent), _) => return value_of(intent, settings).map(Some),
            (None, Some(own)) => return Ok(Some(own.clone())),
            (None, None) => settings.fresh_keys && settings.window.is_some(),
        };
        if !fresh || head.method.is_idempotent() {
            return Ok(None);
        }
        let intent = Intent::fresh_from(FRESH, &*self.shared.entropy).map_err(Error::invalid)?;
        value_of(&intent, settings).map(Some)
    }
}

fn value_of(intent: &Intent, settings: &Settings) -> Result<HeaderValue, Error> {
    let value = intent.header_value(settings.quotes);
    value.ok_or_else(|| Error::invalid("the key of the intent is no value of a header"))
}

/// Reads the body of a request, so that it can be sent more than once.
pub(crate) async fn whole<B>(request: Request<B>) -> Result<Request<Bytes>, Error>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(Error::invalid)?;
    Ok(Request::from_parts(head, body.to_bytes()))
}

impl<S: fmt::Debug> fmt::Debug for Retry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Retry").field(&self.service).finish()
    }
}

impl<S, A, B> Service<Request<B>> for Retry<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<A>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    A: Body + Send + 'static,
    A::Data: Send,
    A::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Full<Bytes>>;
    type Error = Error;
    type Future = Calling;

    /// Is always ready: each attempt waits for the service below.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Calling {
        let this = self.clone();
        Box::pin(async move {
            let answered = this.answered(whole(request).await?, Prior::NONE).await?;
            Ok(answered.answer.map(Full::new))
        })
    }
}

/// A call that runs once it is awaited.
pub(crate) type Calling =
    Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Error>> + Send>>;

/// The name of intents that last for one call.
const FRESH: &str = "request";
