//! The verbs of operators over dead messages, and the counts of what waits.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, ToSql, params};
use semel_core::outbox::{OutboxId, Outgoing, headers_of_json};
use semel_core::port::outbox::operations::{
    Backlog, Changed, DeadMessage, DeadOrder, DeadPosition, MOST_COUNTED, OutboxOperations,
    WholeDeadMessage,
};
use semel_core::{Audited, Key, Note, Result, Timestamp};

use super::messages::{id_of, partition, payload_of, text};
use super::{SqliteOutboxStore, now};
use crate::error::undone;
use crate::{row, sql};

impl OutboxOperations for SqliteOutboxStore {
    async fn dead(
        &self,
        stream: &str,
        after: Option<&DeadPosition>,
        most: u32,
    ) -> Result<Vec<DeadMessage>> {
        let (stream, after): (Box<str>, _) = (stream.into(), after.cloned());
        self.read(move |connection| dead(connection, &stream, after.as_ref(), most))
            .await
    }

    async fn dead_whole(&self, stream: &str, id: OutboxId) -> Result<Option<WholeDeadMessage>> {
        let stream: Box<str> = stream.into();
        self.read(move |connection| {
            let mut whole_one = connection
                .prepare_cached(sql::OUTBOX_DEAD_WHOLE)
                .map_err(undone)?;
            let values = params![stream, id.as_u128().to_be_bytes()];
            let mut rows = whole_one.query(values).map_err(undone)?;
            let row = rows.next().map_err(undone)?;
            row.map(whole).transpose()
        })
        .await
    }

    async fn order_dead(
        &self,
        stream: &str,
        ids: &[OutboxId],
        order: DeadOrder,
        note: Option<&Note>,
    ) -> Result<Changed> {
        let (stream, ids, note): (Box<str>, _, _) = (stream.into(), ids.to_vec(), note.cloned());
        self.write(move |connection| order_dead(connection, &stream, &ids, order, note.as_ref()))
            .await
    }

    async fn backlog(&self, stream: &str) -> Result<Backlog> {
        let stream: Box<str> = stream.into();
        self.read(move |connection| backlog(connection, &stream))
            .await
    }
}

fn dead(
    connection: &Connection,
    stream: &str,
    after: Option<&DeadPosition>,
    most: u32,
) -> Result<Vec<DeadMessage>> {
    let after_key = after.and_then(|it| it.order_key.as_deref());
    if after_key.is_none() {
        let place = after.map_or(i64::MIN, |it| it.place);
        let found = page(connection, sql::OUTBOX_DEAD, params![stream, place, most])?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    // No order key comes before the empty one, and none of its places before this.
    let (key, place) = match (after_key, after) {
        (Some(key), Some(after)) => (key, after.place),
        _ => ("", i64::MIN),
    };
    let values = params![stream, key, place, most];
    page(connection, sql::OUTBOX_DEAD_KEYED, values)
}

fn page(connection: &Connection, text: &str, values: &[&dyn ToSql]) -> Result<Vec<DeadMessage>> {
    let mut statement = connection.prepare_cached(text).map_err(undone)?;
    let mut rows = statement.query(values).map_err(undone)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(undone)? {
        found.push(facts(row)?);
    }
    Ok(found)
}

fn order_dead(
    connection: &Connection,
    stream: &str,
    ids: &[OutboxId],
    order: DeadOrder,
    note: Option<&Note>,
) -> Result<Changed> {
    let text = match order {
        DeadOrder::TryAgain => sql::OUTBOX_TRY_AGAIN,
        DeadOrder::Drop => sql::OUTBOX_DROP,
    };
    let is_audited = note.is_some() && has_audit(connection)?;
    let at = timestamp(now(connection)?);
    let mut change = connection.prepare_cached(text).map_err(undone)?;
    let mut count = 0;
    for id in ids {
        let bytes = id.as_u128().to_be_bytes();
        if change.execute(params![stream, bytes]).map_err(undone)? == 0 {
            continue;
        }
        count += 1;
        if let Some(note) = note.filter(|_| is_audited) {
            put_on_trail(connection, &order.audited(stream, *id, note, at))?;
        }
    }
    Ok(Changed { count, is_audited })
}

fn has_audit(connection: &Connection) -> Result<bool> {
    let mut audit = connection
        .prepare_cached(sql::OUTBOX_AUDIT)
        .map_err(undone)?;
    let count: i64 = audit.query_row([], |row| row.get(0)).map_err(undone)?;
    Ok(count > 0)
}

/// Adds an entry without a scope to the trail of the store in this file.
fn put_on_trail(connection: &Connection, entry: &Audited) -> Result<()> {
    let mut add = connection.prepare_cached(sql::AUDIT_ADD).map_err(undone)?;
    let added = add.execute(params![
        row::millis(entry.at),
        entry.note.by,
        entry.note.reason,
        entry.action,
        None::<i64>,
        entry.key.as_ref().map(Key::as_str),
        entry.before,
        entry.after,
    ]);
    added.map(drop).map_err(undone)
}

fn backlog(connection: &Connection, stream: &str) -> Result<Backlog> {
    let now = now(connection)?;
    let backlog = connection.prepare_cached(sql::OUTBOX_BACKLOG);
    let mut backlog = backlog.map_err(undone)?;
    let counts = backlog.query_row(params![stream, MOST_COUNTED], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    });
    let (unpublished, dead, written): (i64, i64, Option<i64>) = counts.map_err(undone)?;
    let waiting = (unpublished - dead).clamp(0, i64::from(MOST_COUNTED));
    Ok(Backlog {
        waiting: number(waiting),
        dead: number(dead),
        oldest: written.map(|at| Duration::from_millis(number(now.saturating_sub(at)))),
    })
}

fn facts(row: &Row<'_>) -> Result<DeadMessage> {
    let cell = |column| row.get_ref(column).map_err(undone);
    let whole = |column| row.get::<_, i64>(column).map_err(undone);
    Ok(DeadMessage {
        id: id_of(cell(0)?)?,
        order_key: text(cell(1)?)?,
        place: whole(2)?,
        attempts: u32::try_from(whole(3)?).unwrap_or(0),
        error: text(cell(4)?)?
            .map(|it| Box::from(&*it))
            .unwrap_or_default(),
        created_at: timestamp(time(cell(5)?)),
        dead_at: timestamp(time(cell(6)?)),
        size_bytes: number(whole(7)?),
    })
}

fn whole(row: &Row<'_>) -> Result<WholeDeadMessage> {
    let facts = facts(row)?;
    let headers = text(row.get_ref(8).map_err(undone)?)?;
    let payload: Bytes = payload_of(row.get_ref(9).map_err(undone)?)?;
    let message = Outgoing {
        id: facts.id,
        partition: partition(facts.order_key.as_deref(), facts.id),
        place: facts.place,
        order_key: facts.order_key.clone(),
        headers: headers.map_or(Ok(Vec::new()), |headers| headers_of_json(&headers)),
        payload,
        attempts: facts.attempts,
    };
    Ok(WholeDeadMessage { facts, message })
}

/// Reads a time, which others wrote: what is no number is the beginning of 1970.
fn time(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Integer(millis) => millis,
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => 0,
    }
}

fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(number(millis))
}

fn number(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
