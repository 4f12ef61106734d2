//! Whole checks on a clock that a test moves.

use std::fmt;
use std::time::Duration;

use semel_backends::BACKENDS;
use semel_config::Overrides;
use semel_core::port::sink::AnySink;
use semel_core::port::store::{ListQuery, Page};
use semel_core::{AnyStore, ErrorKind, Parked, Store, forward_store};
use semel_engine::system::SystemClock;
use semel_store_memory::MemoryStore;
use semel_worker::effect::Target;
use semel_worker::effect::publish::{Destination, Facts, Inspection as Answer};
use tokio::time::{Instant, sleep};

use super::*;
use crate::Patience;

/// The settings of so many pipelines over a store in memory.
fn settings(count: usize) -> Settings {
    let pipelines = (0..count).map(|number| {
        format!(
            "[pipelines.p{number}]\nsource = {{ kind = \"file\", path = \"{}\" }}\nkey = \"json:/id\"\n\
             effect = {{ kind = \"exec\", command = [\"true\"] }}\n",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        )
    });
    let store = "store = { url = \"memory:\", allow_volatile = true }\n".to_owned();
    let text = pipelines.fold(store, |text, pipeline| text + &pipeline);
    let settings = Settings::of(
        "semel.toml",
        &text,
        std::iter::empty(),
        &Overrides::default(),
        BACKENDS,
    );
    settings.expect("sound settings")
}

/// A place on a broker, whose inspection has several steps, or none that ends.
#[derive(Debug)]
struct Place {
    server: &'static str,
    steps: Option<u32>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.server)
    }
}

impl Target for Place {
    fn sink(&self) -> Result<AnySink> {
        Err(Error::new(ErrorKind::Unsupported, "nothing is published"))
    }

    fn inspect(&self) -> Answer<'_> {
        Box::pin(async {
            let Some(steps) = self.steps else {
                return std::future::pending().await;
            };
            for _ in 0..steps {
                sleep(Duration::from_millis(500)).await;
            }
            Ok(Facts {
                duplicate_window: None,
            })
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn destination(&self) -> Destination {
        Destination {
            system: "kafka",
            name: "letters".to_owned(),
            server: Some((self.server.to_owned(), 9_092)),
        }
    }
}

/// A store whose lists of messages take their time.
struct Slow(MemoryStore);

impl Store for Slow {
    forward_store!(self => self.0; but list_parked);

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        sleep(Duration::from_secs(2)).await;
        self.0.list_parked(query).await
    }
}

/// Checks, and returns the reports and the conclusion.
async fn checked(settings: &Settings, production: bool, means: Means) -> (Vec<String>, Conclusion) {
    let check = Check {
        settings,
        all: &settings.pipelines,
        rate: None,
        sample: None,
        production,
        clock: Arc::new(SystemClock::new()),
        means,
    };
    let mut reports = Vec::new();
    let mut read = |report| {
        reports.push(format!("{report:?}"));
        Ok(ControlFlow::Continue(()))
    };
    let concluded = check.run(&mut read).await;
    (reports, concluded.expect("a conclusion"))
}

const ANSWER: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_look_that_is_slow_for_another_reason_is_not_told_as_silent() {
    let mut settings = settings(6);
    for pipeline in &mut settings.pipelines {
        // It answers in time, if somebody listens meanwhile.
        pipeline.dead_letter = Some(Arc::new(Place {
            server: "alive",
            steps: Some(8),
        }));
    }
    let clock = Arc::new(SystemClock::new());
    let begun = Instant::now();
    let means = Means {
        store: Some(AnyStore::new(Slow(MemoryStore::new(clock)))),
        patience: Patience::new(ANSWER, Duration::from_secs(60)),
        at_once: 6,
        ..Means::default()
    };
    let (reports, concluded) = checked(&settings, true, means).await;
    // Two are counted at once, so the others wait for longer than for any one answer.
    assert!(begun.elapsed() > 2 * ANSWER, "{:?}", begun.elapsed());
    assert_eq!(reports.len(), 6);
    for report in &reports {
        assert!(!report.contains("gave no answer"), "{report}");
        assert!(!report.contains("not asked"), "{report}");
    }
    assert!(concluded.failure.is_none(), "{concluded:?}");
}

#[tokio::test(start_paused = true)]
async fn a_check_of_many_pipelines_at_silent_servers_ends_in_time_and_tells_of_each() {
    let whole = Duration::from_secs(20);
    for (servers, longest) in [(1, 2 * ANSWER), (200, whole)] {
        let mut settings = settings(200);
        for (number, pipeline) in settings.pipelines.iter_mut().enumerate() {
            let server = format!("dead-{}", number % servers);
            pipeline.dead_letter = Some(Arc::new(Place {
                server: server.leak(),
                steps: None,
            }));
        }
        let begun = Instant::now();
        let means = Means {
            patience: Patience::new(ANSWER, whole),
            at_once: 8,
            ..Means::default()
        };
        let (reports, concluded) = checked(&settings, false, means).await;
        assert!(begun.elapsed() <= longest, "{:?}", begun.elapsed());
        assert_eq!(reports.len(), 200);
        for report in &reports {
            let is_told = report.contains("gave no answer") || report.contains("was not asked");
            assert!(is_told, "{report}");
        }
        assert!(concluded.failure.is_some(), "{concluded:?}");
    }
}
