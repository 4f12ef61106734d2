//! The relay: publishes what transactions wrote into an outbox, each message if and only if its transaction committed.
//!
//! A [`Relay`] leases partitions of a stream, reads what is committed and not yet published, hands it to a sink, and
//! records what the sink confirmed. A message that was published and not yet recorded when the process died is published
//! again, under the same id. Any number of processes relay one stream: what one of them leases, no other publishes.
//!
//! A [`Producer`] publishes what its caller hands over, under an identity that outlives the process: what is to be sent is
//! in a journal first, and is sent again by the next opening if it was not confirmed.
//!
//! The crate knows no driver, no broker and no settings file: the outbox is an [`OutboxStore`], the sink a [`Sink`].
//!
//! [`OutboxStore`]: semel_core::port::outbox::OutboxStore
//! [`Sink`]: semel_core::port::sink::Sink

mod absence;
mod event;
mod message;
mod outcomes;
pub mod producer;
mod publication;
mod relay;
mod settings;
mod slow;
mod tenure;
mod tries;
mod verdict;
mod waves;

pub use event::{Event, Observer};
pub use producer::Producer;
pub use publication::{PublicationEnd, PublicationSpan};
pub use relay::{Recall, Relay};
pub use settings::{Settings, Summary};

/// The most messages that are published and not yet recorded: so many are published again, at most, when a process
/// dies.
pub const MOST_UNRECORDED: u32 = 400;
