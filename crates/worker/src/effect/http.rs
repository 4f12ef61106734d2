//! One HTTP request per message.
//!
//! The effect keeps its own list of idle connections, since all go to one place. So it knows of every failure
//! whether any byte of the request was handed to the connection.

mod answer;
mod connection;
mod decisive;
mod post;
mod sink;
mod target;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};
use tokio::time::{self, Instant};

use semel_core::json::Document;
use semel_core::trace_context::{TRACEPARENT, TRACESTATE};
use semel_core::{Code, Error, ErrorKind, Result};
use semel_engine::effect::{Call, Effect, Verdict};

use answer::Meaning;
use connection::{Connections, Failure};
use target::Target;

pub use decisive::Decisive;
pub use post::Post;
pub use sink::HttpSink;
pub use target::{masked, percent_decoded};

/// The target of messages, and the form of the requests.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The method: `POST`.
    pub method: String,
    /// `http://` or `https://`; user and password become a basic `Authorization`.
    pub url: String,
    /// The time that a call may take, connecting included.
    pub timeout: Duration,
    /// More headers. `Content-Type` replaces Semel's own.
    pub headers: Vec<(String, String)>,
    /// True if the provider recognises the key: its 409 then says that a request with the key is still under
    /// way there, and the call is tried again.
    pub is_keyed: bool,
    /// The refusals that speak for the earlier attempts as well.
    pub decisive: Decisive,
}

