//! Effects that are one stream: claim a batch, run it in order, settle it.

use std::time::Duration;

use semel_core::{
    Admission, Certainty, Claim, Outcome, Renewal, Result, Settled, Settlement, StateKind, Step,
    Store,
};

use super::desk::{Desk, RECHECK};
use super::intake::Intake;
use crate::effect::{BatchEffect, Call, Verdict};
use crate::event::Event;
use crate::pipeline::{Incoming, Pipeline};

pub(super) async fn run<S: Store + Clone>(
    desk: &mut Desk<S>,
    mut intake: Intake,
    mut effect: impl BatchEffect,
) -> Result<()> {
    loop {
        desk.gather(&mut intake).await;
        if desk.is_done() {
            return desk.close(intake).await;
        }
        let granted = admit(desk).await?;
        if !granted.is_empty() {
            let calls: Vec<Call> = granted
                .iter()
                .map(|(incoming, claim)| call(incoming, claim.clone()))
                .collect();
            let lease = desk.pipeline.lease;
            let is_resumed = calls.iter().any(|call| call.claim.resumed);
            let first = if is_resumed {
                Duration::ZERO
            } else {
                lease / 3
            };
            let verdicts = tokio::select! {
                biased;
                verdicts = effect.call(&calls) => Some(verdicts),
                () = desk.patience_is_over() => None,
                never = desk.keep(first, || renewals(lease, &calls)) => match never {},
            };
            let is_given_back = verdicts.is_none();
            let mut verdicts = verdicts.unwrap_or_default();
            // A call without a verdict is one that nobody knows anything about.
            let unknown = Verdict::MaybeApplied {
                error: "the effect gave no verdict".into(),
            };
            verdicts.resize(calls.len(), unknown);
            let settlements: Vec<_> = calls
                .iter()
                .zip(verdicts)
                .map(|(call, verdict)| settlement(&desk.pipeline, &call.claim, verdict))
                .map(|settlement| {
                    if is_given_back {
                        given_back(settlement)
                    } else {
                        jitter(desk, settlement)
                    }
                })
                .collect();
            let settled = desk.settle_all(&settlements).await?;
            for (((incoming, claim), settlement), settled) in
                granted.into_iter().zip(settlements).zip(settled)
            {
                conclude(desk, incoming, &claim, &settlement.step, settled)?;
            }
        }
        desk.flush(&intake).await?;
    }
}

/// The claims of a batch, to be extended while it runs.
fn renewals(lease: Duration, batch: &[Call]) -> Vec<Renewal> {
    let claims = batch.iter().map(|call| &call.claim);
    claims
        .map(|claim| Renewal {
            operation: claim.operation.clone(),
            claim_id: claim.claim_id,
            lease,
        })
        .collect()
}

/// Takes a batch of what is ready, asks for its claims and deals with those that are not granted.
/// Claims that took so long that they may be lost are given back.
pub(super) async fn admit<S: Store + Clone>(desk: &mut Desk<S>) -> Result<Vec<(Incoming, Claim)>> {
    let taken = desk.lanes.take(desk.pipeline.batch);
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let requests: Vec<_> = taken
        .iter()
        .map(|incoming| incoming.request.clone())
        .collect();
    let asked_at = desk.now();
    let admissions = desk.claim(&requests).await?;
    let mut granted = Vec::with_capacity(taken.len());
    for (incoming, admission) in taken.into_iter().zip(admissions) {
        match admission {
            Admission::Granted(claim) if desk.may_begin(asked_at) => {
                if claim.takeover {
                    desk.taken_over();
                }
                desk.observe_message(&incoming, &Event::Granted { claim: &claim });
                granted.push((incoming, claim));
            }
            admission => desk.refused(incoming, admission)?,
        }
    }
    Ok(granted)
}

/// The call of the effect for a granted message.
pub(super) fn call(incoming: &Incoming, claim: Claim) -> Call {
    Call {
        claim,
        payload: incoming.payload.clone(),
        headers: incoming.headers.clone(),
        coordinates: incoming.coordinates.clone(),
    }
}

/// What a verdict has the claim report.
pub(super) fn settlement(pipeline: &Pipeline, claim: &Claim, verdict: Verdict) -> Settlement {
    let window = pipeline.window;
    let release = |error, certainty, after| Step::Release {
        error,
        certainty,
        after,
        counted: true,
        limits: pipeline.limits,
        window,
    };
    let backoff = pipeline.backoff.after(claim.attempt);
    let step = match verdict {
        Verdict::Done(result) => Step::Complete {
            outcome: Outcome::raw(result, pipeline.outcome_limit_bytes),
            window,
        },
        Verdict::DoneUnkept { len_bytes, digest } => Step::Complete {
            outcome: Outcome::TooLarge { len_bytes, digest },
            window,
        },
        Verdict::NotApplied { error, retry_after } => {
            let after = retry_after.unwrap_or(backoff).min(LONGEST_WAIT);
            release(error, Certainty::NotApplied, after)
        }
        Verdict::MaybeApplied { error } => release(error, Certainty::MaybeApplied, backoff),
        Verdict::Dead { error } => Step::Fail { error, window },
    };
    Settlement {
        operation: claim.operation.clone(),
        claim_id: claim.claim_id,
        step,
    }
}

/// The same settlement with a backoff that differs from worker to worker.
pub(super) fn jitter<S: Store + Clone>(desk: &Desk<S>, mut settlement: Settlement) -> Settlement {
    if let Step::Release { after, .. } = &mut settlement.step {
        *after = desk.jittered(*after);
    }
    settlement
}

/// The same settlement of a call that a shutdown broke off: it costs no attempt.
pub(super) fn given_back(mut settlement: Settlement) -> Settlement {
    if let Step::Release {
        counted,
        certainty: Certainty::MaybeApplied,
        ..
    } = &mut settlement.step
    {
        *counted = false;
    }
    settlement
}

/// Deals with the answer to a settlement.
pub(super) fn conclude<S: Store + Clone>(
    desk: &mut Desk<S>,
    incoming: Incoming,
    claim: &Claim,
    step: &Step,
    settled: Settled,
) -> Result<()> {
    let (error, wait) = match step {
        Step::Release { error, after, .. } => (&**error, *after),
        Step::Fail { error, .. } => (&**error, Duration::ZERO),
        Step::Start { .. } | Step::Complete { .. } => ("", RECHECK),
    };
    match settled {
        Settled::Now(StateKind::Completed) => desk.completed(&incoming, false),
        Settled::Now(StateKind::Released) => desk.released(incoming, error, wait),
        Settled::Now(state @ (StateKind::Dead | StateKind::InDoubt)) => {
            desk.given_up(&incoming, state, error);
        }
        // No step that is reported here leads to these; ask again.
        Settled::Now(state @ (StateKind::Claimed | StateKind::Started)) => {
            desk.fenced(incoming, claim.token, Some(state));
        }
        Settled::Fenced { found } => desk.fenced(incoming, claim.token, found),
        Settled::Failed(error) => desk.hold_failed(incoming, error)?,
    }
    Ok(())
}

/// The longest that an effect may wish to wait before it is tried again: thirty days.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 86_400);
