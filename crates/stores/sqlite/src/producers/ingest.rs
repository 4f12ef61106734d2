//! The journal of messages that others send here: rows of the journal of producers, under names that no producer of this
//! store has.

mod submissions;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use semel_core::ingest::{GateAnswer, Position, SENDERS_TARGET, Submission, UNNUMBERED};
use semel_core::port::ingest::{Accepted, Forgotten, IngestJournal, Settled, Silence};
use semel_core::producer::{ProducerEntry, ProducerName, ProducerOrder, Standing};
use semel_core::{Result, Timestamp};

use self::submissions::Submissions;
use super::SqliteProducers;
use super::statements::{self, Names, number, stored, text};
use crate::config::Options;
use crate::error::undone;
use crate::sql;

/// The journal of messages that others send, in an SQLite file.
///
/// The first submission makes the file, the tables of a store and those of the journal, as far as they are missing.
/// Submissions that wait at the same time share a transaction.
pub struct SqliteIngest {
    journal: SqliteProducers,
    submissions: Arc<Submissions>,
}

impl SqliteIngest {
    /// Returns the journal in this file, which is opened when it is first used. Needs a tokio runtime.
    ///
    /// # Errors
    /// `InvalidConfig`: the path is empty
    pub fn new(path: &Path, options: Options) -> Result<Self> {
        Ok(Self {
            journal: SqliteProducers::new(path, options)?,
            submissions: Arc::default(),
        })
    }
}

impl IngestJournal for SqliteIngest {
    async fn submit(&self, submission: &Submission) -> Result<GateAnswer> {
        let thread = self.journal.thread().await?;
        self.submissions.submit(thread, submission.clone()).await
    }

    async fn accepted(
        &self,
        producer: &ProducerName,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Option<Accepted>> {
        let (name, of) = (row_name(producer), Box::<str>::from(stream));
        let read = move |connection: &Connection| accepted(connection, &name, &of, after, most);
        self.journal.thread().await?.read(read).await
    }

    async fn settle(&self, producer: &ProducerName, stream: &str, settled: Settled) -> Result<()> {
        let (name, of) = (row_name(producer), Box::<str>::from(stream));
        let settle = move |connection: &Connection| {
            let Settled { begun, through, at } = settled;
            if Times::of(connection, &name, &of)?.begun != begun {
                return Ok(());
            }
            let found = statements::stream(connection, &name, &of)?;
            if let Some(found) = found.filter(|it| it.confirmed < through) {
                statements::advance(connection, &name, &of, found.next, through)?;
                let settled = text(connection, sql::INGEST_SETTLED)?.execute(params![
                    name,
                    of,
                    stored(at.as_millis())
                ]);
                settled.map_err(undone)?;
            }
            Ok(())
        };
        self.journal.thread().await?.write(settle).await
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let after = after.cloned();
        let page = move |connection: &Connection| {
            statements::page(connection, &SENDERS, after.as_ref(), most)
        };
        match self.journal.present().await? {
            Some(thread) => thread.read(page).await,
            None => Ok(Vec::new()),
        }
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let name = row_name(name);
        let order = move |connection: &Connection| statements::order(connection, &name, order);
        match self.journal.present().await? {
            Some(thread) => thread.write(order).await,
            None => Ok(false),
        }
    }

    async fn forget(&self, silence: &Silence) -> Result<Forgotten> {
        let silence = silence.clone();
        let forget = move |connection: &Connection| forget(connection, &silence);
        match self.journal.present().await? {
            Some(thread) => thread.write(forget).await,
            None => Ok(Forgotten::default()),
        }
    }
}

impl fmt::Debug for SqliteIngest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteIngest").field(&self.journal).finish()
    }
}

fn submit(connection: &Connection, submission: &Submission) -> Result<GateAnswer> {
    let producer = submission.producer();
    let (name, of) = (&*row_name(&producer), &*submission.stream);
    let position = position(connection, name, of)?;
    let is_remembered = match submission.digest() {
        Some(digest) => statements::remembered(connection, name, of, *digest)?.is_some(),
        None => false,
    };
    let answer = submission.decide(position, is_remembered);
    let GateAnswer::Taken {
        known, new, next, ..
    } = answer
    else {
        return Ok(answer);
    };
    if position.is_none_or(|it| it.epoch < submission.epoch()) {
        text(connection, sql::PRODUCER_ADOPT)?
            .execute(params![name, producer.as_str(), stored(submission.epoch())])
            .map_err(undone)?;
    }
    if position.and_then(|it| it.next).is_none() {
        let first = stored(submission.first());
        text(connection, sql::PRODUCER_STREAM_ADOPT)?
            .execute(params![name, of, SENDERS_TARGET, first])
            .map_err(undone)?;
    }
    if new > 0 {
        statements::put(connection, name, of, &submission.batch(known, new, next))?;
    }
    if new > 0 || position.is_none_or(|it| it.epoch < submission.epoch() || it.next.is_none()) {
        // A stream that an older version began has no number, and keeps none.
        let is_new = position.and_then(|it| it.next).is_none();
        let begun = if is_new {
            submission.at
        } else {
            Timestamp::EPOCH
        };
        heard(connection, name, of, begun, submission.at, next)?;
    }
    Ok(answer)
}

