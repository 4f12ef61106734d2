//! The claim API of a worker: its listeners, the tokens of its callers, and the service once the store is open.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use semel_config::{ClaimsListener, Settings};
use semel_core::{AnyStore, Clock, Code, Result, Timestamp};
use semel_engine::layer::outage::{Breaker, Guarded};
use semel_engine::surroundings::Surroundings;
use semel_http::{Access, Limits, Problem, Sockets, needs_token};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::rustls::ServerConfig;
use tower::ServiceExt;

use crate::door::{Door, Opened};
use crate::gateway::encryption;
use crate::notice::{Notice, Protection, Reporter};
use crate::tokens::Known;
use crate::window_guard::PROMPT;

/// The claim API, which answers once its service is there, or the store has kept it waiting for a while.
pub(crate) struct Claims {
    /// The listener of its own, if it has one.
    own: Option<ClaimsListener>,
    /// The listener of the gateway, if that serves claims, too.
    gateway: Option<ClaimsListener>,
    for_gateway: Option<Router>,
    file: PathBuf,
    tokens: Known,
    service: watch::Sender<Option<Router>>,
    stop: watch::Receiver<bool>,
    serving: JoinSet<()>,
}

impl Claims {
    /// Listens at the address of its own, and prepares what the gateway serves, as the settings say.
    ///
    /// # Errors   `Unavailable`: the address cannot be listened at
    pub(crate) async fn begin(
        settings: &Settings,
        clock: &Arc<dyn Clock>,
        tokens: Option<Known>,
        stop: watch::Receiver<bool>,
        sockets: &mut Sockets,
    ) -> Result<Option<Self>> {
        let (listeners, Some(tokens)) = (settings.claims_listeners(), tokens) else {
            return Ok(None);
        };
        if listeners.is_empty() {
            return Ok(None);
        }
        let most = usize::try_from(settings.claims.max_body_bytes).unwrap_or(usize::MAX);
        let access = |address| {
            let hosts = &settings.claims.hosts;
            Access::new(address, hosts, tokens.clone(), most, Arc::clone(clock))
        };
        let (service, served) = watch::channel(None);
        let [mut own, mut gateway] = [None; 2];
        let (mut for_gateway, mut serving) = (None, JoinSet::new());
        for mut listener in listeners {
            if listener.setting == GATEWAY {
                // Until it is known which port the system chose.
                for_gateway = Some(access(listener.address).protect(awaited(served.clone())));
                gateway = Some(listener);
                continue;
            }
            let (door, opened) = Door::new("claims", listener.address, false, sockets).await?;
            listener.address = door.address();
            let limits = Limits {
                drain: settings.shutdown,
                ..Limits::API
            };
            let access = access(listener.address);
            let tls = settings.claims.tls.as_ref().map(encryption).transpose()?;
            let protected = Protected {
                limits,
                access,
                tls,
            };
            serving.spawn(serve(opened, protected, served.clone(), stop.clone()));
            own = Some(listener);
        }
        Ok(Some(Self {
            own,
            gateway,
            for_gateway,
            file: settings.tokens.file.clone(),
            tokens,
            service,
            stop,
            serving,
        }))
    }

    /// Hands over what the gateway serves below [`CLAIM_PATHS`](semel_config::CLAIM_PATHS), if it does.
    pub(crate) fn for_gateway(&mut self) -> Option<Router> {
        self.for_gateway.take()
    }

    /// Begins to serve claims from `store`. `gateway` is the address of the gateway, if there is one.
    pub(crate) fn open(
        &self,
        settings: &Settings,
        gateway: Option<SocketAddr>,
        store: AnyStore,
        breaker: &Arc<Breaker>,
        around: &Surroundings,
        reporter: &dyn Reporter,
    ) {
        let stop = self.stop.clone();
        // A client would rather be told than wait for a store that is away.
        let store = Guarded::new(store, Arc::clone(breaker), Arc::clone(&around.observer));
        let router = semel_claims::router(store, service_settings(settings, around, stop));
        self.service.send_replace(Some(router));
        let of_gateway = self.gateway.zip(gateway);
        let of_gateway = of_gateway.map(|(it, address)| ClaimsListener { address, ..it });
        for listener in self.own.into_iter().chain(of_gateway) {
            reporter.report(&Notice::ClaimsServed {
                address: listener.address,
                is_encrypted: listener.is_encrypted,
                protection: self.protection(listener.address, around.clock.now()),
            });
        }
    }

