//! The journal of producers beside the tables of a store: what is to be sent, and what was confirmed of it.

mod calls;
pub(crate) mod rows;

use std::fmt;

use semel_core::Result;
use semel_core::port::producer::ProducerJournal;
use semel_core::port::store::Capabilities;
use semel_core::producer::ledger::Append;
use semel_core::producer::row::{ProducerRow, stored_name};
use semel_core::producer::{
    Batch, Incarnation, InputMark, Opened, Opening, ProducerEntry, ProducerName, ProducerOrder,
    Standing, StoredBatch,
};

use crate::answer::{Set, only, some_number};
use crate::config::Options;
use crate::error::damaged;
use crate::journal_tables::{Journal, JournalTables, TableTexts};
use crate::preflight::Settings;
use crate::script::{Literal, Script};
use crate::session::Session;
use crate::transaction::end;

use calls::{Named, Open};
use rows::{mark, producer, stored, stored_batch};

/// The format of the journal of producers that this version creates and knows.
pub const PRODUCERS_FORMAT: i64 = 1;

pub(crate) const TABLES: JournalTables = JournalTables {
    name: "journal of producers",
    format: PRODUCERS_FORMAT,
    format_table: "producer_format",
    texts: |session| TableTexts {
        format: &session.producers.format,
        create: &session.producers.create,
        made: &session.producers.made,
    },
};

/// The journal of producers in a MySQL or MariaDB database, in tables that begin with the prefix of the store's.
///
/// The first opening of a producer makes the tables, as far as they are missing and the user may; so does
/// `semel store migrate`. A call that writes is one script in one transaction, under the lock of the producer's row.
pub struct MysqlProducers {
    journal: Journal,
}

impl MysqlProducers {
    /// Returns the journal at this url, without a connection yet. Needs a tokio runtime.
    ///
    /// # Errors
    /// `invalid-config`, without anything of the url that may be secret.
    pub fn new(url: &str, options: &Options) -> Result<Self> {
        Ok(Self {
            journal: Journal::new(Session::new(url, options)?, &TABLES),
        })
    }

    /// Returns the promises of the server as it is set up now.
    ///
    /// # Errors
    /// Those of a server that does not answer.
    pub async fn capabilities(&self) -> Result<Capabilities> {
        let mut connection = self.journal.session.connection().await?;
        let settings = Settings::read(&self.journal.session, &mut connection).await;
        end(&self.journal.session, connection).await;
        Ok(settings?.capabilities(&self.journal.session))
    }

    /// Tells whether somebody made a journal there; makes none.
    ///
    /// # Errors
    /// `store-newer`: a newer version did; those of a server that does not answer.
    pub async fn is_made(&self) -> Result<bool> {
        self.journal.is_there().await
    }

    /// Runs a transaction behind the lock of the producer's row, whose result is the second.
    async fn write(
        &self,
        name: &ProducerName,
        statements: impl FnOnce(&mut Script),
    ) -> Result<Vec<Set>> {
        let name = Literal::bytes(name.as_str().as_bytes());
        let lock = &self.journal.session.producers.lock;
        self.journal.write((lock, &[&name]), statements).await
    }

    /// Asks for what `question` adds and then for the state. The producer comes last: what was read before it is that of
    /// the latest incarnation if it is still this one.
    async fn ask(
        &self,
        named: &Named,
        question: impl FnOnce(&mut Script),
    ) -> Result<(Vec<Set>, Option<ProducerRow>)> {
        self.journal.found().await?;
        let texts = &self.journal.session.producers;
        let mut script = Script::default();
        question(&mut script);
        let stream = script.add(&texts.stream, &[&named.name, &named.stream]);
        let name = script.add(&texts.producer, &[&named.name]);
        let sets = self.journal.session.ask(&script).await?;
        let found = producer(&sets[name], &sets[stream])?;
        Ok((sets, found))
    }
}

impl ProducerJournal for MysqlProducers {
    async fn open(&self, opening: &Opening) -> Result<Opened> {
        opening.fits_columns()?;
        self.journal.found().await?;
        Open::of(opening, &self.journal.session)
            .run(&self.journal.session, opening)
            .await
    }

