//! Semel's webhook source: each request of a provider is a delivery, and is answered once it is on record.
//!
//! The provider keeps what was not answered with success, and sends it again: it is the broker. A request is checked by
//! its signature ([`Verification`]), handed over, and held open until the engine acknowledges it with its fate. Several
//! sources may share an address, each with a path of its own ([`Listeners`]). The answers are in `docs/spec/sources.md`.
//!
//! [`IngestSource`] takes messages of anybody who numbers them, and answers once they are kept in the store's journal: their
//! effects run behind the answer. They may come to a listener of another part as well ([`Entrance`]).
//!
//! [`GatedSource`] puts the same gate before the messages of any other source, which it acknowledges once they are kept.
//!
//! Not for answers that a client waits for: a provider learns that its event was taken, and nothing else.
//!
//! ```
//! use std::sync::Arc;
//!
//! use semel_broker_webhook::{Options, Scheme, Verification, WebhookSource};
//! use semel_core::port::source::{Acknowledgement, Fetched, Source};
//! use semel_core::{Clock, Fate};
//!
//! # async fn run(clock: Arc<dyn Clock>) -> Result<(), Box<dyn std::error::Error>> {
//! let secrets = "It's a Secret to Everybody";
//! let verification = Verification::new(Scheme::GitHub, secrets)?;
//! let options = Options::new("127.0.0.1:8282".parse()?, "/github", verification);
//! let mut source = WebhookSource::open(options, clock).await?;
//! if let Fetched::Deliveries(events) = source.fetch(100).await? {
//!     let done = events.iter().map(|event| Acknowledgement::new(event.id, Fate::Applied));
//!     source.acknowledge(&done.collect::<Vec<_>>()).await?;
//! }
//! source.close().await?;
//! # Ok(())
//! # }
//! ```

mod answer;
mod answers;
mod arrivals;
mod entrance;
mod inbox;
mod ingest;
mod listeners;
mod message;
mod open_requests;
mod options;
mod refusal;
mod request_body;
mod route;
mod scheme;
mod secrets;
mod signature;
mod source;
mod verification;

pub use answers::Answers;
pub use entrance::Entrance;
pub use ingest::{GateOptions, GatedSource, IngestOptions, IngestSource, Token};
pub use listeners::Listeners;
pub use options::Options;
pub use refusal::Refusal;
pub use scheme::{Encoding, Scheme};
pub use secrets::InvalidSecret;
pub use semel_tls::Identity;
pub use source::WebhookSource;
pub use verification::Verification;

/// Bytes of a message that is too long that its delivery carries.
pub const HEAD_BYTES: usize = 64 << 10;
