//! The target of a drill's effects, which keeps the books: how often each operation was applied.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use semel_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Answers effects on this machine for as long as it is kept.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    books: Arc<Books>,
    _server: JoinSet<()>,
}

/// The books, which outlive every worker.
#[derive(Debug, Default)]
pub(crate) struct Books(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    applied: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
    deferred: BTreeMap<String, u64>,
}

/// A message, as far as the provider reads it.
#[derive(Deserialize)]
struct Order {
    id: String,
}

impl Provider {
    /// Begins to answer, each call after `takes`.
    pub(crate) async fn begin(takes: Duration) -> Result<Self> {
        let cannot = |error| {
            let message = "the drill cannot listen at 127.0.0.1";
            Error::new(ErrorKind::Unavailable, message).with_source(error)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let books = Arc::new(Books::default());
        let mut server = JoinSet::new();
        let kept = Arc::clone(&books);
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let books = Arc::clone(&kept);
                let service = service_fn(move |request: Request<Incoming>| {
                    let books = Arc::clone(&books);
                    async move { Ok::<_, Infallible>(answer(&books, request, takes).await) }
                });
                connections.spawn(async move {
                    // A worker that is killed hangs up.
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            books,
            _server: server,
        })
    }

    pub(crate) fn books(&self) -> &Books {
        &self.books
    }
}

/// Applies the order that a request brings, unless its id says that it is refused, or deferred once.
async fn answer(
    books: &Books,
    request: Request<Incoming>,
    takes: Duration,
) -> Response<Empty<Bytes>> {
    let body = request.into_body().collect().await;
    let order = body
        .ok()
        .and_then(|it| serde_json::from_slice::<Order>(&it.to_bytes()).ok());
    let status = match order {
        Some(order) => books.answer(order.id),
        None => StatusCode::BAD_REQUEST,
    };
    sleep(takes).await;
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    response
}

impl Books {
    fn answer(&self, id: String) -> StatusCode {
        let mut entries = self.lock();
        if id.starts_with(REFUSED) {
            *entries.refused.entry(id).or_default() += 1;
            return StatusCode::UNPROCESSABLE_ENTITY;
        }
        if id.starts_with(DEFERRED) {
            let count = entries.deferred.entry(id.clone()).or_default();
            *count += 1;
            if *count == 1 {
                return StatusCode::SERVICE_UNAVAILABLE;
            }
        }
        *entries.applied.entry(id).or_default() += 1;
        StatusCode::OK
    }

    /// The count of effects.
    pub(crate) fn effects(&self) -> u64 {
        self.lock().applied.values().sum()
    }

    /// The operations that were applied.
    pub(crate) fn applied(&self) -> BTreeSet<String> {
        self.lock().applied.keys().cloned().collect()
    }

    /// The count of calls that were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.lock().refused.values().sum()
    }

    /// The count of operations that were applied, once or more often.
    pub(crate) fn operations(&self) -> usize {
        self.lock().applied.len()
    }

    /// The operations that were applied more than once.
    pub(crate) fn repeated(&self) -> Vec<String> {
        let entries = self.lock();
        let repeated = entries.applied.iter().filter(|(_, count)| **count > 1);
        repeated.map(|(id, _)| id.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The beginning of ids that the provider refuses for good.
pub(crate) const REFUSED: &str = "refused-";
/// The beginning of ids that the provider asks to be tried again, once.
pub(crate) const DEFERRED: &str = "deferred-";
