//! Reading without deciding: single records, lists, counts, marks.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};
use semel_core::parked::headers_from_bytes;
use semel_core::port::store::{IdShare, ListQuery, Listed, Page, StateCounts, Stats};
use semel_core::{
    Error, ErrorKind, OpId, Operation, Parked, ParkedId, Record, Result, Scope, StateKind,
    Timestamp,
};

use crate::error::{corrupt, undone};
use crate::lookup::load;
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
///
/// # Cost   a page reads on until it is full; with a filter, past [`MOST_VISITED`] rows at most. Those of one state
/// that is not completed are found by an index, and nothing else is.
pub(crate) fn list(
    connection: &Connection,
    query: &ListQuery,
    now: Timestamp,
) -> Result<Page<Listed>> {
    let (after, limit) = (cursor(query)?, query.limit.max(1));
    if !has_scope(connection, query)? {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    }
    let is_filtered = query.is_scoped() || query.repeated || query.state.is_some();
    let most = most_visited(limit, is_filtered);
    let one_more = i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1);
    let open = query.state.filter(|state| *state != StateKind::Completed);
    let text = match open {
        None => sql::RECORD_LIST,
        Some(_) => sql::RECORD_LIST_OPEN,
    };
    let mut select = connection.prepare_cached(text).map_err(undone)?;
    select.raw_bind_parameter(1, after).map_err(undone)?;
    select.raw_bind_parameter(2, one_more).map_err(undone)?;
    if let Some(state) = open {
        select
            .raw_bind_parameter(3, row::state_column(state))
            .map_err(undone)?;
    }
    let mut rows = select.raw_query();
    let (mut items, mut last, mut visited) = (Vec::new(), after, 0);
    while let Some(row) = rows.next().map_err(undone)? {
        if visited == most || items.len() == limit {
            return Ok(Page {
                items,
                next: Some(cursor_at(last)),
            });
        }
        visited += 1;
        last = row.get(row::COLUMNS).map_err(undone)?;
        let state: i64 = row.get(0).map_err(undone)?;
        let has_state = query.state.is_none_or(|it| row::state_column(it) == state);
        if !has_state || !is_of_scope(row, row::COLUMNS + 1, query)? {
            continue;
        }
        let (record, operation) = (row::read(row)?, operation(row, row::COLUMNS + 1)?);
        if query.fits_record(&operation, &record) && !record.is_forgotten(now) {
            items.push(Listed { operation, record });
        }
    }
    Ok(Page { items, next: None })
}

