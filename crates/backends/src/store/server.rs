//! Stores on servers. Each kind has a feature, a file here, and a line in [`DRIVERS`].

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;

use std::fmt;
use std::pin::Pin;

use semel_config::{Accepted, ServerKind, ServerUrl};
use semel_core::port::transactional::Statements;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{Error, ErrorKind, Result};
use semel_operate::check::Inspection;
use semel_worker::run::Stores;

use super::format::Formats;

/// The kinds of servers that are built in.
pub static DRIVERS: &[&Driver] = &[
    #[cfg(feature = "postgres")]
    &postgres::DRIVER,
    #[cfg(feature = "mysql")]
    &mysql::DRIVER,
    #[cfg(feature = "redis")]
    &redis::DRIVER,
];

/// A kind of server that is built in. Each function takes a url with its secrets.
pub struct Driver {
    /// The kind.
    pub kind: ServerKind,
    /// Refuses a url that it cannot read; connects to nothing.
    pub check_url: fn(&str) -> Result<()>,
    /// Connects to a store.
    pub open: for<'a> fn(&'a str, Terms) -> Answer<'a, Served>,
    /// Inspects a store and changes nothing.
    pub inspect: Inspect,
    /// Creates a store, or brings it to the newest format; returns its format.
    pub migrate: for<'a> fn(&'a str, Terms) -> Answer<'a, i64>,
}

/// A function that inspects a store and changes nothing.
pub type Inspect =
    for<'a> fn(&'a str, Terms, &'a [Statements]) -> Answer<'a, (Formats, Inspection)>;

/// The answer of a server.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Driver").field(&self.kind).finish()
    }
}

/// A connected store.
#[derive(Debug)]
pub struct Served {
    /// The store.
    pub stores: Stores,
    /// The same store, for export and import.
    pub transfer: AnyTransferStore,
}

/// The terms on which Semel connects to a store.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// True to create the store if it does not exist; otherwise that is refused.
    pub create: bool,
    /// The weaknesses of the store that are accepted. Redis alone asks before it opens.
    pub accepted: Accepted,
}

impl Terms {
    /// The terms of a caller that runs nothing and demands nothing.
    pub(super) const fn of_operator(create: bool) -> Self {
        Self {
            create,
            accepted: Accepted::ALL,
        }
    }
}

/// Tells whether a kind of server is built in.
pub(crate) fn is_built_in(kind: ServerKind) -> bool {
    DRIVERS.iter().any(|it| it.kind == kind)
}

/// Refuses a url that its driver cannot read; connects to nothing.
pub(crate) fn check_url(url: &ServerUrl) -> Result<()> {
    (driver(url)?.check_url)(url.secret())
}

/// Connects to a store.
pub(super) async fn open(url: &ServerUrl, terms: Terms) -> Result<Served> {
    (driver(url)?.open)(url.secret(), terms).await
}

/// Inspects a store and changes nothing.
pub(super) async fn inspect(
    url: &ServerUrl,
    accepted: Accepted,
    statements: &[Statements],
) -> Result<(Formats, Inspection)> {
    let terms = Terms {
        create: false,
        accepted,
    };
    (driver(url)?.inspect)(url.secret(), terms, statements).await
}

/// Creates a store, or brings it to the newest format; returns its format.
pub(super) async fn migrate(url: &ServerUrl) -> Result<i64> {
    (driver(url)?.migrate)(url.secret(), Terms::of_operator(true)).await
}

/// The driver of a url. The configuration refuses a url of a kind that is not built in.
fn driver(url: &ServerUrl) -> Result<&'static Driver> {
    let mut drivers = DRIVERS.iter().copied();
    drivers.find(|it| it.kind == url.kind()).ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "this kind of store is not part of this build",
        )
    })
}