/// The times of a stream.
#[derive(Clone, Copy, Default)]
struct Times {
    begun: u64,
    heard: Timestamp,
    next: u64,
}

impl Times {
    /// Reads them; a stream of an older version has none.
    fn of(connection: &Connection, name: &str, of: &str) -> Result<Self> {
        let found = text(connection, sql::INGEST_TIMES)?
            .query_row([name, of], |row| {
                Ok(Self {
                    begun: number(row.get(0)?),
                    heard: Timestamp::from_millis(number(row.get(1)?)),
                    next: number(row.get(2)?),
                })
            })
            .optional();
        Ok(found.map_err(undone)?.unwrap_or_default())
    }
}

/// Notes when a message of a stream came; `begun` if it has no times yet.
fn heard(
    connection: &Connection,
    name: &str,
    of: &str,
    begun: Timestamp,
    at: Timestamp,
    next: u64,
) -> Result<()> {
    let [begun, at] = [begun, at].map(|it| stored(it.as_millis()));
    let noted =
        text(connection, sql::INGEST_HEARD)?.execute(params![name, of, begun, at, stored(next)]);
    noted.map(drop).map_err(undone)
}

/// Forgets those of a page that have been silent for long.
fn forget(connection: &Connection, silence: &Silence) -> Result<Forgotten> {
    let after = silence.after.as_ref().map(row_name).unwrap_or_default();
    let names = text(connection, sql::INGEST_PAGE)?
        .query_map(
            params![after, PREFIX, BEHIND_PREFIX, silence.most.max(1)],
            |row| row.get(0),
        )
        .and_then(|rows| rows.collect::<rusqlite::Result<Vec<String>>>())
        .map_err(undone)?;
    let read = |name: &String| ProducerName::of_sender(name.strip_prefix(PREFIX).unwrap_or(name));
    let page: Vec<_> = names.iter().map(read).collect::<Result<_>>()?;
    let mut forgotten = Forgotten::up_to(silence, &page);
    for (name, producer) in names.iter().zip(page) {
        if is_silent(connection, name, &producer, silence)? {
            let of = &*silence.stream;
            for what in [
                sql::INGEST_FORGET,
                sql::INGEST_FORGET_INPUTS,
                sql::INGEST_FORGET_TIMES,
            ] {
                let done = text(connection, what)?.execute([name.as_str(), of]);
                done.map_err(undone)?;
            }
            let done = text(connection, sql::INGEST_FORGET_PRODUCER)?.execute([name]);
            done.map_err(undone)?;
            forgotten.producers.push(producer);
        }
    }
    Ok(forgotten)
}

/// Tells whether a producer is to be forgotten. One of which an older version took messages is silent from now on.
fn is_silent(
    connection: &Connection,
    name: &str,
    producer: &ProducerName,
    silence: &Silence,
) -> Result<bool> {
    let of = &*silence.stream;
    let Some(stream) = statements::stream(connection, name, of)? else {
        return Ok(false);
    };
    let times = Times::of(connection, name, of)?;
    if times.next != stream.next {
        heard(
            connection,
            name,
            of,
            Timestamp::EPOCH,
            silence.now,
            stream.next,
        )?;
        return Ok(false);
    }
    let is_frozen = position(connection, name, of)?.is_some_and(|it| it.is_frozen);
    let is_settled = stream.next.saturating_sub(1) <= stream.confirmed;
    let is_kept = is_frozen || producer.as_str() == UNNUMBERED || !is_settled;
    Ok(!is_kept && times.heard.plus(silence.longest) < silence.now)
}

/// Reads what the gate goes by.
fn position(connection: &Connection, name: &str, of: &str) -> Result<Option<Position>> {
    let found = text(connection, sql::PRODUCER_GET)?
        .query_row([name], |row| Ok((row.get(1)?, row.get(2)?)))
        .optional()
        .map_err(undone)?;
    let Some((epoch, is_frozen)) = found else {
        return Ok(None);
    };
    let stream = statements::stream(connection, name, of)?;
    Ok(Some(Position {
        epoch: number(epoch),
        next: stream.map(|it| it.next),
        is_frozen,
    }))
}

fn accepted(
    connection: &Connection,
    name: &str,
    of: &str,
    after: u64,
    most: u32,
) -> Result<Option<Accepted>> {
    let position = position(connection, name, of)?;
    let stream = statements::stream(connection, name, of)?;
    let Some((position, stream)) = position.zip(stream) else {
        return Ok(None);
    };
    let after = after.max(stream.confirmed);
    Ok(Some(Accepted {
        begun: Times::of(connection, name, of)?.begun,
        standing: Standing {
            confirmed: stream.confirmed,
            limit: position.is_frozen.then_some(stream.released),
        },
        next: stream.next,
        batches: statements::page_behind(connection, name, of, after, most)?,
    }))
}

/// The name in the rows: with a space, which no producer of this store has in its own.
fn row_name(producer: &ProducerName) -> String {
    format!("{PREFIX}{producer}")
}

/// The names of those that send here.
const SENDERS: Names = Names {
    prefix: PREFIX,
    ranges: &[(PREFIX, BEHIND_PREFIX)],
    read: ProducerName::of_sender,
};
pub(super) const PREFIX: &str = "ingest ";
/// The first text behind those that begin with it.
pub(super) const BEHIND_PREFIX: &str = "ingest!";