/// Returns a page of parked messages in the order of their arrival.
///
/// # Cost   a page reads on until it is full; with a filter, past [`MOST_VISITED`] rows at most
pub(crate) fn parked(connection: &Connection, query: &ListQuery) -> Result<Page<Parked>> {
    let (after, limit) = (cursor(query)?, query.limit.max(1));
    if !has_scope(connection, query)? {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    }
    let page = parked_page(connection, after, query, limit)?;
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

/// Returns the parked messages behind `after` that fit `filter`.
pub(crate) fn parked_page(
    connection: &Connection,
    after: i64,
    filter: &ListQuery,
    limit: usize,
) -> Result<Rows<Parked>> {
    let most = most_visited(limit, filter.is_scoped() || !filter.reasons.is_empty());
    let mut select = connection
        .prepare_cached(sql::PARKED_LIST)
        .map_err(undone)?;
    let mut rows = select.query([after]).map_err(undone)?;
    let (mut items, mut last, mut visited) = (Vec::new(), after, 0);
    while let Some(row) = rows.next().map_err(undone)? {
        if visited == most || items.len() == limit {
            let next = Some(last);
            return Ok(Rows { items, next });
        }
        visited += 1;
        last = row.get(0).map_err(undone)?;
        let reason: Box<str> = row.get(4).map_err(undone)?;
        let has_reason = filter.reasons.is_empty() || filter.reasons.contains(&reason);
        if has_reason && is_of_scope(row, 1, filter)? {
            items.push(parked_message(row, reason)?);
        }
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
    let mut count = connection
        .prepare_cached(sql::RECORD_COUNT)
        .map_err(undone)?;
    let mut rows = count.query([]).map_err(undone)?;
    while let Some(row) = rows.next().map_err(undone)? {
        stats.records[place(row)?] = row.get::<_, i64>(1).map_err(undone)?.cast_unsigned();
    }
    take_out_absent(connection, now, &mut stats)?;
    let counted = |text| -> Result<u64> {
        let count: i64 = connection
            .query_row(text, [], |row| row.get(0))
            .map_err(undone)?;
        Ok(count.cast_unsigned())
    };
    stats.entities = counted(sql::ENTITY_COUNT)?;
    stats.parked = counted(sql::PARKED_COUNT)?;
    stats.audited = counted(sql::AUDIT_COUNT)?;
    stats.disk_bytes = Some(disk_bytes(connection)?);
    Ok(stats)
}

/// Counts as [`stats`] does if there are fewer than `most` records. Else the completed are estimated by those with the lowest
/// ids; so are the others, if there are as many of them.
pub(crate) fn estimate(connection: &Connection, now: Timestamp, most: usize) -> Result<Stats> {
    let limit = i64::try_from(most.max(1)).unwrap_or(i64::MAX);
    let params = [row::ordered_millis(now), limit];
    let (lowest, last) = by_state(connection, sql::RECORD_ESTIMATE, params)?;
    let Some(last) = last.filter(|_| lowest.total() >= limit.cast_unsigned()) else {
        return stats(connection, now);
    };
    // Tags have a sign, and so their own order.
    let share = IdShare::up_to((last ^ i64::MIN).to_be_bytes());
    let (listed, _) = by_state(connection, sql::RECORD_LISTED, params)?;
    let is_whole = listed.total() < limit.cast_unsigned();
    let mut stats = lowest.whole(share, &listed, |state| {
        is_whole && state != StateKind::Completed
    });
    let mut sizes = connection
        .prepare_cached(sql::SIZE_ESTIMATE)
        .map_err(undone)?;
    let mut rows = sizes.query([limit]).map_err(undone)?;
    if let Some(row) = rows.next().map_err(undone)? {
        let by_ids = |column: usize| -> Result<u64> {
            let counted: i64 = row.get(column).map_err(undone)?;
            let counted = counted.cast_unsigned();
            if counted < limit.cast_unsigned() {
                return Ok(counted);
            }
            let last: Vec<u8> = row.get(column + 1).map_err(undone)?;
            let beginning = last.first_chunk().ok_or_else(|| corrupt("id"))?;
            Ok(IdShare::up_to(*beginning).whole(counted))
        };
        stats.parked = by_ids(0)?;
        stats.entities = by_ids(2)?;
        stats.audited = row.get::<_, i64>(4).map_err(undone)?.cast_unsigned();
    }
    stats.disk_bytes = Some(disk_bytes(connection)?);
    Ok(stats)
}

/// Counts by state with one of two statements, and returns the last tag among them.
fn by_state(
    connection: &Connection,
    text: &str,
    params: [i64; 2],
) -> Result<(StateCounts, Option<i64>)> {
    let mut counts = StateCounts::default();
    let mut last = None;
    let mut count = connection.prepare_cached(text).map_err(undone)?;
    let mut rows = count.query(params).map_err(undone)?;
    while let Some(row) = rows.next().map_err(undone)? {
        let place = place(row)?;
        counts.all[place] = row.get::<_, i64>(1).map_err(undone)?.cast_unsigned();
        counts.absent[place] = row.get::<_, i64>(2).map_err(undone)?.cast_unsigned();
        last = last.max(row.get(3).map_err(undone)?);
    }
    Ok((counts, last))
}

/// Reads a state, as its place in [`StateKind::ALL`].
fn place(row: &Row<'_>) -> Result<usize> {
    place_of(row.get(0).map_err(undone)?).ok_or_else(|| corrupt("record"))
}

fn place_of(state: i64) -> Option<usize> {
    StateKind::ALL
        .iter()
        .position(|kind| row::state_column(*kind) == state)
}

/// Takes out what counts as absent.
fn take_out_absent(connection: &Connection, now: Timestamp, stats: &mut Stats) -> Result<()> {
    let mut remembered = 0;
    let mut due = connection.prepare_cached(sql::RECORD_DUE).map_err(undone)?;
    let mut rows = due.query([row::ordered_millis(now), -1]).map_err(undone)?;
    while let Some(row) = rows.next().map_err(undone)? {
        let record = row::read(row)?;
        let found = place_of(row::state_column(record.state.kind()));
        if let (true, Some(found)) = (record.is_forgotten(now), found) {
            stats.records[found] = stats.records[found].saturating_sub(1);
            remembered += 1;
        }
    }
    stats.remembered = Some(remembered);
    Ok(())
}

fn disk_bytes(connection: &Connection) -> Result<u64> {
    let pragma = |name: &str| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map_err(undone)
    };
    let bytes = pragma("page_count")?.saturating_mul(pragma("page_size")?);
    Ok(bytes.cast_unsigned())
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

/// Returns whether anything can be of the scopes that the query selects, so that a list of nothing ends at once. A list
/// that goes on has begun with one, and its scopes are not looked for again.
pub(crate) fn has_scope(connection: &Connection, query: &ListQuery) -> Result<bool> {
    if !query.is_scoped() || query.after.is_some() {
        return Ok(true);
    }
    let mut any = connection.prepare_cached(sql::SCOPE_ANY).map_err(undone)?;
    any.query_row(params![query.tenant, query.operation], |row| row.get(0))
        .map_err(undone)
}

/// Returns whether the query selects a row that has tenant and name from `first` on. One without them is of no scope.
pub(crate) fn is_of_scope(row: &Row<'_>, first: usize, query: &ListQuery) -> Result<bool> {
    if !query.is_scoped() {
        return Ok(true);
    }
    let part = |index| row.get_ref(index).map_err(undone);
    Ok(match (part(first)?.as_str(), part(first + 1)?.as_str()) {
        (Ok(tenant), Ok(operation)) => query.fits_parts(tenant, operation),
        _ => false,
    })
}

/// Returns the rows that one page visits at most: those that it has room for, or more where a filter leaves some out.
pub(crate) fn most_visited(limit: usize, is_filtered: bool) -> usize {
    if is_filtered {
        limit.max(MOST_VISITED)
    } else {
        limit
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

/// Rows that one page looks at, so that a filter does not make it endless.
const MOST_VISITED: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_goes_on_looks_for_no_scope() {
        // Without a table, whatever reads a scope fails.
        let connection = Connection::open_in_memory().expect("a database");
        let mut query = ListQuery {
            operation: Some("pay".into()),
            ..ListQuery::default()
        };
        assert!(has_scope(&connection, &query).is_err());
        query.after = Some(cursor_at(7));
        assert!(has_scope(&connection, &query).expect("nothing is read"));
    }
}
