//! On a real Kafka: `cargo xtask services up kafka`.

mod cluster;
mod hazards;
mod laws;
mod look;
mod rebalance;
mod sink;
mod streamed;
