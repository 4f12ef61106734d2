//! Reading without deciding: single records, lists, counts, marks; and the sweep.

use bytes::Bytes;
use deadpool_postgres::Object;
use deadpool_postgres::tokio_postgres::Row;
use semel_core::decide::{self, Change};
use semel_core::port::store::{IdShare, ListQuery, Listed, Page, StateCounts, Stats, Swept};
use semel_core::{
    Error, ErrorKind, Key, OpId, Operation, Record, Result, Scope, StateKind, Timestamp,
};

use crate::columns::Columns;
use crate::error::{corrupt, undone};
use crate::rounds::id_at;
use crate::row::{self, span_column, state_column, timestamp};
use crate::session::{Session, pause};

/// Returns records with their outcomes, except those that count as absent.
pub(crate) async fn records(session: &Session, ids: &[OpId]) -> Result<Vec<Option<Record>>> {
    let client = session.client().await?;
    let asked: Vec<_> = ids.iter().map(|id| &id.as_bytes()[..]).collect();
    let now = session.given_now();
    let text = &session.texts.read;
    let rows = session.run(&client, text, &[&now, &true, &asked]).await?;
    let mut records = vec![None; ids.len()];
    for row in &rows {
        let number: i64 = row.try_get(row::COLUMNS + 1).map_err(undone)?;
        let now = timestamp(row.try_get(row::COLUMNS + 2).map_err(undone)?);
        let found = row::found(row)?.map(|(_, record)| record);
        if let Some(place) = usize::try_from(number - 1)
            .ok()
            .and_then(|at| records.get_mut(at))
        {
            *place = found.filter(|record| !record.is_forgotten(now));
        }
    }
    Ok(records)
}

/// Returns a page of records in the order of their ids.
///
/// # Cost   those of some states, and those that may have repeated their effect, are found by an index; everything else
/// is read by id. With a filter, a page looks at [`MOST_VISITED`] rows at most: no index has scopes.
pub(crate) async fn list(session: &Session, query: &ListQuery) -> Result<Page<Listed>> {
    let after = match &query.after {
        None => Bytes::new(),
        Some(id) if id.len() == 32 => id.clone(),
        Some(_) => return Err(foreign_cursor()),
    };
    let client = session.client().await?;
    if !has_scope(session, &client, query).await? {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    }
    let texts = &session.texts;
    let text = match query.state {
        Some(StateKind::Released | StateKind::Dead | StateKind::InDoubt) => &texts.list_open,
        Some(StateKind::Claimed | StateKind::Started | StateKind::Completed) | None
            if query.repeated =>
        {
            &texts.list_repeated
        }
        Some(StateKind::Claimed | StateKind::Started | StateKind::Completed) | None => &texts.list,
    };
    let state = query.state.map(|state| i32::from(state_column(state)));
    let limit = query.limit.max(1);
    let is_filtered = query.is_scoped() || query.repeated || query.state.is_some();
    let [most, looked_at] = bounds(limit, is_filtered);
    let (tenant, operation) = (query.tenant.as_deref(), query.operation.as_deref());
    let now = now(session, &client).await?;
    let rows = session
        .run(
            &client,
            text,
            &[
                &&*after,
                &tenant,
                &operation,
                &state,
                &query.repeated,
                &most,
                &looked_at,
            ],
        )
        .await?;
    let next = last_of_page(&rows, row::COLUMNS + 5, limit, looked_at)?;
    let next = next.map(|row| id_at(row, row::COLUMNS + 1)).transpose()?;
    let mut items = Vec::with_capacity(rows.len());
    for row in &rows {
        let operation = operation_at(row, row::COLUMNS + 2)?;
        let state: i16 = row.try_get(0).map_err(undone)?;
        let has_state = query.state.is_none_or(|it| state_column(it) == state);
        if !has_state || !query.fits(&operation.scope) {
            continue;
        }
        let record = row::read(row)?;
        if query.fits_record(&operation, &record) && !record.is_forgotten(now) {
            items.push(Listed { operation, record });
        }
    }
    Ok(Page {
        items,
        next: next.map(|id| Bytes::copy_from_slice(id.as_bytes())),
    })
}

/// Counts records by state, parked messages, entities, the audit trail and bytes.
pub(crate) async fn stats(session: &Session) -> Result<Stats> {
    let client = session.client().await?;
    let now = session.given_now();
    let rows = session.run(&client, &session.texts.stats, &[&now]).await?;
    let counts = by_state(&rows)?;
    let mut stats = Stats::default();
    for (place, count) in stats.records.iter_mut().enumerate() {
        *count = counts.all[place] - counts.absent[place];
    }
    stats.remembered = Some(counts.absent.iter().sum());
    let rows = session.run(&client, &session.texts.size, &[]).await?;
    if let Some(row) = rows.first() {
        stats.parked = number(row, 0)?;
        stats.entities = number(row, 1)?;
        stats.audited = number(row, 2)?;
        stats.disk_bytes = bytes(row, 3)?;
    }
    Ok(stats)
}

