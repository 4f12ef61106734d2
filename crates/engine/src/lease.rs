//! Leases in the view of their holder: the time until which an effect may begin, and the time of a renewal.

use std::time::Duration;

use semel_core::{Claim, Renewal, Renewed};

use crate::event::Event;

/// A lease on its holder's own clock. The store grants a lease later than its holder asked for it, so the lease
/// ends no earlier than this says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    /// The monotonic time at which it was asked for.
    pub(crate) asked_at: Duration,
    /// Its length.
    pub(crate) term: Duration,
}

impl Lease {
    /// Tells whether an effect may begin under the lease: a worker that was stopped for two thirds of its lease
    /// fences itself.
    pub(crate) fn may_begin(self, now: Duration) -> bool {
        now.saturating_sub(self.asked_at) < self.term * 2 / 3
    }

    /// Returns the time of its renewal.
    pub(crate) fn renew_at(self) -> Duration {
        self.asked_at + renewal_interval(self.term)
    }
}

/// Returns the request of a claim for this much more time.
pub(crate) fn renewal(claim: &Claim, lease: Duration) -> Renewal {
    Renewal {
        operation: claim.operation.clone(),
        claim_id: claim.claim_id,
        lease,
    }
}

/// Returns the event of these answers to renewals.
pub(crate) fn renewed_event(answers: &[Renewed]) -> Event<'static> {
    let extended = answers.iter().filter(|it| matches!(it, Renewed::Until(_)));
    let lost = answers
        .iter()
        .filter(|it| matches!(it, Renewed::Lost { .. }));
    Event::Renewed {
        count: extended.count(),
        lost: lost.count(),
    }
}

/// Returns the time from one renewal of a lease to the next: a third of it, so that one may fail.
pub(crate) fn renewal_interval(term: Duration) -> Duration {
    term / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED_AT: Duration = Duration::from_secs(1_000);

    fn lease(term: Duration) -> Lease {
        Lease {
            asked_at: ASKED_AT,
            term,
        }
    }

    /// Returns the time `nanos` nanoseconds after the lease was asked for.
    fn after(nanos: u64) -> Duration {
        ASKED_AT + Duration::from_nanos(nanos)
    }

    #[test]
    fn an_effect_begins_until_two_thirds_of_its_lease_have_passed() {
        let lease = lease(Duration::from_secs(30));
        let border = 20_000_000_000;
        let begins = [0, border - 1, border, border + 1].map(|at| lease.may_begin(after(at)));
        assert_eq!(begins, [true, true, false, false]);
        assert!(!lease.may_begin(Duration::MAX));
        // A reading of the clock from before the lease was asked for.
        assert!(lease.may_begin(Duration::ZERO));
    }

    #[test]
    fn a_lease_that_has_no_whole_thirds_is_the_shorter_for_that() {
        let lease = lease(Duration::from_nanos(100));
        let begins = [65, 66, 67].map(|at| lease.may_begin(after(at)));
        assert_eq!(begins, [true, false, false]);
        assert_eq!(lease.renew_at(), after(33));
    }

    #[test]
    fn a_lease_is_renewed_at_a_third_of_it_while_effects_may_begin() {
        let lease = lease(Duration::from_nanos(300));
        assert_eq!(lease.renew_at(), after(100));
        assert!(lease.may_begin(lease.renew_at()));
        // At the time of the next renewal no effect may begin any more, but the lease still runs: so one may
        // fail.
        let next = lease.renew_at() + renewal_interval(lease.term);
        assert!(!lease.may_begin(next) && next < ASKED_AT + lease.term);
    }

    #[test]
    fn nothing_begins_under_a_lease_of_no_time() {
        let lease = lease(Duration::ZERO);
        assert!(!lease.may_begin(ASKED_AT));
        assert_eq!(lease.renew_at(), ASKED_AT);
    }
}
