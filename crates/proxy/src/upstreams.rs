//! The upstreams: whose turn it is, and which of them do not answer.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::USER_AGENT;
use axum::http::uri::Scheme;
use axum::http::{HeaderValue, Method, Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use semel_core::{Result, connection};
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::availability::{Availability, UpstreamState};
use crate::connector::Connector;
use crate::settings::{Health, Settings, Upstream};
use crate::unsent_body::OutgoingBody;

/// The upstreams of a proxy.
pub(crate) struct Upstreams {
    members: Vec<Arc<Member>>,
    next: AtomicUsize,
    health: Health,
}

/// An upstream, with its connections and what is known of it.
pub(crate) struct Member {
    pub(crate) upstream: Upstream,
    /// The client for upgrades, and for everything if it is not spoken to in HTTP/2.
    http1: Client<Connector, OutgoingBody>,
    http2: Option<Client<Connector, OutgoingBody>>,
    probe_client: Client<Connector, Body>,
    connector: Connector,
    /// Without a path, whoever answers a request is well.
    is_well_by_answers: bool,
    state: Mutex<State>,
}

impl Upstreams {
    /// # Errors
    ///
    /// `InvalidConfig`: the files of TLS for an upstream are of no use
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let members = settings.upstreams.iter();
        let members = members.map(|upstream| Member::new(upstream, settings).map(Arc::new));
        Ok(Self {
            members: members.collect::<Result<_>>()?,
            next: AtomicUsize::new(0),
            health: settings.health.clone(),
        })
    }

    /// Returns the upstreams in the order in which a request tries them: those that are not known to be away, beginning
    /// with the one whose turn it is, and then the others, since one of them may be back.
    pub(crate) fn in_turn(&self) -> Vec<Arc<Member>> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.members.len().max(1);
        let (before, after) = self.members.split_at(first);
        let mut members: Vec<_> = after.iter().chain(before).map(Arc::clone).collect();
        members.sort_by_key(|member| matches!(*member.state(), State::Down { .. }));
        members
    }

    pub(crate) fn availability(&self) -> Availability {
        let states = self.members.iter().map(|member| {
            let (is_up, reason) = match &*member.state() {
                State::Unknown => (None, None),
                State::Up => (Some(true), None),
                State::Down { reason } => (Some(false), Some(reason.clone())),
            };
            let url = member.upstream.shown();
            UpstreamState { url, is_up, reason }
        });
        Availability {
            upstreams: states.collect(),
        }
    }

    /// Probes each upstream once.
    ///
    /// # Cancel safety   safe: what is known already stays
    pub(crate) async fn probe(&self) {
        let mut probes = JoinSet::new();
        for member in &self.members {
            let (member, health) = (Arc::clone(member), self.health.clone());
            probes.spawn(async move { member.probe(&health).await });
        }
        while probes.join_next().await.is_some() {}
    }

    pub(crate) fn interval(&self) -> Duration {
        self.health.interval
    }
}

impl Member {
    fn new(upstream: &Upstream, settings: &Settings) -> Result<Self> {
        let within = settings.connect_timeout;
        let plain = Connector::new(upstream, false, within)?;
        let is_encrypted = upstream.url.scheme() == Some(&Scheme::HTTPS);
        // Without TLS, nothing asks which version the upstream speaks.
        let knows_http2 = upstream.http2 && !is_encrypted;
        let asking = if upstream.http2 {
            Connector::new(upstream, true, within)?
        } else {
            plain.clone()
        };
        let mut builder = builder(settings);
        let http1 = builder.build(plain);
        builder.http2_only(knows_http2);
        let http2 = upstream.http2.then(|| builder.build(asking.clone()));
        let probe_client = builder.pool_max_idle_per_host(0).build(asking.clone());
        Ok(Self {
            upstream: upstream.clone(),
            http1,
            http2,
            probe_client,
            connector: asking,
            is_well_by_answers: settings.health.path.is_none(),
            state: Mutex::new(State::Unknown),
        })
    }

    /// The client for requests that ask for an upgrade, or for all others.
    pub(crate) fn client(&self, upgrades: bool) -> &Client<Connector, OutgoingBody> {
        match &self.http2 {
            Some(http2) if !upgrades => http2,
            _ => &self.http1,
        }
    }

