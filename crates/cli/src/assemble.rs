//! Picks backends by name; alone in knowing them all.

mod files;
mod layered;
mod server;
mod sink;
mod source;
mod streamed;

use std::path::Path;
use std::sync::Arc;

use semel_config::{Accepted, Backends, Servers, StoreUrl};
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::transactional::{AnyTransactionalStore, Statements};
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{AnyStore, Certainty, Clock, Code, Error, ErrorKind, Result, Store};
use semel_engine::system::SystemClock;
pub(crate) use semel_operate::check::Inspection as Looked;
pub(crate) use semel_operate::keys::Beside;
use semel_store_embedded::{EmbeddedStore, Inspector, LentStore};
use semel_store_memory::MemoryStore;
use semel_store_sqlite::SqliteStore;
use semel_worker::control;
use semel_worker::run::Stores;

pub(crate) use self::layered::{Layer, LayerFigures};
use self::server::Terms;
pub(crate) use self::sink::target;
pub(crate) use self::source::{reach, source, source_again};
pub(crate) use self::streamed::{publish_again, streamed, streamed_records};
use crate::shell::quoted;

/// The stores and brokers that are built into this program, as the settings ask for them.
pub(crate) const BACKENDS: Backends = Backends {
    servers: Servers {
        built_in: &[
            #[cfg(feature = "postgres")]
            semel_config::ServerKind::Postgres,
            #[cfg(feature = "mysql")]
            semel_config::ServerKind::Mysql,
            #[cfg(feature = "redis")]
            semel_config::ServerKind::Redis,
        ],
        check: server::check_url,
    },
    target,
};