    /// Waits until a stop is asked for and every request is answered, or its time is over.
    pub(crate) async fn ended(mut self) {
        let _ = self.stop.wait_for(|is_asked| *is_asked).await;
        while self.serving.join_next().await.is_some() {}
    }

    fn protection(&self, address: SocketAddr, now: Timestamp) -> Protection<'_> {
        if !needs_token(address) {
            return Protection::Loopback;
        }
        let tokens = self.tokens.borrow();
        Protection::Tokens {
            file: &self.file,
            usable: tokens.iter().filter(|it| !it.is_expired(now)).count(),
        }
    }
}

fn service_settings(
    settings: &Settings,
    around: &Surroundings,
    stop: watch::Receiver<bool>,
) -> semel_claims::Settings {
    let claims = &settings.claims;
    semel_claims::Settings {
        lease: claims.lease,
        window: claims.window,
        max_body_bytes: usize::try_from(claims.max_body_bytes).unwrap_or(usize::MAX),
        surroundings: around.clone(),
        stop: Some(stop),
        ..semel_claims::Settings::default()
    }
}

/// The bounds of a listener, and those whom it lets in.
struct Protected {
    limits: Limits,
    access: Access,
    tls: Option<ServerConfig>,
}

/// Serves until a stop is asked for, and then what is in hand. Clients wait for a store that is opened at once; one
/// that takes longer is told to be away.
async fn serve(
    door: Opened,
    protected: Protected,
    mut service: watch::Receiver<Option<Router>>,
    mut stop: watch::Receiver<bool>,
) {
    let is_there = timeout(PROMPT, service.wait_for(Option::is_some));
    let opened = tokio::select! {
        biased;
        _ = stop.wait_for(|is_asked| *is_asked) => return,
        opened = is_there => opened.ok().and_then(|it| it.ok()?.clone()),
    };
    let Ok(listener) = door.await else { return };
    let router = opened.unwrap_or_else(|| awaited(service));
    let stopped = async move {
        let _ = stop.wait_for(|is_asked| *is_asked).await;
    };
    let Protected {
        limits,
        access,
        tls,
    } = protected;
    let router = access.protect(router);
    match tls {
        Some(tls) => {
            let tls = Arc::new(tls);
            listener
                .serve_router_encrypted(tls, limits, router, stopped)
                .await;
        }
        None => listener.serve_router(limits, router, stopped).await,
    }
}

/// A service that answers once the one that it is told of is there.
fn awaited(service: watch::Receiver<Option<Router>>) -> Router {
    Router::new().fallback(hand_on).with_state(service)
}

/// Hands a request on to the service, once it is there.
async fn hand_on(
    State(service): State<watch::Receiver<Option<Router>>>,
    request: Request,
) -> Response {
    let router = service.borrow().clone();
    if let Some(router) = router {
        let answer = router.oneshot(request).await;
        return answer.unwrap_or_else(|never| match never {});
    }
    let detail = "the store is not open yet";
    let code = Code::StoreUnavailable.as_str();
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
        .with("certainty", "not_applied")
        .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
        .into_response()
}

/// The setting of the gateway's address.
const GATEWAY: &str = "gateway.listen";

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;

    use super::*;

    #[tokio::test]
    async fn until_the_store_is_open_a_client_is_told_to_come_again() {
        let (service, served) = watch::channel(None);
        let door = awaited(served);
        let ask = async || {
            let request = Request::builder().uri("/v1/openapi.json");
            let request = request.body(Body::empty()).expect("a request");
            let Ok(answer) = door.clone().oneshot(request).await;
            answer
        };
        let answer = ask().await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.headers()[RETRY_AFTER], "1");
        service.send_replace(Some(
            Router::new().route("/v1/openapi.json", get(|| async {})),
        ));
        assert_eq!(ask().await.status(), StatusCode::OK);
    }
}
