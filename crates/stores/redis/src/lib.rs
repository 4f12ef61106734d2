//! Semel's store in Redis and Valkey: one server or a cluster, one script per batch.
//!
//! [`RedisStore`] implements the store ports over keys that begin with a prefix. Scripts do the atomic part: they add
//! absent records, complete and extend those that belong to the caller, and compare before they set.
//! `semel_core::decide` decides everything else, on the records that a script has read. The layout, the scripts and the
//! argument for each crash are in `docs/spec/redis.md`.
//!
//! **Durable to** the setting of the server's append-only file, which [`Store::preflight`] reads: a power cut with
//! `appendfsync always`, else less. A failover to a replica loses writes that were not copied yet. **Shared** by any
//! number of processes. **Clock**: the server's. **Cost**: one round trip per batch and bucket where nothing is in the
//! way; a single server has one bucket. **Not** for effects gated by a version on a cluster, and not for the `file`
//! effect: no [`CheckpointStore`].
//!
//! [`Store::preflight`]: semel_core::Store::preflight
//! [`CheckpointStore`]: semel_core::port::checkpoint::CheckpointStore
//!
//! ```no_run
//! use semel_core::{Admission, ClaimId, ClaimRequest, Key, Scope, StoreExt};
//! use semel_store_redis::{Options, RedisStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedisStore::connect("redis://127.0.0.1:6379", Options::default()).await?;
//! let scope = Scope::new("", "payments")?;
//! let request = ClaimRequest::new(scope, Key::parse("pay-1")?, ClaimId::from_u128(7));
//! let admission = store.claim_one(request).await?;
//! assert!(matches!(admission, Admission::Granted(_)));
//! # Ok(())
//! # }
//! ```

mod audit;
mod buckets;
mod changes;
mod claim;
mod config;
mod error;
mod info;
mod journal;
mod kinds;
mod link;
mod listing;
mod open;
mod operate;
mod parked;
mod preflight;
mod producers;
mod record;
mod report;
mod retry;
mod rounds;
mod script;
mod server;
mod session;
mod slots;
mod stats;
mod store;
mod sweep;
mod transfer;
mod versioned;
mod wire;

pub use config::{Options, check_url};
pub use open::{Inspection, inspect, migrate};
pub use producers::{PRODUCERS_FORMAT, RedisProducers};
pub use store::RedisStore;

/// The newest format, which is the one that this version writes.
pub const FORMAT: i64 = open::FORMAT;
