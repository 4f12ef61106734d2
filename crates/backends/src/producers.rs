//! Journals of producers, opened by the url of their store.

use semel_config::StoreUrl;
use semel_core::port::producer::AnyProducerJournal;
use semel_core::{Error, ErrorKind, Result};
use semel_operate::producers::Producers;
use semel_store_embedded::EmbeddedProducers;
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
        StoreUrl::Server(url) if url.kind() == semel_config::ServerKind::Postgres => {
            let options = semel_store_postgres::Options::default();
            let journal = semel_store_postgres::PostgresProducers::new(url.secret(), &options);
            journal.map(AnyProducerJournal::new)
        }
        #[cfg(feature = "mysql")]
        StoreUrl::Server(url) if url.kind() == semel_config::ServerKind::Mysql => {
            let options = semel_store_mysql::Options::default();
            let journal = semel_store_mysql::MysqlProducers::new(url.secret(), &options);
            journal.map(AnyProducerJournal::new)
        }
        StoreUrl::Memory | StoreUrl::Server(_) => {
            let message = format!(
                "{store}: a store of this kind keeps no producers; use `embedded:DIR`, `sqlite:FILE`, `postgres://…` \
                 or `mysql://…`"
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