    /// Tells whether requests without an upgrade may go to it in HTTP/2.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.http2.is_some()
    }

    /// Notes that it answered.
    pub(crate) fn answered(&self) {
        if self.is_well_by_answers {
            self.up();
        }
    }

    /// Notes that it was not reached.
    pub(crate) fn unreached(&self, error: &(dyn StdError + 'static)) {
        match (reason(error), &mut *self.state()) {
            (Some(reason), state) => *state = State::Down { reason },
            (None, State::Down { .. }) => {}
            (None, state) => {
                let reason = "no connection came about".into();
                *state = State::Down { reason };
            }
        }
    }

    async fn probe(&self, health: &Health) {
        let probe = async {
            match &health.path {
                None => {
                    let connected = self.connector.clone().oneshot(self.upstream.url.clone());
                    let connected = connected.await;
                    connected
                        .map(drop)
                        .map_err(|error| reason_text(error.as_ref()))
                }
                Some(path) => self.asked(&Uri::from(path.clone())).await,
            }
        };
        match timeout(health.timeout, probe).await {
            Ok(Ok(())) => self.up(),
            Ok(Err(reason)) => self.down(reason),
            Err(_) => self.down(LATE.into()),
        }
    }

    async fn asked(&self, path: &Uri) -> std::result::Result<(), String> {
        let url = self.upstream.target(path).map_err(|it| it.to_string())?;
        let mut request = Request::new(Body::empty());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = url;
        let agent = HeaderValue::from_static("semel");
        request.headers_mut().insert(USER_AGENT, agent);
        let response = self.probe_client.request(request).await;
        let response = response.map_err(|error| reason_text(&error))?;
        let status = response.status();
        if status.is_success() || status.is_redirection() {
            return Ok(());
        }
        Err(format!("{path} answers {}", status.as_u16()))
    }

    fn up(&self) {
        *self.state() = State::Up;
    }

    fn down(&self, reason: String) {
        *self.state() = State::Down { reason };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of the last look at an upstream.
enum State {
    Unknown,
    Up,
    Down { reason: String },
}

/// Finds the reason why an upstream was not reached; nothing if it was another request that tried to.
fn reason(error: &(dyn StdError + 'static)) -> Option<String> {
    if let Some(refusal) = semel_tls::refusal(error) {
        return Some(refusal.words);
    }
    if let Some(cause) = connection::cause(error) {
        return Some(cause.into_owned());
    }
    // What lies at the bottom says more than what is built on it.
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let is_late = last.is::<Elapsed>();
    is_late.then(|| LATE.to_owned())
}

/// Finds the reason why a probe failed.
fn reason_text(error: &(dyn StdError + 'static)) -> String {
    reason(error).unwrap_or_else(|| error.to_string())
}

fn builder(settings: &Settings) -> hyper_util::client::legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(settings.pool_idle)
        .pool_max_idle_per_host(settings.pool_per_upstream)
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(ping_timeout(settings))
        // What was not begun is tried on another connection; what was begun never is.
        .retry_canceled_requests(true);
    builder
}

/// The time for an answer to the question whether a connection is still there. No request ends by it before its own time
/// is over: an upstream that works on one may answer nothing else meanwhile.
fn ping_timeout(settings: &Settings) -> Duration {
    let routes = settings.routes.iter();
    let times = routes.map(|it| it.route.upstream_timeout);
    times.fold(PING, Duration::max)
}

/// The words of `semel_core::connection` for it.
const LATE: &str = "no answer in time";
/// The time after which a silent connection of HTTP/2 is asked whether it is still there, and the shortest for its answer.
const PING: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use semel_gateway::Route;

    use super::*;
    use crate::settings::PathRoute;

    #[test]
    fn a_connection_of_http2_outlasts_the_requests_on_it() {
        let mut settings = Settings::new(Vec::new());
        assert_eq!(ping_timeout(&settings), PING);
        for seconds in [1, 300, 60] {
            settings.routes.push(PathRoute {
                path: crate::path::PathPattern::ALL,
                methods: Vec::new(),
                route: Route {
                    upstream_timeout: Duration::from_secs(seconds),
                    ..Route::default()
                },
                proof: None,
            });
        }
        assert_eq!(ping_timeout(&settings), Duration::from_secs(300));
    }
}
