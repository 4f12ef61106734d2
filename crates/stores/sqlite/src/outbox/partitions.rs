//! The division of a stream's partitions among the processes that relay it.

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use semel_core::Result;
use semel_core::outbox::{Holder, PARTITIONS, PartitionLease, Share};
use semel_core::port::outbox::RelayName;

use super::now;
use crate::error::{corrupt, undone};
use crate::sql;

/// Divides the partitions within a transaction that writes: no other process does meanwhile.
pub(super) fn balance(
    connection: &Connection,
    relay: &RelayName,
    lease_millis: i64,
) -> Result<Vec<PartitionLease>> {
    let now = now(connection)?;
    let until = now.saturating_add(lease_millis);
    let RelayName {
        name,
        stream,
        sink,
        process,
    } = relay;
    let text = |text: &'static str| connection.prepare_cached(text).map_err(undone);
    let (by, to): (String, String) = text(sql::OUTBOX_RELAY)?
        .query_row(params![stream, name, sink], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .map_err(undone)?;
    let others: i64 = text(sql::OUTBOX_PROCESSES)?
        .query_row(params![stream, process, now], |row| row.get(0))
        .map_err(undone)?;
    if (&*by, &*to) != (&**name, &**sink) {
        if others > 0 {
            return Err(relay.refused_by(&by, &to));
        }
        let mut adopt = text(sql::OUTBOX_ADOPT)?;
        adopt.execute(params![stream, name, sink]).map_err(undone)?;
    }
    let mut gone = text(sql::OUTBOX_GONE)?;
    gone.execute(params![stream, now]).map_err(undone)?;
    let mut beat = text(sql::OUTBOX_BEAT)?;
    beat.execute(params![stream, process, until])
        .map_err(undone)?;
    let share = Share::of(
        &holders(connection, relay, now)?,
        usize::try_from(others).unwrap_or(0) + 1,
    );
    let mut give = text(sql::OUTBOX_GIVE)?;
    for partition in share.give {
        give.execute(params![stream, process, partition])
            .map_err(undone)?;
    }
    let mut hold = text(sql::OUTBOX_HOLD)?;
    let mut leases = Vec::with_capacity(usize::from(PARTITIONS));
    for partition in [share.keep, share.take].concat() {
        let token = hold
            .query_row(params![stream, process, partition, now, until], |row| {
                row.get(0)
            })
            .optional()
            .map_err(undone)?;
        leases.extend(token.map(|token| PartitionLease { partition, token }));
    }
    Ok(leases)
}

fn holders(connection: &Connection, relay: &RelayName, now: i64) -> Result<Vec<Holder>> {
    let text = |text: &'static str| connection.prepare_cached(text).map_err(undone);
    let mut ask = text(sql::OUTBOX_HOLDERS)?;
    let holders = |ask: &mut CachedStatement<'_>| {
        let rows = ask.query_map(params![relay.stream, relay.process, now], |row| {
            Ok(match row.get(0)? {
                0 => Holder::Own,
                1 => Holder::Nobody,
                _ => Holder::Other,
            })
        });
        let rows = rows.map_err(undone)?;
        rows.collect::<rusqlite::Result<Vec<_>>>().map_err(undone)
    };
    let mut found = holders(&mut ask)?;
    if found.is_empty() {
        let mut add = text(sql::OUTBOX_PARTS)?;
        for partition in 0..PARTITIONS {
            add.execute(params![relay.stream, partition])
                .map_err(undone)?;
        }
        found = holders(&mut ask)?;
    }
    if found.len() != usize::from(PARTITIONS) {
        return Err(corrupt("partition of an outbox"));
    }
    Ok(found)
}

/// Renews what a process holds, and says that it is there.
pub(super) fn renew(
    connection: &Connection,
    relay: &RelayName,
    lease_millis: i64,
) -> Result<Vec<PartitionLease>> {
    let now = now(connection)?;
    let until = now.saturating_add(lease_millis);
    let text = |text: &'static str| connection.prepare_cached(text).map_err(undone);
    let values = params![relay.stream, relay.process, now, until];
    let mut alive = text(sql::OUTBOX_ALIVE)?;
    alive.execute(values).map_err(undone)?;
    leases(text(sql::OUTBOX_RENEW)?, values)
}

/// Returns the leases of a process that are good now.
pub(super) fn held(
    connection: &Connection,
    relay: &RelayName,
    now: i64,
) -> Result<Vec<PartitionLease>> {
    let held = connection.prepare_cached(sql::OUTBOX_HELD);
    let values = params![relay.stream, relay.process, now];
    leases(held.map_err(undone)?, values)
}

fn leases(
    mut statement: CachedStatement<'_>,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<PartitionLease>> {
    let rows = statement.query_map(values, |row| {
        Ok(PartitionLease {
            partition: row.get(0)?,
            token: row.get(1)?,
        })
    });
    let leases = rows.and_then(Iterator::collect);
    leases.map_err(undone)
}

/// Gives every partition back.
pub(super) fn leave(connection: &Connection, relay: &RelayName) -> Result<()> {
    for text in [sql::OUTBOX_LEAVE, sql::OUTBOX_LEFT] {
        let mut leave = connection.prepare_cached(text).map_err(undone)?;
        let left = leave.execute(params![relay.stream, relay.process]);
        left.map_err(undone)?;
    }
    Ok(())
}
