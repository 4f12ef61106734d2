//! The proxy: routes over upstreams.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, request};
use axum::response::IntoResponse;
use hyper::service::service_fn;
use semel_core::{Code, Result, Store, planted};
use semel_engine::once::Once;
use semel_gateway::{Arrival, Counts, IdempotencyLayer};
use semel_http::{ClientCertificate, Limits, Listener, Problem, Protocols};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_rustls::rustls::ServerConfig;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt};

use crate::availability::Availability;
use crate::forward::Forward;
use crate::framing;
use crate::headers::{strip_expectation, strip_request};
use crate::idle_limit::IdleLimited;
use crate::in_flight::Place;
use crate::path::{can_be_shortened, climbs, merged, normalized, resolved, without_parameters};
use crate::settings::{OwnPaths, PathRoute, Settings};
use crate::tenant;
use crate::upstreams::Upstreams;

/// A reverse proxy whose routes are under idempotency keys. Clones are the same proxy.
#[derive(Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    /// In the order of the settings.
    guarded: Vec<Guarded>,
    forward: Forward,
    places: Arc<Semaphore>,
    unmatched: AtomicU64,
    refused: AtomicU64,
}

/// The one who answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// The proxy itself, by its own paths at this place.
    Own(usize),
    /// An upstream, by the rules of the route at this place.
    Route(usize),
    /// An upstream, without any rules.
    Upstream,
}

/// The layer of a route, whatever its store is.
struct Guarded {
    service: BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>,
    counts: Box<dyn Fn() -> Counts + Send + Sync>,
}

/// The requests of a proxy so far, as far as no record tells of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// Those of each route, in the order of the settings.
    pub routes: Vec<RouteCounts>,
    /// Requests that no route matched.
    pub unmatched: u64,
    /// Requests that were refused before a route was looked for: bad framing, paths that are read in two ways, and those
    /// beyond the most at once.
    pub refused: u64,
    /// Requests that did not reach an upstream.
    pub unreachable: u64,
    /// Requests that wait for the head of an upstream's answer at this moment.
    pub in_flight: u64,
}

/// The requests of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteCounts {
    /// The paths of the route, as its pattern is written.
    pub path: String,
    /// The name under which its keys are kept.
    pub operation: String,
    /// Its requests.
    pub counts: Counts,
}

impl Proxy {
    /// Returns a proxy over the store of `once`. It connects to nothing yet, and reads the files of TLS once.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: a setting is not acceptable, of the proxy or of a route. `InvalidConfig`: the files of TLS for an
    /// upstream are of no use
    pub fn new<S: Store + Clone>(once: &Once<S>, settings: Settings) -> Result<Self> {
        settings.check()?;
        let forward = Forward::new(Upstreams::new(&settings)?, &settings);
        let routes = settings.routes.iter();
        let guarded = routes.map(|it| Guarded::new(once, it, forward.clone()));
        let guarded = guarded.collect::<Result<_>>()?;
        let places = Semaphore::new(settings.most_in_flight.min(Semaphore::MAX_PERMITS));
        Ok(Self {
            shared: Arc::new(Shared {
                settings,
                guarded,
                forward,
                places: Arc::new(places),
                unmatched: AtomicU64::new(0),
                refused: AtomicU64::new(0),
            }),
        })
    }

    /// Returns what was counted so far.
    pub fn counts(&self) -> ProxyCounts {
        let shared = &*self.shared;
        let routes = shared.settings.routes.iter().zip(&shared.guarded);
        let routes = routes.map(|(it, guarded)| RouteCounts {
            path: it.path.to_string(),
            operation: it.route.operation.to_string(),
            counts: (guarded.counts)(),
        });
        ProxyCounts {
            routes: routes.collect(),
            unmatched: shared.unmatched.load(Ordering::Relaxed),
            refused: shared.refused.load(Ordering::Relaxed),
            unreachable: shared.forward.unreachable(),
            in_flight: shared.forward.in_flight(),
        }
    }

    /// Returns what is known of the upstreams: from the last probe, and from requests since.
    pub fn health(&self) -> Availability {
        self.shared.forward.upstreams().availability()
    }

    /// Probes the upstreams until `stop` is ready, for the first time at once. Without it, an upstream that was not reached
    /// comes last until a request has tried it again.
    ///
    /// # Cancel safety   safe
    pub async fn probe(&self, stop: impl Future<Output = ()>) {
        let upstreams = self.shared.forward.upstreams();
        let probes = async {
            loop {
                upstreams.probe().await;
                sleep(upstreams.interval()).await;
            }
        };
        tokio::select! {
            biased;
            () = stop => {}
            () = probes => {}
        }
    }

    /// Serves HTTP/1.1 and HTTP/2, with TLS if it is given, until `stop` is ready, and then what is in hand, for
    /// `limits.drain` at most. Upgraded connections end with it.
    ///
    /// A request under a claim goes on to its outcome beyond that; [`Once::close`] waits for it.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes every connection that was not upgraded.
    pub async fn serve(
        &self,
        listener: Listener,
        limits: Limits,
        tls: Option<Arc<ServerConfig>>,
        stop: impl Future<Output = ()>,
    ) {
        let proxy = self.clone();
        let service = service_fn(move |request: Request<_>| {
            let proxy = proxy.clone();
            async move { Ok::<_, Infallible>(proxy.answer(request.map(Body::new)).await) }
        });
        let protocols = Protocols { tls, http2: true };
        listener.serve_as(protocols, limits, service, stop).await;
        self.shared.forward.tunnels().close();
    }

