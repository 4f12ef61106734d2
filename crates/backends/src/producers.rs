//! Journals of producers, opened by the url of their store.

use semel_config::StoreUrl;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
use semel_config::{ServerKind, ServerUrl};
use semel_core::port::producer::AnyProducerJournal;
use semel_core::{Error, ErrorKind, Result};
use semel_operate::producers::Producers;
use semel_store_embedded::EmbeddedProducers;
#[cfg(feature = "mysql")]
use semel_store_mysql::MysqlProducers;
#[cfg(feature = "postgres")]
use semel_store_postgres::PostgresProducers;
#[cfg(feature = "redis")]
use semel_store_redis::RedisProducers;
use semel_store_sqlite::SqliteProducers;

/// Returns the journal of a store, without a connection or an open file yet. Needs a tokio runtime.
///
/// # Errors
///
/// `Unsupported`: a store of this kind keeps no producers; those of its url.
pub fn open(store: &StoreUrl) -> Result<AnyProducerJournal> {
    match store {
        StoreUrl::Embedded(path) => Ok(AnyProducerJournal::new(EmbeddedProducers::new(path))),
        StoreUrl::Sqlite(path) => {
            let options = semel_store_sqlite::Options::default();
            SqliteProducers::new(path, options).map(AnyProducerJournal::new)
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Server(url) if url.kind() == ServerKind::Postgres => {
            postgres(url).map(AnyProducerJournal::new)
        }
        #[cfg(feature = "mysql")]
        StoreUrl::Server(url) if url.kind() == ServerKind::Mysql => {
            mysql(url).map(AnyProducerJournal::new)
        }
        #[cfg(feature = "redis")]
        StoreUrl::Server(url) if url.kind() == ServerKind::Redis => {
            redis(url).map(AnyProducerJournal::new)
        }
        StoreUrl::Memory | StoreUrl::Server(_) => {
            let message = format!(
                "{store}: a store of this kind keeps no producers; use `embedded:DIR`, `sqlite:FILE`, `postgres://…`, \
                 `mysql://…` or `redis://…`"
            );
            Err(Error::new(ErrorKind::Unsupported, message).not_applied())
        }
    }
}

/// Returns the producers of a store: those that publish from it, and those that send their messages to it.
///
/// # Errors
///
/// As [`open`].
pub fn open_all(store: &StoreUrl) -> Result<Producers> {
    Ok(Producers {
        own: open(store)?,
        others: match crate::ingest::open(store) {
            Ok(journal) => Some(journal),
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => return Err(error),
        },
    })
}

/// Returns what the server of a store promises less than a journal of producers asks for, as it is set up now: one line
/// for each setting, without secrets. Nothing of a store that is no server.
///
/// # Errors
///
/// Those of a server that does not answer.
#[cfg_attr(
    not(any(feature = "postgres", feature = "mysql", feature = "redis")),
    expect(
        clippy::unused_async,
        reason = "a server answers later, where any is built in"
    )
)]
pub async fn warnings(store: &StoreUrl) -> Result<Vec<Box<str>>> {
    match store {
        #[cfg(feature = "postgres")]
        StoreUrl::Server(url) if url.kind() == ServerKind::Postgres => {
            Ok(postgres(url)?.capabilities().await?.warnings)
        }
        #[cfg(feature = "mysql")]
        StoreUrl::Server(url) if url.kind() == ServerKind::Mysql => {
            Ok(mysql(url)?.capabilities().await?.warnings)
        }
        #[cfg(feature = "redis")]
        StoreUrl::Server(url) if url.kind() == ServerKind::Redis => {
            Ok(redis(url)?.capabilities().await?.warnings)
        }
        _ => Ok(Vec::new()),
    }
}

/// Tells whether the tables of producers are in a store; nothing of a store that has no tables.
///
/// # Errors
///
/// Those of the store.
#[cfg_attr(
    not(any(feature = "postgres", feature = "mysql")),
    expect(
        clippy::unused_async,
        reason = "a server answers later, where any is built in"
    )
)]
pub async fn has_tables(store: &StoreUrl) -> Result<Option<bool>> {
    match store {
        StoreUrl::Sqlite(path) => {
            let options = semel_store_sqlite::Options::default();
            SqliteProducers::are_in(path, &options).map(Some)
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Server(url) if url.kind() == ServerKind::Postgres => {
            postgres(url)?.is_made().await.map(Some)
        }
        #[cfg(feature = "mysql")]
        StoreUrl::Server(url) if url.kind() == ServerKind::Mysql => {
            mysql(url)?.is_made().await.map(Some)
        }
        StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Server(_) => Ok(None),
    }
}

#[cfg(feature = "postgres")]
fn postgres(url: &ServerUrl) -> Result<PostgresProducers> {
    let options = semel_store_postgres::Options::default();
    PostgresProducers::new(url.secret(), &options)
}

#[cfg(feature = "mysql")]
fn mysql(url: &ServerUrl) -> Result<MysqlProducers> {
    let options = semel_store_mysql::Options::default();
    MysqlProducers::new(url.secret(), &options)
}

#[cfg(feature = "redis")]
fn redis(url: &ServerUrl) -> Result<RedisProducers> {
    let options = semel_store_redis::Options::default();
    RedisProducers::new(url.secret(), &options)
}
