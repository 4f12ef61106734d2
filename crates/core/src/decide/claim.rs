//! Claiming: who may attempt the effect now.

use super::settle::has_lost_entity;
use super::{Change, Decision};
use crate::attempt::AttemptEnd;
use crate::claim::{Admission, Claim, ClaimRequest, Duplicate, FencingToken, Start};
use crate::entity::EntityRecord;
use crate::fingerprint::{Comparison, Fingerprint};
use crate::record::{Record, Recovery, State, StateKind};
use crate::time::Timestamp;

/// Decides a claim.
///
/// `entity` is the record of `request.gate`'s entity, if the request has a gate. `token` is the
/// store's next fencing token; it is used up if the answer is [`Admission::Granted`] and not
/// resumed. The outcome of a replay is the record's, where the store has loaded it.
///
/// # Guarantee   CLM-1 to CLM-8, FPR-1, FPR-2, WIN-2, WIN-4, DBT-1, DBT-3, DBT-4, ATT-1, VER-1, VER-2
pub fn claim(
    record: Option<&Record>,
    entity: Option<&EntityRecord>,
    request: &ClaimRequest,
    now: Timestamp,
    token: FencingToken,
) -> Decision<Admission> {
    let formerly_expired = record.is_some_and(|record| record.is_forgotten(now));
    let Some(record) = record.filter(|_| !formerly_expired) else {
        return claim_absent(entity, request, now, token, formerly_expired);
    };
    // Any state, other fingerprint: the record stays as it is. FPR-1.
    let duplicate = duplicate_of(record, request);
    if is_reused(record.fingerprint, request.fingerprint) {
        let first = record.members.clone();
        return Decision::keep(Admission::Conflict { duplicate, first });
    }
    match record.state {
        State::Claimed { lease_until } | State::Started { lease_until, .. }
            if record.claim_id == request.claim_id
                && !has_lost_entity(record, entity)
                && !record.must_not_begin(now) =>
        {
            Decision::keep(Admission::Granted(resumed(record, request, lease_until)))
        }
        State::Claimed { lease_until } | State::Started { lease_until, .. }
            if lease_until > now =>
        {
            Decision::keep(Admission::Busy {
                until: lease_until,
                now,
            })
        }
        State::Claimed { lease_until } => {
            let doubt = record.doubt;
            claim_vanished(record, lease_until, doubt, entity, request, now, token)
        }
        State::Started {
            lease_until,
            recovery,
        } => {
            let doubt = Some(recovery);
            claim_vanished(record, lease_until, doubt, entity, request, now, token)
        }
        State::Released { not_before } if not_before > now => Decision::keep(Admission::Busy {
            until: not_before,
            now,
        }),
        State::Released { .. } => claim_released(record, entity, request, now, token),
        // Also past its expiry while it is still there: evidence wins.
        State::Completed { .. } => Decision::keep(Admission::Replay {
            outcome: record.outcome.clone().filter(|_| request.wants_outcome),
            duplicate,
        }),
        State::Dead { .. } => Decision::keep(Admission::Parked {
            state: StateKind::Dead,
            duplicate,
            now,
        }),
        State::InDoubt { .. } => Decision::keep(Admission::Parked {
            state: StateKind::InDoubt,
            duplicate,
            now,
        }),
    }
}

fn claim_absent(
    entity: Option<&EntityRecord>,
    request: &ClaimRequest,
    now: Timestamp,
    token: FencingToken,
    formerly_expired: bool,
) -> Decision<Admission> {
    if request
        .birth
        .is_some_and(|birth| request.window.is_too_old(birth, now))
    {
        return Decision::keep(Admission::TooOld);
    }
    let fresh = Record {
        state: State::Released { not_before: now },
        fingerprint: request.fingerprint,
        members: request
            .members
            .clone()
            .filter(|_| request.fingerprint.is_some()),
        transport: request.transport.clone(),
        claim_id: request.claim_id,
        token,
        attempts: 0,
        claimed_at: now,
        vanished: 0,
        possible_repeats: 0,
        past: Vec::new(),
        doubt: None,
        created_at: now,
        first_started_at: None,
        last_error: None,
        gate: None,
        held: false,
        outcome: None,
    };
    let mut decision = grant(fresh, entity, request, now, token, false);
    if let Admission::Granted(claim) = &mut decision.answer {
        claim.formerly_expired = formerly_expired;
    }
    decision
}

