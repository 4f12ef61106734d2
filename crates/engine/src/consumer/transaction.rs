//! Effects in the store's own transaction: claim, effect and record in one commit per batch.

use semel_core::port::transactional::{
    AnyTransactionalStore, Application, Applied, Statements, TransactionalStore,
};
use semel_core::{Result, StateKind, Store};

use super::desk::Desk;
use super::intake::Intake;

pub(super) async fn run<S: Store + Clone>(
    desk: &mut Desk<S>,
    mut intake: Intake,
    transactions: AnyTransactionalStore,
    statements: Statements,
) -> Result<()> {
    let (window, backoff) = (desk.pipeline.window, desk.pipeline.backoff);
    loop {
        desk.gather(&mut intake).await;
        if desk.is_done() {
            return desk.close(intake).await;
        }
        let mut taken = desk.lanes.take(desk.pipeline.batch);
        let apply = taken.iter_mut().map(|incoming| Application {
            claim: incoming.request.clone(),
            values: std::mem::take(&mut incoming.values),
            window,
            backoff,
        });
        let apply: Vec<_> = apply.collect();
        let applied = if apply.is_empty() {
            Vec::new()
        } else {
            desk.ask_slow(|| transactions.apply(&statements, &apply))
                .await?
        };
        for ((mut incoming, application), applied) in taken.into_iter().zip(apply).zip(applied) {
            incoming.values = application.values;
            match applied {
                Applied::Completed { takeover } => desk.completed(&incoming, takeover),
                Applied::NotGranted(admission) => desk.refused(incoming, admission)?,
                Applied::Failed {
                    state: StateKind::Released,
                    not_before,
                    now,
                    error,
                } => {
                    desk.released(incoming, &error, not_before.since(now));
                }
                Applied::Failed { state, error, .. } => desk.given_up(&incoming, state, &error),
            }
        }
        desk.flush(&intake).await?;
    }
}
