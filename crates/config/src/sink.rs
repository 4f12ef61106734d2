//! Targets on brokers: for effects of kind `kafka`, `nats` and `amqp`, and for dead letters through
//! `dead_letter`.

mod address;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semel_tls::Tls;
use semel_worker::effect::Target;
use semel_worker::effect::publish::Destination;

use super::fields::Fields;
use super::secret::masked;
use super::server::{KAFKA_PORT, NATS_PORT, amqp_port, server_of};
use super::source::{properties, url};
use super::suggestion::suggestion;
use super::tls;

/// A target that messages are published to.
#[derive(Clone, PartialEq, Eq)]
pub struct SinkSettings {
    /// The place on the broker.
    pub place: SinkPlace,
    /// The longest time that a message may be under way.
    pub timeout: Duration,
}

/// A place on some broker.
#[derive(Clone, PartialEq, Eq)]
pub enum SinkPlace {
    /// A Kafka topic.
    Kafka {
        /// `host:port`, several with commas between them.
        brokers: String,
        /// The topic.
        topic: String,
        /// librdkafka's own settings; some are secrets.
        properties: Vec<(String, String)>,
        /// True to send the id of a message as a header.
        has_id_header: bool,
    },
    /// A NATS subject that some stream takes in.
    Nats {
        /// The URL of the server; may hold a password.
        url: String,
        /// The subject.
        subject: String,
        /// A file of credentials, instead of a user and a password.
        credentials: Option<PathBuf>,
        /// The encryption of the connection.
        tls: Tls,
    },
    /// A RabbitMQ exchange, or a queue through the default exchange.
    Amqp {
        /// The URL of the server; may hold a password.
        url: String,
        /// The encryption of the connection.
        tls: Tls,
        /// The exchange; empty for the default one.
        exchange: String,
        /// The routing key; at the default exchange, the name of the queue.
        routing_key: String,
    },
}

impl SinkPlace {
    /// Returns the kind of its broker, which is also the name of the feature.
    pub const fn broker(&self) -> &'static str {
        match self {
            Self::Kafka { .. } => "kafka",
            Self::Nats { .. } => "nats",
            Self::Amqp { .. } => "amqp",
        }
    }
}

impl SinkSettings {
    /// Returns the names that the target has in traces.
    pub fn destination(&self) -> Destination {
        let (system, name, server) = match &self.place {
            SinkPlace::Kafka { brokers, topic, .. } => {
                ("kafka", topic.clone(), server_of(brokers, KAFKA_PORT))
            }
            SinkPlace::Nats { url, subject, .. } => {
                ("nats", subject.clone(), server_of(url, NATS_PORT))
            }
            SinkPlace::Amqp {
                url,
                exchange,
                routing_key,
                ..
            } => {
                let name = amqp_name(exchange, routing_key);
                ("rabbitmq", name, server_of(url, amqp_port(url)))
            }
        };
        Destination {
            system,
            name,
            server,
        }
    }
}

/// Returns the name of a destination as OpenTelemetry has it for RabbitMQ: whichever of the two is not empty.
fn amqp_name(exchange: &str, routing_key: &str) -> String {
    match (exchange, routing_key) {
        ("", "") => "amq.default".to_owned(),
        ("", one) | (one, "") => one.to_owned(),
        (exchange, routing_key) => format!("{exchange}:{routing_key}"),
    }
}

/// Turns the settings of a target into something to publish to; connects to nothing.
pub type TargetOf = fn(SinkSettings) -> Arc<dyn Target>;

/// Shows the target as messages to people name it.
impl fmt::Display for SinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            SinkPlace::Kafka { topic, .. } => write!(f, "kafka {topic}"),
            SinkPlace::Nats { subject, .. } => write!(f, "nats {subject}"),
            SinkPlace::Amqp {
                exchange,
                routing_key,
                ..
            } if exchange.is_empty() => write!(f, "amqp {routing_key}"),
            SinkPlace::Amqp {
                exchange,
                routing_key,
                ..
            } => write!(f, "amqp exchange {exchange}, routing key {routing_key:?}"),
        }
    }
}

impl fmt::Debug for SinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, timeout } = self;
        match place {
            SinkPlace::Kafka { brokers, .. } => write!(f, "{self} at {brokers}, {timeout:?}"),
            SinkPlace::Nats { url, .. } | SinkPlace::Amqp { url, .. } => {
                write!(f, "{self} at {}, {timeout:?}", masked(url))
            }
        }
    }
}

/// Reads the target of an effect or of dead letters of this kind.
pub(super) fn read(
    kind: &str,
    table: &mut Fields<'_>,
    has_id_header: bool,
) -> Option<SinkSettings> {
    let timeout = table.duration_or("timeout", TIMEOUT);
    if timeout < SHORTEST
        && let Some(node) = table.node("timeout")
    {
        table.fault("timeout", node, "must be a second at least");
    }
    let place = match kind {
        "kafka" => kafka(table, has_id_header),
        "nats" => nats(table),
        _ => amqp(table),
    };
    Some(SinkSettings {
        place: place?,
        timeout,
    })
}

