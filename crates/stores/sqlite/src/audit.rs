//! The audit trail: entries written in the transaction of their orders, and pages of them.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use semel_core::port::store::{ListQuery, Page};
use semel_core::{Audited, Key, Note, Result};

use crate::error::undone;
use crate::ledger::Ledger;
use crate::listing::{Rows, cursor, cursor_at, has_scope, is_of_scope, most_visited, scope_at};
use crate::{row, sql};

/// Adds the entry of an order that is carried out within this transaction. AUD-1.
pub(crate) fn add(ledger: &mut Ledger<'_>, entry: &Audited) -> Result<()> {
    put(ledger, entry, sql::AUDIT_ADD).map(drop)
}

/// Adds an entry of another store, unless an equal one is there; returns whether it is new.
pub(crate) fn import(ledger: &mut Ledger<'_>, entry: &Audited) -> Result<bool> {
    if put(ledger, entry, sql::AUDIT_FIND)? {
        return Ok(false);
    }
    add(ledger, entry)?;
    Ok(true)
}

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

/// Runs a statement with the fields of an entry; returns whether it found or changed anything.
fn put(ledger: &mut Ledger<'_>, entry: &Audited, text: &str) -> Result<bool> {
    let scope = match &entry.scope {
        Some(scope) => Some(ledger.scope(scope)?),
        None => None,
    };
    let mut statement = ledger.connection.prepare_cached(text).map_err(undone)?;
    let fields = params![
        row::millis(entry.at),
        entry.note.by,
        entry.note.reason,
        entry.action,
        scope,
        entry.key.as_ref().map(Key::as_str),
        entry.before,
        entry.after,
    ];
    if statement.column_count() > 0 {
        return statement.exists(fields).map_err(undone);
    }
    statement
        .execute(fields)
        .map(|rows| rows > 0)
        .map_err(undone)
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
