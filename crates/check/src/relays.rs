//! The relays of a configuration, one by one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use semel_backends::{outbox, store};
use semel_config::{RelaySettings, RelaySink, Settings};
use semel_core::{AnyStore, Clock, Code, Error, Result};
use semel_engine::system::SystemClock;
use semel_operate::check::{Finding, RelayReport, relay_orders_unread, relay_paused};
use semel_operate::pipelines::ordered_pauses;
use tokio::time::timeout;

use crate::means::Means;

/// Looks at a relay of `settings`; returns also the failure of a server that was not reached.
///
/// # Cancel safety   safe
pub(crate) async fn relay(
    settings: &Settings,
    relay: &RelaySettings,
    means: &Means,
) -> (RelayReport, Option<Error>) {
    let patience = means.patience;
    let asking = outbox::inspect(&relay.store, &relay.stream);
    let asking = patience.within(
        ("the database of the outbox", Code::StoreUnavailable),
        asking,
    );
    let place = ("the place of the sink", Code::TargetUnavailable);
    let (seen, sink) = join(asking, patience.within(place, inspect(relay))).await;
    let mut failures = seen.as_ref().err().into_iter().chain(sink.as_ref().err());
    let away = failures.find(|it| it.advice() != semel_core::Advice::Fix);
    let away = away.cloned();
    let same = settings.relays.iter().filter(|it| it.store == relay.store);
    let relayed: Vec<&str> = same.map(|it| &*it.stream).collect();
    let sink = sink.as_ref().copied();
    // Without an outbox there is nothing to pause.
    let paused = if seen.is_ok() {
        paused(relay, settings, means.store.as_ref()).await
    } else {
        None
    };
    let report = RelayReport::of(relay, seen.as_ref(), sink, &relayed, paused);
    (report, away)
}

/// Finds that an order pauses a relay, or that none could: it would be read from nowhere.
async fn paused(
    relay: &RelaySettings,
    settings: &Settings,
    opened: Option<&AnyStore>,
) -> Option<Finding> {
    // What is wrong with the worker's own store is told of that; it may not have been made yet.
    let is_elsewhere = relay.store != settings.store;
    let clock = Arc::new(SystemClock::new());
    let now = clock.now();
    let asked = async {
        let store = match opened {
            Some(store) if !is_elsewhere => Some(store.clone()),
            Some(_) | None => store::beside_outbox(&relay.store, clock).await?,
        };
        let Some(store) = store else {
            return Ok(None);
        };
        let orders = ordered_pauses(&store, &[&*relay.name]).await?;
        Ok::<_, Error>(Some(orders.into_iter().next().flatten()))
    };
    let why = match timeout(PATIENCE, asked).await {
        Ok(Ok(Some(order))) => return order.map(|it| relay_paused(&relay.name, &it, now)),
        Ok(Ok(None)) => "no store is seen beside its outbox".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the store beside its outbox has not answered within {PATIENCE:?}"),
    };
    is_elsewhere.then(|| relay_orders_unread(&why))
}

/// Asks whether the place of a sink is there, without publishing anything.
async fn inspect(relay: &RelaySettings) -> Result<()> {
    match &relay.sink {
        RelaySink::Broker(target) => target.inspect().await.map(drop),
        RelaySink::Http(_) | RelaySink::File(_) => Ok(()),
    }
}

/// The longest wait for an order, of a database that was looked at before.
const PATIENCE: Duration = Duration::from_secs(5);
