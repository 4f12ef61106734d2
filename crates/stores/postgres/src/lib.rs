//! Semel's PostgreSQL store: one store for a fleet of workers, and effects in its own transactions.
//!
//! Batches are decided in one round trip where nothing is in the way, on the server's clock. An answer survives a power
//! cut of the server, unless its own settings say otherwise; `preflight` reads them. The layout and the statements are
//! specified in `docs/spec/postgres.md`.

mod apply;
mod audit;
mod checkpoint;
mod columns;
mod config;
mod connect;
mod connection;
pub mod driver;
mod error;
mod failure;
mod inbox;
mod ingest;
mod inspection;
mod jobs;
mod journal_tables;
mod listing;
mod locked;
mod new_key_run;
mod outbox;
mod parked;
mod placeholders;
mod preflight;
mod producers;
mod rounds;
mod row;
mod schema;
mod session;
mod sql;
mod statements;
mod store;
mod transaction;
mod transfer;
mod user_connection;

pub use config::{Options, check_url};
pub use deadpool_postgres::tokio_postgres;
pub use inbox::InboxSteps;
pub use ingest::{INGEST_FORMAT, PostgresIngest};
pub use inspection::{Inspection, inspect, migrate};
pub use outbox::{OUTBOX_FORMAT, PostgresOutbox, PostgresOutboxStore};
pub use producers::{PRODUCERS_FORMAT, PostgresProducers};
pub use store::PostgresStore;

/// The format of the tables that this version creates.
pub const FORMAT: i64 = 2;
