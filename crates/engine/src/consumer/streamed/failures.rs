//! Failed attempts of transforms, and the fates of their messages.

use std::collections::BTreeMap;

use semel_core::port::source::DeliveryId;
use semel_core::{StateKind, Store};

use super::Granted;
use crate::consumer::pause::{GIVEN_BACK, Judged};
use crate::consumer::run_state::RunState;
use crate::effect::Verdict;

/// Counts of the transform's failures for messages in hand. The counts do not outlive the process: a
/// failed transform leaves nothing behind that could be repeated.
#[derive(Default)]
pub(super) struct Failures(BTreeMap<DeliveryId, u32>);

impl Failures {
    pub(super) fn of(&self, delivery: DeliveryId) -> u32 {
        self.0.get(&delivery).copied().unwrap_or(0)
    }

    pub(super) fn forget(&mut self, delivery: DeliveryId) {
        if !self.0.is_empty() {
            self.0.remove(&delivery);
        }
    }

    /// Has the message tried again, or gives it up.
    pub(super) fn count<S: Store + Clone>(
        &mut self,
        run: &mut RunState<S>,
        granted: Granted,
        verdict: Verdict,
        judged: Judged,
    ) {
        let Granted {
            incoming, grant, ..
        } = granted;
        let attempt = grant.attempt;
        let (error, after, may_again) = match verdict {
            // Whatever was wrong, it was not the message's fault.
            Verdict::NotApplied { error, .. }
            | Verdict::MaybeApplied { error }
            | Verdict::Dead { error, .. }
            | Verdict::Away { error }
            | Verdict::Broken { error, .. }
                if judged == Judged::GivenBack =>
            {
                self.0.insert(incoming.delivery, attempt.saturating_sub(1));
                run.released(incoming, &error, GIVEN_BACK);
                return;
            }
            // Whatever a transform did outside is its own promise: it may be run again.
            Verdict::NotApplied { error, retry_after } => (error, retry_after, true),
            Verdict::MaybeApplied { error }
            | Verdict::Away { error }
            | Verdict::Broken { error, .. } => (error, None, true),
            Verdict::Dead { error, .. } => (error, None, false),
            Verdict::DoneUnkept { len_bytes, .. } => {
                let error = format!("{len_bytes} bytes are more than an output may have");
                (error.into(), None, false)
            }
            Verdict::Done(_) => return,
        };
        let pipeline = &run.context.pipeline;
        if may_again && attempt < pipeline.limits.failed.get() {
            let backoff = run
                .context
                .surroundings
                .jittered(pipeline.backoff.after(attempt));
            let wait = after.unwrap_or_default().max(backoff);
            self.0.insert(incoming.delivery, attempt);
            run.released(incoming, &error, wait);
        } else {
            self.forget(incoming.delivery);
            run.given_up(&incoming, StateKind::Dead, &error);
        }
    }
}