/// Opens a store to run effects on it, and makes it if it is not there. A server goes by its own
/// clock.
///
/// # Errors   `InvalidConfig` or `Unsupported` where it is too weak and that is not accepted; those of
/// the store
pub(crate) async fn store(
    url: &StoreUrl,
    accepted: Accepted,
    clock: Arc<dyn Clock>,
) -> Result<Stores> {
    match url {
        StoreUrl::Memory => {
            let store = Arc::new(MemoryStore::new(clock));
            Ok(Stores {
                store: AnyStore::new(Arc::clone(&store)),
                checkpoints: Some(AnyCheckpointStore::new(store)),
                transactions: None,
                transfer: None,
                lent: None,
            })
        }
        StoreUrl::Embedded(path) => {
            let options = semel_store_embedded::Options::default();
            let store = Arc::new(EmbeddedStore::open(path, clock, options)?);
            Ok(Stores {
                store: AnyStore::new(Arc::clone(&store)),
                checkpoints: Some(AnyCheckpointStore::new(Arc::clone(&store))),
                transactions: None,
                lent: Some(AnyStore::new(LentStore::new(Arc::clone(&store)))),
                transfer: Some(AnyTransferStore::new(store)),
            })
        }
        StoreUrl::Sqlite(path) => {
            let options = semel_store_sqlite::Options::default();
            let store = Arc::new(SqliteStore::open(path, clock, options)?);
            Ok(Stores {
                store: AnyStore::new(Arc::clone(&store)),
                checkpoints: Some(AnyCheckpointStore::new(Arc::clone(&store))),
                transactions: Some(AnyTransactionalStore::new(Arc::clone(&store))),
                transfer: Some(AnyTransferStore::new(store)),
                lent: None,
            })
        }
        StoreUrl::Server(url) => {
            let terms = Terms {
                create: true,
                accepted,
            };
            Ok(server::open(url, terms).await?.stores)
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
    /// The process of the worker that has the store open and does what is asked.
    pub(crate) worker: Option<u32>,
}

impl Operated {
    /// To look at it, or to change what it holds.
    fn to_change(store: AnyStore, transfer: AnyTransferStore) -> Self {
        Self {
            store,
            transfer: Some(transfer),
            stores: None,
            beside: None,
            worker: None,
        }
    }
}

/// Opens a store that is there, to look at it while others may use it.
pub(crate) async fn store_for_reading(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Operated> {
    match url {
        StoreUrl::Embedded(path) => {
            refuse_absent(url).await?;
            Ok(Operated {
                store: AnyStore::new(Inspector::open(path, clock)?),
                transfer: None,
                stores: None,
                beside: Some(Beside {
                    process: files::holder(path),
                    takes_orders: files::takes_orders(path),
                }),
                worker: None,
            })
        }
        StoreUrl::Memory | StoreUrl::Sqlite(_) | StoreUrl::Server(_) => {
            store_for_changing(url, clock).await
        }
    }
}

/// Opens a store that is there, to change what it holds.
pub(crate) async fn store_for_changing(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Operated> {
    if let StoreUrl::Server(url) = url {
        // The server itself says whether there is one.
        return Ok(served(server::open(url, Terms::of_operator(false)).await?));
    }
    refuse_absent(url).await?;
    match (store_for_filling(url, clock).await, url) {
        (Err(error), StoreUrl::Embedded(path)) => of_its_worker(path, error).await,
        (opened, _) => opened,
    }
}

/// The store as the worker that has it open serves it, where that is why it could not be opened.
async fn of_its_worker(path: &Path, error: Error) -> Result<Operated> {
    if error.code() != Code::StoreInUse {
        return Err(error);
    }
    // Whoever is on the way to or from having it open takes no orders, nor does another kind of verb.
    let Some(store) = control::connect(path, "embedded").await? else {
        return Err(error);
    };
    let worker = Some(store.process());
    let store = Arc::new(store);
    let transfer = AnyTransferStore::new(Arc::clone(&store));
    let store = AnyStore::new(store);
    Ok(Operated {
        store: store.clone(),
        transfer: Some(transfer),
        stores: Some(Stores {
            store,
            checkpoints: None,
            transactions: None,
            transfer: None,
            lent: None,
        }),
        beside: None,
        worker,
    })
}

/// Opens a store that is there, to run effects on it.
pub(crate) async fn store_for_running(
    url: &StoreUrl,
    accepted: Accepted,
    clock: Arc<dyn Clock>,
) -> Result<Operated> {
    let stores = if let StoreUrl::Server(url) = url {
        let terms = Terms {
            create: false,
            accepted,
        };
        server::open(url, terms).await?.stores
    } else {
        refuse_absent(url).await?;
        match (store(url, accepted, clock).await, url) {
            (Err(error), StoreUrl::Embedded(path)) => return of_its_worker(path, error).await,
            (opened, _) => opened?,
        }
    };
    Ok(Operated {
        store: stores.store.clone(),
        transfer: None,
        stores: Some(stores),
        beside: None,
        worker: None,
    })
}

/// Opens a store to fill it, and makes it if it is not there.
pub(crate) async fn store_for_filling(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Operated> {
    match url {
        StoreUrl::Memory => Err(Error::new(
            ErrorKind::InvalidInput,
            "a memory: store is gone with its process, so that there is nothing to look at",
        )),
        StoreUrl::Embedded(path) => {
            let options = semel_store_embedded::Options::default();
            let store = Arc::new(EmbeddedStore::open(path, clock, options)?);
            let transfer = AnyTransferStore::new(Arc::clone(&store));
            Ok(Operated::to_change(AnyStore::new(store), transfer))
        }
        StoreUrl::Sqlite(path) => {
            let options = semel_store_sqlite::Options::default();
            let store = Arc::new(SqliteStore::open(path, clock, options)?);
            let transfer = AnyTransferStore::new(Arc::clone(&store));
            Ok(Operated::to_change(AnyStore::new(store), transfer))
        }
        StoreUrl::Server(url) => {
            let terms = Terms::of_operator(true);
            Ok(served(server::open(url, terms).await?))
        }
    }
}

fn served(server::Served { stores, transfer }: server::Served) -> Operated {
    Operated::to_change(stores.store, transfer)
}

/// Looks at a store, also while others use it.
pub(crate) async fn look(
    url: &StoreUrl,
    accepted: Accepted,
    clock: Arc<dyn Clock>,
    statements: &[Statements],
) -> Result<Looked> {
    let nothing = Looked {
        is_there: false,
        capabilities: None,
        refused: Vec::new(),
        unfit: None,
    };
    match url {
        StoreUrl::Memory => Ok(Looked {
            is_there: true,
            capabilities: Some(MemoryStore::new(clock).preflight().await?),
            ..nothing
        }),
        StoreUrl::Embedded(path) if !files::is_embedded_there(path) => Ok(nothing),
        StoreUrl::Embedded(_) => {
            let store = store_for_reading(url, clock).await?.store;
            Ok(Looked {
                is_there: true,
                capabilities: Some(store.preflight().await?),
                ..nothing
            })
        }
        StoreUrl::Sqlite(path) => {
            let looked = semel_store_sqlite::inspect(path, statements)?;
            Ok(looked.map_or(nothing, |looked| Looked {
                is_there: looked.is_store,
                capabilities: Some(looked.capabilities),
                refused: looked.refused,
                unfit: None,
            }))
        }
        StoreUrl::Server(server) => {
            let (formats, looked) = server::look(server, accepted, statements).await?;
            formats.check(url)?;
            Ok(looked)
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

impl Formats {
    /// Refuses a store that only another version can use, and one that must be brought forward first.
    ///
    /// # Errors   `store-newer`; `store-unavailable` with the command
    pub(crate) fn check(self, url: &StoreUrl) -> Result<()> {
        let Self { stored, newest } = self;
        let refused = |message| Error::new(ErrorKind::Unavailable, message).not_applied();
        match stored {
            Some(stored) if stored > newest => Err(refused(format!(
                "the store has format {stored}, and this version knows {newest}; use a newer version"
            ))
            .with_code(Code::StoreNewer)),
            Some(stored) if stored < newest => Err(refused(format!(
                "the store has format {stored}, and this version works with {newest}; bring it forward: semel store \
                 migrate --store {}",
                quoted(&url.to_string())
            ))),
            Some(_) | None => Ok(()),
        }
    }
}

/// The format of a store that opening it brings forward.
pub(crate) async fn older_format(url: &StoreUrl) -> Option<i64> {
    // A server serves others too: it is brought forward by the verb for it and nobody else.
    if url.is_server() {
        return None;
    }
    let Formats { stored, newest } = formats(url).await.ok()?;
    stored.filter(|stored| *stored < newest)
}

/// The format of a store, without changing it.
pub(crate) async fn formats(url: &StoreUrl) -> Result<Formats> {
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
                semel_store_sqlite::inspect(path, &[])?.and_then(|looked| looked.format)
            } else {
                None
            },
            newest: semel_store_sqlite::FORMAT,
        },
        StoreUrl::Server(url) => server::look(url, Accepted::ALL, &[]).await?.0,
    })
}

/// Makes a store on a server, or brings it to the newest format; answers with its format. A store of
/// this machine is brought forward by opening it.
pub(crate) async fn migrate(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Option<i64>> {
    match url {
        StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Sqlite(_) => {
            store_for_changing(url, clock).await?;
            Ok(formats(url).await?.stored)
        }
        StoreUrl::Server(url) => server::migrate(url).await.map(Some),
    }
}

/// Whether there is a store, or in files something else that is told of when it is opened.
pub(crate) async fn is_there(url: &StoreUrl) -> Result<bool> {
    Ok(match url {
        StoreUrl::Memory => true,
        StoreUrl::Embedded(path) => files::is_embedded_there(path),
        StoreUrl::Sqlite(path) => files::is_sqlite_there(path),
        StoreUrl::Server(url) => server::look(url, Accepted::ALL, &[]).await?.1.is_there,
    })
}

/// An error of a store with the place that it is about, where the store names no more than its files
/// or its server's kind.
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
    let is_vague = match url {
        StoreUrl::Memory | StoreUrl::Sqlite(_) => false,
        StoreUrl::Embedded(_) | StoreUrl::Server(_) => true,
    };
    if !is_vague || !is_of_store || message.contains(&url.to_string()) {
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
async fn refuse_absent(url: &StoreUrl) -> Result<()> {
    if is_there(url).await? {
        return Ok(());
    }
    let message = format!("there is no store at {url}; check the path, nothing was created");
    Err(Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::StoreUnavailable)
        .not_applied())
}
