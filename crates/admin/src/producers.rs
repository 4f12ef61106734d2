//! The producers of the store.

use axum::http::StatusCode;
use bytes::Bytes;
use semel_core::Code;
use semel_core::port::store::Page;
use semel_core::producer::ProducerEntry;
use semel_http::Problem;
use semel_operate::producers::{ProducerLine, Producers, Side};

use crate::page::{Cursor, List};
use crate::query::Query;
use crate::reading::Readings;
use crate::settings::Settings;

/// The members that a list of producers may have in its query.
pub(crate) const MEMBERS: &[&str] = &["limit", "cursor"];

/// Lists the producers: `semel producers list`.
pub(crate) async fn list(
    readings: &Readings,
    settings: &Settings,
    query: &Query,
) -> Result<List<ProducerLine>, Problem> {
    // They have messages of every tenant.
    query.sees_everything()?;
    let producers = of(settings)?;
    let cursor = Cursor::read("producers", query)?;
    let reading = readings.begin().await?;
    let fetch = |after: Option<Bytes>, limit| async move {
        let all = producers.list().await?;
        Ok(behind(all, after.as_ref(), limit))
    };
    let line = |(side, entry): (Side, ProducerEntry)| Some(ProducerLine::of(side, &entry));
    cursor.fill(&reading, fetch, line).await
}

/// Returns those behind one, in the order of their sides and names; whoever comes or goes meanwhile shifts nobody else.
fn behind(
    mut all: Vec<(Side, ProducerEntry)>,
    after: Option<&Bytes>,
    limit: usize,
) -> Page<(Side, ProducerEntry)> {
    let place = |(side, entry): &(Side, ProducerEntry)| {
        format!("{} {}", side.word(), entry.name.as_str()).into_bytes()
    };
    all.sort_by_cached_key(place);
    if let Some(after) = after {
        all.retain(|it| place(it)[..] > after[..]);
    }
    let is_more = all.len() > limit;
    all.truncate(limit);
    let last = all.last().filter(|_| is_more);
    let next = last.map(|it| place(it).into());
    Page { items: all, next }
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
