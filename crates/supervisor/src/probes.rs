//! Watches what would go unnoticed otherwise: an idle store, idle targets, and messages that are set aside.

use std::sync::Arc;

use semel_config::Settings;
use semel_core::Clock;
use semel_engine::layer::outage::Breaker;
use semel_engine::surroundings::Surroundings;
use semel_worker::run::Stores;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::status::{Declared, Health, Status, Target, probe_store, probe_target};

/// The status of a worker that has yet to begin.
pub(crate) fn status(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    is_stopped: watch::Receiver<bool>,
) -> Arc<Status> {
    let health = Health::new(settings.admin.ready_after, clock);
    let store = settings.store.absolute().to_string();
    let status = Status::new(is_stopped, Arc::new(health), store);
    for pipeline in &settings.pipelines {
        status.expects(&pipeline.pipeline.name, Declared::of(pipeline));
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
    around: &Surroundings,
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
    }
}

/// Counts the messages that are set aside.
fn count(beside: &mut JoinSet<()>, settings: &Settings, stores: &Stores, status: &Arc<Status>) {
    let pipelines = settings.pipelines.iter().map(|it| &it.pipeline);
    let counted = pipelines.map(|it| (it.name.clone(), it.scope.clone()));
    let (counted, store) = (counted.collect(), stores.store.clone());
    let counting = Arc::clone(status);
    beside.spawn(async move { counting.aside().count(store, counted).await });
}

/// The number of probes within the time after which silence counts.
const TIMES_WITHIN: u32 = 3;
