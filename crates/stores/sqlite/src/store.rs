//! The store ports: each method hands its batch to the thread that writes or the one that reads.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use semel_core::decide::{self, Change, Directed, Directive};
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Swept};
use semel_core::port::transactional::{Application, Applied, Statements, TransactionalStore};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, Audited, ClaimRequest, Clock, ErrorKind, Mark, Note, OpId, Operation, Parked,
    ParkedId, Record, Renewal, Renewed, Result, Settled, Settlement, StateKind, Store,
};
use tokio::sync::oneshot;

use crate::apply::Apply;
use crate::checkpoint::{Admit, settle_with};
use crate::config::Options;
use crate::connection_thread::ConnectionThread;
use crate::error::{self, undone};
use crate::inbox::InboxSteps;
use crate::ledger::Ledger;
use crate::parked::{drop_parked, park};
use crate::statements;
use crate::writer::Writer;
use crate::{audit, listing, open, preflight, row, sql, transfer};

/// A store in an SQLite file, which may hold its users' own tables as well.
///
/// Several stores, in one process or many, may use one file at once.
pub struct SqliteStore {
    path: Arc<Path>,
    clock: Arc<dyn Clock>,
    writer: Writer,
    reader: ConnectionThread,
}

impl SqliteStore {
    /// Opens the file, or creates it; stamps records with `clock`. Blocks for as long as that takes.
    ///
    /// # Errors
    /// `store-unavailable` (no folder, no access, busy), `store-read-only`, `store-foreign`,
    /// `store-newer`, `store-full`; none has changed anything.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "settings are given away, as to other stores"
    )]
    pub fn open(path: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Self> {
        let path = open::absolute(path)?;
        let writer = open::writer(&path, &options)?;
        Self::start(&path, writer, clock, &options)
    }

    /// Opens the file if it has a store of this format, and changes neither its tables nor the kind of its journal. Blocks
    /// for as long as that takes.
    ///
    /// # Errors
    /// `InvalidConfig`: no store, or an older one; else as [`open`](Self::open)
    #[expect(
        clippy::needless_pass_by_value,
        reason = "settings are given away, as to other stores"
    )]
    pub fn open_as_is(path: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Self> {
        let path = open::absolute(path)?;
        open::look_at(&path)?;
        let writer = open::as_is(&path, &options)?;
        Self::start(&path, writer, clock, &options)
    }

    fn start(
        path: &Path,
        writer: Connection,
        clock: Arc<dyn Clock>,
        options: &Options,
    ) -> Result<Self> {
        let reader = open::reader(path, options)?;
        Ok(Self {
            path: path.into(),
            writer: Writer::start(writer, Arc::clone(&clock), options.queue)
                .map_err(error::no_thread)?,
            reader: ConnectionThread::start("semel-sqlite-reader", reader, options.queue)?,
            clock,
        })
    }

    /// Returns the inbox of this store's file, for transactions on connections of your own.
    pub fn inbox(&self) -> InboxSteps {
        InboxSteps::new(Arc::clone(&self.clock))
    }

    /// Does `step` for every item of `batch`, whose operations have these ids, in one transaction.
    async fn each<I, A>(
        &self,
        ids: Vec<OpId>,
        batch: Arc<[I]>,
        step: impl Fn(&mut Ledger<'_>, OpId, &I) -> Result<A> + Send + 'static,
    ) -> Result<Vec<A>>
    where
        I: Send + Sync + 'static,
        A: Send + 'static,
    {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.writer
            .call(move |ledger| {
                ledger.reserve(batch.len());
                let items = ids.iter().zip(&*batch);
                items.map(|(id, item)| step(ledger, *id, item)).collect()
            })
            .await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Store for SqliteStore {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        let wanted = batch.iter().any(|request| request.wants_outcome);
        let ids = batch.iter().map(|it| it.operation.id()).collect();
        self.each(ids, batch, move |ledger, id, request| {
            ledger.want_outcomes(wanted);
            ledger.claim(id, request)
        })
        .await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        let ids = batch.iter().map(|it| it.operation.id()).collect();
        self.each(ids, batch, |ledger, id, it: &Settlement| {
            ledger.settle(id, it)
        })
        .await
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let ids = batch.iter().map(|it| it.operation.id()).collect();
        self.each(ids, batch, |ledger, id, it: &Renewal| ledger.renew(id, it))
            .await
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<_> = batch.iter().map(Parked::id).collect();
        self.writer
            .call(move |ledger| {
                let messages = ids.iter().zip(&*batch);
                let park = |(id, it): (&_, _)| park(ledger, *id, it, ledger.now);
                messages.map(park).collect()
            })
            .await
    }

    async fn drop_parked(&self, batch: Arc<[ParkedId]>, note: Option<&Note>) -> Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let note = note.cloned();
        self.writer
            .call(move |ledger| {
                let drop = |id: &ParkedId| drop_parked(ledger, *id, note.as_ref());
                batch.iter().map(drop).collect()
            })
            .await
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let ids: Vec<_> = batch.iter().map(Operation::id).collect();
        let clock = Arc::clone(&self.clock);
        self.reader
            .ask(move |connection| listing::records(connection, &ids, clock.now()))
            .await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        let (query, clock) = (query.clone(), Arc::clone(&self.clock));
        self.reader
            .ask(move |connection| listing::list(connection, &query, clock.now()))
            .await
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        let query = query.clone();
        self.reader
            .ask(move |connection| listing::parked(connection, &query))
            .await
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let ids = batch.iter().map(|it| it.operation.id()).collect();
        self.each(ids, batch, |ledger, id, directive: &Directive| {
            ledger.want_outcomes(true);
            ledger.operate(id, directive)
        })
        .await
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        let query = query.clone();
        self.reader
            .ask(move |connection| audit::list(connection, &query))
            .await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.writer.call(move |ledger| sweep(ledger, limit)).await
    }

    async fn stats(&self) -> Result<Stats> {
        let clock = Arc::clone(&self.clock);
        self.reader
            .ask(move |connection| listing::stats(connection, clock.now()))
            .await
    }

    async fn estimate(&self, most: usize) -> Result<Stats> {
        let clock = Arc::clone(&self.clock);
        self.reader
            .ask(move |connection| listing::estimate(connection, clock.now(), most))
            .await
    }

    async fn preflight(&self) -> Result<Capabilities> {
        let path = Arc::clone(&self.path);
        self.reader
            .ask(move |connection| preflight::preflight(connection, &path))
            .await
    }
}

impl TransferStore for SqliteStore {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        let (after, clock) = (after.map(<[u8]>::to_vec), Arc::clone(&self.clock));
        self.reader
            .ask(move |connection| {
                transfer::export(connection, after.as_deref(), limit, clock.now())
            })
            .await
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let ids = batch.iter().filter_map(|item| match item {
            Item::Record(listed) => Some(listed.operation.id()),
            Item::Token(_)
            | Item::Entity(..)
            | Item::Mark(_)
            | Item::Parked(_)
            | Item::Audited(_) => None,
        });
        let ids: Vec<_> = ids.collect();
        // Kept here until the end, so that the writing thread does not spend time on freeing it.
        let given = Arc::clone(&batch);
        let answer = self
            .writer
            .call(move |ledger| transfer::import(ledger, &given, &ids))
            .await;
        drop(batch);
        answer
    }
}

