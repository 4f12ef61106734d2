//! The journal of messages that others send, beside the tables of a store: what was taken and is not settled yet.
//!
//! A batch that is new whole, of an epoch that is on record, is one script in one transaction, and so is one that is known
//! or refused. The core decides about all others behind the lock of the producer's row.

use std::fmt;

use semel_core::Result;
use semel_core::ingest::{GateAnswer, Numbering, Position, Submission, UNNUMBERED};
use semel_core::port::ingest::{Accepted, Forgotten, IngestJournal, Settled, Silence};
use semel_core::producer::row::stored_sender;
use semel_core::producer::{
    Batch, MOST_INPUTS, Page, ProducerEntry, ProducerName, ProducerOrder, Standing,
};

use crate::answer::{Set, number, only, some_number, some_text, text};
use crate::config::Options;
use crate::error::damaged;
use crate::journal_tables::{Journal, JournalTables, TableTexts};
use crate::pool::PooledConnection;
use crate::producers::rows::{stored, stored_batch};
use crate::script::{Literal, Script, optional};
use crate::session::Session;
use crate::sql::IngestTexts;
use crate::transaction::{Job, Stop, committed_or, end, transact};

/// The format of the journal of messages that others send that this version creates and knows.
pub const INGEST_FORMAT: i64 = 1;

pub(crate) const TABLES: JournalTables = JournalTables {
    name: "journal of messages that others send",
    format: INGEST_FORMAT,
    format_table: "ingest_format",
    texts: |session| TableTexts {
        format: &session.ingest.format,
        create: &session.ingest.create,
        made: &session.ingest.made,
    },
};

/// The journal of messages that others send, in a MySQL or MariaDB database, in tables that begin with the prefix of the
/// store's.
///
/// The first submission makes the tables, as far as they are missing and the user may; so does `semel store migrate`.
pub struct MysqlIngest {
    journal: Journal,
}

impl MysqlIngest {
    /// Returns the journal at this url, without a connection yet. Needs a tokio runtime.
    ///
    /// # Errors
    /// `invalid-config`, without anything of the url that may be secret.
    pub fn new(url: &str, options: &Options) -> Result<Self> {
        Ok(Self {
            journal: Journal::new(Session::new(url, options)?, &TABLES),
        })
    }

    /// Runs a transaction behind the lock of the producer's row; the result at [`LOCKED`] has the producer.
    async fn write(
        &self,
        name: &Literal,
        statements: impl FnOnce(&mut Script),
    ) -> Result<Vec<Set>> {
        let lock = &self.journal.session.ingest.lock;
        self.journal.write((lock, &[name, name]), statements).await
    }
}

impl MysqlIngest {
    /// Forgets a producer that was found silent, if it still is behind its lock; tells whether it did. It is one packet,
    /// so that no worker that stops in between keeps the lock. Where somebody else has it, the producer is left for
    /// another time.
    async fn forget_one(&self, silence: &Silence, producer: &ProducerName) -> Result<bool> {
        let (session, texts) = (&self.journal.session, &self.journal.session.ingest);
        let stream = &Literal::bytes(silence.stream.as_bytes());
        let longest = &Literal::number(stored(silence.longest_millis()));
        let never = &Literal::bytes(UNNUMBERED.as_bytes());
        let now = &session.given_now();
        let mut script = Script::default();
        script.add(&session.texts.begin, &[]);
        script.add(&texts.hold, &[&name_of(producer)]);
        let values = [now, stream, longest, never, stream, stream];
        let gone = script.add(&texts.forget, &values) + texts.forget.statements - 1;
        let commit = script.add(&session.texts.commit, &[]);
        let mut connection = session.connection().await?;
        let ran = connection.run(&script).await;
        if ran.is_ok() {
            connection.ended();
        }
        end(session, connection).await;
        match ran {
            Ok(sets) => Ok(text(only(&sets[gone])?, 0)?.is_some()),
            Err(failure) if failure.is_passing() || failure.is_held() => Ok(false),
            Err(failure) if failure.refusal().is_some() && failure.at < commit => {
                Err(failure.uncommitted())
            }
            Err(failure) => Err(failure.of_commit()),
        }
    }
}

