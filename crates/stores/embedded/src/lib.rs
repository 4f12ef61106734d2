//! Semel's default store: an append-only window log for one machine.
//!
//! # Capabilities
//! Every store port but the transactional one: [`CheckpointStore`](semel_core::port::checkpoint) and
//! [`TransferStore`](semel_core::port::transfer) included. One process at a time; it holds a lock on
//! the folder.
//!
//! # Durability
//! An answered call survives a power cut: one write and one `fdatasync` per group of calls. Claims with
//! [`Start::Unmarked`](semel_core::Start::Unmarked) and renewals live in memory: a crash ends every lease anyway, and
//! only the process that holds the lock could go on with them. Leases that were given to other processes through a
//! [`LentStore`] outlive it, and their renewals are durable. After a write or sync that failed, the store refuses
//! everything until it is reopened.
//!
//! # Clock
//! The clock that the caller opens it with. A clock that goes back only delays expiry, takeovers and the dropping of
//! segments.
//!
//! # Cost
//! Memory: under 24 bytes per finished record, a few hundred per unresolved one, 16 per entry of the audit trail, and
//! up to 64 MiB of recent writes while batches are admitted together with a mark. Disk: about 75 bytes per record, and
//! its key. A duplicate costs one read from the page cache; within a batch, neighbours are read at once. Opening reads
//! the whole log.
//!
//! The format is in `docs/spec/embedded.md`, the choice in `docs/decisions/0010-window-log.md`.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use semel_core::{Clock, Store};
//! use semel_store_embedded::{EmbeddedStore, Options};
//!
//! # async fn example(clock: Arc<dyn Clock>) -> semel_core::Result<()> {
//! let store = EmbeddedStore::open(Path::new("data"), clock, Options::default())?;
//! assert_eq!(store.preflight().await?.kind, "embedded");
//! # Ok(())
//! # }
//! ```

mod audit_index;
mod committer;
mod digest;
mod entry;
mod error;
mod export;
pub mod files;
mod foreign_lease;
mod frame;
mod import;
mod inspect;
mod ledger;
mod limits;
mod log;
mod options;
mod parked_log;
mod producers;
mod store;
mod superblock;
mod sync;
mod table;
mod wire;

pub use foreign_lease::LentStore;
pub use inspect::Inspector;
pub use options::Options;
pub use producers::{EmbeddedIngest, EmbeddedProducers};
pub use store::EmbeddedStore;

/// The newest format, which is the one that this version writes.
pub const FORMAT: u32 = superblock::VERSION;
