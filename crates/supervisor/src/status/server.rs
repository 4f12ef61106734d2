//! The HTTP server of the status: `/healthz`, `/readyz`, `/metrics`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use semel_core::{Code, Error, ErrorKind, Result};
use semel_telemetry::Format;
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::Status;
use super::owner::Owner;

/// The error that another process listens at `address`; names the process as far as the system tells.
fn in_use(address: SocketAddr) -> Error {
    let owner = Owner::of(address).map_or("another program".to_owned(), |it| it.to_string());
    let message =
        format!("admin.listen: {address} is in use by {owner}; stop it, or set another port");
    Error::new(ErrorKind::Unavailable, message).with_code(Code::AddressInUse)
}

/// Listens, and answers for as long as the future is polled.
///
/// # Errors   `Unavailable`: the server cannot listen at the address
pub(crate) async fn serve(
    address: SocketAddr,
    status: Arc<Status>,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        if error.kind() == std::io::ErrorKind::AddrInUse {
            return in_use(address);
        }
        let message = format!("admin.listen: cannot listen at {address}");
        Error::new(ErrorKind::Unavailable, message).with_source(error)
    })?;
    let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    Ok(async move {
        loop {
            let accepted = listener.accept().await;
            let Ok((stream, _)) = accepted else {
                // The process is out of files, for example; that passes.
                sleep(AGAIN).await;
                continue;
            };
            let Ok(place) = Arc::clone(&connections).try_acquire_owned() else {
                continue;
            };
            let status = Arc::clone(&status);
            tokio::spawn(async move {
                let _ = timeout(PATIENCE, answer_one(stream, status)).await;
                drop(place);
            });
        }
    })
}

/// Answers one request, and closes the connection.
async fn answer_one(stream: TcpStream, status: Arc<Status>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let accept = request.headers().get(ACCEPT);
        let format = Format::asked_for(accept.and_then(|it| it.to_str().ok()));
        let answer = answer(request.method(), request.uri().path(), format, &status);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false);
    // A client that hangs up early does not need the answer.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// Returns the answer to a request that wants metrics in this format.
pub(super) fn answer(
    method: &Method,
    path: &str,
    format: Format,
    status: &Status,
) -> Response<Full<Bytes>> {
    let is_known = matches!(path, "/healthz" | "/readyz" | "/metrics");
    if !is_known {
        let text = "there are /healthz, /readyz and /metrics\n";
        return plain(StatusCode::NOT_FOUND, text);
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD\n");
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
        _ => plain(StatusCode::OK, "alive\n"),
    }
}

fn json(code: StatusCode, body: &impl Serialize) -> Response<Full<Bytes>> {
    let mut text = serde_json::to_vec(body).unwrap_or_default();
    text.push(b'\n');
    with(code, "application/json", text.into())
}

fn plain(code: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    with(code, "text/plain; charset=utf-8", text.into())
}

fn with(code: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The number of requests at once; more are turned away.
const MOST_CONNECTIONS: usize = 64;
/// The longest time for a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The wait after a connection could not be accepted.
const AGAIN: Duration = Duration::from_millis(200);
