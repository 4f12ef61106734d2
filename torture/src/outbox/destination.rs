//! The place that relays publish to, which they reach through a proxy that cuts, and the source of a consumer behind it.

use semel_conformance::proxy::Proxy;

use super::orders::Order;
use crate::worker::Site;
use crate::{Broker, Kafka, Nats, RabbitMq};

/// The place that relays publish to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A topic of Kafka.
    Kafka,
    /// A stream of NATS.
    Nats,
    /// An exchange of RabbitMQ.
    RabbitMq,
    /// A worker that takes requests.
    Http,
}

impl Target {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kafka => "Kafka",
            Self::Nats => "NATS",
            Self::RabbitMq => "RabbitMQ",
            Self::Http => "http",
        }
    }
}

/// A broker, and the way of the relays to it.
pub(crate) struct Destination {
    broker: Kind,
    pub(super) cuts: Proxy,
    /// The source of the consumer.
    pub(super) source: String,
}

enum Kind {
    Kafka(Kafka),
    Nats(Nats),
    RabbitMq(RabbitMq),
    /// The consumer itself.
    Consumer,
}

impl Destination {
    /// Starts a broker. Needs a tokio runtime.
    ///
    /// # Panics
    ///
    /// If it does not come up.
    pub(crate) fn start(to: Target) -> Self {
        match to {
            Target::Kafka => {
                let mut cuts = None;
                let mut broker =
                    Kafka::behind(|listener| cuts.insert(Proxy::start(listener)).address());
                broker.create("payments", 12);
                Self {
                    cuts: cuts.expect("a proxy"),
                    source: broker.reader("book"),
                    broker: Kind::Kafka(broker),
                }
            }
            Target::Nats => {
                let mut broker = Nats::start();
                Self {
                    cuts: Proxy::start(broker.address()),
                    source: broker.reader("book"),
                    broker: Kind::Nats(broker),
                }
            }
            Target::RabbitMq => {
                let mut broker = RabbitMq::start();
                broker.reader(AUDIT);
                Self {
                    cuts: Proxy::start(broker.address()),
                    source: broker.reader("book"),
                    broker: Kind::RabbitMq(broker),
                }
            }
            Target::Http => {
                let port = free_port::take().expect("a free port");
                let address = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port));
                Self {
                    cuts: Proxy::start(address),
                    source: format!(
                        "kind = \"webhook\"\nlisten = \"{address}\"\npath = \"/orders\"\nverify = \"none\"\n"
                    ),
                    broker: Kind::Consumer,
                }
            }
        }
    }

    /// The sink of a relay.
    pub(super) fn sink(&self) -> String {
        let address = self.cuts.address();
        match self.broker {
            Kind::Kafka(_) => {
                format!("kind = \"kafka\"\nbrokers = \"{address}\"\ntopic = \"payments\"\n")
            }
            Kind::Nats(_) => {
                format!("kind = \"nats\"\nurl = \"nats://{address}\"\nsubject = \"payments\"\n")
            }
            Kind::RabbitMq(_) => format!(
                "kind = \"amqp\"\nurl = \"amqp://guest:guest@{address}/%2f\"\nexchange = \"payments\"\n\
                 routing_key = \"orders\"\n"
            ),
            Kind::Consumer => format!("kind = \"http\"\nurl = \"http://{address}/orders\"\n"),
        }
    }

    /// The selector of the id of a message.
    pub(super) fn key(&self) -> &'static str {
        match self.broker {
            Kind::Kafka(_) => "header:semel-id",
            Kind::Nats(_) => "header:Nats-Msg-Id",
            Kind::RabbitMq(_) => "header:amqp-message-id",
            Kind::Consumer => "header:idempotency-key",
        }
    }

    /// True if it drops a message that it has already.
    pub(crate) fn drops_repeats(&self) -> bool {
        matches!(self.broker, Kind::Nats(_) | Kind::Consumer)
    }

    /// True if it is soon there again once it was killed.
    pub(super) fn restarts_soon(&self) -> bool {
        matches!(self.broker, Kind::Nats(_))
    }

    /// Kills the broker, and starts it again; returns whether there is one.
    pub(crate) fn kill_and_restart(&mut self) -> bool {
        match &mut self.broker {
            Kind::Kafka(broker) => broker.kill_and_restart(),
            Kind::Nats(broker) => broker.kill_and_restart(),
            Kind::RabbitMq(broker) => broker.kill_and_restart(),
            Kind::Consumer => return false,
        }
        true
    }

    /// Waits until the consumers under this name have acknowledged everything.
    ///
    /// # Panics
    ///
    /// If they get no further.
    pub(super) fn is_acknowledged(&self, reader: &str, site: &Site) {
        let broker: &dyn Broker = match &self.broker {
            Kind::Kafka(broker) => broker,
            Kind::Nats(broker) => broker,
            Kind::RabbitMq(broker) => broker,
            Kind::Consumer => return,
        };
        broker.wait_until_acknowledged(reader, site);
    }

    /// The url and the place of `semel publish`.
    ///
    /// # Panics
    ///
    /// If it is no broker.
    pub(crate) fn typed(&self) -> (String, String) {
        let address = self.cuts.address();
        let (url, place) = match self.broker {
            Kind::Kafka(_) => (format!("kafka://{address}"), "payments"),
            Kind::Nats(_) => (format!("nats://{address}"), "payments"),
            Kind::RabbitMq(_) => (format!("amqp://guest:guest@{address}/%2f"), AUDIT),
            Kind::Consumer => panic!("nobody publishes to a consumer"),
        };
        (url, place.to_owned())
    }

    /// Reads the labels and accounts of everything that was published, from its beginning.
    pub(crate) fn labels(&self) -> Option<Vec<(String, String)>> {
        let orders = self.published()?.into_iter();
        Some(orders.map(|it| (it.label, it.account)).collect())
    }

    /// Reads everything that was published, from its beginning; nothing where only the consumer knows.
    pub(super) fn published(&self) -> Option<Vec<Order>> {
        let messages = match &self.broker {
            Kind::Kafka(broker) => broker.kept("payments"),
            Kind::Nats(broker) => broker.kept(),
            Kind::RabbitMq(broker) => broker.taken_from(AUDIT),
            Kind::Consumer => return None,
        };
        let orders = messages.iter().map(|text| {
            Order::of_message(text).unwrap_or_else(|| panic!("no message of an order: {text}"))
        });
        Some(orders.collect())
    }
}

/// The queue that is read in the end.
const AUDIT: &str = "audit";
