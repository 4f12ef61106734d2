//! Steps of an attempt that the strategies share: ask for claims, call, report, deal with the answer.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{
    Admission, Certainty, Claim, FencingToken, Result, Settled, Settlement, StateKind, Step, Store,
};

use super::context::Context;
use super::desk::{Desk, past_provider};
use super::in_hand::InHand;
use super::pause::Judged;
use super::report::settlement;
use super::store_calls::{Asked, RECHECK};
use super::unsettled::Unsettled;
use crate::effect::Call;
use crate::pipeline::Incoming;

/// The choice whether a pipeline that fails open waits for a store that is away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    GivesWay,
}

/// Reports the settlements that are left over from before.
pub(super) async fn settle_left<S: Store + Clone>(
    desk: &mut Desk<S>,
    patience: Patience,
) -> Result<()> {
    let left = desk.away.take_unsettled();
    settle(desk, left, patience).await
}

/// Reports attempts that have ended under a claim.
pub(super) async fn settle<S: Store + Clone>(
    desk: &mut Desk<S>,
    mut ended: Unsettled,
    patience: Patience,
) -> Result<()> {
    let settlements = ended.report();
    let settled = match patience {
        Patience::Waits => {
            let settled = desk
                .store
                .settle_all(&desk.outstanding, &settlements)
                .await?;
            settled.into_iter().map(Some).collect()
        }
        Patience::GivesWay => {
            desk.store
                .try_settle(&desk.outstanding, &settlements)
                .await?
        }
    };
    conclude_all(desk, ended, settled)
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
/// that took so long that they may be lost are given back. While the store is away and the pipeline fails
/// open, the batch is one that needs no claim.
pub(super) async fn admit<S: Store + Clone>(desk: &mut Desk<S>) -> Result<Admitted> {
    let room = desk.context.pipeline.batch.min(desk.room(0));
    let (messages, suspended) = desk.take_to_ask(room);
    let requests: Arc<[_]> = messages
        .iter()
        .map(|incoming| incoming.request.clone())
        .collect();
    let asked_at = desk.now();
    let asked = desk.store.try_claim(&desk.outstanding, &requests).await?;
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
    /// The count of messages, from the first, that were suspended before.
    pub(super) suspended: usize,
    /// The count of messages that there was room for.
    pub(super) room: usize,
    pub(super) asked_at: Duration,
}

/// Deals with the store's answers to messages that asked for a claim.
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
    let may_begin = desk.context.lease(asked_at).may_begin(desk.now());
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
                    let settlement = settlement(&desk.context.pipeline, claim, verdict, judged);
                    desk.away.push_unsettled(incoming, fencing, settlement);
                } else {
                    messages.push((incoming, claim));
                }
            }
            admission => desk.refused(incoming, admission)?,
        }
    }
    if messages.is_empty() && desk.store.is_away() {
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

/// Picks the messages that may run without a claim, from those taken and from the others that are ready.
fn unprotected<S: Store + Clone>(desk: &mut Desk<S>, taken: Taken, is_maybe: bool) -> Admitted {
    let mut batch = Admitted::default();
    for (place, incoming) in taken.messages.into_iter().enumerate() {
        if is_maybe || place < taken.suspended {
            desk.suspend(incoming);
        } else if let Some((incoming, claim)) = desk.begin_unprotected(incoming) {
            batch.messages.push((incoming, claim));
        }
    }
    if desk.store.is_away() && !desk.outstanding.is_stopping() {
        let room = taken.room.saturating_sub(batch.messages.len());
        for incoming in desk.take_ready(room) {
            if let Some((incoming, claim)) = desk.begin_unprotected(incoming) {
                batch.messages.push((incoming, claim));
            }
        }
    }
    batch
}

/// Returns the call of the effect for a granted message.
pub(super) fn call(incoming: &Incoming, claim: Claim) -> Call {
    Call {
        claim,
        payload: incoming.payload.clone(),
        headers: incoming.headers.clone(),
        coordinates: incoming.coordinates.clone(),
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
        // No step that is reported here leads to these states; ask again.
        Settled::Now(state @ (StateKind::Claimed | StateKind::Started)) => {
            desk.fenced(incoming, token, Some(state));
        }
        Settled::Fenced { found } => desk.fenced(incoming, token, found),
        Settled::Failed(error) => desk.hold_failed(incoming, error)?,
    }
    Ok(())
}

/// Deals with the answers to settlements, one for each; a settlement without an answer goes on waiting.
pub(super) fn conclude_all<S: Store + Clone>(
    desk: &mut Desk<S>,
    reported: Unsettled,
    answers: Vec<Option<Settled>>,
) -> Result<()> {
    if answers.iter().all(Option::is_none) && !semel_core::planted("U04") {
        desk.away.put_back_unsettled(reported);
        return Ok(());
    }
    let (messages, settlements) = reported.into_report();
    for (((incoming, token), settlement), answer) in
        messages.into_iter().zip(&*settlements).zip(answers)
    {
        match answer {
            Some(settled) => conclude(desk, incoming, token, &settlement.step, settled)?,
            None if semel_core::planted("U04") => desk.completed(&incoming, false),
            None => {
                let settlement = settlement.clone();
                desk.away.push_unsettled(incoming, token, settlement);
            }
        }
    }
    Ok(())
}
