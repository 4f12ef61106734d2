//! Settlements and renewals: only the claim that owns the operation changes it.

use std::time::Duration;

use super::{Change, Decision};
use crate::attempt::AttemptEnd;
use crate::entity::EntityRecord;
use crate::error::Certainty;
use crate::planted;
use crate::record::{Record, Recovery, State, StateKind};
use crate::settle::{Renewal, Renewed, Settled, Settlement, Step};
use crate::time::Timestamp;

/// Decides a settlement.
///
/// `entity` is the record of the entity that the stored record's gate names, if it has one.
///
/// # Guarantee   CLM-3, OUT-1, DBT-2, DBT-5, DBT-6, ATT-1, ATT-2, WIN-4, VER-1, VER-2
pub fn settle(
    record: Option<&Record>,
    entity: Option<&EntityRecord>,
    settlement: &Settlement,
    now: Timestamp,
) -> Decision<Settled> {
    let record = record.filter(|record| !record.is_forgotten(now));
    let fenced = Decision::keep(Settled::Fenced {
        found: record.map(|record| record.state.kind()),
    });
    let is_theirs =
        |record: &&Record| record.claim_id == settlement.claim_id || is_believed(&settlement.step);
    let Some(record) = record.filter(is_theirs) else {
        return fenced;
    };
    let applies = match (&settlement.step, record.state) {
        (_, State::Claimed { .. } | State::Started { .. })
        // Late evidence of the claim that is in doubt, for every attempt. DBT-2, DBT-6.
        | (Step::Complete { .. } | Step::Fail { decisive: true, .. }, State::InDoubt { .. }) => true,
        (Step::Fail { .. }, State::InDoubt { .. }) if planted("M42") => true,
        // The answer to the same report was lost: give it again. OUT-1.
        (Step::Complete { .. }, State::Completed { .. })
        | (Step::Fail { .. } | Step::Release { .. }, State::Dead { .. } | State::InDoubt { .. })
        | (Step::Release { .. }, State::Released { .. }) => {
            return Decision::keep(Settled::Now(record.state.kind()));
        }
        (
            Step::Start { .. },
            State::Released { .. }
            | State::Completed { .. }
            | State::Dead { .. }
            | State::InDoubt { .. },
        )
        | (Step::Complete { .. }, State::Released { .. } | State::Dead { .. })
        | (Step::Release { .. }, State::Completed { .. })
        | (Step::Fail { .. }, State::Released { .. } | State::Completed { .. }) => false,
    };
    // An effect must not begin while its entity has a newer claim (VER-2), nor with a key that its provider
    // has forgotten (DBT-3). That one has begun is told in any case.
    let starts = matches!(
        settlement.step,
        Step::Start {
            has_begun: false,
            ..
        }
    ) || planted("M43") && matches!(settlement.step, Step::Start { .. });
    if !applies || (starts && (has_lost_entity(record, entity) || record.must_not_begin(now))) {
        return fenced;
    }
    let after = stepped(record.clone(), &settlement.step, now);
    let state = after.state.kind();
    let entity = entity_after(&after, entity, state);
    Decision {
        answer: Settled::Now(state),
        change: Change::Put(after),
        entity,
    }
}

/// Returns whether a step is accepted from any claim at all; only planted bugs do that.
fn is_believed(step: &Step) -> bool {
    match step {
        Step::Start { .. } => planted("M11"),
        Step::Complete { .. } => planted("M03"),
        Step::Release { .. } => planted("M12"),
        Step::Fail { .. } => false,
    }
}

/// Decides a renewal. `entity` as in [`settle`].
///
/// # Guarantee   CLM-5, VER-2
pub fn renew(
    record: Option<&Record>,
    entity: Option<&EntityRecord>,
    renewal: &Renewal,
    now: Timestamp,
) -> Decision<Renewed> {
    let record = record.filter(|record| !record.is_forgotten(now));
    let until = now.plus(renewal.lease);
    let found = record.map(|record| record.state.kind());
    let owned = record.filter(|record| {
        let is_theirs = record.claim_id == renewal.claim_id || planted("M13");
        is_theirs && !has_lost_entity(record, entity)
    });
    let state = match owned.map(|record| record.state) {
        Some(State::Claimed { .. }) => State::Claimed { lease_until: until },
        Some(State::Started { recovery, .. }) => State::Started {
            lease_until: until,
            recovery,
        },
        Some(
            State::Released { .. }
            | State::Completed { .. }
            | State::Dead { .. }
            | State::InDoubt { .. },
        )
        | None => return Decision::keep(Renewed::Lost { found }),
    };
    let change = owned.map_or(Change::Keep, |record| {
        Change::Put(Record {
            state,
            ..record.clone()
        })
    });
    let gate = owned.and_then(|record| record.gate.as_ref());
    let entity = entity
        .filter(|_| gate.is_some())
        .map(|entity| EntityRecord {
            holder: Some((renewal.claim_id, until)),
            ..entity.clone()
        });
    Decision {
        answer: Renewed::Until(until),
        change,
        entity,
    }
}

