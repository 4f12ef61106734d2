//! The values of the journal, and the answers of its scripts.

use semel_core::producer::row::{ProducerRow, StreamRow};
use semel_core::producer::{InputMark, ProducerEntry, ProducerName, StoredBatch, StreamEntry};
use semel_core::{Result, Timestamp};

use crate::error::damaged;
use crate::session::Reply;
use crate::wire::{In, Out};

/// Reads a producer and one of its streams, with the target of the stream.
pub(super) fn state(reply: &mut Reply) -> Result<(Option<ProducerRow>, String)> {
    let (producer, stream) = (reply.bytes()?, reply.bytes()?);
    if producer.is_empty() {
        return Ok((None, String::new()));
    }
    let (epoch, is_frozen, id) = read_producer(&producer)?;
    let read = if stream.is_empty() {
        None
    } else {
        Some(read_stream(&stream)?)
    };
    let target = read.as_ref().map(|(_, target)| (*target).to_owned());
    let row = ProducerRow {
        id: id.into(),
        epoch,
        is_frozen,
        stream: read.map(|(row, _)| row),
    };
    Ok((Some(row), target.unwrap_or_default()))
}

/// Reads a batch.
pub(super) fn batch(reply: &mut Reply) -> Result<StoredBatch> {
    let (entry, meta, body) = (reply.bytes()?, reply.bytes()?, reply.bytes()?);
    let read = || {
        let last: u64 = std::str::from_utf8(&entry)
            .ok()?
            .split('-')
            .next()?
            .parse()
            .ok()?;
        let mut meta = In(&meta);
        let (count, at) = (meta.u32()?, meta.u64()?);
        Some(StoredBatch {
            first: last.checked_add(1)?.checked_sub(u64::from(count))?,
            count,
            at: Timestamp::from_millis(at),
            body: body.into(),
        })
    };
    read().ok_or_else(|| damaged("batch of a producer"))
}

/// Writes the progress in an input, behind its place.
pub(super) fn mark(input: &InputMark) -> Vec<u8> {
    let mut out = Out::with_capacity(17);
    out.u64(input.rows);
    out.u64(input.bytes);
    out.u8(input.is_whole.into());
    out.0
}

/// Reads what is stored of an input; nothing if there is nothing.
pub(super) fn stored_mark(value: &[u8], digest: [u8; 32]) -> Result<Option<InputMark>> {
    if value.is_empty() {
        return Ok(None);
    }
    let mut value = In(value);
    let mut read = || {
        let _place = value.u64()?;
        Some(InputMark {
            digest,
            rows: value.u64()?,
            bytes: value.u64()?,
            is_whole: value.u8()? != 0,
        })
    };
    read()
        .map(Some)
        .ok_or_else(|| damaged("input of a producer"))
}

/// Reads a producer with its streams, by name.
pub(super) fn entry(
    name: ProducerName,
    value: &[u8],
    streams: &[(Vec<u8>, Vec<u8>)],
) -> Result<ProducerEntry> {
    let (epoch, is_frozen, id) = read_producer(value)?;
    let streams = streams.iter().map(|(stream, value)| {
        let stream = std::str::from_utf8(stream).map_err(|_| damaged("stream of a producer"))?;
        let (row, target) = read_stream(value)?;
        Ok(StreamEntry {
            stream: stream.into(),
            target: target.into(),
            next: row.next,
            confirmed: row.confirmed,
            released: row.released,
        })
    });
    let mut streams = streams.collect::<Result<Vec<_>>>()?;
    streams.sort_by(|one, other| one.stream.cmp(&other.stream));
    Ok(ProducerEntry {
        name,
        id: id.into(),
        epoch,
        is_frozen,
        streams,
        damage: None,
    })
}

fn read_producer(value: &[u8]) -> Result<(u64, bool, &str)> {
    let mut input = In(value);
    let mut read = || {
        let (epoch, frozen) = (input.u64()?, input.u8()?);
        Some((epoch, frozen != 0, std::str::from_utf8(input.0).ok()?))
    };
    read().ok_or_else(|| damaged("producer"))
}

fn read_stream(value: &[u8]) -> Result<(StreamRow, &str)> {
    let mut input = In(value);
    let mut read = || {
        let row = StreamRow {
            next: input.u64()?,
            confirmed: input.u64()?,
            released: input.u64()?,
        };
        let _place = input.u64()?;
        Some((row, std::str::from_utf8(input.0).ok()?))
    };
    read().ok_or_else(|| damaged("stream of a producer"))
}
