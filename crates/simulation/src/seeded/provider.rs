//! The far side of effects. Its ledger only grows: no arrival is ever forgotten or merged.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::seeded::kind::{CALL_LIFE, Kind, LEASE, PROVIDER_WINDOW};
use crate::seeded::plan::Plan;

/// The arrivals, and their results.
pub(crate) struct Provider {
    recognises: Recognises,
    poison: u64,
    /// Operations that were refused on the way at least once, by bit.
    turned_away: u64,
    arrivals: Vec<Arrival>,
    /// The highest version of each entity.
    versions: BTreeMap<usize, usize>,
}

enum Recognises {
    Nothing,
    /// Idempotency keys, for this long after their first arrival.
    Keys(Duration),
    Versions,
}

struct Arrival {
    operation: usize,
    idempotency_key: String,
    at: Duration,
    is_applied: bool,
}

/// The provider's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The effect is applied, now or before.
    Done,
    /// The effect never will be.
    Never,
}

impl Provider {
    pub(crate) fn new(kind: Kind, plan: &Plan) -> Self {
        let recognises = match kind {
            // A store that forgets its records begins anew, whatever the window.
            Kind::Keyed | Kind::Once | Kind::Http if plan.amnesia_at.is_some() => {
                Recognises::Keys(Duration::MAX)
            }
            Kind::Keyed | Kind::Once | Kind::Http => {
                Recognises::Keys(PROVIDER_WINDOW + LEASE + CALL_LIFE)
            }
            Kind::Gated => Recognises::Versions,
            Kind::Output
            | Kind::Transaction
            | Kind::Repeat
            | Kind::Stream
            | Kind::Park
            | Kind::Streamed
            | Kind::OnceParked
            | Kind::HttpParked
            | Kind::Claims => Recognises::Nothing,
        };
        Self {
            recognises,
            poison: plan.poison,
            turned_away: 0,
            arrivals: Vec::new(),
            versions: BTreeMap::new(),
        }
    }

    /// Notes that an effect arrives, and returns the answer.
    pub(crate) fn arrive(
        &mut self,
        operation: usize,
        idempotency_key: String,
        at: Duration,
    ) -> Said {
        if self.refuses(operation) {
            return Said::Never;
        }
        let is_known = match self.recognises {
            Recognises::Nothing => false,
            Recognises::Keys(window) => self.arrivals.iter().any(|it| {
                it.is_applied
                    && it.idempotency_key == idempotency_key
                    && at.saturating_sub(it.at) < window
            }),
            Recognises::Versions => self.is_superseded(operation),
        };
        if !is_known {
            let version = self.versions.entry(operation % 2).or_default();
            *version = operation.max(*version);
        }
        self.arrivals.push(Arrival {
            operation,
            idempotency_key,
            at,
            is_applied: !is_known,
        });
        Said::Done
    }

    /// Returns whether it refuses this operation for good.
    pub(crate) fn refuses(&self, operation: usize) -> bool {
        self.poison >> operation & 1 == 1
    }

    /// Notes that a call of this operation was refused on the way.
    pub(crate) fn turn_away(&mut self, operation: usize) {
        self.turned_away |= 1 << operation;
    }

    /// Returns whether an operation may have been given up after one answer to its calls.
    pub(crate) fn may_be_given_up(&self, operation: usize) -> bool {
        self.refuses(operation) || self.turned_away >> operation & 1 == 1
    }

    /// Returns whether its answer to a key speaks for every call with that key.
    pub(crate) fn recognises_keys(&self) -> bool {
        matches!(self.recognises, Recognises::Keys(_))
    }

    /// The number of times that the effect happened.
    pub(crate) fn applied(&self, operation: usize) -> u64 {
        let its = self
            .arrivals
            .iter()
            .filter(|it| it.operation == operation && it.is_applied);
        its.count() as u64
    }

    /// Returns whether the operation's entity has its version or a later one.
    pub(crate) fn is_superseded(&self, operation: usize) -> bool {
        self.versions
            .get(&(operation % 2))
            .is_some_and(|&version| version >= operation)
    }
}
