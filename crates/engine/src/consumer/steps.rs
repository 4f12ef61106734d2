//! Steps of an attempt that the strategies share: ask for claims, call, report, deal with the answer.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{
    Admission, Certainty, Claim, FencingToken, Result, Settled, Settlement, StateKind, Step, Store,
};

use super::context::Context;
use super::in_hand::InHand;
use super::pause::Judged;
use super::pending_settlements::PendingSettlements;
use super::report::settlement;
use super::run_state::{RunState, past_provider};
use super::store_calls::{Asked, Patience, RECHECK, ReportAnswer};
use crate::differing::Measured;
use crate::effect::Call;
use crate::trace::attempt::AttemptTrace;

/// Reports the settlements that are left over from before.
pub(super) async fn settle_left<S: Store + Clone>(
    run: &mut RunState<S>,
    patience: Patience,
) -> Result<()> {
    let left = run.backlog.take_unsettled();
    settle(run, left, patience).await
}

/// Reports attempts that have ended under a claim.
pub(super) async fn settle<S: Store + Clone>(
    run: &mut RunState<S>,
    mut ended: PendingSettlements,
    patience: Patience,
) -> Result<()> {
    let settlements = ended.report();
    let settled = match patience {
        Patience::Waits => run.store.settle_all(&run.outstanding, &settlements).await?,
        Patience::GivesWay => run.store.try_settle(&run.outstanding, &settlements).await?,
    };
    conclude_all(run, ended, settled)
}

/// A batch that may run.
#[derive(Default)]
pub(super) struct Admitted {
    /// Messages and their claims, or substitutes for claims.
    pub(super) messages: Vec<(InHand, Claim)>,
    /// The store knows of the claims.
    pub(super) is_protected: bool,
}

