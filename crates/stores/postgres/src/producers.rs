//! The journal of producers in the store's schema: what is to be sent, and what was confirmed of it.

pub(crate) mod rows;

use std::fmt;

use deadpool_postgres::Transaction;
use deadpool_postgres::tokio_postgres::types::ToSql;
use semel_core::port::producer::ProducerJournal;
use semel_core::port::store::Capabilities;
use semel_core::producer::ledger::{Append, not_opened};
use semel_core::producer::row::{ProducerRow, stored_name};
use semel_core::producer::{
    Batch, Incarnation, InputMark, MOST_INPUTS, Opened, Opening, Page, ProducerEntry, ProducerName,
    ProducerOrder, Standing, StoredBatch,
};
use semel_core::{Error, ErrorKind, Result};

use crate::config::Options;
use crate::connection::{Cells, Runs};
use crate::error::{damaged, undone};
use crate::journal_tables::{Journal, JournalTables};
use crate::locked::Stop;
use crate::preflight::{Kept, preflight};
use crate::session::{Session, Tries};
use crate::sql::Text;
use crate::store::session;
use crate::transaction::{Job, transact};

use rows::{mark, number, producer, stored, stored_batch, was_written};

/// The format of the journal of producers that this version creates and knows.
pub const PRODUCERS_FORMAT: i64 = 1;

pub(crate) const TABLES: JournalTables = JournalTables {
    name: "journal of producers",
    format: PRODUCERS_FORMAT,
    format_table: "producer_format",
    text_for_format: |texts| &texts.producer_format,
    text_to_create: |texts| &texts.producer_create,
};

/// The journal of producers in a schema of a PostgreSQL database.
///
/// The first opening of a producer makes the schema and the tables of the journal, as far as they are missing and the
/// user may; so does `semel store migrate`. Each call but an opening is one statement.
pub struct PostgresProducers {
    journal: Journal,
}

impl PostgresProducers {
    /// Returns the journal at this url, without a connection yet. Needs a tokio runtime.
    ///
    /// # Errors
    /// `invalid-config`, without anything of the url that may be secret.
    pub fn new(url: &str, options: &Options) -> Result<Self> {
        Ok(Self {
            journal: Journal::new(session(url, options)?, &TABLES),
        })
    }

    /// Returns the promises of the server as it is set up now.
    ///
    /// # Errors
    /// Those of a server that does not answer.
    pub async fn capabilities(&self) -> Result<Capabilities> {
        let client = self.journal.session.client().await?;
        preflight(&self.journal.session, &client, Kept::Producers).await
    }

    /// Tells whether somebody made a journal there; makes none.
    ///
    /// # Errors
    /// `store-newer`: a newer version did; those of a server that does not answer.
    pub async fn is_made(&self) -> Result<bool> {
        Ok(self.journal.present().await?.is_some())
    }

    /// Runs a statement that changes a stream. Asks again where it neither wrote nor says why: the state that it tells
    /// is older than what kept it from writing.
    async fn change(
        &self,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
        judge: impl Fn(Option<&ProducerRow>) -> Result<(bool, Standing)>,
    ) -> Result<Standing> {
        let client = self.journal.client().await?;
        let mut tries = Tries::begin();
        loop {
            let rows = self.journal.session.run(&client, text, parameters).await?;
            let row = rows.first();
            let found = row.map(producer).transpose().map_err(undone)?;
            let has_written = row.map_or(Ok(false), was_written).map_err(undone)?;
            if has_written {
                return standing_behind(found.as_ref());
            }
            match judge(found.as_ref())? {
                (true, standing) => return Ok(standing),
                (false, _) if tries.are_left() => tries.pause().await,
                (false, _) => return Err(contended()),
            }
        }
    }
}

impl ProducerJournal for PostgresProducers {
    async fn open(&self, opening: &Opening) -> Result<Opened> {
        opening.fits_columns()?;
        drop(self.journal.client().await?);
        transact(&self.journal.session, Open(opening)).await
    }

    async fn append(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        batch: &Batch,
    ) -> Result<Standing> {
        named(incarnation, stream)?;
        let Incarnation { name, id, epoch } = incarnation;
        let epoch = stored(*epoch);
        let (first, end) = (stored(batch.first), stored(batch.end()));
        let (at, confirmed) = (stored(batch.at.as_millis()), stored(batch.confirmed));
        let digest = batch.input.as_ref().map(|it| &it.digest[..]);
        let rows = batch.input.map(|it| stored(it.rows));
        let bytes = batch.input.map(|it| stored(it.bytes));
        let is_whole = batch.input.map(|it| it.is_whole);
        let others = i64::try_from(MOST_INPUTS).unwrap_or(i64::MAX) - 1;
        let parameters: [&(dyn ToSql + Sync); 14] = [
            &name.as_str(),
            &&**id,
            &epoch,
            &stream,
            &first,
            &end,
            &at,
            &&*batch.body,
            &confirmed,
            &digest,
            &rows,
            &bytes,
            &is_whole,
            &others,
        ];
        let text = &self.journal.session.texts.producer_append;
        self.change(text, &parameters, |found| {
            let checked = ProducerRow::check_append(found, incarnation, stream, batch);
            checked.map(|(append, standing)| (append == Append::Known, standing))
        })
        .await
    }

