//! The gateway of a worker: its listener, its proxy, and the store of its keys once that is open.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use semel_config::{CLAIM_PATHS, Certificate, GatewaySettings, JwtSettings, RouteSettings};
use semel_core::{AnyStore, Clock, Code, Error, ErrorKind, Result, Store, forward_store};
use semel_engine::consumer::LAST_REPORTS;
use semel_engine::event::{Event, Observer};
use semel_engine::layer::outage::{Breaker, Guarded};
use semel_engine::once::{self, Once};
use semel_engine::surroundings::Surroundings;
use semel_http::{Limits, Sockets};
use semel_proxy::{
    Health, JwtVerifier, OwnPaths, PathPattern, PathRoute, Proxy, TenantProof, Upstream,
};
use semel_tls::{Identity, Tls};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::rustls::ServerConfig;

use crate::door::Door;
use crate::notice::{Notice, Reporter};
use crate::source_paths::SourcesAt;
use crate::status::Status;
use crate::stopping::stopped;
use crate::window_guard::PROMPT;

/// A gateway, which serves from the beginning: until its store is open, that is away for it.
pub(crate) struct Gateway {
    settings: GatewaySettings,
    door: Door,
    store: AwaitedStore,
    once: Once<AwaitedStore>,
    stop: watch::Receiver<bool>,
    /// The time for what is in hand once a stop is asked for.
    drain: Duration,
    serving: JoinSet<()>,
    beside: JoinSet<()>,
}

/// The parts of a worker that its gateway shares.
pub(crate) struct OfWorker<'a> {
    /// The time for what is in hand once a stop is asked for.
    pub(crate) drain: Duration,
    pub(crate) status: &'a Arc<Status>,
    pub(crate) observer: &'a Arc<dyn Observer>,
    pub(crate) stop: &'a watch::Sender<bool>,
}

