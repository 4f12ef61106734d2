//! The settings of a proxy.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::uri::{Authority, PathAndQuery, Scheme, Uri};
use axum::http::{Method, uri};
use semel_core::{Error, ErrorKind, Result};
use semel_gateway::Route;
use semel_tls::Tls;

use crate::jwt::JwtVerifier;
use crate::path::{PathPattern, normalized};

/// The settings of a proxy: which requests are guarded, where all of them go, and how long each step may take.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The guarded requests, of which the first that matches wins. A request that none matches goes to the upstream without
    /// protection.
    pub routes: Vec<PathRoute>,
    /// The servers behind the proxy, one at least. Several take turns; those that do not answer are left out.
    pub upstreams: Vec<Upstream>,
    /// The probes of the upstreams.
    pub health: Health,
    /// The longest time until an upstream is connected to, TLS included; 3 seconds. A request waits twice as long at most,
    /// if there are several. The time of every route is three times as long at least, so that an upstream that is away never
    /// looks like one that is slow.
    pub connect_timeout: Duration,
    /// The time for which an idle connection to an upstream is kept; 4 seconds. It must be shorter than the time after
    /// which the upstream closes it, which is 5 seconds for some servers: a request that meets such a close is in doubt.
    pub pool_idle: Duration,
    /// The most idle connections that are kept to one upstream; 128.
    pub pool_per_upstream: usize,
    /// The longest wait for the answer of a request that has no claim, until its head; without one, it is as long as the
    /// client waits; 60 seconds.
    pub unguarded_timeout: Option<Duration>,
    /// The longest wait for the next part of the body of a guarded request; 30 seconds. Requests in shadow have no limit, as
    /// without the proxy.
    pub body_idle: Duration,
    /// The time after which an upgraded connection ends if nothing came from either end, as a WebSocket does; one hour.
    pub upgrade_idle: Duration,
    /// The most requests at once, those that wait for the first one under their key included; 4,096. Further ones are
    /// answered 503. One is in hand until its answer has gone, and until the upstream has answered, also if its client has
    /// hung up. The bodies of guarded requests and their answers are in memory, so this bounds it.
    pub most_in_flight: usize,
    /// The upstream is told the name that the client asked for instead of its own; true. An upstream that speaks HTTP/2 is
    /// always told its own, and finds the other one in `X-Forwarded-Host`.
    pub keep_host: bool,
    /// The words of a request about the clients behind its sender (`X-Forwarded-*`, `X-Real-IP`, `Forwarded`) are kept,
    /// and added to, instead of replaced; false. Only where every client is a proxy of one's own.
    pub trust_forwarded: bool,
    /// The paths that the proxy answers itself.
    pub own: Vec<OwnPaths>,
    /// Requests of clients that have shown no certificate are refused, but for the proxy's own paths that do not need one;
    /// false. Where the listener asks for one.
    pub needs_certificate: bool,
}

/// Paths that a proxy answers itself: no request for one of them is passed on.
#[derive(Clone, Debug)]
pub struct OwnPaths {
    /// The paths. They go before every route.
    pub paths: Vec<PathPattern>,
    /// Its clients show a certificate, too, where those of routes have to.
    pub needs_certificate: bool,
    /// The service that answers. It decides itself whom it lets in.
    pub service: Router,
}

/// The requests of a route, and what becomes of them.
#[derive(Clone, Debug)]
pub struct PathRoute {
    /// Their paths.
    pub path: PathPattern,
    /// Their methods; all if there are none. Which of them are guarded, the route says.
    pub methods: Vec<Method>,
    /// The settings of the route.
    pub route: Route,
    /// The proof of a client's tenant. With it, the route has its tenants from
    /// [`TenantFrom::Extension`](semel_gateway::TenantFrom::Extension).
    pub proof: Option<TenantProof>,
}

/// The proof by which a client is known as one of a tenant.
#[derive(Clone, Debug)]
pub enum TenantProof {
    /// The common name in the certificate that it has shown, if there is exactly one.
    Certificate,
    /// A claim of the JWT that it sends as its bearer token.
    Jwt {
        /// The check of its signature and its times.
        verifier: Arc<JwtVerifier>,
        /// The name of the claim, whose value is a text or a whole number.
        claim: Box<str>,
    },
}

