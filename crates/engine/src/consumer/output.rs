//! An append-only output kept exact: its length is recorded together with each batch.
//!
//! If a crash falls before the record, the next start cuts the output back to the recorded length,
//! and the messages, whose claims left no mark, run again. If it falls after, they are duplicates.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::checkpoint::{AnyCheckpointStore, CheckpointStore, Together};
use semel_core::{
    Certainty, Claim, Error, Mark, Outcome, Result, Settled, Settlement, Step, Store,
};

use super::outstanding::Outstanding;
use super::patience::Purpose;
use super::pause::GIVEN_BACK;
use super::reader::ReaderHandle;
use super::run_state::RunState;
use super::steps::{admit, conclude, settle_left};
use super::store_calls::{Patience, StoreCalls};
use crate::consumer::in_hand::InHand;
use crate::effect::{Output, Verdict};
use crate::retry::is_final;

pub(super) async fn run<S: Store + Clone>(
    run: &mut RunState<S>,
    reader: &mut ReaderHandle,
    mut output: impl Output,
    checkpoints: AnyCheckpointStore,
) -> Result<()> {
    let recovered = recover(&run.store, &run.outstanding, &mut output, &checkpoints).await?;
    let Some(mut recorded) = recovered else {
        return Ok(());
    };
    loop {
        run.gather(reader).await;
        // Messages whose claims were granted too late to be appended.
        settle_left(run, Patience::Waits).await?;
        if run.outstanding.is_done() {
            return Ok(());
        }
        let mut granted = admit(run).await?.messages;
        // A batch is refused whole when one of its claims was lost; the other messages go in without
        // it.
        while !granted.is_empty() {
            granted = append(run, granted, &mut output, &checkpoints, &mut recorded).await?;
        }
        run.flush(reader).await?;
    }
}

/// Makes the output and its mark agree again after a crash; returns nothing if a shutdown is requested before the store has
/// told the mark.
async fn recover<S: Store + Clone>(
    store: &StoreCalls<S>,
    outstanding: &Outstanding,
    output: &mut impl Output,
    checkpoints: &AnyCheckpointStore,
) -> Result<Option<Mark>> {
    let name = output.mark_name();
    let asked = store.ask_first(outstanding, Purpose::Report, || checkpoints.mark(&name));
    let Some(recorded) = asked.await? else {
        return Ok(None);
    };
    let name = name.into();
    if let Some(value) = recorded {
        output.cut_back(value).await?;
        return Ok(Some(Mark { name, value }));
    }
    // The bytes that the file held before Semel first wrote to it stay.
    let mark = Mark {
        name,
        value: output.len_bytes().await?,
    };
    let record = || checkpoints.settle_with(Arc::new([]), &mark);
    match store
        .ask_in_turn(outstanding, Purpose::Report, record)
        .await?
    {
        Together::Applied(_) | Together::Refused(_) => Ok(Some(mark)),
    }
}

