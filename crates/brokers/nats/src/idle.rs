//! Timing while no message comes: when to look at the deliveries that others of the consumer have in hand, and when to
//! report them.

use std::time::Duration;

use tokio::time::Instant;

/// Time of the next look, and of the next report.
#[derive(Debug)]
pub(crate) struct Idle {
    pub(crate) look_at: Instant,
    tell_at: Instant,
}

/// Deliveries that others have in hand, and the longest time without a report on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    pub(crate) deliveries: u64,
    pub(crate) within: Duration,
}

impl Idle {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            look_at: now + QUIET,
            tell_at: now,
        }
    }

    /// Notes that something came.
    pub(crate) fn ends(&mut self) {
        self.look_at = Instant::now() + QUIET;
    }

    /// Returns the report after a look: `pending` deliveries are out, `ours` of them here, and the server takes them
    /// back after `within`.
    pub(crate) fn looked(
        &mut self,
        pending: usize,
        ours: usize,
        within: Duration,
    ) -> Option<Elsewhere> {
        let now = Instant::now();
        self.look_at = now + within.max(QUIET);
        let deliveries = u64::try_from(pending.saturating_sub(ours)).unwrap_or(u64::MAX);
        if deliveries == 0 || now < self.tell_at {
            return None;
        }
        self.tell_at = now + TELL_EVERY;
        Some(Elsewhere { deliveries, within })
    }
}

/// Quiet time before the first look.
const QUIET: Duration = Duration::from_secs(1);
/// Pause between two reports.
const TELL_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_others_have_is_told_once_a_minute_at_the_most() {
        let wait = Duration::from_secs(10);
        let mut idle = Idle::new();
        assert_eq!(idle.looked(3, 3, wait), None, "all are our own");
        let four = Some(Elsewhere {
            deliveries: 4,
            within: wait,
        });
        assert_eq!(idle.looked(7, 3, wait), four);
        assert_eq!(idle.look_at, Instant::now() + wait, "not all the time");
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(idle.looked(7, 3, wait), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(idle.looked(7, 3, wait), four);
        idle.ends();
        assert_eq!(idle.look_at, Instant::now() + QUIET);
    }
}
