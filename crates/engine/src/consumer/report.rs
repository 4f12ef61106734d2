//! Reports on claims whose attempt has ended.

use semel_core::{Certainty, Claim, Outcome, Settlement};

use super::pause::{GIVEN_BACK, Judged};
use crate::effect::Verdict;
use crate::pipeline::Pipeline;
use crate::step::{Ended, Terms, step_of};

/// Returns the settlement by which a claim reports its verdict.
pub(super) fn settlement(
    pipeline: &Pipeline,
    claim: Claim,
    verdict: Verdict,
    judged: Judged,
) -> Settlement {
    let terms = Terms {
        window: pipeline.window,
        limits: pipeline.limits,
        backoff: match judged {
            Judged::AsSaid => pipeline.backoff.after(claim.attempt),
            Judged::GivenBack => GIVEN_BACK,
        },
        counted: judged == Judged::AsSaid,
    };
    Settlement {
        operation: claim.operation,
        claim_id: claim.claim_id,
        step: step_of(ended(verdict, pipeline.outcome_limit_bytes), terms),
    }
}

/// Returns the outcome that a verdict would record, if the effect is done.
pub(super) fn outcome_of(pipeline: &Pipeline, verdict: Verdict) -> Option<Outcome> {
    match ended(verdict, pipeline.outcome_limit_bytes) {
        Ended::Done(outcome) => Some(outcome),
        Ended::NotApplied { .. } | Ended::Failed { .. } | Ended::Dead { .. } => None,
    }
}

fn ended(verdict: Verdict, outcome_limit_bytes: usize) -> Ended {
    match verdict {
        Verdict::Done(result) => Ended::Done(Outcome::raw(result, outcome_limit_bytes)),
        Verdict::DoneUnkept { len_bytes, digest } => {
            Ended::Done(Outcome::TooLarge { len_bytes, digest })
        }
        Verdict::NotApplied { error, retry_after } => Ended::NotApplied { error, retry_after },
        Verdict::MaybeApplied { error } => {
            let certainty = Certainty::MaybeApplied;
            Ended::Failed { error, certainty }
        }
        Verdict::Dead { error, decisive } => Ended::Dead { error, decisive },
        Verdict::Away { error } => {
            let certainty = Certainty::NotApplied;
            Ended::Failed { error, certainty }
        }
        Verdict::Broken { error, certainty } => Ended::Failed { error, certainty },
    }
}