impl IngestJournal for MysqlIngest {
    async fn submit(&self, submission: &Submission) -> Result<GateAnswer> {
        submission.fits_columns()?;
        self.journal.found().await?;
        let named = Named::of(submission);
        let batch = submission.batch(0, submission.count(), submission.count().into());
        let (mut state, mut own) = (0, 0);
        let sets = self.write(&named.name, |script| {
            state = named.add_state(&self.journal.session.ingest, script);
            own = named.add_own(&self.journal.session.ingest, script, submission);
            named.add_writes(&self.journal.session, script, &batch);
        });
        let sets = sets.await?;
        let position = position(&sets[LOCKED], &sets[state])?;
        if let Some(next) = number(only(&sets[own])?, 0)? {
            return Ok(GateAnswer::Taken {
                known: 0,
                new: submission.count(),
                next: next + u64::from(submission.count()),
                is_kept: position.is_some_and(|it| it.is_frozen),
            });
        }
        let is_remembered = !sets[state + 1].rows.is_empty();
        let answer = submission.decide(position, is_remembered);
        if changes(submission, position, answer) {
            return transact(&self.journal.session, Submit(submission, &named)).await;
        }
        Ok(answer)
    }

    async fn accepted(
        &self,
        producer: &ProducerName,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Option<Accepted>> {
        if !self.journal.is_there().await? {
            return Ok(None);
        }
        let texts = &self.journal.session.ingest;
        let (name, stream) = (name_of(producer), &Literal::bytes(stream.as_bytes()));
        let name = &name;
        let [after, messages, at_most, bytes] = [
            stored(after),
            most.into(),
            // Each has one message at least.
            u64::from(most).max(1),
            Page::MOST_BYTES,
        ]
        .map(Literal::number);
        let values = [
            name, stream, &after, name, stream, &at_most, &messages, &bytes, name, stream,
        ];
        // The stream is read before the page and behind it: what was next before it is in the page unless it is settled
        // behind it.
        let mut script = Script::default();
        let before = script.add(&texts.stream, &[name, stream]);
        let page = script.add(&texts.pending, &values);
        let behind = script.add(&texts.stream, &[name, stream]);
        let locked = script.add(&texts.producer, &[name]);
        loop {
            let sets = self.journal.session.ask(&script).await?;
            let streams = sets[before].rows.first().zip(sets[behind].rows.first());
            let (Some((before, behind)), Some(row)) = (streams, sets[locked].rows.first()) else {
                return Ok(None);
            };
            let begun = some_number(behind, 0)?;
            if some_number(before, 0)? != begun {
                // It was forgotten and begun again in between.
                continue;
            }
            let rows = sets[page].rows.iter().map(stored_batch);
            let mut batches = rows.collect::<Result<Vec<_>>>()?;
            batches.sort_by_key(|it| it.first);
            let end = batches
                .last()
                .map_or(0, |it| it.first + u64::from(it.count));
            let (is_frozen, released) = (some_number(row, 1)? != 0, some_number(behind, 3)?);
            return Ok(Some(Accepted {
                begun,
                standing: Standing {
                    confirmed: some_number(behind, 2)?,
                    limit: is_frozen.then_some(released),
                },
                next: some_number(before, 1)?.max(end),
                batches,
            }));
        }
    }

    async fn settle(&self, producer: &ProducerName, stream: &str, settled: Settled) -> Result<()> {
        if !self.journal.is_there().await? {
            return Ok(());
        }
        let texts = &self.journal.session.ingest;
        let (name, stream) = (&name_of(producer), &Literal::bytes(stream.as_bytes()));
        let numbers = [settled.begun, settled.through];
        let [begun, through] = numbers.map(|it| Literal::number(stored(it)));
        let now = self.journal.session.given_now();
        let sets = self.write(name, |script| {
            script.add(&texts.settle, &[&through, &now, name, stream, &begun]);
            script.add(&texts.done, &[name, stream, name, stream]);
        });
        sets.await.map(drop)
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let text = &self.journal.session.ingest.list;
        self.journal.page(text, (after, most), stored_sender).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        if !self.journal.is_there().await? {
            return Ok(false);
        }
        let (name, texts) = (&name_of(name), &self.journal.session.ingest);
        let sets = self.write(name, |script| {
            match order {
                ProducerOrder::Freeze => script.add(&texts.freeze, &[name, name]),
                ProducerOrder::Thaw => script.add(&texts.thaw, &[name]),
                ProducerOrder::Release => script.add(&texts.release, &[name]),
            };
        });
        Ok(!sets.await?[LOCKED].rows.is_empty())
    }

    async fn forget(&self, silence: &Silence) -> Result<Forgotten> {
        if !self.journal.is_there().await? {
            return Ok(Forgotten::default());
        }
        // Each that is forgotten is a commit of its own, and a source reads nothing meanwhile.
        let silence = &Silence {
            most: silence.most.min(MOST_FORGOTTEN),
            ..silence.clone()
        };
        let texts = &self.journal.session.ingest;
        let after = silence.after.as_ref().map_or("", ProducerName::as_str);
        let (after, most) = (
            Literal::bytes(after.as_bytes()),
            Literal::number(silence.most.max(1).into()),
        );
        let mut script = Script::default();
        script.add(&texts.page, &[&after, &most]);
        let sets = self.journal.session.ask(&script).await?;
        let page = names(sets.first().ok_or_else(|| damaged("producer"))?)?;
        let mut forgotten = Forgotten::up_to(silence, &page);
        let mut script = Script::default();
        let place = add_silent(&self.journal.session, &mut script, silence, &page);
        let sets = self.journal.session.ask(&script).await?;
        let silent = names(&sets[place])?;
        for producer in silent {
            if self.forget_one(silence, &producer).await? {
                forgotten.producers.push(producer);
            }
        }
        Ok(forgotten)
    }
}

impl fmt::Debug for MysqlIngest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlIngest")
            .field("prefix", &self.journal.session.prefix)
            .finish_non_exhaustive()
    }
}

