//! Semel's Kafka source and sink, over librdkafka.
//!
//! [`KafkaSource`] is a member of a consumer group. Kafka has no acknowledgement of one record: a committed offset
//! settles all before it. So the source commits the contiguous finished prefix of each partition and nothing else;
//! records behind it come again after a crash, and the store tells which of them were done. Commits belong to the
//! source: `enable.auto.commit` is off and cannot be turned on.
//!
//! A rebalance drains first and then lets go: deliveries of a partition that is to leave are reported as revoked,
//! effects that have begun may end within [`Options::drain`], and the prefix is committed before the partition goes. A
//! member that was thrown out commits nothing.
//!
//! [`KafkaSink`] publishes with the idempotent producer, and every delivery report is read.
//!
//! [`KafkaSource::streamed`] commits outputs, records of the operations done and the offsets read in one Kafka
//! transaction.
//!
//! [`rescan`] reads the present records of a topic once more, without a group, and ends.
//!
//! The coordinates of a record are `kafka:TOPIC:PARTITION:OFFSET`. Two headers are the source's own:
//! `kafka-key`, the record's key, and `kafka-create-time`, the producer's time in milliseconds, where the
//! topic keeps that and not the time of appending.

mod arena;
mod background_drop;
mod backlog;
mod commit;
mod connection_error;
mod consumer_thread;
mod context;
mod delivery;
mod error;
mod inspection;
mod options;
mod record;
mod rescan;
mod shared;
mod sink;
mod source;
mod streamed;

pub use backlog::Backlog;
pub use delivery::partition_of;
pub use inspection::inspect;
pub use options::Options;
pub use rescan::rescan;
pub use sink::{KafkaSink, SinkOptions};
pub use source::KafkaSource;
pub use streamed::{KafkaStream, Remembered, StreamOptions, find};
