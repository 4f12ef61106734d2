//! The looks of `semel check`: asks the store, the brokers and the targets of a configuration what its rules want to
//! know, and hands it to the reports of [`semel_operate::check`]. Changes nothing, a target least of all, and prints
//! nothing.
//!
//! ```
//! use semel_config::Settings;
//! use semel_core::Error;
//! use semel_operate::check::Severity;
//!
//! async fn worst(settings: &Settings) -> (Severity, Option<Error>) {
//!     let (mut worst, mut away) = (Severity::Ok, None);
//!     for relay in &settings.relays {
//!         let (report, failure) = semel_check::relay(settings, relay).await;
//!         worst = worst.max(report.verdict);
//!         away = away.or(failure);
//!     }
//!     (worst, away)
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
use semel_operate::check::{Finding, certificate_refused};
use semel_worker::settings::EffectSettings;

pub use claims::claims;
pub use pauses::pauses;
pub use producers::StoreProducers;
pub use production::ProductionLook;
pub use relays::relay;
pub use sample::sample;
pub use targets::Targets;

/// Finds that a worker could not listen with its certificate.
pub fn certificate(pipeline: &PipelineSettings) -> Vec<Finding> {
    let Some(door) = pipeline.source.door() else {
        return Vec::new();
    };
    let refused = webhook::check_certificate(door).err();
    let found = refused.map(|error| certificate_refused(&error));
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