impl Settings {
    /// Settings for `POST` to `url`, with a timeout of 30 seconds.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            method: "POST".into(),
            url: url.into(),
            timeout: Duration::from_secs(30),
            headers: Vec::new(),
            is_keyed: false,
            decisive: Decisive::default(),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`, as [`HttpEffect::new`]
    pub fn validate(&self) -> Result<()> {
        Template::new(self).map(|_| ())
    }

    /// Returns the place that requests go to, as traces name it; nothing if the settings are not valid.
    pub fn place(&self) -> Option<Place> {
        let Template { method, target, .. } = Template::new(self).ok()?;
        Some(Place {
            method: method.to_string(),
            url: target.plain()?,
            server: (target.host().to_owned(), target.port()),
        })
    }
}

/// A place that requests go to, without user, password and query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The method.
    pub method: String,
    /// The URL without user, password and query.
    pub url: String,
    /// The host and the port that are connected to.
    pub server: (String, u16),
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| (name, "***")).collect();
        f.debug_struct("Settings")
            .field("method", &self.method)
            .field("url", &target::masked(&self.url))
            .field("timeout", &self.timeout)
            .field("headers", &names)
            .field("is_keyed", &self.is_keyed)
            .field("decisive", &self.decisive)
            .finish()
    }
}

/// Sends each message to one URL.
///
/// # Shape
///
/// 2xx → done with the body; an answer that says that it is a stored one → dead, for the earlier attempts as
/// well; not connected → away; 408, 425, 429, 503, and 409 of a provider that recognises the key → not applied,
/// honouring `Retry-After`; a broken or late answer, other 5xx → maybe applied; other 4xx, and 3xx, which is
/// not followed → dead, for the earlier attempts as well only if the code is one of [`Settings::decisive`]
#[derive(Debug)]
pub struct HttpEffect {
    template: Template,
    timeout: Duration,
    meaning: Meaning,
    connections: Connections,
}

impl HttpEffect {
    /// An effect that sends to `settings.url`. Needs a tokio runtime.
    ///
    /// # Cost
    ///
    /// Reads the system's certificates where the URL is `https`
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: a method, URL or header that is not valid, or a header that Semel sets; `Unavailable`
    /// with code `target-unavailable`: the system has no certificates
    pub fn new(settings: Settings) -> Result<Self> {
        let template = Template::new(&settings)?;
        let connections = Connections::new(template.target.clone())?;
        Ok(Self {
            template,
            timeout: settings.timeout,
            meaning: Meaning {
                is_keyed: settings.is_keyed,
                decisive: settings.decisive,
            },
            connections,
        })
    }
}

/// Checks whether the target of an effect can be reached, and sends it nothing.
#[derive(Debug)]
pub struct Probe(Connections);

impl Probe {
    /// A probe of the target of `settings`. Needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// As [`HttpEffect::new`]
    pub fn new(settings: &Settings) -> Result<Self> {
        Connections::new(Template::new(settings)?.target).map(Self)
    }

    /// Connects, over TLS if the URL says so, and closes the connection.
    ///
    /// # Errors
    ///
    /// `Unavailable` with code `target-away`: the reason why it cannot connect
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn connect(&self, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        let Err(failure) = self.0.connect(deadline).await else {
            return Ok(());
        };
        let cause = match failure {
            Failure::Unsent(cause) | Failure::Broken(cause) => cause,
            Failure::Late => "no connection in time".into(),
        };
        let message = format!("cannot reach {}: {cause}", self.0.masked());
        Err(Error::new(ErrorKind::Unavailable, message)
            .with_code(Code::TargetAway)
            .not_applied())
    }
}

impl Effect for HttpEffect {
    /// # Cancel safety
    ///
    /// The connection is closed; a request that was sent may be applied
    async fn call(&self, call: Call) -> Verdict {
        self.call_with_status(call).await.0
    }

    async fn call_with_status(&self, call: Call) -> (Verdict, Option<u16>) {
        let request = match self.template.request(&call) {
            Ok(request) => request,
            Err(error) => {
                let dead = Verdict::Dead {
                    decisive: false,
                    error: error.to_string().into(),
                };
                return (dead, None);
            }
        };
        let Answered {
            verdict, status, ..
        } = self.send(request).await;
        (verdict, status)
    }

    fn quiet(&self) -> Duration {
        self.timeout
    }
}

impl HttpEffect {
    /// Sends a request, and judges the answer.
    async fn send(&self, request: Request<Full<Bytes>>) -> Answered {
        let deadline = Instant::now() + self.timeout;
        let url = self.template.target.masked();
        let late = || format!("no answer from {url} within {:?}", self.timeout).into();
        let sent = self.connections.send(request, deadline).await;
        let (connection, response) = match sent {
            Ok(sent) => sent,
            Err(Failure::Unsent(cause)) => {
                let error = format!("cannot reach {url}: {cause}").into();
                return Answered::none(Verdict::Away { error });
            }
            Err(Failure::Broken(cause)) => {
                let error = format!("{url} broke off before it answered: {cause}").into();
                return Answered::none(Verdict::MaybeApplied { error });
            }
            Err(Failure::Late) => return Answered::none(Verdict::MaybeApplied { error: late() }),
        };
        let (head, body) = response.into_parts();
        let read = time::timeout_at(deadline, answer::read(body)).await;
        let body = match read {
            Ok(Ok(body)) => {
                self.connections.put_back(connection);
                Ok(body)
            }
            Ok(Err(cause)) => Err(format!("{url} broke off in its answer: {cause}").into()),
            Err(_) => Err(late()),
        };
        Answered {
            verdict: answer::verdict(&head, body, &self.template.target, &self.meaning),
            status: Some(head.status.as_u16()),
            is_of_the_place: answer::is_of_the_place(&head),
        }
    }
}

/// The end of a request.
struct Answered {
    verdict: Verdict,
    /// The status of the answer, if there was one.
    status: Option<u16>,
    /// The answer is about the place, whatever the request.
    is_of_the_place: bool,
}

impl Answered {
    /// Returns the end of a request without an answer.
    const fn none(verdict: Verdict) -> Self {
        Self {
            verdict,
            status: None,
            is_of_the_place: false,
        }
    }
}

/// The parts that are the same in every request.
#[derive(Debug)]
struct Template {
    method: Method,
    target: Target,
    headers: HeaderMap,
}

impl Template {
    fn new(settings: &Settings) -> Result<Self> {
        let target = Target::parse(&settings.url)?;
        let method = Method::from_bytes(settings.method.as_bytes())
            .ok()
            .filter(|method| !matches!(*method, Method::CONNECT | Method::TRACE))
            .ok_or_else(|| {
                invalid("method: it is no method of HTTP; write POST, PUT or the like")
            })?;
        let mut headers = HeaderMap::new();
        if let Some(authorization) = target.authorization() {
            headers.insert(hyper::header::AUTHORIZATION, authorization);
        }
        for (name, value) in &settings.headers {
            let setting = format!("headers.{}", name.escape_debug());
            let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
                invalid(&format!("{setting}: it is no name of a header; correct it"))
            })?;
            if OURS.contains(&parsed.as_str()) {
                return Err(invalid(&format!(
                    "{setting}: it is set by us; leave it out"
                )));
            }
            let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
                invalid(&format!(
                    "{setting}: it has a control character; leave that out"
                ))
            })?;
            value.set_sensitive(true);
            if parsed == hyper::header::AUTHORIZATION || parsed == hyper::header::HOST {
                headers.insert(parsed, value);
            } else {
                headers.append(parsed, value);
            }
        }
        if !headers.contains_key(hyper::header::HOST) {
            headers.insert(hyper::header::HOST, target.host_header()?);
        }
        Ok(Self {
            method,
            target,
            headers,
        })
    }

    fn request(&self, call: &Call) -> hyper::http::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(&self.method)
            .uri(self.target.path_and_query())
            .body(Full::new(call.payload.clone()))?;
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        if !headers.contains_key(CONTENT_TYPE) {
            let is_json = Document::parse(&call.payload).is_ok();
            let kind = if is_json {
                "application/json"
            } else {
                "application/octet-stream"
            };
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        let id = HeaderValue::try_from(call.idempotency_key())?;
        headers.insert("idempotency-key", id.clone());
        headers.insert("semel-operation-id", id);
        headers.insert("semel-attempt", call.claim.attempt.into());
        headers.insert("semel-fencing-token", call.claim.token.get().into());
        if let Some(trace) = call.trace() {
            if let Ok(parent) = HeaderValue::try_from(&*trace.parent) {
                headers.insert(TRACEPARENT, parent);
            }
            let state = trace.state.as_deref().map(HeaderValue::try_from);
            if let Some(Ok(state)) = state {
                headers.insert(TRACESTATE, state);
            }
        }
        Ok(request)
    }
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

/// Headers that belong to the effect or to the connection.
const OURS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "idempotency-key",
    "keep-alive",
    "semel-attempt",
    "semel-fencing-token",
    "semel-operation-id",
    "te",
    "transfer-encoding",
    "upgrade",
];
