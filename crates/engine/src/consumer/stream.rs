//! Effects that are one stream: claim a batch, run it in order, settle it. While the store is away and
//! the pipeline fails open, batches run that need no claim.

use std::time::Duration;

use semel_core::{Result, Store};

use super::reader::ReaderHandle;
use super::run_state::RunState;
use super::steps::{Admitted, admit, call, given_back, jitter, settle, settle_left};
use super::store_calls::Patience;
use crate::effect::{BatchEffect, Call, Verdict};
use crate::lease::{renewal, renewal_interval};

pub(super) async fn run<S: Store + Clone>(
    run: &mut RunState<S>,
    reader: &mut ReaderHandle,
    mut effect: impl BatchEffect,
) -> Result<()> {
    loop {
        run.gather(reader).await;
        if run.outstanding.is_done() {
            return settle_left(run, Patience::Waits).await;
        }
        settle_left(run, Patience::GivesWay).await?;
        let batch = admit(run).await?;
        if !batch.is_empty() {
            call_all(run, &mut effect, batch).await?;
        }
        run.flush(reader).await?;
    }
}

/// Runs a batch and settles it, as far as the store answers.
async fn call_all<S: Store + Clone>(
    run: &mut RunState<S>,
    effect: &mut impl BatchEffect,
    batch: Admitted,
) -> Result<()> {
    let Admitted {
        mut messages,
        is_protected,
    } = batch;
    let began_at = run.now();
    for (incoming, _) in &mut messages {
        if let Some(trace) = incoming.trace_mut() {
            trace.effect_begins(began_at);
        }
    }
    let calls: Vec<Call> = messages
        .iter()
        .map(|(incoming, claim)| call(incoming, claim.clone()))
        .collect();
    let lease = run.context.pipeline.lease;
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
    let verdicts = tokio::select! {
        biased;
        verdicts = effect.call(&calls) => Some(verdicts),
        () = run.context.patience_is_over() => None,
        never = run.store.keep(&run.outstanding, first, kept) => match never {},
        never = run.outstanding.keep() => match never {},
    };
    let took = run.now().saturating_sub(began_at);
    let is_given_back = verdicts.is_none();
    let mut verdicts = verdicts.unwrap_or_default();
    // Nobody knows anything about a call without a verdict.
    let unknown = Verdict::MaybeApplied {
        error: "the effect gave no verdict".into(),
    };
    verdicts.resize(calls.len(), unknown);
    let mut settling = run.backlog.take_unsettled();
    for ((mut incoming, claim), verdict) in messages.into_iter().zip(verdicts) {
        run.effect_ended(&mut incoming, &verdict, took);
        if !is_protected {
            run.end_unprotected(incoming, verdict);
            continue;
        }
        let token = claim.token;
        let settlement = run.report_of(incoming.delivery, claim, verdict);
        let settlement = if is_given_back || run.outstanding.is_stopping() {
            given_back(settlement, is_given_back)
        } else {
            jitter(&run.context, settlement)
        };
        settling.push(incoming, token, settlement);
    }
    settle(run, settling, Patience::GivesWay).await
}
