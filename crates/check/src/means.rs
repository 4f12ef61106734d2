//! The means of the process that checks.

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
    /// The longest wait for one answer.
    pub patience: Patience,
    /// The number of pipelines, and of relays, that are looked at at once.
    pub at_once: usize,
}

impl Default for Means {
    fn default() -> Self {
        Self {
            store: None,
            scrape: None,
            patience: Patience::default(),
            at_once: 1,
        }
    }
}
