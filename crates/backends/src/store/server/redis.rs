//! Redis and Valkey: no effect joins their transactions, and no mark is written together with records.

use std::sync::Arc;

use semel_config::ServerKind;
use semel_core::port::transactional::Statements;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{AnyStore, Result};
use semel_operate::check::Inspection;
use semel_store_redis::{FORMAT, Options, RedisStore};
use semel_worker::run::Stores;

use super::{Driver, Served, Terms};
use crate::store::format::Formats;

pub(super) static DRIVER: Driver = Driver {
    kind: ServerKind::Redis,
    check_url: semel_store_redis::check_url,
    open: |url, terms| Box::pin(open(url, terms)),
    inspect: |url, terms, statements| Box::pin(inspect(url, terms, statements)),
    migrate: |url, terms| Box::pin(semel_store_redis::migrate(url, options(terms))),
};

async fn open(url: &str, terms: Terms) -> Result<Served> {
    let store = Arc::new(RedisStore::connect(url, options(terms)).await?);
    Ok(Served {
        stores: Stores {
            store: AnyStore::new(Arc::clone(&store)),
            checkpoints: None,
            transactions: None,
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
    let looked = semel_store_redis::inspect(url, options(terms), statements).await?;
    let formats = Formats {
        stored: looked.format,
        newest: FORMAT,
    };
    let looked = Inspection {
        is_there: looked.format.is_some(),
        capabilities: Some(looked.capabilities),
        refused: looked.refused,
        // Looking at a replica is already an error.
        unfit: None,
    };
    Ok((formats, looked))
}

fn options(terms: Terms) -> Options {
    let mut options = Options::default();
    options.create = terms.create;
    options.allow_eviction = terms.accepted.eviction;
    options
}
