//! Watches what would go unnoticed otherwise: an idle store, idle targets, and messages that are set aside.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::producers;
use semel_config::{PipelineSettings, RelaySink, ServerKind, Settings, StoreUrl};
use semel_core::select::Selector;
use semel_core::{Clock, Error};
use semel_engine::layer::outage::Breaker;
use semel_engine::surroundings::Surroundings;
use semel_worker::effect::http::Probe;
use semel_worker::run::Stores;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::notice::{Notice, Reporter};
use crate::status::{Declared, Health, MOST_PRODUCERS, Status, Target, probe_store, probe_target};

/// The status of a worker that has yet to begin.
pub(crate) fn status(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    is_stopped: watch::Receiver<bool>,
) -> Arc<Status> {
    let health = Health::new(settings.admin.ready_after, clock);
    let store = settings.store.absolute().to_string();
    let status = Status::new(is_stopped, Arc::new(health), store);
    if settings.serves_claims() {
        status.expects_claims();
    }
    for pipeline in &settings.pipelines {
        let name = &pipeline.pipeline.name;
        status.expects(name, Declared::of(pipeline));
        let window = pipeline.pipeline.window.duration();
        status.windows().knows(name, window);
    }
    for relay in &settings.relays {
        status.expects_relay(&relay.name);
    }
    status
}

/// Begins to watch. The store is always asked, so that the end of its outage is reported, and programs are
/// looked for, so that a misspelt one is reported at once; all else is asked only if there is a status address
/// to report it at.
pub(crate) fn begin(
    beside: &mut JoinSet<()>,
    settings: &Settings,
    stores: &Stores,
    status: &Arc<Status>,
    breaker: &Arc<Breaker>,
    (around, reporter): (&Surroundings, &Arc<dyn Reporter>),
) {
    let every = settings.admin.ready_after / TIMES_WITHIN;
    beside.spawn(probe_store(
        stores.clone(),
        Arc::clone(breaker),
        Arc::clone(status.health()),
        Arc::clone(&around.observer),
        every,
    ));
    let is_asked = settings.admin.listen.is_some();
    for pipeline in &settings.pipelines {
        let target = Target::of(&pipeline.effect);
        if let Some(target) = target.filter(|it| is_asked || it.is_here()) {
            beside.spawn(probe_target(
                target,
                pipeline.pipeline.name.clone(),
                Arc::clone(status.health()),
                Arc::clone(&around.observer),
                every,
            ));
        }
    }
    if is_asked {
        count(beside, settings, stores, status);
        count_producers(beside, &settings.store, status, around, reporter);
        relay_sinks(beside, settings, status, every);
        beside.spawn(judge(Arc::clone(status), Arc::clone(&around.clock)));
    }
    if is_asked && settings.admin.api {
        let (status, clock) = (Arc::clone(status), Arc::clone(&around.clock));
        beside.spawn(async move { status.remember(&*clock).await });
    }
}

/// Looks for the servers that relays send requests to. All other sinks tell themselves that they are away.
fn relay_sinks(
    beside: &mut JoinSet<()>,
    settings: &Settings,
    status: &Arc<Status>,
    every: Duration,
) {
    for relay in &settings.relays {
        // The sink itself meets a fault of the settings.
        if let RelaySink::Http(http) = &relay.sink
            && let Ok(server) = Probe::new(http)
        {
            let (status, name) = (Arc::clone(status), relay.name.clone());
            beside.spawn(async move { status.relays().probe(&name, server, every).await });
        }
    }
}

/// Judges what is judged over time, for as long as the future is polled.
async fn judge(status: Arc<Status>, clock: Arc<dyn Clock>) {
    loop {
        status.metrics().look(clock.monotonic());
        sleep(JUDGED_EVERY).await;
    }
}

/// Counts the messages that are set aside, and what the store holds.
fn count(beside: &mut JoinSet<()>, settings: &Settings, stores: &Stores, status: &Arc<Status>) {
    let pipelines = settings.pipelines.iter().map(|it| &it.pipeline);
    let counted = pipelines.map(|it| (it.name.clone(), it.selection()));
    let (counted, store) = (counted.collect(), stores.store.clone());
    let with_clients = settings.serves_claims() || settings.gateway.is_some();
    let counting = Arc::clone(status);
    let sampling = (Arc::clone(status), store.clone());
    beside.spawn(async move { counting.aside().count(store, counted, with_clients).await });
    let (sampled, store) = sampling;
    // Some stores in this process do nothing else while they count, which takes the longer the more they hold.
    let parts = match settings.store {
        StoreUrl::Server(_) | StoreUrl::Embedded(_) => 20,
        StoreUrl::Memory | StoreUrl::Sqlite(_) => 100,
    };
    beside.spawn(async move { sampled.store_samples().take(store, parts).await });
}

/// Counts what waits in the store for its producers, where the store can have any.
fn count_producers(
    beside: &mut JoinSet<()>,
    store: &StoreUrl,
    status: &Arc<Status>,
    around: &Surroundings,
    reporter: &Arc<dyn Reporter>,
) {
    // Whatever is wrong with the url, the store itself meets it.
    let Ok(journal) = producers::open(store) else {
        return;
    };
    let page = match store {
        // Each page reads the names of all.
        StoreUrl::Server(url) if url.kind() == ServerKind::Redis => MOST_PRODUCERS,
        _ => PAGE,
    };
    let (status, clock) = (Arc::clone(status), Arc::clone(&around.clock));
    let reporter = Arc::clone(reporter);
    beside.spawn(async move {
        let samples = status.producers();
        let tell = |error: &Error| reporter.report(&Notice::ProducersUnread(error));
        samples.take(journal, page, &*clock, tell).await;
    });
}

/// Tells whether a producer can give the same payload another key.
pub(crate) fn has_key_apart(settings: &PipelineSettings) -> bool {
    let mut selectors = settings.pipeline.key.selectors().iter();
    selectors.any(|it| matches!(it, Selector::Header(_) | Selector::CloudEvents))
}

/// The time between two judgements.
const JUDGED_EVERY: Duration = Duration::from_secs(1);
/// The producers that a journal is asked for at once.
const PAGE: usize = 500;
/// The number of probes within the time after which silence counts.
const TIMES_WITHIN: u32 = 3;

#[cfg(test)]
mod tests {
    use semel_backends::BACKENDS;
    use semel_config::Overrides;

    use super::*;

    #[test]
    fn a_key_that_is_no_part_of_the_payload_is_apart() {
        for (key, is_apart) in [
            ("\"header:id\"", true),
            ("\"cloudevents\"", true),
            ("[\"json:/id\", \"header:part\"]", true),
            ("\"json:/id\"", false),
            ("\"hash\"", false),
        ] {
            let text = format!(
                "[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = {key}\n\
                 effect = {{ kind = \"stdout\", on_doubt = \"park\" }}\n"
            );
            let overrides = Overrides::default();
            let settings = Settings::of(
                "semel.toml",
                &text,
                std::iter::empty(),
                &overrides,
                BACKENDS,
            );
            let settings = settings.expect("sound settings");
            assert_eq!(has_key_apart(&settings.pipelines[0]), is_apart, "{key}");
        }
    }
}
