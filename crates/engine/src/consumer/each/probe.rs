//! Recovery by a probe, which asks what became of an effect in doubt.

use std::sync::Arc;

use semel_core::decide::{Directed, Directive, Order, Refusal, Verdict};
use semel_core::{Claim, Outcome, Result, Store, Timestamp};

use super::super::run_state::Parts;
use super::super::steps::call;
use crate::consumer::in_hand::InHand;
use crate::effect::{Call, Effect, Probe};
use crate::retry::is_final;
use crate::trace::attempt::AttemptTrace;

/// The end of a probe.
pub(super) enum Probed {
    /// The store has the verdict.
    Resolved,
    /// The doubt remains.
    Unresolved,
    /// A shutdown has run out of patience meanwhile: somebody else may ask again.
    OutOfTime,
}

/// Asks the effect what became of an operation in doubt, which the store reported at `told_at` on its own
/// clock. Returns whether that resolved it.
///
/// However long the verdict is under way, it carries the earliest time at which its evidence can have been
/// looked for: by the time that the verdict arrives, an old call may have landed. DBT-5.
pub(super) async fn probe<S: Store + Clone, E: Effect>(
    parts: Parts<'_, S>,
    effect: &Arc<E>,
    incoming: &InHand,
    told_at: Timestamp,
) -> Result<Probed> {
    let (context, ..) = parts;
    tokio::select! {
        biased;
        () = context.patience_is_over() => Ok(Probed::OutOfTime),
        resolved = resolved(parts, effect, incoming, told_at) => match resolved {
            Ok(true) => Ok(Probed::Resolved),
            Ok(false) => Ok(Probed::Unresolved),
            // It was cut off, and what runs is still to be reported.
            Err(error) if !is_final(&error) => Ok(Probed::OutOfTime),
            Err(error) => Err(error),
        },
    }
}

async fn resolved<S: Store + Clone, E: Effect>(
    (context, store, outstanding): Parts<'_, S>,
    effect: &Arc<E>,
    incoming: &InHand,
    told_at: Timestamp,
) -> Result<bool> {
    let operation = incoming.request.operation.clone();
    let Some(record) = store.get_one(outstanding, &operation).await? else {
        return Ok(false);
    };
    let claim = Claim {
        operation: operation.clone(),
        claim_id: record.claim_id,
        token: record.token,
        lease_until: record.created_at,
        attempt: record.attempts,
        takeover: false,
        resumed: false,
        formerly_expired: false,
        possible_repeat: false,
        first_started_at: record.first_started_at,
    };
    let window = context.pipeline.window;
    // No call of the effect, whose span is told to nobody else.
    let call = Call {
        span: incoming.trace().map(AttemptTrace::process),
        ..call(incoming, claim)
    };
    let verdict = match effect.probe(&call).await {
        Probe::Unknown => return Ok(false),
        Probe::NotApplied => Verdict::NotApplied {
            quiet: effect.quiet(),
            asked: Some(told_at),
        },
        Probe::Applied(result) => Verdict::Applied {
            outcome: Outcome::raw(result, context.pipeline.outcome_limit_bytes),
            window,
        },
    };
    let directive = Directive {
        operation,
        order: Order::Resolve(verdict),
        note: None,
    };
    let directed = store.operate(outstanding, &Arc::from([directive])).await?;
    Ok(match directed.into_iter().next() {
        Some(Directed::Now(_) | Directed::Refused(Refusal::State(_) | Refusal::Absent)) => true,
        Some(Directed::Refused(Refusal::NotQuiet { .. }) | Directed::Failed(_)) | None => false,
    })
}
