//! The time for which a shutdown still waits for work under way.

use std::time::Duration;

use super::context::Context;
use super::outstanding::Outstanding;

/// The start of a shutdown's wait: the first time that the runner asks during a shutdown.
#[derive(Default)]
pub(super) struct Patience {
    since: Option<Duration>,
}

impl Patience {
    /// Returns the end of the wait; nothing while there is no shutdown.
    pub(super) fn ends(
        &mut self,
        context: &Context,
        outstanding: &Outstanding,
    ) -> Option<Duration> {
        if !outstanding.is_stopping() {
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
