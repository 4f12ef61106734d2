//! The looks of `semel check`: asks the store, the brokers and the targets of a configuration what its rules want to
//! know, and hands it to the reports of [`semel_operate::check`]. Changes nothing, calls no target, and prints nothing.
//!
//! ```
//! use semel_config::Settings;
//! use semel_core::Error;
//! use semel_operate::check::{RelayReport, Severity};
//!
//! async fn worst(settings: &Settings) -> (Severity, Option<Error>) {
//!     let (reports, away) = semel_check::relays(settings).await;
//!     let verdicts = reports.iter().map(|report: &RelayReport| report.verdict);
//!     (verdicts.max().unwrap_or(Severity::Ok), away)
//! }
//! ```

mod claims;
mod pauses;
mod producers;
mod production;
mod relays;
mod sample;
mod targets;

use semel_backends::webhook;
use semel_config::PipelineSettings;
use semel_core::port::transactional::Statements;
use semel_operate::check::{Finding, fail};
use semel_worker::settings::EffectSettings;

pub use claims::claims;
pub use pauses::pauses;
pub use producers::waiting_producers;
pub use production::ProductionLook;
pub use relays::relays;
pub use sample::sample;
pub use targets::Targets;

/// Finds that a worker could not listen with its certificate.
pub fn certificate(pipeline: &PipelineSettings) -> Vec<Finding> {
    let Some(door) = pipeline.source.door() else {
        return Vec::new();
    };
    let refused = webhook::check_certificate(door).err();
    let advice = "correct `source.tls`; check as the user that runs the worker";
    let found = refused.map(|error| fail("source-unavailable", error.to_string(), advice));
    found.into_iter().collect()
}

/// Returns the statements that the database is asked to prepare.
pub fn statements(pipeline: &PipelineSettings) -> Option<Statements> {
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
