//! The reports of [`semel_operate`] as tables, blocks of labels, and lines of a plan.

pub mod check;
pub mod gameday;
mod in_doubt;
pub mod keys;
pub mod parked;
mod pipelines;
pub mod producers;
pub mod relays;
mod store;
pub mod tokens;
pub mod transfer;
