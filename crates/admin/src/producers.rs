//! The producers of the store.

use axum::http::StatusCode;
use bytes::Bytes;
use semel_core::port::store::Page;
use semel_core::producer::{ProducerEntry, ProducerName};
use semel_core::{Code, Error, ErrorKind, Result};
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
) -> std::result::Result<List<ProducerLine>, Problem> {
    // They have messages of every tenant.
    query.sees_everything()?;
    let producers = of(settings)?;
    let cursor = Cursor::read("producers", query)?;
    let reading = readings.begin().await?;
    let fetch = |after: Option<Bytes>, limit| async move {
        let after = after.as_ref().map(|it| place_of(it)).transpose()?;
        page(producers, after.as_ref(), limit).await
    };
    let line = |(side, entry): (Side, ProducerEntry)| Some(ProducerLine::of(side, &entry));
    cursor.fill(&reading, fetch, line).await
}

/// Reads those behind one, in the order of their sides and names; whoever comes or goes meanwhile shifts nobody else.
async fn page(
    producers: &Producers,
    after: Option<&(Side, ProducerName)>,
    limit: usize,
) -> Result<Page<(Side, ProducerEntry)>> {
    // One more says whether there is a next page.
    let most = u32::try_from(limit.saturating_add(1)).unwrap_or(u32::MAX);
    let mut items = producers.page(after, most).await?;
    let is_more = items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| is_more);
    let next = last.map(|(side, entry)| format!("{} {}", side.word(), entry.name).into());
    Ok(Page { items, next })
}

/// Reads a place in the order.
fn place_of(cursor: &[u8]) -> Result<(Side, ProducerName)> {
    let read = || {
        let (side, name) = std::str::from_utf8(cursor).ok()?.split_once(' ')?;
        Some((Side::of_word(side)?, ProducerName::of_sender(name).ok()?))
    };
    read().ok_or_else(|| Error::new(ErrorKind::InvalidInput, "no cursor of producers"))
}

/// Returns the producers of the store.
///
/// # Errors
///
/// 501: it keeps none
pub(crate) fn of(settings: &Settings) -> std::result::Result<&Producers, Problem> {
    settings.producers.as_ref().ok_or_else(|| {
        let detail = "a store of this kind keeps no producers";
        let status = StatusCode::NOT_IMPLEMENTED;
        Problem::new(status, Code::Unsupported.as_str(), detail)
    })
}
