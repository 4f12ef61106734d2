//! Verbs over a whole store: the model of `semel store stats` and `semel store audit`.

mod audit;
mod statistics;

pub use audit::AuditLine;
pub use statistics::{Holdings, Records, Statistics};
