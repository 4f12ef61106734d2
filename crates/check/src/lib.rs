//! The looks of `semel check`: asks the store, the brokers and the targets of a configuration what its rules want to
//! know, and hands it to the reports of [`semel_operate::check`]. Changes nothing, a target least of all, and prints
//! nothing.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//!
//! use semel_check::{Check, Conclusion, Means};
//! use semel_config::Settings;
//! use semel_core::Result;
//! use semel_engine::system::SystemClock;
//! use semel_operate::check::CheckReport;
//!
//! /// Prints the name of each pipeline, and whether something stands in its way.
//! async fn verdicts(settings: &Settings) -> Result<Conclusion> {
//!     let check = Check {
//!         settings,
//!         all: &settings.pipelines,
//!         rate: None,
//!         sample: None,
//!         production: false,
//!         clock: Arc::new(SystemClock::new()),
//!         means: Means::default(),
//!     };
//!     let mut read = |report| {
//!         if let CheckReport::Pipeline(report) = report {
//!             println!("{}: {}", report.pipeline, report.verdict.as_str());
//!         }
//!         Ok(ControlFlow::Continue(()))
//!     };
//!     check.run(&mut read).await
//! }
//! ```
//!
//! A worker that checks itself hands in what it has open, as [`Means`]: its own lock would be in the way of a second
//! opening, and its own address in that of a request.

mod check;
mod claims;
mod inspection;
mod means;
mod own_thread;
mod patience;
mod pauses;
mod producers;
mod production;
mod relays;
mod sample;
mod store_path;
mod targets;

use semel_backends::webhook;
use semel_config::PipelineSettings;
use semel_core::port::transactional::Statements;
use semel_operate::check::{Finding, certificate_refused};
use semel_worker::settings::EffectSettings;

pub use check::{Check, Conclusion, Reader};
pub use means::Means;
pub use patience::Patience;

/// Finds that a worker could not listen with its certificate.
fn certificate(pipeline: &PipelineSettings) -> Vec<Finding> {
    let Some(door) = pipeline.source.door() else {
        return Vec::new();
    };
    let refused = webhook::check_certificate(door).err();
    let found = refused.map(|error| certificate_refused(&error));
    found.into_iter().collect()
}

/// Returns the statements that the database is asked to prepare.
fn statements(pipeline: &PipelineSettings) -> Option<Statements> {
    match &pipeline.effect {
        EffectSettings::Sql(binding) => Some(binding.statements().clone()),
        EffectSettings::File { .. }
        | EffectSettings::Http(..)
        | EffectSettings::Exec(..)
        | EffectSettings::Jsonl(..)
        | EffectSettings::Stdout(_)
        | EffectSettings::Publish(_)
        | EffectSettings::Streamed(_) => None,
    }
}
