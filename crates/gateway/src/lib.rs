//! Idempotency keys for HTTP, as `draft-ietf-httpapi-idempotency-key-header` has them: a client that sends a request again
//! under its key gets the answer of the first time, and the handler is not called again.
//!
//! The policy is pure: [`Route`] has the settings, and says what becomes of a request ([`Arrival`]), what an answer proves
//! ([`Proof`]), and what a client is told when the engine has no outcome ([`Reply`]). [`IdempotencyLayer`] carries it out
//! over the engine's `once`, around any `tower` service. Not for sockets: a proxy is one more service under the same layer.
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::{Router, routing::post};
//! use semel_engine::{once::Once, system::SystemClock};
//! use semel_gateway::{IdempotencyLayer, Route};
//! use semel_store_memory::MemoryStore;
//!
//! # fn main() -> Result<(), semel_core::Error> {
//! let once = Once::new(Arc::new(MemoryStore::new(Arc::new(SystemClock::new()))));
//! let keys = IdempotencyLayer::new(&once, Route::default())?;
//! let app: Router = Router::new().route("/charges", post(async || "charged")).layer(keys);
//! # Ok(())
//! # }
//! ```

mod answered;
mod arrival;
mod counts;
mod evidence;
mod exchange;
mod fingerprint;
mod gate;
mod gather;
mod inbox;
mod key;
mod layer;
mod proof;
mod reply;
mod route;
mod shadow;
mod statuses;
mod stored;
mod waiters;

pub use arrival::Arrival;
pub use counts::Counts;
pub use evidence::{Sender, certainty_of_status, stated_certainty};
pub use fingerprint::{BodyPart, Parts};
pub use gate::OPERATION_ID_HEADER;
pub use inbox::{BlockingTransactions, RequestInbox, Transactions};
pub use key::{KEY_HEADER, KeyFault};
pub use layer::{IdempotencyLayer, Idempotent};
pub use proof::{Answer, Past, Proof};
pub use reply::{Reply, UNPROTECTED_HEADER, upstream_unreachable};
pub use route::{Mode, OnOutage, Route, TenantFrom};
pub use semel_http::{Problem, Tenant};
pub use statuses::{InvalidStatuses, Statuses};
pub use stored::{Stored, Unkept};
