//! Reading without deciding: single records, lists, counts; and the sweep.

use std::collections::HashMap;

use bytes::Bytes;
use mysql_async::Row;
use semel_core::decide::{self, Change};
use semel_core::ledger::Found;
use semel_core::port::store::{IdShare, ListQuery, Listed, Page, StateCounts, Stats, Swept};
use semel_core::{Error, ErrorKind, OpId, Record, Result, StateKind};

use crate::answer::{Set, bytes, id, only, some_number, time};
use crate::error::corrupt;
use crate::locked::CHUNK;
use crate::pool::PooledConnection;
use crate::row::{self, ID, push_assignments, state_column};
use crate::script::{Literal, Script, addend};
use crate::session::{Session, ask, pause};
use crate::sql::Text;
use crate::transaction::{end, run_through};

/// Returns records with their outcomes, except those that count as absent.
pub(crate) async fn records(session: &Session, ids: &[OpId]) -> Result<Vec<Option<Record>>> {
    let mut records = Vec::with_capacity(ids.len());
    for ids in ids.chunks(CHUNK) {
        let mut script = Script::default();
        session.add_now(&mut script);
        let told = script.add(&session.texts.time, &[]);
        let wanted = Literal::number(1);
        let asked = Literal::list(ids.iter().map(OpId::as_bytes));
        let read = script.add(&session.texts.read, &[&wanted, &wanted, &asked]);
        let sets = session.ask(&script).await?;
        let now = time(only(&sets[told])?, 0)?;
        let mut found = HashMap::with_capacity(ids.len());
        for row in &sets[read].rows {
            found.insert(id(row, ID)?, row::read(row)?);
        }
        let read = |id: &OpId| found.get(id).filter(|record| !record.is_forgotten(now));
        records.extend(ids.iter().map(|id| read(id).cloned()));
    }
    Ok(records)
}

/// Returns a page of records in the order of their ids.
///
/// # Cost   records of one state that is not completed are found by its index, all of them for each page; everything
/// else is read by id. With a filter, that is two round trips, and [`MOST_VISITED`] rows at most: no index has tenants
/// or operations.
pub(crate) async fn list(session: &Session, query: &ListQuery) -> Result<Page<Listed>> {
    let mut conditions = Literal::code("1");
    match &query.after {
        None => {}
        Some(id) if id.len() == 32 => {
            conditions.push_code(" AND id > ");
            conditions.push_bytes(id);
        }
        Some(_) => return Err(foreign_cursor()),
    }
    let limit = query.limit.max(1);
    // Most records are completed; every other state is a short list of a long table.
    let index = match query.state {
        None | Some(StateKind::Completed) => "PRIMARY",
        Some(
            StateKind::Claimed
            | StateKind::Started
            | StateKind::Released
            | StateKind::Dead
            | StateKind::InDoubt,
        ) => "state",
    };
    let is_filtered = query.is_scoped() || query.repeated || query.state.is_some();
    let end = if is_filtered && index == "PRIMARY" {
        let row = row_at_end(session, &session.texts.list_end, &conditions, limit).await?;
        row.map(|row| id(&row, 0)).transpose()?
    } else {
        None
    };
    if let Some(end) = &end {
        conditions.push_code(" AND id <= ");
        conditions.push_bytes(end.as_bytes());
    }
    push_scope(&mut conditions, query);
    if let Some(state) = query.state {
        conditions.push_code(&format!(" AND state = {}", state_column(state)));
    }
    if query.repeated {
        conditions.push_code(" AND repeats > 0");
    }
    let mut script = Script::default();
    session.add_now(&mut script);
    let told = script.add(&session.texts.time, &[]);
    let most = Literal::number(limit as u64);
    let read = script.add(
        &session.texts.list,
        &[&Literal::code(index), &conditions, &most],
    );
    let sets = session.ask_patiently(&script).await?;
    let now = time(only(&sets[told])?, 0)?;
    let rows = &sets[read].rows;
    let next = rows.last().filter(|_| rows.len() >= limit);
    let next = next.map(|row| id(row, ID)).transpose()?.or(end);
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        let record = row::read(row)?;
        if !record.is_forgotten(now) {
            let operation = row::operation(row)?;
            items.push(Listed { operation, record });
        }
    }
    Ok(Page {
        items,
        next: next.map(|id| Bytes::copy_from_slice(id.as_bytes())),
    })
}

