//! A console for tests, and requests to it.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, Request};
use bytes::Bytes;
use semel_admin::{
    Job, Lent, Orders, Plot, Producers, Ran, Runner, Series, SeriesQuery,
    Settings as AdminSettings, Worker,
};
use semel_config::{Backends, ConsoleSettings, Overrides, PipelineSettings, Servers, Settings};
use semel_conformance::TestClock;
use semel_core::decide::{Directive, Order};
use semel_core::port::producer::{AnyProducerJournal, ProducerJournal};
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::producer::Opening;
use semel_core::{
    AnyStore, ClaimId, ClaimRequest, Clock, Entropy, Fate, Key, Note, Operation, Parked, Reason,
    Recovery, Scope, Start, Store, Timestamp,
};
use semel_http::tokens::{Token, TokenFile, Tokens};
use semel_http::{Access, Role, Tenant};
use semel_store_memory::{MemoryProducers, MemoryStore};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

/// A console, and the store of its worker.
pub(crate) struct Site {
    pub(crate) store: AnyStore,
    pub(crate) clock: Arc<TestClock>,
    router: Router,
    trail: AnyTransferStore,
    lent: watch::Sender<Option<Lent>>,
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

/// Runs messages without an effect: each is applied but for those of the key `bad`, which die again.
struct Runs(AnyStore);

impl Runner for Runs {
    fn run(&self, _: &PipelineSettings, job: Job, _: watch::Receiver<bool>) -> Ran {
        let store = self.0.clone();
        Box::pin(async move {
            let query = ListQuery {
                limit: 1_000,
                reasons: job.kind.reasons(),
                ..ListQuery::default()
            };
            let page = store.list_parked(&query).await?;
            let on_fate = job.on_fate.expect("somebody wants to know");
            for message in page.items.iter().filter(|it| (job.wanted)(it)) {
                let is_bad = message.key.as_ref().is_some_and(|it| it.as_str() == "bad");
                if is_bad {
                    on_fate(message.id(), Fate::Dead);
                    continue;
                }
                on_fate(message.id(), Fate::Applied);
                store
                    .drop_parked([message.id()].into(), Some(&job.note))
                    .await?;
            }
            Ok(json!({ "pipeline": "pay" }))
        })
    }
}

/// The labels of a whole hour of a busy worker, by the families of the overview.
const BUSY: [(&str, &str, &[&str]); 4] = [
    (
        "semel_decisions_total",
        "decision",
        &[
            "granted", "replay", "busy", "conflict", "stale", "illegal", "parked", "too_old",
        ],
    ),
    ("semel_overhead_seconds", "", &["p50", "p99"]),
    ("semel_effect_seconds", "", &["p50", "p99"]),
    (
        "semel_set_aside",
        "why",
        &["dead", "in_doubt", "quarantined"],
    ),
];

impl Worker for Pipelines {
    fn status(&self) -> Value {
        json!({ "state": "running", "ready": true, "version": "1.2.3", "store": self.0[0] })
    }

    fn relays(&self) -> Vec<(Box<str>, Value)> {
        let all = self.0.iter().map(|name| {
            let waiting = if name.starts_with("busy") {
                100_000
            } else {
                4_321
            };
            let relay = json!({
                "pipeline": name, "relay": true, "state": "paused",
                "paused": { "order": "pause", "since": "2026-11-29T03:04:05.120Z", "by": "ann", "reason": "INC-9" },
                "backlog": { "waiting": waiting, "dead": 6, "oldest_secs": 9 },
            });
            (name.as_str().into(), relay)
        });
        all.collect()
    }

