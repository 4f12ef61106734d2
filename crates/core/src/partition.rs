//! Decisions for an input that is read partition by partition: which offset may be committed, and which operations
//! were committed together with one.
//!
//! For adapters of brokers that keep a log. The adapters read, write and wait, but decide here, because an adapter
//! decides nothing about duplicates, and because the model of the proof plays these same decisions without a broker.
//! Not for stores, which keep a record of each operation: those have [`ledger`](crate::ledger).

mod entry;
mod image;
mod prefix;

pub use entry::Entry;
pub use image::Image;
pub use prefix::Prefix;
