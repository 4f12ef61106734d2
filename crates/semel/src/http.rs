//! Idempotency keys for HTTP: a layer for axum, tonic, hyper and every other `tower` service.
//!
//! ```
//! use axum::{Router, routing::post};
//! use semel::{Op, Semel};
//!
//! async fn charge(axum::Extension(op): axum::Extension<Op>) -> String {
//!     format!("charged, attempt {}", op.attempt())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), semel::Error> {
//! let semel = Semel::open("memory:").await?;
//! let keys = semel.http(|route| {
//!     route.operation = "charges".into();
//!     route.require_key = true;
//! })?;
//! let app: Router = Router::new().route("/charges", post(charge)).layer(keys);
//! # Ok(())
//! # }
//! ```
//!
//! Where a request may run without a claim, a handler takes `Option<Extension<Op>>`: without `require_key`, with `shadow`,
//! and with [`OnOutage::Open`].
//!
//! A handler whose work is a transaction on the database of the store can commit its answer with it: see
//! [`Semel::http_with_inbox`](crate::Semel::http_with_inbox).

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(
    feature = "sqlx-mysql",
    feature = "sqlx-postgres",
    feature = "sqlx-sqlite"
))]
mod sqlx;

use semel_core::AnyStore;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
use semel_core::{Error, ErrorKind, Settled, StateKind};

#[doc(inline)]
pub use semel_gateway::{
    Answer, Arrival, BlockingTransactions, BodyPart, Counts, InvalidStatuses, KEY_HEADER, KeyFault,
    Mode, OPERATION_ID_HEADER, OnOutage, Parts, Past, Problem, Proof, Reply, RequestInbox, Route,
    Sender, Statuses, Stored, Tenant, TenantFrom, Transactions, UNPROTECTED_HEADER, Unkept,
    upstream_unreachable,
};

/// A layer that puts the requests of a service under their idempotency keys.
pub type IdempotencyLayer<S = AnyStore> = semel_gateway::IdempotencyLayer<S>;
/// A service whose requests are under their idempotency keys.
pub type Idempotent<H, S = AnyStore> = semel_gateway::Idempotent<S, H>;

/// Tells whether a transaction is to be committed.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
const fn is_completed(settled: &Settled) -> bool {
    matches!(settled, Settled::Now(StateKind::Completed))
}

/// The error of a commit: nobody knows what became of it.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
fn uncommitted(source: impl std::error::Error + Send + Sync + 'static) -> Error {
    let message = "the transaction may not be committed";
    Error::new(ErrorKind::Unavailable, message).with_source(source)
}