    async fn append(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        batch: &Batch,
    ) -> Result<Standing> {
        self.journal.found().await?;
        let (texts, named) = (
            &self.journal.session.producers,
            Named::of(incarnation, stream),
        );
        let (mut state, mut own) = (0, 0);
        let sets = self.write(&incarnation.name, |script| {
            state = script.add(&texts.stream, &[&named.name, &named.stream]);
            own = named.add_append(texts, script, batch);
        });
        let sets = sets.await?;
        let found = producer(&sets[LOCKED], &sets[state])?;
        // The state is that before the writing, which went by the same rules, and says whether it was done.
        let (append, standing) =
            ProducerRow::check_append(found.as_ref(), incarnation, stream, batch)?;
        let has_written = some_number(only(&sets[own])?, 0)? == 1;
        if has_written != (append == Append::New) {
            return Err(damaged("producer"));
        }
        Ok(match append {
            Append::Known => standing,
            Append::New => Standing {
                confirmed: standing.confirmed.max(batch.confirmed.min(batch.end() - 1)),
                ..standing
            },
        })
    }

    async fn confirm(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        through: u64,
    ) -> Result<Standing> {
        let named = Named::of(incarnation, stream);
        let (_, found) = self.ask(&named, |_| ()).await?;
        let (of, standing) = ProducerRow::stream_of(found.as_ref(), incarnation, stream)?;
        if of.confirmed >= through.min(of.last()) {
            return Ok(standing);
        }
        let texts = &self.journal.session.producers;
        let mut state = 0;
        let sets = self.write(&incarnation.name, |script| {
            let through = Literal::number(stored(through));
            let Named {
                name,
                id,
                epoch,
                stream,
            } = &named;
            script.add(&texts.confirm, &[&through, name, stream, name, id, epoch]);
            script.add(&texts.forget, &[name, stream, name, stream]);
            state = script.add(&texts.stream, &[name, stream]);
        });
        let sets = sets.await?;
        let found = producer(&sets[LOCKED], &sets[state])?;
        let (_, standing) = ProducerRow::stream_of(found.as_ref(), incarnation, stream)?;
        Ok(standing)
    }

    async fn pending(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StoredBatch>> {
        let named = Named::of(incarnation, stream);
        let asked = self.ask(&named, |script| {
            named.add_pending(&self.journal.session.producers, script, after, most);
        });
        let (sets, found) = asked.await?;
        ProducerRow::stream_of(found.as_ref(), incarnation, stream)?;
        let mut batches = sets[0]
            .rows
            .iter()
            .map(stored_batch)
            .collect::<Result<Vec<_>>>()?;
        batches.sort_by_key(|it| it.first);
        Ok(batches)
    }

    async fn input(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        digest: &[u8; 32],
    ) -> Result<Option<InputMark>> {
        let named = Named::of(incarnation, stream);
        let asked = self.ask(&named, |script| {
            let values = [&named.name, &named.stream, &Literal::bytes(digest)];
            script.add(&self.journal.session.producers.input, &values);
        });
        let (sets, found) = asked.await?;
        ProducerRow::stream_of(found.as_ref(), incarnation, stream)?;
        let found = sets[0].rows.first();
        found.map(|row| mark(row, *digest)).transpose()
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let text = &self.journal.session.producers.list;
        self.journal.page(text, (after, most), stored_name).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        if !self.journal.is_there().await? {
            return Ok(false);
        }
        let texts = &self.journal.session.producers;
        let sets = self.write(name, |script| {
            let name = &Literal::bytes(name.as_str().as_bytes());
            match order {
                ProducerOrder::Freeze => script.add(&texts.freeze, &[name, name]),
                ProducerOrder::Thaw => script.add(&texts.thaw, &[name]),
                ProducerOrder::Release => script.add(&texts.release, &[name]),
            };
        });
        Ok(!sets.await?[LOCKED].rows.is_empty())
    }
}

impl fmt::Debug for MysqlProducers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlProducers")
            .field("prefix", &self.journal.session.prefix)
            .finish_non_exhaustive()
    }
}

/// The place of the locked producer among the results of a transaction.
const LOCKED: usize = 1;
