//! The cases, by topic. Each takes a fresh instance and panics where its law is broken.

pub mod attempts;
pub mod batch;
pub mod checkpoint;
pub mod claim;
pub mod doubt;
pub mod durable;
pub mod fencing;
pub mod fingerprint;
pub mod identity;
pub mod lease;
mod ledger;
pub mod list;
pub mod operate;
pub mod outcome;
pub mod parked;
pub mod statements;
pub mod survival;
pub mod transactional;
pub mod version;
pub mod window;
