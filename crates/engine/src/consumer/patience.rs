//! The time for which a shutdown still waits for work under way.

use std::time::Duration;

use super::context::Context;
use super::outstanding::Outstanding;

/// The start of a stop's wait: the first time that the runner asks during it.
#[derive(Default)]
pub(super) struct Patience {
    since: Option<Duration>,
}

impl Patience {
    /// Returns the end of the wait; nothing while there is no stop. What runs when a run is recalled has no limit.
    pub(super) fn ends(
        &mut self,
        context: &Context,
        outstanding: &Outstanding,
    ) -> Option<Duration> {
        if !outstanding.is_pressed() {
            return None;
        }
        let since = *self.since.get_or_insert_with(|| context.now());
        Some(since.saturating_add(context.shutdown.patience))
    }

    pub(super) fn is_over(&mut self, context: &Context, outstanding: &Outstanding) -> bool {
        self.ends(context, outstanding)
            .is_some_and(|end| end <= context.now())
    }
}
