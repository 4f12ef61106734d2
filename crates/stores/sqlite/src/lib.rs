//! Semel's SQLite store: effect and record in one transaction of one file.
//!
//! [`SqliteStore`] implements the store ports over a file that may hold its users' own tables as
//! well. The worker's `sql` effect runs its statements in the transaction that also writes the
//! record; [`InboxSteps`] does the same for transactions of a user's own connection.
//! `semel_core::decide` makes every decision; nothing of the protocol is written in SQL. The
//! format, its versions and the argument for each crash are in `docs/spec/sqlite.md`.
//!
//! **Durable to** a power cut (`WAL`, `synchronous = FULL`), as far as the drive keeps its word.
//! **Shared** by several processes of one host; not for network file systems. **Clock**: the one
//! that the caller passes, read under the write lock. **Cost**: one transaction and one flush per
//! batch; calls that wait while another commits share the next transaction.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use semel_core::{Admission, ClaimId, ClaimRequest, Clock, Key, Scope, StoreExt, Timestamp};
//! use semel_store_sqlite::{Options, SqliteStore};
//!
//! struct Stopped;
//!
//! impl Clock for Stopped {
//!     fn now(&self) -> Timestamp {
//!         Timestamp::from_millis(1_000)
//!     }
//!
//!     fn monotonic(&self) -> Duration {
//!         Duration::ZERO
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("semel.db");
//! let store = SqliteStore::open(&path, Arc::new(Stopped), Options::default())?;
//! let scope = Scope::new("", "payments")?;
//! let request = ClaimRequest::new(scope, Key::parse("pay-1")?, ClaimId::from_u128(7));
//! let admission = store.claim_one(request).await?;
//! assert!(matches!(admission, Admission::Granted(_)));
//! # Ok(())
//! # }
//! ```

mod apply;
mod audit;
mod checkpoint;
mod config;
mod connection_thread;
pub mod driver;
mod error;
mod id_columns;
mod inbox;
mod inspection;
mod ledger;
mod listing;
mod lookup;
mod open;
mod opened_files;
mod outbox;
mod own_thread;
mod parked;
mod preflight;
mod producers;
mod row;
mod sql;
mod statements;
mod store;
mod table_set;
mod transfer;
mod writer;

pub use config::Options;
pub use inbox::InboxSteps;
pub use inspection::{Inspection, inspect, inspect_opened};
pub use outbox::{OUTBOX_FORMAT, SqliteOutbox, SqliteOutboxStore};
pub use producers::{SqliteIngest, SqliteProducers};
pub use rusqlite;
pub use store::SqliteStore;

/// The newest format, which is the one that this version writes.
pub const FORMAT: i64 = open::FORMAT;
