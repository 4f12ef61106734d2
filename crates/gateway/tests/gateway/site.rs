//! A service under a layer, and requests to it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use semel_core::Store;
use semel_engine::once::Once;
use semel_engine::system::SystemClock;
use semel_gateway::{IdempotencyLayer, Route};
use semel_store_memory::MemoryStore;
use serde_json::Value;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

pub(crate) type Handled = Result<Response<Body>, Oops>;

/// The error of a service.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Oops;

impl fmt::Display for Oops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("oops")
    }
}

impl std::error::Error for Oops {}

pub(crate) struct Site<S = Arc<MemoryStore>> {
    pub(crate) once: Once<S>,
    pub(crate) layer: IdempotencyLayer<S>,
    pub(crate) service: BoxCloneSyncService<Request<Body>, Response<Body>, Oops>,
    calls: Arc<AtomicUsize>,
}

/// An answer as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

pub(crate) fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock::new())))
}

impl Site {
    /// A handler that is told the number of its call, from 1.
    pub(crate) fn new<F: Future<Output = Handled> + Send + 'static>(
        change: impl FnOnce(&mut Route),
        handler: impl Fn(usize, Request<Body>) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::over(memory(), change, handler)
    }

    /// A handler that answers 201 with the number of its call.
    pub(crate) fn counting(change: impl FnOnce(&mut Route)) -> Self {
        Self::new(change, async |call, _| Ok(created(call)))
    }

    /// A handler that answers with these statuses in turn.
    pub(crate) fn scripted(change: impl FnOnce(&mut Route), statuses: &'static [u16]) -> Self {
        Self::new(change, move |call, _| async move {
            Ok(answer(statuses[call - 1], format!("call {call}")))
        })
    }
}

impl<S: Store + Clone> Site<S> {
    pub(crate) fn over<F: Future<Output = Handled> + Send + 'static>(
        store: S,
        change: impl FnOnce(&mut Route),
        handler: impl Fn(usize, Request<Body>) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        let once = Once::new(store);
        let mut route = Route::default();
        change(&mut route);
        let layer = IdempotencyLayer::new(&once, route).expect("settings that hold");
        Self::under(once, layer, handler)
    }

    /// A handler under this layer.
    pub(crate) fn under<F: Future<Output = Handled> + Send + 'static>(
        once: Once<S>,
        layer: IdempotencyLayer<S>,
        handler: impl Fn(usize, Request<Body>) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let inner = service_fn(move |request| {
            let call = count.fetch_add(1, Ordering::SeqCst) + 1;
            handler(call, request)
        });
        let service = BoxCloneSyncService::new(layer.layer(inner));
        Self {
            once,
            layer,
            service,
            calls,
        }
    }

    /// The number of calls of the handler.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Waits until the handler was called so often.
    pub(crate) async fn called(&self, calls: usize) {
        while self.calls() < calls {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) async fn try_send(&self, request: Request<Body>) -> Result<Seen, Oops> {
        let response = self.service.clone().oneshot(request).await?;
        Ok(Seen::of(response).await)
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Seen {
        self.try_send(request).await.expect("an answer")
    }

    /// Sends the usual request under this key.
    pub(crate) async fn post(&self, key: &str) -> Seen {
        self.send(request(key)).await
    }
}

impl Seen {
    pub(crate) async fn of(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body");
        let trailers = body.trailers().cloned();
        Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.to_bytes(),
            trailers,
        }
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.headers
            .get("idempotency-replayed")
            .is_some_and(|it| it == "true")
    }

    /// Checks that it is this problem, and returns its members.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let members: Value = serde_json::from_slice(&self.body).expect("JSON");
        assert_eq!(members["code"], code, "{members}");
        assert!(!self.is_replay());
        members
    }

    #[track_caller]
    pub(crate) fn is_created(&self, call: usize, is_replay: bool) {
        let found = (self.status, &self.body[..], self.is_replay());
        let body = format!("call {call}");
        assert_eq!(found, (201, body.as_bytes(), is_replay), "{self:?}");
    }
}

/// The usual request under this key.
pub(crate) fn request(key: &str) -> Request<Body> {
    with(&[("idempotency-key", key)], r#"{"amount":100}"#)
}

pub(crate) fn with(headers: &[(&str, &str)], body: &'static str) -> Request<Body> {
    let mut request = Request::post("/charges?test=1").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::from(body)).expect("a request")
}

pub(crate) fn answer(status: u16, body: impl Into<Body>) -> Response<Body> {
    let response = Response::builder().status(status);
    let response = response.header("content-type", "text/plain");
    response.body(body.into()).expect("a response")
}

pub(crate) fn created(call: usize) -> Response<Body> {
    answer(201, format!("call {call}"))
}
