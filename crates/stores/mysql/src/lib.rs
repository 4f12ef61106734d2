//! Semel's store in MySQL and MariaDB: one store for a fleet of workers, and effects in its own transactions.
//!
//! [`MysqlStore`] implements the store ports over tables that lie beside its users' own. Batches are decided in one
//! round trip where nothing is in the way, on the server's clock. `semel_core::decide` makes every decision; nothing of
//! the protocol is written in SQL. The worker's `sql` effect runs its statements in the transaction that also writes
//! the record; [`InboxSteps`] does the same for transactions of a user's own connection. [`MysqlOutbox`] writes messages
//! in them, which a relay publishes from [`MysqlOutboxStore`]. Layout and statements are specified in
//! `docs/spec/mysql.md` and `docs/spec/outbox.md`.
//!
//! **Durable to** a power cut (`InnoDB` with `innodb_flush_log_at_trx_commit = 1`, and `sync_binlog = 1` where there is
//! a binary log); `preflight` reads the actual settings. **Shared** by any number of processes, on one server that is
//! written to. **Cost**: one round trip and one commit per batch; two or three where records are gated by a version, or
//! an operator gives orders.
//!
//! Works with MySQL 8.0 and MariaDB 10.5 and later; every test runs on MariaDB.
//!
//! ```no_run
//! use semel_core::{Admission, ClaimId, ClaimRequest, Key, Scope, StoreExt};
//! use semel_store_mysql::{MysqlStore, Options};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MysqlStore::connect("mysql://semel@127.0.0.1/shop", Options::default()).await?;
//! let scope = Scope::new("", "payments")?;
//! let request = ClaimRequest::new(scope, Key::parse("pay-1")?, ClaimId::from_u128(7));
//! let admission = store.claim_one(request).await?;
//! assert!(matches!(admission, Admission::Granted(_)));
//! # Ok(())
//! # }
//! ```

mod answer;
mod apply;
mod audit;
mod checkpoint;
mod claim;
mod config;
mod connect;
pub mod driver;
mod error;
mod inbox;
mod ingest;
mod inspection;
mod jobs;
mod journal_tables;
mod listing;
mod locked;
mod outbox;
mod parked;
mod parts;
mod pool;
mod preflight;
mod producers;
mod row;
mod run;
mod schema;
mod script;
mod session;
mod settle;
mod sql;
mod statements;
mod store;
mod tokens;
mod transaction;
mod transfer;
mod user_connection;

pub use config::{Options, check_url};
pub use inbox::InboxSteps;
pub use ingest::{INGEST_FORMAT, MysqlIngest};
pub use inspection::{Inspection, inspect, migrate};
pub use mysql_async;
pub use outbox::{MysqlOutbox, MysqlOutboxStore, OUTBOX_FORMAT};
pub use producers::{MysqlProducers, PRODUCERS_FORMAT};
pub use store::MysqlStore;

/// The format of the tables that this version creates.
pub const FORMAT: i64 = 2;
