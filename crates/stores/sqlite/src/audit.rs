//! Pages of the audit trail.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use semel_core::port::store::{ListQuery, Page};
use semel_core::{Audited, Note, Result};

use crate::error::undone;
use crate::listing::{Rows, cursor, cursor_at, has_scope, is_of_scope, most_visited, scope_at};
use crate::{row, sql};

/// Returns a page of entries, oldest first.
///
/// # Cost   a page reads on until it is full; with a filter, past a bounded number of entries at most
pub(crate) fn list(connection: &Connection, query: &ListQuery) -> Result<Page<Audited>> {
    let (after, limit) = (cursor(query)?, query.limit.max(1));
    if !has_scope(connection, query)? {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    }
    let page = page(connection, after, query, limit)?;
    Ok(Page {
        items: page.items,
        next: page.next.map(cursor_at),
    })
}

/// Returns the entries behind `after` that fit `filter`, and where the next page begins.
pub(crate) fn page(
    connection: &Connection,
    after: i64,
    filter: &ListQuery,
    limit: usize,
) -> Result<Rows<Audited>> {
    let most = most_visited(limit, filter.is_scoped());
    let mut select = connection.prepare_cached(sql::AUDIT_LIST).map_err(undone)?;
    let mut rows = select.query([after]).map_err(undone)?;
    let (mut items, mut last, mut visited) = (Vec::new(), after, 0);
    while let Some(row) = rows.next().map_err(undone)? {
        if visited == most || items.len() == limit {
            let next = Some(last);
            return Ok(Rows { items, next });
        }
        visited += 1;
        last = row.get(0).map_err(undone)?;
        if is_of_scope(row, 5, filter)? {
            items.push(entry(row)?);
        }
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
