//! The producers of the store.

use axum::http::StatusCode;
use semel_core::Code;
use semel_http::Problem;
use semel_operate::producers::{ProducerLine, Producers};

use crate::page::List;
use crate::query::Query;
use crate::reading::Readings;
use crate::settings::Settings;

/// Lists the producers: `semel producers list`.
pub(crate) async fn list(
    readings: &Readings,
    settings: &Settings,
    query: &Query,
) -> Result<List<ProducerLine>, Problem> {
    // They have messages of every tenant.
    query.sees_everything()?;
    let producers = of(settings)?;
    let reading = readings.begin().await?;
    let entries = reading.within(producers.list()).await?;
    let lines = entries.iter();
    let lines = lines.map(|(side, entry)| ProducerLine::of(*side, entry));
    Ok(List::whole(lines.collect()))
}

/// Returns the producers of the store.
///
/// # Errors
///
/// 501: it keeps none
pub(crate) fn of(settings: &Settings) -> Result<&Producers, Problem> {
    settings.producers.as_ref().ok_or_else(|| {
        let detail = "a store of this kind keeps no producers";
        let status = StatusCode::NOT_IMPLEMENTED;
        Problem::new(status, Code::Unsupported.as_str(), detail)
    })
}
