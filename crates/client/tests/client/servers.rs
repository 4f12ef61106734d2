//! Servers on sockets of their own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

/// A server that ends with this value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    serving: AbortHandle,
}

impl Server {
    pub(crate) async fn start(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    break;
                };
                while connections.try_join_next().is_some() {}
                let service = TowerToHyperService::new(app.clone());
                connections.spawn(async move {
                    let served =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    // A client may hang up whenever it wants.
                    let _ = served.await;
                });
            }
        });
        Self {
            address,
            serving: serving.abort_handle(),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An address that nobody listens on.
pub(crate) async fn nowhere() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    listener.local_addr().expect("an address")
}

/// The books of a provider: how often the charge of each key was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books(Arc<Mutex<BTreeMap<String, u32>>>);

impl Books {
    /// Charges at `/charges`. One in sixteen requests is sent away before anything is done.
    pub(crate) fn app(&self) -> Router {
        Router::new()
            .route("/charges", post(charge))
            .with_state(self.clone())
    }

    pub(crate) fn charges(&self) -> BTreeMap<String, u32> {
        self.0.lock().expect("no panic").clone()
    }
}

async fn charge(
    State(books): State<Books>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let key = headers
        .get("idempotency-key")
        .map(|key| key.to_str().expect("text").to_owned());
    if fastrand::u8(..) < 16 {
        return (StatusCode::SERVICE_UNAVAILABLE, String::new());
    }
    let mut charges = books.0.lock().expect("no panic");
    let count = charges.entry(key.unwrap_or_default()).or_default();
    *count += 1;
    (
        StatusCode::CREATED,
        format!("{{\"charge\":{body},\"count\":{count}}}"),
    )
}
