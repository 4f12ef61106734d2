//! Outboxes and the sinks of their relays, opened by their settings.

use semel_config::{RelaySettings, RelaySink, StoreUrl};
use semel_core::port::outbox::{AnyOutbox, OutboxContents};
use semel_core::port::sink::AnySink;
use semel_core::{Error, ErrorKind, Result};
use semel_store_sqlite::SqliteOutboxStore;
use semel_worker::effect::AppendSink;
use semel_worker::effect::http::HttpSink;

/// Returns the outbox of a relay, without a connection or an open file yet. Needs a tokio runtime.
///
/// # Errors
///
/// `Unsupported`: there is no outbox in a store of this kind; those of its url.
pub fn open(store: &StoreUrl) -> Result<AnyOutbox> {
    match store {
        StoreUrl::Sqlite(path) => {
            let options = semel_store_sqlite::Options::default();
            SqliteOutboxStore::new(path, options).map(AnyOutbox::new)
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Server(url) if url.kind() == semel_config::ServerKind::Postgres => {
            let options = semel_store_postgres::Options::default();
            semel_store_postgres::PostgresOutboxStore::new(url.secret(), &options)
                .map(AnyOutbox::new)
        }
        #[cfg(feature = "mysql")]
        StoreUrl::Server(url) if url.kind() == semel_config::ServerKind::Mysql => {
            let options = semel_store_mysql::Options::default();
            semel_store_mysql::MysqlOutboxStore::new(url.secret(), &options).map(AnyOutbox::new)
        }
        StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Server(_) => Err(Error::new(
            ErrorKind::Unsupported,
            format!("{store}: this program knows no outbox of that kind"),
        )),
    }
}

/// Returns the sink of a relay, which connects when it first publishes. Needs a tokio runtime.
///
/// # Errors
///
/// `InvalidConfig`: settings that contradict each other; `Unsupported`: not built into this program.
pub fn sink(settings: &RelaySettings) -> Result<AnySink> {
    match &settings.sink {
        RelaySink::Broker(target) => target.sink(),
        RelaySink::Http(http) => HttpSink::new(http.clone()).map(AnySink::new),
        RelaySink::File(path) => Ok(AnySink::new(AppendSink::new(path))),
    }
}

/// Looks at the tables of an outbox, and changes nothing.
///
/// # Errors
///
/// As [`open`]; `InvalidConfig`: no outbox, or a newer one; those of a server that cannot be asked.
pub async fn inspect(store: &StoreUrl, stream: &str) -> Result<OutboxContents> {
    match store {
        StoreUrl::Sqlite(path) => {
            let outbox = SqliteOutboxStore::new(path, semel_store_sqlite::Options::default())?;
            outbox.inspect(stream).await
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Server(url) if url.kind() == semel_config::ServerKind::Postgres => {
            let options = semel_store_postgres::Options::default();
            let outbox = semel_store_postgres::PostgresOutboxStore::new(url.secret(), &options)?;
            outbox.inspect(stream).await
        }
        #[cfg(feature = "mysql")]
        StoreUrl::Server(url) if url.kind() == semel_config::ServerKind::Mysql => {
            let options = semel_store_mysql::Options::default();
            let outbox = semel_store_mysql::MysqlOutboxStore::new(url.secret(), &options)?;
            outbox.inspect(stream).await
        }
        StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Server(_) => {
            open(store).map(|_| OutboxContents::default())
        }
    }
}
