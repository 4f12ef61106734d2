//! The HTTP server of the status: `/healthz`, `/readyz`, `/metrics`, and below `/v1/` the admin API.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use semel_core::Result;
use semel_http::{Limits, Listener};
use semel_telemetry::Format;
use serde::Serialize;
use tower::ServiceExt;

use super::Status;

/// Listens, and answers for as long as the future is polled; `api` makes the admin API of a listener at an address.
///
/// # Errors   `Unavailable`: the server cannot listen at the address
pub(crate) async fn serve(
    address: SocketAddr,
    status: Arc<Status>,
    api: impl FnOnce(SocketAddr) -> Option<Router>,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let listener = Listener::bind("admin.listen", address).await?;
    let api = api(listener.address());
    let service = service_fn(move |request: Request<Incoming>| {
        let api = api.clone().filter(|_| is_of_api(request.uri().path()));
        let status = Arc::clone(&status);
        async move {
            if let Some(api) = api {
                return api.oneshot(request.map(Body::new)).await;
            }
            let accept = request.headers().get(ACCEPT);
            let format = Format::asked_for(accept.and_then(|it| it.to_str().ok()));
            let answer = answer(request.method(), request.uri().path(), format, &status);
            Ok::<_, Infallible>(answer.map(Body::new))
        }
    });
    Ok(listener.serve(LIMITS, service, std::future::pending()))
}

/// Tells whether a path is one of the admin API, which has its own words for those that there are not.
fn is_of_api(path: &str) -> bool {
    path.starts_with("/v1/")
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
        let text =
            "there are /healthz, /readyz and /metrics, and what /v1/openapi.json describes\n";
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

/// One request for each connection, within a few seconds.
const LIMITS: Limits = Limits {
    connections: 256,
    connection: Some(Duration::from_secs(10)),
    keep_alive: false,
    drain: Duration::ZERO,
    ..Limits::API
};