/// The lease of the latest claim ended without a report.
fn claim_vanished(
    record: &Record,
    lease_until: Timestamp,
    doubt: Option<Recovery>,
    entity: Option<&EntityRecord>,
    request: &ClaimRequest,
    now: Timestamp,
    token: FencingToken,
) -> Decision<Admission> {
    let vanished = record.vanished.saturating_add(1);
    let mut record = Record {
        vanished,
        doubt,
        ..record.clone()
    };
    record.remember(lease_until, AttemptEnd::Vanished, None);
    let capped = vanished >= request.limits.vanished.get();
    claim_again(record, capped, entity, request, now, token, true)
}

fn claim_released(
    record: &Record,
    entity: Option<&EntityRecord>,
    request: &ClaimRequest,
    now: Timestamp,
    token: FencingToken,
) -> Decision<Admission> {
    let capped = record.failed_attempts() >= request.limits.failed.get();
    claim_again(record.clone(), capped, entity, request, now, token, false)
}

fn claim_again(
    record: Record,
    capped: bool,
    entity: Option<&EntityRecord>,
    request: &ClaimRequest,
    now: Timestamp,
    token: FencingToken,
    takeover: bool,
) -> Decision<Admission> {
    if capped || record.must_not_rerun(now) {
        let duplicate = duplicate_of(&record, request);
        let record = record.given_up(now, request.window);
        let state = record.state.kind();
        let parked = Admission::Parked {
            state,
            duplicate,
            now,
        };
        return Decision::put(parked, record);
    }
    grant(record, entity, request, now, token, takeover)
}

fn grant(
    mut record: Record,
    entity: Option<&EntityRecord>,
    request: &ClaimRequest,
    now: Timestamp,
    token: FencingToken,
    takeover: bool,
) -> Decision<Admission> {
    let lease_until = now.plus(request.lease);
    let mut new_entity = None;
    if let Some(gate) = &request.gate {
        let known = entity.cloned().unwrap_or_default();
        if let Some(applied) = known.applied.filter(|&applied| applied >= gate.version) {
            return Decision::keep(Admission::Stale { applied });
        }
        if let Some(until) = known.busy_for(request.claim_id, now) {
            return Decision::keep(Admission::Busy { until, now });
        }
        new_entity = Some(EntityRecord {
            holder: Some((request.claim_id, lease_until)),
            ..known
        });
    }
    // Anything that an earlier attempt may have done, a policy of rerun may do again: DBT-4.
    let possible_repeat = record.doubt == Some(Recovery::Rerun);
    record.possible_repeats = record
        .possible_repeats
        .saturating_add(u32::from(possible_repeat));
    record.attempts = record.attempts.saturating_add(1);
    record.claim_id = request.claim_id;
    record.token = token;
    record.claimed_at = now;
    record.gate.clone_from(&request.gate);
    record.state = match request.start {
        Start::Unmarked => State::Claimed { lease_until },
        Start::Marked(recovery) => {
            record.first_started_at.get_or_insert(now);
            State::Started {
                lease_until,
                recovery,
            }
        }
    };
    let claim = Claim {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        token,
        lease_until,
        attempt: record.attempts,
        takeover,
        resumed: false,
        formerly_expired: false,
        possible_repeat,
        first_started_at: record.first_started_at,
    };
    Decision {
        answer: Admission::Granted(claim),
        change: Change::Put(record),
        entity: new_entity,
    }
}

/// The answer to a claim that was granted before; its answer was lost. CLM-4.
fn resumed(record: &Record, request: &ClaimRequest, lease_until: Timestamp) -> Claim {
    Claim {
        operation: request.operation.clone(),
        claim_id: record.claim_id,
        token: record.token,
        lease_until,
        attempt: record.attempts,
        takeover: false,
        resumed: true,
        formerly_expired: false,
        possible_repeat: record.doubt == Some(Recovery::Rerun),
        first_started_at: record.first_started_at,
    }
}

fn is_reused(stored: Option<Fingerprint>, requested: Option<Fingerprint>) -> bool {
    match (stored, requested) {
        (Some(stored), Some(requested)) => stored.compare(requested) == Comparison::Different,
        (Some(_), None) | (None, Some(_) | None) => false,
    }
}

fn duplicate_of(record: &Record, request: &ClaimRequest) -> Duplicate {
    if record.claim_id == request.claim_id {
        return Duplicate::Own;
    }
    match (&record.transport, &request.transport) {
        (Some(stored), Some(requested)) if stored == requested => Duplicate::Redelivery,
        (Some(_), Some(_)) => Duplicate::Republish,
        (Some(_), None) | (None, Some(_) | None) => Duplicate::Unknown,
    }
}
