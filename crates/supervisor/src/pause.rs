//! Pipelines and relays that an order pauses: a watch over the orders in the store, and the runs between them.
//!
//! A pause ends the run of its pipeline or relay, source and all, and the next run begins when it is resumed. So nothing
//! is in hand meanwhile that a broker would wait for, however long it lasts.

mod kept_source;
mod relay_orders;
mod runs;
mod until_drained;

pub(crate) use kept_source::Keeper;
pub(crate) use relay_orders::RelayOrders;
pub(crate) use runs::{OrderedRun, Runs};
pub(crate) use until_drained::UntilDrained;

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{AnyStore, Error, ErrorKind, Result};
use semel_operate::pipelines::{OrderedPause, PauseKind, ordered_pauses};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::notice::{Notice, Reporter};
use crate::status::Health;

/// The order about a pipeline or a relay, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum KnownOrder {
    /// The store was not asked yet.
    #[default]
    Unknown,
    /// It is to run.
    Run,
    /// It is paused.
    Paused(OrderedPause),
}

/// The orders that one store has about the pipelines and the relays of a worker.
#[derive(Debug)]
pub(crate) struct Pauses(BTreeMap<Box<str>, watch::Sender<KnownOrder>>);

impl Pauses {
    /// The orders about what has these names, none of which is known yet.
    pub(crate) fn about(names: impl IntoIterator<Item = Box<str>>) -> Arc<Self> {
        let names = names.into_iter();
        let orders = names.map(|name| (name, watch::Sender::new(KnownOrder::Unknown)));
        Arc::new(Self(orders.collect()))
    }

    /// Returns a channel that has the order about a pipeline or a relay; one that nobody asks about is to run.
    pub(crate) fn of(&self, pipeline: &str) -> watch::Receiver<KnownOrder> {
        match self.0.get(pipeline) {
            Some(order) => order.subscribe(),
            None => watch::Sender::new(KnownOrder::Run).subscribe(),
        }
    }

    /// Waits until one of these pipelines is paused by an order that is not known yet at this call; for ever if nobody asks
    /// about any of them.
    pub(crate) fn paused_anew(&self, pipelines: &[Box<str>]) -> impl Future<Output = ()> + use<> {
        let orders = pipelines.iter().map(|it| {
            let mut order = self.of(it);
            let known = order.borrow_and_update().clone();
            (known, order)
        });
        let orders: Vec<_> = orders.collect();
        async move {
            let mut waits: JoinSet<()> = orders.into_iter().map(paused_after).collect();
            if waits.join_next().await.is_none() {
                pending::<()>().await;
            }
        }
    }

    /// Asks the store about the orders before anything begins, so that a worker is ready no sooner than its sources are
    /// open. A store that does not answer soon is asked again by [`watch`](Self::watch); pipelines wait for that.
    ///
    /// # Errors
    ///
    /// Those of a store that is there and cannot answer: it would not answer the pipelines either.
    pub(crate) async fn ask_first(&self, store: &AnyStore) -> Result<()> {
        let names: Vec<_> = self.0.keys().collect();
        if names.is_empty() {
            return Ok(());
        }
        match within(FIRST, ordered_pauses(store, &names)).await {
            Ok(orders) => self.know(orders),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Asks the store about the orders, again and again, for the first time after a pause. While it does not answer, those that were known stand, and
    /// the store counts as one that fails.
    pub(crate) async fn watch(
        self: Arc<Self>,
        store: AnyStore,
        health: Arc<Health>,
        reporter: Arc<dyn Reporter>,
    ) {
        let names: Vec<_> = self.0.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        // A store that is away is told of by others; one that answers all but this question is not.
        let mut tell_at = Instant::now() + SILENCE;
        loop {
            sleep(EVERY).await;
            match within(PATIENCE, ordered_pauses(&store, &names)).await {
                Ok(orders) => {
                    self.know(orders);
                    tell_at = Instant::now() + SILENCE;
                }
                Err(error) => {
                    health.store_failed(&error);
                    let now = Instant::now();
                    if now >= tell_at {
                        tell_at = now + MENTION;
                        reporter.report(&Notice::PausesUnread(&error));
                    }
                }
            }
        }
    }

    /// Hands the orders on to those that are about something new.
    pub(crate) fn know(&self, orders: Vec<Option<OrderedPause>>) {
        for (channel, order) in self.0.values().zip(orders) {
            let order = order.map_or(KnownOrder::Run, KnownOrder::Paused);
            channel.send_if_modified(|known| {
                let is_new = *known != order;
                *known = order;
                is_new
            });
        }
    }
}

impl KnownOrder {
    /// Tells whether the pipeline is paused in this way.
    pub(crate) fn is(&self, kind: PauseKind) -> bool {
        matches!(self, Self::Paused(pause) if pause.kind == kind)
    }
}

/// Waits for an order that pauses a pipeline after the one that is known; for ever if nobody asks any more.
async fn paused_after((mut known, mut order): (KnownOrder, watch::Receiver<KnownOrder>)) {
    while order.changed().await.is_ok() {
        let now = order.borrow_and_update().clone();
        if matches!(now, KnownOrder::Paused(_)) && now != known {
            return;
        }
        known = now;
    }
    pending::<()>().await;
}

/// Tells whether the same question may be answered later.
fn is_passing(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Throttled
    )
}

async fn within<T>(patience: Duration, asked: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(patience, asked).await.unwrap_or_else(|_| {
        let message = format!("the store has not answered within {patience:?}");
        Err(Error::new(ErrorKind::Timeout, message))
    })
}

/// The time between two questions: an order takes effect within about as long.
const EVERY: Duration = Duration::from_secs(1);
/// The longest wait for the first answer, after which the rest of a worker begins.
const FIRST: Duration = Duration::from_secs(2);
/// The time after which a question is given up, and asked again.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time without an answer after which it is reported.
const SILENCE: Duration = Duration::from_secs(10);
/// The time between two such reports.
const MENTION: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests;
