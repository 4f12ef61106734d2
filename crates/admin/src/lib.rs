//! The admin API: what a worker and its store hold, as JSON, for dashboards, consoles and programs; and the orders that
//! an operator may give, each with a plan first.
//!
//! [`router`] is the whole service. Lists and objects are the reports of [`semel_operate`], which the command line
//! prints with `--output json`. Not for sockets, tokens or settings files: the listener that carries the router puts
//! the [`Caller`](semel_http::Caller) into each request, and opens the store.
//!
//! The cost of a request is bounded: [`MOST_ITEMS`] entries a page, [`READINGS`] readings of the store at once, each of
//! them [`PATIENCE`] at most, a page of the store at a time; one check at once, for [`LONGEST_CHECK`] at most; one export at
//! once, as fast as its client takes it. Orders are carried out one after another, of [`MOST_CHANGES`] changes at most.
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::Extension;
//! use semel_admin::{Lent, Series, SeriesQuery, Settings, Worker, router};
//! use semel_config::ConsoleSettings;
//! use semel_core::AnyStore;
//! use semel_engine::system::{SystemClock, SystemEntropy};
//! use semel_http::Caller;
//! use semel_store_memory::MemoryStore;
//! use serde_json::{Value, json};
//! use tokio::sync::watch;
//!
//! /// A worker without pipelines.
//! struct Idle;
//!
//! impl Worker for Idle {
//!     fn status(&self) -> Value {
//!         json!({ "state": "running" })
//!     }
//!
//!     fn pipelines(&self) -> Vec<(Box<str>, Value)> {
//!         Vec::new()
//!     }
//!
//!     fn series(&self, _wanted: SeriesQuery<'_>) -> Series {
//!         Series::default()
//!     }
//! }
//!
//! let clock = Arc::new(SystemClock::new());
//! let store = AnyStore::new(Arc::new(MemoryStore::new(clock.clone())));
//! let (_opened, store) = watch::channel(Some(Lent { store, trail: None, runner: None }));
//! let settings = Settings {
//!     store,
//!     url: "memory:".to_owned(),
//!     accepted: Vec::new(),
//!     pipelines: Vec::new(),
//!     relays: Vec::new(),
//!     producers: None,
//!     serves_clients: false,
//!     routes: Vec::new(),
//!     config: "{}".to_owned(),
//!     console: ConsoleSettings::default(),
//!     worker: Arc::new(Idle),
//!     checker: None,
//!     clock,
//!     entropy: Arc::new(SystemEntropy),
//! };
//! let service = router(settings, Arc::default());
//! let service = service.layer(Extension(Caller::loopback()));
//! # let _: axum::Router = service;
//! ```

mod answer;
mod audit;
mod checks;
mod events;
mod exports;
mod keys;
mod openapi;
mod orders;
mod page;
mod parked;
mod producers;
mod query;
mod reading;
mod relay_letters;
mod router;
mod series;
mod settings;
mod worker;

pub use checks::LONGEST as LONGEST_CHECK;
pub use events::STREAMS;
pub use openapi::OPENAPI;
pub use orders::{LONGEST, MOST_BODY_BYTES, MOST_CHANGES, Orders};
pub use page::MOST_ITEMS;
pub use reading::{PATIENCE, READINGS};
pub use router::router;
pub use semel_operate::producers::Producers;
pub use semel_worker::replay::Job;
pub use series::{Plot, Series, SeriesQuery};
pub use settings::{
    CheckQuestion, Checker, Lent, OrderStore, Paused, PendingCheck, Ran, RelayPlace, Runner,
    Settings, Worker,
};
