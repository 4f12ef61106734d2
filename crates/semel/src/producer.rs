//! A producer that may crash: an identity that outlives the process, and messages that are durable before they are sent.
//!
//! ```
//! use semel::producer::{self, ProducerMessage};
//! # use semel::producer::{Publication, Sink};
//! # struct Broker;
//! # impl Sink for Broker {
//! #     async fn publish(&self, batch: &[Publication]) -> Vec<semel::Result<()>> {
//! #         batch.iter().map(|_| Ok(())).collect()
//! #     }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let sink = Broker;
//! let producer = producer::open("memory:", "billing", "orders", sink).await?;
//! let receipts = producer.publish(vec![ProducerMessage::new("{\"order\":7}")]).await?;
//! assert_eq!(receipts[0].sequence, 1);
//! producer.close().await?;
//! # Ok(())
//! # }
//! ```

use std::path::Path;
use std::sync::Arc;

use semel_core::{Entropy, Error, ErrorKind, Result};
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_store_memory::MemoryProducers;

#[doc(inline)]
pub use semel_core::port::producer::{AnyProducerJournal, ProducerJournal};
#[doc(inline)]
pub use semel_core::port::sink::{AnySink, Placement, Publication, Sink};
#[doc(inline)]
pub use semel_core::producer::{Opening, ProducerMessage, ProducerName, ProducerOrder};
#[doc(inline)]
pub use semel_outbox::producer::{
    Fate, Producer, ProducerEvent, ProducerObserver, ProducerSettings, ProducerSummary, Receipt,
    Submission,
};

/// Opens a producer of the store of this url, for a stream that goes to this sink: the producer of this name, or a new
/// one. What an earlier opening has left is sent first. For settings and an observer of your own, there is
/// [`Producer::open`].
///
/// # Errors
///
/// `InvalidInput`: no name of a producer; `InvalidConfig`: that is no url; `Unsupported`: a store of this kind keeps no
/// producers, or is not built in; those of the store itself
///
/// # Cancel safety   safe: an opening that nobody knows of fences earlier ones all the same
pub async fn open(store: &str, name: &str, stream: &str, sink: impl Sink) -> Result<Producer> {
    let mut chance = [0; 8];
    SystemEntropy.fill(&mut chance);
    let opening = Opening {
        name: name.parse()?,
        stream: stream.into(),
        target: "a sink of the library".into(),
        chance,
    };
    let settings = ProducerSettings {
        is_sent_in_waves: true,
        broker_window: None,
    };
    let clock = Arc::new(SystemClock::new());
    Producer::open(
        journal(store)?,
        sink,
        &opening,
        settings,
        clock,
        Arc::new(()),
    )
    .await
}

/// Returns the journal of the store of this url, without a connection or an open file yet: `embedded:DIR`, `sqlite:FILE`,
/// `postgres://…`, `mysql://…`, `redis://…`, or `memory:`, which forgets everything at exit. Needs a tokio runtime.
///
/// # Errors
///
/// As [`open`]
pub fn journal(store: &str) -> Result<AnyProducerJournal> {
    let (kind, rest) = store.split_once(':').unwrap_or((store, ""));
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let wrong = |kind, message: &str| Err(Error::new(kind, message).not_applied());
    match kind {
        "memory" if path.is_empty() => Ok(AnyProducerJournal::new(MemoryProducers::default())),
        "embedded" | "sqlite" if path.is_empty() => wrong(
            ErrorKind::InvalidConfig,
            "the url of a store needs a path, as in `sqlite:./shop.db`",
        ),
        "embedded" => embedded(Path::new(path)),
        "sqlite" => sqlite(Path::new(path)),
        "postgres" | "postgresql" => postgres(store),
        "mysql" | "mariadb" => mysql(store),
        "redis" | "rediss" | "redis+cluster" | "rediss+cluster" => redis(store),
        // The rest may hold a password.
        _ => wrong(
            ErrorKind::Unsupported,
            "a store of this kind keeps no producers; use `embedded:DIR`, `sqlite:FILE`, `postgres://…`, `mysql://…` or \
             `redis://…`",
        ),
    }
}

#[cfg(feature = "embedded")]
#[expect(
    clippy::unnecessary_wraps,
    reason = "a build without this store refuses it"
)]
fn embedded(path: &Path) -> Result<AnyProducerJournal> {
    let journal = semel_store_embedded::EmbeddedProducers::new(path);
    Ok(AnyProducerJournal::new(journal))
}

#[cfg(not(feature = "embedded"))]
fn embedded(_: &Path) -> Result<AnyProducerJournal> {
    Err(not_built_in("embedded"))
}

#[cfg(feature = "sqlite")]
fn sqlite(path: &Path) -> Result<AnyProducerJournal> {
    let options = semel_store_sqlite::Options::default();
    semel_store_sqlite::SqliteProducers::new(path, options).map(AnyProducerJournal::new)
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &Path) -> Result<AnyProducerJournal> {
    Err(not_built_in("sqlite"))
}

#[cfg(feature = "postgres")]
fn postgres(url: &str) -> Result<AnyProducerJournal> {
    let options = semel_store_postgres::Options::default();
    semel_store_postgres::PostgresProducers::new(url, &options).map(AnyProducerJournal::new)
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str) -> Result<AnyProducerJournal> {
    Err(not_built_in("postgres"))
}

#[cfg(feature = "mysql")]
fn mysql(url: &str) -> Result<AnyProducerJournal> {
    let options = semel_store_mysql::Options::default();
    semel_store_mysql::MysqlProducers::new(url, &options).map(AnyProducerJournal::new)
}

#[cfg(not(feature = "mysql"))]
fn mysql(_: &str) -> Result<AnyProducerJournal> {
    Err(not_built_in("mysql"))
}

#[cfg(feature = "redis")]
fn redis(url: &str) -> Result<AnyProducerJournal> {
    let options = semel_store_redis::Options::default();
    semel_store_redis::RedisProducers::new(url, &options).map(AnyProducerJournal::new)
}

#[cfg(not(feature = "redis"))]
fn redis(_: &str) -> Result<AnyProducerJournal> {
    Err(not_built_in("redis"))
}

#[cfg(not(all(
    feature = "embedded",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
)))]
fn not_built_in(kind: &str) -> Error {
    let message = format!("{kind} is not built in; add the feature `{kind}` of the crate semel");
    Error::new(ErrorKind::Unsupported, message).not_applied()
}
