//! Picks backends by name; alone in knowing them all.

use std::sync::Arc;

use semel_broker_file::{FileSource, Options, StdinSource};
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::transactional::AnyTransactionalStore;
use semel_core::{AnyStore, Clock, Result};
use semel_store_embedded::EmbeddedStore;
use semel_store_memory::MemoryStore;
use semel_store_sqlite::SqliteStore;
use semel_worker::run::Stores;

use crate::config::{SourceSettings, StoreUrl};

/// Opens a store.
pub(crate) fn store(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Stores> {
    match url {
        StoreUrl::Memory => {
            let store = Arc::new(MemoryStore::new(clock));
            Ok(Stores {
                store: AnyStore::new(Arc::clone(&store)),
                checkpoints: Some(AnyCheckpointStore::new(store)),
                transactions: None,
            })
        }
        StoreUrl::Embedded(path) => {
            let options = semel_store_embedded::Options::default();
            let store = Arc::new(EmbeddedStore::open(path, clock, options)?);
            Ok(Stores {
                store: AnyStore::new(Arc::clone(&store)),
                checkpoints: Some(AnyCheckpointStore::new(store)),
                transactions: None,
            })
        }
        StoreUrl::Sqlite(path) => {
            let options = semel_store_sqlite::Options::default();
            let store = Arc::new(SqliteStore::open(path, clock, options)?);
            Ok(Stores {
                store: AnyStore::new(Arc::clone(&store)),
                checkpoints: Some(AnyCheckpointStore::new(Arc::clone(&store))),
                transactions: Some(AnyTransactionalStore::new(store)),
            })
        }
    }
}

/// A source, each kind with its own type.
pub(crate) enum AnySource {
    File(FileSource),
    Stdin(StdinSource),
}

/// Opens a source.
pub(crate) async fn source(settings: &SourceSettings, max_message_bytes: u64) -> Result<AnySource> {
    let max_message_bytes = usize::try_from(max_message_bytes).unwrap_or(usize::MAX);
    match settings {
        SourceSettings::File { path, format } => {
            let options = Options {
                format: *format,
                max_message_bytes,
            };
            FileSource::open(path, options).await.map(AnySource::File)
        }
        SourceSettings::Stdin { format } => {
            let options = Options {
                format: *format,
                max_message_bytes,
            };
            StdinSource::open(options).await.map(AnySource::Stdin)
        }
    }
}
