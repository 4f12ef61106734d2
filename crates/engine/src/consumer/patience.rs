//! The time for which a shutdown still waits for work under way.

use std::time::Duration;

use super::context::Context;
use super::outstanding::Outstanding;

/// The start of the wait where the source has failed: the first time that the runner asks during it. That of a stop is the
/// same for all parts of a run.
#[derive(Default)]
pub(super) struct Patience {
    failing_since: Option<Duration>,
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
        context.patience_ends().or_else(|| {
            let since = *self.failing_since.get_or_insert_with(|| context.now());
            Some(since.saturating_add(context.shutdown.patience))
        })
    }

    pub(super) fn is_over(&mut self, context: &Context, outstanding: &Outstanding) -> bool {
        self.ends(context, outstanding)
            .is_some_and(|end| end <= context.now())
    }
}

/// The time that what is reported has at least, once a stop has run out of patience: what was broken off then is reported
/// as well.
pub(super) const LAST_REPORTS: Duration = Duration::from_secs(5);
