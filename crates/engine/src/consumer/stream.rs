//! Effects that are one stream: claim a batch, run it in order, settle it. While the store is away and
//! the pipeline fails open, batches run that need no claim.

use std::time::Duration;

use semel_core::{
    Admission, Certainty, Claim, FencingToken, Outcome, Result, Settled, Settlement, StateKind,
    Step, Store,
};

use super::desk::{Asked, Desk, LONGEST_WAIT, RECHECK, past_provider, renewals};
use super::intake::Intake;
use super::pause::{GIVEN_BACK, Judged};
use super::unsettled::Unsettled;
use crate::consumer::in_hand::InHand;
use crate::effect::{BatchEffect, Call, Verdict};
use crate::pipeline::{Incoming, Pipeline};

pub(super) async fn run<S: Store + Clone>(
    desk: &mut Desk<S>,
    mut intake: Intake,
    mut effect: impl BatchEffect,
) -> Result<()> {
    loop {
        desk.gather(&mut intake).await;
        if desk.is_done() {
            settle_left(desk, Patience::Waits).await?;
            desk.put_back_suspended();
            return desk.close(intake).await;
        }
        settle_left(desk, Patience::GivesWay).await?;
        let batch = admit(desk).await?;
        if !batch.is_empty() {
            call_all(desk, &mut effect, batch).await?;
        }
        desk.flush(&intake).await?;
    }
}

/// Runs a batch and settles it, as far as the store answers.
async fn call_all<S: Store + Clone>(
    desk: &mut Desk<S>,
    effect: &mut impl BatchEffect,
    batch: Admitted,
) -> Result<()> {
    let Admitted {
        messages,
        is_protected,
    } = batch;
    let calls: Vec<Call> = messages
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
    let kept = || {
        if is_protected {
            renewals(lease, calls.iter().map(|call| &call.claim))
        } else {
            Vec::new()
        }
    };
    let verdicts = tokio::select! {
        biased;
        verdicts = effect.call(&calls) => Some(verdicts),
        () = desk.patience_is_over() => None,
        never = desk.keep(first, kept) => match never {},
        never = desk.keep_in_hand() => match never {},
    };
    let is_given_back = verdicts.is_none();
    let mut verdicts = verdicts.unwrap_or_default();
    // A call without a verdict is one that nobody knows anything about.
    let unknown = Verdict::MaybeApplied {
        error: "the effect gave no verdict".into(),
    };
    verdicts.resize(calls.len(), unknown);
    let mut settling = std::mem::take(&mut desk.away.unsettled);
    for ((incoming, claim), verdict) in messages.into_iter().zip(verdicts) {
        if !is_protected {
            desk.end_unprotected(incoming, verdict);
            continue;
        }
        let token = claim.token;
        let settlement = desk.report_of(incoming.delivery, claim, verdict);
        let settlement = if is_given_back || desk.is_stopping() {
            given_back(settlement, is_given_back)
        } else {
            jitter(desk, settlement)
        };
        settling.push(incoming, token, settlement);
    }
    settle(desk, settling, Patience::GivesWay).await
}

/// Whether a pipeline that fails open waits for a store that is away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    GivesWay,
}

/// Reports what is left over from before.
pub(super) async fn settle_left<S: Store + Clone>(
    desk: &mut Desk<S>,
    patience: Patience,
) -> Result<()> {
    let left = std::mem::take(&mut desk.away.unsettled);
    settle(desk, left, patience).await
}

/// Reports what has ended under a claim.
async fn settle<S: Store + Clone>(
    desk: &mut Desk<S>,
    ended: Unsettled,
    patience: Patience,
) -> Result<()> {
    let settled = match patience {
        Patience::Waits => {
            let settled = desk.settle_all(ended.settlements()).await?;
            settled.into_iter().map(Some).collect()
        }
        Patience::GivesWay => desk.try_settle(ended.settlements()).await?,
    };
    ended.conclude(desk, settled)
}

/// A batch that may run.
#[derive(Default)]
pub(super) struct Admitted {
    /// Messages and their claims, or what stands for them.
    pub(super) messages: Vec<(InHand, Claim)>,
    /// Whether the store knows of the claims.
    pub(super) is_protected: bool,
}

