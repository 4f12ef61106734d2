//! The messages: reading those that are to be published, and recording what became of them.

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};
use semel_core::outbox::{OutboxId, Outgoing, PARTITIONS, PartitionLease, headers_of_json};
use semel_core::port::outbox::{MOST_BATCH_BYTES, OutboxContents, RelayName, Unsent};
use semel_core::{ByteString, Result};

use super::{millis, now, partitions};
use crate::error::{corrupt, undone};
use crate::sql;

/// Reads what is to be published, of the partitions whose lease is still that of the caller.
pub(super) fn pending(
    connection: &Connection,
    relay: &RelayName,
    leases: &[PartitionLease],
    most: u32,
) -> Result<Vec<Outgoing>> {
    let now = now(connection)?;
    let mut held = partitions::held(connection, relay, now)?;
    held.retain(|lease| leases.contains(lease));
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut pending = Vec::new();
    let mut bytes = 0;
    let statement = connection.prepare_cached(sql::OUTBOX_PENDING);
    let mut statement = statement.map_err(undone)?;
    let mut rows = statement
        .query(params![relay.stream, now])
        .map_err(undone)?;
    while pending.len() < most && bytes < MOST_BATCH_BYTES {
        let Some(row) = rows.next().map_err(undone)? else {
            break;
        };
        let id = id_of(row.get_ref(0).map_err(undone)?)?;
        let key = text(row.get_ref(2).map_err(undone)?)?;
        let partition = partition(key.as_deref(), id);
        if held.iter().any(|lease| lease.partition == partition) {
            let outgoing = outgoing(row, id, key, partition)?;
            bytes += i64::try_from(outgoing.payload.len()).unwrap_or(i64::MAX);
            pending.push(outgoing);
        }
    }
    Ok(pending)
}

fn outgoing(
    row: &Row<'_>,
    id: OutboxId,
    order_key: Option<ByteString>,
    partition: u16,
) -> Result<Outgoing> {
    let headers = text(row.get_ref(3).map_err(undone)?)?;
    let payload = payload_of(row.get_ref(5).map_err(undone)?)?;
    Ok(Outgoing {
        id,
        partition,
        place: row.get(1).map_err(undone)?,
        order_key,
        headers: headers.map_or(Ok(Vec::new()), |headers| headers_of_json(&headers)),
        payload,
        attempts: row.get(4).map_err(undone)?,
    })
}

/// Reads a payload, which is bytes or a text.
pub(super) fn payload_of(value: ValueRef<'_>) -> Result<Bytes> {
    match value {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(Bytes::copy_from_slice(bytes)),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => {
            Err(corrupt("payload of an outbox"))
        }
    }
}

/// Returns the partition of a message: that of its order key, or else of its id.
pub(super) fn partition(order_key: Option<&str>, id: OutboxId) -> u16 {
    let own = id.as_u128().to_be_bytes();
    let bytes = order_key.map_or(&own[..], str::as_bytes);
    // FNV-1a, folded: its lowest bits alone are weak.
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = bytes.iter().fold(0x811c_9dc5, mix);
    let folded = (hash ^ (hash >> 16)) % u32::from(PARTITIONS);
    u16::try_from(folded).unwrap_or(0)
}

pub(super) fn id_of(value: ValueRef<'_>) -> Result<OutboxId> {
    let bytes: Option<[u8; 16]> = match value {
        ValueRef::Blob(bytes) => bytes.try_into().ok(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) => None,
    };
    let bytes = bytes.ok_or_else(|| corrupt("id of an outbox"))?;
    Ok(OutboxId::from_u128(u128::from_be_bytes(bytes)))
}

/// Reads a text, which others wrote: what is no UTF-8 is replaced.
pub(super) fn text(value: ValueRef<'_>) -> Result<Option<ByteString>> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => Ok(Some(String::from_utf8_lossy(bytes).into_owned().into())),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(corrupt("text of an outbox"))
        }
    }
}

