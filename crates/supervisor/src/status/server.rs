//! The HTTP server of the status: `/healthz`, `/readyz` and `/metrics`; all else is of the console and the admin API. It
//! has a thread and a runtime of its own, so that it answers while that of the worker hangs, and says so; the admin API is
//! of the worker's.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use semel_core::{Error, ErrorKind, Result};
use semel_http::{Limits, Listener, Protocols};
use semel_telemetry::Format;
use serde::Serialize;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_rustls::rustls::ServerConfig;
use tower::ServiceExt;

use super::Status;
use super::watchdog::Watchdog;

/// Listens, encrypted if there is a certificate, and answers for as long as the future is polled, which has to be in the runtime of the worker; `api` makes the
/// admin API of a listener at an address.
///
/// # Errors   `Unavailable`: the server cannot listen at the address
pub(crate) async fn serve(
    at: (SocketAddr, Option<ServerConfig>),
    status: Arc<Status>,
    api: impl FnOnce(SocketAddr) -> Option<Router>,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    serve_watched(at, status, Watchdog::new(TURN), api).await
}

/// Does what [`serve`] does, with this watchdog of the worker's runtime.
pub(super) async fn serve_watched(
    at: (SocketAddr, Option<ServerConfig>),
    status: Arc<Status>,
    watchdog: Watchdog,
    api: impl FnOnce(SocketAddr) -> Option<Router>,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let watchdog = Arc::new(watchdog);
    let ((bound, is_bound), (made, is_made)) = (oneshot::channel(), oneshot::channel());
    let serving = serving(at, status, Arc::clone(&watchdog), (bound, is_made));
    let server = Server::begin(serving).map_err(|error| {
        let message = "admin.listen: there is no thread to serve it";
        Error::new(ErrorKind::Unavailable, message).with_source(error)
    })?;
    // The thread says whether it listens before it does anything else.
    let address = is_bound.await.unwrap_or_else(|_| {
        let message = "admin.listen: the thread that serves it ended";
        Err(Error::new(ErrorKind::Internal, message))
    })?;
    let api = api(address).map(|router| Api {
        router,
        runtime: Handle::current(),
    });
    // A thread that has ended since serves nothing.
    let _ = made.send(api);
    Ok(async move {
        let _server = server;
        watchdog.take_turns().await;
    })
}

/// The admin API, in the runtime of the worker: the connections of its store are there.
#[derive(Clone)]
struct Api {
    router: Router,
    runtime: Handle,
}

impl Api {
    /// Answers a request. Dropping it gives the request up.
    async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        let mut task = JoinSet::new();
        let answering = self.router.oneshot(request.map(Body::new));
        task.spawn_on(answering, &self.runtime);
        match task.join_next().await {
            Some(Ok(Ok(answer))) => answer,
            Some(Ok(Err(never))) => match never {},
            // It panicked, which was printed, or the worker ends.
            Some(Err(_)) | None => {
                let text = "the request was not carried out\n";
                plain(StatusCode::INTERNAL_SERVER_ERROR, text.into()).map(Body::new)
            }
        }
    }
}

/// Listens, says so, takes the admin API, and answers.
async fn serving(
    (address, tls): (SocketAddr, Option<ServerConfig>),
    status: Arc<Status>,
    watchdog: Arc<Watchdog>,
    (bound, api): (
        oneshot::Sender<Result<SocketAddr>>,
        oneshot::Receiver<Option<Api>>,
    ),
) {
    let listener = match Listener::bind("admin.listen", address).await {
        Ok(listener) => listener,
        Err(error) => {
            let _ = bound.send(Err(error));
            return;
        }
    };
    // Whoever began this may have given up.
    let _ = bound.send(Ok(listener.address()));
    let Ok(api) = api.await else {
        return;
    };
    let watched = Arc::clone(&watchdog);
    let service = service_fn(move |request: Request<Incoming>| {
        let api = api.clone().filter(|_| is_of_api(request.uri().path()));
        let (status, watched) = (Arc::clone(&status), Arc::clone(&watched));
        async move {
            if let Some(api) = api {
                return Ok::<_, Infallible>(api.answer(request).await);
            }
            let accept = request.headers().get(ACCEPT);
            let format = Format::asked_for(accept.and_then(|it| it.to_str().ok()));
            let (method, path) = (request.method(), request.uri().path());
            Ok(answer(method, path, format, &status, &watched).map(Body::new))
        }
    });
    let never = std::future::pending();
    if let Some(tls) = tls.map(Arc::new) {
        let protocols = Protocols {
            tls: Some(tls),
            http2: false,
        };
        let served = listener.serve_as(protocols, LIMITS, service, never);
        tokio::join!(served, watchdog.watch());
    } else {
        let served = listener.serve(LIMITS, service, never);
        tokio::join!(served, watchdog.watch());
    }
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

/// Tells whether a path is one of the admin API or the console, which have their own words for those that there are not.
fn is_of_api(path: &str) -> bool {
    !OPEN.contains(&path)
}

/// Returns the answer to a request that wants metrics in this format.
pub(super) fn answer(
    method: &Method,
    path: &str,
    format: Format,
    status: &Status,
    watchdog: &Watchdog,
) -> Response<Full<Bytes>> {
    if !OPEN.contains(&path) {
        let text =
            "there are /healthz, /readyz and /metrics, and what /v1/openapi.json describes\n";
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

/// The paths that everybody may ask for, who reaches the listener.
const OPEN: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// One request for each connection, within a few seconds, or as long as an order takes.
const LIMITS: Limits = Limits {
    connection: Some(semel_admin::LONGEST.saturating_add(Duration::from_secs(10))),
    ..Limits::ADMIN
};
/// The time in which the runtime of a worker takes a turn.
const TURN: Duration = Duration::from_secs(1);
