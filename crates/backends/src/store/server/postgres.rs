//! PostgreSQL.

use std::sync::Arc;

use semel_config::ServerKind;
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::transactional::{AnyTransactionalStore, Statements};
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{AnyStore, Result};
use semel_operate::check::Inspection;
use semel_store_postgres::{FORMAT, Options, PostgresStore};
use semel_worker::run::Stores;

use super::{Driver, Served, Terms};
use crate::store::format::Formats;

pub(super) static DRIVER: Driver = Driver {
    kind: ServerKind::Postgres,
    check_url: semel_store_postgres::check_url,
    open: |url, terms| Box::pin(open(url, terms)),
    inspect: |url, terms, statements| Box::pin(inspect(url, terms, statements)),
    migrate: |url, terms| Box::pin(semel_store_postgres::migrate(url, options(terms))),
};

async fn open(url: &str, terms: Terms) -> Result<Served> {
    let store = Arc::new(PostgresStore::connect(url, options(terms)).await?);
    Ok(Served {
        stores: Stores {
            store: AnyStore::new(Arc::clone(&store)),
            checkpoints: Some(AnyCheckpointStore::new(Arc::clone(&store))),
            transactions: Some(AnyTransactionalStore::new(Arc::clone(&store))),
            transfer: None,
            lent: None,
        },
        transfer: AnyTransferStore::new(store),
    })
}

async fn inspect(
    url: &str,
    terms: Terms,
    statements: &[Statements],
) -> Result<(Formats, Inspection)> {
    let looked = semel_store_postgres::inspect(url, options(terms), statements).await?;
    let formats = Formats {
        stored: looked.format,
        newest: FORMAT,
    };
    let looked = Inspection {
        is_there: looked.format.is_some(),
        capabilities: Some(looked.capabilities),
        refused: looked.refused,
        unfit: looked.unfit,
    };
    Ok((formats, looked))
}

fn options(terms: Terms) -> Options {
    let mut options = Options::default();
    options.create = terms.create;
    options
}
