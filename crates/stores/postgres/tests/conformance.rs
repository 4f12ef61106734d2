//! The laws of the store ports, over a schema of its own on a real server.
//!
//! A program of its own, so that it runs beside that of `postgres/`: both wait for servers.

#[path = "postgres/site.rs"]
mod site;

use std::sync::Arc;

use semel_conformance::{
    CheckpointSubject, DurableSubject, Subject, TestClock, TransactionalSubject, TransferSubject,
};
use semel_store_postgres::{Options, PostgresStore};

use site::Site;

struct Postgres {
    clock: TestClock,
    store: Arc<PostgresStore>,
    site: Site,
}

impl Postgres {
    async fn over(site: Site, clock: TestClock) -> Self {
        Self::hoping(site, clock, 0).await
    }

    /// Opens a store with so many new keys behind it.
    async fn hoping(site: Site, clock: TestClock, new_keys: u64) -> Self {
        let mut options = Options::default();
        options.new_keys = new_keys;
        options.clock = Some(Arc::new(clock.clone()));
        let store = PostgresStore::connect(&site.url(), options).await;
        Self {
            clock,
            store: Arc::new(store.expect("a store")),
            site,
        }
    }
}

impl Subject for Postgres {
    type Store = PostgresStore;

    const HISTORIES: u64 = 100;

    async fn open() -> Self {
        Self::over(Site::new(), TestClock::new()).await
    }

    /// Returns a clean store with the same connections, whose server processes take long to start.
    async fn renew(self) -> Self {
        let cleared = self.site.client().await.batch_execute(CLEAR).await;
        cleared.expect("empty tables");
        self
    }

    fn store(&self) -> &Arc<PostgresStore> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

impl DurableSubject for Postgres {
    async fn reopen(self) -> Self {
        let Self { clock, store, site } = self;
        drop(store);
        Self::over(site, clock).await
    }
}

impl CheckpointSubject for Postgres {
    type Checkpoint = PostgresStore;

    fn checkpoint(&self) -> Arc<PostgresStore> {
        Arc::clone(&self.store)
    }
}

impl TransferSubject for Postgres {
    type Transfer = PostgresStore;

    fn transfer(&self) -> Arc<PostgresStore> {
        Arc::clone(&self.store)
    }
}

impl TransactionalSubject for Postgres {
    type Transactional = PostgresStore;

    fn transactional(&self) -> Arc<PostgresStore> {
        Arc::clone(&self.store)
    }

    async fn make_table(&self) {
        let made = self
            .site
            .client()
            .await
            .batch_execute(Self::CREATE_TABLE)
            .await;
        made.expect("a table");
    }

    async fn rows(&self) -> Vec<(String, i64)> {
        let select = "SELECT account, amount FROM semel_laws_ledger";
        let rows = self
            .site
            .client()
            .await
            .query(select, &[])
            .await
            .expect("rows");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

/// Statements that empty the tables, except for what an open store relies on: its scopes, and the tokens drawn so far.
const CLEAR: &str = "DELETE FROM records; DELETE FROM entities; DELETE FROM parked; DELETE FROM audit; \
                     DELETE FROM marks";

semel_conformance::store_laws!(Postgres);
semel_conformance::durable_laws!(Postgres);
semel_conformance::checkpoint_laws!(Postgres);
semel_conformance::durable_checkpoint_laws!(Postgres);
semel_conformance::history_laws!(Postgres);
semel_conformance::transactional_laws!(Postgres);
semel_conformance::durable_transactional_laws!(Postgres);
semel_conformance::transfer_laws!(Postgres);
semel_conformance::durable_transfer_laws!(Postgres);
semel_conformance::checkpoint_transfer_laws!(Postgres);

/// The same, with claims that hope for new keys until one is there.
mod hoping {
    use std::sync::Arc;

    use semel_conformance::{Subject, TestClock};
    use semel_store_postgres::PostgresStore;

    use super::{Postgres, Site};

    struct Hoping(Postgres);

    impl Subject for Hoping {
        type Store = PostgresStore;

        const HISTORIES: u64 = 20;

        async fn open() -> Self {
            Self(Postgres::hoping(Site::new(), TestClock::new(), ENOUGH).await)
        }

        async fn renew(self) -> Self {
            let Postgres { site, clock, .. } = self.0.renew().await;
            Self(Postgres::hoping(site, clock, ENOUGH).await)
        }

        fn store(&self) -> &Arc<PostgresStore> {
            self.0.store()
        }

        fn clock(&self) -> Option<&TestClock> {
            self.0.clock()
        }
    }

    semel_conformance::store_laws!(Hoping);
    semel_conformance::history_laws!(Hoping);

    /// New keys that are enough for a batch of any size.
    const ENOUGH: u64 = 1 << 40;
}
