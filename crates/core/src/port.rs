//! The ports: the contracts that stores and brokers keep towards the engine.
//!
//! Implementors write plain `async fn`; callers get `Send` futures. Each store port has one erased
//! form (`Any…`) for callers that pick the backend at run time, and the conformance suite runs over
//! both.

pub mod checkpoint;
mod erased;
pub mod horizon;
pub mod ingest;
pub mod outbox;
pub mod producer;
pub mod rescan;
pub mod sink;
pub mod source;
pub mod store;
pub mod streamed;
pub mod transactional;
pub mod transfer;

#[cfg(test)]
mod tests;
