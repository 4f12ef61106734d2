//! The journal of messages that others send here: rows of the journal of producers, under names that no producer of this
//! store has.

use std::fmt;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};
use semel_core::Result;
use semel_core::ingest::{GateAnswer, Position, SENDERS_TARGET, Submission};
use semel_core::port::ingest::{Accepted, IngestJournal};
use semel_core::producer::{ProducerEntry, ProducerName, ProducerOrder, Standing};

use super::SqliteProducers;
use super::statements::{self, number, stored, text};
use crate::config::Options;
use crate::error::undone;
use crate::sql;

/// The journal of messages that others send, in an SQLite file.
///
/// The first submission makes the file, the tables of a store and those of the journal, as far as they are missing.
pub struct SqliteIngest(SqliteProducers);

impl SqliteIngest {
    /// Returns the journal in this file, which is opened when it is first used. Needs a tokio runtime.
    ///
    /// # Errors
    /// `InvalidConfig`: the path is empty
    pub fn new(path: &Path, options: Options) -> Result<Self> {
        SqliteProducers::new(path, options).map(Self)
    }
}

impl IngestJournal for SqliteIngest {
    async fn submit(&self, submission: &Submission) -> Result<GateAnswer> {
        let submission = submission.clone();
        let submit = move |connection: &Connection| submit(connection, &submission);
        self.0.thread().await?.write(submit).await
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
        self.0.thread().await?.read(read).await
    }

    async fn settle(&self, producer: &ProducerName, stream: &str, through: u64) -> Result<()> {
        let (name, of) = (row_name(producer), Box::<str>::from(stream));
        let settle = move |connection: &Connection| {
            let found = statements::stream(connection, &name, &of)?;
            if let Some(found) = found.filter(|it| it.confirmed < through) {
                statements::advance(connection, &name, &of, found.next, through)?;
            }
            Ok(())
        };
        self.0.thread().await?.write(settle).await
    }

    async fn list(&self) -> Result<Vec<ProducerEntry>> {
        let list =
            |connection: &Connection| statements::list(connection, PREFIX, ProducerName::of_sender);
        match self.0.present().await? {
            Some(thread) => thread.read(list).await,
            None => Ok(Vec::new()),
        }
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let name = row_name(name);
        let order = move |connection: &Connection| statements::order(connection, &name, order);
        match self.0.present().await? {
            Some(thread) => thread.write(order).await,
            None => Ok(false),
        }
    }
}

impl fmt::Debug for SqliteIngest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteIngest").field(&self.0).finish()
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
    Ok(answer)
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

const PREFIX: &str = "ingest ";
