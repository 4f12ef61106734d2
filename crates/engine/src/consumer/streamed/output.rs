//! Outputs of the transform.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::Granted;
use crate::consumer::context::{Context, timed};
use crate::consumer::outstanding::Outstanding;
use crate::consumer::steps::call;
use crate::effect::{Call, Effect, Verdict};

/// Returns the output for each message, and the time that it took: the message itself, or the transform's result.
/// `None` once a shutdown has run out of patience.
pub(super) async fn output<E: Effect>(
    context: &Context,
    outstanding: &Outstanding,
    transform: Option<&Arc<E>>,
    granted: &[Granted],
) -> Option<Vec<(Verdict, Duration)>> {
    let Some(transform) = transform else {
        let payloads = granted.iter().map(|it| it.incoming.payload.clone());
        let outputs = payloads.map(|it| (Verdict::Done(it), Duration::ZERO));
        return Some(outputs.collect());
    };
    let now = context.surroundings.clock.now();
    let calls = granted.iter().map(
        |Granted {
             incoming, grant, ..
         }| {
            // A claim that no store keeps is over once its message is transformed.
            call(incoming, grant.claim(&incoming.request, now))
        },
    );
    let most = context.pipeline.concurrency;
    tokio::select! {
        biased;
        verdicts = transformed(context, transform, calls.collect(), most) => Some(verdicts),
        () = context.patience_is_over() => None,
        never = outstanding.keep() => match never {},
    }
}

/// Returns the verdicts of all calls, of which at most `most` run at once, and the time that each took.
async fn transformed<E: Effect>(
    context: &Context,
    transform: &Arc<E>,
    calls: VecDeque<Call>,
    most: usize,
) -> Vec<(Verdict, Duration)> {
    let unknown = Verdict::MaybeApplied {
        error: "the transform gave no verdict".into(),
    };
    let mut verdicts = vec![(unknown, Duration::ZERO); calls.len()];
    let mut waiting = calls.into_iter().enumerate();
    let mut running = JoinSet::new();
    loop {
        while running.len() < most.max(1)
            && let Some((place, call)) = waiting.next()
        {
            let transform = Arc::clone(transform);
            let clock = Arc::clone(&context.surroundings.clock);
            running.spawn(async move { (place, timed(&*clock, transform.call(call)).await) });
        }
        match running.join_next().await {
            None => return verdicts,
            Some(Ok((place, verdict))) => verdicts[place] = verdict,
            // A call that panicked has given no verdict.
            Some(Err(_)) => {}
        }
    }
}
