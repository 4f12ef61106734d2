//! Reading without deciding: single records, lists, counts, marks.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};
use semel_core::parked::headers_from_bytes;
use semel_core::port::store::{ListQuery, Listed, Page, Stats};
use semel_core::{
    Error, ErrorKind, OpId, Operation, Parked, ParkedId, Record, Result, Scope, StateKind,
    Timestamp,
};

use crate::error::{corrupt, undone};
use crate::lookup::{find_scope, load};
use crate::row;
use crate::sql;

/// Returns records with their outcomes, except those that count as absent.
pub(crate) fn records(
    connection: &Connection,
    ids: &[OpId],
    now: Timestamp,
) -> Result<Vec<Option<Record>>> {
    let mut get = connection.prepare_cached(sql::RECORD_GET).map_err(undone)?;
    ids.iter()
        .map(|id| {
            let Some((_, record)) = load(&mut get, *id, true)? else {
                return Ok(None);
            };
            Ok(Some(record?).filter(|record| !record.is_forgotten(now)))
        })
        .collect()
}

/// Returns a page of records in the order of their creation.
pub(crate) fn list(
    connection: &Connection,
    query: &ListQuery,
    now: Timestamp,
) -> Result<Page<Listed>> {
    let Some(scope) = scope_filter(connection, query)? else {
        return Ok(EMPTY);
    };
    let after = cursor(query)?;
    let limit = query.limit.max(1);
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let text = match query.state {
        None => sql::RECORD_LIST,
        Some(StateKind::Completed) => sql::RECORD_LIST_COMPLETED,
        Some(
            StateKind::Claimed
            | StateKind::Started
            | StateKind::Released
            | StateKind::Dead
            | StateKind::InDoubt,
        ) => sql::RECORD_LIST_OPEN,
    };
    let mut select = connection.prepare_cached(text).map_err(undone)?;
    select.raw_bind_parameter(1, after).map_err(undone)?;
    select.raw_bind_parameter(2, scope).map_err(undone)?;
    select
        .raw_bind_parameter(3, query.repeated)
        .map_err(undone)?;
    select.raw_bind_parameter(4, one_more).map_err(undone)?;
    if text == sql::RECORD_LIST_OPEN {
        select
            .raw_bind_parameter(5, query.state.map(row::state_column))
            .map_err(undone)?;
    }
    let mut rows = select.raw_query();
    let (mut items, mut last, mut visited) = (Vec::new(), after, 0);
    while let Some(row) = rows.next().map_err(undone)? {
        if visited == limit {
            return Ok(Page {
                items,
                next: Some(cursor_at(last)),
            });
        }
        visited += 1;
        last = row.get(row::COLUMNS).map_err(undone)?;
        let record = row::read(row)?;
        if !record.is_forgotten(now) {
            items.push(Listed {
                operation: operation(row, row::COLUMNS + 1)?,
                record,
            });
        }
    }
    Ok(Page { items, next: None })
}

/// Returns a page of parked messages in the order of their arrival.
pub(crate) fn parked(connection: &Connection, query: &ListQuery) -> Result<Page<Parked>> {
    let Some(scope) = scope_filter(connection, query)? else {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    };
    let (after, limit) = (cursor(query)?, query.limit.max(1));
    let page = parked_page(connection, after, scope, &query.reasons, limit)?;
    Ok(Page {
        items: page.items,
        next: page.next.map(cursor_at),
    })
}

/// Rows with the number of the one that the next page follows.
pub(crate) struct Rows<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<i64>,
}

/// Returns the parked messages behind `after`.
pub(crate) fn parked_page(
    connection: &Connection,
    after: i64,
    scope: Option<i64>,
    reasons: &[Box<str>],
    limit: usize,
) -> Result<Rows<Parked>> {
    let mut select = connection
        .prepare_cached(sql::PARKED_LIST)
        .map_err(undone)?;
    let mut rows = select.query(params![after, scope]).map_err(undone)?;
    let (mut items, mut last) = (Vec::new(), after);
    while let Some(row) = rows.next().map_err(undone)? {
        let reason: Box<str> = row.get(4).map_err(undone)?;
        if !reasons.is_empty() && !reasons.contains(&reason) {
            continue;
        }
        if items.len() == limit {
            let next = Some(last);
            return Ok(Rows { items, next });
        }
        last = row.get(0).map_err(undone)?;
        items.push(parked_message(row, reason)?);
    }
    Ok(Rows { items, next: None })
}

/// Returns one parked message.
pub(crate) fn parked_one(connection: &Connection, id: ParkedId) -> Result<Option<Parked>> {
    let mut get = connection.prepare_cached(sql::PARKED_GET).map_err(undone)?;
    let mut rows = get.query([id.to_bytes()]).map_err(undone)?;
    let Some(row) = rows.next().map_err(undone)? else {
        return Ok(None);
    };
    parked_message(row, row.get(4).map_err(undone)?).map(Some)
}

