//! The outbox: messages that leave if their transaction commits, and what their relays ask of the table.

mod messages;
mod operations;
mod partitions;
mod publish;

pub use publish::SqliteOutbox;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use semel_core::Result;
use semel_core::outbox::{OutboxId, Outgoing, PartitionLease};
use semel_core::port::outbox::{OutboxContents, OutboxStore, RelayName, Unsent};
use tokio::sync::OnceCell;
use tokio::time::sleep;

use crate::config::Options;
use crate::connection_thread::ConnectionThread;
use crate::error::{no_outbox, undone};
use crate::own_thread::apart;
use crate::table_set::TableSet;
use crate::{open, sql};

/// The format of the outbox that this version creates and knows.
pub const OUTBOX_FORMAT: i64 = 1;

const TABLES: TableSet = TableSet {
    name: "the outbox",
    format: OUTBOX_FORMAT,
    sql_to_create: sql::OUTBOX_CREATE,
    sql_for_format: sql::OUTBOX_FORMAT,
    sql_to_count: sql::OUTBOX_TABLES,
};

/// The outbox in an SQLite file, for the relays that publish it.
///
/// The file may hold a store as well; `semel store migrate` or [`SqliteOutbox::create`] makes the tables. Leases are
/// measured by the clock of the machine, which its processes share.
pub struct SqliteOutboxStore {
    path: Box<Path>,
    options: Options,
    threads: OnceCell<Threads>,
    /// The state of the file that was seen last.
    seen: AtomicI64,
}

/// The connections to the file. Whoever reads waits for no writer.
struct Threads {
    writer: ConnectionThread,
    reader: ConnectionThread,
}

impl Threads {
    fn open(path: &Path, options: &Options) -> Result<Self> {
        if !path.exists() {
            return Err(no_outbox());
        }
        let writer = open::existing(path, options)?;
        if !TABLES.is_in(&writer)? {
            return Err(no_outbox());
        }
        TABLES.check(&writer)?;
        let reader = open::existing(path, options)?;
        let queue = options.queue;
        Ok(Self {
            writer: ConnectionThread::start("semel-outbox-writer", writer, queue)?,
            reader: ConnectionThread::start("semel-outbox-reader", reader, queue)?,
        })
    }
}

impl SqliteOutboxStore {
    /// Returns the outbox in this file, which is opened when it is first used. Needs a tokio runtime.
    ///
    /// # Errors
    /// `InvalidConfig`: the path is empty
    pub fn new(path: &Path, options: Options) -> Result<Self> {
        Ok(Self {
            path: open::absolute(path)?.into(),
            options,
            threads: OnceCell::new(),
            seen: AtomicI64::new(NEVER),
        })
    }

    /// Creates the tables in a file that is there, if it has none.
    ///
    /// # Errors
    /// `InvalidConfig`: there is a newer outbox; `Unavailable`: the file cannot be written, or is no database
    pub fn create(path: &Path, options: &Options) -> Result<()> {
        TABLES.create(&open::existing(&open::absolute(path)?, options)?)
    }

    /// Counts what waits in it, and names the other streams that are not published.
    ///
    /// # Cost   reads every message that is not published
    /// # Errors   `InvalidConfig`: no outbox, or a newer one; `Unavailable`
    ///
    /// # Cancel safety   safe
    pub async fn inspect(&self, stream: &str) -> Result<OutboxContents> {
        let stream: Box<str> = stream.into();
        self.read(move |connection| messages::contents(connection, &stream))
            .await
    }

    /// Opens the file once, where that may wait for a lock; refuses an outbox that is missing or newer.
    async fn threads(&self) -> Result<&Threads> {
        let open = || {
            let (path, options) = (self.path.clone(), self.options.clone());
            apart(move || Threads::open(&path, &options))
        };
        self.threads.get_or_try_init(open).await
    }

    /// Answers a question about one state of the file.
    async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.threads().await?.reader.read(question).await
    }

    /// Changes the file in one transaction.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.threads().await?.writer.write(work).await
    }
}

impl OutboxStore for SqliteOutboxStore {
    async fn lease(
        &self,
        relay: &RelayName,
        lease: Duration,
        balanced: bool,
    ) -> Result<Vec<PartitionLease>> {
        let (relay, millis) = (relay.clone(), millis(lease));
        self.write(move |connection| {
            if balanced {
                partitions::balance(connection, &relay, millis)
            } else {
                partitions::renew(connection, &relay, millis)
            }
        })
        .await
    }

    async fn pending(
        &self,
        relay: &RelayName,
        leases: &[PartitionLease],
        most: u32,
    ) -> Result<Vec<Outgoing>> {
        let (relay, leases) = (relay.clone(), leases.to_vec());
        self.read(move |connection| messages::pending(connection, &relay, &leases, most))
            .await
    }

    async fn sent(&self, ids: &[OutboxId], keep: bool) -> Result<u64> {
        let ids = ids.to_vec();
        self.write(move |connection| messages::sent(connection, &ids, keep))
            .await
    }

    async fn put_off(&self, relay: &RelayName, unsent: &[Unsent]) -> Result<Vec<OutboxId>> {
        let (relay, unsent) = (relay.clone(), unsent.to_vec());
        self.write(move |connection| messages::put_off(connection, &relay, &unsent))
            .await
    }

    async fn forget(&self, stream: &str, published_for: Duration, most: u32) -> Result<u64> {
        let (millis, stream): (_, Box<str>) = (millis(published_for), stream.into());
        let asked = stream.clone();
        // Looked at first, so that nothing waits for a writer that finds nothing.
        let is_old = self.read(move |connection| messages::is_old(connection, &asked, millis));
        if !is_old.await? {
            return Ok(0);
        }
        // In small transactions: there is one writer of a file, and others wait for it.
        let mut count = 0;
        while count < u64::from(most) {
            let left = u64::from(most) - count;
            let few = u32::try_from(left)
                .unwrap_or(u32::MAX)
                .min(FORGOTTEN_AT_ONCE);
            let stream = stream.clone();
            let forget =
                move |connection: &Connection| messages::forget(connection, &stream, millis, few);
            let gone = self.write(forget).await?;
            count += gone;
            if gone < u64::from(few) {
                break;
            }
        }
        Ok(count)
    }

    async fn leave(&self, relay: &RelayName) -> Result<()> {
        let relay = relay.clone();
        self.write(move |connection| partitions::leave(connection, &relay))
            .await
    }

    async fn committed(&self) -> Result<()> {
        loop {
            let reader = &self.threads().await?.reader;
            let version = reader.ask(|connection| {
                let version = connection.pragma_query_value(None, "data_version", |row| row.get(0));
                version.map_err(undone)
            });
            let version: i64 = version.await?;
            if self.seen.swap(version, Ordering::Relaxed) != version {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }
}

impl fmt::Debug for SqliteOutboxStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOutboxStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Reads the clock of the outbox.
fn now(connection: &Connection) -> Result<i64> {
    let mut now = connection.prepare_cached(sql::OUTBOX_NOW).map_err(undone)?;
    now.query_row([], |row| row.get(0)).map_err(undone)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

/// The time between two looks whether anything was committed. One costs some microseconds, and reads nothing of the
/// tables.
const LOOK: Duration = Duration::from_millis(20);
/// The most messages that one transaction deletes.
const FORGOTTEN_AT_ONCE: u32 = 100;
/// No state that SQLite counts.
const NEVER: i64 = i64::MIN;
