//! The stores that have to live through power cuts, and those that must not.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};
use semel_conformance::TestClock;
use semel_core::{AnyStore, Error, ErrorKind, Settled, Window};
use semel_store_embedded::EmbeddedStore;
use semel_store_postgres::PostgresStore;
use semel_store_redis::RedisStore;
use semel_store_sqlite::{InboxSteps, SqliteStore};

use super::dice::Dice;
use super::disk::Way;
use super::host::Host;
use super::notes::Notes;
use super::servers::{self, Server};

/// A store, and how it syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Embedded,
    Sqlite,
    /// An inbox on a connection whose user has turned off the sync of each commit.
    SqliteNormal,
    Postgres,
    Redis,
    /// A server that syncs every second.
    RedisEverysec,
}

/// A store that is open, on a disk that forgets.
pub(crate) struct Opened {
    pub(crate) store: AnyStore,
    server: Option<Server>,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Sqlite => "SQLite FULL",
            Self::SqliteNormal => "SQLite NORMAL (control)",
            Self::Postgres => "PostgreSQL",
            Self::Redis => "Redis always",
            Self::RedisEverysec => "Redis everysec (control)",
        }
    }

    /// Returns whether it must lose records.
    pub(crate) fn is_control(self) -> bool {
        match self {
            Self::SqliteNormal | Self::RedisEverysec => true,
            Self::Embedded | Self::Sqlite | Self::Postgres | Self::Redis => false,
        }
    }

    /// Operations within which the power goes while the store is opened, which surely takes that
    /// many. Redis takes none when it opens.
    pub(crate) fn opening(self) -> u64 {
        match self {
            Self::Embedded | Self::Sqlite | Self::SqliteNormal => 3,
            Self::Redis | Self::RedisEverysec => 0,
            Self::Postgres => 60,
        }
    }

    /// Operations within which the power goes while it is used.
    pub(crate) fn working(self) -> u64 {
        match self {
            Self::Embedded | Self::Sqlite | Self::SqliteNormal => 250,
            Self::Redis | Self::RedisEverysec => 150,
            Self::Postgres => 400,
        }
    }

    /// Draws the surviving part of the unsynced writes. Redis has no checksums in its log: if the
    /// middle is missing, it does not start, and its own repair may drop acknowledged records. So its
    /// log is only cut short, at any sector.
    pub(crate) fn draw(self, dice: &mut Dice) -> Way {
        match self {
            Self::Redis | Self::RedisEverysec => Way::draw_growing(dice),
            Self::Embedded | Self::Sqlite | Self::SqliteNormal | Self::Postgres => Way::draw(dice),
        }
    }

    /// A disk that the first life can begin on.
    ///
    /// # Errors
    /// If it cannot be made, or a server cannot.
    pub(crate) fn host(self) -> Result<Host, String> {
        let host = Host::start()?;
        match self {
            Self::Postgres => servers::prepare_postgres(&host)?,
            Self::Redis => servers::prepare_redis(&host, "always")?,
            Self::RedisEverysec => servers::prepare_redis(&host, "everysec")?,
            Self::Embedded | Self::Sqlite | Self::SqliteNormal => {}
        }
        Ok(host)
    }

    /// Opens the store in `folder`, by the server it needs.
    ///
    /// # Errors
    /// If it does not open.
    pub(crate) async fn open(self, folder: &Path) -> Result<Opened, String> {
        let said = |error: Error| error.to_string();
        let server = match self {
            Self::Embedded | Self::Sqlite | Self::SqliteNormal => None,
            Self::Postgres => Some(servers::postgres(folder)?),
            Self::Redis => Some(servers::redis(folder, "always")?),
            Self::RedisEverysec => Some(servers::redis(folder, "everysec")?),
        };
        let store = match (self, &server) {
            (Self::Embedded | Self::Sqlite | Self::SqliteNormal, _) => {
                self.open_files(folder).map_err(said)?
            }
            (Self::Postgres, Some(server)) => {
                let options = semel_store_postgres::Options::default();
                let store = PostgresStore::connect(server.url(), options).await;
                AnyStore::new(store.map_err(said)?)
            }
            (Self::Redis | Self::RedisEverysec, Some(server)) => {
                let options = semel_store_redis::Options::default();
                let store = RedisStore::connect(server.url(), options).await;
                AnyStore::new(store.map_err(said)?)
            }
            (Self::Postgres | Self::Redis | Self::RedisEverysec, None) => {
                return Err("no server".to_owned());
            }
        };
        Ok(Opened { store, server })
    }

    /// Opens the store in the files of `folder`.
    ///
    /// # Errors
    /// As the store's; `unsupported` where it has a server.
    pub(crate) fn open_files(self, folder: &Path) -> semel_core::Result<AnyStore> {
        let clock = Arc::new(TestClock::new());
        match self {
            Self::Embedded => {
                // Short, so that segments end and are carried forward.
                let options = semel_store_embedded::Options::default().with_segment_bytes(30_000);
                EmbeddedStore::open(&folder.join("store"), clock, options).map(AnyStore::new)
            }
            Self::Sqlite | Self::SqliteNormal => {
                let mut options = semel_store_sqlite::Options::default();
                if self == Self::Sqlite {
                    // Short, so that it is copied back into the file now and then.
                    options.log_bytes = 256 << 10;
                }
                SqliteStore::open(&folder.join("s.db"), clock, options).map(AnyStore::new)
            }
            Self::Postgres | Self::Redis | Self::RedisEverysec => {
                Err(Error::new(ErrorKind::Unsupported, "it has a server"))
            }
        }
    }

    /// Uses the store from several tasks at once until the power is off.
    ///
    /// # Errors
    /// An answer that the store must never give.
    pub(crate) async fn work(
        self,
        opened: &Opened,
        folder: &Path,
        notes: &Notes,
    ) -> Result<(), String> {
        let life = notes.begin_life();
        if self == Self::SqliteNormal {
            return without_syncing(&folder.join("s.db"), notes, life);
        }
        let writers = (0..WRITERS).map(|writer| {
            let work = notes.clone().work(opened.store.clone(), life, writer);
            tokio::spawn(work)
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.map_err(|panic| panic.to_string())??;
        }
        Ok(())
    }
}

/// An effect and its record in one transaction, on a connection that does not sync it.
fn without_syncing(path: &Path, notes: &Notes, life: u64) -> Result<(), String> {
    let said = |error: rusqlite::Error| error.to_string();
    let mut connection = Connection::open(path).map_err(said)?;
    connection
        .pragma_update(None, "synchronous", "NORMAL")
        .map_err(said)?;
    let inbox = InboxSteps::open(&connection, Arc::new(TestClock::new()));
    let inbox = inbox.map_err(|error| error.to_string())?;
    notes.work_inline(life, |request, outcome| {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .ok()?;
        let admission = inbox.admit(&transaction, request).ok()?;
        let semel_core::Admission::Granted(claim) = admission else {
            return None;
        };
        let settled = inbox.complete(&transaction, &claim, outcome, Window::DEFAULT);
        let Ok(Settled::Now(_)) = settled else {
            return None;
        };
        transaction.commit().ok()
    });
    Ok(())
}

impl Opened {
    /// Ends it as a power cut does: nothing more of it reaches the disk.
    pub(crate) fn end(self) {
        drop(self.store);
        drop(self.server);
    }
}

/// Tasks that use a store at once.
const WRITERS: u64 = 4;