/// The names in a submission.
struct Named {
    name: Literal,
    stream: Literal,
    epoch: Literal,
    digest: Literal,
}

impl Named {
    fn of(submission: &Submission) -> Self {
        Self {
            name: name_of(&submission.producer()),
            stream: Literal::bytes(submission.stream.as_bytes()),
            epoch: Literal::number(stored(submission.epoch())),
            digest: optional(submission.digest(), |it| Literal::bytes(it)),
        }
    }

    /// Adds the questions for the stream and the digest; returns the place of the first.
    fn add_state(&self, texts: &IngestTexts, script: &mut Script) -> usize {
        let Self {
            name,
            stream,
            digest,
            ..
        } = self;
        let place = script.add(&texts.stream, &[name, stream]);
        script.add(&texts.digest, &[name, stream, digest]);
        place
    }

    /// Adds what finds out whether the messages are new whole; returns the place of the result that says so.
    fn add_own(&self, texts: &IngestTexts, script: &mut Script, submission: &Submission) -> usize {
        let Self {
            name,
            stream,
            epoch,
            digest,
        } = self;
        let is_numbered = matches!(submission.numbering, Numbering::Sender { .. });
        let first = is_numbered.then(|| stored(submission.first()));
        let first = optional(first, Literal::number);
        let values = [&first, name, epoch, stream, name, stream, digest];
        script.add(&texts.own, &values) + 2
    }

