//! The far side of effects. Its ledger only grows: nothing that arrives is ever forgotten or merged.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::seeded::kind::{CALL_LIFE, Kind, LEASE, PROVIDER_WINDOW};
use crate::seeded::plan::Plan;

/// What arrived, and what came of it.
pub(crate) struct Provider {
    recognises: Recognises,
    poison: u64,
    /// Operations that somebody on the way has turned away at least once, by bit.
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

/// What the provider says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It is done, now or before.
    Done,
    /// It never will be.
    Never,
}

impl Provider {
    pub(crate) fn new(kind: Kind, plan: &Plan) -> Self {
        let recognises = match kind {
            // Whoever forgets its records begins anew, whatever the window.
            Kind::Keyed | Kind::Once if plan.amnesia_at.is_some() => {
                Recognises::Keys(Duration::MAX)
            }
            Kind::Keyed | Kind::Once => Recognises::Keys(PROVIDER_WINDOW + LEASE + CALL_LIFE),
            Kind::Gated => Recognises::Versions,
            Kind::Output
            | Kind::Transaction
            | Kind::Repeat
            | Kind::Stream
            | Kind::Park
            | Kind::Streamed
            | Kind::OnceParked => Recognises::Nothing,
        };
        Self {
            recognises,
            poison: plan.poison,
            turned_away: 0,
            arrivals: Vec::new(),
            versions: BTreeMap::new(),
        }
    }

    /// An effect arrives.
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
            self.versions.insert(operation % 2, operation);
        }
        self.arrivals.push(Arrival {
            operation,
            idempotency_key,
            at,
            is_applied: !is_known,
        });
        Said::Done
    }

    /// Whether it refuses this operation for good.
    pub(crate) fn refuses(&self, operation: usize) -> bool {
        self.poison >> operation & 1 == 1
    }

    /// A call of this operation does not get here.
    pub(crate) fn turn_away(&mut self, operation: usize) {
        self.turned_away |= 1 << operation;
    }

    /// Whether a call of this operation may have been given up after one answer.
    pub(crate) fn may_be_given_up(&self, operation: usize) -> bool {
        self.refuses(operation) || self.turned_away >> operation & 1 == 1
    }

    /// Whether what it says to a key speaks for every call with that key.
    pub(crate) fn recognises_keys(&self) -> bool {
        matches!(self.recognises, Recognises::Keys(_))
    }

    /// How often the effect happened.
    pub(crate) fn applied(&self, operation: usize) -> u64 {
        let its = self
            .arrivals
            .iter()
            .filter(|it| it.operation == operation && it.is_applied);
        its.count() as u64
    }

    /// Whether the operation's entity has its version or a later one.
    pub(crate) fn is_superseded(&self, operation: usize) -> bool {
        self.versions
            .get(&(operation % 2))
            .is_some_and(|&version| version >= operation)
    }
}
