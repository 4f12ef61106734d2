//! The protocols over Semel's ports: attempts, leases, recovery, consumers.
//!
//! [`Consumer`](consumer::Consumer) runs a whole pipeline: it takes deliveries from a source, claims
//! their keys, runs an effect, settles, and only then acknowledges. [`attempt`] is the same protocol
//! for one operation at a time, as a linear handle. Whoever wants to watch implements
//! [`Observer`](event::Observer).
//!
//! Time, chance and failure are inputs: nothing here reads a clock but [`system`].

pub mod attempt;
pub mod consumer;
pub mod effect;
pub mod event;
pub mod pipeline;
pub mod summary;
pub mod sweep;
pub mod system;
