//! Kafka: workers of one group killed, stopped and joined by others, the broker killed and restarted. Effects of
//! each payment, each once.

use torture::{Kafka, Keep, happens_once};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_postgresql() {
    happens_once(&mut Kafka::with_payments(), Keep::Postgres, 61);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_redis() {
    happens_once(&mut Kafka::with_payments(), Keep::Redis, 63);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_the_embedded_store_and_one_worker() {
    happens_once(&mut Kafka::with_payments(), Keep::Embedded, 64);
}
