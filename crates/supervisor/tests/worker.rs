//! A worker without a command line: the results of a configuration, and its notices.

use std::path::Path;
use std::sync::{Arc, Mutex};

use semel_backends::{BACKENDS, store};
use semel_config::{Overrides, PipelineSettings, Settings};
use semel_core::{Claimant, Clock};
use semel_engine::event::Unobserved;
use semel_engine::summary::Fate;
use semel_engine::surroundings::{OnProgress, Surroundings};
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_supervisor::replay::Replay;
use semel_supervisor::{Keys, Notice, Opened, Options, Reporter, Results, Supervisor, VerbTraces};
use semel_worker::run::Run;
use tempfile::TempDir;
use tokio::sync::watch;

/// Remembers notices by a word each.
#[derive(Default)]
struct Remembered(Mutex<Vec<String>>);

impl Remembered {
    fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Reporter for Remembered {
    fn report(&self, notice: &Notice<'_>) {
        let word = match *notice {
            Notice::StoreHolds {
                keys: Keys::None { is_new: true },
                ..
            } => "new".to_owned(),
            Notice::StoreHolds { keys, .. } => format!("{keys:?}"),
            Notice::Claimant(_) => "claimant".to_owned(),
            Notice::Begins { settings, .. } => format!("{} begins", settings.pipeline.name),
            Notice::Ended {
                pipeline,
                is_failed,
            } => format!("{pipeline} ends, failed: {is_failed}"),
            // A folder for tests may be open to others, and in memory.
            Notice::StoreExposed { .. }
            | Notice::StoreWarning { .. }
            | Notice::Durability { .. } => return,
            _ => "another notice".to_owned(),
        };
        self.0.lock().expect("no panic").push(word);
    }

    fn progress(&self, _: &PipelineSettings) -> OnProgress {
        Arc::new(|_, _| {})
    }
}

fn settings(folder: &Path, pipelines: &str) -> Settings {
    let text = format!(
        "[store]\nurl = \"sqlite:{}\"\n{pipelines}",
        folder.join("store.db").display()
    );
    let name = folder.join("semel.toml").display().to_string();
    let overrides = Overrides::default();
    Settings::of(&name, &text, std::iter::empty(), &overrides, BACKENDS).expect("sound settings")
}

/// A pipeline from a file into a file.
fn pipeline(folder: &Path, name: &str) -> String {
    let folder = folder.display();
    format!(
        "[pipelines.{name}]\nsource = {{ kind = \"file\", path = \"{folder}/{name}.ndjson\" }}\nkey = \"json:/id\"\n\
         effect = {{ kind = \"file\", path = \"{folder}/{name}.out\" }}\n"
    )
}

async fn opened(settings: Settings, reporter: &Arc<Remembered>, is_stopped: bool) -> Opened {
    let options = Options {
        settings,
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        observer: Arc::new(Unobserved),
        reporter: reporter.clone(),
        stop: watch::channel(is_stopped).0,
    };
    let supervisor = Supervisor::new(options).await.expect("no listener");
    supervisor.open().await.expect("a store")
}

async fn run(settings: Settings, reporter: &Arc<Remembered>) -> Results {
    let Opened::Worker(worker) = opened(settings, reporter, false).await else {
        panic!("nobody asked for a stop");
    };
    worker.run().await.expect("results")
}

#[tokio::test]
async fn a_worker_runs_its_pipelines_and_reports_each_step() {
    let folder = TempDir::new().expect("a folder");
    let lines = "{\"id\":1}\n{\"id\":2}\n{\"id\":1}\n";
    std::fs::write(folder.path().join("payments.ndjson"), lines).expect("a file");
    let pipelines = pipeline(folder.path(), "payments");
    let reporter = Arc::new(Remembered::default());
    let results = run(settings(folder.path(), &pipelines), &reporter).await;
    assert!(results.failure.is_none(), "{results:?}");
    let [(name, ended)] = &results.pipelines[..] else {
        panic!("{results:?}");
    };
    let counts = [Fate::Applied, Fate::Replayed].map(|fate| ended.summary.of(fate));
    assert_eq!((&**name, counts), ("payments", [2, 1]));
    let expected = [
        "new",
        "claimant",
        "payments begins",
        "payments ends, failed: false",
    ];
    assert_eq!(reporter.all(), expected);

    let reporter = Arc::new(Remembered::default());
    run(settings(folder.path(), &pipelines), &reporter).await;
    assert_eq!(reporter.all()[0], "Exactly(2)", "the store is there now");
}

#[tokio::test]
async fn a_pipeline_that_fails_is_the_failure_of_the_worker() {
    let folder = TempDir::new().expect("a folder");
    let reporter = Arc::new(Remembered::default());
    let pipelines = pipeline(folder.path(), "nowhere");
    let results = run(settings(folder.path(), &pipelines), &reporter).await;
    let failure = results.failure.expect("its source is not there");
    assert!(failure.to_string().contains("nowhere.ndjson"), "{failure}");
    assert!(results.pipelines.is_empty());
    let told = reporter.all();
    assert_eq!(
        told.last().map(String::as_str),
        Some("nowhere ends, failed: true")
    );
}

#[tokio::test]
async fn a_replay_runs_messages_again_under_its_id() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("a.ndjson"), "{\"id\":1}\n").expect("a file");
    let settings = settings(folder.path(), &pipeline(folder.path(), "a"));
    let (url, pipeline) = (&settings.store, &settings.pipelines[0]);
    run(settings.clone(), &Arc::new(Remembered::default())).await;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let stores = store::open(url, settings.accepted, Arc::clone(&clock)).await;
    let claimant = Claimant::random(&SystemEntropy);
    let reporter = Arc::new(Remembered::default());
    let traces = VerbTraces::begin(&settings.telemetry, url.clone(), claimant, reporter);
    let around = Run {
        surroundings: Surroundings {
            clock,
            entropy: Arc::new(SystemEntropy),
            claimant,
            observer: Arc::new(Unobserved),
        },
        stop: watch::channel(false).0,
        patience: settings.shutdown,
        recalled: None,
        on_progress: None,
        dead_letters: None,
    };
    let replay = Replay {
        settings: pipeline,
        source: &pipeline.source,
        is_input: false,
        since: None,
        id: "again-1",
        tenant: None,
        allow_expired: false,
        traces: &traces,
    };
    let ended = replay.run(stores.expect("the store"), around).await;
    let summary = ended.expect("an end").summary;
    let counts = [Fate::Applied, Fate::Replayed].map(|fate| summary.of(fate));
    assert_eq!((counts, summary.sent_again), ([0, 1], 1));
}

#[tokio::test]
async fn a_stop_before_there_is_a_store_does_nothing() {
    let folder = TempDir::new().expect("a folder");
    let reporter = Arc::new(Remembered::default());
    let pipelines = pipeline(folder.path(), "a") + &pipeline(folder.path(), "b");
    let settings = settings(folder.path(), &pipelines);
    let Opened::Stopped(results) = opened(settings, &reporter, true).await else {
        panic!("a stop was asked for");
    };
    let names: Vec<_> = results.pipelines.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(results.pipelines[0].1.summary.deliveries(), 0);
    assert!(!folder.path().join("store.db").exists());
    assert!(reporter.all().is_empty(), "{:?}", reporter.all());
}
