//! Picks backends by name; alone in knowing them all.

use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use semel_broker_file::{FileSource, Options, StdinSource};
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::store::Capabilities;
use semel_core::port::transactional::{AnyTransactionalStore, Statements};
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{AnyStore, Certainty, Clock, Code, Error, ErrorKind, Result, Store};
use semel_engine::system::SystemClock;
use semel_store_embedded::{EmbeddedStore, Inspector};
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

/// A store as the operating verbs need it.
pub(crate) struct Operated {
    /// The store.
    pub(crate) store: AnyStore,
    /// The same store, to take its contents out or put some in; none where it was opened to look at.
    pub(crate) transfer: Option<AnyTransferStore>,
    /// The same store, to run pipelines on; none unless it was opened to run something.
    pub(crate) stores: Option<Stores>,
    /// What is to be known where the store was not opened and its files are read.
    pub(crate) beside: Option<Beside>,
}

/// What may go on beside whoever reads the files of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    /// The process that has the store open, as far as can be told. What it has in memory alone is
    /// not seen: renewed leases, and claims of transactional effects.
    pub(crate) process: Option<u32>,
}

/// Opens a store that is there, to look at it while others may use it.
pub(crate) fn store_for_reading(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Operated> {
    refuse_absent(url)?;
    match url {
        StoreUrl::Embedded(path) => Ok(Operated {
            store: AnyStore::new(Inspector::open(path, clock)?),
            transfer: None,
            stores: None,
            beside: Some(Beside {
                process: holder(path),
            }),
        }),
        StoreUrl::Memory | StoreUrl::Sqlite(_) => store_for_filling(url, clock),
    }
}

/// Opens a store that is there, to change what it holds.
pub(crate) fn store_for_changing(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Operated> {
    refuse_absent(url)?;
    store_for_filling(url, clock)
}

/// Opens a store that is there, to run effects on it.
pub(crate) fn store_for_running(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Operated> {
    refuse_absent(url)?;
    let stores = store(url, clock)?;
    Ok(Operated {
        store: stores.store.clone(),
        transfer: None,
        stores: Some(stores),
        beside: None,
    })
}

/// Opens a store to fill it, and makes it if it is not there.
pub(crate) fn store_for_filling(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Operated> {
    match url {
        StoreUrl::Memory => Err(Error::new(
            ErrorKind::InvalidInput,
            "a memory: store is gone with its process, so that there is nothing to look at",
        )),
        StoreUrl::Embedded(path) => {
            let options = semel_store_embedded::Options::default();
            let store = Arc::new(EmbeddedStore::open(path, clock, options)?);
            Ok(Operated {
                store: AnyStore::new(Arc::clone(&store)),
                transfer: Some(AnyTransferStore::new(store)),
                stores: None,
                beside: None,
            })
        }
        StoreUrl::Sqlite(path) => {
            let options = semel_store_sqlite::Options::default();
            let store = Arc::new(SqliteStore::open(path, clock, options)?);
            Ok(Operated {
                store: AnyStore::new(Arc::clone(&store)),
                transfer: Some(AnyTransferStore::new(store)),
                stores: None,
                beside: None,
            })
        }
    }
}

/// What is known of a store without changing anything.
pub(crate) struct Looked {
    /// Whether it is there; if not, a run makes it.
    pub(crate) is_there: bool,
    /// What it promises, as far as it can be seen before it is there.
    pub(crate) capabilities: Option<Capabilities>,
    /// Why it refuses each of the statements, as far as it can be asked.
    pub(crate) refused: Vec<Option<Error>>,
}

/// Looks at a store, also while others use it.
pub(crate) async fn look(
    url: &StoreUrl,
    clock: Arc<dyn Clock>,
    statements: &[Statements],
) -> Result<Looked> {
    let nothing = Looked {
        is_there: false,
        capabilities: None,
        refused: Vec::new(),
    };
    match url {
        StoreUrl::Memory => Ok(Looked {
            is_there: true,
            capabilities: Some(MemoryStore::new(clock).preflight().await?),
            ..nothing
        }),
        StoreUrl::Embedded(_) if !is_there(url) => Ok(nothing),
        StoreUrl::Embedded(_) => Ok(Looked {
            is_there: true,
            capabilities: Some(store_for_reading(url, clock)?.store.preflight().await?),
            ..nothing
        }),
        StoreUrl::Sqlite(path) => {
            let looked = semel_store_sqlite::look(path, statements)?;
            Ok(looked.map_or(nothing, |looked| Looked {
                is_there: looked.is_store,
                capabilities: Some(looked.capabilities),
                refused: looked.refused,
            }))
        }
    }
}

/// Formats of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Formats {
    /// The one that it has; none where there is no store.
    pub(crate) stored: Option<i64>,
    /// The one that this version writes.
    pub(crate) newest: i64,
}

/// The format of a store, if this version writes a newer one.
pub(crate) fn older_format(url: &StoreUrl) -> Option<i64> {
    let Formats { stored, newest } = formats(url).ok()?;
    stored.filter(|stored| *stored < newest)
}

/// The format of a store, without changing it.
pub(crate) fn formats(url: &StoreUrl) -> Result<Formats> {
    Ok(match url {
        StoreUrl::Memory => Formats {
            stored: None,
            newest: 0,
        },
        StoreUrl::Embedded(_) if !is_there(url) => Formats {
            stored: None,
            newest: semel_store_embedded::FORMAT.into(),
        },
        StoreUrl::Embedded(path) => {
            let clock = Arc::new(SystemClock::new());
            Formats {
                stored: Some(Inspector::open(path, clock)?.format()?.into()),
                newest: semel_store_embedded::FORMAT.into(),
            }
        }
        StoreUrl::Sqlite(path) => Formats {
            stored: if path.exists() {
                semel_store_sqlite::look(path, &[])?.and_then(|looked| looked.format)
            } else {
                None
            },
            newest: semel_store_sqlite::FORMAT,
        },
    })
}

/// The process that the lock file of an embedded store names, if it lives. Without the lock itself,
/// which a worker that starts just now must not miss, this is no more than a hint.
fn holder(folder: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(folder.join("lock")).ok()?;
    let id: u32 = text.trim().parse().ok()?;
    let process = i32::try_from(id).ok().and_then(Pid::from_raw)?;
    match test_kill_process(process) {
        Ok(()) | Err(Errno::PERM) if !is_ended(id) => Some(id),
        Ok(()) | Err(_) => None,
    }
}

/// Whether a process has ended and nobody has asked how: it still has its number, and no files.
fn is_ended(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // Its name stands in parentheses and may have some of its own.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|state| state.starts_with(['Z', 'X']))
}

/// Whether there is a store, or something else that is told of when it is opened.
pub(crate) fn is_there(url: &StoreUrl) -> bool {
    match url {
        StoreUrl::Memory => true,
        StoreUrl::Embedded(path) => {
            // A folder in which a store was about to be made holds a lock and no store yet.
            let clock = Arc::new(SystemClock::new());
            let is_absent = |error: &Error| {
                // What cannot be read has a cause, and may be a store.
                let has_cause = std::error::Error::source(error).is_some();
                error.code() == Code::StoreUnavailable && !has_cause
            };
            let looked = Inspector::open(path, clock);
            path.exists() && !looked.err().as_ref().is_some_and(is_absent)
        }
        StoreUrl::Sqlite(path) => {
            let is_store = |looked: Option<semel_store_sqlite::Looked>| {
                looked.is_some_and(|looked| looked.is_store)
            };
            path.exists() && semel_store_sqlite::look(path, &[]).map_or(true, is_store)
        }
    }
}

/// An error of a store with the place that it is about, where the store names no more than its files.
pub(crate) fn at_store(url: &StoreUrl, error: Error) -> Error {
    let is_of_store = matches!(
        error.code(),
        Code::StoreFull
            | Code::StoreForeign
            | Code::StoreInUse
            | Code::StoreNewer
            | Code::StorePoisoned
            | Code::StoreReadOnly
            | Code::StoreUnavailable
            | Code::RecordCorrupt
    );
    let message = error.to_string();
    let is_embedded = matches!(url, StoreUrl::Embedded(_));
    if !is_embedded || !is_of_store || message.contains(&url.to_string()) {
        return error;
    }
    let (kind, code) = (error.kind(), error.code());
    let is_applied = error.certainty() == Certainty::MaybeApplied;
    let located = Error::new(kind, format!("{url}: {message}")).with_code(code);
    let located = if is_applied {
        located
    } else {
        located.not_applied()
    };
    located.with_source(error)
}

/// Nobody who looks for a store wants a new one.
fn refuse_absent(url: &StoreUrl) -> Result<()> {
    if is_there(url) {
        return Ok(());
    }
    let message = format!("there is no store at {url}; check the path, nothing was created");
    Err(Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::StoreUnavailable)
        .not_applied())
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
