//! The check of a worker by itself, for its admin API: what `semel check` looks at, with what the worker has open.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use semel_admin::{CheckQuestion, Checker, PendingCheck};
use semel_check::{Check, Means, Patience};
use semel_config::Settings;
use semel_core::{AnyStore, Clock, Code, Error, ErrorKind, Result};
use semel_operate::check::{CheckAnswer, CheckFailure, Scrape};
use semel_telemetry::Format;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::status::Status;

/// Checks the settings of a worker, as they were written.
pub(crate) struct SelfCheck {
    settings: Arc<Settings>,
    status: Arc<Status>,
    /// The address of the listener of the status, with its port.
    address: SocketAddr,
    clock: Arc<dyn Clock>,
    /// Has another owner as long as something of an earlier check goes on.
    unfinished: Arc<()>,
}

impl SelfCheck {
    pub(crate) fn new(
        settings: &Settings,
        status: &Arc<Status>,
        address: SocketAddr,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self {
            settings: Arc::new(settings.clone()),
            status: Arc::clone(status),
            address,
            clock: Arc::clone(clock),
            unfinished: Arc::default(),
        }
    }

    /// Returns what is at hand for a look at these settings.
    fn means(&self, store: Option<AnyStore>) -> Means {
        // Nobody on this machine trusts the certificate of a listener that encrypts, and the check says so.
        let is_open = self.settings.admin.tls.is_none();
        let metrics = || self.status.metrics().text(Format::Prometheus);
        Means {
            // With relays alone, the worker does not open the store of its settings.
            store: store.filter(|_| !self.settings.has_relays_alone()),
            scrape: is_open.then(|| Scrape::Answered(self.address, metrics())),
            patience: Patience::new(PATIENCE, WHOLE),
            most_producers: Some(MOST_PRODUCERS),
            at_once: AT_ONCE,
            unfinished: Arc::clone(&self.unfinished),
        }
    }
}

impl Checker for SelfCheck {
    fn check(&self, question: CheckQuestion, store: Option<AnyStore>) -> PendingCheck {
        let CheckQuestion {
            pipeline,
            rate,
            production,
        } = question;
        let (all, clock) = (Arc::clone(&self.settings), Arc::clone(&self.clock));
        let is_own = !all.store.is_server() && !all.has_relays_alone();
        if store.is_none() && is_own {
            let message = "the store is not open yet; /v1/status says what the worker waits for";
            let error = Error::new(ErrorKind::Unavailable, message).not_applied();
            return Box::pin(async move { Err(error) });
        }
        if Arc::strong_count(&self.unfinished) > 1 {
            let message = "what an earlier check began to read has not ended yet; ask again";
            let error = Error::new(ErrorKind::Throttled, message);
            return Box::pin(async move { Err(error) });
        }
        let means = self.means(store);
        let checking = async move {
            let alone = pipeline.map(|name| {
                all.of_pipeline(&name).ok_or_else(|| {
                    let message = "the worker has no such pipeline";
                    Error::new(ErrorKind::InvalidInput, message).with_code(Code::PipelineUnknown)
                })
            });
            let alone = alone.transpose()?;
            let settings: &Settings = alone.as_ref().unwrap_or(&all);
            // The room is that of the whole store, where the rate says how much there will be in it.
            let sharing = if rate.is_some() { &*all } else { settings };
            let check = Check {
                settings,
                all: &sharing.pipelines,
                rate,
                sample: None,
                production,
                clock,
                means,
            };
            let mut items = Vec::new();
            let mut read = |report| {
                items.push(report);
                Ok(ControlFlow::Continue(()))
            };
            let concluded = check.run(&mut read).await?;
            Ok(CheckAnswer {
                semel: CheckAnswer::VERSION,
                verdict: concluded.worst,
                items,
                windows: concluded.windows,
                failure: concluded.failure.as_ref().map(CheckFailure::from),
            })
        };
        Box::pin(on_own_thread(Arc::clone(&self.unfinished), checking))
    }
}

/// Checks on a thread for that, since a check looks at many files: those of the store, of sources, of certificates and
/// tokens. Where a disk does not answer, a thread of the worker would stand still otherwise, and the time of the check
/// never pass. The check ends when nobody waits for it any more. What has stopped its thread goes on, and has
/// `unfinished` until its end.
///
/// # Errors
///
/// Those of `check`; `Internal` if it panicked
///
/// # Cancel safety   safe
async fn on_own_thread<T: Send + 'static>(
    unfinished: Arc<()>,
    check: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let runtime = Handle::current();
    let (_waiting, left) = oneshot::channel::<()>();
    let checked = spawn_blocking(move || {
        let checked = runtime.block_on(async {
            tokio::select! {
                biased;
                _ = left => None,
                checked = check => Some(checked),
            }
        });
        drop(unfinished);
        checked
    });
    let ended = || Error::new(ErrorKind::Internal, "the check ended without an answer");
    let checked = checked.await.map_err(|error| ended().with_source(error))?;
    checked.ok_or_else(ended)?
}

