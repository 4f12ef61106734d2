//! The HTTP server of the status: `/healthz`, `/readyz`, `/metrics`. It has a thread and a runtime of its own, so that it
//! answers while that of the worker hangs, and says so.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use semel_core::{Error, ErrorKind, Result};
use semel_http::{Limits, Listener};
use semel_telemetry::Format;
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::Status;
use super::watchdog::Watchdog;

/// Listens, and answers for as long as the future is polled, which has to be in the runtime of the worker.
///
/// # Errors   `Unavailable`: the server cannot listen at the address
pub(crate) async fn serve(
    address: SocketAddr,
    status: Arc<Status>,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    serve_watched(address, status, Watchdog::new(TURN)).await
}

/// Does what [`serve`] does, with this watchdog of the worker's runtime.
pub(super) async fn serve_watched(
    address: SocketAddr,
    status: Arc<Status>,
    watchdog: Watchdog,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let watchdog = Arc::new(watchdog);
    let (bound, is_bound) = oneshot::channel();
    let serving = serving(address, status, Arc::clone(&watchdog), bound);
    let server = Server::begin(serving).map_err(|error| {
        let message = "admin.listen: there is no thread to serve it";
        Error::new(ErrorKind::Unavailable, message).with_source(error)
    })?;
    // The thread says whether it listens before it does anything else.
    is_bound.await.unwrap_or_else(|_| {
        let message = "admin.listen: the thread that serves it ended";
        Err(Error::new(ErrorKind::Internal, message))
    })?;
    Ok(async move {
        let _server = server;
        watchdog.take_turns().await;
    })
}

/// Listens, says so, and answers.
async fn serving(
    address: SocketAddr,
    status: Arc<Status>,
    watchdog: Arc<Watchdog>,
    bound: oneshot::Sender<Result<()>>,
) {
    let listener = match Listener::bind("admin.listen", address).await {
        Ok(listener) => listener,
        Err(error) => {
            let _ = bound.send(Err(error));
            return;
        }
    };
    // Whoever began this may have given up.
    let _ = bound.send(Ok(()));
    let watched = Arc::clone(&watchdog);
    let service = service_fn(move |request: Request<Incoming>| {
        let accept = request.headers().get(ACCEPT);
        let format = Format::asked_for(accept.and_then(|it| it.to_str().ok()));
        let (method, path) = (request.method(), request.uri().path());
        let answer = answer(method, path, format, &status, &watched);
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = listener.serve(LIMITS, service, std::future::pending());
    tokio::join!(served, watchdog.watch());
}

/// The thread of the listener. Dropping this ends it, and its connections.
struct Server {
    thread: Option<JoinHandle<()>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    fn begin(serving: impl Future<Output = ()> + Send + 'static) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("status".into());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self {
            thread: Some(thread),
            stop: Some(stop),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been printed.
            let _ = thread.join();
        }
    }
}

/// Returns the answer to a request that wants metrics in this format.
pub(super) fn answer(
    method: &Method,
    path: &str,
    format: Format,
    status: &Status,
    watchdog: &Watchdog,
) -> Response<Full<Bytes>> {
    let is_known = matches!(path, "/healthz" | "/readyz" | "/metrics");
    if !is_known {
        let text = "there are /healthz, /readyz and /metrics\n";
        return plain(StatusCode::NOT_FOUND, text.into());
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD\n".into());
        let allowed = HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(ALLOW, allowed);
        return refused;
    }
    match path {
        "/readyz" => {
            let readiness = status.readiness();
            let code = if readiness.is_ready() {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            json(code, &readiness)
        }
        "/metrics" => {
            let text = status.metrics().text(format);
            with(StatusCode::OK, format.content_type(), text.into())
        }
        _ => match watchdog.hung_for() {
            None => plain(StatusCode::OK, "alive\n".into()),
            Some(time) => {
                let text = format!(
                    "the worker hangs: none of its tasks has had a turn for {} s\n",
                    time.as_secs()
                );
                plain(StatusCode::SERVICE_UNAVAILABLE, text.into())
            }
        },
    }
}

fn json(code: StatusCode, body: &impl Serialize) -> Response<Full<Bytes>> {
    let mut text = serde_json::to_vec(body).unwrap_or_default();
    text.push(b'\n');
    with(code, "application/json", text.into())
}

fn plain(code: StatusCode, text: Bytes) -> Response<Full<Bytes>> {
    with(code, "text/plain; charset=utf-8", text)
}

fn with(code: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// One request for each connection, within a few seconds.
const LIMITS: Limits = Limits {
    connections: 256,
    connection: Some(Duration::from_secs(10)),
    keep_alive: false,
    drain: Duration::ZERO,
    ..Limits::API
};
/// The time in which the runtime of a worker takes a turn.
const TURN: Duration = Duration::from_secs(1);
