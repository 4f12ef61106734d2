//! `semel publish`: the publisher and its broker killed again and again. A reader that goes by ids sees each row once.

use torture::{Target, a_file_is_published_whole};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn rows_arrive_in_kafka() {
    a_file_is_published_whole(Target::Kafka, "sqlite", 181);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn rows_arrive_in_nats() {
    a_file_is_published_whole(Target::Nats, "embedded", 182);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn rows_arrive_in_rabbitmq() {
    a_file_is_published_whole(Target::RabbitMq, "embedded", 183);
}
