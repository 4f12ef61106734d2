//! The store that keeps the records of a world, and the ways in which effects reach it.

use std::fmt;
use std::sync::Arc;

use semel_core::AnyStore;
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::transactional::{AnyTransactionalStore, Statements};
use semel_store_memory::MemoryStore;

use super::sink::EffectSink;
use super::tables::Tables;
use super::time::PausedClock;

/// One store, in its different ports.
#[derive(Clone, Debug)]
pub struct Backing {
    pub store: AnyStore,
    pub checkpoints: AnyCheckpointStore,
    /// The database that keeps rows together with the records; without one, a double plays it.
    pub database: Option<Database>,
}

impl Backing {
    /// The reference store.
    pub fn memory(clock: PausedClock) -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(clock)));
        Self {
            store: AnyStore::new(Arc::clone(&store)),
            checkpoints: AnyCheckpointStore::new(store),
            database: None,
        }
    }
}

/// A database that keeps rows beside the records.
#[derive(Clone)]
pub struct Database {
    pub store: AnyTransactionalStore,
    /// The statements that write the row of a message; no parameters, or the key as the only one.
    pub statements: Statements,
    /// The number of rows of a key.
    pub rows: Arc<dyn Fn(&str) -> usize + Send + Sync>,
}

impl Database {
    /// A double, whose rows are at `sink`.
    pub(super) fn double(tables: &Arc<Tables>, sink: &Arc<EffectSink>) -> Self {
        let sink = Arc::clone(sink);
        Self {
            store: AnyTransactionalStore::new(Arc::clone(tables)),
            statements: Statements {
                sql: ["insert".into()].into(),
                params: [].into(),
            },
            rows: Arc::new(move |key| sink.applied(key)),
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("statements", &self.statements)
            .finish_non_exhaustive()
    }
}
