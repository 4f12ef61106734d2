//! Everything that the service tells of, and what it asks.

use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;

use semel_config::{ConsoleSettings, PipelineSettings};
use semel_core::port::outbox::AnyOutbox;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{AnyStore, Clock, Entropy, Error, Result};
use semel_operate::check::CheckAnswer;
use semel_operate::producers::Producers;
use semel_worker::replay::Job;
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
    /// The relays of the configuration, by name.
    pub relays: Vec<RelayPlace>,
    /// The producers of the store; none where it keeps none.
    pub producers: Option<Producers>,
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
    /// Checks the settings that the worker runs with; none where nobody can.
    pub checker: Option<Arc<dyn Checker>>,
    /// The clock that ages are measured on.
    pub clock: Arc<dyn Clock>,
    /// The entropy that the records of orders are named by.
    pub entropy: Arc<dyn Entropy>,
}

/// A relay, its outbox, and the store that has the orders about it.
#[derive(Clone, Debug)]
pub struct RelayPlace {
    /// The relay. No pipeline has its name.
    pub name: Box<str>,
    /// The stream that it publishes.
    pub stream: Box<str>,
    /// Its outbox; none where this program knows none of that kind.
    pub outbox: Option<AnyOutbox>,
    /// The store beside its outbox; none if the worker's own store has the orders.
    pub elsewhere: Option<watch::Receiver<OrderStore>>,
}

/// The store beside an outbox, which has the orders about its relays, as a worker found it last.
#[derive(Clone, Debug, Default)]
pub enum OrderStore {
    /// Nobody has looked yet.
    #[default]
    Unseen,
    /// It is open.
    Open(AnyStore),
    /// There is none in the database.
    Absent,
    /// It could not be opened.
    Failed(Error),
}

/// The store, as the worker lends it.
#[derive(Clone, Debug)]
pub struct Lent {
    /// The store.
    pub store: AnyStore,
    /// The same store, for audit entries about the store as a whole.
    pub trail: Option<AnyTransferStore>,
    /// Runs messages again that were set aside; none where nobody can.
    pub runner: Option<Arc<dyn Runner>>,
}

/// Runs messages again that were set aside, in the process of the worker and beside its pipelines.
pub trait Runner: Send + Sync + 'static {
    /// Runs the messages of a job with the effect of their pipeline, until all came to rest or `recalled` turns `true`: then
    /// what is in hand is finished, and the rest stays where it is. Returns the object that the verb prints.
    fn run(&self, pipeline: &PipelineSettings, job: Job, recalled: watch::Receiver<bool>) -> Ran;

    /// Waits until somebody pauses or drains one of these pipelines by an order that was not there yet at this call; for
    /// ever if nobody can.
    fn paused(&self, pipelines: &[Box<str>]) -> Paused {
        let _ = pipelines;
        Box::pin(std::future::pending())
    }
}

/// The wait for an order that pauses a pipeline.
pub type Paused = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A run of a pipeline, until its report. Dropping it is as safe as `kill -9`.
pub type Ran = Pin<Box<dyn Future<Output = Result<Value>> + Send>>;

impl fmt::Debug for dyn Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runner")
    }
}

/// Checks the settings that a worker runs with, in the process of the worker.
pub trait Checker: Send + Sync + 'static {
    /// Looks at everything that the settings name, and waits for no single server for long. `store` is the store as the worker
    /// has it open, if it has.
    fn check(&self, question: CheckQuestion, store: Option<AnyStore>) -> PendingCheck;
}

/// The question that a check answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckQuestion {
    /// The only pipeline; none: everything is looked at.
    pub pipeline: Option<Box<str>>,
    /// New keys of each pipeline in a second.
    pub rate: Option<NonZeroU32>,
    /// True to go through the list before production instead.
    pub production: bool,
}

/// A check that goes on. Dropping it ends it.
pub type PendingCheck = Pin<Box<dyn Future<Output = Result<CheckAnswer>> + Send>>;

/// A worker as the service sees it. Every call reads memory alone.
pub trait Worker: Send + Sync + 'static {
    /// Returns an object that says how it is.
    fn status(&self) -> Value;

    /// Returns the name of each of its pipelines, with an object that says how that is and what it has done.
    fn pipelines(&self) -> Vec<(Box<str>, Value)>;

    /// Returns the name of each of its relays, with an object that says how that is and what waits in its outbox. The
    /// object has the name as `pipeline`, and `relay`, which is true.
    fn relays(&self) -> Vec<(Box<str>, Value)> {
        Vec::new()
    }

    /// Returns the last hour of the series that are wanted.
    fn series(&self, wanted: SeriesQuery<'_>) -> Series;
}
