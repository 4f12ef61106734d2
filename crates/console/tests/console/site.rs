//! A console for tests, and requests to it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, Request};
use bytes::Bytes;
use semel_admin::{Lent, Orders, Plot, Series, SeriesQuery, Settings, Worker};
use semel_conformance::TestClock;
use semel_core::decide::{Directive, Order};
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{
    AnyStore, ClaimId, ClaimRequest, Clock, Entropy, Key, Note, Operation, Parked, Reason,
    Recovery, Scope, Start, Store, Timestamp,
};
use semel_http::tokens::{Token, TokenFile, Tokens};
use semel_http::{Access, Role, Tenant};
use semel_store_memory::MemoryStore;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

/// A console, and the store of its worker.
pub(crate) struct Site {
    pub(crate) store: AnyStore,
    pub(crate) clock: Arc<TestClock>,
    router: Router,
    _lent: watch::Sender<Option<Lent>>,
    _tokens: watch::Sender<Arc<Tokens>>,
}

/// An answer that was read whole.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

/// A worker with these pipelines.
struct Pipelines(Vec<String>);

impl Worker for Pipelines {
    fn status(&self) -> Value {
        let relays = self
            .0
            .iter()
            .map(|name| (name.clone(), json!({ "state": "running" })));
        let relays: serde_json::Map<_, _> = relays.collect();
        json!({ "state": "running", "ready": true, "version": "1.2.3", "store": self.0[0], "relays": relays })
    }

    fn pipelines(&self) -> Vec<(Box<str>, Value)> {
        let all = self.0.iter().map(|name| {
            let pipeline = json!({
                "pipeline": name, "effect": "http", "class": "keyed", "state": "store_away", "owner": name,
                "runbook": name, "reasons": [{ "reason": "store_away", "error": name }], "window": "72h",
                "window_needed": "24h", "set_aside": { "dead": 3, "in_doubt": 1_234, "quarantined": 0 },
                "so_far": { "applied": 20_000, "replayed": 7 },
            });
            (name.as_str().into(), pipeline)
        });
        all.collect()
    }

    fn series(&self, wanted: SeriesQuery<'_>) -> Series {
        let plot = |family: &str, kind, label: &str, pipeline: &String| Plot {
            family: family.into(),
            labels: vec![
                ("pipeline".into(), pipeline.as_str().into()),
                (label.into(), pipeline.as_str().into()),
            ],
            kind,
            values: vec![f32::NAN, 1.0, 2.5],
        };
        let items = self.0.iter().flat_map(|name| {
            [
                plot("semel_decisions_total", "rate", "decision", name),
                plot("semel_overhead_seconds", "p99", "x", name),
                plot("semel_records", "value", "state", name),
            ]
        });
        let is_wanted = |it: &Plot| wanted.family.is_none_or(|family| family == &*it.family);
        Series {
            step_secs: 15,
            points: 3,
            items: items.filter(is_wanted).collect(),
            ..Series::default()
        }
    }
}

struct Counting(std::sync::Mutex<u8>);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let mut count = self.0.lock().expect("no panic");
        *count += 1;
        bytes.fill(*count);
    }
}

/// A token: its name, its role and its tenant.
pub(crate) type Named<'a> = (&'a str, Role, Option<&'a str>);

impl Site {
    /// A console on a loopback address, where nobody needs a token.
    pub(crate) fn new() -> Self {
        Self::with("127.0.0.1:9464", &["pay".to_owned()], &[]).0
    }

