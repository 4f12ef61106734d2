//! The start of a run: what is away is waited for, and what cannot be made after a pause is told of and tried again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel_backends::{BACKENDS, webhook};
use semel_config::{Accepted, Backends, Overrides, Servers, Settings};
use semel_conformance::TestClock;
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::transactional::{
    AnyTransactionalStore, Application, Applied, Statements, TransactionalStore,
};
use semel_core::{AnyStore, Claimant, Clock, Error, ErrorKind, Timestamp};
use semel_engine::event::Unobserved;
use semel_engine::layer::outage::{self, Breaker};
use semel_engine::summary::Fate;
use semel_engine::surroundings::Surroundings;
use semel_engine::system::SystemEntropy;
use semel_operate::pipelines::{OrderedPause, PauseKind};
use semel_store_memory::MemoryStore;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::*;
use crate::pause::Pauses;
use crate::probes;
use crate::shared::Shared;
use crate::window_guard::Outlook;

/// The statements of a database that may refuse to prepare them.
#[derive(Default)]
struct Database {
    refusals: AtomicUsize,
    error: Mutex<Option<Error>>,
    prepared: AtomicUsize,
}

impl Database {
    /// Refuses so many times with this error.
    fn refusing(times: usize, error: Error) -> Arc<Self> {
        Arc::new(Self {
            refusals: AtomicUsize::new(times),
            error: Mutex::new(Some(error)),
            prepared: AtomicUsize::default(),
        })
    }
}

/// The same as a store.
struct Tables(Arc<Database>);

impl TransactionalStore for Tables {
    async fn prepare(&self, _: &Statements) -> Result<()> {
        let Database {
            refusals,
            error,
            prepared,
        } = &*self.0;
        prepared.fetch_add(1, Ordering::Relaxed);
        let less = |left: usize| left.checked_sub(1);
        let is_refused = refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let error = error.lock().expect("no panic").clone();
        match error.filter(|_| is_refused.is_ok()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    async fn apply(&self, _: &Statements, batch: Arc<[Application]>) -> Result<Vec<Applied>> {
        let applied = batch.iter().map(|_| Applied::Completed { takeover: false });
        Ok(applied.collect())
    }
}

/// Remembers the notices about the store and the pipeline.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Reporter for Heard {
    fn report(&self, notice: &Notice<'_>) {
        let word = match notice {
            Notice::StoreAway(_) => "store away".to_owned(),
            Notice::StoreBack { .. } => "store back".to_owned(),
            Notice::Paused { .. } => "paused".to_owned(),
            Notice::CannotGoOn { error, .. } => format!("cannot go on: {}", error.code()),
            Notice::GoesOn { .. } => "goes on".to_owned(),
            _ => return,
        };
        self.0.lock().expect("no panic").push(word);
    }

    fn progress(&self, _: &PipelineSettings) -> OnProgress {
        Arc::new(|_, _| {})
    }
}

/// A worker with one pipeline `pay`, from a file of two messages.
struct World {
    folder: TempDir,
    settings: PipelineSettings,
    shared: Shared,
    heard: Arc<Heard>,
    clock: TestClock,
    beside: JoinSet<()>,
}

impl World {
    async fn with(database: Arc<Database>, effect: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let place = folder.path().display().to_string();
        let input = format!("{place}/in.ndjson");
        std::fs::write(&input, "{\"id\":1}\n{\"id\":2}\n").expect("a file");
        let text = format!(
            "[store]\nurl = \"postgres://semel@db.example/semel\"\n[pipelines.pay]\nkey = \"json:/id\"\n\
             source = {{ kind = \"file\", path = \"{input}\" }}\n{}\n",
            effect.replace("FOLDER", &place)
        );
        let backends = Backends {
            servers: Servers {
                is_built_in: |_| true,
                check: |_| Ok(()),
            },
            ..BACKENDS
        };
        let (none, overrides) = (std::iter::empty(), Overrides::default());
        let settings = Settings::of("semel.toml", &text, none, &overrides, backends);
        let settings = settings.expect("sound settings");
        let test_clock = TestClock::new();
        let clock: Arc<dyn Clock> = Arc::new(test_clock.clone());
        let stop = watch::channel(false).0;
        let status = probes::status(&settings, Arc::clone(&clock), stop.subscribe());
        status.begin();
        let heard = Arc::new(Heard::default());
        let reporter: Arc<dyn Reporter> = heard.clone();
        let store_wait = StoreWait::new(&settings.store, status.health(), &reporter);
        let webhooks = webhook::listeners(&[], Arc::clone(&clock), stop.subscribe()).await;
        let around = Surroundings {
            clock: Arc::clone(&clock),
            entropy: Arc::new(SystemEntropy),
            claimant: Claimant::random(&SystemEntropy),
            observer: Arc::new(Unobserved),
        };
        let breaker = Breaker::new(
            outage::Settings::default(),
            Arc::clone(&clock),
            Arc::new(SystemEntropy),
        );
        let store = Arc::new(MemoryStore::new(clock));
        let shared = Shared {
            around,
            store: settings.store.clone(),
            store_wait: Arc::new(store_wait),
            stores: Stores {
                store: AnyStore::new(Arc::clone(&store)),
                checkpoints: Some(AnyCheckpointStore::new(store)),
                transactions: Some(AnyTransactionalStore::new(Tables(database))),
                transfer: None,
                lent: None,
            },
            breaker: Arc::new(breaker),
            traces: None,
            status,
            reporter,
            stop,
            is_scraped: false,
            patience: Duration::from_secs(600),
            accepted: Accepted::default(),
            webhooks: Arc::new(webhooks.expect("no listener")),
            pauses: Pauses::about(["pay".into()]),
        };
        Self {
            folder,
            settings: settings.pipelines.into_iter().next().expect("one"),
            shared,
            heard,
            clock: test_clock,
            beside: JoinSet::new(),
        }
    }