impl Gateway {
    /// Listens, and begins to serve; with `claims`, the claim API as well, and the paths of `sources`.
    ///
    /// # Errors   `InvalidConfig`: a certificate is of no use; `Unavailable`: the address cannot be listened at
    pub(crate) async fn begin(
        settings: &GatewaySettings,
        around: Surroundings,
        worker: OfWorker<'_>,
        sockets: &mut Sockets,
        (claims, sources): (Option<Router>, SourcesAt<'_>),
    ) -> Result<Self> {
        let OfWorker {
            drain,
            status,
            observer,
            stop,
        } = worker;
        let store = AwaitedStore::default();
        let clock = Arc::clone(&around.clock);
        let once = Once::with(store.clone(), around, once::Settings::default(), None);
        let verifier = settings.jwt.as_ref().map(|it| verifier(it, &clock));
        let verifier = verifier.transpose()?;
        let tls = settings.tls.as_ref().map(encryption).transpose()?;
        let is_shared = settings.reuse_port;
        let (door, opened) = Door::new("gateway", settings.listen, is_shared, sockets).await?;
        let claims = claims.map(claim_paths).into_iter();
        let sources = sources.at_gateway(settings.listen, door.address());
        let own = claims.chain(sources).collect::<Result<_>>()?;
        let proxy = Proxy::new(&once, proxy_settings(settings, verifier.as_ref(), own)?)?;
        let limits = Limits {
            drain,
            ..Limits::API
        };
        status.serves_api(proxy.clone());
        let (mut serving, mut beside) = (JoinSet::new(), JoinSet::new());
        let (served, probed) = (proxy.clone(), proxy.clone());
        let (until, probed_until) = (stopped(stop), stopped(stop));
        let awaited = door.is_handed_over().then(|| store.clone());
        serving.spawn(async move {
            tokio::pin!(until);
            let listener = async {
                if let Some(store) = awaited {
                    // Its clients may have come for the process before this one, which had its store.
                    let _ = timeout(PROMPT, store.is_open()).await;
                }
                opened.await.ok()
            };
            let listener = tokio::select! {
                biased;
                () = &mut until => None,
                listener = listener => listener,
            };
            if let Some(listener) = listener {
                served
                    .serve(listener, limits, tls.map(Arc::new), until)
                    .await;
            }
        });
        beside.spawn(async move { probed.probe(probed_until).await });
        beside.spawn(watch_upstreams(
            proxy,
            Arc::clone(status),
            Arc::clone(observer),
        ));
        Ok(Self {
            settings: settings.clone(),
            door,
            store,
            once,
            stop: stop.subscribe(),
            drain,
            serving,
            beside,
        })
    }

    /// The address, with the port that the system chose if none was asked for.
    pub(crate) fn address(&self) -> SocketAddr {
        self.door.address()
    }

    /// Gives it its store. Where another process serves at its address until then, this one listens from now on.
    ///
    /// # Errors   `Unavailable`: it cannot
    pub(crate) fn open(
        &mut self,
        store: AnyStore,
        breaker: &Arc<Breaker>,
        around: &Surroundings,
        reporter: &dyn Reporter,
    ) -> Result<()> {
        // A client would rather be told than wait for a store that is away.
        let store = Guarded::new(store, Arc::clone(breaker), Arc::clone(&around.observer));
        self.store.open(AnyStore::new(store));
        self.door.open()?;
        reporter.report(&Notice::ApiServed {
            address: self.door.address(),
            gateway: &self.settings,
        });
        Ok(())
    }

    /// Waits until a stop is asked for and every request is answered and settled, or its time is over.
    pub(crate) async fn ended(mut self) {
        // The sender lives as long as the worker.
        let _ = self.stop.wait_for(|is_asked| *is_asked).await;
        // Its clients may take all of their time.
        let deadline = Instant::now() + self.drain + LAST_REPORTS;
        self.serving.join_next().await;
        // What clients have hung up on goes on to its outcome.
        let _ = timeout_at(deadline, self.once.close()).await;
        self.beside.shutdown().await;
    }
}

/// Returns the settings of the proxy.
///
/// # Errors   `InvalidConfig`: one of them is of no use; the configuration has checked them
fn proxy_settings(
    settings: &GatewaySettings,
    verifier: Option<&Arc<JwtVerifier>>,
    own: Vec<OwnPaths>,
) -> Result<semel_proxy::Settings> {
    let invalid = |why: String| Error::new(ErrorKind::InvalidConfig, format!("gateway: {why}"));
    let upstreams = settings.upstreams.iter().map(|url| {
        let url: Uri = url
            .parse()
            .map_err(|_| invalid("upstream: is no URL".to_owned()))?;
        let has_tls = url.scheme_str() == Some("https");
        Ok(Upstream {
            tls: Tls {
                ca: settings.upstream_ca.clone().filter(|_| has_tls),
                ..Tls::default()
            },
            http2: settings.upstream_http2,
            ..Upstream::new(url)
        })
    });
    let routes = settings.routes.iter().map(|it| {
        let RouteSettings { path, route, proof } = it;
        Ok(PathRoute {
            path: path.parse().map_err(|error| invalid(format!("{error}")))?,
            methods: route.methods.clone(),
            route: route.clone(),
            proof: match (proof, verifier) {
                (None, _) => None,
                (Some(semel_config::TenantProof::Certificate), _) => Some(TenantProof::Certificate),
                (Some(semel_config::TenantProof::Jwt(claim)), Some(verifier)) => {
                    Some(TenantProof::Jwt {
                        verifier: Arc::clone(verifier),
                        claim: claim.clone(),
                    })
                }
                // The configuration has refused it.
                (Some(semel_config::TenantProof::Jwt(_)), None) => {
                    return Err(invalid("jwt.keys: is missing".to_owned()));
                }
            },
        })
    });
    let asks_clients = |it: &Certificate| it.client_ca.is_some();
    let health = &settings.health;
    let path = health.path.as_deref().map(str::parse::<PathAndQuery>);
    let path = path
        .transpose()
        .map_err(|error| invalid(format!("health.path: {error}")))?;
    Ok(semel_proxy::Settings {
        routes: routes.collect::<Result<_>>()?,
        health: Health {
            path,
            interval: health.every,
            timeout: health.timeout,
        },
        connect_timeout: settings.connect_timeout,
        pool_idle: settings.pool_idle,
        unguarded_timeout: Some(settings.unguarded_timeout),
        upgrade_idle: settings.upgrade_idle,
        keep_host: settings.keep_host,
        trust_forwarded: settings.trust_forwarded,
        own,
        needs_certificate: settings.tls.as_ref().is_some_and(asks_clients),
        ..semel_proxy::Settings::new(upstreams.collect::<Result<_>>()?)
    })
}

/// Reads the keys that JWTs are proved with.
///
/// # Errors   `InvalidConfig`: the file cannot be read, or has no key that is of use
fn verifier(settings: &JwtSettings, clock: &Arc<dyn Clock>) -> Result<Arc<JwtVerifier>> {
    let JwtSettings {
        keys,
        issuer,
        audience,
    } = settings;
    let place = format!("gateway.jwt.keys {}", keys.display());
    let invalid = |why: String| Error::new(ErrorKind::InvalidConfig, format!("{place}: {why}"));
    let text = std::fs::read(keys)
        .map_err(|error| invalid("cannot be read".to_owned()).with_source(error))?;
    let verifier = JwtVerifier::new(
        &text,
        issuer.as_deref(),
        audience.as_deref(),
        Arc::clone(clock),
    );
    let verifier = verifier.map_err(|error| invalid(error.to_string()))?;
    Ok(Arc::new(verifier))
}

/// Reads the certificate of a listener.
///
/// # Errors   `InvalidConfig`: a file is not there or of no use
pub(crate) fn encryption(certificate: &Certificate) -> Result<ServerConfig> {
    let Certificate {
        cert,
        key,
        client_ca,
    } = certificate.clone();
    Identity {
        cert,
        key,
        client_ca,
    }
    .config()
}

/// Returns the paths at which the claim API answers, with it.
fn claim_paths(service: Router) -> Result<OwnPaths> {
    let paths = CLAIM_PATHS.iter().flat_map(|root| {
        [(*root).to_owned(), format!("{root}/*")].map(|path| path.parse::<PathPattern>())
    });
    let paths = paths.collect::<std::result::Result<_, _>>();
    let paths = paths.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    Ok(OwnPaths {
        paths,
        needs_certificate: false,
        service,
    })
}

/// Notes whether an upstream answers, for as long as the future is polled; tells when none does, and when one does again.
async fn watch_upstreams(proxy: Proxy, status: Arc<Status>, observer: Arc<dyn Observer>) {
    let mut away_since: Option<Instant> = None;
    loop {
        let health = proxy.health();
        if health.is_away() {
            let error = Error::new(ErrorKind::Unavailable, health.to_string());
            let error = &error.with_code(Code::TargetAway).not_applied();
            status.health().upstreams_failed(error);
            if away_since.is_none() {
                away_since = Some(Instant::now());
                let wait = LOOKED_AT_EVERY;
                observer.observe(NAME, &Event::TargetAway { error, wait });
            }
        } else if health.is_up() {
            status.health().upstreams_answer();
            if let Some(since) = away_since.take() {
                let lasted = since.elapsed();
                observer.observe(NAME, &Event::TargetBack { lasted });
            }
        }
        sleep(LOOKED_AT_EVERY).await;
    }
}

/// The store of a gateway, which is away until it is open.
#[derive(Clone, Default)]
struct AwaitedStore(Arc<Awaited>);

#[derive(Default)]
struct Awaited {
    store: OnceLock<AnyStore>,
    opened: Notify,
}

impl AwaitedStore {
    fn open(&self, store: AnyStore) {
        // It is opened once.
        let _ = self.0.store.set(store);
        self.0.opened.notify_waiters();
    }