/// A server behind the proxy.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Its scheme (`http` or `https`), host and port, and perhaps a path that goes before that of each request.
    pub url: Uri,
    /// The encryption of connections to it, for `https`.
    pub tls: Tls,
    /// It is spoken to in HTTP/2: over TLS if it agrees, and else without asking. Upgrades always go over HTTP/1.1.
    pub http2: bool,
}

/// The probes of the upstreams.
#[derive(Clone, Debug)]
pub struct Health {
    /// The path that is asked for with GET, and answered with 2xx or 3xx by an upstream that is well. Without one, the
    /// upstream is only connected to.
    pub path: Option<PathAndQuery>,
    /// The time between two probes; 2 seconds.
    pub interval: Duration,
    /// The longest time for a probe; 2 seconds.
    pub timeout: Duration,
}

impl Settings {
    /// Returns the default settings of a proxy in front of `upstreams`, without a route.
    pub fn new(upstreams: Vec<Upstream>) -> Self {
        Self {
            routes: Vec::new(),
            upstreams,
            health: Health::default(),
            connect_timeout: Duration::from_secs(3),
            pool_idle: Duration::from_secs(4),
            pool_per_upstream: 128,
            unguarded_timeout: Some(Duration::from_secs(60)),
            body_idle: Duration::from_secs(30),
            upgrade_idle: Duration::from_secs(3_600),
            most_in_flight: 4_096,
            keep_host: true,
            trust_forwarded: false,
            own: Vec::new(),
            needs_certificate: false,
        }
    }

    /// Checks what goes with what. The settings of the routes are checked with their layers.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: no upstream, or a URL of no use; a time of zero; a route that has no time left after connecting
    pub fn check(&self) -> Result<()> {
        if self.upstreams.is_empty() {
            return Err(wrong("a proxy has at least one upstream"));
        }
        for upstream in &self.upstreams {
            upstream.check()?;
        }
        let times = [
            ("connect_timeout", self.connect_timeout),
            ("pool_idle", self.pool_idle),
            ("body_idle", self.body_idle),
            ("upgrade_idle", self.upgrade_idle),
            ("health.interval", self.health.interval),
            ("health.timeout", self.health.timeout),
        ];
        for (name, time) in times {
            if time.is_zero() {
                return Err(wrong(format!("`{name}` must be longer than zero")));
            }
        }
        if self.most_in_flight == 0 {
            return Err(wrong("`most_in_flight` must be at least 1"));
        }
        for PathRoute { path, route, .. } in &self.routes {
            if route.upstream_timeout < self.connect_timeout.saturating_mul(3) {
                let (connect, whole) = (self.connect_timeout, route.upstream_timeout);
                return Err(wrong(format!(
                    "`upstream_timeout` of the route {path} is {whole:?} and must be at least three times `connect_timeout`, \
                     which is {connect:?}: else an upstream that is away looks like one that is slow"
                )));
            }
        }
        Ok(())
    }
}

impl Upstream {
    /// The upstream of this URL, with the usual encryption, spoken to in HTTP/1.1.
    pub fn new(url: Uri) -> Self {
        Self {
            url,
            tls: Tls::default(),
            http2: false,
        }
    }

    /// Checks the URL and the encryption; reads no file.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: another scheme; no host; a user, a query, or a path that is not in its shortest form.
    /// `InvalidConfig`: settings of TLS that do not go together
    pub fn check(&self) -> Result<()> {
        let shown = self.shown();
        let fault = |fault: &str| Err(wrong(format!("the upstream {shown} {fault}")));
        let is_plain = self.url.scheme() == Some(&Scheme::HTTP);
        if !is_plain && self.url.scheme() != Some(&Scheme::HTTPS) {
            return fault("is not of the form http://HOST:PORT or https://HOST:PORT");
        }
        let authority = self.url.authority().map_or("", Authority::as_str);
        if authority.contains('@') {
            return fault("has a user in it, which no request would name");
        }
        if self.url.host().is_none_or(str::is_empty) {
            return fault("has no host");
        }
        if self.url.query().is_some() {
            return fault("has a query, which goes with each request");
        }
        let prefix = self.url.path();
        if prefix != "/" && normalized(prefix) != prefix {
            return fault("has a path that can be written in a shorter way");
        }
        if is_plain && !self.tls.is_usual() {
            return fault("has settings of TLS, which go with https");
        }
        self.tls.check()
    }

