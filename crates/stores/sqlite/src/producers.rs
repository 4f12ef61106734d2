//! The journal of producers in an SQLite file: what is to be sent, and what was confirmed of it.

mod ingest;
mod statements;

use std::fmt;
use std::path::Path;

use rusqlite::Connection;
use semel_core::Result;
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{
    Batch, Incarnation, InputMark, Opened, Opening, ProducerEntry, ProducerName, ProducerOrder,
    Standing, StoredBatch,
};
use tokio::sync::OnceCell;

use self::statements::Names;
use crate::config::Options;
use crate::connection_thread::ConnectionThread;
use crate::error::undone;
use crate::own_thread::apart;
use crate::table_set::TableSet;
use crate::{open, sql};

pub use ingest::SqliteIngest;

const TABLES: TableSet = TableSet {
    name: "the journal of producers",
    format: 1,
    sql_to_create: sql::PRODUCER_CREATE,
    sql_for_format: sql::PRODUCER_FORMAT,
    sql_to_count: sql::PRODUCER_TABLES,
};

/// The journal of producers in an SQLite file.
///
/// The first opening of a producer makes the file, the tables of a store and those of the journal, as far as they are
/// missing; so does `semel store migrate`.
pub struct SqliteProducers {
    path: Box<Path>,
    options: Options,
    thread: OnceCell<ConnectionThread>,
}

impl SqliteProducers {
    /// Returns the journal in this file, which is opened when it is first used. Needs a tokio runtime.
    ///
    /// # Errors
    /// `InvalidConfig`: the path is empty
    pub fn new(path: &Path, options: Options) -> Result<Self> {
        Ok(Self {
            path: open::absolute(path)?.into(),
            options,
            thread: OnceCell::new(),
        })
    }

    /// Creates the tables in a file that is there, if it has none.
    ///
    /// # Errors
    /// `InvalidConfig`: there is a newer journal; `Unavailable`: the file cannot be written, or is no database
    pub fn create(path: &Path, options: &Options) -> Result<()> {
        let connection = open::existing(&open::absolute(path)?, options)?;
        TABLES.create(&connection)?;
        make_times(&connection)
    }

    /// Tells whether somebody made the tables in a file that is there; makes none.
    ///
    /// # Errors
    /// `Unavailable`: the file cannot be read, or is no database
    pub fn are_in(path: &Path, options: &Options) -> Result<bool> {
        let path = open::absolute(path)?;
        Ok(path.exists() && TABLES.is_in(&open::existing(&path, options)?)?)
    }

    /// Opens the file once, and makes what is missing, where that may wait for a lock.
    async fn thread(&self) -> Result<&ConnectionThread> {
        let open = || {
            let (path, options) = (self.path.clone(), self.options.clone());
            apart(move || {
                let writer = open::writer(&path, &options)?;
                TABLES.create(&writer)?;
                make_times(&writer)?;
                ConnectionThread::start("semel-producers", writer, options.queue)
            })
        };
        self.thread.get_or_try_init(open).await
    }

    /// Reads the journal, if there is one, and makes or changes nothing: whoever looks may have no right to, and the file
    /// may be of an older format.
    async fn look<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<Option<T>> {
        if let Some(thread) = self.thread.get() {
            return thread.read(read).await.map(Some);
        }
        let (path, options) = (self.path.clone(), self.options.clone());
        apart(move || {
            if !path.exists() {
                return Ok(None);
            }
            let connection = open::existing(&path, &options)?;
            if !TABLES.is_in(&connection)? {
                return Ok(None);
            }
            TABLES.check(&connection)?;
            read(&connection).map(Some)
        })
        .await
    }

    /// Opens the file only if there is a journal in it.
    async fn present(&self) -> Result<Option<&ConnectionThread>> {
        if let Some(thread) = self.thread.get() {
            return Ok(Some(thread));
        }
        let (path, options) = (self.path.clone(), self.options.clone());
        if !apart(move || Self::are_in(&path, &options)).await? {
            return Ok(None);
        }
        self.thread().await.map(Some)
    }
}

/// Makes the table of the times of those that send here, which a journal of an older version has not.
fn make_times(connection: &Connection) -> Result<()> {
    let count = connection.query_row(sql::INGEST_TABLES, [], |row| row.get::<_, i64>(0));
    if count.map_err(undone)? == 0 {
        let made = connection.execute_batch(sql::INGEST_CREATE);
        made.map_err(undone)?;
    }
    Ok(())
}

impl ProducerJournal for SqliteProducers {
    async fn open(&self, opening: &Opening) -> Result<Opened> {
        let opening = opening.clone();
        let open = move |connection: &Connection| statements::open(connection, &opening);
        self.thread().await?.write(open).await
    }

    async fn append(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        batch: &Batch,
    ) -> Result<Standing> {
        let (incarnation, stream) = (incarnation.clone(), Box::<str>::from(stream));
        let batch = batch.clone();
        let append = move |connection: &Connection| {
            statements::append(connection, &incarnation, &stream, &batch)
        };
        self.thread().await?.write(append).await
    }

    async fn confirm(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        through: u64,
    ) -> Result<Standing> {
        let (incarnation, stream) = (incarnation.clone(), Box::<str>::from(stream));
        let thread = self.thread().await?;
        let (asked, of) = (incarnation.clone(), stream.clone());
        let standing = thread
            .read(move |connection| statements::standing(connection, &asked, &of))
            .await?;
        if standing.confirmed >= through {
            return Ok(standing);
        }
        let confirm = move |connection: &Connection| {
            statements::confirm(connection, &incarnation, &stream, through)
        };
        thread.write(confirm).await
    }

    async fn pending(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StoredBatch>> {
        let asked = incarnation.clone();
        let (incarnation, stream) = (incarnation.clone(), Box::<str>::from(stream));
        let pending = move |connection: &Connection| {
            statements::pending(connection, &incarnation, &stream, after, most)
        };
        let pending = self.look(pending).await?;
        // Somebody removed the journal.
        pending.ok_or_else(|| asked.fenced_by(0))
    }

    async fn input(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        digest: &[u8; 32],
    ) -> Result<Option<InputMark>> {
        let (incarnation, stream) = (incarnation.clone(), Box::<str>::from(stream));
        let digest = *digest;
        let input = move |connection: &Connection| {
            statements::input(connection, &incarnation, &stream, digest)
        };
        self.thread().await?.read(input).await
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let after = after.cloned();
        let read =
            move |connection: &Connection| statements::page(connection, &OWN, after.as_ref(), most);
        Ok(self.look(read).await?.unwrap_or_default())
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let name = name.clone();
        match self.present().await? {
            Some(thread) => {
                thread
                    .write(move |connection| statements::order(connection, name.as_str(), order))
                    .await
            }
            None => Ok(false),
        }
    }
}

impl fmt::Debug for SqliteProducers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteProducers")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// The names of the producers of this store, which have no space, on both sides of those of [`ingest`].
const OWN: Names = Names {
    prefix: "",
    ranges: &[("", ingest::PREFIX), (ingest::BEHIND_PREFIX, BEHIND_ALL)],
    read: str::parse,
};
/// Behind every name: they are printable characters of ASCII.
const BEHIND_ALL: &str = "\u{7f}";
