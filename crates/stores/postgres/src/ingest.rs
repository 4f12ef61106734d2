//! The journal of messages that others send, in the store's schema: what was taken and is not settled yet.
//!
//! A batch that is new whole, of an epoch that is on record, is one statement, and so is one that is known or refused. The
//! core decides about all others behind the lock of the producer's row.

use std::fmt;

use deadpool_postgres::tokio_postgres::Row;
use deadpool_postgres::tokio_postgres::types::ToSql;
use deadpool_postgres::{Object, Transaction};
use semel_core::Result;
use semel_core::ingest::{GateAnswer, Numbering, Position, Submission, UNNUMBERED};
use semel_core::port::ingest::{Accepted, Forgotten, IngestJournal, Settled, Silence};
use semel_core::producer::row::stored_sender;
use semel_core::producer::{
    MOST_INPUTS, Page, ProducerEntry, ProducerName, ProducerOrder, Standing,
};

use crate::config::Options;
use crate::connection::{Cells, Runs};
use crate::error::{damaged, is_passing, undone};
use crate::failure::Failure;
use crate::journal_tables::{Journal, JournalTables};
use crate::locked::Stop;
use crate::producers::rows::{number, stored, stored_batch};
use crate::session::Session;
use crate::store::session;
use crate::transaction::{Job, transact};

/// The format of the journal of messages that others send that this version creates and knows.
pub const INGEST_FORMAT: i64 = 1;

pub(crate) const TABLES: JournalTables = JournalTables {
    name: "journal of messages that others send",
    format: INGEST_FORMAT,
    format_table: "ingest_format",
    text_for_format: |texts| &texts.ingest_format,
    text_to_create: |texts| &texts.ingest_create,
};

/// The journal of messages that others send, in a schema of a PostgreSQL database.
///
/// The first submission makes the schema and the tables of the journal, as far as they are missing and the user may; so
/// does `semel store migrate`.
pub struct PostgresIngest {
    journal: Journal,
}

impl PostgresIngest {
    /// Returns the journal at this url, without a connection yet. Needs a tokio runtime.
    ///
    /// # Errors
    /// `invalid-config`, without anything of the url that may be secret.
    pub fn new(url: &str, options: &Options) -> Result<Self> {
        Ok(Self {
            journal: Journal::new(session(url, options)?, &TABLES),
        })
    }

    /// Takes messages that are new whole, and whose epoch is on record.
    async fn append(&self, client: &Object, submission: &Submission) -> Result<Option<Found>> {
        let name = submission.producer();
        let epoch = stored(submission.epoch());
        let is_numbered = matches!(submission.numbering, Numbering::Sender { .. });
        let first = is_numbered.then(|| stored(submission.first()));
        let count = i64::from(submission.count());
        let batch = submission.batch(0, submission.count(), submission.count().into());
        let (at, digest) = (stored(submission.at.as_millis()), submission.digest());
        let parameters: [&(dyn ToSql + Sync); 10] = [
            &name.as_str(),
            &epoch,
            &&*submission.stream,
            &first,
            &count,
            &at,
            &&*batch.body,
            &digest.map(|it| &it[..]),
            &OTHER_DIGESTS,
            &self.journal.session.given_now(),
        ];
        let text = &self.journal.session.texts.ingest_append;
        // Another process may have noted the same digest since the statement began: it finds it when it is run again.
        let passes = |failure: &Failure| {
            is_passing(failure) || matches!(failure.answer(), Some(("23505", _)))
        };
        let rows = self
            .journal
            .session
            .run_where(client, text, &parameters, passes)
            .await?;
        rows.first().map(Found::read).transpose().map_err(undone)
    }
}

/// The state that a submission met, and whether it was written.
struct Found {
    position: Position,
    is_remembered: bool,
    is_written: bool,
}

impl Found {
    fn read(row: &Row) -> Result<Self, Failure> {
        let next: Option<i64> = Cells::try_get(row, 2)?;
        Ok(Self {
            position: Position {
                epoch: number(Cells::try_get(row, 0)?),
                next: next.map(number),
                is_frozen: Cells::try_get(row, 1)?,
            },
            is_remembered: Cells::try_get(row, 3)?,
            is_written: Cells::try_get(row, 4)?,
        })
    }
}

