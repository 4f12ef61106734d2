//! The client of the admin API: what the verbs show and do, asked of a worker elsewhere.
//!
//! [`Worker`] asks, and reads the answers into the reports of [`semel_operate`], so that whoever prints those of a store
//! of this machine prints these as well. [`Worker::plan`] and [`Worker::carry_out`] are the two steps of an order, and
//! [`Worker::run`] follows messages that are run again.
//!
//! It connects to the one address that it was made for, follows no redirect, asks no proxy, and reads no more than
//! 32 MiB of an answer, but for an export, which it passes on as it comes. Each request has a connection of its own.
//!
//! ```
//! use semel_remote::{Access, Worker};
//!
//! let worker = Worker::new("http://127.0.0.1:9464", Access::default())?;
//! assert_eq!(worker.address().to_string(), "http://127.0.0.1:9464");
//! assert!(Worker::new("http://me:secret@127.0.0.1:9464", Access::default()).is_err());
//! # Ok::<(), semel_core::Error>(())
//! ```

mod address;
mod connection;
mod effects;
mod order;
mod problem;
mod report;
mod worker;

pub use address::Address;
pub use effects::place_of;
pub use order::{Carried, Done, Planned, Run};
pub use problem::Problem;
pub use report::Read;
pub use worker::{Access, Failure, Page, Token, Worker};
