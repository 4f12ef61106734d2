//! The audit trail, page by page.

use deadpool_postgres::tokio_postgres::Row;
use semel_core::port::store::{ListQuery, Page};
use semel_core::{Audited, Note, Result};

use crate::connection::Runs;
use crate::error::undone;
use crate::listing::{bounds, cursor, has_scope, key, last_of_page, scope_at, sequence};
use crate::row::timestamp;
use crate::session::Session;

/// Returns a page of the trail, oldest first.
///
/// # Cost   with a filter, a page looks at a bounded number of rows: no index has scopes
pub(crate) async fn list(session: &Session, query: &ListQuery) -> Result<Page<Audited>> {
    let after = sequence(query.after.as_ref())?;
    let client = session.client().await?;
    if !has_scope(session, &client, query).await? {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    }
    let (items, next) = page(session, &client, after, query, query.limit.max(1)).await?;
    Ok(Page {
        items,
        next: next.map(cursor),
    })
}

/// Returns the entries behind `after` that fit `filter`, and the number of the last one if there may be more.
pub(crate) async fn page(
    session: &Session,
    client: &impl Runs<Row = Row>,
    after: i64,
    filter: &ListQuery,
    limit: usize,
) -> Result<(Vec<Audited>, Option<i64>)> {
    let [most, looked_at] = bounds(limit, filter.is_scoped());
    let (tenant, operation) = (filter.tenant.as_deref(), filter.operation.as_deref());
    let text = &session.texts.audit_list;
    let rows = session
        .run(
            client,
            text,
            &[&after, &tenant, &operation, &most, &looked_at],
        )
        .await?;
    let next = last_of_page(&rows, 10, limit, looked_at)?;
    let next = next.map(|row| row.try_get(0)).transpose().map_err(undone)?;
    let mut entries = rows.iter().map(entry).collect::<Result<Vec<_>>>()?;
    entries.retain(|entry| filter.fits_entry(entry));
    Ok((entries, next))
}

fn entry(row: &Row) -> Result<Audited> {
    let text = |column: usize| -> Result<Box<str>> {
        let text: &str = row.try_get(column).map_err(undone)?;
        Ok(text.into())
    };
    let tenant: Option<&str> = row.try_get(5).map_err(undone)?;
    Ok(Audited {
        at: timestamp(row.try_get(1).map_err(undone)?),
        note: Note {
            by: text(2)?,
            reason: text(3)?,
        },
        action: text(4)?,
        scope: tenant.map(|_| scope_at(row, 5)).transpose()?,
        key: key(row, 7)?,
        before: text(8)?,
        after: text(9)?,
    })
}