    /// Waits until it is open.
    async fn is_open(&self) {
        let opened = self.0.opened.notified();
        tokio::pin!(opened);
        // From here on, no notification is missed.
        opened.as_mut().enable();
        if self.0.store.get().is_none() {
            opened.await;
        }
    }

    fn opened(&self) -> Result<&AnyStore> {
        let away = || Error::new(ErrorKind::Unavailable, "the store is not open yet").not_applied();
        self.0.store.get().ok_or_else(away)
    }
}

impl Store for AwaitedStore {
    forward_store!(self => self.opened()?);
}

/// The name of the gateway where pipelines have theirs.
const NAME: &str = "gateway";
/// The time between two looks at what is known of the upstreams.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use semel_backends::BACKENDS;
    use semel_config::{Overrides, Settings};
    use semel_core::{Key, Operation, Scope, StoreExt};
    use semel_engine::system::SystemClock;
    use semel_store_memory::MemoryStore;

    use super::*;

    fn gateway(more: &str) -> GatewaySettings {
        let text = format!(
            "[gateway]\nlisten = '127.0.0.1:0'\nupstream = ['http://127.0.0.1:9', 'https://localhost:9/v1']\n{more}\n"
        );
        let (variables, overrides) = (std::iter::empty(), Overrides::default());
        let read = Settings::of("semel.toml", &text, variables, &overrides, BACKENDS);
        read.expect("sound settings").gateway.expect("a gateway")
    }

