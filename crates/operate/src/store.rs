//! Verbs over a whole store: the model of `semel store stats` and `semel store audit`.

mod audit;
mod statistics;
mod sweep;

pub use audit::AuditLine;
pub use statistics::{Holdings, Records, Statistics};
pub use sweep::{SweepEnd, SweepForecast, SweepResult, sweep};
