//! RabbitMQ: workers of one queue killed, stopped and joined by others, the server killed and restarted, and that of
//! the store. Effects of each payment, each once.

use torture::{Keep, RabbitMq, happens_once};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_postgresql() {
    happens_once(&mut RabbitMq::start(), Keep::Postgres, 81);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_redis() {
    happens_once(&mut RabbitMq::start(), Keep::Redis, 82);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_the_embedded_store_and_one_worker() {
    happens_once(&mut RabbitMq::start(), Keep::Embedded, 83);
}