/// The longest wait for one answer of a server.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait for all of them: less than a check may take, so that what was not looked at is told.
const WHOLE: Duration = Duration::from_secs(20);
const _: () = assert!(WHOLE.as_secs() < semel_admin::LONGEST_CHECK.as_secs());
/// The most producers of the store that are gone through.
const MOST_PRODUCERS: usize = 10_000;
/// The pipelines that are looked at at once, so that one server that is away delays its own report alone.
const AT_ONCE: usize = 8;

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::{Mutex, mpsc};
    use std::thread::{self, ThreadId};

    use semel_backends::BACKENDS;
    use semel_config::Overrides;
    use semel_core::Timestamp;
    use semel_engine::system::SystemClock;
    use semel_store_memory::MemoryStore;
    use tokio::sync::watch;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::status::Health;

    /// A clock that notes the threads on which it was looked at.
    struct Noting(SystemClock, Mutex<Vec<ThreadId>>);

    impl Clock for Noting {
        fn now(&self) -> Timestamp {
            let mut threads = self.1.lock().expect("no panic");
            threads.push(thread::current().id());
            self.0.now()
        }

        fn monotonic(&self) -> Duration {
            self.0.monotonic()
        }
    }

    #[tokio::test]
    async fn no_thread_of_the_worker_looks_at_files() {
        let text = "[pipelines.pay]\nsource = { kind = \"file\", path = \"in.ndjson\" }\nkey = \"json:/id\"\n\
                    effect = { kind = \"stdout\" }\n[store]\nurl = \"memory:\"\nallow_volatile = true\n";
        let (none, overrides) = (std::iter::empty(), Overrides::default());
        let settings = Settings::of("semel.toml", text, none, &overrides, BACKENDS);
        let settings = settings.expect("sound settings");
        let noting = Arc::new(Noting(SystemClock::new(), Mutex::default()));
        let clock: Arc<dyn Clock> = noting.clone();
        let health = Arc::new(Health::new(PATIENCE, Arc::clone(&clock)));
        let status = Status::new(watch::channel(false).1, health, "memory:");
        let address = ([127, 0, 0, 1], 9464).into();
        let checker = SelfCheck::new(&settings, &status, address, &clock);
        let store = AnyStore::new(MemoryStore::new(Arc::new(SystemClock::new())));
        noting.1.lock().expect("no panic").clear();
        let question = CheckQuestion {
            pipeline: None,
            rate: None,
            production: false,
        };
        let answer = checker.check(question, Some(store)).await;
        assert_eq!(answer.expect("an answer").items.len(), 1);
        let threads = noting.1.lock().expect("no panic").clone();
        assert!(!threads.is_empty(), "it looks at the clock beside the file");
        assert!(!threads.contains(&thread::current().id()), "{threads:?}");
        let others = Arc::strong_count(&checker.unfinished) - 1;
        assert_eq!(others, 0, "all of it has ended");
    }

    #[tokio::test]
    async fn a_check_that_is_left_ends_and_what_stops_its_thread_is_known_until_then() {
        let unfinished = Arc::new(());
        let waiting = on_own_thread(Arc::clone(&unfinished), pending::<Result<()>>());
        assert!(timeout(SOON, waiting).await.is_err());
        while Arc::strong_count(&unfinished) > 1 {
            sleep(SOON).await;
        }
        let (go_on, wait) = mpsc::sync_channel::<()>(1);
        let (begins, mut begun) = watch::channel(false);
        let stopped = on_own_thread(Arc::clone(&unfinished), async move {
            begins.send_replace(true);
            let _ = wait.recv();
            Ok(())
        });
        tokio::select! {
            done = stopped => panic!("it stands still: {done:?}"),
            is_begun = begun.wait_for(|is_begun| *is_begun) => assert!(is_begun.is_ok()),
        }
        // Nobody waits for it any more.
        sleep(SOON).await;
        assert_eq!(Arc::strong_count(&unfinished), 2);
        drop(go_on);
        while Arc::strong_count(&unfinished) > 1 {
            sleep(SOON).await;
        }
    }

    const SOON: Duration = Duration::from_millis(10);
}