impl CheckpointStore for SqliteStore {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        let ids: Vec<_> = batch.iter().map(|it| it.operation.id()).collect();
        let mark = mark.clone();
        self.writer
            .call(move |ledger| settle_with(ledger, &ids, &batch, &mark))
            .await
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        let (reply, answer) = oneshot::channel();
        let job = Admit::new(batch, write, reply)?;
        self.writer.accept(Box::new(job)).await?;
        answer.await.unwrap_or_else(|_| Err(error::gone()))
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        let name: Box<str> = name.into();
        self.reader
            .ask(move |connection| listing::mark(connection, &name))
            .await
    }
}

impl TransactionalStore for SqliteStore {
    async fn prepare(&self, statements: &Statements) -> Result<()> {
        let statements = statements.clone();
        self.reader
            .ask(move |connection| statements::prepare(connection, &statements).map(drop))
            .await
    }

    async fn apply(
        &self,
        statements: &Statements,
        batch: Arc<[Application]>,
    ) -> Result<Vec<Applied>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        let job = Apply::new(statements.clone(), batch, reply)?;
        self.writer.accept(Box::new(job)).await?;
        answer.await.unwrap_or_else(|_| Err(error::gone()))
    }
}

/// Visits due records, the longest due first.
fn sweep(ledger: &mut Ledger<'_>, limit: usize) -> Result<Swept> {
    let (connection, now) = (ledger.connection, ledger.now);
    let limit = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
    let mut due = connection.prepare_cached(sql::RECORD_DUE).map_err(undone)?;
    let mut rows = due
        .query([row::ordered_millis(now), limit])
        .map_err(undone)?;
    let mut visited = Vec::new();
    while let Some(row) = rows.next().map_err(undone)? {
        let seq: i64 = row.get(row::COLUMNS).map_err(undone)?;
        match row::read(row) {
            Ok(record) => visited.push((seq, record)),
            // Left to the caller that asks for it; the others go on.
            Err(error) if error.kind() == ErrorKind::Corrupt => {}
            Err(error) => return Err(error),
        }
    }
    drop(rows);
    let mut swept = Swept::default();
    for (seq, record) in &visited {
        match decide::sweep(record, now) {
            Change::Keep => {}
            Change::Put(record) => {
                debug_assert_eq!(record.state.kind(), StateKind::InDoubt);
                let mut set = connection.prepare_cached(sql::RECORD_SET).map_err(undone)?;
                row::update(&mut set, *seq, &record).map_err(undone)?;
                swept.doubted += 1;
            }
            Change::Remove => {
                let mut drop = connection
                    .prepare_cached(sql::RECORD_DROP)
                    .map_err(undone)?;
                drop.execute([seq]).map_err(undone)?;
                swept.removed += 1;
            }
        }
    }
    // Without progress there would be more for ever.
    let full = i64::try_from(visited.len()).is_ok_and(|visited| visited >= limit);
    swept.more = full && swept.removed + swept.doubted > 0;
    if !swept.more {
        let quiet_since = decide::quiet_before(now);
        let mut count = connection
            .prepare_cached(sql::RECORD_ABANDONED)
            .map_err(undone)?;
        let abandoned: i64 = count
            .query_row([row::ordered_millis(quiet_since)], |row| row.get(0))
            .map_err(undone)?;
        swept.abandoned = abandoned.cast_unsigned();
    }
    Ok(swept)
}