impl IngestJournal for PostgresIngest {
    async fn submit(&self, submission: &Submission) -> Result<GateAnswer> {
        submission.fits_columns()?;
        let client = self.journal.client().await?;
        let found = self.append(&client, submission).await?;
        drop(client);
        if let Some(found) = &found
            && found.is_written
        {
            return Ok(GateAnswer::Taken {
                known: 0,
                new: submission.count(),
                next: found
                    .position
                    .next
                    .ok_or_else(|| damaged("stream of a producer"))?,
                is_kept: found.position.is_frozen,
            });
        }
        let position = found.as_ref().map(|it| it.position);
        let answer = submission.decide(position, found.is_some_and(|it| it.is_remembered));
        if !changes(submission, position, answer) {
            // As it was when the statement began.
            return Ok(answer);
        }
        transact(&self.journal.session, Submit(submission)).await
    }

    async fn accepted(
        &self,
        producer: &ProducerName,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Option<Accepted>> {
        let Some(client) = self.journal.present().await? else {
            return Ok(None);
        };
        let bytes = i64::try_from(Page::MOST_BYTES).unwrap_or(i64::MAX);
        let (after, most) = (stored(after), i64::from(most));
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&producer.as_str(), &stream, &after, &most, &bytes];
        let text = &self.journal.session.texts.ingest_accepted;
        let rows = self.journal.session.run(&client, text, &parameters).await?;
        accepted(&rows).map_err(undone)
    }

    async fn settle(&self, producer: &ProducerName, stream: &str, settled: Settled) -> Result<()> {
        let Some(client) = self.journal.present().await? else {
            return Ok(());
        };
        let (begun, through) = (stored(settled.begun), stored(settled.through));
        let now = self.journal.session.given_now();
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&producer.as_str(), &stream, &begun, &through, &now];
        let text = &self.journal.session.texts.ingest_settle;
        self.journal
            .session
            .run(&client, text, &parameters)
            .await
            .map(drop)
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let text = &self.journal.session.texts.ingest_list;
        self.journal.page(text, (after, most), stored_sender).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let texts = &self.journal.session.texts;
        let text = match order {
            ProducerOrder::Freeze => &texts.ingest_freeze,
            ProducerOrder::Thaw => &texts.ingest_thaw,
            ProducerOrder::Release => &texts.ingest_release,
        };
        self.journal.order(text, name).await
    }

    async fn forget(&self, silence: &Silence) -> Result<Forgotten> {
        let Some(client) = self.journal.present().await? else {
            return Ok(Forgotten::default());
        };
        let after = silence.after.as_ref().map_or("", ProducerName::as_str);
        let most = i64::from(silence.most.max(1));
        let text = &self.journal.session.texts.ingest_page;
        let rows = self
            .journal
            .session
            .run(&client, text, &[&after, &most])
            .await?;
        drop(client);
        let page = names(&rows)?;
        let mut forgotten = Forgotten::up_to(silence, &page);
        if !page.is_empty() {
            let forget = Forget {
                silence,
                page: page.iter().map(ProducerName::as_str).collect(),
            };
            forgotten.producers = transact(&self.journal.session, forget).await?;
        }
        Ok(forgotten)
    }
}

impl fmt::Debug for PostgresIngest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresIngest")
            .field("schema", &self.journal.session.schema)
            .finish_non_exhaustive()
    }
}

/// Tells whether an answer is one that something is written for.
fn changes(submission: &Submission, position: Option<Position>, answer: GateAnswer) -> bool {
    match answer {
        GateAnswer::Taken { new, .. } => {
            new > 0 || position.is_none_or(|it| it.epoch < submission.epoch() || it.next.is_none())
        }
        GateAnswer::Fenced { .. } | GateAnswer::Gap { .. } | GateAnswer::Unknown { .. } => false,
    }
}

/// A submission that the core decides about, under the lock of the producer's row.
struct Submit<'a>(&'a Submission);