    /// The URL as far as it may be shown.
    pub(crate) fn shown(&self) -> String {
        let scheme = self.url.scheme_str().unwrap_or_default();
        let authority = self.url.authority().map_or("", Authority::as_str);
        let host = authority.rsplit_once('@').map_or(authority, |it| it.1);
        let path = self.url.path();
        let path = if path == "/" { "" } else { path };
        format!("{scheme}://{host}{path}")
    }

    /// The URL of a request to it.
    pub(crate) fn target(&self, of: &Uri) -> std::result::Result<Uri, axum::http::Error> {
        let prefix = self.url.path().trim_end_matches('/');
        let asked = of.path_and_query().map_or("/", PathAndQuery::as_str);
        let slash = if asked.starts_with('/') { "" } else { "/" };
        let mut builder = uri::Builder::new();
        if let Some(scheme) = self.url.scheme() {
            builder = builder.scheme(scheme.clone());
        }
        if let Some(authority) = self.url.authority() {
            builder = builder.authority(authority.clone());
        }
        builder
            .path_and_query(format!("{prefix}{slash}{asked}"))
            .build()
    }
}

impl Default for Health {
    fn default() -> Self {
        Self {
            path: None,
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
        }
    }
}

fn wrong(message: impl Into<Box<str>>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(url: &str) -> Upstream {
        Upstream::new(url.parse().expect("a URL"))
    }

    fn refused(change: impl FnOnce(&mut Settings)) -> String {
        let mut settings = Settings::new(vec![upstream("http://127.0.0.1:9000")]);
        settings.check().expect("good until it is changed");
        change(&mut settings);
        settings.check().expect_err("refused").to_string()
    }

    #[test]
    fn what_cannot_work_is_refused() {
        assert!(refused(|it| it.upstreams.clear()).contains("at least one"));
        assert!(refused(|it| it.connect_timeout = Duration::ZERO).contains("connect_timeout"));
        assert!(refused(|it| it.most_in_flight = 0).contains("most_in_flight"));
        assert!(refused(|it| it.health.interval = Duration::ZERO).contains("health.interval"));
        for (url, fault) in [
            ("ftp://a", "form"),
            ("/path", "form"),
            ("http://user:secret@a", "user"),
            ("http://a/?x=1", "query"),
            ("http://a/b/../c", "shorter"),
        ] {
            let said = refused(|it| it.upstreams = vec![upstream(url)]);
            assert!(
                said.contains(fault) && !said.contains("secret"),
                "{url}: {said}"
            );
        }
        let tls = Tls {
            ca: Some("/nowhere".into()),
            ..Tls::default()
        };
        assert!(refused(|it| it.upstreams[0].tls = tls).contains("https"));
    }

    #[test]
    fn a_route_has_time_left_after_connecting() {
        let said = refused(|it| {
            let route = PathRoute {
                path: PathPattern::ALL,
                methods: Vec::new(),
                route: Route::default(),
                proof: None,
            };
            it.connect_timeout = route.route.upstream_timeout / 3;
            it.routes.push(route);
            it.check().expect("it has time for its answer");
            it.connect_timeout += Duration::from_millis(1);
        });
        assert!(said.contains("connect_timeout"), "{said}");
    }

    #[test]
    fn the_path_of_an_upstream_goes_before_that_of_a_request() {
        for (url, asked, target) in [
            ("http://a:1", "/b?c=%2F", "http://a:1/b?c=%2F"),
            ("http://a/", "/b/../c", "http://a/b/../c"),
            ("https://a/v1", "/b", "https://a/v1/b"),
            ("https://a/v1/", "/", "https://a/v1/"),
            ("http://a", "http://x/b?d", "http://a/b?d"),
            ("http://a", "http://x?d", "http://a/?d"),
        ] {
            let built = upstream(url).target(&asked.parse().expect("it"));
            assert_eq!(built.expect("a target").to_string(), target);
        }
    }
}
