//! Journals of the messages that others send, opened by the url of their store.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use semel_config::StoreUrl;
use semel_core::port::ingest::{AnyIngestJournal, IngestJournal};
use semel_core::{Error, ErrorKind, Result};
use semel_store_embedded::EmbeddedIngest;
use semel_store_memory::MemoryIngest;
use semel_store_sqlite::SqliteIngest;

/// Returns the journal of a store, without an open file yet. Needs a tokio runtime. That of a store in memory is the same for
/// the life of the process.
///
/// # Errors
///
/// `Unsupported`: a store of this kind keeps no messages of others; those of its url.
pub fn open(store: &StoreUrl) -> Result<AnyIngestJournal> {
    match store {
        StoreUrl::Memory => Ok(AnyIngestJournal::shared(Arc::clone(&IN_MEMORY))),
        StoreUrl::Embedded(path) => Ok(AnyIngestJournal::new(EmbeddedIngest::new(path))),
        StoreUrl::Sqlite(path) => {
            let options = semel_store_sqlite::Options::default();
            SqliteIngest::new(path, options).map(AnyIngestJournal::new)
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Server(url) if url.kind() == semel_config::ServerKind::Postgres => {
            let options = semel_store_postgres::Options::default();
            let journal = semel_store_postgres::PostgresIngest::new(url.secret(), &options);
            journal.map(AnyIngestJournal::new)
        }
        #[cfg(feature = "mysql")]
        StoreUrl::Server(url) if url.kind() == semel_config::ServerKind::Mysql => {
            let options = semel_store_mysql::Options::default();
            let journal = semel_store_mysql::MysqlIngest::new(url.secret(), &options);
            journal.map(AnyIngestJournal::new)
        }
        StoreUrl::Server(_) => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{store}: a store of this kind keeps no messages that others send; use `embedded:DIR`, `sqlite:FILE`, \
                 `postgres://…` or `mysql://…`"
            ),
        )
        .not_applied()),
    }
}

/// Says for which pipelines messages wait that others sent, but for those that run, and how many.
///
/// # Errors
///
/// Those of the journal.
///
/// # Cancel safety
///
/// Safe.
pub async fn left_over(
    store: &StoreUrl,
    runs: impl Fn(&str) -> bool,
) -> Result<BTreeMap<Box<str>, u64>> {
    let mut waiting = BTreeMap::new();
    let entries = match open(store) {
        Ok(journal) => journal.list().await,
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(waiting),
        Err(error) => return Err(error),
    };
    let entries = match (entries, store) {
        // Who has no right on the journal of a server has taken nothing in.
        (Err(error), StoreUrl::Server(_)) if error.kind() == ErrorKind::InvalidConfig => {
            return Ok(waiting);
        }
        (entries, _) => entries?,
    };
    for entry in entries {
        for stream in entry.streams {
            let count = stream.waiting();
            if count > 0 && !runs(&stream.stream) {
                *waiting.entry(stream.stream).or_default() += count;
            }
        }
    }
    Ok(waiting)
}

/// A process has one store; a pipeline that goes on after a pause finds its messages here.
static IN_MEMORY: LazyLock<Arc<MemoryIngest>> = LazyLock::new(Arc::default);