/// The record after a step of its own claim.
fn stepped(mut record: Record, step: &Step, now: Timestamp) -> Record {
    match step {
        Step::Start { recovery, .. } => {
            let (State::Claimed { lease_until } | State::Started { lease_until, .. }) =
                record.state
            else {
                return record;
            };
            record.first_started_at.get_or_insert(now);
            record.state = State::Started {
                lease_until,
                recovery: *recovery,
            };
        }
        Step::Complete { outcome, window } => {
            record.state = State::Completed {
                at: now,
                window: *window,
            };
            record.outcome = Some(outcome.clone());
            record.last_error = None;
            record.doubt = None;
        }
        Step::Release {
            error,
            certainty,
            after,
            counted,
            limits,
            window,
        } => {
            let unknown = *certainty == Certainty::MaybeApplied;
            let end = match (counted, unknown) {
                (true, true) => AttemptEnd::MaybeApplied,
                (true, false) => AttemptEnd::NotApplied,
                (false, _) => AttemptEnd::GivenBack,
            };
            record.remember(now, end, Some(error));
            if !counted {
                record.attempts = record.attempts.saturating_sub(1);
            }
            record.last_error = Some(error.clone());
            if let (true, State::Started { recovery, .. }) = (unknown, record.state) {
                record.doubt = Some(recovery);
            }
            if record.must_not_rerun(now)
                || (*counted && record.failed_attempts() >= limits.failed.get())
            {
                return record.given_up(now, *window);
            }
            record.state = State::Released {
                not_before: now.plus(*after),
            };
        }
        Step::Fail {
            error,
            decisive,
            window,
        } => {
            // The end of an attempt that is in doubt is in the past already.
            if record.state.kind() != StateKind::InDoubt {
                record.remember(now, AttemptEnd::Failed, Some(error));
            }
            record.last_error = Some(error.clone());
            // Any other answer speaks only for its own attempt. DBT-6.
            let is_late = record.state.kind() == StateKind::InDoubt;
            if *decisive || planted("M39") || (is_late && planted("M42")) {
                record.doubt = None;
            }
            return record.given_up(now, *window);
        }
    }
    record
}

/// Returns whether the claim ran out and another operation has claimed its entity since. VER-2.
pub(super) fn has_lost_entity(record: &Record, entity: Option<&EntityRecord>) -> bool {
    let holder = entity.and_then(|entity| entity.holder);
    record.gate.is_some() && holder.is_none_or(|(holder, _)| holder != record.claim_id)
}

/// The entity record after its claim reached `state`, if it changes.
pub(super) fn entity_after(
    record: &Record,
    entity: Option<&EntityRecord>,
    state: StateKind,
) -> Option<EntityRecord> {
    let gate = record.gate.as_ref()?;
    let known = entity.cloned().unwrap_or_default();
    match state {
        StateKind::Claimed | StateKind::Started => None,
        StateKind::Completed => {
            let applied = known.applied.max(Some(gate.version));
            Some(EntityRecord {
                applied,
                ..known.without_holder(record.claim_id)
            })
        }
        StateKind::Released | StateKind::Dead | StateKind::InDoubt => {
            Some(known.without_holder(record.claim_id))
        }
    }
}

impl Record {
    /// Returns whether the holder of the claim must not begin the effect any more, because a call may have
    /// been made and the provider's window is over. This happens when the claim was granted inside the
    /// window and the answer, or the start, came late. DBT-3.
    pub(super) fn must_not_begin(&self, now: Timestamp) -> bool {
        let doubt = match self.state {
            State::Started { recovery, .. } => Some(recovery),
            State::Claimed { .. }
            | State::Released { .. }
            | State::Completed { .. }
            | State::Dead { .. }
            | State::InDoubt { .. } => self.doubt,
        };
        match doubt {
            None | Some(Recovery::Rerun | Recovery::Park) => false,
            Some(Recovery::RerunWithin(window)) => self.is_past(window, now),
        }
    }

    /// Returns whether a provider's window is over, counted from the first start, whatever happened in
    /// between: DBT-3.
    fn is_past(&self, window: Duration, now: Timestamp) -> bool {
        if planted("M09") {
            return false;
        }
        self.first_started_at
            .is_none_or(|first| first.plus(window) <= now)
    }

    /// Returns whether an earlier attempt may have applied the effect and its class forbids another.
    pub(super) fn must_not_rerun(&self, now: Timestamp) -> bool {
        match self.doubt {
            None | Some(Recovery::Rerun) => false,
            Some(Recovery::Park) => true,
            Some(Recovery::RerunWithin(window)) => self.is_past(window, now),
        }
    }

    /// The record of an operation that is given up: dead if the effect surely did not happen, else in
    /// doubt. ATT-1.
    pub(super) fn given_up(self, now: Timestamp, window: crate::window::Window) -> Self {
        let state = match self.doubt {
            None => State::Dead { at: now, window },
            Some(Recovery::Rerun | Recovery::RerunWithin(_) | Recovery::Park) => {
                State::InDoubt { since: now }
            }
        };
        Self { state, ..self }
    }
}
