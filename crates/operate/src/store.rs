//! Verbs over a whole store: the model of `semel store stats` and `semel store audit`.

mod audit;
mod export;
mod statistics;
mod sweep;

pub use audit::AuditLine;
pub use export::note_export;
pub use statistics::{Holdings, Records, Statistics};
pub use sweep::{SweepEnd, SweepForecast, SweepResult, sweep};
