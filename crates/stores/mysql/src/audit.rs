//! The audit trail, in pages. Entries are written together with their orders.

use mysql_async::Row;
use semel_core::port::store::{ListQuery, Page};
use semel_core::{Audited, Note, Result};

use crate::answer::{key, scope, some_number, some_text, time};
use crate::listing::{bounded, cursor, sequence};
use crate::script::{Literal, Script};
use crate::session::Session;

/// Returns a page of entries, oldest first.
///
/// # Cost   with a filter, two round trips, and a bounded number of rows; no index has tenants or operations
pub(crate) async fn list(session: &Session, query: &ListQuery) -> Result<Page<Audited>> {
    let after = sequence(query.after.as_ref())?;
    let mut conditions = Literal::code(format!("seq > {after}"));
    let text = &session.texts.audit_list_end;
    // Reasons are those of parked messages.
    let query = &ListQuery {
        reasons: Vec::new(),
        ..query.clone()
    };
    let end = bounded(session, text, &mut conditions, query).await?;
    let (items, next) = page(session, &conditions, query.limit.max(1)).await?;
    Ok(Page {
        items,
        next: next.or(end).map(cursor),
    })
}

/// Returns the entries that meet `conditions`, and the number of the last one if there may be more.
pub(crate) async fn page(
    session: &Session,
    conditions: &Literal,
    limit: usize,
) -> Result<(Vec<Audited>, Option<u64>)> {
    let mut script = Script::default();
    let most = Literal::number(limit as u64);
    script.add(&session.texts.audit_list, &[conditions, &most]);
    let sets = session.ask_patiently(&script).await?;
    let rows = &sets[0].rows;
    let next = rows.last().filter(|_| rows.len() >= limit);
    let next = next.map(|row| some_number(row, 0)).transpose()?;
    Ok((rows.iter().map(entry).collect::<Result<_>>()?, next))
}

/// Reads the entry of a row.
pub(crate) fn entry(row: &Row) -> Result<Audited> {
    Ok(Audited {
        at: time(row, 1)?,
        note: Note {
            by: some_text(row, 2)?,
            reason: some_text(row, 3)?,
        },
        action: some_text(row, 4)?,
        scope: scope(row, 5)?,
        key: key(row, 7)?,
        before: some_text(row, 8)?,
        after: some_text(row, 9)?,
    })
}
