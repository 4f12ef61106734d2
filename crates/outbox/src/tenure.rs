//! The leases of a relay on its own clock: what it may publish, and when it asks again.

use std::time::Duration;

use semel_core::outbox::PartitionLease;

/// The partitions that a process holds, as of the time at which it asked for them. The database grants a lease later
/// than it was asked for, so that a lease ends no earlier than this says.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) leases: Vec<PartitionLease>,
    asked_at: Option<Duration>,
    /// The time at which the partitions were last divided, which a renewal is not.
    balanced_at: Option<Duration>,
    lease: Duration,
}

impl Tenure {
    /// Returns that of a process that holds nothing yet.
    pub(crate) const fn of_none(lease: Duration) -> Self {
        Self {
            leases: Vec::new(),
            asked_at: None,
            balanced_at: None,
            lease,
        }
    }

    /// Takes the answer to what was asked at this time; returns the number of leases that are lost.
    pub(crate) fn renewed(&mut self, asked_at: Duration, leases: Vec<PartitionLease>) -> usize {
        let lost = self.leases.iter().filter(|it| !leases.contains(it)).count();
        self.asked_at = Some(asked_at);
        self.leases = leases;
        lost
    }

    /// Takes the answer to a division of the partitions that was asked for at this time; returns the number of leases
    /// that were lost before. What is missing otherwise was given back.
    pub(crate) fn balanced(&mut self, asked_at: Duration, leases: Vec<PartitionLease>) -> usize {
        let is_over = |before: Duration| asked_at.saturating_sub(before) >= self.lease;
        let is_over = self.asked_at.is_some_and(is_over);
        let is_lost = |it: &&PartitionLease| {
            let mut leases = leases.iter();
            let now = leases.find(|now| now.partition == it.partition);
            now.map_or(is_over, |now| now.token != it.token)
        };
        let lost = self.leases.iter().filter(is_lost).count();
        self.balanced_at = Some(asked_at);
        self.renewed(asked_at, leases);
        lost
    }

    /// Returns the time until the partitions are to be divided again: a third of a lease, however often it is renewed
    /// meanwhile.
    pub(crate) fn balance_in(&self, now: Duration) -> Duration {
        let asked_at = if semel_core::planted("X03") {
            self.asked_at
        } else {
            self.balanced_at
        };
        let due = asked_at.map(|asked_at| asked_at + self.lease / 3);
        due.map_or(Duration::ZERO, |due| due.saturating_sub(now))
    }

    /// Tells whether the partitions were divided at this time or later.
    pub(crate) fn is_balanced_since(&self, time: Duration) -> bool {
        self.balanced_at.is_some_and(|at| at >= time)
    }

    /// Returns the time until the leases are to be renewed: a third of their length, so that one renewal may fail.
    pub(crate) fn renewal_in(&self, now: Duration) -> Duration {
        let due = self.asked_at.map(|asked_at| asked_at + self.lease / 3);
        due.map_or(Duration::ZERO, |due| due.saturating_sub(now))
    }

    /// Returns the lease under which a message of this partition may be published now: none in the last third, so that
    /// a process that was stopped for long fences itself.
    pub(crate) fn lease_of(&self, partition: u16, now: Duration) -> Option<PartitionLease> {
        let asked_at = self.asked_at?;
        if now.saturating_sub(asked_at) >= self.lease * 2 / 3 && !semel_core::planted("X01") {
            return None;
        }
        let mut leases = self.leases.iter().copied();
        leases.find(|it| it.partition == partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_renewed_after_a_third_and_not_used_in_the_last() {
        let seconds = Duration::from_secs;
        let lease = PartitionLease {
            partition: 3,
            token: 7,
        };
        let mut tenure = Tenure::of_none(seconds(30));
        assert_eq!(tenure.renewal_in(seconds(5)), Duration::ZERO);
        assert_eq!(tenure.lease_of(3, seconds(5)), None);
        tenure.renewed(seconds(5), vec![lease]);
        assert_eq!(tenure.renewal_in(seconds(6)), seconds(9));
        assert_eq!(tenure.renewal_in(seconds(60)), Duration::ZERO);
        assert_eq!(tenure.lease_of(3, seconds(24)), Some(lease));
        assert_eq!(tenure.lease_of(3, seconds(25)), None);
        assert_eq!(tenure.lease_of(4, seconds(6)), None);
    }

    #[test]
    fn what_is_lost_is_told_from_what_is_given_back() {
        let seconds = Duration::from_secs;
        let leases = |each: &[(u16, i64)]| {
            let lease = |&(partition, token)| PartitionLease { partition, token };
            each.iter().map(lease).collect::<Vec<_>>()
        };
        let mut tenure = Tenure::of_none(seconds(30));
        assert_eq!(
            tenure.balanced(seconds(5), leases(&[(1, 1), (2, 1), (3, 1)])),
            0
        );
        assert_eq!(tenure.balanced(seconds(15), leases(&[(1, 1), (2, 1)])), 0);
        assert_eq!(tenure.renewed(seconds(25), leases(&[(1, 1), (2, 1)])), 0);
        assert_eq!(tenure.renewed(seconds(35), leases(&[(1, 1)])), 1);
        // Stopped beyond its lease: taken again by itself, or by another.
        assert_eq!(tenure.balanced(seconds(65), leases(&[(1, 2)])), 1);
        assert_eq!(tenure.balanced(seconds(95), leases(&[])), 1);
        assert_eq!(tenure.balanced(seconds(125), leases(&[(1, 4)])), 0);
    }

    #[test]
    fn a_renewal_does_not_put_off_the_next_division() {
        let seconds = Duration::from_secs;
        let mut tenure = Tenure::of_none(seconds(30));
        assert_eq!(tenure.balance_in(seconds(5)), Duration::ZERO);
        tenure.balanced(seconds(5), Vec::new());
        tenure.renewed(seconds(12), Vec::new());
        assert_eq!(tenure.balance_in(seconds(14)), seconds(1));
        assert_eq!(tenure.balance_in(seconds(16)), Duration::ZERO);
        assert_eq!(tenure.renewal_in(seconds(16)), seconds(6));
    }
}
