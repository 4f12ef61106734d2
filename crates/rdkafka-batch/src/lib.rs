//! librdkafka's batches of records, for clients of the [`rdkafka`] crate.
//!
//! The crate reads and sends one record a call, each with its clocks, locks and piece of memory. librdkafka has calls
//! for many, and lends the client that the crate has made: [`RecordQueue`] reads records of chosen partitions, and
//! [`Topic`] sends records without headers. Events, delivery reports and everything else stay the crate's.

#[expect(
    unsafe_code,
    reason = "calls of librdkafka that the crate has no safe way to"
)]
mod batch;
#[expect(
    unsafe_code,
    reason = "calls of librdkafka that the crate has no safe way to"
)]
mod read;

pub use batch::{Batch, NotTaken, Topic, flush};
pub use read::{BorrowedRecord, RecordHeaders, RecordQueue, Records};