/// Removes published messages, or marks them.
pub(super) fn sent(connection: &Connection, ids: &[OutboxId], keep: bool) -> Result<u64> {
    let now = now(connection)?;
    let text = if keep {
        sql::OUTBOX_KEPT
    } else {
        sql::OUTBOX_SENT
    };
    let mut record = connection.prepare_cached(text).map_err(undone)?;
    let mut count = 0;
    for id in ids {
        let id = id.as_u128().to_be_bytes();
        let recorded = if keep {
            record.execute(params![id, now])
        } else {
            record.execute([id])
        };
        count += recorded.map_err(undone)?;
    }
    Ok(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Puts messages off or gives them up, those whose partition is still leased to the caller; returns which.
pub(super) fn put_off(
    connection: &Connection,
    relay: &RelayName,
    unsent: &[Unsent],
) -> Result<Vec<OutboxId>> {
    let now = now(connection)?;
    let held = partitions::held(connection, relay, now)?;
    let mut key = connection.prepare_cached(sql::OUTBOX_KEY).map_err(undone)?;
    let update = connection.prepare_cached(sql::OUTBOX_PUT_OFF);
    let mut update = update.map_err(undone)?;
    let mut changed = Vec::new();
    let is_held = |it: &&Unsent| held.contains(&it.lease) || semel_core::planted("X15");
    for it in unsent.iter().filter(is_held) {
        let id = it.id.as_u128().to_be_bytes();
        let key = key
            .query_row(params![id, relay.stream], |row| Ok(text(row.get_ref(0)?)))
            .optional()
            .map_err(undone)?;
        let Some(key) = key.transpose()? else {
            continue;
        };
        if partition(key.as_deref(), it.id) != it.lease.partition {
            continue;
        }
        let due = it
            .wait
            .map_or(i64::MAX, |wait| now.saturating_add(millis(wait)));
        let dead = it.wait.is_none().then_some(now);
        // People read it with tools that end a text there.
        let error = it.error.replace('\0', "");
        let values = params![id, it.counted, error, due, dead];
        if update.execute(values).map_err(undone)? > 0 {
            changed.push(it.id);
        }
    }
    Ok(changed)
}

/// Tells whether anything was published longer ago than this.
pub(super) fn is_old(connection: &Connection, stream: &str, millis: i64) -> Result<bool> {
    let before = now(connection)?.saturating_sub(millis);
    let mut old = connection.prepare_cached(sql::OUTBOX_OLD).map_err(undone)?;
    old.query_row(params![stream, before], |row| row.get(0))
        .map_err(undone)
}

/// Removes what was published longer ago than this.
pub(super) fn forget(connection: &Connection, stream: &str, millis: i64, most: u32) -> Result<u64> {
    let before = now(connection)?.saturating_sub(millis);
    let forget = connection.prepare_cached(sql::OUTBOX_FORGET);
    let count = forget
        .and_then(|mut forget| forget.execute(params![stream, before, most]))
        .map_err(undone)?;
    Ok(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Counts what is not published.
pub(super) fn contents(connection: &Connection, stream: &str) -> Result<OutboxContents> {
    let streams = connection.prepare_cached(sql::OUTBOX_STREAMS);
    let mut streams = streams.map_err(undone)?;
    let mut rows = streams.query([]).map_err(undone)?;
    let mut contents = OutboxContents::default();
    while let Some(row) = rows.next().map_err(undone)? {
        let name = text(row.get_ref(0).map_err(undone)?)?.unwrap_or_default();
        if *name == *stream {
            let count = |column| {
                let count: i64 = row.get(column).map_err(undone)?;
                Ok(u64::try_from(count).unwrap_or(0))
            };
            (contents.waiting, contents.dead) = (count(1)?, count(2)?);
        } else {
            let relay = row.get(3).map_err(undone)?;
            contents.others.push((name.to_string(), relay));
        }
    }
    Ok(contents)
}
