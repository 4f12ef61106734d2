//! The laws of the store ports, over a database of their own on a real server.
//!
//! A program of its own, so that it runs beside that of `mysql/`: both wait for servers.

#[path = "mysql/database.rs"]
mod database;
#[path = "mysql/database_pool.rs"]
mod database_pool;

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use semel_conformance::{
    CheckpointSubject, DurableSubject, Subject, TestClock, TransactionalSubject, TransferSubject,
};
use semel_store_mysql::{MysqlStore, Options};

use database::server_url;
use database_pool::PooledDatabase;

struct Mysql {
    database: PooledDatabase,
    clock: TestClock,
    store: Arc<MysqlStore>,
}

impl Mysql {
    async fn over(database: PooledDatabase, clock: TestClock) -> Self {
        let mut options = Options::default();
        options.clock = Some(Arc::new(clock.clone()));
        let store = MysqlStore::connect(&database.database().url(), options).await;
        Self {
            database,
            clock,
            store: Arc::new(store.expect("a store")),
        }
    }
}

impl Subject for Mysql {
    type Store = MysqlStore;

    /// Half of the usual: a call is a few statements, each with a commit that reaches the disk.
    const HISTORIES: u64 = 100;

    async fn open() -> Self {
        Self::over(PooledDatabase::on(&server_url()).await, TestClock::new()).await
    }

    /// Returns a clean store with the same connections.
    async fn renew(self) -> Self {
        self.database.database().run(CLEAR).await;
        self
    }

    fn store(&self) -> &Arc<MysqlStore> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

impl DurableSubject for Mysql {
    async fn reopen(self) -> Self {
        let Self {
            database,
            clock,
            store,
        } = self;
        drop(store);
        Self::over(database, clock).await
    }
}

impl CheckpointSubject for Mysql {
    type Checkpoint = MysqlStore;

    fn checkpoint(&self) -> Arc<MysqlStore> {
        Arc::clone(&self.store)
    }
}

impl TransferSubject for Mysql {
    type Transfer = MysqlStore;

    fn transfer(&self) -> Arc<MysqlStore> {
        Arc::clone(&self.store)
    }
}

impl TransactionalSubject for Mysql {
    const CREATE_TABLE: &'static str = "CREATE TABLE semel_laws_ledger \
        (account VARCHAR(200) NOT NULL, amount BIGINT NOT NULL) \
        ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";

    type Transactional = MysqlStore;

    fn transactional(&self) -> Arc<MysqlStore> {
        Arc::clone(&self.store)
    }

    async fn make_table(&self) {
        self.database.database().run(Self::CREATE_TABLE).await;
    }

    async fn rows(&self) -> Vec<(String, i64)> {
        let mut connection = self.database.database().connect().await;
        let select = "SELECT account, amount FROM semel_laws_ledger";
        let rows = connection.query(select).await.expect("rows");
        connection.disconnect().await.expect("an end");
        rows
    }
}

/// Statements that empty the tables. Tokens go on, since a store has drawn some in advance.
const CLEAR: &str = "\
    SET SESSION sql_safe_updates = 0, completion_type = 0; START TRANSACTION; \
    DELETE FROM semel_records; DELETE FROM semel_entities; DELETE FROM semel_parked; \
    DELETE FROM semel_audit; DELETE FROM semel_marks; COMMIT";

semel_conformance::store_laws!(Mysql);
semel_conformance::durable_laws!(Mysql);
semel_conformance::checkpoint_laws!(Mysql);
semel_conformance::durable_checkpoint_laws!(Mysql);
semel_conformance::transactional_laws!(Mysql);
semel_conformance::durable_transactional_laws!(Mysql);
semel_conformance::transfer_laws!(Mysql);
semel_conformance::durable_transfer_laws!(Mysql);
semel_conformance::checkpoint_transfer_laws!(Mysql);
semel_conformance::history_laws!(Mysql);