    /// A console at this address, whose listener knows these tokens; returns their secrets, too.
    pub(crate) fn with(
        address: &str,
        pipelines: &[String],
        tokens: &[Named<'_>],
    ) -> (Self, Vec<String>) {
        let clock = Arc::new(TestClock::new());
        let memory = Arc::new(MemoryStore::new(clock.clone()));
        let store = AnyStore::new(Arc::clone(&memory));
        let (lent, opened) = watch::channel(Some(Lent {
            store: store.clone(),
            trail: Some(AnyTransferStore::new(memory)),
        }));
        let settings = Settings {
            store: opened,
            url: "memory:".to_owned(),
            accepted: Vec::new(),
            pipelines: Vec::new(),
            serves_clients: false,
            routes: Vec::new(),
            config: "{}".to_owned(),
            worker: Arc::new(Pipelines(pipelines.to_vec())),
            clock: clock.clone(),
        };
        let orders: Arc<Orders> = Arc::default();
        let api = semel_admin::router(settings, orders);
        let folder = tempfile::tempdir().expect("a folder");
        let file = TokenFile::new(folder.path().join("tokens.json"));
        let entropy = Counting(std::sync::Mutex::new(0));
        let mut secrets = Vec::new();
        for (name, role, tenant) in tokens {
            let tenant = tenant.map(Tenant::new);
            let (token, secret) = Token::new(name, *role, tenant, None, &*clock, &entropy);
            file.add(token).expect("written");
            secrets.push(secret.as_str().to_owned());
        }
        let (known, tokens) = watch::channel(Arc::new(file.read().expect("sound")));
        let address = address.parse().expect("an address");
        let access = Access::new(address, &[], tokens, 4 << 20, clock.clone());
        let router =
            semel_console::front(access.with_cookies().protect(semel_console::router(api)));
        let site = Self {
            store,
            clock,
            router,
            _lent: lent,
            _tokens: known,
        };
        (site, secrets)
    }

    /// Asks for a page as a browser on this machine.
    pub(crate) async fn get(&self, path: &str) -> Page {
        self.get_with(path, &[]).await
    }

    /// The same with more headers.
    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Page {
        self.send(Request::get(path), headers, String::new()).await
    }

    /// Sends a form as a page of the console does.
    pub(crate) async fn post(&self, path: &str, form: &[(&str, &str)]) -> Page {
        self.post_with(path, form, &[("sec-fetch-site", "same-origin")])
            .await
    }

    /// Sends a form with these headers.
    pub(crate) async fn post_with(
        &self,
        path: &str,
        form: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Page {
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        let request = Request::post(path).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request, headers, body).await
    }

    async fn send(
        &self,
        request: axum::http::request::Builder,
        headers: &[(&str, &str)],
        body: String,
    ) -> Page {
        let mut request = request;
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header(HOST, "127.0.0.1:9464");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).expect("a request");
        let Ok(answer) = self.router.clone().oneshot(request).await;
        let (head, body) = answer.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("a body");
        Page {
            status: head.status.as_u16(),
            headers: head.headers,
            text: String::from_utf8(body.to_vec()).expect("text"),
        }
    }

    /// Leaves these keys in doubt, each with its message, whose reason is this.
    pub(crate) async fn doubt(&self, scope: &Scope, keys: &[Key], reason: &str) {
        let now = u128::from(self.clock.now().as_millis());
        let requests = (0..).zip(keys).map(|(at, key)| ClaimRequest {
            start: Start::Marked(Recovery::Park),
            lease: Duration::from_secs(1),
            ..ClaimRequest::new(
                scope.clone(),
                key.clone(),
                ClaimId::from_u128(now << 32 | at),
            )
        });
        let requests: Arc<[_]> = requests.collect();
        self.store.claim(requests).await.expect("claims");
        self.clock.advance(Duration::from_secs(2));
        while self.store.sweep(10_000).await.expect("a sweep").more {}
        for key in keys {
            self.park(scope, key, Reason::InDoubt, reason).await;
        }
        self.clock.advance(Duration::from_secs(61));
    }

    /// Sets a message aside.
    pub(crate) async fn park(&self, scope: &Scope, key: &Key, reason: Reason, detail: &str) {
        let message = Parked {
            scope: scope.clone(),
            key: Some(key.clone()),
            reason: reason.code().into(),
            detail: detail.into(),
            transport: None,
            coordinates: detail.into(),
            headers: Vec::new(),
            payload: Bytes::copy_from_slice(format!("PAYLOAD{detail}").as_bytes()),
            since: Timestamp::EPOCH,
        };
        self.store.park([message].into()).await.expect("parked");
    }

    /// Holds a key, as this person and for this reason.
    pub(crate) async fn hold(&self, scope: &Scope, key: &Key, note: (&str, &str)) {
        let note = Note {
            by: note.0.into(),
            reason: note.1.into(),
        };
        let directive = Directive {
            operation: Operation::new(scope.clone(), key.clone()),
            order: Order::Hold(true),
            note: Some(note),
        };
        self.store
            .operate([directive].into())
            .await
            .expect("an order");
    }

    /// The name of the state of a key.
    pub(crate) async fn state(&self, scope: &Scope, key: &Key) -> Option<&'static str> {
        let operation = Operation::new(scope.clone(), key.clone());
        let mut found = self.store.get([operation].into()).await.expect("a record");
        found.pop().flatten().map(|it| it.state.kind().as_str())
    }
}

/// The scope of a pipeline and a tenant.
pub(crate) fn scope(tenant: &str, pipeline: &str) -> Scope {
    Scope::new(tenant, pipeline).expect("a scope")
}

/// A key that is a string.
pub(crate) fn key(text: &str) -> Key {
    Key::parse(text).expect("a key")
}

impl Page {
    /// The value of a hidden member of a form.
    pub(crate) fn hidden(&self, name: &str) -> &str {
        let start = format!("name=\"{name}\" value=\"");
        let (_, rest) = self
            .text
            .split_once(&start)
            .unwrap_or_else(|| panic!("no {name}: {}", self.text));
        rest.split('"').next().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(|it| it.to_str().expect("text"));
        value.unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn has(&self, text: &str) -> &Self {
        assert!(self.text.contains(text), "no {text:?}: {}", self.text);
        self
    }
}
