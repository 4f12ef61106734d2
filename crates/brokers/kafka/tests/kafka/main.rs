//! On a real Kafka: `cargo xtask services up kafka`.

mod cluster;
mod hazards;
mod laws;
mod rebalance;
mod sink;
