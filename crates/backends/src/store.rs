//! Stores: opened by their urls, each as its caller needs it.

mod files;
mod format;
mod inspection;
pub mod server;

pub use files::{exposed, hide, is_exposed};
pub use format::Formats;
pub use inspection::{
    Inspected, brought_forward, exists, formats, inspect, inspect_opened, migrate, older_format,
};
pub(crate) use server::{check_url, is_built_in};

use std::path::Path;
use std::sync::Arc;

use semel_config::{Accepted, StoreUrl};
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::transactional::AnyTransactionalStore;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{AnyStore, Certainty, Clock, Code, Error, ErrorKind, Result};
use semel_operate::keys::Beside;
use semel_store_embedded::{EmbeddedStore, Inspector, LentStore};
use semel_store_memory::MemoryStore;
use semel_store_sqlite::SqliteStore;
use semel_worker::control;
use semel_worker::run::Stores;

use self::server::Terms;

/// Opens a store to run effects on it, and creates it if it does not exist. A store on a server uses the
/// server's clock.
///
/// # Errors
///
/// `InvalidConfig` or `Unsupported` if the store is too weak and that is not accepted; those of the store.
pub async fn open(url: &StoreUrl, accepted: Accepted, clock: Arc<dyn Clock>) -> Result<Stores> {
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
            let server::Served { stores, transfer } = server::open(url, terms).await?;
            Ok(Stores {
                transfer: Some(transfer),
                ..stores
            })
        }
    }
}

/// An open store as the operating verbs need it.
#[derive(Debug)]
pub struct OpenStore {
    /// The store.
    pub store: AnyStore,
    /// The same store, for export and import; none if it was opened to be looked at.
    pub transfer: Option<AnyTransferStore>,
    /// The same store, to run pipelines on; none unless it was opened to run something.
    pub stores: Option<Stores>,
    /// The processes that may use the store, if its files are read without opening it.
    pub beside: Option<Beside>,
    /// The process id of the worker that has the store open and carries out the orders.
    pub worker: Option<u32>,
}

