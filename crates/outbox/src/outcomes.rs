//! The outcomes of a batch: what is recorded of it, once the sink has answered.

use semel_core::Error;
use semel_core::outbox::{OutboxId, Outgoing, PartitionLease};
use semel_core::port::outbox::{MOST_BATCH_BYTES, Unsent};

use crate::MOST_UNRECORDED;
use crate::absence::{LONGEST_WISH, wish};
use crate::settings::Settings;
use crate::slow::Slow;
use crate::verdict::one_line;

/// The messages of a batch whose fate is known.
#[derive(Default)]
pub(crate) struct Fates {
    pub(crate) sent: Vec<OutboxId>,
    /// Those that no try would publish.
    poison: Vec<Unsent>,
    failures: Vec<Failure>,
    /// True if there may be more behind the batch than it could hold.
    is_full: bool,
}

/// A message that the sink did not take, perhaps for the moment.
struct Failure {
    id: OutboxId,
    lease: PartitionLease,
    attempts: u32,
    error: Error,
    is_outage: bool,
}

/// The decisions on a batch.
pub(crate) struct Settled {
    pub(crate) sent: Vec<OutboxId>,
    pub(crate) unsent: Vec<Unsent>,
    /// The reason why the sink took nothing at all; none if it took something, or was asked for nothing.
    pub(crate) away: Option<Error>,
}

impl Fates {
    /// Returns those of a batch that is to be published.
    pub(crate) fn of(pending: &[Outgoing]) -> Self {
        Self {
            is_full: is_full(pending),
            ..Self::default()
        }
    }

    pub(crate) fn give_up(&mut self, message: &Outgoing, lease: PartitionLease, error: Box<str>) {
        self.poison.push(Unsent {
            id: message.id,
            lease,
            error,
            wait: None,
            counted: true,
        });
    }

    pub(crate) fn fail(
        &mut self,
        message: &Outgoing,
        lease: PartitionLease,
        error: Error,
        is_outage: bool,
    ) {
        self.failures.push(Failure {
            id: message.id,
            lease,
            attempts: message.attempts,
            error,
            is_outage,
        });
    }

    /// Tells whether a message met an outage: the rest of the batch is not tried then.
    pub(crate) fn has_outage(&self) -> bool {
        self.failures.iter().any(|it| it.is_outage)
    }

    /// Decides what becomes of those that the sink did not take.
    ///
    /// # Guarantee   an attempt is counted only where the sink took another message of the batch, and never for an
    /// outage: while it takes nothing, nothing becomes dead
    pub(crate) fn settled(self, rules: &Settings, slow: &mut Slow) -> Settled {
        slow.forget(&self.sent);
        let is_taking = !self.sent.is_empty();
        let mut unsent = self.poison;
        let mut away = None;
        for failure in self.failures {
            let wish = wish(&failure.error);
            let failed = failure.attempts.saturating_add(1);
            let counted = is_taking && !failure.is_outage || semel_core::planted("X04");
            // Where the sink takes nothing, messages stay as they are, unless they kept others from being tried.
            if counted || is_taking || self.is_full || wish > LONGEST_WISH {
                let wait = if counted {
                    (failed < rules.attempts.get()).then(|| rules.backoff.after(failed))
                } else {
                    let slow = slow.again(failure.id);
                    Some(rules.backoff.after(failed).max(slow).max(wish))
                };
                unsent.push(Unsent {
                    id: failure.id,
                    lease: failure.lease,
                    error: one_line(&failure.error),
                    wait,
                    counted,
                });
            }
            if !is_taking {
                away.get_or_insert(failure.error);
            }
        }
        Settled {
            sent: self.sent,
            unsent,
            away,
        }
    }
}

/// Tells whether there may be more than these.
fn is_full(pending: &[Outgoing]) -> bool {
    let bytes: usize = pending.iter().map(|it| it.payload.len()).sum();
    pending.len() >= usize::try_from(MOST_UNRECORDED).unwrap_or(usize::MAX)
        || i64::try_from(bytes).is_ok_and(|bytes| bytes >= MOST_BATCH_BYTES)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use semel_core::{Backoff, ErrorKind};

    use super::*;

    /// Returns what is recorded of three messages: one that failed twice before, one that met an outage, and one that
    /// asks for an hour; each is its number, its wait in seconds, and whether the try counts.
    fn unsent(sent: bool, is_full: bool) -> (Vec<(u128, Option<u64>, bool)>, bool) {
        let seconds = Duration::from_secs;
        let rules = Settings {
            lease: seconds(30),
            attempts: NonZeroU32::MIN.saturating_add(2),
            backoff: Backoff {
                first: seconds(2),
                most: seconds(60),
            },
            keep: None,
            patience: seconds(10),
        };
        let lease = PartitionLease {
            partition: 0,
            token: 1,
        };
        let message = |id, attempts| Outgoing {
            id: OutboxId::from_u128(id),
            partition: 0,
            place: 0,
            order_key: None,
            headers: Ok(Vec::new()),
            payload: Vec::new().into(),
            attempts,
        };
        let mut fates = Fates {
            is_full,
            ..Fates::default()
        };
        if sent {
            fates.sent.push(OutboxId::from_u128(9));
        }
        let error = |kind| Error::new(kind, "no");
        fates.fail(&message(1, 2), lease, error(ErrorKind::Internal), false);
        fates.fail(&message(2, 0), lease, error(ErrorKind::Unavailable), true);
        let hour = error(ErrorKind::Throttled).retry_after(seconds(3_600));
        fates.fail(&message(3, 0), lease, hour, true);
        let settled = fates.settled(&rules, &mut Slow::default());
        let of = |it: &Unsent| {
            let wait = it.wait.map(|wait| wait.as_secs());
            (it.id.as_u128(), wait, it.counted)
        };
        let unsent = settled.unsent.iter().map(of).collect();
        (unsent, settled.away.is_some())
    }

    #[test]
    fn a_try_counts_if_the_sink_took_another_message_and_what_is_away_makes_room() {
        let hour = (3, Some(3_600), false);
        let taking = vec![(1, None, true), (2, Some(2), false), hour];
        assert_eq!(unsent(true, false), (taking, false));
        assert_eq!(unsent(false, false), (vec![hour], true));
        let full = vec![(1, Some(8), false), (2, Some(2), false), hour];
        assert_eq!(unsent(false, true), (full, true));
    }
}
