//! The relays of a configuration, one by one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use semel_backends::{outbox, store};
use semel_config::{RelaySettings, RelaySink, Settings};
use semel_core::{AnyStore, Clock, Code, Error, Result};
use semel_engine::system::SystemClock;
use semel_operate::check::{Finding, RelayReport, relay_orders_unread, relay_paused};
use semel_operate::pipelines::{OrderedPause, ordered_pauses};
use tokio::time::timeout;

use crate::means::Means;
use crate::own_thread::apart;
use crate::targets::target_server;

/// Looks at a relay of `settings`; returns also the failure of a server that was not reached.
///
/// # Cancel safety   safe
pub(crate) async fn relay(
    settings: &Settings,
    relay: &RelaySettings,
    means: &Means,
) -> (RelayReport, Option<Error>) {
    let patience = &means.patience;
    let (url, stream) = (relay.store.clone(), relay.stream.clone());
    let counting = async move { outbox::inspect(&url, &stream).await };
    let asking = patience.of_server(
        server_of(relay),
        ("the database of the outbox", Code::StoreUnavailable),
        Box::pin(apart(&relay.store, &means.unfinished, counting)),
    );
    let place = ("the place of the sink", Code::TargetUnavailable);
    let at = match &relay.sink {
        RelaySink::Broker(target) => target_server(&**target),
        RelaySink::Http(_) | RelaySink::File(_) => None,
    };
    let sink = patience.of_server(at, place, inspect(relay));
    let (seen, sink) = join(asking, sink).await;
    let mut failures = seen.as_ref().err().into_iter().chain(sink.as_ref().err());
    let away = failures.find(|it| it.advice() != semel_core::Advice::Fix);
    let away = away.cloned();
    let same = settings.relays.iter().filter(|it| it.store == relay.store);
    let relayed: Vec<&str> = same.map(|it| &*it.stream).collect();
    let sink = sink.as_ref().copied();
    // Without an outbox there is nothing to pause.
    let paused = if seen.is_ok() {
        paused(relay, settings, means).await
    } else {
        None
    };
    let report = RelayReport::of(relay, seen.as_ref(), sink, &relayed, paused);
    (report, away)
}

/// Finds that an order pauses a relay, or that none could: it would be read from nowhere.
async fn paused(relay: &RelaySettings, settings: &Settings, means: &Means) -> Option<Finding> {
    // What is wrong with the worker's own store is told of that; it may not have been made yet.
    let is_elsewhere = relay.store != settings.store;
    let clock = Arc::new(SystemClock::new());
    let now = clock.now();
    let opened = means.store.clone().filter(|_| !is_elsewhere);
    let (url, name) = (relay.store.clone(), relay.name.clone());
    let asked = async {
        if let Some(store) = &opened {
            return ordered_pause(store, &name).await.map(Some);
        }
        let name = name.clone();
        let asking = async move {
            match store::beside_outbox(&url, clock).await? {
                Some(store) => ordered_pause(&store, &name).await.map(Some),
                None => Ok(None),
            }
        };
        apart(&relay.store, &means.unfinished, asking).await
    };
    let patience = means.patience.left(PATIENCE).unwrap_or_default();
    let why = match timeout(patience, asked).await {
        Ok(Ok(Some(order))) => return order.map(|it| relay_paused(&relay.name, &it, now)),
        Ok(Ok(None)) => "no store is seen beside its outbox".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the store beside its outbox has not answered within {patience:?}"),
    };
    is_elsewhere.then(|| relay_orders_unread(&why))
}

/// Returns what tells the server of an outbox from others; none of a file, or if it is not certain.
fn server_of(relay: &RelaySettings) -> Option<String> {
    let (system, server) = relay.store.database()?;
    server.map(|(host, port)| format!("{system} {host}:{port}"))
}

/// Returns the order that pauses a relay, if there is one.
async fn ordered_pause(store: &AnyStore, relay: &str) -> Result<Option<OrderedPause>> {
    let orders = ordered_pauses(store, &[relay]).await?;
    Ok(orders.into_iter().next().flatten())
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
