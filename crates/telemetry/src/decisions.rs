//! The answers to claims, counted alike for a pipeline and for an operation that clients name.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use semel_core::{Duplicate, Operation};
use semel_engine::event::Event;

use crate::families::{Counters, DECISIONS, Families, labels};
use crate::watched::Shared;

/// The series of one pipeline or operation about its claims: decisions, duplicates, takeovers, lost claims, keys that began
/// again after their record had gone, and outcomes that differ.
#[derive(Debug)]
pub(crate) struct Decisions {
    shared: Arc<Shared>,
    answers: [Counter; DECISIONS.len()],
    duplicates: [Counter; 3],
    takeovers: Counter,
    fenced: Counter,
    /// Records that were found past their window, and those that are likely to have been removed.
    expired_again: [Counter; 2],
    outcome_differs: Counter,
}

/// The answers to claims; the number of each is that of its word in [`DECISIONS`].
#[derive(Clone, Copy)]
enum Answer {
    Granted,
    Replay,
    Busy,
    Conflict,
    Stale,
    Parked,
    TooOld,
}

impl Decisions {
    pub(crate) fn new(families: &Families, shared: &Arc<Shared>, name: &str) -> Self {
        let alone = labels([("pipeline", name)]);
        let of = |family: &Counters, label, value: &str| {
            family.get_or_create_owned(&labels([("pipeline", name), (label, value)]))
        };
        Self {
            shared: Arc::clone(shared),
            answers: DECISIONS.map(|word| of(&families.decisions, "decision", word)),
            duplicates: ["redelivery", "republish", "unknown"]
                .map(|word| of(&families.duplicates, "kind", word)),
            takeovers: families.takeovers.get_or_create_owned(&alone),
            fenced: families.fenced.get_or_create_owned(&alone),
            expired_again: ["exact", "likely"]
                .map(|word| of(&families.expired_again, "certainty", word)),
            outcome_differs: families.outcome_differs.get_or_create_owned(&alone),
        }
    }

    /// Counts an event about a claim, and nothing of any other.
    pub(crate) fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Granted { grant, operation } => {
                self.decided(Answer::Granted, operation);
                self.takeovers.inc_by(grant.takeover.into());
                self.begins(operation, grant.formerly_expired);
            }
            // The claim of a transaction is told with its end.
            Event::EffectEnded {
                with_claim: true,
                operation,
                ..
            } => {
                self.decided(Answer::Granted, operation);
                self.begins(operation, false);
            }
            Event::Completed {
                takeover,
                operation,
            } => {
                self.takeovers.inc_by((*takeover).into());
                self.shared.completed.insert(operation);
            }
            Event::OutcomeDiffers { .. } => _ = self.outcome_differs.inc(),
            Event::Replayed {
                duplicate,
                operation,
            } => {
                self.decided(Answer::Replay, operation);
                match duplicate {
                    Duplicate::Own => {}
                    Duplicate::Redelivery => _ = self.duplicates[0].inc(),
                    Duplicate::Republish => _ = self.duplicates[1].inc(),
                    Duplicate::Unknown => _ = self.duplicates[2].inc(),
                }
            }
            Event::Busy { operation, .. } => self.decided(Answer::Busy, operation),
            Event::Conflicted { operation, .. } => self.decided(Answer::Conflict, operation),
            Event::Stale { operation, .. } => self.decided(Answer::Stale, operation),
            Event::Parked { operation, .. } => self.decided(Answer::Parked, operation),
            Event::TooOld { operation, .. } | Event::LiveOnly { operation, .. } => {
                self.decided(Answer::TooOld, operation);
            }
            Event::Fenced { .. } => _ = self.fenced.inc(),
            _ => {}
        }
    }

    /// Counts an attempt that begins. `is_expired` is true if a record was found past its window.
    fn begins(&self, operation: &Operation, is_expired: bool) {
        let was_completed = self.shared.completed.take(operation);
        if is_expired {
            self.expired_again[0].inc();
        } else if was_completed {
            self.expired_again[1].inc();
        }
    }

    fn decided(&self, answer: Answer, operation: &Operation) {
        self.answers[answer as usize].inc();
        let tenant = operation.scope.tenant();
        if !tenant.is_empty() {
            self.shared.tenants.decided(tenant, answer as usize);
        }
    }
}