    /// Orders it to run, or to be paused.
    fn order(&self, pause: Option<PauseKind>) {
        let pause = pause.map(|kind| OrderedPause {
            kind,
            since: Timestamp::from_millis(1),
            by: "ada".into(),
            reason: "".into(),
        });
        self.shared.pauses.know(vec![pause]);
    }

    fn start(&mut self) -> JoinHandle<(Box<str>, Result<PipelineSummary>)> {
        let known = (Outlook::NoBroker, None);
        let settings = self.settings.clone();
        tokio::spawn(
            self.shared
                .pipeline(settings, known, &mut self.beside)
                .run(),
        )
    }

    /// Waits until it was told so.
    async fn hears(&self, word: &str) {
        let heard = timeout(Duration::from_secs(600), async {
            while !self.heard.all().iter().any(|it| it == word) {
                sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(heard.await.is_ok(), "{word}: {:?}", self.heard.all());
    }

    fn readiness(&self) -> Value {
        serde_json::to_value(self.shared.status.readiness()).expect("JSON")
    }
}

fn ended(joined: (Box<str>, Result<PipelineSummary>)) -> Summary {
    let (_, ended) = joined;
    ended.expect("a good end").summary
}

fn away() -> Error {
    Error::new(ErrorKind::Unavailable, "connection refused")
}

const SQL: &str = "effect = { kind = \"sql\", statement = \"insert into charges values (:id)\" }";

#[tokio::test(start_paused = true)]
async fn statements_wait_for_a_store_that_went_away_since_it_was_opened() {
    let database = Database::refusing(3, away());
    let mut world = World::with(Arc::clone(&database), SQL).await;
    world.order(None);
    let running = world.start();
    world.hears("store away").await;
    assert_eq!(world.readiness()["state"], "starting");
    let summary = ended(running.await.expect("no panic"));
    assert_eq!(summary.of(Fate::Applied), 2);
    assert_eq!(world.heard.all(), ["store away", "store back"]);
    assert_eq!(database.prepared.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn statements_that_the_database_refuses_end_a_worker_that_starts() {
    let refused = Error::new(ErrorKind::InvalidConfig, "no such table: charges");
    let mut world = World::with(Database::refusing(1, refused), SQL).await;
    world.order(None);
    let (_, ended) = world.start().await.expect("no panic");
    let error = ended.expect_err("a mistake");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(world.heard.all().is_empty(), "{:?}", world.heard.all());
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_of_a_start_well() {
    let mut world = World::with(Database::refusing(usize::MAX, away()), SQL).await;
    world.order(None);
    let running = world.start();
    world.hears("store away").await;
    world.shared.stop.send_replace(true);
    let ended = ended(running.await.expect("no panic"));
    assert_eq!(ended.deliveries(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_order_ends_the_wait_of_a_start_and_the_next_one_begins_another() {
    for kind in [PauseKind::Pause, PauseKind::Drain] {
        let database = Database::refusing(usize::MAX, away());
        let mut world = World::with(Arc::clone(&database), SQL).await;
        world.order(None);
        let running = world.start();
        world.hears("store away").await;
        world.order(Some(kind));
        world.hears("paused").await;
        assert!(!world.shared.status.health().is_store_awaited(), "{kind:?}");
        database.refusals.store(0, Ordering::Relaxed);
        world.order(None);
        let summary = ended(running.await.expect("no panic"));
        assert_eq!(summary.of(Fate::Applied), 2, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn statements_that_fit_no_more_after_a_pause_are_told_of_until_they_do() {
    let refused = Error::new(ErrorKind::InvalidConfig, "no such table: charges");
    let database = Database::refusing(0, refused);
    let mut world = World::with(Arc::clone(&database), SQL).await;
    world.order(Some(PauseKind::Pause));
    let running = world.start();
    world.hears("paused").await;
    database.refusals.store(3, Ordering::Relaxed);
    world.order(None);
    world.hears("cannot go on: invalid-config").await;
    assert_eq!(world.readiness()["pipelines"]["pay"]["state"], "starting");
    let summary = ended(running.await.expect("no panic"));
    assert_eq!(summary.of(Fate::Applied), 2);
    let heard = world.heard.all();
    assert_eq!(heard, ["paused", "cannot go on: invalid-config", "goes on"]);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_gone_after_a_pause_is_waited_for() {
    let mut world = World::with(Arc::default(), SQL).await;
    let [file, away] = ["in.ndjson", "gone"].map(|it| world.folder.path().join(it));
    world.order(Some(PauseKind::Pause));
    let running = world.start();
    world.hears("paused").await;
    std::fs::rename(&file, &away).expect("a file");
    world.order(None);
    world.hears("cannot go on: source-unavailable").await;
    assert!(!running.is_finished());
    std::fs::rename(&away, &file).expect("a file");
    world.hears("goes on").await;
    assert_eq!(ended(running.await.expect("no panic")).of(Fate::Applied), 2);
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_cannot_be_made_after_a_pause_is_a_target_that_is_away() {
    let effect = "effect = { kind = \"file\", path = \"FOLDER/charges/out\" }";
    let mut world = World::with(Arc::default(), effect).await;
    world.order(Some(PauseKind::Pause));
    let running = world.start();
    world.hears("paused").await;
    world.order(None);
    world.hears("cannot go on: target-unavailable").await;
    world.clock.advance(Duration::from_secs(31));
    let said = world.readiness();
    let pay = &said["pipelines"]["pay"];
    assert_eq!(
        (&said["state"], &pay["state"]),
        (&"target-away".into(), &"target-away".into())
    );
    assert_eq!(pay["reasons"][0]["code"], "target-unavailable", "{said}");
    std::fs::create_dir(world.folder.path().join("charges")).expect("a folder");
    world.hears("goes on").await;
    assert_eq!(ended(running.await.expect("no panic")).of(Fate::Applied), 2);
    let said = world.readiness();
    assert_eq!(said["state"], "running", "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_of_a_run_that_cannot_go_on() {
    let effect = "effect = { kind = \"file\", path = \"FOLDER/charges/out\" }";
    let mut world = World::with(Arc::default(), effect).await;
    world.order(Some(PauseKind::Pause));
    let running = world.start();
    world.hears("paused").await;
    world.order(None);
    world.hears("cannot go on: target-unavailable").await;
    world.shared.stop.send_replace(true);
    assert_eq!(ended(running.await.expect("no panic")).deliveries(), 0);
}
