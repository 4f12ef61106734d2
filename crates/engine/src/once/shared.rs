//! State that all calls of one [`Once`](super::Once) share: the store, the tasks, and the keys that run.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use semel_core::{Key, Operation, Scope, Store};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::error::Error;
use super::settings::Settings;
use crate::event::Event;
use crate::surroundings::{Shutdown, Surroundings};
use crate::sweep::sweep_until;
use crate::trace::SampleShare;

pub(super) struct Shared<S> {
    pub(super) surroundings: Surroundings,
    /// The share of traces to record, if anybody wants spans.
    pub(super) spans: Option<SampleShare>,
    pub(super) defaults: Settings,
    sweep_every: Option<Duration>,
    store: Mutex<Option<S>>,
    tasks: Mutex<Tasks>,
    closing: watch::Sender<bool>,
    /// The lock of the caller that waits for the tasks to end; one at a time.
    closer: tokio::sync::Mutex<()>,
    /// Operations that a call of this handle runs now, each with the callers that wait for its end, in the order in
    /// which they came.
    running: Mutex<BTreeMap<(Scope, Key), Arc<Notify>>>,
}

/// Every task of the handle; all of them end with it.
struct Tasks {
    calls: JoinSet<()>,
    sweeper: JoinSet<()>,
}

impl<S: Store + Clone> Shared<S> {
    pub(super) fn new(
        store: S,
        surroundings: Surroundings,
        defaults: Settings,
        sweep_every: Option<Duration>,
    ) -> Self {
        Self {
            spans: surroundings.observer.wants_spans(),
            surroundings,
            defaults,
            sweep_every,
            store: Mutex::new(Some(store)),
            tasks: Mutex::new(Tasks {
                calls: JoinSet::new(),
                sweeper: JoinSet::new(),
            }),
            closing: watch::Sender::new(false),
            closer: tokio::sync::Mutex::new(()),
            running: Mutex::default(),
        }
    }

    /// Returns the store, unless the handle was closed.
    pub(super) fn store(&self) -> Result<S, Error> {
        locked(&self.store).clone().ok_or(Error::Closed)
    }

    /// Runs a call on a task of its own, which goes on whatever happens to its caller.
    pub(super) fn spawn(
        &self,
        store: &S,
        call: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let mut tasks = locked(&self.tasks);
        // Asked under the lock: `close` takes it after announcing the end.
        if self.is_closing() {
            return Err(Error::Closed);
        }
        while tasks.calls.try_join_next().is_some() {}
        tasks.calls.spawn(call);
        self.tend(&mut tasks, store);
        Ok(())
    }

    /// Removes records past their window for work that is not one of this handle's calls. Does nothing outside a
    /// runtime.
    pub(super) fn sweep_beside(&self, store: &S) {
        if Handle::try_current().is_ok() && !self.is_closing() {
            self.tend(&mut locked(&self.tasks), store);
        }
    }

    /// Begins to sweep, once.
    fn tend(&self, tasks: &mut Tasks, store: &S) {
        if let Some(every) = self.sweep_every
            && tasks.sweeper.is_empty()
        {
            let shutdown = Shutdown::new(self.closing.subscribe(), Duration::ZERO);
            let observer = Arc::clone(&self.surroundings.observer);
            let sweep = sweep_until(store.clone(), every, shutdown, observer);
            tasks.sweeper.spawn(sweep);
        }
    }

    /// Takes no more calls, waits for the running ones, and lets the store go.
    pub(super) async fn close(&self) {
        self.closing.send_replace(true);
        let _alone = self.closer.lock().await;
        poll_fn(|context| {
            let tasks = &mut *locked(&self.tasks);
            for set in [&mut tasks.calls, &mut tasks.sweeper] {
                while ready!(set.poll_join_next(context)).is_some() {}
            }
            Poll::Ready(())
        })
        .await;
        let store = locked(&self.store).take();
        // The last handle of a store may wait for its disk.
        let _ = tokio::task::spawn_blocking(move || drop(store)).await;
    }
}

impl<S> Shared<S> {
    pub(super) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Waits until the handle is being closed.
    pub(super) async fn closing(&self) {
        // The sender lives as long as this state, so this is never an error.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Monotonic time.
    pub(super) fn now(&self) -> Duration {
        self.surroundings.clock.monotonic()
    }

    pub(super) fn observe(&self, name: &str, event: &Event<'_>) {
        self.surroundings.observer.observe(name, event);
    }

    /// Tells whether anybody looks at what is observed.
    pub(super) fn is_observed(&self) -> bool {
        self.surroundings.observer.is_watching()
    }

    /// Marks `operation` as running here, until the returned presence is dropped.
    pub(super) fn enter(self: &Arc<Self>, operation: &Operation) -> Presence<S> {
        let place = (operation.scope.clone(), operation.key.clone());
        let former = locked(&self.running).insert(place.clone(), Arc::default());
        if let Some(former) = former {
            former.notify_waiters();
        }
        Presence {
            shared: Arc::clone(self),
            place,
        }
    }

    /// Waits until no call here runs `operation` any more; for ever if none does.
    pub(super) async fn left(&self, operation: &Operation) {
        let place = (operation.scope.clone(), operation.key.clone());
        let running = locked(&self.running)
            .get(&place)
            .map(|running| Arc::clone(running).notified_owned());
        match running {
            Some(ended) => ended.await,
            None => std::future::pending().await,
        }
    }
}

/// An operation that runs here.
pub(super) struct Presence<S> {
    shared: Arc<Shared<S>>,
    place: (Scope, Key),
}

impl<S> Drop for Presence<S> {
    fn drop(&mut self) {
        if let Some(running) = locked(&self.shared.running).remove(&self.place) {
            running.notify_waiters();
        }
    }
}

/// Locks a mutex; a panic leaves nothing in it half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