/// Counts as [`stats`] does if there are fewer than `most` records. Else the completed and the started are estimated by
/// those with the lowest ids; so are the others, if `most` of them are listed.
pub(crate) async fn estimate(session: &Session, most: usize) -> Result<Stats> {
    let limit = i64::try_from(most.max(1)).unwrap_or(i64::MAX);
    let client = session.client().await?;
    let now = session.given_now();
    let text = &session.texts.estimate;
    let rows = session.run(&client, text, &[&now, &limit]).await?;
    let lowest = by_state(&rows)?;
    let Some(last) = rows
        .first()
        .filter(|_| lowest.total() >= most.max(1) as u64)
    else {
        drop(client);
        return stats(session).await;
    };
    let share = share(last.try_get(3).map_err(undone)?)?;
    let text = &session.texts.estimate_listed;
    let rows = session.run(&client, text, &[&now, &limit]).await?;
    let listed = by_state(&rows)?;
    let is_whole = listed.total() < most as u64;
    let mut stats = lowest.whole(share, &listed, |state| {
        is_whole && !matches!(state, StateKind::Completed | StateKind::Started)
    });
    let text = &session.texts.estimate_size;
    let rows = session.run(&client, text, &[&limit]).await?;
    if let Some(row) = rows.first() {
        let by_ids = |count: usize| -> Result<u64> {
            let counted = number(row, count)?;
            if counted < most as u64 {
                return Ok(counted);
            }
            Ok(share_of(row, count + 1)?.whole(counted))
        };
        stats.parked = by_ids(0)?;
        stats.entities = by_ids(2)?;
        stats.audited = number(row, 4)?;
        stats.disk_bytes = bytes(row, 5)?;
    }
    Ok(stats)
}

fn share_of(row: &Row, column: usize) -> Result<IdShare> {
    share(row.try_get(column).map_err(undone)?)
}

fn share(id: &[u8]) -> Result<IdShare> {
    let beginning = id.first_chunk().ok_or_else(|| corrupt("id"))?;
    Ok(IdShare::up_to(*beginning))
}

/// Reads counts by state: of all records, and of those that count as absent.
fn by_state(rows: &[Row]) -> Result<StateCounts> {
    let mut counts = StateCounts::default();
    for row in rows {
        let column: i16 = row.try_get(0).map_err(undone)?;
        let place = StateKind::ALL
            .iter()
            .position(|kind| state_column(*kind) == column);
        let place = place.ok_or_else(|| corrupt("record"))?;
        (counts.all[place], counts.absent[place]) = (number(row, 1)?, number(row, 2)?);
    }
    Ok(counts)
}

fn number(row: &Row, column: usize) -> Result<u64> {
    let count: i64 = row.try_get(column).map_err(undone)?;
    Ok(count.cast_unsigned())
}

fn bytes(row: &Row, column: usize) -> Result<Option<u64>> {
    let bytes: Option<i64> = row.try_get(column).map_err(undone)?;
    Ok(bytes.map(i64::cast_unsigned))
}

/// Removes due records, then puts started effects in doubt whose worker vanished, then counts
/// abandoned claims.
pub(crate) async fn sweep(session: &Session, limit: usize) -> Result<Swept> {
    let client = session.client().await?;
    let now = session.given_now();
    let limit = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
    let texts = &session.texts;
    let removed = session.run(&client, &texts.sweep, &[&now, &limit]).await?;
    let mut swept = Swept {
        removed: removed.len() as u64,
        ..Swept::default()
    };
    let left = limit.saturating_sub_unsigned(swept.removed);
    let mut visited = swept.removed;
    for round in 1..=SWEEPS {
        let (seen, doubted, lost) = sweep_vanished(session, &client, left).await?;
        visited = visited.saturating_add(seen);
        swept.doubted += doubted;
        if lost == 0 {
            break;
        }
        pause(round).await;
    }
    swept.more = visited >= limit.cast_unsigned() && swept.removed + swept.doubted > 0;
    if !swept.more {
        let quiet = span_column(semel_core::Window::DEFAULT.duration());
        let rows = session
            .run(&client, &texts.abandoned, &[&now, &quiet])
            .await?;
        let count = rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0));
        swept.abandoned = count.map_err(undone)?.cast_unsigned();
    }
    Ok(swept)
}

/// Puts started effects in doubt whose worker vanished; returns how many it looked at, changed, and
/// lost to others that wrote them meanwhile.
async fn sweep_vanished(session: &Session, client: &Object, most: i64) -> Result<(u64, u64, u64)> {
    if most <= 0 {
        return Ok((0, 0, 0));
    }
    let texts = &session.texts;
    let now = session.given_now();
    let rows = session.run(client, &texts.vanished, &[&now, &most]).await?;
    let mut changed = Vec::new();
    for row in &rows {
        let now = timestamp(row.try_get(row::COLUMNS + 2).map_err(undone)?);
        match row::found(row) {
            Ok(Some((revision, record))) => match decide::sweep(&record, now) {
                Change::Put(record) => {
                    changed.push((id_at(row, row::COLUMNS + 1)?, revision, record));
                }
                Change::Keep | Change::Remove => {}
            },
            Ok(None) => {}
            // Left to the caller that asks for it; the others go on.
            Err(error) if error.kind() == ErrorKind::Corrupt => {}
            Err(error) => return Err(error),
        }
    }
    let mut updates = Columns::default();
    for (id, revision, record) in &changed {
        updates.push_stored(id, *revision, record);
    }
    if updates.is_empty() {
        return Ok((rows.len() as u64, 0, 0));
    }
    let written = session
        .run(client, &texts.update, &updates.update())
        .await?;
    let lost = updates.len().saturating_sub(written.len());
    Ok((rows.len() as u64, written.len() as u64, lost as u64))
}

