//! The MySQL store's own hazards: its server, its locks, its tables.

mod apply;
#[path = "../lab/database.rs"]
mod database;
mod faults;
mod inbox;
mod lab;
mod locks;
mod look;
mod planted;
#[path = "../lab/proxy.rs"]
mod proxy;
mod refused;
mod tables;
mod tokens;
