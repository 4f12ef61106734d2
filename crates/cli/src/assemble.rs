//! Picks backends by name; the only module that knows them all.

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

/// The stores and brokers that are built into this program, in the form in which the settings ask for them.
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

/// Opens a store to run effects on it, and creates it if it does not exist. A store on a server uses the
/// server's clock.
///
/// # Errors   `InvalidConfig` or `Unsupported` if the store is too weak and that is not accepted; those of
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

/// An open store as the operating verbs need it.
pub(crate) struct Operated {
    /// The store.
    pub(crate) store: AnyStore,
    /// The same store, for export and import; none if it was opened to be looked at.
    pub(crate) transfer: Option<AnyTransferStore>,
    /// The same store, to run pipelines on; none unless it was opened to run something.
    pub(crate) stores: Option<Stores>,
    /// The processes that may use the store, if its files are read without opening it.
    pub(crate) beside: Option<Beside>,
    /// The process id of the worker that has the store open and carries out the orders.
    pub(crate) worker: Option<u32>,
}

impl Operated {
    /// Wraps a store that is opened to be looked at or changed.
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

/// Opens an existing store to look at it, while others may use it.
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

/// Opens an existing store to change its contents.
pub(crate) async fn store_for_changing(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Operated> {
    if let StoreUrl::Server(url) = url {
        // The server itself says whether the store exists.
        return Ok(served(server::open(url, Terms::of_operator(false)).await?));
    }
    refuse_absent(url).await?;
    match (store_for_filling(url, clock).await, url) {
        (Err(error), StoreUrl::Embedded(path)) => of_its_worker(path, error).await,
        (opened, _) => opened,
    }
}

/// Connects to the worker that has the store open, if that is the reason for `error`.
async fn of_its_worker(path: &Path, error: Error) -> Result<Operated> {
    if error.code() != Code::StoreInUse {
        return Err(error);
    }
    // A worker that is just opening or closing the store takes no orders, nor does a verb of another kind.
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

/// Opens an existing store to run effects on it.
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

/// Opens a store to fill it, and creates it if it does not exist.
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

/// Looks at a store, even while others use it.
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

/// The formats of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Formats {
    /// The format that the store has; none if there is no store.
    pub(crate) stored: Option<i64>,
    /// The format that this version writes.
    pub(crate) newest: i64,
}

impl Formats {
    /// Refuses a store that only another version can use, and one that must be migrated first.
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

/// The store's format, if opening the store would bring it forward.
pub(crate) async fn older_format(url: &StoreUrl) -> Option<i64> {
    // A server serves others, too: only the verb for it brings its store forward.
    if url.is_server() {
        return None;
    }
    let Formats { stored, newest } = formats(url).await.ok()?;
    stored.filter(|stored| *stored < newest)
}

/// Reads the format of a store without changing it.
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

/// Creates a store on a server, or brings it to the newest format; returns its format. A store of this machine
/// is brought forward by opening it.
pub(crate) async fn migrate(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Option<i64>> {
    match url {
        StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Sqlite(_) => {
            store_for_changing(url, clock).await?;
            Ok(formats(url).await?.stored)
        }
        StoreUrl::Server(url) => server::migrate(url).await.map(Some),
    }
}

/// Tells whether there is a store. For files, also true if there is something else, which opening reports.
pub(crate) async fn is_there(url: &StoreUrl) -> Result<bool> {
    Ok(match url {
        StoreUrl::Memory => true,
        StoreUrl::Embedded(path) => files::is_embedded_there(path),
        StoreUrl::Sqlite(path) => files::is_sqlite_there(path),
        StoreUrl::Server(url) => server::look(url, Accepted::ALL, &[]).await?.1.is_there,
    })
}

/// Adds the place of the store to an error that names only the store's files or the kind of its server.
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

/// Refuses to go on without a store: a caller that looks for a store does not want a new one.
async fn refuse_absent(url: &StoreUrl) -> Result<()> {
    if is_there(url).await? {
        return Ok(());
    }
    let message = format!("there is no store at {url}; check the path, nothing was created");
    Err(Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::StoreUnavailable)
        .not_applied())
}