impl Admitted {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

/// Takes a batch of ready messages, asks for its claims and deals with those that are not granted. Claims
/// that took so long that they may be lost, or were granted during a shutdown, are given back. While the store is away and the pipeline fails
/// open, the batch is one that needs no claim.
pub(super) async fn admit<S: Store + Clone>(run: &mut RunState<S>) -> Result<Admitted> {
    // A stop may have come while something else was waited for.
    let room = if run.outstanding.is_stopping() {
        0
    } else {
        run.context.pipeline.batch.min(run.room(0))
    };
    let (messages, suspended) = run.take_to_ask(room);
    let requests: Arc<[_]> = messages
        .iter()
        .map(|incoming| incoming.request.clone())
        .collect();
    let asked_at = run.now();
    let asked = run.store.try_claim(&run.outstanding, &requests).await?;
    let taken = Taken {
        messages,
        suspended,
        room,
        asked_at,
    };
    admitted(run, taken, asked)
}

/// Messages whose claims were asked for.
pub(super) struct Taken {
    pub(super) messages: Vec<InHand>,
    /// The count of messages, from the first, that were suspended before.
    pub(super) suspended: usize,
    /// The count of messages that there was room for.
    pub(super) room: usize,
    pub(super) asked_at: Duration,
}

/// Deals with the store's answers to messages that asked for a claim.
pub(super) fn admitted<S: Store + Clone>(
    run: &mut RunState<S>,
    taken: Taken,
    asked: Asked<Vec<Admission>>,
) -> Result<Admitted> {
    let (asked_at, room) = (taken.asked_at, taken.room);
    let admissions = match asked {
        Asked::Answered(admissions) => admissions,
        Asked::NotNow { is_maybe } => return Ok(unprotected(run, taken, is_maybe)),
    };
    let mut messages = Vec::with_capacity(taken.messages.len());
    let answered_at = run.now();
    let is_stopping = run.outstanding.is_stopping();
    let may_begin = !is_stopping && run.context.lease(asked_at).may_begin(answered_at);
    for (mut incoming, admission) in taken.messages.into_iter().zip(admissions) {
        match admission {
            Admission::Granted(claim) if may_begin && run.begins(incoming.delivery) => {
                if claim.takeover {
                    run.taken_over();
                }
                run.note_claimed(incoming.delivery);
                run.granted(&mut incoming, claim.grant(), answered_at);
                if run.is_past_provider(incoming.delivery) {
                    let fencing = claim.token;
                    run.ends_unheard(incoming.delivery);
                    let (verdict, judged) = (past_provider(), Judged::AsSaid);
                    let settlement = settlement(&run.context.pipeline, claim, verdict, judged);
                    run.backlog.push_unsettled(incoming, fencing, settlement);
                } else {
                    messages.push((incoming, claim));
                }
            }
            admission => run.refused(incoming, admission, answered_at)?,
        }
    }
    if messages.is_empty() && run.store.is_away() {
        let none = Taken {
            messages: Vec::new(),
            suspended: 0,
            room,
            asked_at,
        };
        return Ok(unprotected(run, none, false));
    }
    Ok(Admitted {
        messages,
        is_protected: true,
    })
}

/// Picks the messages that may run without a claim, from those taken and from the others that are ready.
fn unprotected<S: Store + Clone>(run: &mut RunState<S>, taken: Taken, is_maybe: bool) -> Admitted {
    let mut batch = Admitted::default();
    for (place, incoming) in taken.messages.into_iter().enumerate() {
        if is_maybe || place < taken.suspended || run.outstanding.is_stopping() {
            run.suspend(incoming);
        } else if let Some((incoming, claim)) = run.begin_unprotected(incoming) {
            batch.messages.push((incoming, claim));
        }
    }
    if run.store.is_away() && !run.outstanding.is_stopping() {
        let room = taken.room.saturating_sub(batch.messages.len());
        for incoming in run.take_ready(room) {
            if let Some((incoming, claim)) = run.begin_unprotected(incoming) {
                batch.messages.push((incoming, claim));
            }
        }
    }
    batch
}

/// Returns the call of the effect for a granted message.
pub(super) fn call(incoming: &InHand, claim: Claim) -> Call {
    Call {
        claim,
        payload: incoming.payload.clone(),
        headers: incoming.headers.clone(),
        coordinates: incoming.coordinates.clone(),
        span: incoming.trace().map(AttemptTrace::effect),
    }
}

/// Returns the same settlement with a backoff that differs from worker to worker.
pub(super) fn jitter(context: &Context, mut settlement: Settlement) -> Settlement {
    if let Step::Release { after, .. } = &mut settlement.step {
        *after = context.surroundings.jittered(*after);
    }
    settlement
}

/// Returns the same settlement for a call that a shutdown broke off, or kept from beginning: it costs no
/// attempt.
pub(super) fn given_back(mut settlement: Settlement, is_broken_off: bool) -> Settlement {
    if let Step::Release {
        counted, certainty, ..
    } = &mut settlement.step
    {
        // A call that never began costs no attempt in any case.
        *counted &= match certainty {
            Certainty::MaybeApplied => !is_broken_off,
            Certainty::NotApplied => is_broken_off,
        };
    }
    settlement
}

/// Deals with the answer to a settlement.
pub(super) fn conclude<S: Store + Clone>(
    run: &mut RunState<S>,
    mut incoming: InHand,
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
        Settled::Now(StateKind::Completed) => run.completed(&incoming, false),
        Settled::Now(StateKind::Released) => run.released(incoming, error, wait),
        Settled::Now(state @ (StateKind::Dead | StateKind::InDoubt)) => {
            run.given_up(&incoming, state, error);
        }
        // No step that is reported here leads to these states; ask again.
        Settled::Now(state @ (StateKind::Claimed | StateKind::Started)) => {
            run.fenced(incoming, token, Some(state));
        }
        Settled::Fenced { found } => {
            if run.context.is_observed()
                && let Step::Complete { outcome, .. } = step
            {
                incoming.keep_lost(Measured::new(outcome));
            }
            run.fenced(incoming, token, found);
        }
        Settled::Failed(error) => run.hold_failed(incoming, error)?,
    }
    Ok(())
}

/// Deals with the answers to settlements, one for each; a settlement without an answer goes on waiting.
pub(super) fn conclude_all<S: Store + Clone>(
    run: &mut RunState<S>,
    reported: PendingSettlements,
    answers: Vec<ReportAnswer>,
) -> Result<()> {
    let is_nothing = |it: &ReportAnswer| it.settled.is_none() && !it.had_trouble;
    if answers.iter().all(is_nothing) && !semel_core::planted("U04") {
        run.backlog.put_back_unsettled(reported);
        return Ok(());
    }
    let (messages, settlements) = reported.into_report();
    debug_assert_eq!(messages.len(), answers.len(), "an answer for each");
    let answered_at = run.now();
    for (((mut incoming, token), settlement), answer) in
        messages.into_iter().zip(&*settlements).zip(answers)
    {
        if answer.had_trouble {
            incoming.trace_trouble();
        }
        match answer.settled {
            Some(settled) => {
                incoming.trace_settled(answered_at);
                conclude(run, incoming, token, &settlement.step, settled)?;
            }
            None if semel_core::planted("U04") => run.completed(&incoming, false),
            None => {
                let settlement = settlement.clone();
                run.backlog.push_unsettled(incoming, token, settlement);
            }
        }
    }
    Ok(())
}