/// Reads `dead_letter`.
pub(super) fn dead_letter(mut table: Fields<'_>, target: TargetOf) -> Option<Arc<dyn Target>> {
    let kind = table.required_text("kind")?;
    if !KINDS.contains(&kind) {
        let message = format!(
            "dead letters cannot go to `{kind}`; {}; without `dead_letter`, the store keeps them",
            suggestion(kind, &KINDS)
        );
        if let Some(node) = table.node("kind") {
            table.fault("kind", node, message);
        }
        return None;
    }
    // With the id header, a reader can recognise a message.
    let read = read(kind, &mut table, true);
    table.finish();
    read.map(target)
}

pub(super) fn kafka(table: &mut Fields<'_>, has_id_header: bool) -> Option<SinkPlace> {
    let brokers = table.required_text("brokers").map(str::to_owned);
    let topic = table.required_text("topic").map(str::to_owned);
    let properties = properties(table);
    Some(SinkPlace::Kafka {
        brokers: brokers?,
        topic: topic?,
        properties,
        has_id_header,
    })
}

fn nats(table: &mut Fields<'_>) -> Option<SinkPlace> {
    let url = url(table);
    let subject = table.required_text("subject").map(str::to_owned);
    let credentials = table.path("credentials");
    Some(SinkPlace::Nats {
        url: url?,
        subject: subject?,
        credentials,
        tls: tls::read(table),
    })
}

fn amqp(table: &mut Fields<'_>) -> Option<SinkPlace> {
    let url = url(table);
    let tls = tls::read(table);
    let queue = table.text("queue").map(str::to_owned);
    let exchange = table.text("exchange").map(str::to_owned);
    let routing_key = table.text("routing_key").map(str::to_owned);
    let (exchange, routing_key) = match (queue, exchange) {
        (Some(queue), None) if routing_key.is_none() => (String::new(), queue),
        (None, Some(exchange)) => (exchange, routing_key.unwrap_or_default()),
        (None, None) => {
            if !table.is_written("queue") && !table.is_written("exchange") {
                table.missing("queue");
            }
            return None;
        }
        (Some(_), _) => {
            if let Some(node) = table.node("queue") {
                let message = "either `queue`, or `exchange` and `routing_key`, not both";
                table.fault("queue", node, message);
            }
            return None;
        }
    };
    Some(SinkPlace::Amqp {
        url: url?,
        tls,
        exchange,
        routing_key,
    })
}

/// The brokers that messages can be published to.
pub(super) const KINDS: [&str; 3] = ["kafka", "nats", "amqp"];
const TIMEOUT: Duration = Duration::from_secs(30);
/// The shortest timeout that librdkafka accepts beside its own settings.
const SHORTEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_has_the_names_of_opentelemetry_and_no_secret() {
        let amqp = |url: &str, exchange: &str, routing_key: &str| SinkPlace::Amqp {
            url: url.to_owned(),
            tls: Tls::default(),
            exchange: exchange.to_owned(),
            routing_key: routing_key.to_owned(),
        };
        let kafka = |brokers: &str| SinkPlace::Kafka {
            brokers: brokers.to_owned(),
            topic: "orders".to_owned(),
            properties: vec![("sasl.password".to_owned(), "geheim".to_owned())],
            has_id_header: true,
        };
        let nats = SinkPlace::Nats {
            url: "nats://me:geheim@hub".to_owned(),
            subject: "orders.paid".to_owned(),
            credentials: None,
            tls: Tls::default(),
        };
        for (place, system, name, server) in [
            (kafka("one:9093"), "kafka", "orders", Some(("one", 9_093))),
            (kafka("one,two"), "kafka", "orders", None),
            (nats, "nats", "orders.paid", Some(("hub", 4_222))),
            (
                amqp("amqp://me:geheim@mq/%2f", "", "orders"),
                "rabbitmq",
                "orders",
                Some(("mq", 5_672)),
            ),
            (
                amqp("amqps://mq", "shop", "paid"),
                "rabbitmq",
                "shop:paid",
                Some(("mq", 5_671)),
            ),
            (
                amqp("amqp://mq", "shop", ""),
                "rabbitmq",
                "shop",
                Some(("mq", 5_672)),
            ),
            (
                amqp("amqp://mq", "", ""),
                "rabbitmq",
                "amq.default",
                Some(("mq", 5_672)),
            ),
        ] {
            let timeout = TIMEOUT;
            let expected = Destination {
                system,
                name: name.to_owned(),
                server: server.map(|(host, port)| (host.to_owned(), port)),
            };
            assert_eq!(SinkSettings { place, timeout }.destination(), expected);
        }
    }
}
