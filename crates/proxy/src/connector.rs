//! Connections to an upstream, each made within a time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::http::Uri;
use axum::http::uri::Scheme;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use semel_core::{Error, ErrorKind, Result};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tower::Service;

use crate::settings::Upstream;

/// Connects to an upstream, TLS included.
#[derive(Clone)]
pub(crate) struct Connector {
    inner: HttpsConnector<HttpConnector>,
    within: Duration,
}

impl Connector {
    /// Returns a connector to `upstream`; one that `asks_http2` does so in the handshake of TLS.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: the files of TLS are of no use
    pub(crate) fn new(upstream: &Upstream, asks_http2: bool, within: Duration) -> Result<Self> {
        let config = if upstream.url.scheme() == Some(&Scheme::HTTPS) {
            upstream.tls.config()?
        } else {
            unused_config()?
        };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(within));
        http.set_keepalive(Some(KEEPALIVE));
        let builder = HttpsConnectorBuilder::new().with_tls_config(config);
        let builder = builder.https_or_http();
        let inner = if asks_http2 {
            builder.enable_all_versions().wrap_connector(http)
        } else {
            builder.enable_http1().wrap_connector(http)
        };
        Ok(Self { inner, within })
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future =
        Pin<Box<dyn Future<Output = std::result::Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<std::result::Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let connected = timeout(self.within, self.inner.call(url));
        Box::pin(async move {
            let late = || io::Error::from(io::ErrorKind::TimedOut);
            connected.await.map_err(|_| late())?
        })
    }
}

/// The encryption of connections that are not encrypted.
fn unused_config() -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| {
            Error::new(ErrorKind::InvalidConfig, "TLS cannot be set up").with_source(error)
        })?;
    let builder = builder.with_root_certificates(RootCertStore::empty());
    Ok(builder.with_no_client_auth())
}

/// The time of silence after which the system asks whether the other end is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);
