//! Stores on servers. Each kind has a feature, a file here, and a line in each match.

#[cfg(not(all(feature = "mysql", feature = "postgres", feature = "redis")))]
mod absent;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;

#[cfg(not(feature = "mysql"))]
use absent as mysql;
#[cfg(not(feature = "postgres"))]
use absent as postgres;
#[cfg(not(feature = "redis"))]
use absent as redis;

use semel_config::{Accepted, ServerKind, ServerUrl};
use semel_core::Result;
use semel_core::port::transactional::Statements;
use semel_core::port::transfer::AnyTransferStore;
use semel_operate::check::Inspection;
use semel_worker::run::Stores;

use super::Formats;

/// A connected store.
pub(super) struct Served {
    pub(super) stores: Stores,
    pub(super) transfer: AnyTransferStore,
}

/// The terms on which Semel connects to a store.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "redis")),
    expect(dead_code, reason = "nobody connects without a server")
)]
pub(super) struct Terms {
    /// True to create the store if it does not exist; otherwise that is refused.
    pub(super) create: bool,
    /// The weaknesses of the store that are accepted.
    #[cfg_attr(
        not(feature = "redis"),
        expect(dead_code, reason = "Redis alone asks before it opens")
    )]
    pub(super) accepted: Accepted,
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

/// Refuses a url that its driver cannot read; connects to nothing.
pub(crate) fn check_url(url: &ServerUrl) -> Result<()> {
    match url.kind() {
        ServerKind::Postgres => postgres::check_url(url.secret()),
        ServerKind::Mysql => mysql::check_url(url.secret()),
        ServerKind::Redis => redis::check_url(url.secret()),
    }
}

/// Connects to a store.
pub(super) async fn open(url: &ServerUrl, terms: Terms) -> Result<Served> {
    match url.kind() {
        ServerKind::Postgres => postgres::open(url.secret(), terms).await,
        ServerKind::Mysql => mysql::open(url.secret(), terms).await,
        ServerKind::Redis => redis::open(url.secret(), terms).await,
    }
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
    match url.kind() {
        ServerKind::Postgres => postgres::inspect(url.secret(), terms, statements).await,
        ServerKind::Mysql => mysql::inspect(url.secret(), terms, statements).await,
        ServerKind::Redis => redis::inspect(url.secret(), terms, statements).await,
    }
}

/// Makes a store, or brings it forward; answers with its format.
pub(super) async fn migrate(url: &ServerUrl) -> Result<i64> {
    let terms = Terms::of_operator(true);
    match url.kind() {
        ServerKind::Postgres => postgres::migrate(url.secret(), terms).await,
        ServerKind::Mysql => mysql::migrate(url.secret(), terms).await,
        ServerKind::Redis => redis::migrate(url.secret(), terms).await,
    }
}
