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
//! Verbs that run messages without a supervisor use its parts: [`preflight`], [`same_file`], [`StoreWatch`] and
//! [`VerbTraces`]. [`replay`] runs messages once more.

pub mod event_log;
mod key_count;
mod notice;
mod pipeline;
pub mod preflight;
mod probes;
pub mod replay;
mod restoration;
mod results;
pub mod same_file;
mod source_lag;
mod status;
mod store_opening;
mod store_watch;
mod supervisor;
mod traces;
mod transaction_overlap;
mod verb_traces;
mod window_guard;
mod window_watch;

pub use notice::{Keys, Notice, Reporter};
pub use results::{PipelineResult, PipelineSummary, Results};
pub use status::{PartitionRestoration, Restoration};
pub use store_watch::StoreWatch;
pub use supervisor::{Opened, Options, Supervisor, Worker};
pub use verb_traces::VerbTraces;
