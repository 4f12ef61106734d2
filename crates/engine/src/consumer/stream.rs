//! Effects that are one stream: claim a batch, run it in order, settle it. While the store is away and
//! the pipeline fails open, batches run that need no claim.

use std::time::Duration;

use semel_core::{Result, Store};

use super::desk::Desk;
use super::intake::Intake;
use super::steps::{Admitted, Patience, admit, call, given_back, jitter, settle, settle_left};
use crate::effect::{BatchEffect, Call, Verdict};
use crate::lease::{renewal, renewal_interval};

pub(super) async fn run<S: Store + Clone>(
    desk: &mut Desk<S>,
    mut intake: Intake,
    mut effect: impl BatchEffect,
) -> Result<()> {
    loop {
        desk.gather(&mut intake).await;
        if desk.outstanding.is_done() {
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
    let lease = desk.context.pipeline.lease;
    let is_resumed = calls.iter().any(|call| call.claim.resumed);
    let first = if is_resumed {
        Duration::ZERO
    } else {
        renewal_interval(lease)
    };
    let kept = || {
        if is_protected {
            let claims = calls.iter().map(|call| &call.claim);
            claims.map(|claim| renewal(claim, lease)).collect()
        } else {
            Vec::new()
        }
    };
    let ended = tokio::select! {
        biased;
        ended = desk.context.timed(effect.call(&calls)) => Some(ended),
        () = desk.context.patience_is_over() => None,
        never = desk.store.keep(&desk.outstanding, first, kept) => match never {},
        never = desk.outstanding.keep() => match never {},
    };
    let is_given_back = ended.is_none();
    let (mut verdicts, took) = ended.unwrap_or_default();
    // Nobody knows anything about a call without a verdict.
    let unknown = Verdict::MaybeApplied {
        error: "the effect gave no verdict".into(),
    };
    verdicts.resize(calls.len(), unknown);
    let mut settling = desk.away.take_unsettled();
    for ((mut incoming, claim), verdict) in messages.into_iter().zip(verdicts) {
        desk.effect_ended(&mut incoming, &verdict, took);
        if !is_protected {
            desk.end_unprotected(incoming, verdict);
            continue;
        }
        let token = claim.token;
        let settlement = desk.report_of(incoming.delivery, claim, verdict);
        let settlement = if is_given_back || desk.outstanding.is_stopping() {
            given_back(settlement, is_given_back)
        } else {
            jitter(&desk.context, settlement)
        };
        settling.push(incoming, token, settlement);
    }
    settle(desk, settling, Patience::GivesWay).await
}