/// Counts records by state, without those that count as absent.
pub(crate) async fn stats(session: &Session) -> Result<Stats> {
    let mut script = Script::default();
    session.add_now(&mut script);
    let counted = script.add(&session.texts.stats, &[]);
    let tables = Literal::list(session.tables());
    let size = script.add(&session.texts.size, &[&tables]);
    let sets = session.ask_patiently(&script).await?;
    let mut stats = Stats::default();
    let counts = |set: &Set| -> Result<Vec<(usize, u64)>> {
        let count = |row| Ok((place(row)?, some_number(row, 1)?));
        set.rows.iter().map(count).collect()
    };
    for (place, count) in counts(&sets[counted])? {
        stats.records[place] = count;
    }
    let mut remembered = 0;
    for (place, count) in counts(&sets[counted + 1])? {
        stats.records[place] = stats.records[place].saturating_sub(count);
        remembered += count;
    }
    stats.remembered = Some(remembered);
    stats.parked = some_number(only(&sets[counted + 2])?, 0)?;
    stats.entities = some_number(only(&sets[counted + 3])?, 0)?;
    stats.audited = some_number(only(&sets[counted + 4])?, 0)?;
    stats.disk_bytes = Some(some_number(only(&sets[size])?, 0)?);
    Ok(stats)
}

/// Counts as [`stats`] does if there are fewer than `most` records. Else the completed are estimated by those with the lowest
/// ids; so are the others, if there are as many of them.
pub(crate) async fn estimate(session: &Session, most: usize) -> Result<Stats> {
    let most = most.max(1) as u64;
    let limit = Literal::number(most);
    let mut script = Script::default();
    session.add_now(&mut script);
    let counted = script.add(&session.texts.estimate, &[&limit; 6]);
    let tables = Literal::list(session.tables());
    let size = script.add(&session.texts.size, &[&tables]);
    let sets = session.ask_patiently(&script).await?;
    let (lowest, last) = by_state(&sets[counted])?;
    let Some(last) = last.filter(|_| lowest.total() >= most) else {
        return stats(session).await;
    };
    let (listed, _) = by_state(&sets[counted + 1])?;
    let is_whole = listed.total() < most;
    let mut stats = lowest.whole(IdShare::up_to(last), &listed, |state| {
        is_whole && state != StateKind::Completed
    });
    let by_ids = |set: &Set| -> Result<u64> {
        let row = only(set)?;
        let counted = some_number(row, 0)?;
        if counted < most {
            return Ok(counted);
        }
        let beginning = bytes(row, 1)?.and_then(<[u8]>::first_chunk);
        let share = IdShare::up_to(*beginning.ok_or_else(|| corrupt("id"))?);
        Ok(share.whole(counted))
    };
    stats.parked = by_ids(&sets[counted + 2])?;
    stats.entities = by_ids(&sets[counted + 3])?;
    stats.audited = some_number(only(&sets[counted + 4])?, 0)?;
    stats.disk_bytes = Some(some_number(only(&sets[size])?, 0)?);
    Ok(stats)
}

/// Reads counts by state, and the beginning of the last id among them.
fn by_state(set: &Set) -> Result<(StateCounts, Option<[u8; 8]>)> {
    let mut counts = StateCounts::default();
    let mut last: Option<[u8; 8]> = None;
    for row in &set.rows {
        let place = place(row)?;
        counts.all[place] = some_number(row, 1)?;
        counts.absent[place] = some_number(row, 2)?;
        let id = bytes(row, 3)?.and_then(<[u8]>::first_chunk);
        last = last.max(id.copied());
    }
    Ok((counts, last))
}

/// Reads a state, as its place in [`StateKind::ALL`].
fn place(row: &Row) -> Result<usize> {
    let column = some_number(row, 0)?;
    let place = StateKind::ALL
        .iter()
        .position(|kind| state_column(*kind) == column);
    place.ok_or_else(|| corrupt("record"))
}

/// Visits due records, the longest due first.
pub(crate) async fn sweep(session: &Session, limit: usize) -> Result<Swept> {
    let mut connection = session.connection().await?;
    let swept = sweep_on(session, &mut connection, limit.max(1)).await;
    end(session, connection).await;
    swept
}

async fn sweep_on(
    session: &Session,
    connection: &mut PooledConnection,
    limit: usize,
) -> Result<Swept> {
    let mut swept = Swept::default();
    let (mut visited, mut left, mut round) = (0, limit, 0);
    while left > 0 {
        let part = left.min(CHUNK);
        let (seen, lost, some) = sweep_part(session, connection, part).await?;
        swept.removed += some.removed;
        swept.doubted += some.doubted;
        if lost > 0 && round < SWEEPS {
            round += 1;
            pause(round).await;
            continue;
        }
        visited += seen;
        left -= part;
        if seen < part || some.removed + some.doubted == 0 {
            break;
        }
    }
    // Without progress there would be more for ever.
    swept.more = visited >= limit && swept.removed + swept.doubted > 0;
    if !swept.more {
        let quiet = addend(semel_core::Window::DEFAULT.duration()).unwrap_or(0);
        let quiet = Literal::number(quiet);
        let mut script = Script::default();
        session.add_now(&mut script);
        let count = script.add(&session.texts.abandoned, &[&quiet, &quiet]);
        let sets = ask(connection, &script).await?;
        swept.abandoned = some_number(only(&sets[count])?, 0)?;
    }
    Ok(swept)
}

