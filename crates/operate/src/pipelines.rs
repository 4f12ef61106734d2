//! Orders about pipelines and relays as a whole: one is paused or drained, and stays so until it is resumed. Pipelines and
//! relays have one namespace.
//!
//! The store keeps such an order as a record that is held, so that every worker on it finds the order, restarted or not.

mod listing;
mod order;
mod pause_record;

pub use listing::PipelineLine;
pub use order::{PipelineChange, PipelineOrder, PlannedPipeline};
pub use pause_record::{OrderedPause, PauseKind, ordered_pauses};
