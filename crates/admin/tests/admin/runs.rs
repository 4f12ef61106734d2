//! Runs: messages that were set aside, run again by the effect of their own pipeline, counted outside.

mod ends;
mod selections;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_admin::{Lent, Paused, Ran, Runner};
use semel_config::{Backends, ConsoleSettings, Overrides, PipelineSettings, Servers, Settings};
use semel_conformance::TestClock;
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{AnyStore, Claimant, Key, Parked, Reason, Scope, Store, Timestamp};
use semel_engine::event::Unobserved;
use semel_engine::surroundings::Surroundings;
use semel_engine::system::SystemEntropy;
use semel_http::Caller;
use semel_store_memory::MemoryStore;
use semel_worker::replay::{Job, replay};
use semel_worker::run::{Run, Stores};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::description::is_described;
use crate::orders::{each, operator};
use crate::site::Site;

/// A service of a worker whose pipeline `pay` appends each message to a file, and waits for another file first.
struct Running {
    site: Arc<Site>,
    store: AnyStore,
    folder: TempDir,
    /// Turned `true` when its pipeline is paused.
    pause: watch::Sender<bool>,
}

/// Runs messages as a worker does.
struct Beside {
    stores: Stores,
    clock: Arc<TestClock>,
    stop: watch::Sender<bool>,
    pause: watch::Sender<bool>,
}

impl Runner for Beside {
    fn run(&self, settings: &PipelineSettings, job: Job, recalled: watch::Receiver<bool>) -> Ran {
        let around = Run {
            surroundings: Surroundings {
                clock: self.clock.clone(),
                entropy: Arc::new(SystemEntropy),
                claimant: Claimant::random(&SystemEntropy),
                observer: Arc::new(Unobserved),
            },
            stop: self.stop.clone(),
            patience: Duration::from_secs(30),
            recalled: Some(recalled),
            on_progress: None,
            dead_letters: None,
        };
        let (pipeline, effect) = (settings.pipeline.clone(), settings.effect.clone());
        let stores = self.stores.clone();
        Box::pin(async move {
            let tally = replay(pipeline, effect, stores, around, job).await?.tally;
            Ok(json!({ "dropped": tally.dropped, "kept": tally.kept, "refused": tally.refused }))
        })
    }

    fn paused(&self, pipelines: &[Box<str>]) -> Paused {
        let is_about = pipelines.iter().any(|it| **it == *"pay");
        let mut pause = self.pause.subscribe();
        Box::pin(async move {
            let _ = pause.wait_for(|it| *it && is_about).await;
        })
    }
}

impl Running {
    /// One that begins effects at once.
    fn new() -> Self {
        let running = Self::waiting("");
        running.open();
        running
    }

    /// One whose effects wait until it is [opened](Self::open), with more settings of its pipeline.
    fn waiting(more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let site = Site::with(pipelines(folder.path(), more), ConsoleSettings::default());
        let memory = Arc::new(MemoryStore::new(site.clock.clone()));
        let store = AnyStore::new(Arc::clone(&memory));
        let runner = Beside {
            stores: Stores {
                store: store.clone(),
                checkpoints: Some(AnyCheckpointStore::new(Arc::clone(&memory))),
                transactions: None,
                transfer: None,
                lent: None,
            },
            clock: site.clock.clone(),
            stop: watch::Sender::default(),
            pause: watch::Sender::default(),
        };
        let pause = runner.pause.clone();
        site.store.send_replace(Some(Lent {
            store: store.clone(),
            trail: Some(AnyTransferStore::new(memory)),
            runner: Some(Arc::new(runner)),
        }));
        let site = Arc::new(site);
        Self {
            site,
            store,
            folder,
            pause,
        }
    }