    #[test]
    fn what_the_configuration_takes_the_proxy_takes_too() {
        let store = AwaitedStore::default();
        let once = Once::new(store);
        for more in [
            "",
            "upstream_ca = 'ca.pem'\nkeep_host = false\ntrust_forwarded = true\nupgrade_idle = '5m'",
            "upstream_timeout = '9s'\nconnect_timeout = '3s'\n[gateway.health]\npath = '/healthz?deep=1'",
            "[[gateway.routes]]\npath = '/a/*'\nmode = 'stripe'\n[[gateway.routes]]\npath = '/'",
            "class = 'keyed'\nprovider_window = '1h'\nkey = 'derive'\ntenant = 'header:X-Tenant'\nshadow = true",
            "[[gateway.routes]]\npath = '/a/100%'\nlease = '100ms'\nwindow = '1s'",
        ] {
            let settings =
                proxy_settings(&gateway(more), None, Vec::new()).expect("settings of a proxy");
            let routes = settings.routes.len();
            // A file is read when it is needed.
            if !more.contains("ca.pem") {
                let proxy = Proxy::new(&once, settings).expect(more);
                assert_eq!(proxy.counts().routes.len(), routes, "{more}");
            }
        }
    }

    #[test]
    fn every_path_of_the_claim_api_is_answered_at_the_gateway() {
        let own = claim_paths(Router::new()).expect("patterns");
        let is_own = |path: &str| own.paths.iter().any(|it| it.matches(path));
        let described: serde_json::Value =
            serde_json::from_str(semel_claims::OPENAPI).expect("JSON");
        let paths = described["paths"].as_object().expect("paths");
        assert!(paths.len() > 5, "{paths:?}");
        for path in paths.keys() {
            assert!(is_own(path), "{path}");
        }
        for other in ["/v1", "/v1/", "/v1/claims-of-others", "/v2/claims", "/"] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[tokio::test]
    async fn a_store_is_away_until_it_is_open() {
        let store = AwaitedStore::default();
        let scope = Scope::new("", "http").expect("a scope");
        let operation = Operation::new(scope, Key::from(1));
        let away = store.get_one(operation.clone()).await.expect_err("away");
        assert_eq!(away.code(), Code::StoreUnavailable);
        let clock = Arc::new(SystemClock::new());
        store.open(AnyStore::new(MemoryStore::new(clock)));
        assert!(store.get_one(operation).await.is_ok());
    }
}