    /// Adds what writes messages behind the next sequence, if that was found to be theirs.
    fn add_writes(&self, session: &Session, script: &mut Script, batch: &Batch) {
        let texts = &session.ingest;
        let Self {
            name,
            stream,
            digest,
            ..
        } = self;
        let [count, at, size] = [
            batch.count.into(),
            batch.at.as_millis(),
            batch.body.len() as u64,
        ]
        .map(|it| Literal::number(stored(it)));
        let body = Literal::bytes(&batch.body);
        script.add(&texts.append, &[&count, name, stream, &at, &size, &body]);
        let now = session.given_now();
        script.add(&texts.advance, &[&count, &now, name, stream]);
        if batch.input.is_some() {
            script.add(&texts.note, &[name, stream, name, stream, digest]);
            let others = Literal::number(MOST_INPUTS as u64 - 1);
            script.add(&texts.trim, &[name, stream, name, stream, &others]);
        }
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
struct Submit<'a>(&'a Submission, &'a Named);

impl Job for Submit<'_> {
    type Answer = GateAnswer;

    async fn run(
        &mut self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<GateAnswer, Stop> {
        let (Self(submission, named), texts) = (&*self, &session.ingest);
        let mut script = Script::default();
        script.add(&session.texts.begin, &[]);
        script.add(&texts.make, &[&named.name]);
        let producer = script.add(&texts.producer, &[&named.name]);
        let state = named.add_state(texts, &mut script);
        let sets = connection.run(&script).await?;
        let position = position(&sets[producer], &sets[state])?;
        let answer = submission.decide(position, !sets[state + 1].rows.is_empty());
        let GateAnswer::Taken {
            known, new, next, ..
        } = answer
        else {
            // The transaction is undone, and with it the row that was made to be locked.
            return Ok(answer);
        };
        let mut script = Script::default();
        let Named {
            name,
            stream,
            epoch,
            ..
        } = named;
        let now = &session.given_now();
        let first = &Literal::number(stored(submission.first()));
        let values = [
            epoch, name, name, stream, now, first, first, first, now, now,
        ];
        script.add(&texts.adopt, &values);
        if new > 0 {
            let batch = submission.batch(known, new, next);
            script.add(&texts.take, &[&Literal::number(stored(batch.first))]);
            named.add_writes(session, &mut script, &batch);
        }
        script.add(&session.texts.commit, &[]);
        let ran = connection.run(&script).await;
        committed_or(ran, connection)?;
        Ok(answer)
    }
}

/// Adds the question for those of some producers that have been silent for long; returns the place of the result.
fn add_silent(
    session: &Session,
    script: &mut Script,
    silence: &Silence,
    of: &[ProducerName],
) -> usize {
    let stream = Literal::bytes(silence.stream.as_bytes());
    let longest = Literal::number(stored(silence.longest_millis()));
    let never = Literal::bytes(UNNUMBERED.as_bytes());
    let values = [
        &session.given_now(),
        &stream,
        &longest,
        &never,
        &list_of(of),
    ];
    script.add(&session.ingest.silent, &values) + 1
}

fn list_of(producers: &[ProducerName]) -> Literal {
    Literal::list(producers.iter().map(ProducerName::as_str))
}

/// Reads names in the first column.
fn names(set: &Set) -> Result<Vec<ProducerName>> {
    let name = |row| stored_sender(&some_text(row, 0)?);
    set.rows.iter().map(name).collect()
}

/// Reads what the gate goes by from the answers to the questions for a producer and a stream.
fn position(producer: &Set, stream: &Set) -> Result<Option<Position>> {
    let Some(row) = producer.rows.first() else {
        return Ok(None);
    };
    let next = stream.rows.first().map(|row| some_number(row, 1));
    Ok(Some(Position {
        epoch: some_number(row, 0)?,
        next: next.transpose()?,
        is_frozen: some_number(row, 1)? != 0,
    }))
}

fn name_of(producer: &ProducerName) -> Literal {
    Literal::bytes(producer.as_str().as_bytes())
}

/// The place of the locked producer among the results of a transaction.
const LOCKED: usize = 3;

/// The most producers that one call looks at to forget them.
const MOST_FORGOTTEN: u32 = 16;
