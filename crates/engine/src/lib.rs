//! The protocols over Semel's ports: attempts, leases, recovery, consumers.
//!
//! [`Consumer`](consumer::Consumer) runs a whole pipeline: it takes deliveries from a source, claims
//! their keys, runs an effect, settles, and only then acknowledges; [`handler`] makes one from typed
//! settings and a closure. [`once`] runs one operation, or a batch of them, from a program's own code;
//! [`attempt`] is its protocol step by step, as a linear handle. Observers implement
//! [`Observer`](event::Observer). [`layer`] holds layers that may stand between all of them and a
//! store.
//!
//! Time, chance and failure are inputs: only [`system`] reads a clock.

pub mod attempt;
pub mod consumer;
mod differing;
pub mod effect;
pub mod event;
pub mod handler;
pub mod layer;
mod lease;
pub mod once;
pub mod pipeline;
pub mod publication;
mod retry;
mod step;
pub mod summary;
pub mod surroundings;
pub mod sweep;
mod sync;
pub mod system;
pub mod trace;