    /// Lets effects end.
    fn open(&self) {
        std::fs::write(self.path("open"), "").expect("written");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The effects that have begun, as they were counted outside.
    fn effects(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("out")).unwrap_or_default();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    /// Sets messages of these keys aside for a reason.
    async fn set_aside(&self, reason: &Reason, keys: &[&str]) {
        for key in keys {
            self.park("", "pay", reason, key).await;
        }
    }

    async fn park(&self, tenant: &str, pipeline: &str, reason: &Reason, key: &str) {
        let message = Parked {
            scope: Scope::new(tenant, pipeline).expect("a scope"),
            key: Some(Key::parse(key).expect("a key")),
            reason: reason.code().into(),
            detail: "declined".into(),
            transport: None,
            coordinates: format!("in:{key}").into(),
            headers: Vec::new(),
            payload: Bytes::from(json!({ "id": key, "tenant": tenant }).to_string()),
            since: Timestamp::EPOCH,
        };
        self.store.park([message].into()).await.expect("parked");
    }

    /// Drops what is set aside.
    async fn drop_all(&self) {
        let query = ListQuery {
            limit: 1_000,
            ..ListQuery::default()
        };
        let page = self.store.list_parked(&query).await.expect("a page");
        let ids = page.items.iter().map(Parked::id).collect();
        self.store.drop_parked(ids, None).await.expect("dropped");
    }

    /// The keys of what is set aside.
    async fn left(&self) -> Vec<String> {
        let query = ListQuery {
            limit: 1_000,
            ..ListQuery::default()
        };
        let page = self.store.list_parked(&query).await.expect("a page");
        let keys = page.items.iter().map(|it| it.key.as_ref().map(Key::as_str));
        let mut keys: Vec<_> = keys.map(|it| it.unwrap_or("-").to_owned()).collect();
        keys.sort_unstable();
        keys
    }

    async fn plan(&self, action: &str, body: &Value, caller: &Caller) -> Value {
        let path = format!("/v1/{action}/plan");
        let (status, plan) = self.site.post(&path, body, Some(caller.clone())).await;
        assert_eq!(status, 200, "{path}: {plan}");
        plan
    }

    async fn carry_out(&self, action: &str, plan: &Value, caller: &Caller) -> (u16, Value) {
        let body = json!({ "token": plan["token"], "reason": "the bank is back" });
        let path = format!("/v1/{action}/do");
        self.site.post(&path, &body, Some(caller.clone())).await
    }

    /// Sends the order, and waits until `count` effects have begun; the request goes on.
    async fn begun(
        &self,
        action: &'static str,
        plan: &Value,
        caller: &Caller,
        count: usize,
    ) -> tokio::task::JoinHandle<(u16, Value)> {
        let body = json!({ "token": plan["token"], "reason": "the bank is back" });
        let (site, caller) = (Arc::clone(&self.site), caller.clone());
        let path = format!("/v1/{action}/do");
        let request = tokio::spawn(async move { site.post(&path, &body, Some(caller)).await });
        self.until(|| self.effects().len() >= count).await;
        request
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The only run, once it has ended.
    async fn ended(&self) -> Value {
        loop {
            let runs = self.site.good("/v1/runs").await;
            assert_eq!(runs["items"].as_array().map(Vec::len), Some(1), "{runs}");
            let run = &runs["items"][0];
            if run["state"] != "running" {
                let id = run["id"].as_str().expect("an id");
                return self.site.good(&format!("/v1/runs/{id}")).await;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The audit trail: who did what to which key, and why; entries about the store as a whole left out.
    async fn audit(&self) -> Vec<String> {
        let query = ListQuery {
            limit: 1_000,
            ..ListQuery::default()
        };
        let page = self.store.list_audit(&query).await.expect("the trail");
        let entry = |it: &semel_core::Audited| {
            let key = it.key.as_ref().map_or("-", Key::as_str);
            format!("{} {} {key}: {}", it.note.by, it.action, it.note.reason)
        };
        let items = page.items.iter().filter(|it| it.scope.is_some());
        let mut entries: Vec<_> = items.map(entry).collect();
        entries.sort_unstable();
        entries
    }
}

/// Four pipelines: one that runs commands, one without its program, one that writes a file, and one that prints.
fn pipelines(folder: &Path, more: &str) -> Vec<PipelineSettings> {
    let folder = folder.display();
    let script = format!(
        "set -e; cd {folder}; cat >> out; echo >> out; while ! test -e open; do sleep 0.01; done"
    );
    let text = format!(
        "store = {{ url = \"memory:\", allow_volatile = true }}\n\
         [pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n{more}\
         effect = {{ kind = \"exec\", command = [\"/bin/sh\", \"-c\", \"{script}\"], timeout = \"2h\" }}\n\
         [pipelines.gone]\nsource = {{ kind = \"file\", path = \"{folder}/in\" }}\nkey = \"json:/id\"\n\
         effect = {{ kind = \"exec\", command = [\"{folder}/missing\"] }}\n\
         [pipelines.files]\nsource = {{ kind = \"file\", path = \"{folder}/in\" }}\nkey = \"json:/id\"\n\
         effect = {{ kind = \"file\", path = \"{folder}/written\" }}\n\
         [pipelines.printed]\nsource = {{ kind = \"file\", path = \"{folder}/in\" }}\nkey = \"json:/id\"\n\
         effect = {{ kind = \"stdout\" }}\n"
    );
    let settings = Settings::of(
        "semel.toml",
        &text,
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
    settings.expect("sound settings").pipelines
}

const REPLAY: &str = "dead-letters/replay";
const RELEASE: &str = "quarantine/release";
const RETRY: &str = "in-doubt/retry";

#[tokio::test]
async fn a_plan_foretells_and_a_run_compares() {
    let running = Running::new();
    let ada = operator("ada");
    running.set_aside(&Reason::Dead, &["a", "b", "c"]).await;
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    assert_eq!(each(&plan, "predicted"), ["runs"; 3]);
    assert_eq!(plan["foretold"], json!({ "runs": 3 }));
    assert_eq!(
        (running.effects().len(), running.left().await.len()),
        (0, 3)
    );
    let (status, run) = running.carry_out(REPLAY, &plan, &ada).await;
    assert_eq!(status, 200, "{run}");
    assert_eq!(each(&run, "result"), ["applied"; 3]);
    for (member, value) in [
        ("state", json!("ended")),
        ("action", json!(REPLAY)),
        ("by", json!("ada")),
        ("reason", json!("the bank is back")),
        ("foretold", json!({ "runs": 3 })),
        ("came", json!({ "applied": 3 })),
        ("differ", json!(0)),
        ("done", json!(3)),
        ("complete", json!(true)),
        (
            "results",
            json!([{ "dropped": 3, "kept": 0, "refused": 0 }]),
        ),
    ] {
        assert_eq!(run[member], value, "{member}: {run}");
    }
    assert_eq!(running.ended().await, run);
    let mut change = run["changes"][0].clone();
    let change = change.as_object_mut().expect("an object");
    assert_eq!(change.remove("result"), Some("applied".into()));
    is_described(&json!(change), "Change");
    is_described(&plan, "Plan");
    is_described(&run, "Run");
    is_described(&running.site.good("/v1/runs").await["items"][0], "Run");
    assert_eq!(running.effects().len(), 3);
    assert!(running.left().await.is_empty());
    let audit = running.audit().await;
    let dropped = |key| format!("ada drop {key}: the bank is back; ran again: completed");
    assert_eq!(audit, ["a", "b", "c"].map(dropped));
}

#[tokio::test]
async fn an_order_that_is_sent_twice_is_one_run() {
    let running = Running::new();
    let ada = operator("ada");
    running.set_aside(&Reason::Dead, &["a"]).await;
    let plan = running.plan(REPLAY, &json!({ "keys": ["a"] }), &ada).await;
    let first = running.carry_out(REPLAY, &plan, &ada).await;
    let second = running.carry_out(REPLAY, &plan, &ada).await;
    assert_eq!(first, second);
    assert_eq!(running.effects().len(), 1);
    running.ended().await;
}

#[tokio::test]
async fn a_caller_that_hangs_up_neither_loses_nor_doubles_anything() {
    let running = Running::waiting("");
    let ada = operator("ada");
    running.set_aside(&Reason::Dead, &["a", "b", "c"]).await;
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    let request = running.begun(REPLAY, &plan, &ada, 1).await;
    request.abort();
    assert!(request.await.expect_err("it hung up").is_cancelled());
    running.open();
    let run = running.ended().await;
    assert_eq!((&run["done"], &run["complete"]), (&3.into(), &true.into()));
    // It asks again, and is told of the same run.
    let (status, again) = running.carry_out(REPLAY, &plan, &ada).await;
    assert_eq!((status, &again), (200, &run));
    assert_eq!(running.effects().len(), 3);
    assert!(running.left().await.is_empty());
}

#[tokio::test]
async fn a_second_operator_is_told_of_the_first_ones_run() {
    let running = Running::waiting("");
    let (ada, bob) = (operator("ada"), operator("bob"));
    running.set_aside(&Reason::Dead, &["a", "b"]).await;
    running.set_aside(&Reason::Conflict, &["q"]).await;
    let order = json!({ "all": true });
    let of_ada = running.plan(REPLAY, &order, &ada).await;
    let of_bob = running.plan(REPLAY, &order, &bob).await;
    let other = running.plan(RELEASE, &order, &bob).await;
    let request = running.begun(REPLAY, &of_ada, &ada, 1).await;
    for (action, plan) in [(REPLAY, &of_bob), (RELEASE, &other)] {
        let (status, refused) = running.carry_out(action, plan, &bob).await;
        let code = refused["code"].as_str();
        assert_eq!((status, code), (409, Some("run-unfinished")), "{refused}");
        assert_eq!(refused["certainty"], "not_applied");
        let runs = running.site.good("/v1/runs").await;
        assert_eq!(refused["run"], runs["items"][0]["id"], "{runs}");
        assert_eq!(runs["items"][0]["by"], "ada");
    }
    running.open();
    let (status, _) = request.await.expect("no panic");
    assert_eq!(status, 200);
    let (status, stale) = running.carry_out(REPLAY, &of_bob, &bob).await;
    assert_eq!((status, &stale["code"]), (409, &"plan-stale".into()));
    assert_eq!(stale["changes"], json!([]));
    assert_eq!(running.effects().len(), 2);
}
