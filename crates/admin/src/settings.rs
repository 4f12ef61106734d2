//! Everything that the service tells of, and what it asks.

use std::sync::Arc;

use semel_config::{ConsoleSettings, PipelineSettings};
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{AnyStore, Clock, Entropy};
use serde_json::Value;
use tokio::sync::watch;

use crate::series::{Series, SeriesQuery};

/// Everything that the service tells of.
#[derive(Clone)]
pub struct Settings {
    /// The store as the worker has it open; none while it is not.
    pub store: watch::Receiver<Option<Lent>>,
    /// The url of the store, as it may be shown.
    pub url: String,
    /// The weaknesses of the store that the configuration accepts.
    pub accepted: Vec<&'static str>,
    /// The pipelines of the configuration.
    pub pipelines: Vec<PipelineSettings>,
    /// True if clients bring keys, too: by claims, or in requests to a gateway.
    pub serves_clients: bool,
    /// The names under which the routes of a gateway keep their keys.
    pub routes: Vec<Box<str>>,
    /// The settings that apply, as `semel config show --output json` prints them: without secrets.
    pub config: String,
    /// The parts of messages that are shown.
    pub console: ConsoleSettings,
    /// The worker.
    pub worker: Arc<dyn Worker>,
    /// The clock that ages are measured on.
    pub clock: Arc<dyn Clock>,
    /// The entropy that the records of orders are named by.
    pub entropy: Arc<dyn Entropy>,
}

/// The store, as the worker lends it.
#[derive(Clone, Debug)]
pub struct Lent {
    /// The store.
    pub store: AnyStore,
    /// The same store, for audit entries about the store as a whole.
    pub trail: Option<AnyTransferStore>,
}

/// A worker as the service sees it. Every call reads memory alone.
pub trait Worker: Send + Sync + 'static {
    /// Returns an object that says how it is.
    fn status(&self) -> Value;

    /// Returns the name of each of its pipelines, with an object that says how that is and what it has done.
    fn pipelines(&self) -> Vec<(Box<str>, Value)>;

    /// Returns the last hour of the series that are wanted.
    fn series(&self, wanted: SeriesQuery<'_>) -> Series;
}
