//! Effects in the store's own transaction: claim, effect and record in one commit per batch.

use std::time::Duration;

use bytes::Bytes;
use semel_core::port::transactional::{
    AnyTransactionalStore, Application, Applied, Statements, TransactionalStore,
};
use semel_core::{Backoff, Result, StateKind, Store};

use super::desk::Desk;
use super::intake::Intake;
use super::pause::{GIVEN_BACK, Judged};
use crate::consumer::in_hand::InHand;
use crate::effect::Verdict;

pub(super) async fn run<S: Store + Clone>(
    desk: &mut Desk<S>,
    mut intake: Intake,
    transactions: AnyTransactionalStore,
    statements: Statements,
) -> Result<()> {
    let database = Database {
        transactions,
        statements,
    };
    loop {
        desk.gather(&mut intake).await;
        if desk.outstanding.is_done() {
            return desk.close(intake).await;
        }
        let room = desk.context.pipeline.batch.min(desk.room(0));
        let taken = desk.take_ready(room);
        for incoming in &taken {
            desk.begins(incoming.delivery);
        }
        // If more messages may fail than are set aside before the pipeline pauses, the database gives back the
        // failed ones, and those that are to be set aside fail once more.
        let gives_back = !desk.may_all_fail(taken.len());
        let mut again = Vec::new();
        let (applied, took) = desk
            .context
            .timed(database.apply(desk, taken, gives_back))
            .await;
        for (mut incoming, applied) in applied? {
            let judged = heard(desk, &mut incoming, &applied, took);
            match applied {
                Applied::Failed { error, .. } if gives_back => match judged {
                    Judged::AsSaid => again.push(incoming),
                    Judged::GivenBack => desk.released(incoming, &error, GIVEN_BACK),
                },
                applied => conclude(desk, incoming, applied)?,
            }
        }
        for incoming in &mut again {
            incoming.request.claim_id = desk.context.surroundings.claim_id();
        }
        let (applied, took) = desk.context.timed(database.apply(desk, again, false)).await;
        for (mut incoming, applied) in applied? {
            ended(desk, &mut incoming, &applied, took);
            conclude(desk, incoming, applied)?;
        }
        desk.flush(&intake).await?;
    }
}

/// The store of the effects, and their statements.
struct Database {
    transactions: AnyTransactionalStore,
    statements: Statements,
}

impl Database {
    /// Applies a batch; each message comes back with its result.
    async fn apply<S: Store + Clone>(
        &self,
        desk: &Desk<S>,
        mut batch: Vec<InHand>,
        gives_back: bool,
    ) -> Result<impl Iterator<Item = (InHand, Applied)> + use<S>> {
        let window = desk.context.pipeline.window;
        let backoff = if gives_back {
            AT_ONCE
        } else {
            desk.context.pipeline.backoff
        };
        let apply = batch.iter_mut().map(|incoming| Application {
            claim: incoming.request.clone(),
            values: std::mem::take(&mut incoming.values),
            window,
            backoff,
            gives_back,
        });
        let apply: Vec<_> = apply.collect();
        let applied = if apply.is_empty() {
            Vec::new()
        } else {
            desk.store
                .ask_slow(&desk.outstanding, || {
                    self.transactions.apply(&self.statements, &apply)
                })
                .await?
        };
        let batch = batch.into_iter().zip(apply).zip(applied);
        Ok(batch.map(|((mut incoming, application), applied)| {
            incoming.values = application.values;
            (incoming, applied)
        }))
    }
}

/// Hears how the effect of a message ended in a transaction that took this long.
fn heard<S: Store + Clone>(
    desk: &mut Desk<S>,
    incoming: &mut InHand,
    applied: &Applied,
    took: Duration,
) -> Judged {
    match ended(desk, incoming, applied, took) {
        Some(verdict) => desk.hear(incoming.delivery, &verdict),
        None => {
            desk.ends_unheard(incoming.delivery);
            Judged::AsSaid
        }
    }
}

/// Emits that the effect of a message ended, if it began; returns how.
fn ended<S: Store + Clone>(
    desk: &Desk<S>,
    incoming: &mut InHand,
    applied: &Applied,
    took: Duration,
) -> Option<Verdict> {
    let verdict = match applied {
        Applied::Completed { .. } => Verdict::Done(Bytes::new()),
        Applied::Failed { error, .. } => Verdict::NotApplied {
            error: error.clone(),
            retry_after: None,
        },
        Applied::NotGranted(_) => return None,
    };
    desk.transaction_ended(incoming, &verdict, took);
    Some(verdict)
}

/// Deals with a result that the database has recorded.
fn conclude<S: Store + Clone>(
    desk: &mut Desk<S>,
    incoming: InHand,
    applied: Applied,
) -> Result<()> {
    match applied {
        Applied::Completed { takeover } => desk.completed(&incoming, takeover),
        Applied::NotGranted(admission) => desk.refused(incoming, admission)?,
        Applied::Failed {
            state: StateKind::Released,
            not_before,
            now,
            error,
        } => desk.released(incoming, &error, not_before.since(now)),
        Applied::Failed { state, error, .. } => desk.given_up(&incoming, state, &error),
    }
    Ok(())
}

/// The backoff of a message that is given back: it may be tried again at once.
const AT_ONCE: Backoff = Backoff {
    first: Duration::ZERO,
    most: Duration::ZERO,
};
