//! A service for tests, and requests to it.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, Response};
use bytes::Bytes;
use semel_admin::{Lent, Orders, Plot, Series, SeriesQuery, Settings, Worker, router};
use semel_config::{ConsoleSettings, PipelineSettings};
use semel_conformance::TestClock;
use semel_core::decide::{Directive, Order};
use semel_core::{
    AnyStore, ClaimId, ClaimRequest, Key, Note, Operation, Parked, Reason, Scope, Store, Timestamp,
};
use semel_engine::system::SystemEntropy;
use semel_http::{Caller, Role, Tenant};
use semel_store_memory::MemoryStore;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

/// A service, and the store that it is given.
pub(crate) struct Site {
    pub(crate) store: watch::Sender<Option<Lent>>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) orders: Arc<Orders>,
    router: Router,
}

/// A worker that says a word.
struct Idle;

impl Worker for Idle {
    fn status(&self) -> Value {
        json!({ "state": "starting" })
    }

    fn pipelines(&self) -> Vec<(Box<str>, Value)> {
        vec![("pay".into(), json!({ "pipeline": "pay" }))]
    }

    fn relays(&self) -> Vec<(Box<str>, Value)> {
        vec![("out".into(), json!({ "pipeline": "out", "relay": true }))]
    }

    fn series(&self, wanted: SeriesQuery<'_>) -> Series {
        let plot = Plot {
            family: wanted.family.unwrap_or("semel_in_flight").into(),
            labels: vec![("pipeline".into(), wanted.pipeline.unwrap_or("pay").into())],
            kind: "value",
            values: vec![f32::NAN, 1.5],
        };
        Series {
            step_secs: 15,
            until: Some(Timestamp::EPOCH),
            points: 2,
            left_out: 0,
            items: vec![plot],
        }
    }
}

impl Site {
    /// A service whose store is not open yet.
    pub(crate) fn new() -> Self {
        Self::with(Vec::new(), ConsoleSettings::default())
    }

    /// The same of a worker that has these pipelines, and shows these parts of messages.
    pub(crate) fn with(pipelines: Vec<PipelineSettings>, console: ConsoleSettings) -> Self {
        Self::of(|settings| (settings.pipelines, settings.console) = (pipelines, console))
    }

    /// The same with settings that are changed like this.
    pub(crate) fn of(change: impl FnOnce(&mut Settings)) -> Self {
        let (store, opened) = watch::channel(None);
        let clock = Arc::new(TestClock::new());
        let orders: Arc<Orders> = Arc::default();
        let mut settings = Settings {
            store: opened,
            url: "memory:".to_owned(),
            accepted: Vec::new(),
            pipelines: Vec::new(),
            relays: Vec::new(),
            producers: None,
            serves_clients: false,
            routes: Vec::new(),
            config: "{\"settings\":{}}".to_owned(),
            console: ConsoleSettings::default(),
            worker: Arc::new(Idle),
            checker: None,
            clock: clock.clone(),
            entropy: Arc::new(SystemEntropy),
        };
        change(&mut settings);
        let router = router(settings, Arc::clone(&orders));
        Self {
            store,
            clock,
            orders,
            router,
        }
    }

    /// A service whose store holds the key `pay-1` of two tenants, each with a message in quarantine, a dead letter and
    /// an order.
    pub(crate) async fn filled() -> Self {
        let site = Self::new();
        let memory = site.memory();
        let store = AnyStore::new(Arc::clone(&memory));
        for (at, tenant) in (0..).zip(["acme", "other"]) {
            let scope = Scope::new(tenant, "pay").expect("a scope");
            let key = Key::parse("pay-1").expect("a key");
            let id = ClaimId::from_u128(at);
            let request = ClaimRequest::new(scope.clone(), key.clone(), id);
            store.claim([request].into()).await.expect("a claim");
            let note = Note {
                by: "ada".into(),
                reason: "why".into(),
            };
            let directive = Directive {
                operation: Operation::new(scope.clone(), key.clone()),
                order: Order::Release,
                note: Some(note),
            };
            let directed = store.operate([directive].into()).await;
            assert_eq!(directed.expect("an order").len(), 1);
            for reason in [Reason::Conflict, Reason::Dead] {
                let message = Parked {
                    scope: scope.clone(),
                    key: Some(key.clone()),
                    reason: reason.code().into(),
                    detail: "declined".into(),
                    transport: None,
                    coordinates: "in:1".into(),
                    headers: Vec::new(),
                    payload: Bytes::from_static(b"secret"),
                    since: Timestamp::EPOCH,
                };
                store.park([message].into()).await.expect("parked");
            }
        }
        site.lend(store);
        site
    }

    /// A store in memory, on the clock of the service.
    pub(crate) fn memory(&self) -> Arc<MemoryStore> {
        Arc::new(MemoryStore::new(self.clock.clone()))
    }

    /// Opens a store for the service.
    pub(crate) fn lend(&self, store: AnyStore) {
        self.store.send_replace(Some(Lent {
            store,
            trail: None,
            runner: None,
        }));
    }

    /// Asks as this caller; returns the status and the body.
    pub(crate) async fn ask(&self, path: &str, caller: Option<Caller>) -> (u16, Value) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        self.send(request, caller).await
    }

    /// Sends JSON as this caller; returns the status and the body.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: &Value,
        caller: Option<Caller>,
    ) -> (u16, Value) {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body.to_string()));
        self.send(request.expect("a request"), caller).await
    }

    /// Sends a request as this caller; returns the answer, whose body was not read.
    pub(crate) async fn answer(
        &self,
        mut request: Request<Body>,
        caller: Option<Caller>,
    ) -> Response<Body> {
        request.extensions_mut().extend(extension(caller));
        let answer = self.router.clone().oneshot(request).await;
        answer.expect("the router never fails")
    }

    /// Sends a request as this caller; returns the status and the body.
    pub(crate) async fn send(
        &self,
        request: Request<Body>,
        caller: Option<Caller>,
    ) -> (u16, Value) {
        let answer = self.answer(request, caller).await;
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await;
        let body = body.expect("a body");
        assert!(
            !body.windows(6).any(|it| it == b"secret"),
            "a payload: {body:?}"
        );
        (status, serde_json::from_slice(&body).expect("JSON"))
    }

    /// Asks as a program of this machine, and expects an answer.
    pub(crate) async fn good(&self, path: &str) -> Value {
        let (status, body) = self.ask(path, Some(Caller::loopback())).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Asks as a program of this machine; returns the status and the code of the problem.
    pub(crate) async fn refused(&self, path: &str) -> (u16, String) {
        let (status, body) = self.ask(path, Some(Caller::loopback())).await;
        let code = body["code"].as_str().unwrap_or_default().to_owned();
        (status, code)
    }
}

fn extension(caller: Option<Caller>) -> axum::http::Extensions {
    let mut extensions = axum::http::Extensions::new();
    if let Some(caller) = caller {
        extensions.insert(caller);
    }
    extensions
}

/// A viewer that is confined to a tenant.
pub(crate) fn viewer_of(tenant: &str) -> Caller {
    Caller {
        name: "watcher".into(),
        role: Role::Viewer,
        tenant: Some(Tenant::new(tenant)),
    }
}
