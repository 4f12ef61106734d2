//! The stores that the table is played over.

use std::any::Any;
use std::sync::Arc;

use semel_core::port::transactional::{AnyTransactionalStore, Statements};
use semel_simulation::on_cue::backing::{Backing, Database};
use semel_simulation::on_cue::stage::Kind;
use semel_simulation::on_cue::time::PausedClock;
use semel_store_embedded::EmbeddedStore;
use semel_store_sqlite::SqliteStore;

use super::prompt::{Hand, Prompt};
use super::servers::Server;

/// The store that keeps the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    Memory,
    Sqlite,
    Embedded,
    Beside(Server),
}

/// The place of a store, which is removed when this is dropped.
pub(crate) type Place = Box<dyn Any>;

impl Shelf {
    pub(crate) const ALL: [Self; 6] = [
        Self::Memory,
        Self::Sqlite,
        Self::Embedded,
        Self::Beside(Server::Postgres),
        Self::Beside(Server::Mysql),
        Self::Beside(Server::Redis),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Embedded => "embedded",
            Self::Beside(Server::Postgres) => "postgres",
            Self::Beside(Server::Mysql) => "mysql",
            Self::Beside(Server::Redis) => "redis",
        }
    }

    /// Returns whether effects of this kind can be recorded in it.
    pub(crate) fn has(self, kind: Kind) -> bool {
        match self {
            Self::Memory | Self::Sqlite | Self::Beside(Server::Postgres | Server::Mysql) => true,
            Self::Embedded => kind != Kind::Transaction,
            Self::Beside(Server::Redis) => !matches!(kind, Kind::Transaction | Kind::Output),
        }
    }

    /// An empty store, in a place of its own.
    pub(crate) fn open(self, clock: PausedClock) -> Result<(Backing, Place), String> {
        let folder = || tempfile::tempdir().map_err(|error| error.to_string());
        match self {
            Self::Memory => Ok((Backing::memory(clock), Box::new(()))),
            Self::Sqlite => {
                let (folder, hand) = (folder()?, Hand::at(clock));
                let path = folder.path().join("semel.db");
                let options = semel_store_sqlite::Options::default();
                let store = SqliteStore::open(&path, hand.clone(), options);
                let store = store.map_err(|error| error.to_string())?;
                let store = Prompt::new(store, clock, hand);
                let backing = Backing {
                    database: Some(ledger(&path, &store)),
                    ..store.backing()
                };
                Ok((backing, Box::new(folder)))
            }
            Self::Embedded => {
                let (folder, hand) = (folder()?, Hand::at(clock));
                let options = semel_store_embedded::Options::default();
                let store = EmbeddedStore::open(folder.path(), hand.clone(), options);
                let store = store.map_err(|error| error.to_string())?;
                let backing = Prompt::new(store, clock, hand).backing();
                Ok((backing, Box::new(folder)))
            }
            Self::Beside(server) => {
                let (backing, site) = server.open(clock)?;
                Ok((backing, Box::new(site)))
            }
        }
    }
}

/// A table beside the records, with a row for each effect.
fn ledger(path: &std::path::Path, store: &Prompt<SqliteStore>) -> Database {
    let connect = |path: &std::path::Path| rusqlite::Connection::open(path).expect("a connection");
    connect(path)
        .execute_batch("CREATE TABLE effects (id INTEGER PRIMARY KEY)")
        .expect("a table");
    let path = path.to_owned();
    Database {
        store: AnyTransactionalStore::new(store.clone()),
        statements: Statements {
            sql: ["INSERT INTO effects DEFAULT VALUES".into()].into(),
            params: [].into(),
        },
        // A scene has one key.
        rows: Arc::new(move |_| {
            let count = "SELECT count(*) FROM effects";
            let rows = connect(&path).query_row(count, [], |row| row.get::<_, u32>(0));
            rows.expect("a count") as usize
        }),
    }
}
