//! RabbitMQ, read back by `basic.get`.

use lapin::options::BasicGetOptions;
use lapin::types::AMQPValue;
use lapin::{Connection, ConnectionProperties};

use super::super::amqp::Queue;
use super::super::{Place, runtime};
use super::{Message, Target, publishing};

publishing!(Queue);

impl Target for Queue {
    fn sink(&self, address: &str) -> String {
        let Self(queue) = self;
        let url = if address.contains("://") {
            address.to_owned()
        } else {
            format!("amqp://guest:guest@{address}/%2f")
        };
        format!("kind = \"amqp\"\nurl = \"{url}\"\nqueue = \"{queue}\"\n")
    }

    /// Reads without removing anything: messages that are not acknowledged are back when the channel ends.
    fn read(&self) -> Vec<Message> {
        runtime().block_on(async {
            let connection =
                Connection::connect(&Self::address(), ConnectionProperties::default()).await;
            let connection = connection.expect("a server");
            let channel = connection.create_channel().await.expect("a channel");
            let mut messages = Vec::new();
            // A confirmed message may not be ready yet, and a message that another look took may not be back.
            let mut looks = 0;
            while looks < 50 {
                let got = channel.basic_get(self.0.as_str().into(), BasicGetOptions::default());
                if let Some(got) = got.await.expect("an answer") {
                    messages.push(message(&got.delivery));
                } else {
                    looks += 1;
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            }
            let _ = connection.close(200, "".into()).await;
            messages
        })
    }

    fn name(&self) -> &str {
        &self.0
    }

    fn group(&self) -> &'static str {
        ""
    }

    const SYSTEM: &str = "rabbitmq";
    const DROPS_REPEATS: bool = false;
    const NO_PLACE: &str = "does not exist";
}

fn message(delivery: &lapin::message::Delivery) -> Message {
    let table = delivery.properties.headers().clone().unwrap_or_default();
    let headers = table.inner().iter();
    let headers = headers.filter_map(|(name, value)| match value {
        AMQPValue::LongString(text) => {
            let text = String::from_utf8_lossy(text.as_bytes()).into_owned();
            Some((name.to_string(), text))
        }
        _ => None,
    });
    let id = delivery.properties.message_id().as_ref();
    Message {
        id: id.expect("an id").to_string(),
        payload: String::from_utf8(delivery.data.clone()).expect("text"),
        headers: headers.collect(),
    }
}
