//! From an order service through outbox, relay and broker into the table of a consumer: every part of it killed, again
//! and again. The consumer's table is the producer's, row by row.

use std::path::Path;

use torture::{Target, orders_arrive_end_to_end};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn the_table_of_the_consumer_is_that_of_the_producer() {
    let service = Path::new(env!("CARGO_BIN_EXE_order-service"));
    orders_arrive_end_to_end(Target::Kafka, service, 191);
}
