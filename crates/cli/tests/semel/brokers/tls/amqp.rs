//! RabbitMQ: `amqps://`, with a certificate of ours.

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use semel_broker_amqp::{AmqpSink, SinkOptions};

use super::Papers;
use crate::brokers::{payments, publish, runtime};

#[expect(dead_code, reason = "of the adapter's own tests, which also kill it")]
#[path = "../../../../../brokers/amqp/tests/amqp/server.rs"]
mod server;

#[test]
fn messages_of_an_encrypted_rabbitmq_are_applied_once() {
    let papers = Papers::new();
    let issued = papers.authority.issue_for("rabbit", "IP:127.0.0.1", &[]);
    let (server, port) = server::Server::encrypted(&papers.authority, &issued, "semel-run");
    let url = format!("amqps://guest:guest@127.0.0.1:{port}/%2f");
    runtime().block_on(async {
        // The same server without encryption, to make the queue.
        let plain = format!("amqp://guest:guest@127.0.0.1:{}/%2f", server.port());
        let connection = Connection::connect(&plain, ConnectionProperties::default()).await;
        let channel = connection.expect("a server").create_channel().await;
        let options = QueueDeclareOptions {
            durable: true,
            ..Default::default()
        };
        let channel = channel.expect("a channel");
        let made = channel.queue_declare("pay".into(), options, FieldTable::default());
        let _ = made.await.expect("a queue");
        let mut options = SinkOptions::new(&url, "", "pay");
        options.tls = papers.known();
        let sink = AmqpSink::new(options).expect("a sink");
        publish(sink, &payments((0..20).chain(3..8))).await;
    });
    let source = format!("kind = \"amqp\"\nurl = \"{url}\"\nqueue = \"pay\"\nprefetch = 50\n");
    super::each_is_applied_once(&source, &papers.table(), "tls.ca");
}
