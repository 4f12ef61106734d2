//! The worker as a whole: how it is, its pipelines, its store and its settings.

use semel_http::Problem;
use semel_operate::store::{Holdings, Statistics};
use serde_json::Value;

use crate::answer::text;
use crate::page::List;
use crate::query::Query;
use crate::reading::Readings;
use crate::series::{self, SeriesQuery};
use crate::settings::Settings;

/// Returns how the worker is: the object of `/readyz`, and its version.
pub(crate) fn status(settings: &Settings, query: &Query) -> Result<Value, Problem> {
    query.sees_everything()?;
    Ok(settings.worker.status())
}

/// Lists the pipelines of the worker, and then its relays.
pub(crate) fn pipelines(settings: &Settings, query: &Query) -> Result<List<Value>, Problem> {
    // Its counts are those of all tenants.
    query.sees_everything()?;
    let (pipelines, relays) = (settings.worker.pipelines(), settings.worker.relays());
    let all = pipelines.into_iter().chain(relays).map(|(_, it)| it);
    Ok(List::whole(all.collect()))
}

/// Returns what the store holds and promises: the object of `semel store stats`.
pub(crate) async fn store(
    readings: &Readings,
    settings: &Settings,
    query: &Query,
) -> Result<Vec<u8>, Problem> {
    query.sees_everything()?;
    let reading = readings.begin().await?;
    let (url, accepted) = (settings.url.clone(), settings.accepted.clone());
    let holdings = reading.within(Holdings::of(&reading.store, url, accepted));
    let holdings = holdings.await?;
    text(&Statistics::of(&holdings))
}

/// Returns the settings that apply: the object of `semel config show`.
pub(crate) fn config<'s>(settings: &'s Settings, query: &Query) -> Result<&'s str, Problem> {
    query.sees_everything()?;
    Ok(&settings.config)
}

/// Returns the last hour of the families that are plotted.
pub(crate) fn series(settings: &Settings, query: &Query) -> Result<Vec<u8>, Problem> {
    // They are sums over all tenants.
    query.sees_everything()?;
    let within = query.within()?;
    let wanted = SeriesQuery {
        family: query.short_text("family")?,
        pipeline: within.operation.as_deref(),
    };
    series::answer(&settings.worker.series(wanted))
}