impl Job for Submit<'_> {
    type Answer = GateAnswer;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<GateAnswer, Stop> {
        let (submission, texts) = (self.0, &session.texts);
        let name = submission.producer();
        let (name, stream) = (name.as_str(), &*submission.stream);
        let digest = submission.digest().map(|it| &it[..]);
        let rows = transaction.rows(&texts.ingest_lock, &[&name]).await?;
        let row = rows.first().ok_or_else(|| damaged("producer"))?;
        let (epoch, is_frozen): (i64, bool) = (Cells::try_get(row, 0)?, Cells::try_get(row, 1)?);
        let asked: [&(dyn ToSql + Sync); 3] = [&name, &stream, &digest];
        let rows = transaction.rows(&texts.ingest_state, &asked).await?;
        let row = rows
            .first()
            .ok_or_else(|| damaged("stream of a producer"))?;
        let (next, is_remembered): (Option<i64>, bool) =
            (Cells::try_get(row, 0)?, Cells::try_get(row, 1)?);
        let position = Position {
            epoch: number(epoch),
            next: next.map(number),
            is_frozen,
        };
        let answer = submission.decide(Some(position), is_remembered);
        if let GateAnswer::Taken {
            known, new, next, ..
        } = answer
            && changes(submission, Some(position), answer)
        {
            let batch = submission.batch(known, new, next);
            let (epoch, first) = (stored(submission.epoch()), stored(submission.first()));
            let (next, at, count) = (stored(next), stored(batch.at.as_millis()), i64::from(new));
            let now = session.given_now();
            let parameters: [&(dyn ToSql + Sync); 11] = [
                &name,
                &epoch,
                &stream,
                &first,
                &next,
                &at,
                &&*batch.body,
                &digest,
                &OTHER_DIGESTS,
                &count,
                &now,
            ];
            transaction.rows(&texts.ingest_take, &parameters).await?;
        } else if epoch == 0 {
            transaction.rows(&texts.ingest_leave, &[&name]).await?;
        }
        Ok(answer)
    }
}

/// The forgetting of a page of producers, as far as they are silent.
struct Forget<'a> {
    silence: &'a Silence,
    page: Vec<&'a str>,
}

impl Job for Forget<'_> {
    type Answer = Vec<ProducerName>;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<Vec<ProducerName>, Stop> {
        let (stream, now) = (&*self.silence.stream, session.given_now());
        let longest = stored(self.silence.longest_millis());
        let texts = &session.texts;
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&self.page, &stream, &longest, &UNNUMBERED, &now];
        let rows = transaction.rows(&texts.ingest_silent, &parameters).await?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let silent = names(&rows)?;
        let silent: Vec<_> = silent.iter().map(ProducerName::as_str).collect();
        let parameters: [&(dyn ToSql + Sync); 4] = [&silent, &stream, &longest, &now];
        let rows = transaction.rows(&texts.ingest_forget, &parameters).await?;
        transaction
            .rows(&texts.ingest_forget_producers, &[&silent])
            .await?;
        Ok(names(&rows)?)
    }
}

/// Reads names in the first column.
fn names(rows: &[Row]) -> Result<Vec<ProducerName>> {
    let name = |row| {
        let name: &str = Cells::try_get(row, 0).map_err(undone)?;
        stored_sender(name)
    };
    rows.iter().map(name).collect()
}

/// Reads a page; nothing if there is no such stream.
fn accepted(rows: &[Row]) -> Result<Option<Accepted>, Failure> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let whole = |column| Cells::try_get(row, column).map(number);
    let is_frozen: bool = Cells::try_get(row, 4)?;
    let released = whole(3)?;
    let batches = rows.iter().map(|row| stored_batch(row, 5));
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Accepted {
        begun: whole(0)?,
        standing: Standing {
            confirmed: whole(2)?,
            limit: is_frozen.then_some(released),
        },
        next: whole(1)?,
        batches: batches.into_iter().flatten().collect(),
    }))
}

/// The digests of a stream that are kept beside a new one.
#[expect(clippy::cast_possible_wrap, reason = "a thousand")]
const OTHER_DIGESTS: i64 = MOST_INPUTS as i64 - 1;
