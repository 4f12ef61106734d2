//! Queues of a test's own, and short words for common steps.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use semel_broker_amqp::{AmqpSink, AmqpSource, Options, SinkOptions};
use semel_core::port::sink::{Publication, Sink};
use semel_core::port::source::{Delivery, DeliveryId, Fetched, Source};
use tokio::time::timeout;

/// The longest time that any step may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the url of the server of all tests.
pub(crate) fn url() -> String {
    std::env::var("SEMEL_TEST_AMQP_URL").expect(
        "SEMEL_TEST_AMQP_URL is not set: `cargo xtask services up rabbitmq`, then `. target/services/env`",
    )
}

/// Returns the address between `@` and `/`.
pub(crate) fn address(url: &str) -> SocketAddr {
    let (_, rest) = url.split_once('@').expect("a login");
    let (address, _) = rest.split_once('/').expect("a virtual host");
    address.parse().expect("an address")
}

/// Returns the same url, by way of `address`.
pub(crate) fn by_way_of(url: &str, address: SocketAddr) -> String {
    url.replace(&self::address(url).to_string(), &address.to_string())
}

/// A queue that only this test uses; it goes by itself when it was not used for a while.
pub(crate) struct Queue {
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) channel: Channel,
    _connection: Connection,
}

impl Queue {
    pub(crate) async fn open() -> Self {
        Self::make(url(), &[]).await
    }

    pub(crate) async fn quorum() -> Self {
        Self::make(url(), &[("x-queue-type", "quorum".into())]).await
    }

    pub(crate) async fn make(url: String, more: &[(&str, Argument)]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut seed = [0; 8];
        let read = std::fs::File::open("/dev/urandom")
            .and_then(|mut from| std::io::Read::read_exact(&mut from, &mut seed));
        read.expect("chance");
        let name = format!("semel-test-{:x}-{number}", u64::from_le_bytes(seed));
        let (connection, channel) = admin(&url).await;
        let mut arguments = FieldTable::default();
        arguments.insert("x-expires".into(), AMQPValue::LongInt(600_000));
        for (name, value) in more {
            let value = match value {
                Argument::Text(text) => AMQPValue::LongString((*text).into()),
                Argument::Number(number) => AMQPValue::LongInt(*number),
            };
            arguments.insert((*name).into(), value);
        }
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let declared = channel.queue_declare(name.as_str().into(), durable, arguments);
        declared.await.expect("a queue");
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await
            .expect("confirms");
        Self {
            url,
            name,
            channel,
            _connection: connection,
        }
    }

    pub(crate) fn options(&self) -> Options {
        Options::new(&self.url, &self.name)
    }

    pub(crate) fn source(&self) -> AmqpSource {
        AmqpSource::new(self.options()).expect("options")
    }

    pub(crate) fn sink(&self) -> AmqpSink {
        AmqpSink::new(SinkOptions::new(&self.url, "", &self.name)).expect("options")
    }

    /// Publishes `range` in order, as numbers.
    pub(crate) async fn put(&self, range: std::ops::Range<u32>) {
        let batch: Vec<_> = range.map(|n| publication(&n.to_string())).collect();
        for answer in self.sink().publish(&batch).await {
            answer.expect("published");
        }
    }

    /// Publishes one as another program would.
    pub(crate) async fn put_raw(&self, payload: &[u8], properties: BasicProperties) {
        let sent = self.channel.basic_publish(
            "".into(),
            self.name.as_str().into(),
            BasicPublishOptions::default(),
            payload,
            properties,
        );
        let confirm = sent.await.expect("sent");
        assert!(confirm.await.expect("a confirm").is_ack());
    }

    /// Counts the messages that wait, with nobody at work on them.
    pub(crate) async fn ready(&self) -> u32 {
        let (_connection, channel) = admin(&self.url).await;
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let looked =
            channel.queue_declare(self.name.as_str().into(), passive, FieldTable::default());
        looked.await.expect("the queue").message_count()
    }

    /// Waits until so many messages wait.
    pub(crate) async fn until_ready(&self, count: u32) {
        let waited = timeout(PATIENCE, async {
            while self.ready().await != count {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("not {count} wait"));
    }
}

/// Argument of a queue.
pub(crate) enum Argument {
    Text(&'static str),
    Number(i32),
}

impl From<&'static str> for Argument {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

impl From<i32> for Argument {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

/// Opens a connection and channel of the test itself.
pub(crate) async fn admin(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default());
    let connection = connection.await.expect("the server is up");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}

pub(crate) fn publication(text: &str) -> Publication {
    Publication {
        id: format!("id-{text}").into(),
        order: None,
        payload: Bytes::copy_from_slice(text.as_bytes()),
        headers: Vec::new(),
    }
}

/// Returns the next deliveries; other reports meanwhile are left aside.
pub(crate) async fn some(source: &mut AmqpSource, max: usize) -> Vec<Delivery> {
    let fetched = async {
        loop {
            match source.fetch(max).await.expect("a source of use") {
                Fetched::Deliveries(some) => return some,
                Fetched::Revoked(_)
                | Fetched::Away(_)
                | Fetched::Back
                | Fetched::Elsewhere { .. } => {}
                Fetched::Ended => panic!("it ended"),
            }
        }
    };
    timeout(PATIENCE, fetched)
        .await
        .expect("deliveries in time")
}

/// Fetches until `count` different numbers are here.
pub(crate) async fn take(source: &mut AmqpSource, count: usize) -> Vec<Delivery> {
    let mut got = Vec::new();
    while numbers(&got).len() < count {
        got.extend(some(source, count).await);
    }
    got
}

pub(crate) fn ids(deliveries: &[Delivery]) -> Vec<DeliveryId> {
    deliveries.iter().map(|it| it.id).collect()
}

pub(crate) fn numbers(deliveries: &[Delivery]) -> BTreeSet<u32> {
    let number = |it: &Delivery| {
        let text = std::str::from_utf8(&it.payload).expect("a number");
        text.parse().expect("a number")
    };
    deliveries.iter().map(number).collect()
}

pub(crate) fn header<'a>(delivery: &'a Delivery, name: &str) -> Option<&'a [u8]> {
    let found = delivery.headers.iter().find(|(it, _)| &**it == name);
    found.map(|(_, value)| &**value)
}

/// Returns the text of the whole error chain.
pub(crate) fn words(error: &semel_core::Error) -> String {
    format!("{error} {error:?}")
}