    fn pipelines(&self) -> Vec<(Box<str>, Value)> {
        let all = self.0.iter().map(|name| {
            let pipeline = json!({
                "pipeline": name, "effect": "http", "class": "keyed", "state": "store-away", "owner": name,
                "runbook": name, "reasons": [{ "reason": "store-away", "error": name }], "window": "72h",
                "window_needed": "24h", "broker": [{ "setting": name, "value": name, "meaning": name }],
                "paused": { "order": "drain", "since": "2026-11-29T03:04:05.120Z", "by": name, "reason": name },
                "set_aside": { "dead": 3, "in_doubt": 1_234, "quarantined": 0 },
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
        let busy = self.0.iter().filter(|it| it.starts_with("busy"));
        let busy = busy.flat_map(|name| BUSY.iter().map(move |it| (name, it)));
        let busy = busy.flat_map(|(name, (family, label, values))| {
            let at = |value: &&'static str| Plot {
                family: (*family).into(),
                labels: vec![
                    ("pipeline".into(), name.as_str().into()),
                    ((*label).into(), (*value).into()),
                ],
                kind: if label.is_empty() { value } else { "rate" },
                values: (0..240).map(|at: u8| 1e3 + f32::from(at) * 0.777).collect(),
            };
            values.iter().map(at).collect::<Vec<_>>()
        });
        let items = items.chain(busy);
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

    /// The same of a worker that has the pipeline `pay`, without tenants.
    pub(crate) fn configured() -> Self {
        let pipelines = Settings::of(
            "semel.toml",
            "store = { url = \"memory:\", allow_volatile = true }\n[pipelines.pay]\nsource = { kind = \"stdin\" }\nkey = \"json:/id\"\neffect = { kind = \"exec\", command = [\"true\"] }\n",
            std::iter::empty(),
            &Overrides::default(),
            Backends {
                servers: Servers {
                    is_built_in: |_| false,
                    check: |_| Ok(()),
                },
                target: |_| unreachable!("nothing is published"),
            },
        );
        let pipelines = pipelines.expect("sound settings").pipelines;
        let configured = (pipelines, &["iban"][..]);
        Self::made("127.0.0.1:9464", &["pay".to_owned()], &[], configured).0
    }

    /// A console at this address, whose listener knows these tokens; returns their secrets, too.
    pub(crate) fn with(
        address: &str,
        pipelines: &[String],
        tokens: &[Named<'_>],
    ) -> (Self, Vec<String>) {
        Self::made(address, pipelines, tokens, (Vec::new(), &["iban"]))
    }

    /// A site that hides nothing from anybody who may see messages.
    pub(crate) fn without_mask() -> Self {
        Self::made("127.0.0.1:9464", &[], &[], (Vec::new(), &[])).0
    }

    fn made(
        address: &str,
        pipelines: &[String],
        tokens: &[Named<'_>],
        (configured, mask): (Vec<PipelineSettings>, &[&str]),
    ) -> (Self, Vec<String>) {
        let clock = Arc::new(TestClock::new());
        let memory = Arc::new(MemoryStore::new(clock.clone()));
        let store = AnyStore::new(Arc::clone(&memory));
        let trail = AnyTransferStore::new(memory);
        let (lent, opened) = watch::channel(None);
        let settings = AdminSettings {
            store: opened,
            url: "memory:".to_owned(),
            accepted: Vec::new(),
            pipelines: configured,
            relays: Vec::new(),
            producers: Some(Producers {
                own: journal(),
                others: None,
            }),
            serves_clients: false,
            routes: Vec::new(),
            config: "{}".to_owned(),
            console: ConsoleSettings {
                mask: mask
                    .iter()
                    .map(|it| it.parse().expect("a member"))
                    .collect(),
                viewers_see_payloads: false,
            },
            worker: Arc::new(Pipelines(pipelines.to_vec())),
            checker: None,
            clock: clock.clone(),
            entropy: Arc::new(Counting(std::sync::Mutex::new(0))),
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
            trail,
            lent,
            _tokens: known,
        };
        site.open();
        (site, secrets)
    }

    /// Opens the store, which a new site has done.
    pub(crate) fn open(&self) {
        let lent = Lent {
            store: self.store.clone(),
            trail: Some(self.trail.clone()),
            runner: Some(Arc::new(Runs(self.store.clone()))),
        };
        self.lent.send_replace(Some(lent));
    }

    /// Closes the store: nobody is answered about it.
    pub(crate) fn close(&self) {
        self.lent.send_replace(None);
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
        self.answer(request).await
    }

    /// Sends a request as it is.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Page {
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

    /// Sets a message aside without a key, and returns the address of its page.
    pub(crate) async fn park_payload(
        &self,
        scope: &Scope,
        reason: Reason,
        payload: &str,
    ) -> String {
        let start: String = payload.chars().take(100).collect();
        let message = Parked {
            scope: scope.clone(),
            key: None,
            reason: reason.code().into(),
            detail: "a payload".into(),
            transport: None,
            coordinates: "in:1".into(),
            headers: vec![(
                start.as_str().into(),
                Bytes::copy_from_slice(start.as_bytes()),
            )],
            payload: Bytes::copy_from_slice(payload.as_bytes()),
            since: Timestamp::EPOCH,
        };
        let page = match reason {
            Reason::Dead => "dead-letters",
            _ => "quarantine",
        };
        let address = format!(
            "/{page}/message?id={}&pipeline={}",
            message.id(),
            scope.operation()
        );
        self.store.park([message].into()).await.expect("parked");
        address
    }

    /// Claims these keys, and holds each, so that there is a record and an entry of the audit trail.
    pub(crate) async fn hold_all(&self, scope: &Scope, keys: &[Key]) {
        let requests = (0..)
            .zip(keys)
            .map(|(at, key)| ClaimRequest::new(scope.clone(), key.clone(), ClaimId::from_u128(at)));
        self.store.claim(requests.collect()).await.expect("claims");
        let note = Note {
            by: "ada".into(),
            reason: "a drill".into(),
        };
        let directives = keys.iter().map(|key| Directive {
            operation: Operation::new(scope.clone(), key.clone()),
            order: Order::Hold(true),
            note: Some(note.clone()),
        });
        self.store
            .operate(directives.collect())
            .await
            .expect("orders");
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

    /// The operation id that the page of a key shows.
    #[track_caller]
    pub(crate) fn operation_id(&self) -> &str {
        let (_, rest) = self
            .text
            .split_once("Operation id</dt><dd><code>")
            .unwrap_or_else(|| panic!("{}", self.text));
        rest.split('<').next().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(|it| it.to_str().expect("text"));
        value.unwrap_or_default()
    }

    /// The address of the first link that begins so.
    #[track_caller]
    pub(crate) fn link(&self, start: &str) -> String {
        let link = self.find_link(start);
        link.unwrap_or_else(|| panic!("no {start}: {}", self.text))
    }

    pub(crate) fn find_link(&self, start: &str) -> Option<String> {
        let at = self.text.find(&format!("href=\"{start}"))?;
        let rest = &self.text[at + "href=\"".len()..];
        Some(rest.split('"').next()?.replace("&amp;", "&"))
    }

    /// Fails if the page has a text.
    #[track_caller]
    pub(crate) fn lacks(&self, text: &str) -> &Self {
        assert!(!self.text.contains(text), "{text:?}: {}", self.text);
        self
    }

    #[track_caller]
    pub(crate) fn has(&self, text: &str) -> &Self {
        assert!(self.text.contains(text), "no {text:?}: {}", self.text);
        self
    }
}

/// A journal with the producer `billing`.
fn journal() -> AnyProducerJournal {
    let journal = AnyProducerJournal::new(MemoryProducers::default());
    let opening = Opening {
        name: "billing".parse().expect("a name"),
        stream: "<i>orders".into(),
        target: "nats orders".into(),
        chance: [7; 8],
    };
    let opened = pin!(journal.open(&opening)).poll(&mut Context::from_waker(Waker::noop()));
    assert!(opened.is_ready(), "it is in memory");
    journal
}
