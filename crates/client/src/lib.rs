//! Idempotency keys for callers of HTTP: a caller that gets no answer sends its request again, under the same key, and
//! the server carries it out once.
//!
//! An [`Intent`] is one thing that a caller wants once; its key is the same on every retry and after every restart. Two
//! layers for `tower` services over requests of the crate `http` send it:
//!
//! - [`RetryLayer`] retries within one call: attempts with full jitter, `Retry-After`, a budget, the server's window.
//! - [`IntentLayer`] keeps intents in a store of Semel around that: a process that was killed goes on under the same
//!   key, a call for an intent waits for another one, and a success is given again for a day without a request.
//!
//! Every [`Error`] says whether the request was applied, as far as is known: a refused connection surely did nothing,
//! one that broke off later may have done all, and so may one that is under way elsewhere. A request that may have been
//! applied is repeated only under a key that the server recognises ([`Settings::keyed`]) and surely still remembers, or
//! if its method is idempotent. A redirect or a refusal of a second attempt says nothing of the first; only a success,
//! a stored answer or a `decisive` code does.
//!
//! # Why a store of Semel, and no journal
//!
//! Keys and answers are kept by the engine's `once`, the class `keyed` of which is just this: the operation is on
//! record, as started and durably, before the effect begins; whoever comes after a crash runs it again under the same
//! key while the provider's window lasts; an outcome is given again; and callers of one key wait for each other. A file
//! of this crate's own would be a second store with the same laws to keep and none of the proof. A program without a
//! disk takes the memory store, one on several machines a server.
//!
//! # Not here
//!
//! Streams in either direction: bodies are read whole, since they are sent again and kept. Requests themselves are not
//! kept, only their fingerprints: after a restart the program finds [open intents](IntentLayer::open) and makes their
//! requests again. Which server is asked, connections and TLS are the service's below.
//!
//! ```
//! use std::{convert::Infallible, sync::Arc, time::Duration};
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use semel_client::{AnswerFrom, Intent, IntentLayer, IntentSettings, RetryLayer, Settings};
//! use semel_engine::{once::Once, system::SystemClock};
//! use semel_store_memory::MemoryStore;
//! use tower::{Layer, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In its place: a client of hyper-util, or a `ReqwestService`.
//! let provider = service_fn(async |_: Request<Full<Bytes>>| {
//!     Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("charged"))))
//! });
//! let once = Once::new(Arc::new(MemoryStore::new(Arc::new(SystemClock::new()))));
//! // The provider documents that it recognises a key for 24 hours.
//! let retries = RetryLayer::new(Settings::keyed(Duration::from_secs(24 * 3_600)))?;
//! let client = IntentLayer::new(&once, retries, IntentSettings::default())?.layer(provider);
//!
//! let charge = Intent::of("charge", "order-1017")?;
//! for from in [AnswerFrom::Server { attempts: 1 }, AnswerFrom::Store] {
//!     let request = Request::post("https://provider.example/charges").body(Full::new(Bytes::from("4200")))?;
//!     let answer = client.send(&charge, request).await?;
//!     assert_eq!(answer.extensions().get(), Some(&from));
//! }
//! # Ok(())
//! # }
//! ```

mod advertised;
mod answer;
mod attempts;
mod call;
mod error;
mod fault;
mod fingerprint;
mod intent;
mod intents;
mod layer;
mod outcome;
#[cfg(feature = "reqwest")]
mod reqwest_service;
mod settings;

pub use call::{AnswerFrom, Counts};
pub use error::{Error, Reason, Stopped};
pub use fault::{Fault, fault_of};
pub use intent::Intent;
pub use intents::{IntentLayer, Intents, OpenIntent};
pub use layer::{Retry, RetryLayer};
#[cfg(feature = "reqwest")]
pub use reqwest_service::ReqwestService;
pub use semel_gateway::Statuses;
pub use settings::{IntentSettings, Settings};
