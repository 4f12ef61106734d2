//! The audit trail, page by page.

use deadpool_postgres::tokio_postgres::Row;
use semel_core::port::store::{ListQuery, Page};
use semel_core::{Audited, Note, Result};

use crate::connection::Runs;
use crate::error::undone;
use crate::listing::{cursor, key, scope_at, scope_filter, sequence};
use crate::row::timestamp;
use crate::session::Session;

/// Returns a page of the trail, oldest first.
pub(crate) async fn list(session: &Session, query: &ListQuery) -> Result<Page<Audited>> {
    let after = sequence(query.after.as_ref())?;
    let client = session.client().await?;
    let Some(scope) = scope_filter(session, &client, query.scope.as_ref()).await? else {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    };
    let (items, next) = page(session, &client, after, scope, query.limit.max(1)).await?;
    Ok(Page {
        items,
        next: next.map(cursor),
    })
}

/// Returns the entries behind `after`, and the number of the last one if there may be more.
pub(crate) async fn page(
    session: &Session,
    client: &impl Runs<Row = Row>,
    after: i64,
    scope: Option<i32>,
    limit: usize,
) -> Result<(Vec<Audited>, Option<i64>)> {
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let text = &session.texts.audit_list;
    let rows = session.run(client, text, &[&after, &scope, &most]).await?;
    let next = rows.last().filter(|_| rows.len() >= limit);
    let next = next.map(|row| row.try_get(0)).transpose().map_err(undone)?;
    Ok((rows.iter().map(entry).collect::<Result<_>>()?, next))
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
