//! A client of reqwest as the service under the layers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::Service;

/// A client of reqwest as a `tower` service over requests of the crate `http`. Cheap to clone.
///
/// It follows no redirects and retries nothing by itself: a redirect is the answer to the request, and what fails
/// behind it would say that the request was never sent. A time limit for connecting (`connect_timeout`) makes a server
/// that is away a certain "not applied".
///
/// ```
/// use std::time::Duration;
/// use semel_client::{ReqwestService, RetryLayer, Settings};
/// use tower::Layer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let http = reqwest::Client::builder().connect_timeout(Duration::from_secs(2));
/// let retries = RetryLayer::new(Settings::keyed(Duration::from_secs(24 * 3_600)))?;
/// let service = retries.layer(ReqwestService::new(http)?);
/// # let _ = service;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReqwestService(reqwest::Client);

impl ReqwestService {
    /// Returns the service of a client with these settings, whatever they say of redirects and retries.
    ///
    /// # Errors
    ///
    /// Those of [`ClientBuilder::build`](reqwest::ClientBuilder::build): the settings, or those of TLS, do not hold
    pub fn new(settings: reqwest::ClientBuilder) -> Result<Self, reqwest::Error> {
        let settings = settings
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        settings.build().map(Self)
    }
}

impl Service<Request<Full<Bytes>>> for ReqwestService {
    type Response = Response<reqwest::Body>;
    type Error = reqwest::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), reqwest::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(never) => match never {},
            };
            let sent = async {
                let request = Request::from_parts(head, body).try_into()?;
                client.execute(request).await
            };
            // An address may have secrets in it.
            let response = sent.await.map_err(reqwest::Error::without_url)?;
            Ok(response.into())
        })
    }
}