impl OpenStore {
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
///
/// # Errors
///
/// `Unavailable` if there is no store, which is not created; those of the store.
pub async fn open_for_reading(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<OpenStore> {
    match url {
        StoreUrl::Embedded(path) => {
            refuse_absent(url).await?;
            Ok(OpenStore {
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
            open_for_changing(url, clock).await
        }
    }
}

/// Opens an existing store of this version's format to look at it, and changes nothing: not its format, nor the kind of its
/// journal.
///
/// # Errors
///
/// `InvalidConfig`: it has an older format; those of [`open_for_reading`].
pub async fn open_as_is(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<OpenStore> {
    if matches!(url, StoreUrl::Sqlite(_)) {
        refuse_absent(url).await?;
    }
    as_is(url, clock).await
}

/// The same of one that is there.
async fn as_is(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<OpenStore> {
    let StoreUrl::Sqlite(path) = url else {
        return open_for_reading(url, clock).await;
    };
    let path = path.clone();
    // It may be locked for a while, and whoever asks may be a worker.
    let opening = tokio::task::spawn_blocking(move || {
        SqliteStore::open_as_is(&path, clock, semel_store_sqlite::Options::default())
    });
    let opened = opening.await.map_err(|error| {
        Error::new(ErrorKind::Internal, "the opening of the store ended").with_source(error)
    })?;
    let store = Arc::new(opened?);
    let transfer = AnyTransferStore::new(Arc::clone(&store));
    Ok(OpenStore::to_change(AnyStore::new(store), transfer))
}

/// Opens the store in the database of an outbox, which keeps the orders about its relays; none if there is none. Makes
/// none, and brings none forward.
///
/// # Errors
///
/// `InvalidConfig`: it has another format than this version's, with the code `StoreNewer` if that is a newer one; those of
/// a database that cannot be asked.
pub async fn beside_outbox(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<Option<AnyStore>> {
    let Formats { stored, newest } = formats(url).await?;
    let Some(stored) = stored else {
        return Ok(None);
    };
    if stored == newest {
        let opened = as_is(url, clock).await?;
        return Ok(Some(opened.store));
    }
    let (what_to_do, code) = if stored > newest {
        ("use a newer version", Code::StoreNewer)
    } else {
        (
            "`semel store migrate --yes` brings it forward",
            Code::InvalidConfig,
        )
    };
    let message = format!(
        "its store has format {stored}, and this version works with {newest}; {what_to_do}"
    );
    Err(Error::new(ErrorKind::InvalidConfig, message)
        .with_code(code)
        .not_applied())
}

/// Opens an existing store to change its contents, or connects to the worker that has it open.
///
/// # Errors
///
/// Those of [`open_for_reading`].
pub async fn open_for_changing(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<OpenStore> {
    if let StoreUrl::Server(url) = url {
        // The server itself says whether the store exists.
        return Ok(served(server::open(url, Terms::of_operator(false)).await?));
    }
    refuse_absent(url).await?;
    match (open_for_filling(url, clock).await, url) {
        (Err(error), StoreUrl::Embedded(path)) => of_its_worker(path, error).await,
        (opened, _) => opened,
    }
}

/// Connects to the worker that has the store open, if that is the reason for `error`.
async fn of_its_worker(path: &Path, error: Error) -> Result<OpenStore> {
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
    Ok(OpenStore {
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
///
/// # Errors
///
/// Those of [`open`], and of [`open_for_reading`].
pub async fn open_for_running(
    url: &StoreUrl,
    accepted: Accepted,
    clock: Arc<dyn Clock>,
) -> Result<OpenStore> {
    let stores = if let StoreUrl::Server(url) = url {
        let terms = Terms {
            create: false,
            accepted,
        };
        server::open(url, terms).await?.stores
    } else {
        refuse_absent(url).await?;
        match (open(url, accepted, clock).await, url) {
            (Err(error), StoreUrl::Embedded(path)) => return of_its_worker(path, error).await,
            (opened, _) => opened?,
        }
    };
    Ok(OpenStore {
        store: stores.store.clone(),
        transfer: None,
        stores: Some(stores),
        beside: None,
        worker: None,
    })
}

/// Opens a store to fill it, and creates it if it does not exist.
///
/// # Errors
///
/// `InvalidInput` for a store in memory; those of the store.
pub async fn open_for_filling(url: &StoreUrl, clock: Arc<dyn Clock>) -> Result<OpenStore> {
    match url {
        StoreUrl::Memory => Err(Error::new(
            ErrorKind::InvalidInput,
            "a memory: store is gone with its process, so that there is nothing to look at",
        )),
        StoreUrl::Embedded(path) => {
            let options = semel_store_embedded::Options::default();
            let store = Arc::new(EmbeddedStore::open(path, clock, options)?);
            let transfer = AnyTransferStore::new(Arc::clone(&store));
            Ok(OpenStore::to_change(AnyStore::new(store), transfer))
        }
        StoreUrl::Sqlite(path) => {
            let options = semel_store_sqlite::Options::default();
            let store = Arc::new(SqliteStore::open(path, clock, options)?);
            let transfer = AnyTransferStore::new(Arc::clone(&store));
            Ok(OpenStore::to_change(AnyStore::new(store), transfer))
        }
        StoreUrl::Server(url) => {
            let terms = Terms::of_operator(true);
            Ok(served(server::open(url, terms).await?))
        }
    }
}

fn served(server::Served { stores, transfer }: server::Served) -> OpenStore {
    OpenStore::to_change(stores.store, transfer)
}

/// Adds the url of the store to an error that names only the store's files or the kind of its server.
pub fn at_store(url: &StoreUrl, error: Error) -> Error {
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
    if exists(url).await? {
        return Ok(());
    }
    let message = format!("there is no store at {url}; check the path, nothing was created");
    Err(Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::StoreUnavailable)
        .not_applied())
}
