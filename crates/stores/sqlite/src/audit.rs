//! Pages of the audit trail.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use semel_core::port::store::{ListQuery, Page};
use semel_core::{Audited, Note, Result};

use crate::error::undone;
use crate::listing::{Rows, cursor, cursor_at, scope_at, scope_filter};
use crate::{row, sql};

/// Returns a page of entries, oldest first.
pub(crate) fn list(connection: &Connection, query: &ListQuery) -> Result<Page<Audited>> {
    let Some(scope) = scope_filter(connection, query)? else {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    };
    let page = page(connection, cursor(query)?, scope, query.limit.max(1))?;
    Ok(Page {
        items: page.items,
        next: page.next.map(cursor_at),
    })
}

/// Returns the entries behind `after`, and where the next page begins.
pub(crate) fn page(
    connection: &Connection,
    after: i64,
    scope: Option<i64>,
    limit: usize,
) -> Result<Rows<Audited>> {
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut select = connection.prepare_cached(sql::AUDIT_LIST).map_err(undone)?;
    let mut rows = select
        .query(params![after, scope, one_more])
        .map_err(undone)?;
    let (mut items, mut last) = (Vec::new(), after);
    while let Some(row) = rows.next().map_err(undone)? {
        if items.len() == limit {
            let next = Some(last);
            return Ok(Rows { items, next });
        }
        last = row.get(0).map_err(undone)?;
        items.push(entry(row)?);
    }
    Ok(Rows { items, next: None })
}

fn entry(row: &Row<'_>) -> Result<Audited> {
    let text = |index| row.get::<_, Box<str>>(index).map_err(undone);
    let is_scoped = row.get_ref(5).map_err(undone)? != ValueRef::Null;
    Ok(Audited {
        at: row::timestamp(row.get(1).map_err(undone)?),
        note: Note {
            by: text(2)?,
            reason: text(3)?,
        },
        action: text(4)?,
        scope: if is_scoped {
            Some(scope_at(row, 5)?)
        } else {
            None
        },
        key: row::key(row.get_ref(7).map_err(undone)?)?,
        before: text(8)?,
        after: text(9)?,
    })
}
