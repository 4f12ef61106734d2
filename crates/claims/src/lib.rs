//! The claim API: the engine for any language that can send HTTP, with three calls. A client claims a key, runs its
//! effect, and completes the claim with the outcome, which every duplicate is answered with.
//!
//! [`router`] is the whole service over one store. It keeps nothing between two requests but the queue of those that
//! wait for a key: a claim names itself, so it can be settled after a restart, through another server on the same
//! store, or in a batch. Not for sockets, tokens or settings files: the listener that carries the router puts the
//! [`Caller`](semel_http::Caller) into each request.
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::Extension;
//! use semel_claims::{Settings, router};
//! use semel_engine::system::SystemClock;
//! use semel_http::Caller;
//! use semel_store_memory::MemoryStore;
//!
//! let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
//! let service = router(store, Settings::default()).layer(Extension(Caller::loopback()));
//! # let _: axum::Router = service;
//! ```

mod answer;
mod claims;
mod events;
mod handle;
mod names;
mod openapi;
mod operations;
mod outcome;
mod router;
mod service;
mod settings;
mod settlements;
mod spans;
mod trace;
mod waiters;

pub use names::{MOST_NAMED, OTHERS};
pub use openapi::OPENAPI;
pub use router::router;
pub use settings::Settings;
