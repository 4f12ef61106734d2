//! Messages that were set aside: dead letters and quarantine. Never with their payloads.

use std::sync::Arc;

use semel_core::Clock;
use semel_http::Problem;
use semel_operate::parked::{Filter, Found, Names, Search};
use semel_worker::replay::Kind;

use crate::page::{Cursor, List};
use crate::query::Query;
use crate::reading::Readings;

/// The members that a query may have.
pub(crate) const MEMBERS: &[&str] = &[
    "pipeline",
    "tenant",
    "key",
    "older_than",
    "reason_like",
    "limit",
    "cursor",
];

/// Lists messages of a kind: a page of `semel dead-letters list` or `semel quarantine list`.
pub(crate) async fn list<E: From<Found>>(
    readings: &Readings,
    clock: &dyn Clock,
    query: &Query,
    kind: Kind,
) -> Result<List<E>, Problem> {
    let (older_than, like) = (
        query.duration("older_than")?,
        query.short_text("reason_like")?,
    );
    let key = query.key("key")?;
    let search = Search {
        kind,
        within: query.within()?,
        names: Arc::new(key.map_or_else(Names::default, |key| Names::keys(vec![key]))),
        filter: Filter::new(older_than, like, clock.now()),
    };
    let name = match kind {
        Kind::DeadLetters => "dead-letters",
        Kind::InDoubt => "in-doubt",
        Kind::Quarantined => "quarantine",
    };
    let cursor = Cursor::read(name, query)?;
    let reading = readings.begin().await?;
    let fetch = |after, limit| {
        let (store, search) = (reading.store.clone(), search.clone());
        async move { search.page(&store, after, limit).await }
    };
    cursor
        .fill(&reading, fetch, |found| Some(E::from(found)))
        .await
}