/// Returns a named number.
pub(crate) async fn mark(session: &Session, name: &str) -> Result<Option<u64>> {
    let client = session.client().await?;
    let rows = session
        .run(&client, &session.texts.mark_get, &[&name])
        .await?;
    let value = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose();
    Ok(value.map_err(undone)?.map(i64::cast_unsigned))
}

/// Returns the time of the store's clock.
pub(crate) async fn now(session: &Session, client: &Object) -> Result<Timestamp> {
    if let Some(now) = session.given_now() {
        return Ok(timestamp(now));
    }
    let rows = session.run(client, &session.texts.now, &[&0_i64]).await?;
    let now = rows.first().map_or(Ok(0), |row| row.try_get(0));
    now.map(timestamp).map_err(undone)
}

/// Returns whether anything can be of the scopes that the query selects, so that a list of nothing ends at once.
pub(crate) async fn has_scope(
    session: &Session,
    client: &Object,
    query: &ListQuery,
) -> Result<bool> {
    if !query.is_scoped() {
        return Ok(true);
    }
    let (tenant, operation) = (query.tenant.as_deref(), query.operation.as_deref());
    // No scope has this character, and no text of the server.
    if [tenant, operation]
        .iter()
        .flatten()
        .any(|it| it.contains('\0'))
    {
        return Ok(false);
    }
    let text = &session.texts.scope_find;
    let rows = session.run(client, text, &[&tenant, &operation]).await?;
    Ok(!rows.is_empty())
}

/// Returns how many rows a page has at most, and how many it looks at for them: more where a filter leaves some out.
pub(crate) fn bounds(limit: usize, is_filtered: bool) -> [i64; 2] {
    let looked_at = if is_filtered {
        limit.max(MOST_VISITED)
    } else {
        limit
    };
    [limit, looked_at].map(|count| i64::try_from(count).unwrap_or(i64::MAX))
}

/// Returns the row behind which the next page begins, if there may be one: the page is full, or the row is the last one
/// that was looked at.
pub(crate) fn last_of_page(
    rows: &[Row],
    place: usize,
    limit: usize,
    looked_at: i64,
) -> Result<Option<&Row>> {
    let Some(last) = rows.last() else {
        return Ok(None);
    };
    let place: i64 = last.try_get(place).map_err(undone)?;
    Ok((rows.len() >= limit || place == looked_at).then_some(last))
}

/// Reads the operation of a row that has tenant, name and key from `first` on.
pub(crate) fn operation_at(row: &Row, first: usize) -> Result<Operation> {
    let key = key(row, first + 2)?.ok_or_else(|| corrupt("key"))?;
    Ok(Operation::new(scope_at(row, first)?, key))
}

/// Reads the scope of a row that has tenant and name from `first` on.
pub(crate) fn scope_at(row: &Row, first: usize) -> Result<Scope> {
    let tenant: &str = row.try_get(first).map_err(undone)?;
    let operation: &str = row.try_get(first + 1).map_err(undone)?;
    Scope::new(tenant, operation).map_err(|error| corrupt("scope").with_source(error))
}

/// Reads a stored key.
pub(crate) fn key(row: &Row, column: usize) -> Result<Option<Key>> {
    let bytes: Option<&[u8]> = row.try_get(column).map_err(undone)?;
    let key = bytes.map(|bytes| Key::from_canonical(Bytes::copy_from_slice(bytes)));
    key.map(|key| key.ok_or_else(|| corrupt("key"))).transpose()
}

/// Reads the row number in a cursor.
pub(crate) fn sequence(after: Option<&Bytes>) -> Result<i64> {
    let Some(bytes) = after else { return Ok(0) };
    let seq = <[u8; 8]>::try_from(&**bytes).map_err(|_| foreign_cursor())?;
    Ok(i64::from_be_bytes(seq))
}

/// Returns the cursor behind a row.
pub(crate) fn cursor(seq: i64) -> Bytes {
    Bytes::copy_from_slice(&seq.to_be_bytes())
}

pub(crate) fn foreign_cursor() -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        "the cursor is not one of this list",
    )
}

/// Rounds in which a sweep looks again at records that others wrote meanwhile.
const SWEEPS: u32 = 8;
/// Rows that one page looks at, so that a filter does not make it endless.
const MOST_VISITED: usize = 16_384;
