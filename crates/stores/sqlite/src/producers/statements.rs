//! The calls of the journal, each within a transaction that its caller began.

use bytes::Bytes;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use semel_core::producer::ledger::{not_next, not_opened};
use semel_core::producer::{
    Batch, Incarnation, InputMark, MOST_INPUTS, Opened, Opening, Page, ProducerEntry, ProducerName,
    ProducerOrder, Standing, StoredBatch, StreamEntry,
};
use semel_core::{Error, ErrorKind, Result, Timestamp};

use crate::error::undone;
use crate::sql;

pub(super) fn text<'c>(
    connection: &'c Connection,
    text: &'static str,
) -> Result<CachedStatement<'c>> {
    connection.prepare_cached(text).map_err(undone)
}

/// A stream as its row has it.
pub(super) struct Stream {
    target: String,
    pub(super) next: u64,
    pub(super) confirmed: u64,
    pub(super) released: u64,
}

pub(super) fn stream(
    connection: &Connection,
    producer: &str,
    stream: &str,
) -> Result<Option<Stream>> {
    let found = text(connection, sql::PRODUCER_STREAM)?
        .query_row(params![producer, stream], |row| {
            Ok(Stream {
                target: row.get(0)?,
                next: number(row.get(1)?),
                confirmed: number(row.get(2)?),
                released: number(row.get(3)?),
            })
        })
        .optional();
    found.map_err(undone)
}

