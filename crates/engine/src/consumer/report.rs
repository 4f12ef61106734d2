//! Reports on claims whose attempt has ended.

use semel_core::{Certainty, Claim, Outcome, Settlement, Step};

use super::desk::LONGEST_WAIT;
use super::pause::{GIVEN_BACK, Judged};
use crate::effect::Verdict;
use crate::pipeline::Pipeline;

/// What a verdict has the claim report.
pub(super) fn settlement(
    pipeline: &Pipeline,
    claim: Claim,
    verdict: Verdict,
    judged: Judged,
) -> Settlement {
    let window = pipeline.window;
    let counted = judged == Judged::AsSaid;
    let release = |error, certainty, after| Step::Release {
        error,
        certainty,
        after,
        counted,
        limits: pipeline.limits,
        window,
    };
    let backoff = match judged {
        Judged::AsSaid => pipeline.backoff.after(claim.attempt),
        Judged::GivenBack => GIVEN_BACK,
    };
    let step = match verdict {
        Verdict::Done(result) => Step::Complete {
            outcome: Outcome::raw(result, pipeline.outcome_limit_bytes),
            window,
        },
        Verdict::DoneUnkept { len_bytes, digest } => Step::Complete {
            outcome: Outcome::TooLarge { len_bytes, digest },
            window,
        },
        Verdict::NotApplied { error, retry_after } => {
            let after = retry_after.unwrap_or(backoff).min(LONGEST_WAIT);
            release(error, Certainty::NotApplied, after)
        }
        Verdict::MaybeApplied { error } => release(error, Certainty::MaybeApplied, backoff),
        Verdict::Dead { error, .. } if !counted => release(error, Certainty::NotApplied, backoff),
        Verdict::Dead { error, decisive } => Step::Fail {
            error,
            decisive,
            window,
        },
        Verdict::Away { error } => release(error, Certainty::NotApplied, backoff),
        Verdict::Broken { error, certainty } => release(error, certainty, backoff),
    };
    Settlement {
        operation: claim.operation,
        claim_id: claim.claim_id,
        step,
    }
}
