//! The means of the process that checks.

use std::sync::Arc;

use semel_core::AnyStore;
use semel_operate::check::Scrape;

use crate::patience::Patience;

/// The means of the process that checks. By default it has nothing open, and waits as long as drivers do.
#[derive(Debug)]
pub struct Means {
    /// The store as this process has it open; none: it is opened to be looked at.
    pub store: Option<AnyStore>,
    /// The metrics of this process; none: they are asked for at their address.
    pub scrape: Option<Scrape>,
    /// The longest waits.
    pub patience: Patience,
    /// The most producers of the store that are gone through; none: all of them.
    pub most_producers: Option<usize>,
    /// The number of pipelines, and of relays, that are looked at at once.
    pub at_once: usize,
    /// Has another owner as long as something goes on that was asked and is no longer waited for.
    pub unfinished: Arc<()>,
}

impl Default for Means {
    fn default() -> Self {
        Self {
            store: None,
            scrape: None,
            patience: Patience::default(),
            most_producers: None,
            at_once: 1,
            unfinished: Arc::default(),
        }
    }
}