    /// Answers one request. Its client is the [`Peer`](semel_http::Peer) among its extensions.
    ///
    /// # Cancel safety   safe: a request under a claim goes on to its outcome
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let shared = &*self.shared;
        let Some(place) = Place::take(&shared.places) else {
            return shared.refuse(overloaded());
        };
        let (mut head, body) = request.into_parts();
        // What is sent to an upstream holds it, too: it goes on when the client has hung up.
        head.extensions.insert(place.clone());
        let answer = shared.answer(head, body).await;
        answer.map(|body| place.until_gone(body))
    }
}

impl Shared {
    async fn answer(&self, mut head: request::Parts, body: Body) -> Response<Body> {
        if let Err(problem) = framing::check(&mut head) {
            return self.refuse(*problem);
        }
        if let Err(name) = strip_request(&mut head.headers, head.version) {
            let detail = format!("its field `Connection` names {name}, which is not for it alone");
            return self.refuse(framing::refusal(&detail, head.version));
        }
        if head.uri.path() == "*" {
            if head.method != Method::OPTIONS {
                let detail = "its target is `*`, which goes with OPTIONS alone";
                return self.refuse(framing::refusal(detail, head.version));
            }
            // It is about the server as a whole, which this one answers for.
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            return response;
        }
        let path = head.uri.path();
        let target = self.target(&head.method, path);
        if let Some(detail) = self.misread(&head.method, path, target) {
            return self.refuse(framing::refusal(detail, head.version));
        }
        // One who answers here may refuse a request before its body is sent.
        if !matches!(target, Target::Own(_)) {
            strip_expectation(&mut head.headers);
        }
        let at = match target {
            Target::Route(at) => at,
            Target::Own(at) => {
                let own = &self.settings.own[at];
                if own.needs_certificate
                    && let Some(problem) = self.nameless(&head)
                {
                    return self.refuse(problem);
                }
                let request = Request::from_parts(head, body);
                let Ok(response) = own.service.clone().oneshot(request).await;
                return response;
            }
            Target::Upstream => {
                self.unmatched.fetch_add(1, Ordering::Relaxed);
                if let Some(problem) = self.nameless(&head) {
                    return self.refuse(problem);
                }
                let request = Request::from_parts(head, body);
                return Box::pin(self.forward.send(request)).await;
            }
        };
        let PathRoute { route, proof, .. } = &self.settings.routes[at];
        if let Some(proof) = proof
            && tenant::is_asked_for(route, &head)
        {
            match tenant::proved(proof, &head) {
                Ok(Some(tenant)) => drop(head.extensions.insert(tenant)),
                // The route says that it is missing.
                Ok(None) => {}
                Err(_) if route.shadow => {}
                Err(problem) => return self.refuse(problem),
            }
        }
        let arrival = route.arrival(&head);
        let is_refused = matches!(arrival, Arrival::Refused(_)) && !route.shadow;
        if !is_refused && let Some(problem) = self.nameless(&head) {
            return self.refuse(problem);
        }
        let body = match arrival {
            // It is read to its end before anything else happens. In shadow it takes the time that it takes.
            Arrival::Keyed { .. } if !route.shadow => {
                IdleLimited::body(body, self.settings.body_idle)
            }
            Arrival::Keyed { .. } | Arrival::Passes | Arrival::Keyless | Arrival::Refused(_) => {
                body
            }
        };
        let mut service = self.guarded[at].service.clone();
        let Ok(response) = service.call(Request::from_parts(head, body)).await;
        response
    }

    /// The answer to a request of a client that had to show a certificate and has not.
    fn nameless(&self, head: &request::Parts) -> Option<Problem> {
        let is_known = head.extensions.get::<ClientCertificate>().is_some();
        (self.settings.needs_certificate && !is_known).then(tenant::certificate_missing)
    }

    /// Finds out who answers a request: the proxy itself, the first route that matches, or an upstream without any.
    fn target(&self, method: &Method, path: &str) -> Target {
        let is_own = |own: &OwnPaths| own.paths.iter().any(|it| it.matches(path));
        if let Some(at) = self.settings.own.iter().position(is_own) {
            return Target::Own(at);
        }
        let matches = |it: &PathRoute| {
            it.path.matches(path) && (it.methods.is_empty() || it.methods.contains(method))
        };
        let route = self.settings.routes.iter().position(matches);
        route.map_or(Target::Upstream, Target::Route)
    }

    /// Finds out what is wrong with a path by which a request could get around its target, if it is one.
    fn misread(&self, method: &Method, path: &str, target: Target) -> Option<&'static str> {
        if !can_be_shortened(path) {
            return None;
        }
        if climbs(path) {
            return Some("the dots of its path lead out of its root; send it without them");
        }
        // Servers differ in what they do first, and in what they leave alone.
        let bare = without_parameters(path);
        let is_other = [path, &bare].into_iter().any(|path| {
            let readings = [normalized(path), resolved(path), resolved(&merged(path))];
            let mut targets = readings.iter().map(|it| self.target(method, it));
            targets.any(|other| other != target)
        });
        (is_other && !planted("H16")).then_some(
            "its path is another one once it is decoded and its dots are resolved; send that",
        )
    }

    fn refuse(&self, problem: Problem) -> Response<Body> {
        self.refused.fetch_add(1, Ordering::Relaxed);
        problem.into_response()
    }
}

/// The answer to a request for which there is no place.
fn overloaded() -> Problem {
    let detail =
        "too many requests are in hand at this moment, so nothing was done; try again later";
    let code = Code::Throttled.as_str();
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
        .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
}

impl Guarded {
    fn new<S: Store + Clone>(once: &Once<S>, of: &PathRoute, forward: Forward) -> Result<Self> {
        let layer = IdempotencyLayer::new(once, of.route.clone())?;
        let service = BoxCloneSyncService::new(layer.layer(forward));
        let counts = Box::new(move || layer.counts());
        Ok(Self { service, counts })
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}