/// Visits at most so many records; returns how many it saw, how many of them others have written meanwhile, and what it
/// did.
async fn sweep_part(
    session: &Session,
    connection: &mut PooledConnection,
    most: usize,
) -> Result<(usize, u64, Swept)> {
    let texts = &session.texts;
    let mut script = Script::default();
    session.add_now(&mut script);
    let told = script.add(&texts.time, &[]);
    let due = script.add(&texts.due, &[&Literal::number(most as u64)]);
    let sets = ask(connection, &script).await?;
    let now = time(only(&sets[told])?, 0)?;
    let (mut removed, mut doubted, mut floor) = (Vec::new(), Vec::new(), 0);
    for row in &sets[due].rows {
        // A record that does not check out is left to the caller that asks for it; the others go on.
        let (id, Found::Record(revision, record)) = row::found(row)? else {
            continue;
        };
        match decide::sweep(&record, now) {
            Change::Keep => {}
            Change::Remove => {
                floor = floor.max(record.token.get());
                removed.push((id, revision));
            }
            Change::Put(record) => doubted.push((id, revision, record)),
        }
    }
    if removed.is_empty() && doubted.is_empty() {
        return Ok((sets[due].rows.len(), 0, Swept::default()));
    }
    removed.sort_unstable();
    doubted.sort_unstable_by_key(|(id, _, _)| *id);
    let mut script = Script::default();
    script.add(&texts.begin, &[]);
    let mut removal = None;
    if !removed.is_empty() {
        let token = Literal::number(floor);
        script.add(&texts.floor, &[&token, &token]);
        let ids = Literal::list(removed.iter().map(|(id, _)| id.as_bytes()));
        let pair = |(id, revision): &(OpId, u64)| {
            [&id.as_bytes()[..], revision.to_string().as_bytes()].concat()
        };
        let pairs = Literal::list(removed.iter().map(pair));
        removal = Some(script.add(&texts.sweep, &[&ids, &pairs]));
    }
    let mut places = Vec::with_capacity(doubted.len());
    for (id, revision, record) in &doubted {
        let mut set = Literal::default();
        push_assignments(&mut set, record);
        let id = Literal::bytes(id.as_bytes());
        places.push(script.add(&texts.update, &[&set, &id, &Literal::number(*revision)]));
    }
    script.add(&texts.commit, &[]);
    let done = run_through(session, connection, &script).await?;
    let affected = |place: usize| done[place].affected;
    let swept = Swept {
        removed: removal.map_or(0, affected),
        doubted: places.into_iter().map(affected).sum(),
        ..Swept::default()
    };
    let wanted = (removed.len() + doubted.len()) as u64;
    let lost = wanted.saturating_sub(swept.removed + swept.doubted);
    Ok((sets[due].rows.len(), lost, swept))
}

/// Returns the row that ends a page with a filter, if there are so many from where it begins.
async fn row_at_end(
    session: &Session,
    text: &Text,
    conditions: &Literal,
    limit: usize,
) -> Result<Option<Row>> {
    let before = limit.max(MOST_VISITED) - 1;
    let mut script = Script::default();
    script.add(text, &[conditions, &Literal::number(before as u64)]);
    let mut sets = session.ask_patiently(&script).await?;
    Ok(sets.swap_remove(0).rows.pop())
}

/// Adds the filter of `query` to the condition that a row of `seq` comes next. Returns the number of the row that ends
/// the page, if the filter may leave out so many.
pub(crate) async fn bounded(
    session: &Session,
    text: &Text,
    conditions: &mut Literal,
    query: &ListQuery,
) -> Result<Option<u64>> {
    if !query.is_scoped() && query.reasons.is_empty() {
        return Ok(None);
    }
    let row = row_at_end(session, text, conditions, query.limit.max(1)).await?;
    let end = row.map(|row| some_number(&row, 0)).transpose()?;
    if let Some(end) = end {
        conditions.push_code(&format!(" AND seq <= {end}"));
    }
    push_scope(conditions, query);
    Ok(end)
}

/// Adds the condition that a row is of the tenant and of the operation, byte for byte: texts that are compared as texts
/// lose the spaces at their ends.
fn push_scope(conditions: &mut Literal, query: &ListQuery) {
    let parts = [("tenant", &query.tenant), ("operation", &query.operation)];
    for (column, wanted) in parts {
        if let Some(wanted) = wanted {
            conditions.push_code(&format!(" AND CAST({column} AS BINARY) = "));
            conditions.push_bytes(wanted.as_bytes());
        }
    }
}

/// Reads the row number in a cursor.
pub(crate) fn sequence(after: Option<&Bytes>) -> Result<u64> {
    let Some(bytes) = after else { return Ok(0) };
    let seq = <[u8; 8]>::try_from(&**bytes).map_err(|_| foreign_cursor())?;
    Ok(u64::from_be_bytes(seq))
}

/// Returns the cursor behind a row.
pub(crate) fn cursor(seq: u64) -> Bytes {
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
