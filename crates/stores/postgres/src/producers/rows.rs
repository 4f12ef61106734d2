//! Rows of the journal as the statements return them.

use bytes::Bytes;
use deadpool_postgres::tokio_postgres::Row;
use semel_core::producer::row::{ProducerRow, StreamRow};
use semel_core::producer::{InputMark, ProducerEntry, ProducerName, StoredBatch, StreamEntry};
use semel_core::{Result, Timestamp};

use crate::connection::Cells;
use crate::error::undone;
use crate::failure::Failure;

/// Reads the state in the first six columns.
pub(crate) fn producer(row: &Row) -> Result<ProducerRow, Failure> {
    let id: &str = Cells::try_get(row, 0)?;
    let next: Option<i64> = Cells::try_get(row, 3)?;
    let (confirmed, released): (Option<i64>, Option<i64>) =
        (Cells::try_get(row, 4)?, Cells::try_get(row, 5)?);
    Ok(ProducerRow {
        id: id.into(),
        epoch: number(Cells::try_get(row, 1)?),
        is_frozen: Cells::try_get(row, 2)?,
        stream: next.map(|next| StreamRow {
            next: number(next),
            confirmed: confirmed.map_or(0, number),
            released: released.map_or(0, number),
        }),
    })
}

/// Tells whether the statement wrote anything.
pub(crate) fn was_written(row: &Row) -> Result<bool, Failure> {
    Cells::try_get(row, 6)
}

/// Reads the batch behind the state, from this column on, if there is one.
pub(crate) fn stored_batch(row: &Row, column: usize) -> Result<Option<StoredBatch>, Failure> {
    let first: Option<i64> = Cells::try_get(row, column)?;
    let Some(first) = first else { return Ok(None) };
    let (last, at): (i64, i64) = (
        Cells::try_get(row, column + 1)?,
        Cells::try_get(row, column + 2)?,
    );
    let body: &[u8] = Cells::try_get(row, column + 3)?;
    Ok(Some(StoredBatch {
        first: number(first),
        count: u32::try_from(last - first + 1).unwrap_or(u32::MAX),
        at: Timestamp::from_millis(number(at)),
        body: Bytes::copy_from_slice(body),
    }))
}

/// Reads the progress in an input behind the state, if there is any.
pub(crate) fn mark(row: &Row, digest: [u8; 32]) -> Result<Option<InputMark>, Failure> {
    let rows: Option<i64> = Cells::try_get(row, 6)?;
    let Some(rows) = rows else { return Ok(None) };
    Ok(Some(InputMark {
        digest,
        rows: number(rows),
        bytes: number(Cells::try_get(row, 7)?),
        is_whole: Cells::try_get(row, 8)?,
    }))
}

/// Reads the producers, each with its streams, by names that `named` reads.
pub(crate) fn entries(
    rows: &[Row],
    named: impl Fn(&str) -> Result<ProducerName>,
) -> Result<Vec<ProducerEntry>> {
    let mut entries: Vec<ProducerEntry> = Vec::new();
    for row in rows {
        let text = |column| Cells::try_get::<&str>(row, column).map_err(undone);
        let whole = |column| Cells::try_get(row, column).map(number).map_err(undone);
        let name = text(0)?;
        if entries.last().is_none_or(|it| it.name.as_str() != name) {
            entries.push(ProducerEntry {
                name: named(name)?,
                id: text(1)?.into(),
                epoch: whole(2)?,
                is_frozen: Cells::try_get(row, 3).map_err(undone)?,
                streams: Vec::new(),
                damage: None,
            });
        }
        if let Some(entry) = entries.last_mut() {
            entry.streams.push(StreamEntry {
                stream: text(4)?.into(),
                target: text(5)?.into(),
                next: whole(6)?,
                confirmed: whole(7)?,
                released: whole(8)?,
            });
        }
    }
    Ok(entries)
}

pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn number(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}
