//! RabbitMQ.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties};
use semel_broker_amqp::{AmqpSink, SinkOptions};
use semel_core::port::sink::Publication;

use super::{Place, behind, behind_a_proxy, name, runtime, send, server};

/// A quorum queue.
pub(super) struct Queue(pub(super) String);

behind!(Queue);
behind_a_proxy!(Queue);

impl Place for Queue {
    fn new() -> Self {
        let queue = Self(name());
        runtime().block_on(async {
            let connection =
                Connection::connect(&Self::address(), ConnectionProperties::default()).await;
            let channel = connection.expect("a server").create_channel().await;
            let mut arguments = FieldTable::default();
            arguments.insert(
                "x-queue-type".into(),
                AMQPValue::LongString("quorum".into()),
            );
            let options = QueueDeclareOptions {
                durable: true,
                ..Default::default()
            };
            let channel = channel.expect("a channel");
            let made = channel
                .queue_declare(queue.0.as_str().into(), options, arguments)
                .await;
            let _ = made.expect("a queue");
        });
        queue
    }

    fn source(&self, address: &str) -> String {
        let Self(queue) = self;
        let url = if address.contains("://") {
            address.to_owned()
        } else {
            format!("amqp://{address}")
        };
        format!("kind = \"amqp\"\nurl = \"{url}\"\nqueue = \"{queue}\"\nprefetch = 50\n")
    }

    fn address() -> String {
        server("SEMEL_TEST_AMQP_URL", "rabbitmq")
    }

    fn send(&self, batch: &[Publication]) {
        let options = SinkOptions::new(Self::address(), "", &self.0);
        runtime().block_on(async {
            send(AmqpSink::new(options).expect("a sink"), batch).await;
        });
    }
}
