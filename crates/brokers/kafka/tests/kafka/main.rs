//! On a real Kafka: `cargo xtask services up kafka`.

mod backlog;
mod cluster;
mod hazards;
mod idle;
mod inspection;
mod laws;
mod own;
mod rebalance;
mod restore;
mod rights;
mod secure;
mod sink;
mod streamed;
mod transactions;
mod turns;
