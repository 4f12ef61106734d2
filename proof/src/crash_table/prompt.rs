//! Stores with threads and servers of their own, in a world whose time stands still during their
//! calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use semel_core::port::checkpoint::{AnyCheckpointStore, CheckpointStore, Together, Write};
use semel_core::port::transactional::{Application, Applied, Statements, TransactionalStore};
use semel_core::{
    Admission, AnyStore, ClaimRequest, Clock, Mark, Result, Settlement, Store, Timestamp,
};
use semel_simulation::on_cue::backing::Backing;
use semel_simulation::on_cue::time::PausedClock;
use tokio::runtime::Handle;

/// The time that a store reads in place of a clock; it is set before each call.
pub(super) struct Hand(AtomicU64);

impl Hand {
    pub(super) fn at(clock: PausedClock) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(clock.now().as_millis())))
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A store with threads of its own in a world whose time only moves when nothing else does: every
/// call is waited for on the spot, so that it takes no time and nothing runs in between.
pub(super) struct Prompt<S> {
    inner: Arc<S>,
    clock: PausedClock,
    hand: Arc<Hand>,
    /// The runtime of its tasks and sockets, if it has any.
    runtime: Option<&'static Handle>,
}

impl<S> Clone for Prompt<S> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            clock: self.clock,
            hand: Arc::clone(&self.hand),
            runtime: self.runtime,
        }
    }
}

impl<S> Prompt<S> {
    pub(super) fn new(inner: S, clock: PausedClock, hand: Arc<Hand>) -> Self {
        Self {
            inner: Arc::new(inner),
            clock,
            hand,
            runtime: None,
        }
    }

    /// The same with a runtime for its tasks.
    pub(super) fn with(self, runtime: &'static Handle) -> Self {
        Self {
            runtime: Some(runtime),
            ..self
        }
    }

    fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        self.hand
            .0
            .store(self.clock.now().as_millis(), Ordering::Relaxed);
        let _elsewhere = self.runtime.map(Handle::enter);
        on_the_spot(call)
    }
}

impl<S: Store> Prompt<S> {
    pub(super) fn store(&self) -> AnyStore {
        AnyStore::new(self.clone())
    }
}

impl<S: Store + CheckpointStore> Prompt<S> {
    pub(super) fn backing(&self) -> Backing {
        Backing {
            store: self.store(),
            checkpoints: AnyCheckpointStore::new(self.clone()),
            database: None,
        }
    }
}

/// Waits on this thread, whatever runtime it belongs to.
pub(super) fn on_the_spot<T>(call: impl Future<Output = T>) -> T {
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

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

macro_rules! prompt {
    ($($method:ident($($input:ident: $type:ty),*) -> $answer:ty;)+) => {
        #[deny(clippy::missing_trait_methods)]
        impl<S: Store> Store for Prompt<S> {
            $(async fn $method(&self, $($input: $type),*) -> Result<$answer> {
                self.wait(self.inner.$method($($input),*))
            })+
        }
    };
}

semel_core::store_methods!(prompt);

#[deny(clippy::missing_trait_methods)]
impl<S: CheckpointStore> CheckpointStore for Prompt<S> {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
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

    async fn apply(
        &self,
        statements: &Statements,
        batch: Arc<[Application]>,
    ) -> Result<Vec<Applied>> {
        self.wait(self.inner.apply(statements, batch))
    }
}
