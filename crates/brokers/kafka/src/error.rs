//! Meaning of librdkafka's errors.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use semel_core::{Code, Error, ErrorKind};

use crate::connection_error::ConnectionError;
use crate::options::{Options, invalid};

/// Error for a cluster, a topic or a group that is not available now. All of these can end without us: a broker comes
/// back, a topic is created, a right is granted.
pub(crate) fn away(
    code: RDKafkaErrorCode,
    options: &Options,
    connection_error: &ConnectionError,
) -> Error {
    let what = match code {
        RDKafkaErrorCode::UnknownTopicOrPartition
        | RDKafkaErrorCode::UnknownTopic
        | RDKafkaErrorCode::TopicAuthorizationFailed => options.topics.join(", "),
        RDKafkaErrorCode::GroupAuthorizationFailed => String::from(&*options.group),
        _ => String::from(&*options.brokers),
    };
    let why = match code {
        RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic => NO_TOPIC,
        RDKafkaErrorCode::TopicAuthorizationFailed => {
            "the user may not read or write the topic; grant Read, Write and Describe on it"
        }
        RDKafkaErrorCode::GroupAuthorizationFailed => {
            "the user may not use the consumer group; grant Read on it"
        }
        RDKafkaErrorCode::ClusterAuthorizationFailed => {
            "the user may not use the cluster; grant IdempotentWrite on it"
        }
        RDKafkaErrorCode::FencedInstanceId => {
            "another member has the same group.instance.id; give each its own"
        }
        RDKafkaErrorCode::TransactionalIdAuthorizationFailed => {
            "the user may not use the name of the transactions; grant Write and Describe on the transactional id"
        }
        code => connection_error.why(code).unwrap_or(NOBODY),
    };
    let message = match connection_error.unreached(code) {
        Some(why) => format!("Kafka cannot be reached at {what}: {why}"),
        None => format!("{what}: {why}"),
    };
    Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::SourceUnavailable)
        .not_applied()
        .retry_after(RETRY)
        .with_source(KafkaError::Global(code))
}

/// Error for a client that could not be created: a setting that librdkafka does not know or take.
pub(crate) fn not_made(error: KafkaError) -> Error {
    let message = match &error {
        KafkaError::ClientConfig(_, why, name, _) => {
            format!("librdkafka does not take `{name}`: {why}")
        }
        other => format!("librdkafka does not take the settings: {other}"),
    };
    invalid(message).with_source(error)
}

/// Error for a failure after which librdkafka itself does not go on.
pub(crate) fn fatal(error: KafkaError) -> Error {
    let message = "the Kafka client has failed for good; start again";
    Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::SourceUnavailable)
        .not_applied()
        .with_source(error)
}

/// Error for a thread that the system does not give us now.
pub(crate) fn no_thread(error: std::io::Error) -> Error {
    let message = "no thread for the Kafka consumer can be started";
    Error::new(ErrorKind::Unavailable, message).with_source(error)
}

/// Message where nothing better is known.
pub(crate) const NOBODY: &str =
    "no broker can be reached; it is away, or security.protocol is not that of the listener";
pub(crate) const NO_TOPIC: &str = "there is no such topic; create it or correct the name";
pub(crate) const NO_RIGHT: &str = "the user may not write to the topic; grant Write on it";
pub(crate) const INVALID: &str =
    "the broker refuses the message itself, as a compacted topic does one without a key";
pub(crate) const TOO_LARGE: &str =
    "the message is longer than the topic takes (message.max.bytes, max.message.bytes)";
/// Pause before the next look at a cluster that is away.
const RETRY: Duration = Duration::from_secs(1);
