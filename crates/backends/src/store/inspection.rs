//! Looks at stores without changing them, and brings them forward.

use std::path::Path;
use std::sync::Arc;

use semel_config::{Accepted, StoreUrl};
use semel_core::port::transactional::Statements;
use semel_core::{AnyStore, Clock, Error, ErrorKind, Result, Store};
use semel_engine::system::SystemClock;
use semel_operate::check::Inspection;
use semel_store_embedded::Inspector;
use semel_store_memory::MemoryStore;

use super::format::Formats;
use super::{files, open_for_changing, open_for_filling, open_for_reading, server};

/// The findings about a store.
#[derive(Debug)]
pub struct Inspected {
    /// The store as a check takes it.
    pub inspection: Inspection,
    /// The formats of a store on a server, which only [`migrate`] brings forward.
    pub formats: Option<Formats>,
}

impl Inspected {
    const fn local(inspection: Inspection) -> Self {
        Self {
            inspection,
            formats: None,
        }
    }
}

/// Inspects a store, even while others use it. `statements` are those that its database is asked to prepare.
///
/// # Errors
///
/// Those of a store that cannot be read.
pub async fn inspect(
    url: &StoreUrl,
    accepted: Accepted,
    clock: Arc<dyn Clock>,
    statements: &[Statements],
) -> Result<Inspected> {
    let nothing = Inspection {
        is_there: false,
        capabilities: None,
        refused: Vec::new(),
        unfit: None,
    };
    match url {
        StoreUrl::Memory => Ok(Inspected::local(Inspection {
            is_there: true,
            capabilities: Some(MemoryStore::new(clock).preflight().await?),
            ..nothing
        })),
        StoreUrl::Embedded(path) if !files::is_embedded_there(path) => {
            Ok(Inspected::local(nothing))
        }
        StoreUrl::Embedded(_) => {
            let store = open_for_reading(url, clock).await?.store;
            Ok(Inspected::local(Inspection {
                is_there: true,
                capabilities: Some(store.preflight().await?),
                ..nothing
            }))
        }
        StoreUrl::Sqlite(path) => {
            let looked = of_file(path, statements, semel_store_sqlite::inspect).await?;
            let inspection = looked.map_or(nothing, |looked| Inspection {
                is_there: looked.is_store,
                capabilities: Some(looked.capabilities),
                refused: looked.refused,
                unfit: None,
            });
            Ok(Inspected::local(inspection))
        }
        StoreUrl::Server(server) => {
            let (formats, inspection) = server::inspect(server, accepted, statements).await?;
            Ok(Inspected {
                inspection,
                formats: Some(formats),
            })
        }
    }
}

/// Inspects a store that this process has open. One that it alone can have open is asked as it is: a second handle would
/// find the lock of the first, or drop it.
///
/// # Errors
///
/// Those of a store that cannot be read.
pub async fn inspect_opened(
    store: &AnyStore,
    url: &StoreUrl,
    accepted: Accepted,
    clock: Arc<dyn Clock>,
    statements: &[Statements],
) -> Result<Inspected> {
    match url {
        StoreUrl::Memory | StoreUrl::Embedded(_) => Ok(Inspected::local(Inspection {
            is_there: true,
            capabilities: Some(store.preflight().await?),
            refused: Vec::new(),
            unfit: None,
        })),
        StoreUrl::Sqlite(path) => {
            let looked = of_file(path, statements, semel_store_sqlite::inspect_opened).await?;
            Ok(Inspected::local(Inspection {
                is_there: looked.is_store,
                capabilities: Some(looked.capabilities),
                refused: looked.refused,
                unfit: None,
            }))
        }
        StoreUrl::Server(_) => inspect(url, accepted, clock, statements).await,
    }
}

/// Looks at a file in a thread of its own: it may be on a slow disk or locked for a while, and whoever asks may be a worker.
async fn of_file<T: Send + 'static>(
    path: &Path,
    statements: &[Statements],
    look: fn(&Path, &[Statements]) -> Result<T>,
) -> Result<T> {
    let (path, statements) = (path.to_owned(), statements.to_vec());
    let looked = tokio::task::spawn_blocking(move || look(&path, &statements)).await;
    looked.map_err(|error| {
        Error::new(ErrorKind::Internal, "the look at the store ended").with_source(error)
    })?
}

/// The store's format, if opening the store would bring it forward.
pub async fn older_format(url: &StoreUrl) -> Option<i64> {
    // A server serves others, too: only the verb for it brings its store forward.
    if url.is_server() {
        return None;
    }
    let Formats { stored, newest } = formats(url).await.ok()?;
    stored.filter(|stored| *stored < newest)
}

/// Returns the former and the present format of a store, which had the older format `before`, if it has another one
/// now.
///
/// # Errors
///
/// Those of a store that cannot be read.
pub async fn brought_forward(url: &StoreUrl, before: Option<i64>) -> Result<Option<(i64, i64)>> {
    let Some(before) = before else {
        return Ok(None);
    };
    let after = formats(url).await?.stored.filter(|after| before < *after);
    Ok(after.map(|after| (before, after)))
}

/// Reads the format of a store without changing it.
///
/// # Errors
///
/// Those of a store that cannot be read.
pub async fn formats(url: &StoreUrl) -> Result<Formats> {
    Ok(match url {
        StoreUrl::Memory => Formats {
            stored: None,
            newest: 0,
        },
        StoreUrl::Embedded(path) => Formats {
            stored: if files::is_embedded_there(path) {
                let clock = Arc::new(SystemClock::new());
                Some(Inspector::open(path, clock)?.format()?.into())
            } else {
                None
            },
            newest: semel_store_embedded::FORMAT.into(),
        },
        StoreUrl::Sqlite(path) => Formats {
            stored: if path.exists() {
                let looked = of_file(path, &[], semel_store_sqlite::inspect).await?;
                looked.and_then(|looked| looked.format)
            } else {
                None
            },
            newest: semel_store_sqlite::FORMAT,
        },
        StoreUrl::Server(url) => server::inspect(url, Accepted::ALL, &[]).await?.0,
    })
}

/// Creates a store on a server, or brings it to the newest format; returns its format. A store of this machine
/// is brought forward by opening it; one in an SQLite file that is there is made, and so is an outbox beside it.
///
/// # Errors
///
/// Those of [`open_for_changing`].
pub async fn migrate(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Option<i64>> {
    match url {
        StoreUrl::Sqlite(path) if path.exists() => {
            open_for_filling(url, clock).await?;
            let options = semel_store_sqlite::Options::default();
            semel_store_sqlite::SqliteOutboxStore::create(path, &options)?;
            semel_store_sqlite::SqliteProducers::create(path, &options)?;
            Ok(formats(url).await?.stored)
        }
        StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Sqlite(_) => {
            open_for_changing(url, clock).await?;
            Ok(formats(url).await?.stored)
        }
        StoreUrl::Server(url) => server::migrate(url).await.map(Some),
    }
}

/// Tells whether there is a store. For files, also true if there is something else, which opening reports.
///
/// # Errors
///
/// Those of a server that cannot be asked.
pub async fn exists(url: &StoreUrl) -> Result<bool> {
    Ok(match url {
        StoreUrl::Memory => true,
        StoreUrl::Embedded(path) => files::is_embedded_there(path),
        StoreUrl::Sqlite(path) => files::is_sqlite_there(path),
        StoreUrl::Server(url) => server::inspect(url, Accepted::ALL, &[]).await?.1.is_there,
    })
}
