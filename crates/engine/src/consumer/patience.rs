//! The time for which a shutdown still waits for work under way.

use std::time::Duration;

use semel_core::Store;

use super::desk::Desk;

/// The start of a shutdown's wait: the first time that the runner asks during a shutdown.
#[derive(Default)]
pub(super) struct Patience {
    since: Option<Duration>,
}

impl Patience {
    /// Returns the end of the wait; nothing while there is no shutdown.
    pub(super) fn ends<S: Store + Clone>(&mut self, desk: &Desk<S>) -> Option<Duration> {
        if !desk.outstanding.is_stopping() {
            return None;
        }
        let since = *self.since.get_or_insert_with(|| desk.now());
        Some(since.saturating_add(desk.context.shutdown.patience))
    }

    pub(super) fn is_over<S: Store + Clone>(&mut self, desk: &Desk<S>) -> bool {
        self.ends(desk).is_some_and(|end| end <= desk.now())
    }
}
