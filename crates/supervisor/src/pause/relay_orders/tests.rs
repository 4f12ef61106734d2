use std::sync::Mutex;

use semel_config::PipelineSettings;
use semel_conformance::TestClock;
use semel_core::{AnyStore, ErrorKind, Operation, Record, Store, forward_store};
use semel_engine::surroundings::OnProgress;
use semel_store_memory::MemoryStore;

use super::*;
use crate::status::Health;

/// A store that answers look-ups unless it is to fail.
struct Failing {
    inner: MemoryStore,
    error: Arc<Mutex<Option<Error>>>,
}

impl Store for Failing {
    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let error = self.error.lock().expect("no panic").clone();
        match error {
            Some(error) => Err(error),
            None => self.inner.get(batch).await,
        }
    }

    forward_store!(self => self.inner; but get);
}

/// Remembers what was told.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Reporter for Told {
    fn report(&self, notice: &Notice<'_>) {
        let told = match notice {
            Notice::RelayOrdersUnread(error) => format!("unread {}", error.code()),
            Notice::Relay {
                event: Event::OutboxAway { error },
                ..
            } => format!("away {}", error.code()),
            Notice::Relay {
                event: Event::OutboxBack { .. },
                ..
            } => "back".to_owned(),
            _ => return,
        };
        self.0.lock().expect("no panic").push(told);
    }

    fn progress(&self, _: &PipelineSettings) -> OnProgress {
        Arc::new(|_, _| {})
    }
}

/// Orders that are asked for, of a store that does as it is told.
struct Lab {
    error: Arc<Mutex<Option<Error>>>,
    told: Arc<Told>,
    order: watch::Receiver<KnownOrder>,
    _asking: JoinSet<()>,
}

impl Lab {
    fn failing(error: Error) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(TestClock::new());
        let error = Arc::new(Mutex::new(Some(error)));
        let store = AnyStore::new(Failing {
            inner: MemoryStore::new(Arc::clone(&clock)),
            error: Arc::clone(&error),
        });
        let pauses = Pauses::about(["out".into()]);
        let order = pauses.of("out");
        let told = Arc::new(Told::default());
        let health = Arc::new(Health::new(SILENCE, Arc::clone(&clock)));
        let status = Status::new(watch::channel(false).1, health, "memory:");
        let asking = Asking {
            place: Arc::new(Place {
                url: StoreUrl::Memory,
                pauses,
                store: watch::Sender::new(OrderStore::Open(store)),
            }),
            status,
            reporter: Arc::clone(&told) as _,
            clock,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(asking.run());
        Self {
            error,
            told,
            order,
            _asking: tasks,
        }
    }

    /// Fails with another error from now on, or no more.
    fn then(&self, error: Option<Error>) {
        *self.error.lock().expect("no panic") = error;
    }

    fn known(&self) -> KnownOrder {
        self.order.borrow().clone()
    }

    fn told(&self) -> Vec<String> {
        self.told.0.lock().expect("no panic").clone()
    }
}

fn away() -> Error {
    Error::new(ErrorKind::Unavailable, "gone").with_code(Code::StoreUnavailable)
}

fn refused() -> Error {
    Error::new(ErrorKind::Internal, "permission denied for table record")
}

fn newer() -> Error {
    Error::new(ErrorKind::InvalidConfig, "format 99").with_code(Code::StoreNewer)
}

fn foreign() -> Error {
    Error::new(ErrorKind::Unavailable, "tables of another program").with_code(Code::StoreForeign)
}

#[tokio::test(start_paused = true)]
async fn a_relay_waits_for_orders_of_a_store_that_is_away_or_newer() {
    for (error, code) in [(away(), "store-unavailable"), (newer(), "store-newer")] {
        let lab = Lab::failing(error);
        sleep(MENTION).await;
        assert_eq!(lab.known(), KnownOrder::Unknown);
        let away = format!("away {code}");
        assert_eq!(lab.told(), std::slice::from_ref(&away));
        lab.then(None);
        sleep(EVERY * 2).await;
        assert_eq!(lab.known(), KnownOrder::Run);
        assert_eq!(lab.told(), [&*away, "back"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_whose_orders_nobody_may_read_runs_and_that_is_told() {
    for (error, code) in [(refused(), "internal"), (foreign(), "store-foreign")] {
        let lab = Lab::failing(error);
        sleep(EVERY).await;
        assert_eq!(lab.known(), KnownOrder::Run);
        let unread = format!("unread {code}");
        assert_eq!(lab.told(), std::slice::from_ref(&unread));
        sleep(MENTION + RELUCTANCE).await;
        assert_eq!(lab.told(), [unread.clone(), unread], "now and then");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_was_away_is_back_though_its_orders_cannot_be_read() {
    let lab = Lab::failing(away());
    sleep(EVERY * 3).await;
    lab.then(Some(refused()));
    sleep(EVERY * 2).await;
    assert_eq!(lab.known(), KnownOrder::Run);
    assert_eq!(
        lab.told(),
        ["away store-unavailable", "back", "unread internal"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_goes_away_for_long_is_told_and_leaves_the_known_orders() {
    let lab = Lab::failing(away());
    lab.then(None);
    sleep(EVERY * 2).await;
    assert_eq!(lab.known(), KnownOrder::Run);
    lab.then(Some(away()));
    sleep(SILENCE / 2).await;
    assert!(!lab.told().iter().any(|it| it.starts_with("unread")));
    sleep(SILENCE).await;
    assert_eq!(lab.known(), KnownOrder::Run);
    let told = lab.told();
    assert_eq!(
        told.last().map(|it| &**it),
        Some("unread store-unavailable")
    );
}
