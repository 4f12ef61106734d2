//! The audit trail.

use semel_core::{Clock, Timestamp};
use semel_http::Problem;
use semel_operate::store::AuditLine;

use crate::page::{Cursor, List};
use crate::query::Query;
use crate::reading::Readings;

/// The members that a query may have.
pub(crate) const MEMBERS: &[&str] = &["pipeline", "tenant", "key", "since", "limit", "cursor"];

/// Lists who changed what and why, oldest first: a page of `semel store audit`.
pub(crate) async fn list(
    readings: &Readings,
    clock: &dyn Clock,
    query: &Query,
) -> Result<List<AuditLine>, Problem> {
    let within = query.within()?;
    let key = query.key("key")?;
    let age = query.duration("since")?;
    let since = age.map_or(Timestamp::EPOCH, |age| clock.now().minus(age));
    let cursor = Cursor::read("audit", query)?;
    let reading = readings.begin().await?;
    let entry = |entry: semel_core::Audited| {
        let is_wanted = entry.at >= since && (key.is_none() || entry.key == key);
        is_wanted.then(|| AuditLine::of(entry))
    };
    cursor.fill_from(&reading, &within, entry).await
}
