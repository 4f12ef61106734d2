//! The layer: a `tower` middleware over the requests of a service.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use semel_core::Store;
use semel_engine::once::Once;
use tower::{Layer, Service};

use crate::answered::Answers;
use crate::arrival::Arrival;
use crate::counts::{Counts, count};
use crate::exchange::{self, Handler};
use crate::gate::{Gate, OPERATION_ID_HEADER};
use crate::inbox::Inboxes;
use crate::route::Route;
use crate::shadow;

/// Puts the requests of a service under their idempotency keys.
///
/// A handler runs on a task of its own, under a claim: a client that hangs up does not stop it. Its answer is stored before
/// the first byte of it leaves. Among the extensions of its request it finds the
/// [`Op`](semel_engine::once::Op): the id of the operation, the attempt, the fencing token, the key for the services that
/// it calls, and whether an earlier attempt may have been applied. There is none where a request runs without a claim:
/// one without a key, one in shadow, and one that passes while the store is away.
///
/// The service is given requests with an [`axum` body](axum::body::Body), whatever its own server uses.
pub struct IdempotencyLayer<S> {
    gate: Arc<Gate<S>>,
}

impl<S: Store + Clone> IdempotencyLayer<S> {
    /// Returns a layer over the store of `once`.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: a setting is not acceptable
    pub fn new(once: &Once<S>, route: Route) -> semel_core::Result<Self> {
        let gate = Arc::new(Gate::new(once, route, None)?);
        Ok(Self { gate })
    }

    /// Returns a layer whose handlers record their answers themselves, in the transaction of their own work: among the
    /// extensions of a request they find a [`RequestInbox<I>`](crate::RequestInbox) beside the `Op`. `inbox` is that of the
    /// store of `once`.
    ///
    /// No attempt leaves a mark, whatever class the route names: a crash before the commit leaves nothing, and one after
    /// it leaves the answer, which the next request gets. An answer without the inbox is stored once the handler has
    /// given it, so do no work outside of the transaction: after a crash in between, the handler runs again. Such an
    /// answer says so if it is a success, in [`Semel-Unprotected`](crate::UNPROTECTED_HEADER), and is counted.
    ///
    /// # Errors
    ///
    /// as [`new`](Self::new)
    pub fn with_inbox<I>(once: &Once<S>, route: Route, inbox: I) -> semel_core::Result<Self>
    where
        I: Clone + Send + Sync + 'static,
    {
        let gate = Arc::new(Gate::new(once, route, Some(Inboxes::of(inbox)))?);
        Ok(Self { gate })
    }

    /// Returns what was counted so far, over all services of this layer.
    pub fn counts(&self) -> Counts {
        self.gate.counters.counts()
    }
}

impl<S, H> Layer<H> for IdempotencyLayer<S> {
    type Service = Idempotent<S, H>;

    fn layer(&self, inner: H) -> Self::Service {
        let gate = Arc::clone(&self.gate);
        Idempotent { gate, inner }
    }
}

impl<S> Clone for IdempotencyLayer<S> {
    fn clone(&self) -> Self {
        let gate = Arc::clone(&self.gate);
        Self { gate }
    }
}

impl<S> fmt::Debug for IdempotencyLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("route", &self.gate.route)
            .finish_non_exhaustive()
    }
}

/// A service whose requests are under their idempotency keys; see [`IdempotencyLayer`].
pub struct Idempotent<S, H> {
    gate: Arc<Gate<S>>,
    inner: H,
}

impl<S, H, B, R> Service<Request<B>> for Idempotent<S, H>
where
    S: Store + Clone,
    H: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    H::Error: Send,
    H::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = H::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, H::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), H::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready is the one that is called.
        let next = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, next);
        let gate = Arc::clone(&self.gate);
        Box::pin(serve(gate, ready, request.map(Body::new)))
    }
}

impl<S, H: Clone> Clone for Idempotent<S, H> {
    fn clone(&self) -> Self {
        let (gate, inner) = (Arc::clone(&self.gate), self.inner.clone());
        Self { gate, inner }
    }
}

impl<S, H> fmt::Debug for Idempotent<S, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Idempotent")
    }
}

async fn serve<S: Store + Clone, H: Handler<R>, R: Answers>(
    gate: Arc<Gate<S>>,
    mut handler: H,
    request: Request<Body>,
) -> Result<Response<Body>, H::Error> {
    let (mut head, body) = request.into_parts();
    // Ours to set: what a client says there is not believed.
    head.headers.remove(OPERATION_ID_HEADER);
    let arrival = gate.route.arrival(&head);
    let request = Request::from_parts(head, body);
    match arrival {
        Arrival::Keyed { key, tenant } if gate.route.shadow => {
            return shadow::observe(gate, handler, request, key, tenant).await;
        }
        Arrival::Keyed { key, tenant } => {
            return exchange::run(gate, handler, request, key, tenant).await;
        }
        Arrival::Refused(problem) => {
            count(&gate.counters.refused);
            if !gate.route.shadow {
                return Ok(problem.into_response());
            }
        }
        Arrival::Keyless => count(&gate.counters.keyless),
        Arrival::Passes => {}
    }
    let response = handler.call(request).await?;
    Ok(response.map(Body::new))
}
