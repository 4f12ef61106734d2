//! Drills: each plays one bad day with a real worker on scratch data, and compares what happened with the promise.
//!
//! [`play`] starts the worker's own program as another process, with a configuration of its own in an empty folder. Its
//! messages come from the drill, and its effect calls the drill, which keeps the books: how often each operation was
//! applied. The store, the broker and the targets of a [`Subject`]'s configuration are not touched. A drill takes from
//! them the settings that decide how such a day ends.
//!
//! A drill ends with a [`Report`]: what happened, what had to hold, which alerts ask for what the worker showed, and
//! what they say.

mod alerts;
mod drill;
mod metrics;
mod provider;
mod report;
mod scene;
mod subject;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;

use semel_core::Clock;

pub use alerts::{Alert, Alerts};
pub use drill::{Drill, play};
pub use report::{AlertReport, Check, Report};
pub use scene::mend;
pub use subject::Subject;

/// The shell commands of a drill; they may hold secrets.
#[derive(Clone)]
pub struct Commands {
    /// Breaks the store.
    pub break_store: String,
    /// Mends it.
    pub mend_store: String,
}

/// The parts of a drill that its program hands in.
#[derive(Clone)]
pub struct Setup {
    /// The program whose verb `run` is a worker.
    pub program: PathBuf,
    /// An empty folder for everything that the drill writes.
    pub dir: PathBuf,
    /// The url of a store that is there for drills alone; an embedded one in the folder if none is named.
    pub store: Option<String>,
    /// The shell commands that break the store and mend it.
    pub commands: Option<Commands>,
    /// The pipeline that the drill is about.
    pub subject: Subject,
    /// The alerts that are to tell somebody.
    pub alerts: Alerts,
    /// The clock by which messages are born.
    pub clock: Arc<dyn Clock>,
}