impl Admitted {
    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

/// Takes a batch of what is ready, asks for its claims and deals with those that are not granted.
/// Claims that took so long that they may be lost are given back. While the store is away and the
/// pipeline fails open, the batch is one that needs no claim.
pub(super) async fn admit<S: Store + Clone>(desk: &mut Desk<S>) -> Result<Admitted> {
    let room = desk.pipeline.batch.min(desk.room(0));
    let (messages, suspended) = desk.take_to_ask(room);
    let requests: Vec<_> = messages
        .iter()
        .map(|incoming| incoming.request.clone())
        .collect();
    let asked_at = desk.now();
    let asked = desk.try_claim(&requests).await?;
    let taken = Taken {
        messages,
        suspended,
        room,
        asked_at,
    };
    admitted(desk, taken, asked)
}

/// Messages whose claims were asked for.
pub(super) struct Taken {
    pub(super) messages: Vec<InHand>,
    /// How many of them, the first, were suspended before.
    pub(super) suspended: usize,
    /// How many there was room for.
    pub(super) room: usize,
    pub(super) asked_at: Duration,
}

/// Deals with what was answered to those that asked for a claim.
pub(super) fn admitted<S: Store + Clone>(
    desk: &mut Desk<S>,
    taken: Taken,
    asked: Asked<Vec<Admission>>,
) -> Result<Admitted> {
    let (asked_at, room) = (taken.asked_at, taken.room);
    let admissions = match asked {
        Asked::Answered(admissions) => admissions,
        Asked::NotNow { is_maybe } => return Ok(unprotected(desk, taken, is_maybe)),
    };
    let mut messages = Vec::with_capacity(taken.messages.len());
    let may_begin = desk.may_begin(asked_at);
    for (incoming, admission) in taken.messages.into_iter().zip(admissions) {
        match admission {
            Admission::Granted(claim) if may_begin && desk.begins(incoming.delivery) => {
                if claim.takeover {
                    desk.taken_over();
                }
                desk.note_claimed(incoming.delivery);
                desk.granted(&incoming, claim.grant());
                if desk.is_past_provider(incoming.delivery) {
                    let fencing = claim.token;
                    desk.ends_unheard(incoming.delivery);
                    let (verdict, judged) = (past_provider(), Judged::AsSaid);
                    let settlement = settlement(&desk.pipeline, claim, verdict, judged);
                    desk.away.unsettled.push(incoming, fencing, settlement);
                } else {
                    messages.push((incoming, claim));
                }
            }
            admission => desk.refused(incoming, admission)?,
        }
    }
    if messages.is_empty() && desk.is_away() {
        let none = Taken {
            messages: Vec::new(),
            suspended: 0,
            room,
            asked_at,
        };
        return Ok(unprotected(desk, none, false));
    }
    Ok(Admitted {
        messages,
        is_protected: true,
    })
}

/// What may run without a claim, of what was taken and of what else is ready.
fn unprotected<S: Store + Clone>(desk: &mut Desk<S>, taken: Taken, is_maybe: bool) -> Admitted {
    let mut batch = Admitted::default();
    for (place, incoming) in taken.messages.into_iter().enumerate() {
        if is_maybe || place < taken.suspended {
            desk.suspend(incoming);
        } else if let Some((incoming, claim)) = desk.begin_unprotected(incoming) {
            batch.messages.push((incoming, claim));
        }
    }
    if desk.is_away() && !desk.is_stopping() {
        let room = taken.room.saturating_sub(batch.messages.len());
        for incoming in desk.take_ready(room) {
            if let Some((incoming, claim)) = desk.begin_unprotected(incoming) {
                batch.messages.push((incoming, claim));
            }
        }
    }
    batch
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
pub(super) fn settlement(
    pipeline: &Pipeline,
    claim: Claim,
    verdict: Verdict,
    judged: Judged,
) -> Settlement {
    let window = pipeline.window;
    let counted = judged == Judged::AsSaid;
    let release = |error, certainty, after| Step::Release {
        error,
        certainty,
        after,
        counted,
        limits: pipeline.limits,
        window,
    };
    let backoff = match judged {
        Judged::AsSaid => pipeline.backoff.after(claim.attempt),
        Judged::GivenBack => GIVEN_BACK,
    };
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
        Verdict::Dead { error, .. } if !counted => release(error, Certainty::NotApplied, backoff),
        Verdict::Dead { error, decisive } => Step::Fail {
            error,
            decisive,
            window,
        },
        Verdict::Away { error } => release(error, Certainty::NotApplied, backoff),
        Verdict::Broken { error, certainty } => release(error, certainty, backoff),
    };
    Settlement {
        operation: claim.operation,
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

/// The same settlement of a call that a shutdown broke off, or kept from beginning: it costs no attempt.
pub(super) fn given_back(mut settlement: Settlement, is_broken_off: bool) -> Settlement {
    if let Step::Release {
        counted, certainty, ..
    } = &mut settlement.step
    {
        // What was never begun costs no attempt in any case.
        *counted &= match certainty {
            Certainty::MaybeApplied => !is_broken_off,
            Certainty::NotApplied => is_broken_off,
        };
    }
    settlement
}

/// Deals with the answer to a settlement.
pub(super) fn conclude<S: Store + Clone>(
    desk: &mut Desk<S>,
    incoming: InHand,
    token: FencingToken,
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
            desk.fenced(incoming, token, Some(state));
        }
        Settled::Fenced { found } => desk.fenced(incoming, token, found),
        Settled::Failed(error) => desk.hold_failed(incoming, error)?,
    }
    Ok(())
}