/// Counts records by state, without those that count as absent.
pub(crate) fn stats(connection: &Connection, now: Timestamp) -> Result<Stats> {
    let mut stats = Stats::default();
    let place = |state: i64| {
        StateKind::ALL
            .iter()
            .position(|kind| row::state_column(*kind) == state)
    };
    let mut count = connection
        .prepare_cached(sql::RECORD_COUNT)
        .map_err(undone)?;
    let mut rows = count.query([]).map_err(undone)?;
    while let Some(row) = rows.next().map_err(undone)? {
        let found = place(row.get(0).map_err(undone)?).ok_or_else(|| corrupt("record"))?;
        stats.records[found] = row.get::<_, i64>(1).map_err(undone)?.cast_unsigned();
    }
    let mut due = connection.prepare_cached(sql::RECORD_DUE).map_err(undone)?;
    let mut rows = due.query([row::ordered_millis(now), -1]).map_err(undone)?;
    while let Some(row) = rows.next().map_err(undone)? {
        let record = row::read(row)?;
        let found = place(row::state_column(record.state.kind()));
        if let (true, Some(found)) = (record.is_forgotten(now), found) {
            stats.records[found] = stats.records[found].saturating_sub(1);
        }
    }
    let counted = |text| -> Result<u64> {
        let count: i64 = connection
            .query_row(text, [], |row| row.get(0))
            .map_err(undone)?;
        Ok(count.cast_unsigned())
    };
    stats.entities = counted(sql::ENTITY_COUNT)?;
    stats.parked = counted(sql::PARKED_COUNT)?;
    let pragma = |name: &str| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map_err(undone)
    };
    let bytes = pragma("page_count")?.saturating_mul(pragma("page_size")?);
    stats.disk_bytes = Some(bytes.cast_unsigned());
    Ok(stats)
}

/// Returns a named number.
pub(crate) fn mark(connection: &Connection, name: &str) -> Result<Option<u64>> {
    let mut get = connection.prepare_cached(sql::MARK_GET).map_err(undone)?;
    let value: Option<i64> = get
        .query_row([name], |row| row.get(0))
        .optional()
        .map_err(undone)?;
    Ok(value.map(i64::cast_unsigned))
}

fn parked_message(row: &Row<'_>, reason: Box<str>) -> Result<Parked> {
    let bytes = |index| row.get_ref(index).map_err(undone).and_then(row::bytes);
    Ok(Parked {
        scope: scope_at(row, 1)?,
        key: row::key(row.get_ref(3).map_err(undone)?)?,
        reason,
        detail: row.get(5).map_err(undone)?,
        transport: bytes(6)?,
        coordinates: row.get::<_, Box<str>>(7).map_err(undone)?.into(),
        since: row::timestamp(row.get(8).map_err(undone)?),
        payload: bytes(9)?.unwrap_or_default(),
        headers: headers_from_bytes(&bytes(10)?.unwrap_or_default())
            .ok_or_else(|| corrupt("parked message"))?,
    })
}

/// Reads the operation of a row that has tenant, name and key from `first` on.
fn operation(row: &Row<'_>, first: usize) -> Result<Operation> {
    let key = row::key(row.get_ref(first + 2).map_err(undone)?)?;
    Ok(Operation::new(
        scope_at(row, first)?,
        key.ok_or_else(|| corrupt("key"))?,
    ))
}

pub(crate) fn scope_at(row: &Row<'_>, first: usize) -> Result<Scope> {
    let part = |index| {
        row.get_ref(index)
            .map_err(undone)
            .map(|value| value.as_str().ok())
    };
    match (part(first)?, part(first + 1)?) {
        (Some(tenant), Some(operation)) => {
            Scope::new(tenant, operation).map_err(|error| corrupt("scope").with_source(error))
        }
        _ => Err(corrupt("scope")),
    }
}

/// Returns the number of the query's scope: `None` for a scope of which nothing is stored,
/// `Some(None)` for any.
#[expect(clippy::option_option, reason = "the outer one ends the search")]
pub(crate) fn scope_filter(
    connection: &Connection,
    query: &ListQuery,
) -> Result<Option<Option<i64>>> {
    match &query.scope {
        None => Ok(Some(None)),
        Some(scope) => Ok(find_scope(connection, scope)?.map(Some)),
    }
}

pub(crate) fn cursor(query: &ListQuery) -> Result<i64> {
    let Some(bytes) = &query.after else {
        return Ok(i64::MIN);
    };
    match <[u8; 8]>::try_from(&**bytes) {
        Ok(seq) => Ok(i64::from_be_bytes(seq)),
        Err(_) => Err(Error::new(
            ErrorKind::InvalidInput,
            "the cursor is not one of this list",
        )),
    }
}

pub(crate) fn cursor_at(seq: i64) -> Bytes {
    Bytes::copy_from_slice(&seq.to_be_bytes())
}

const EMPTY: Page<Listed> = Page {
    items: Vec::new(),
    next: None,
};
