//! Effects in the store's own transaction: claim, effect and record in one commit per batch.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::transactional::{
    AnyTransactionalStore, Application, Applied, Statements, TransactionalStore,
};
use semel_core::{Admission, Backoff, Duplicate, Result, StateKind, Store};

use super::patience::Purpose;
use super::pause::{GIVEN_BACK, Judged};
use super::reader::ReaderHandle;
use super::run_state::RunState;
use crate::consumer::in_hand::InHand;
use crate::effect::Verdict;
use crate::trace::End;

pub(super) async fn run<S: Store + Clone>(
    run: &mut RunState<S>,
    reader: &mut ReaderHandle,
    transactions: AnyTransactionalStore,
    statements: Statements,
) -> Result<()> {
    let database = Database {
        transactions,
        statements,
    };
    loop {
        run.gather(reader).await;
        if run.outstanding.is_done() {
            return Ok(());
        }
        let room = run.context.pipeline.batch.min(run.room(0));
        let taken = run.take_ready(room);
        for incoming in &taken {
            run.begins(incoming.delivery);
        }
        // If more messages may fail than are set aside before the pipeline pauses, the database gives back the
        // failed ones, and those that are to be set aside fail once more.
        let gives_back = !run.may_all_fail(taken.len());
        let mut again = Vec::new();
        let (applied, took) = database.apply(run, taken, gives_back).await?;
        for (mut incoming, applied) in applied {
            let judged = heard(run, &mut incoming, &applied, took);
            match applied {
                Applied::Failed { error, .. } if gives_back => match judged {
                    Judged::AsSaid => {
                        let end = End::Released;
                        run.context.end_attempt(&mut incoming, end, Some(&error));
                        again.push(incoming);
                    }
                    Judged::GivenBack => run.released(incoming, &error, GIVEN_BACK),
                },
                applied => conclude(run, incoming, applied)?,
            }
        }
        for incoming in &mut again {
            incoming.request.claim_id = run.context.surroundings.claim_id();
        }
        if !run.context.may_begin(Purpose::Both) {
            run.outstanding.put_back(again);
            run.flush(reader).await?;
            continue;
        }
        run.context.begin_traces(&mut again);
        let (applied, took) = database.apply(run, again, false).await?;
        for (mut incoming, applied) in applied {
            ended(run, &mut incoming, &applied, took);
            conclude(run, incoming, applied)?;
        }
        run.flush(reader).await?;
    }
}

/// The store of the effects, and their statements.
struct Database {
    transactions: AnyTransactionalStore,
    statements: Statements,
}

impl Database {
    /// Applies a batch; each message comes back with its result. Returns the time that the transaction took, too,
    /// without those that were broken off before and the waits between them.
    async fn apply<S: Store + Clone>(
        &self,
        run: &RunState<S>,
        batch: Vec<InHand>,
        gives_back: bool,
    ) -> Result<(impl Iterator<Item = (InHand, Applied)> + use<S>, Duration)> {
        let window = run.context.pipeline.window;
        let backoff = if gives_back {
            AT_ONCE
        } else {
            run.context.pipeline.backoff
        };
        let apply = batch.iter().map(|incoming| Application {
            claim: incoming.request.clone(),
            values: incoming.values.clone().unwrap_or_default(),
            window,
            backoff,
            gives_back,
        });
        let apply: Arc<[_]> = apply.collect();
        let (applied, took) = if apply.is_empty() {
            (Vec::new(), Duration::ZERO)
        } else {
            run.store
                .ask_slow(&run.outstanding, Purpose::Both, || async {
                    let work = self
                        .transactions
                        .apply(&self.statements, Arc::clone(&apply));
                    let (applied, took) = run.context.timed(work).await;
                    Ok((applied?, took))
                })
                .await?
        };
        Ok((batch.into_iter().zip(applied), took))
    }
}

/// Hears how the effect of a message ended in a transaction that took this long.
fn heard<S: Store + Clone>(
    run: &mut RunState<S>,
    incoming: &mut InHand,
    applied: &Applied,
    took: Duration,
) -> Judged {
    match ended(run, incoming, applied, took) {
        Some(verdict) if !matches!(applied, Applied::NotGranted(_)) => {
            run.hear(incoming.delivery, &verdict)
        }
        Some(_) | None => {
            run.ends_unheard(incoming.delivery);
            Judged::AsSaid
        }
    }
}

/// Emits that the effect of a message ended, if it began, also in an earlier call whose answer was lost; returns how.
fn ended<S: Store + Clone>(
    run: &RunState<S>,
    incoming: &mut InHand,
    applied: &Applied,
    took: Duration,
) -> Option<Verdict> {
    match applied {
        Applied::Completed { takeover } => incoming.trace_transaction(*takeover),
        Applied::Failed { .. } => incoming.trace_transaction(false),
        Applied::NotGranted(_) => {}
    }
    let verdict = match applied {
        Applied::Completed { .. }
        | Applied::NotGranted(Admission::Replay {
            duplicate: Duplicate::Own,
            ..
        }) => Verdict::Done(Bytes::new()),
        Applied::Failed { error, .. } => Verdict::NotApplied {
            error: error.clone(),
            retry_after: None,
        },
        Applied::NotGranted(_) => return None,
    };
    run.transaction_ended(incoming, &verdict, took);
    Some(verdict)
}

/// Deals with a result that the database has recorded.
fn conclude<S: Store + Clone>(
    run: &mut RunState<S>,
    incoming: InHand,
    applied: Applied,
) -> Result<()> {
    match applied {
        Applied::Completed { takeover } => run.completed(&incoming, takeover),
        Applied::NotGranted(admission) => {
            let answered_at = run.now();
            run.refused(incoming, admission, answered_at)?;
        }
        Applied::Failed {
            state: StateKind::Released,
            not_before,
            now,
            error,
        } => run.released(incoming, &error, not_before.since(now)),
        Applied::Failed { state, error, .. } => run.given_up(&incoming, state, &error),
    }
    Ok(())
}

/// The backoff of a message that is given back: it may be tried again at once.
const AT_ONCE: Backoff = Backoff {
    first: Duration::ZERO,
    most: Duration::ZERO,
};