    async fn confirm(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        through: u64,
    ) -> Result<Standing> {
        named(incarnation, stream)?;
        let Incarnation { name, id, epoch } = incarnation;
        let (epoch, upto) = (stored(*epoch), stored(through));
        let parameters: [&(dyn ToSql + Sync); 5] = [&name.as_str(), &&**id, &epoch, &stream, &upto];
        let text = &self.journal.session.texts.producer_confirm;
        self.change(text, &parameters, |found| {
            let (found, standing) = ProducerRow::stream_of(found, incarnation, stream)?;
            let is_confirmed = found.confirmed >= through.min(found.last());
            Ok((is_confirmed, standing))
        })
        .await
    }

    async fn pending(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StoredBatch>> {
        named(incarnation, stream)?;
        let name = incarnation.name.as_str();
        let bytes = i64::try_from(Page::MOST_BYTES).unwrap_or(i64::MAX);
        let (after, most) = (stored(after), i64::from(most));
        let parameters: [&(dyn ToSql + Sync); 5] = [&name, &stream, &after, &most, &bytes];
        let client = self.journal.client().await?;
        let text = &self.journal.session.texts.producer_pending;
        let rows = self.journal.session.run(&client, text, &parameters).await?;
        let found = rows.first().map(producer).transpose().map_err(undone)?;
        ProducerRow::stream_of(found.as_ref(), incarnation, stream)?;
        let batches = rows.iter().map(|row| stored_batch(row, 6));
        let batches = batches.collect::<Result<Vec<_>, _>>();
        Ok(batches.map_err(undone)?.into_iter().flatten().collect())
    }

    async fn input(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        digest: &[u8; 32],
    ) -> Result<Option<InputMark>> {
        named(incarnation, stream)?;
        let name = incarnation.name.as_str();
        let client = self.journal.client().await?;
        let text = &self.journal.session.texts.producer_input;
        let parameters: [&(dyn ToSql + Sync); 3] = [&name, &stream, &&digest[..]];
        let rows = self.journal.session.run(&client, text, &parameters).await?;
        let found = rows.first().map(producer).transpose().map_err(undone)?;
        ProducerRow::stream_of(found.as_ref(), incarnation, stream)?;
        let mark = rows.first().map_or(Ok(None), |row| mark(row, *digest));
        mark.map_err(undone)
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let text = &self.journal.session.texts.producer_list;
        self.journal.page(text, (after, most), stored_name).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let texts = &self.journal.session.texts;
        let text = match order {
            ProducerOrder::Freeze => &texts.producer_freeze,
            ProducerOrder::Thaw => &texts.producer_thaw,
            ProducerOrder::Release => &texts.producer_release,
        };
        self.journal.order(text, name).await
    }
}

impl fmt::Debug for PostgresProducers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresProducers")
            .field("schema", &self.journal.session.schema)
            .finish_non_exhaustive()
    }
}

/// An opening, under the lock of the producer's row.
struct Open<'a>(&'a Opening);

impl Job for Open<'_> {
    type Answer = Opened;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<Opened, Stop> {
        let (opening, texts) = (self.0, &session.texts);
        let (name, stream) = (opening.name.as_str(), &*opening.stream);
        let parameters: [&(dyn ToSql + Sync); 2] = [&name, &&*opening.id()];
        let rows = transaction.rows(&texts.producer_open, &parameters).await?;
        let row = rows.first().ok_or_else(|| damaged("producer"))?;
        let (id, epoch): (String, i64) = (Cells::try_get(row, 0)?, Cells::try_get(row, 1)?);
        let is_frozen: bool = Cells::try_get(row, 2)?;
        let parameters: [&(dyn ToSql + Sync); 3] = [&name, &stream, &&*opening.target];
        let rows = transaction
            .rows(&texts.producer_stream_open, &parameters)
            .await?;
        let Some(row) = rows.first() else {
            let rows = transaction
                .rows(&texts.producer_elsewhere, &[&name, &stream])
                .await?;
            let row = rows
                .first()
                .ok_or_else(|| damaged("stream of a producer"))?;
            let (target, waiting): (String, i64) =
                (Cells::try_get(row, 0)?, Cells::try_get(row, 1)?);
            return Err(opening.elsewhere(&target, number(waiting)).into());
        };
        let released = number(Cells::try_get(row, 2)?);
        Ok(Opened {
            incarnation: Incarnation {
                name: opening.name.clone(),
                id: id.into(),
                epoch: number(epoch),
            },
            next: number(Cells::try_get(row, 0)?),
            standing: Standing {
                confirmed: number(Cells::try_get(row, 1)?),
                limit: is_frozen.then_some(released),
            },
        })
    }
}

/// Refuses a stream that no column takes, and that nobody has opened therefore.
fn named(incarnation: &Incarnation, stream: &str) -> Result<()> {
    if stream.contains('\0') {
        return Err(not_opened(&incarnation.name, stream));
    }
    Ok(())
}

/// The state behind a change that was made.
fn standing_behind(found: Option<&ProducerRow>) -> Result<Standing> {
    let row = found.ok_or_else(|| damaged("producer"))?;
    let stream = row.stream.ok_or_else(|| damaged("stream of a producer"))?;
    Ok(Standing {
        confirmed: stream.confirmed,
        limit: row.is_frozen.then_some(stream.released),
    })
}

/// Error for a producer that others kept changing, which no caller may take for a batch out of turn.
pub(crate) fn contended() -> Error {
    let message = "others kept changing the same producer; try again";
    Error::new(ErrorKind::Throttled, message)
        .not_applied()
        .retry_after(std::time::Duration::from_millis(100))
}