/// Appends a batch and records it; returns the messages to try again without the rest.
async fn append<S: Store + Clone>(
    run: &mut RunState<S>,
    mut granted: Vec<(InHand, Claim)>,
    output: &mut impl Output,
    checkpoints: &AnyCheckpointStore,
    recorded: &mut Mark,
) -> Result<Vec<(InHand, Claim)>> {
    let began_at = run.now();
    for (incoming, _) in &mut granted {
        if let Some(trace) = incoming.trace_mut() {
            trace.effect_begins(began_at);
        }
    }
    let payloads: Vec<_> = granted
        .iter()
        .map(|(incoming, _)| incoming.payload.clone())
        .collect();
    let (appended, took) = run.context.timed(output.append(&payloads)).await;
    let value = match appended {
        Ok(value) => value,
        Err(error) => return give_back(run, granted, output, recorded, (error, took)).await,
    };
    let done = Verdict::Done(Bytes::new());
    // One speaks for all, except where it is counted how many the output takes.
    let heard = if run.is_paused() { granted.len() } else { 1 };
    for (incoming, _) in granted.iter().take(heard) {
        run.hear(incoming.delivery, &done);
    }
    let window = run.context.pipeline.window;
    let settlements: Arc<[_]> = granted
        .iter()
        .map(|(_, claim)| claim.completion(Outcome::empty(), window))
        .collect();
    let mark = Mark {
        name: recorded.name.clone(),
        value,
    };
    let together = run
        .store
        .ask_in_turn(&run.outstanding, Purpose::Report, || {
            checkpoints.settle_with(Arc::clone(&settlements), &mark)
        })
        .await?;
    let answers = match together {
        Together::Applied(_) => None,
        Together::Refused(answers) => {
            // An earlier try may have been carried out and its answer lost: the mark knows.
            let found = run
                .store
                .ask(&run.outstanding, Purpose::Report, || {
                    checkpoints.mark(&mark.name)
                })
                .await?;
            let is_recorded = found == Some(mark.value) && !semel_core::planted("M15");
            (!is_recorded).then_some(answers)
        }
    };
    let Some(answers) = answers else {
        *recorded = mark;
        let answered_at = run.now();
        for (mut incoming, _) in granted {
            run.effect_ended(&mut incoming, &done, took);
            incoming.trace_settled(answered_at);
            run.completed(&incoming, false);
        }
        return Ok(Vec::new());
    };
    output.cut_back(recorded.value).await?;
    let mut again = Vec::new();
    let answered_at = run.now();
    for (((mut incoming, claim), settlement), answer) in
        granted.into_iter().zip(&*settlements).zip(answers)
    {
        match answer {
            Settled::Now(_) => again.push((incoming, claim)),
            Settled::Fenced { .. } | Settled::Failed(_) => {
                incoming.trace_settled(answered_at);
                conclude(run, incoming, claim.token, &settlement.step, answer)?;
            }
        }
    }
    Ok(again)
}

/// Undoes what was half written of a batch that the output could not take, and releases the claims,
/// so that the next consumer, also after a shutdown, does not wait for their leases.
async fn give_back<S: Store + Clone>(
    run: &mut RunState<S>,
    mut granted: Vec<(InHand, Claim)>,
    output: &mut impl Output,
    recorded: &Mark,
    (error, took): (Error, Duration),
) -> Result<Vec<(InHand, Claim)>> {
    output.cut_back(recorded.value).await?;
    if is_final(&error) {
        return Err(error);
    }
    let why: Box<str> = error.to_string().into();
    let away = Verdict::Away { error: why.clone() };
    for (incoming, _) in &mut granted {
        run.effect_ended(incoming, &away, took);
        run.hear(incoming.delivery, &away);
    }
    let (limits, window) = (run.context.pipeline.limits, run.context.pipeline.window);
    let settlements: Arc<[_]> = granted
        .iter()
        .map(|(_, claim)| Settlement {
            operation: claim.operation.clone(),
            claim_id: claim.claim_id,
            step: Step::Release {
                error: why.clone(),
                // The half-written bytes have been cut off again.
                certainty: Certainty::NotApplied,
                after: GIVEN_BACK,
                counted: false,
                limits,
                window,
            },
        })
        .collect();
    let answers = run.store.settle_all(&run.outstanding, &settlements).await?;
    let answered_at = run.now();
    for (((mut incoming, claim), settlement), answer) in
        granted.into_iter().zip(&*settlements).zip(answers)
    {
        if answer.had_trouble {
            incoming.trace_trouble();
        }
        let Some(settled) = answer.settled else {
            let settlement = settlement.clone();
            run.backlog
                .push_unsettled(incoming, claim.token, settlement);
            continue;
        };
        incoming.trace_settled(answered_at);
        conclude(run, incoming, claim.token, &settlement.step, settled)?;
    }
    Ok(Vec::new())
}
