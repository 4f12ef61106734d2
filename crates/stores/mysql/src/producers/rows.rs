//! Rows of the journal as the statements return them.

use mysql_async::Row;
use semel_core::producer::row::{ProducerRow, StreamRow};
use semel_core::producer::{InputMark, ProducerEntry, ProducerName, StoredBatch, StreamEntry};
use semel_core::{Result, Timestamp};

use crate::answer::{Set, owned, some_number, some_text};
use crate::error::damaged;

/// Reads the producer and the stream from the answers to the questions for them.
pub(crate) fn producer(producer: &Set, stream: &Set) -> Result<Option<ProducerRow>> {
    let Some(row) = producer.rows.first() else {
        return Ok(None);
    };
    let stream = stream.rows.first().map(|row| {
        Ok::<_, semel_core::Error>(StreamRow {
            next: some_number(row, 0)?,
            confirmed: some_number(row, 1)?,
            released: some_number(row, 2)?,
        })
    });
    Ok(Some(ProducerRow {
        id: some_text(row, 0)?,
        epoch: some_number(row, 1)?,
        is_frozen: some_number(row, 2)? != 0,
        stream: stream.transpose()?,
    }))
}

/// Reads a batch.
pub(crate) fn stored_batch(row: &Row) -> Result<StoredBatch> {
    let (first, last) = (some_number(row, 0)?, some_number(row, 1)?);
    let count = (last + 1).saturating_sub(first);
    Ok(StoredBatch {
        first,
        count: u32::try_from(count).unwrap_or(u32::MAX),
        at: Timestamp::from_millis(some_number(row, 2)?),
        body: owned(row, 3)?.ok_or_else(|| damaged("batch of a producer"))?,
    })
}

/// Reads the progress in an input.
pub(crate) fn mark(row: &Row, digest: [u8; 32]) -> Result<InputMark> {
    Ok(InputMark {
        digest,
        rows: some_number(row, 0)?,
        bytes: some_number(row, 1)?,
        is_whole: some_number(row, 2)? != 0,
    })
}

/// Reads the producers, each with its streams, by names that `named` reads.
pub(crate) fn entries(
    rows: &[Row],
    named: impl Fn(&str) -> Result<ProducerName>,
) -> Result<Vec<ProducerEntry>> {
    let mut entries: Vec<ProducerEntry> = Vec::new();
    for row in rows {
        let name = some_text(row, 0)?;
        if entries.last().is_none_or(|it| *it.name.as_str() != *name) {
            entries.push(ProducerEntry {
                name: named(&name)?,
                id: some_text(row, 1)?,
                epoch: some_number(row, 2)?,
                is_frozen: some_number(row, 3)? != 0,
                streams: Vec::new(),
                damage: None,
            });
        }
        if let Some(entry) = entries.last_mut() {
            entry.streams.push(StreamEntry {
                stream: some_text(row, 4)?,
                target: some_text(row, 5)?,
                next: some_number(row, 6)?,
                confirmed: some_number(row, 7)?,
                released: some_number(row, 8)?,
            });
        }
    }
    Ok(entries)
}

/// A number that its column holds.
pub(crate) fn stored(number: u64) -> u64 {
    number.min(i64::MAX.unsigned_abs())
}
