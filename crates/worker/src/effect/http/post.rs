//! Requests that are no effects: a body is sent to one place, and the answer is read.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use tokio::time::{self, Instant};

use semel_core::Result;

use super::answer;
use super::connection::{Connections, Failure};
use super::{Settings, Template};

/// Posts to one URL, over connections that it keeps.
#[derive(Debug)]
pub struct Post {
    template: Template,
    timeout: Duration,
    connections: Connections,
}

impl Post {
    /// Returns what posts to the URL of `settings`, with their headers; their method is not asked. Needs a tokio
    /// runtime.
    ///
    /// # Errors
    ///
    /// As [`HttpEffect::new`](super::HttpEffect::new)
    pub fn new(settings: &Settings) -> Result<Self> {
        let template = Template::new(settings)?;
        Ok(Self {
            connections: Connections::new(template.target.clone())?,
            template,
            timeout: settings.timeout,
        })
    }

    /// Sends a body, and returns that of an answer with a status of success.
    ///
    /// # Errors
    ///
    /// The reason why there is none, one line without secrets
    ///
    /// # Cancel safety
    ///
    /// The connection is closed; the body may have been sent
    pub async fn send(&self, body: impl Into<Bytes>) -> Result<Bytes, String> {
        let url = self.template.target.masked();
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.template.target.path_and_query().into();
        request.headers_mut().clone_from(&self.template.headers);
        let deadline = Instant::now() + self.timeout;
        let late = || format!("no answer from {url} within {:?}", self.timeout);
        let sent = self.connections.send(request, deadline).await;
        let (connection, response) = sent.map_err(|failure| match failure {
            Failure::Unsent(cause) => format!("cannot reach {url}: {cause}"),
            Failure::Broken(cause) => format!("{url} broke off before it answered: {cause}"),
            Failure::Late => late(),
        })?;
        let (head, body) = response.into_parts();
        let read = time::timeout_at(deadline, answer::read(body)).await;
        let body = read.map_err(|_| late())?;
        let body = body.map_err(|cause| format!("{url} broke off in its answer: {cause}"))?;
        self.connections.put_back(connection);
        if !head.status.is_success() {
            return Err(format!("HTTP {} from {url}", head.status.as_u16()));
        }
        Ok(Bytes::copy_from_slice(body.kept()))
    }
}
