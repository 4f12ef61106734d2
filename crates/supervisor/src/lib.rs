//! A worker in one process: runs every pipeline of a configuration over one store, until its sources end or a
//! stop is asked for.
//!
//! A [`Supervisor`] opens the store and waits for it if its server is away, checks what the store and the brokers
//! promise, runs the pipelines, each with its layers, and beside them what a worker needs: the sweeper, the probes
//! of what it depends on, the orders of operators, and the listener that reports its status. The end of one
//! pipeline by an error ends the others.
//!
//! A program hands in the settings, the clock, the entropy and the channel by which it asks for a stop, and
//! receives what an operator should know as [`Notice`]s, and through an [`EventLog`](event_log::EventLog): the crate
//! prints nothing and listens to no signals.
//!
//! ```
//! use std::sync::Arc;
//!
//! use semel_backends::BACKENDS;
//! use semel_config::{Overrides, PipelineSettings, Settings};
//! use semel_engine::event::Unobserved;
//! use semel_engine::summary::Fate;
//! use semel_engine::surroundings::OnProgress;
//! use semel_engine::system::{SystemClock, SystemEntropy};
//! use semel_supervisor::{Notice, Opened, Options, Reporter, Supervisor};
//! use tokio::sync::watch;
//!
//! /// Prints nothing of what an operator should know.
//! struct Silent;
//!
//! impl Reporter for Silent {
//!     fn report(&self, _: &Notice<'_>) {}
//!
//!     fn progress(&self, _: &PipelineSettings) -> OnProgress {
//!         Arc::new(|_, _| {})
//!     }
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let folder = tempfile::tempdir().unwrap();
//! let input = folder.path().join("payments.ndjson");
//! std::fs::write(&input, "{\"id\":1}\n{\"id\":2}\n{\"id\":1}\n").unwrap();
//! let text = format!(
//!     "[store]\nurl = 'embedded:{0}/data'\n[pipelines.payments]\nkey = 'json:/id'\n\
//!      source = {{ kind = 'file', path = '{0}/payments.ndjson' }}\n\
//!      effect = {{ kind = 'file', path = '{0}/charges.ndjson' }}\n",
//!     folder.path().display()
//! );
//! let variables = std::iter::empty();
//! let settings = Settings::of("semel.toml", &text, variables, &Overrides::default(), BACKENDS);
//! let supervisor = Supervisor::new(Options {
//!     settings: settings.unwrap(),
//!     clock: Arc::new(SystemClock::new()),
//!     entropy: Arc::new(SystemEntropy),
//!     observer: Arc::new(Unobserved),
//!     reporter: Arc::new(Silent),
//!     stop: watch::channel(false).0,
//! });
//! let Opened::Worker(worker) = supervisor.await.unwrap().open().await.unwrap() else {
//!     panic!("nobody asked for a stop");
//! };
//! let results = worker.run().await.unwrap();
//! let (_, payments) = &results.pipelines[0];
//! let counts = [Fate::Applied, Fate::Replayed].map(|fate| payments.summary.of(fate));
//! assert_eq!(counts, [2, 1]);
//! # });
//! ```
//!
//! Verbs that run messages without a supervisor use its parts: [`preflight`], [`same_file`], [`StoreWatch`] and
//! [`VerbTraces`]. [`replay`] runs messages once more.

mod admin;
mod claim_watch;
mod claims;
mod door;
pub mod event_log;
mod gateway;
mod key_count;
mod notice;
mod pause;
mod pipeline;
pub mod preflight;
mod probes;
mod relays;
pub mod replay;
mod restoration;
mod results;
mod route_watch;
mod runner;
pub mod same_file;
mod self_check;
mod shared;
mod source_lag;
mod source_paths;
mod status;
mod stopping;
mod store_opening;
mod store_wait;
mod store_watch;
mod supervisor;
mod tokens;
mod traces;
mod transaction_overlap;
mod verb_traces;
mod window_guard;
mod window_watch;
mod worker_end;

pub use notice::{Keys, Notice, Protection, Reporter};
pub use results::{PipelineResult, PipelineSummary, RelayResult, Results};
pub use status::{PartitionRestoration, Restoration};
pub use store_watch::StoreWatch;
pub use supervisor::{Opened, Options, Supervisor, Worker};
pub use verb_traces::VerbTraces;