pub(super) fn open(connection: &Connection, opening: &Opening) -> Result<Opened> {
    let name = opening.name.as_str();
    let found = stream(connection, name, &opening.stream)?;
    if let Some(found) = &found {
        let waiting = found.next.saturating_sub(1).saturating_sub(found.confirmed);
        if *found.target != *opening.target && waiting > 0 {
            return Err(opening.elsewhere(&found.target, waiting));
        }
    }
    let (id, epoch, is_frozen): (String, i64, bool) = text(connection, sql::PRODUCER_OPEN)?
        .query_row(params![name, &*opening.id()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .map_err(undone)?;
    text(connection, sql::PRODUCER_STREAM_OPEN)?
        .execute(params![name, &*opening.stream, &*opening.target])
        .map_err(undone)?;
    let (next, confirmed, released) =
        found.map_or((1, 0, 0), |it| (it.next, it.confirmed, it.released));
    Ok(Opened {
        incarnation: Incarnation {
            name: opening.name.clone(),
            id: id.into(),
            epoch: number(epoch),
        },
        next,
        standing: Standing {
            confirmed,
            limit: is_frozen.then_some(released),
        },
    })
}

/// Refuses an incarnation that is not the latest; returns whether the producer is frozen.
fn check(connection: &Connection, incarnation: &Incarnation) -> Result<bool> {
    let found = text(connection, sql::PRODUCER_GET)?
        .query_row([incarnation.name.as_str()], |row| {
            Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()
        .map_err(undone)?;
    let (id, epoch, is_frozen) = found.unwrap_or_default();
    let epoch = number(epoch);
    if (&*id, epoch) != (&*incarnation.id, incarnation.epoch) && !semel_core::planted("X17") {
        return Err(incarnation.fenced_by(epoch));
    }
    Ok(is_frozen)
}

/// Returns the state of a stream, and the row.
fn checked(
    connection: &Connection,
    incarnation: &Incarnation,
    of: &str,
) -> Result<(Stream, Standing)> {
    let is_frozen = check(connection, incarnation)?;
    let name = &incarnation.name;
    let found = stream(connection, name.as_str(), of)?.ok_or_else(|| not_opened(name, of))?;
    let standing = Standing {
        confirmed: found.confirmed,
        limit: is_frozen.then_some(found.released),
    };
    Ok((found, standing))
}

pub(super) fn standing(
    connection: &Connection,
    incarnation: &Incarnation,
    of: &str,
) -> Result<Standing> {
    checked(connection, incarnation, of).map(|(_, standing)| standing)
}

pub(super) fn append(
    connection: &Connection,
    incarnation: &Incarnation,
    of: &str,
    batch: &Batch,
) -> Result<Standing> {
    let (found, standing) = checked(connection, incarnation, of)?;
    if batch.first != found.next {
        if batch.count > 0 && batch.end() == found.next {
            return Ok(standing);
        }
        return Err(not_next(batch.first, found.next));
    }
    let name = incarnation.name.as_str();
    let confirmed = put(connection, name, of, batch)?;
    Ok(Standing {
        confirmed: standing.confirmed.max(confirmed),
        ..standing
    })
}

/// Writes the rows of a batch that was found to be the next.
pub(super) fn put(connection: &Connection, name: &str, of: &str, batch: &Batch) -> Result<u64> {
    if batch.count > 0 {
        text(connection, sql::PRODUCER_APPEND)?
            .execute(params![
                name,
                of,
                stored(batch.first),
                batch.count,
                stored(batch.at.as_millis()),
                &*batch.body
            ])
            .map_err(undone)?;
    }
    if let Some(input) = batch.input {
        let InputMark {
            digest,
            rows,
            bytes,
            is_whole,
        } = input;
        let (rows, bytes) = (stored(rows), stored(bytes));
        text(connection, sql::PRODUCER_INPUT_SET)?
            .execute(params![name, of, digest, rows, bytes, is_whole])
            .map_err(undone)?;
        let kept = i64::try_from(MOST_INPUTS).unwrap_or(i64::MAX);
        text(connection, sql::PRODUCER_INPUT_TRIM)?
            .execute(params![name, of, kept])
            .map_err(undone)?;
    }
    advance(connection, name, of, batch.end(), batch.confirmed)
}

pub(super) fn confirm(
    connection: &Connection,
    incarnation: &Incarnation,
    of: &str,
    through: u64,
) -> Result<Standing> {
    let (found, standing) = checked(connection, incarnation, of)?;
    let name = incarnation.name.as_str();
    let confirmed = advance(connection, name, of, found.next, through)?;
    Ok(Standing {
        confirmed: standing.confirmed.max(confirmed),
        ..standing
    })
}

/// Moves a stream on, and forgets what is confirmed whole.
pub(super) fn advance(
    connection: &Connection,
    name: &str,
    of: &str,
    next: u64,
    confirmed: u64,
) -> Result<u64> {
    let confirmed = confirmed.min(next.saturating_sub(1));
    text(connection, sql::PRODUCER_ADVANCE)?
        .execute(params![name, of, stored(next), stored(confirmed)])
        .map_err(undone)?;
    text(connection, sql::PRODUCER_FORGET)?
        .execute(params![name, of, stored(confirmed)])
        .map_err(undone)?;
    Ok(confirmed)
}

pub(super) fn pending(
    connection: &Connection,
    incarnation: &Incarnation,
    of: &str,
    after: u64,
    most: u32,
) -> Result<Vec<StoredBatch>> {
    let (found, _) = checked(connection, incarnation, of)?;
    let name = incarnation.name.as_str();
    page_behind(connection, name, of, after.max(found.confirmed), most)
}

/// Reads the batches behind a sequence, a page of them.
pub(super) fn page_behind(
    connection: &Connection,
    name: &str,
    of: &str,
    after: u64,
    most: u32,
) -> Result<Vec<StoredBatch>> {
    let mut ask = text(connection, sql::PRODUCER_PENDING)?;
    let mut rows = ask
        .query(params![name, of, stored(after)])
        .map_err(undone)?;
    let (mut batches, mut page) = (Vec::new(), Page::of(most));
    while let Some(row) = rows.next().map_err(undone)? {
        let batch = StoredBatch {
            first: number(row.get(0).map_err(undone)?),
            count: row.get(1).map_err(undone)?,
            at: Timestamp::from_millis(number(row.get(2).map_err(undone)?)),
            body: Bytes::from(row.get::<_, Vec<u8>>(3).map_err(undone)?),
        };
        if !page.takes(batch.count, batch.body.len() as u64) {
            break;
        }
        batches.push(batch);
    }
    Ok(batches)
}

pub(super) fn input(
    connection: &Connection,
    incarnation: &Incarnation,
    of: &str,
    digest: [u8; 32],
) -> Result<Option<InputMark>> {
    check(connection, incarnation)?;
    remembered(connection, incarnation.name.as_str(), of, digest)
}

/// Reads the progress in an input.
pub(super) fn remembered(
    connection: &Connection,
    name: &str,
    of: &str,
    digest: [u8; 32],
) -> Result<Option<InputMark>> {
    let found = text(connection, sql::PRODUCER_INPUT_GET)?
        .query_row(params![name, of, digest], |row| {
            Ok(InputMark {
                digest,
                rows: number(row.get(0)?),
                bytes: number(row.get(1)?),
                is_whole: row.get(2)?,
            })
        })
        .optional();
    found.map_err(undone)
}

/// The names of one journal in the rows, which two share.
pub(super) struct Names {
    /// The beginning of each, before the name of the producer.
    pub(super) prefix: &'static str,
    /// The ranges in which they are, in order: each from a text on, and up to one behind the last.
    pub(super) ranges: &'static [(&'static str, &'static str)],
    /// Reads the name of a producer.
    pub(super) read: fn(&str) -> Result<ProducerName>,
}

/// Reads a page of the producers of these names.
pub(super) fn page(
    connection: &Connection,
    names: &Names,
    after: Option<&ProducerName>,
    most: u32,
) -> Result<Vec<ProducerEntry>> {
    let after = after.map_or_else(String::new, |it| format!("{}{it}", names.prefix));
    let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
    let mut entries = Vec::new();
    for range in names.ranges {
        if entries.len() < most {
            let rest = most - entries.len();
            entries.extend(page_of_range(connection, names, (&after, range), rest)?);
        }
    }
    Ok(entries)
}

fn page_of_range(
    connection: &Connection,
    names: &Names,
    (after, (begin, end)): (&str, &(&str, &str)),
    most: usize,
) -> Result<Vec<ProducerEntry>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut ask = text(connection, sql::PRODUCER_LIST)?;
    let mut rows = ask
        .query(params![after, begin, end, most, names.prefix])
        .map_err(undone)?;
    let mut entries: Vec<ProducerEntry> = Vec::new();
    while let Some(row) = rows.next().map_err(undone)? {
        let words = |column| row.get::<_, String>(column).map_err(undone);
        let whole = |column| row.get::<_, i64>(column).map(number).map_err(undone);
        let name = words(0)?;
        let name = name.strip_prefix(names.prefix).unwrap_or(&name);
        if entries.last().is_none_or(|it| it.name.as_str() != name) {
            entries.push(ProducerEntry {
                name: (names.read)(name).map_err(|_| damaged("name"))?,
                id: words(1)?.into(),
                epoch: whole(2)?,
                is_frozen: row.get(3).map_err(undone)?,
                streams: Vec::new(),
                damage: None,
            });
        }
        if let Some(entry) = entries.last_mut() {
            entry.streams.push(StreamEntry {
                stream: words(4)?.into(),
                target: words(5)?.into(),
                next: whole(6)?,
                confirmed: whole(7)?,
                released: whole(8)?,
            });
        }
    }
    Ok(entries)
}

pub(super) fn order(connection: &Connection, name: &str, order: ProducerOrder) -> Result<bool> {
    let change = |what: &'static str| {
        let changed = text(connection, what)?.execute([name]);
        changed.map_err(undone)
    };
    let freeze = |is_frozen: bool| {
        let frozen = text(connection, sql::PRODUCER_FREEZE)?.execute(params![name, is_frozen]);
        frozen.map_err(undone)
    };
    let count = match order {
        ProducerOrder::Freeze => {
            change(sql::PRODUCER_HOLD)?;
            freeze(true)?
        }
        ProducerOrder::Thaw => freeze(false)?,
        ProducerOrder::Release => change(sql::PRODUCER_RELEASE)?,
    };
    Ok(count > 0)
}

fn damaged(what: &str) -> Error {
    let message = format!(
        "the {what} of a producer in the database file does not check out; go on under another name of a producer: a \
         file that is restored has given out its sequences and ids before"
    );
    Error::new(ErrorKind::Corrupt, message)
}

pub(super) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn number(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}
