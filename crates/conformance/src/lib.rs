//! The laws of the store ports, as tests that any backend runs.
//!
//! A backend describes itself once, as a [`Subject`], and names the macros of the ports that it
//! offers; each expands to one named test per case. The cases are compiled once, in this crate, over the erased
//! forms of the ports ([`Backend`]), so that a test of a backend is a call. A failure names the law that is broken.
//!
//! ```text
//! struct Memory {
//!     clock: TestClock,
//!     store: Arc<MemoryStore>,
//! }
//!
//! impl Subject for Memory {
//!     type Store = MemoryStore;
//!
//!     async fn open() -> Self {
//!         let clock = TestClock::new();
//!         let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
//!         Self { clock, store }
//!     }
//!
//!     fn store(&self) -> &Arc<MemoryStore> {
//!         &self.store
//!     }
//!
//!     fn clock(&self) -> Option<&TestClock> {
//!         Some(&self.clock)
//!     }
//! }
//!
//! semel_conformance::store_laws!(Memory);      // every store
//! semel_conformance::history_laws!(Memory);    // every store: random histories
//! semel_conformance::durable_laws!(Memory);    // with `impl DurableSubject`
//! semel_conformance::checkpoint_laws!(Memory); // with `impl CheckpointSubject`
//! semel_conformance::transactional_laws!(Memory); // with `impl TransactionalSubject`
//! semel_conformance::transfer_laws!(Memory); // with `impl TransferSubject`
//! semel_conformance::durable_checkpoint_laws!(Memory); // with both
//! semel_conformance::durable_transactional_laws!(Memory);
//! semel_conformance::durable_transfer_laws!(Memory);
//! semel_conformance::checkpoint_transfer_laws!(Memory);
//! ```
//!
//! A broker's source and sink, and the outbox of a database, have laws of their own: [`source`], [`sink`], [`outbox`].
//!
//! A store that is handed its clock is handed a [`TestClock`], so that windows pass without waiting:
//!
//! ```
//! use std::time::Duration;
//!
//! use semel_conformance::TestClock;
//! use semel_core::Clock;
//!
//! let clock = TestClock::new();
//! let before = clock.now();
//! clock.advance(Duration::from_secs(7 * 86_400));
//! assert_eq!(clock.now(), before.plus(Duration::from_secs(7 * 86_400)));
//! ```
//!
//! The macros name the subject as an identifier of the module that they stand in. Not for the engine's promises
//! over a store: the simulation proves those.

mod backend;
#[doc(hidden)]
pub mod cases;
mod catalogue;
pub mod certificates;
mod check;
mod clock;
mod counting_layer;
pub mod history;
pub mod http;
#[expect(
    clippy::missing_panics_doc,
    reason = "a case panics where its law is broken"
)]
pub mod ingest;
#[expect(
    clippy::missing_panics_doc,
    reason = "what goes wrong in a case is a panic"
)]
mod lab;
#[expect(
    clippy::missing_panics_doc,
    reason = "a case panics where its law is broken"
)]
pub mod laws;
#[expect(
    clippy::missing_panics_doc,
    reason = "a case panics where its law is broken"
)]
pub mod outbox;
pub mod page_bounds;
#[expect(
    clippy::missing_panics_doc,
    reason = "a case panics where its law is broken"
)]
pub mod producers;
pub mod proxy;
pub mod redis;
#[expect(
    clippy::missing_panics_doc,
    reason = "a case panics where its law is broken"
)]
pub mod sink;
#[expect(
    clippy::missing_panics_doc,
    reason = "a case panics where its law is broken"
)]
pub mod source;
pub mod steps;
mod subject;

pub use backend::{AnySubject, Backend, Boxed, Ports};
pub use check::{Case, checkpoint_cases, store_cases, transfer_cases};
pub use clock::TestClock;
pub use counting_layer::{Counted, Observed};
pub use lab::Lab;
#[doc(hidden)]
pub use semel_core::LawId;
pub use subject::{
    CheckpointSubject, DurableSubject, Subject, TransactionalSubject, TransferSubject,
};
