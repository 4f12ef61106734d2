//! The laws of the store ports, over a file in a folder of its own.

use std::sync::Arc;

use rusqlite::Connection;
use semel_conformance::{
    CheckpointSubject, DurableSubject, Subject, TestClock, TransactionalSubject, TransferSubject,
};
use semel_store_sqlite::{Options, SqliteStore};
use tempfile::TempDir;

struct Sqlite {
    folder: TempDir,
    clock: TestClock,
    store: Arc<SqliteStore>,
}

impl Sqlite {
    fn over(folder: TempDir, clock: TestClock) -> Self {
        let store = SqliteStore::open(&path(&folder), Arc::new(clock.clone()), Options::default());
        Self {
            folder,
            clock,
            store: Arc::new(store.expect("a store")),
        }
    }
}

impl Subject for Sqlite {
    type Store = SqliteStore;

    async fn open() -> Self {
        Self::over(tempfile::tempdir().expect("a folder"), TestClock::new())
    }

    fn store(&self) -> &Arc<SqliteStore> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

impl DurableSubject for Sqlite {
    async fn reopen(self) -> Self {
        let Self {
            folder,
            clock,
            store,
        } = self;
        drop(store);
        Self::over(folder, clock)
    }
}

impl CheckpointSubject for Sqlite {
    type Checkpoint = SqliteStore;

    fn checkpoint(&self) -> Arc<SqliteStore> {
        Arc::clone(&self.store)
    }
}

impl TransferSubject for Sqlite {
    type Transfer = SqliteStore;

    fn transfer(&self) -> Arc<SqliteStore> {
        Arc::clone(&self.store)
    }
}

impl TransactionalSubject for Sqlite {
    type Transactional = SqliteStore;

    fn transactional(&self) -> Arc<SqliteStore> {
        Arc::clone(&self.store)
    }

    async fn make_table(&self) {
        let connection = Connection::open(path(&self.folder)).expect("a connection");
        connection
            .execute_batch(Self::CREATE_TABLE)
            .expect("a table");
    }

    async fn rows(&self) -> Vec<(String, i64)> {
        let connection = Connection::open(path(&self.folder)).expect("a connection");
        let select = "SELECT account, amount FROM semel_laws_ledger";
        let mut select = connection.prepare(select).expect("a query");
        let rows = select
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .expect("rows");
        rows.collect::<Result<_, _>>().expect("rows")
    }
}

fn path(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("semel.db")
}

semel_conformance::store_laws!(Sqlite);
semel_conformance::durable_laws!(Sqlite);
semel_conformance::checkpoint_laws!(Sqlite);
semel_conformance::durable_checkpoint_laws!(Sqlite);
semel_conformance::transactional_laws!(Sqlite);
semel_conformance::transfer_laws!(Sqlite);
semel_conformance::durable_transfer_laws!(Sqlite);
semel_conformance::checkpoint_transfer_laws!(Sqlite);
semel_conformance::durable_transactional_laws!(Sqlite);
semel_conformance::history_laws!(Sqlite);
