//! The reference store: exact, in memory, forgets at exit.
//!
//! Every method is: load, call `decide`, write the change, answer, under one lock. It is the store
//! of tests and the model that other stores are compared with. Not for data that must outlive its
//! process, and not clever about anything.
//!
//! **Durable to** the end of the process. **Clock**: the one it is handed. **Cost**: a lock and a
//! tree look-up per item; a list or a count visits everything.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use semel_core::{Admission, ClaimId, ClaimRequest, Clock, Key, Scope, StoreExt, Timestamp};
//! use semel_store_memory::MemoryStore;
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
//! let store = MemoryStore::new(Arc::new(Stopped));
//! let scope = Scope::new("", "payments")?;
//! let request = ClaimRequest::new(scope, Key::parse("pay-1")?, ClaimId::from_u128(7));
//! let admission = store.claim_one(request).await?;
//! assert!(matches!(admission, Admission::Granted(_)));
//! # Ok(())
//! # }
//! ```

mod ingest;
mod list;
mod producers;
mod state;
mod store;
mod sync;
mod transfer;

pub use ingest::MemoryIngest;
pub use producers::MemoryProducers;
pub use store::MemoryStore;
