//! The orders that pause pipelines, as far as the store tells of them.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::store;
use semel_config::{Settings, StoreUrl};
use semel_core::{Clock, Result};
use semel_operate::check::{Finding, Inspection, paused};
use semel_operate::pipelines::ordered_pauses;
use tokio::time::timeout;

use crate::means::Means;

/// Finds, for each pipeline in its place, that an order pauses it. A store that does not answer is another finding.
///
/// # Cancel safety   safe
pub(crate) async fn pauses(
    (settings, means): (&Settings, &Means),
    inspected: &Result<Inspection>,
    clock: &Arc<dyn Clock>,
) -> Vec<Option<Finding>> {
    let opened = means.store.as_ref();
    let nothing = || settings.pipelines.iter().map(|_| None).collect();
    let is_there = inspected.as_ref().is_ok_and(|it| it.is_there);
    // Another process has none of what is in memory.
    if settings.pipelines.is_empty()
        || !is_there
        || (opened.is_none() && settings.store == StoreUrl::Memory)
    {
        return nothing();
    }
    let names = settings.pipelines.iter().map(|it| &*it.pipeline.name);
    let names: Vec<&str> = names.collect();
    let now = clock.now();
    let asked = async {
        if let Some(store) = opened {
            return ordered_pauses(store, &names).await;
        }
        let clock = Arc::clone(clock);
        let opened = store::open_as_is(&settings.store, clock).await?;
        ordered_pauses(&opened.store, &names).await
    };
    let Some(patience) = means.patience.left(PATIENCE) else {
        return nothing();
    };
    let Ok(Ok(orders)) = timeout(patience, asked).await else {
        return nothing();
    };
    let each = names.iter().zip(orders);
    each.map(|(name, order)| order.map(|it| paused(name, &it, now)))
        .collect()
}

/// The longest wait for the store, which was looked at before.
const PATIENCE: Duration = Duration::from_secs(5);
