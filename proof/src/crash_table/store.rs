//! The stores that the table is played over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use semel_core::decide::{Directed, Directive};
use semel_core::port::checkpoint::{AnyCheckpointStore, CheckpointStore, Together, Write};
use semel_core::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Swept};
use semel_core::port::transactional::{
    AnyTransactionalStore, Application, Applied, Statements, TransactionalStore,
};
use semel_core::{
    Admission, AnyStore, Audited, ClaimRequest, Clock, Mark, Note, Operation, Parked, ParkedId,
    Record, Renewal, Renewed, Result, Settled, Settlement, Store, Timestamp,
};
use semel_simulation::on_cue::backing::{Backing, Database};
use semel_simulation::on_cue::stage::Kind;
use semel_simulation::on_cue::time::PausedClock;
use semel_store_embedded::EmbeddedStore;
use semel_store_sqlite::SqliteStore;
use tempfile::TempDir;

/// Which store keeps the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    Memory,
    Sqlite,
    Embedded,
}

impl Shelf {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Sqlite, Self::Embedded];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Embedded => "embedded",
        }
    }

    /// Whether effects of this kind can be recorded in it.
    pub(crate) fn has(self, kind: Kind) -> bool {
        self != Self::Embedded || kind != Kind::Transaction
    }

    /// An empty store in a folder of its own, which is to be kept as long as the store.
    pub(crate) fn open(self, clock: PausedClock) -> (Backing, Option<TempDir>) {
        if self == Self::Memory {
            return (Backing::memory(clock), None);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let hand = Arc::new(Hand(AtomicU64::new(clock.now().as_millis())));
        let backing = match self {
            Self::Memory | Self::Sqlite => {
                let path = folder.path().join("semel.db");
                let store =
                    SqliteStore::open(&path, hand.clone(), semel_store_sqlite::Options::default());
                let store = Prompt::new(store.expect("a store"), clock, hand);
                Backing {
                    database: Some(ledger(&path, &store)),
                    ..store.backing()
                }
            }
            Self::Embedded => {
                let store = EmbeddedStore::open(
                    folder.path(),
                    hand.clone(),
                    semel_store_embedded::Options::default(),
                );
                Prompt::new(store.expect("a store"), clock, hand).backing()
            }
        };
        (backing, Some(folder))
    }
}

/// A table beside the records, with a row for each effect.
fn ledger(path: &std::path::Path, store: &Prompt<SqliteStore>) -> Database {
    let connect = |path: &std::path::Path| rusqlite::Connection::open(path).expect("a connection");
    connect(path)
        .execute_batch("CREATE TABLE effects (id INTEGER PRIMARY KEY)")
        .expect("a table");
    let path = path.to_owned();
    Database {
        store: AnyTransactionalStore::new(store.clone()),
        statements: Statements {
            sql: ["INSERT INTO effects DEFAULT VALUES".into()].into(),
            params: [].into(),
        },
        // A scene has one key.
        rows: Arc::new(move |_| {
            let count = "SELECT count(*) FROM effects";
            let rows = connect(&path).query_row(count, [], |row| row.get::<_, u32>(0));
            rows.expect("a count") as usize
        }),
    }
}

/// What a store reads in place of a clock; it is set before each call.
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A store with threads of its own in a world whose time only moves when nothing else does: every
/// call is waited for on the spot, so that it takes no time and nothing comes between.
struct Prompt<S> {
    inner: Arc<S>,
    clock: PausedClock,
    hand: Arc<Hand>,
}

impl<S> Clone for Prompt<S> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            clock: self.clock,
            hand: Arc::clone(&self.hand),
        }
    }
}

impl<S> Prompt<S> {
    fn new(inner: S, clock: PausedClock, hand: Arc<Hand>) -> Self {
        Self {
            inner: Arc::new(inner),
            clock,
            hand,
        }
    }

    fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        self.hand
            .0
            .store(self.clock.now().as_millis(), Ordering::Relaxed);
        // The runtime hands out turns; this thread has none to give back.
        let mut call = std::pin::pin!(tokio::task::unconstrained(call));
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match call.as_mut().poll(&mut context) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl<S: Store + CheckpointStore> Prompt<S> {
    fn backing(&self) -> Backing {
        Backing {
            store: AnyStore::new(self.clone()),
            checkpoints: AnyCheckpointStore::new(self.clone()),
            database: None,
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Prompt<S> {
    async fn claim(&self, batch: &[ClaimRequest]) -> Result<Vec<Admission>> {
        self.wait(self.inner.claim(batch))
    }

    async fn settle(&self, batch: &[Settlement]) -> Result<Vec<Settled>> {
        self.wait(self.inner.settle(batch))
    }

    async fn renew(&self, batch: &[Renewal]) -> Result<Vec<Renewed>> {
        self.wait(self.inner.renew(batch))
    }

    async fn park(&self, batch: &[Parked]) -> Result<Vec<bool>> {
        self.wait(self.inner.park(batch))
    }

    async fn drop_parked(&self, batch: &[ParkedId], note: Option<&Note>) -> Result<Vec<bool>> {
        self.wait(self.inner.drop_parked(batch, note))
    }

    async fn get(&self, batch: &[Operation]) -> Result<Vec<Option<Record>>> {
        self.wait(self.inner.get(batch))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        self.wait(self.inner.list(query))
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        self.wait(self.inner.list_parked(query))
    }

    async fn operate(&self, batch: &[Directive]) -> Result<Vec<Directed>> {
        self.wait(self.inner.operate(batch))
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        self.wait(self.inner.list_audit(query))
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.wait(self.inner.sweep(limit))
    }

    async fn stats(&self) -> Result<Stats> {
        self.wait(self.inner.stats())
    }

    async fn preflight(&self) -> Result<Capabilities> {
        self.wait(self.inner.preflight())
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: CheckpointStore> CheckpointStore for Prompt<S> {
    async fn settle_with(&self, batch: &[Settlement], mark: &Mark) -> Result<Together> {
        self.wait(self.inner.settle_with(batch, mark))
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        self.wait(self.inner.admit_with(batch, write))
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        self.wait(self.inner.mark(name))
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: TransactionalStore> TransactionalStore for Prompt<S> {
    async fn prepare(&self, statements: &Statements) -> Result<()> {
        self.wait(self.inner.prepare(statements))
    }

    async fn apply(&self, statements: &Statements, batch: &[Application]) -> Result<Vec<Applied>> {
        self.wait(self.inner.apply(statements, batch))
    }
}
