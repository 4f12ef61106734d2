//! Semel's worker: source, key, claim, effect, settle, acknowledge.
//!
//! Takes a [`Pipeline`](semel_engine::pipeline::Pipeline), the settings of its effect, a source and
//! a store, and runs the engine's consumer over them. Reads no configuration and no command line.

pub mod control;
pub mod dedup;
pub mod effect;
pub mod replay;
pub mod run;
pub mod settings;
pub mod transfer;
