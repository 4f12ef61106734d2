//! Semel's NATS JetStream source and sink.
//!
//! The source is a durable pull consumer: the server remembers the acknowledgements, so any number of processes share
//! the work, and each may vanish. The order of acknowledgements and redeliveries is in `docs/spec/sources.md`.
//!
//! Not for plain NATS subjects: without a stream nothing is ever delivered twice, or kept at all.
//!
//! ```no_run
//! use semel_broker_nats::{NatsSource, Options};
//! use semel_core::Fate;
//! use semel_core::port::source::{Acknowledgement, Fetched, Source};
//!
//! # async fn run() -> semel_core::Result<()> {
//! let options = Options::new("nats://localhost", "PAYMENTS", "ledger");
//! let mut source = NatsSource::new(options)?;
//! if let Fetched::Deliveries(payments) = source.fetch(100).await? {
//!     let done = payments.iter().map(|payment| Acknowledgement::new(payment.id, Fate::Applied));
//!     source.acknowledge(&done.collect::<Vec<_>>()).await?;
//! }
//! source.close().await
//! # }
//! ```

mod address;
mod backlog;
mod consumer;
mod error;
mod idle;
mod in_flight;
mod inspection;
mod link;
mod options;
mod pull;
mod rescan;
mod settle;
mod sink;
mod source;

pub use backlog::Backlog;
pub use inspection::inspect;
pub use options::{Options, SinkOptions};
pub use rescan::rescan;
pub use semel_tls::Tls;
pub use sink::NatsSink;
pub use source::NatsSource;

/// Bytes of a message that is too long that its delivery carries.
pub const HEAD_BYTES: usize = 64 << 10;
