//! Idempotency keys for callers of HTTP: a key per intent, sent with every retry and kept in the store.
//!
//! ```
//! use std::{convert::Infallible, time::Duration};
//!
//! use semel::Semel;
//! use semel::client::{Intent, Settings};
//! use tower::{Layer, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In its place: a client of hyper-util, or a `ReqwestService`.
//! let provider = service_fn(async |_| {
//!     Ok::<_, Infallible>(axum::http::Response::new(axum::body::Body::from("charged")))
//! });
//! let semel = Semel::open("memory:").await?;
//! let a_day = Duration::from_secs(24 * 3_600);
//! let client = semel.intents(Settings::keyed(a_day), |_| {})?.layer(provider);
//! let request = axum::http::Request::post("https://provider.example/charges").body(axum::body::Body::from("4200"))?;
//! let answer = client.send(&Intent::of("charge", "order-1017")?, request).await?;
//! assert_eq!(answer.status(), 200);
//! # Ok(())
//! # }
//! ```

use semel_core::AnyStore;

#[cfg(feature = "client-reqwest")]
#[doc(inline)]
pub use semel_client::ReqwestService;
#[doc(inline)]
pub use semel_client::{
    AnswerFrom, Counts, Error, Fault, Intent, IntentSettings, OpenIntent, Reason, Retry,
    RetryLayer, Settings, Statuses, Stopped, fault_of,
};

/// A layer that puts the requests of a service under intents.
pub type IntentLayer<S = AnyStore> = semel_client::IntentLayer<S>;
/// A service whose requests are under intents.
pub type Intents<C, S = AnyStore> = semel_client::Intents<S, C>;
