//! Layers over the store port: they stand between a store and its callers.
//!
//! [`tiered`] answers duplicates of finished keys from memory, [`approximate`] remembers finished
//! keys as bits of a filter, [`outage`] leaves a store alone that does not answer. Not for deciding
//! anything about keys: a layer takes every answer of its own from [`decide`](semel_core::decide)
//! and a record of the authority. Decision 0040.

pub mod approximate;
pub mod outage;
pub mod tiered;
