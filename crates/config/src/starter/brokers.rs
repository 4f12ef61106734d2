//! Sources and effects of brokers as `semel init` writes them, and the commands that create their topics,
//! streams and queues.

use super::{EffectKind, SourceKind};

/// Returns commands that create the target to publish to, if the effect is a broker's.
pub fn target(effect: EffectKind) -> Option<&'static str> {
    match effect {
        EffectKind::Nats => {
            Some("nats stream add CHARGED --subjects=charged --dupe-window=10m --defaults")
        }
        EffectKind::Kafka => Some(
            "kafka-topics.sh --bootstrap-server localhost:9092 --create --topic charged --partitions 1",
        ),
        EffectKind::Amqp => Some("rabbitmqadmin declare queue name=charged queue_type=quorum"),
        EffectKind::Sql
        | EffectKind::File
        | EffectKind::Http
        | EffectKind::Exec
        | EffectKind::Jsonl
        | EffectKind::Stdout => None,
    }
}

/// Returns commands that create the place to read from and publish the sample to it, if the source is a broker's.
pub fn source(source: SourceKind) -> Option<[&'static str; 2]> {
    match source {
        SourceKind::File | SourceKind::Stdin | SourceKind::Webhook => None,
        SourceKind::Nats => Some([
            "nats stream add PAYMENTS --subjects=payments --max-age=3d --defaults",
            "while read -r line; do nats pub payments \"$line\" </dev/null; done <payments.ndjson",
        ]),
        SourceKind::Kafka => Some([
            "kafka-topics.sh --bootstrap-server localhost:9092 --create --topic payments --partitions 1",
            "kafka-console-producer.sh --bootstrap-server localhost:9092 --topic payments <payments.ndjson",
        ]),
        SourceKind::Amqp => Some([
            "rabbitmqadmin declare queue name=payments queue_type=quorum arguments='{\"x-message-ttl\": 259200000}'",
            "while read -r line; do rabbitmqadmin publish routing_key=payments payload=\"$line\" \
             properties='{\"delivery_mode\": 2}' </dev/null; done <payments.ndjson",
        ]),
    }
}

pub(super) const NATS_WINDOW: &str = "\
# How long a finished key is remembered. It has to be longer than the stream keeps its messages (max_age);
# `semel check` reads the stream and compares.
";

pub(super) const KAFKA_WINDOW: &str = "\
# How long a finished key is remembered. It has to be longer than the topic keeps its records: retention.ms
# plus segment.ms, which Kafka sets to 7 days each. `semel check` reads the topic and compares.
";

pub(super) const AMQP_WINDOW: &str = "\
# How long a finished key is remembered. It has to be longer than the queue keeps a message, which
# `retention` says below.
";

pub(super) const NATS_SOURCE: &str = "\
# The stream must exist; the durable consumer is made if it is not there. Workers with the same consumer
# share the work.
source = { kind = \"nats\", url = \"nats://localhost:4222\", stream = \"PAYMENTS\", consumer = \"charging\" }
";

pub(super) const KAFKA_SOURCE: &str = "\
# Workers of one group share the partitions of the topic.
source = { kind = \"kafka\", brokers = \"localhost:9092\", topic = \"payments\", group = \"charging\" }
";

pub(super) const AMQP_SOURCE: &str = "\
# The queue must exist. AMQP does not tell how long it keeps a message: `retention` says what its
# x-message-ttl is, so that the window can be compared with it.
source = { kind = \"amqp\", url = \"amqp://localhost:5672\", queue = \"payments\", retention = \"3d\" }
";

pub(super) const NATS_EFFECT: &str = "\
# The id of a message depends on its key alone, and the stream drops a second one with the same id inside its
# duplicate window. What is older than that when a worker comes back is in doubt, and listed.
kind = \"nats\"
url = \"nats://localhost:4222\"
subject = \"charged\"
class = \"keyed\"
";

pub(super) const STREAMED_EFFECT: &str = "\
# Output, record and input offset are one Kafka transaction: each key once for whoever reads with
# isolation.level = read_committed. With more than one partition, publish with the payment as record key.
kind = \"kafka\"
class = \"streamed\"
brokers = \"localhost:9092\"
topic = \"charged\"
";

pub(super) const KAFKA_EFFECT: &str = "\
# Kafka does not know a message again. What was sent and not confirmed when a worker died may be there:
# \"repeat\" publishes it again, with the same header semel-id, and \"park\" leaves it in doubt.
kind = \"kafka\"
brokers = \"localhost:9092\"
topic = \"charged\"
on_doubt = \"repeat\"
";

pub(super) const AMQP_EFFECT: &str = "\
# RabbitMQ does not know a message again. What was sent and not confirmed when a worker died may be there:
# \"repeat\" publishes it again, with the same message_id, and \"park\" leaves it in doubt.
kind = \"amqp\"
url = \"amqp://localhost:5672\"
queue = \"charged\"
on_doubt = \"repeat\"
";
