//! Outboxes and the sinks of their relays, opened by their settings.

use semel_config::{RelaySettings, RelaySink, StoreUrl};
use semel_core::port::outbox::AnyOutbox;
use semel_core::port::sink::AnySink;
use semel_core::{Error, ErrorKind, Result};
use semel_worker::effect::AppendSink;
use semel_worker::effect::http::HttpSink;

/// Returns the outbox of a relay, without a connection yet. Needs a tokio runtime.
///
/// # Errors
///
/// `Unsupported`: there is no outbox in a store of this kind; those of its url.
pub fn open(store: &StoreUrl) -> Result<AnyOutbox> {
    match store {
        #[cfg(feature = "postgres")]
        StoreUrl::Server(url) if url.kind() == semel_config::ServerKind::Postgres => {
            let options = semel_store_postgres::Options::default();
            semel_store_postgres::PostgresOutbox::new(url.secret(), &options).map(AnyOutbox::new)
        }
        StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Sqlite(_) | StoreUrl::Server(_) => {
            Err(Error::new(
                ErrorKind::Unsupported,
                format!("{store}: this program knows no outbox of that kind"),
            ))
        }
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
#[cfg_attr(
    not(feature = "postgres"),
    expect(
        unused_variables,
        clippy::unused_async,
        reason = "without a server there is nobody to ask"
    )
)]
pub async fn inspect(store: &StoreUrl, stream: &str) -> Result<Seen> {
    match store {
        #[cfg(feature = "postgres")]
        StoreUrl::Server(url) if url.kind() == semel_config::ServerKind::Postgres => {
            let options = semel_store_postgres::Options::default();
            let outbox = semel_store_postgres::PostgresOutbox::new(url.secret(), &options)?;
            let seen = outbox.inspect(stream).await?;
            Ok(Seen {
                waiting: seen.waiting,
                dead: seen.dead,
                others: seen.others,
            })
        }
        StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Sqlite(_) | StoreUrl::Server(_) => {
            open(store).map(|_| Seen::default())
        }
    }
}

/// The contents of an outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Messages of the stream that are not published, dead ones left out.
    pub waiting: u64,
    /// Messages of the stream that are dead.
    pub dead: u64,
    /// Other streams with messages that are not published, each with what relays it if anything did.
    pub others: Vec<(String, Option<String>)>,
}
