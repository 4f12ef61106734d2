//! Sources whose broker commits outputs together with the position in the source, in its own transactions.

#[cfg(not(feature = "kafka"))]
mod absent;
#[cfg(feature = "kafka")]
mod kafka;

#[cfg(not(feature = "kafka"))]
pub use absent::{open, publish_again, records};
#[cfg(feature = "kafka")]
pub use kafka::{open, publish_again, records};

use semel_core::Error;
use semel_core::port::streamed::Restored;

/// The view of a pipeline of class `streamed` from outside.
pub trait Monitor: Send + Sync {
    /// The progress of restoring each of its partitions.
    fn restored(&self) -> Vec<Restored>;

    /// The reason why transactions are written one after the other, if they are.
    fn hindrance(&self) -> Option<Error>;
}
