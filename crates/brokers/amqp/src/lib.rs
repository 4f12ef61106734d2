//! Semel's RabbitMQ source and sink, over AMQP 0-9-1.
//!
//! Both keep one connection each and reopen it by themselves when it breaks. A delivery belongs to the channel that it
//! came through: reports on it after that channel is gone are dropped here, because the broker closes a channel on
//! which it gets a tag it does not know.
//!
//! Not for streams, nor for declaring queues, exchanges and bindings: those are the operator's.
//!
//! ```no_run
//! use semel_broker_amqp::{AmqpSource, Options};
//! use semel_core::Fate;
//! use semel_core::port::source::{Acknowledgement, Fetched, Source};
//!
//! # async fn example() -> semel_core::Result<()> {
//! let mut source = AmqpSource::new(Options::new("amqp://ada:secret@rabbit/shop", "payments"))?;
//! if let Fetched::Deliveries(payments) = source.fetch(100).await? {
//!     let done = payments.iter().map(|payment| Acknowledgement::new(payment.id, Fate::Applied));
//!     source.acknowledge(&done.collect::<Vec<_>>()).await?;
//! }
//! source.close().await
//! # }
//! ```

mod address;
mod backlog;
mod connection;
mod error;
mod inspection;
mod message;
mod options;
mod session;
mod sink;
mod source;
mod tags;

pub use backlog::Backlog;
pub use inspection::inspect;
pub use message::HEAD_BYTES;
pub use options::{Options, SinkOptions};
pub use semel_tls::Tls;
pub use sink::AmqpSink;
pub use source::AmqpSource;
