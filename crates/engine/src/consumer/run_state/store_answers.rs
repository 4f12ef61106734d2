//! The fate of a message in hand, from each answer of the store.

use std::num::NonZeroU32;
use std::time::Duration;

use semel_core::{
    Admission, Advice, Certainty, Claim, Duplicate, Error, FencingToken, Grant, Result, Settlement,
    StateKind, Step, Store, Timestamp,
};

use super::RunState;
use crate::consumer::in_hand::InHand;
use crate::consumer::store_calls::RECHECK;
use crate::event::{Event, Wait};
use crate::retry::is_final;
use crate::summary::Fate;
use crate::trace::End;

impl<S: Store + Clone> RunState<S> {
    /// Deals with an admission of that time that grants nothing.
    pub(in crate::consumer) fn refused(
        &mut self,
        mut incoming: InHand,
        admission: Admission,
        answered_at: Duration,
    ) -> Result<()> {
        incoming.trace_answer(answered_at, &admission);
        let operation = &incoming.request.operation;
        match admission {
            Admission::Granted(claim) => self.too_late(incoming, claim),
            Admission::Replay {
                duplicate: Duplicate::Own,
                ..
            } => {
                self.completed(&incoming, false);
            }
            Admission::Replay { duplicate, outcome } => {
                if let (Some(lost), Some(recorded)) = (incoming.lost(), &outcome)
                    && lost.differs(recorded)
                {
                    if let Some(trace) = incoming.trace_mut() {
                        trace.outcome_differs = true;
                    }
                    let operation = &incoming.request.operation;
                    let differs = Event::OutcomeDiffers { operation };
                    self.context.observe_message(&incoming, &differs);
                }
                let operation = &incoming.request.operation;
                self.context.observe_message(
                    &incoming,
                    &Event::Replayed {
                        operation,
                        duplicate,
                    },
                );
                self.settle(&incoming, Fate::Replayed);
            }
            Admission::Busy { until, now } => self.hold_back(incoming, until, now),
            Admission::Conflict { duplicate, first } => {
                let coordinates = &incoming.coordinates;
                let differing = self.context.pipeline.differing(&incoming, first.as_ref());
                self.context.observe_message(
                    &incoming,
                    &Event::Conflicted {
                        operation,
                        coordinates,
                        duplicate,
                        differing: &differing,
                    },
                );
                let detail = format!("the key was used with another request: {differing}");
                self.set_aside(&incoming, "fingerprint-conflict", &detail, Fate::Conflict);
            }
            Admission::Stale { applied } => {
                self.context
                    .observe_message(&incoming, &Event::Stale { operation, applied });
                self.settle(&incoming, Fate::Stale);
            }
            Admission::Parked { state, .. } => {
                let coordinates = &incoming.coordinates;
                self.context.observe_message(
                    &incoming,
                    &Event::Parked {
                        operation,
                        coordinates,
                        state,
                    },
                );
                self.parked(&incoming, state, "its operation was given up before");
            }
            Admission::TooOld if self.context.pipeline.live_only && incoming.is_sent_again => {
                let coordinates = &incoming.coordinates;
                self.context.observe_message(
                    &incoming,
                    &Event::LiveOnly {
                        operation,
                        coordinates,
                    },
                );
                self.outcomes.counts().suppressed += 1;
                let detail = "no record, a replay id, and an effect for live messages alone";
                self.set_aside(&incoming, "live-only", detail, Fate::Quarantined);
            }
            Admission::TooOld => {
                let coordinates = &incoming.coordinates;
                self.context.observe_message(
                    &incoming,
                    &Event::TooOld {
                        operation,
                        coordinates,
                    },
                );
                let detail = "no record, and older than the window";
                self.set_aside(&incoming, "too-old", detail, Fate::TooOld);
            }
            Admission::Failed(error) => {
                if error.certainty() == Certainty::MaybeApplied {
                    self.note_claimed(incoming.delivery);
                }
                self.hold_failed(incoming, error)?;
            }
        }
        Ok(())
    }

    /// Gives back a claim that was granted too late to begin under it, or during a shutdown, and asks anew: if its lease
    /// ran out, it would tell of an attempt that never was.
    pub(in crate::consumer) fn too_late(&mut self, incoming: InHand, claim: Claim) {
        self.note_claimed(incoming.delivery);
        let token = claim.token;
        let settlement = Settlement {
            operation: claim.operation,
            claim_id: claim.claim_id,
            step: Step::Release {
                error: "granted too late to begin".into(),
                certainty: Certainty::NotApplied,
                after: Duration::ZERO,
                counted: false,
                limits: self.context.pipeline.limits,
                window: self.context.pipeline.window,
            },
        };
        self.backlog.push_unsettled(incoming, token, settlement);
    }

    /// Holds back an item that the store could not decide; fails if the store never will.
    pub(in crate::consumer) fn hold_failed(
        &mut self,
        mut incoming: InHand,
        error: Error,
    ) -> Result<()> {
        incoming.trace_trouble();
        let wait = match error.advice() {
            Advice::Retry { after } => self.context.surroundings.jittered(after).max(RECHECK),
            Advice::Fix | Advice::LookUpFirst | Advice::Stop | Advice::Alarm => RECHECK,
        };
        self.failed_for(error, wait)?;
        self.hold(incoming, Wait::Store, wait);
        Ok(())
    }

    /// Emits a failure after which everything is tried again; fails if that never helps.
    fn failed_for(&self, error: Error, wait: Duration) -> Result<()> {
        if is_final(&error) {
            return Err(error);
        }
        self.context.observe(&Event::StoreFailed {
            error: &error,
            wait,
        });
        Ok(())
    }

    /// Emits that an attempt begins whose claim was granted at this time.
    pub(in crate::consumer) fn granted(
        &self,
        incoming: &mut InHand,
        grant: Grant,
        answered_at: Duration,
    ) {
        incoming.trace_grant(answered_at, grant);
        let operation = &incoming.request.operation;
        self.context
            .observe_message(incoming, &Event::Granted { operation, grant });
    }

    /// Counts and settles a message whose effect happened and is recorded.
    pub(in crate::consumer) fn completed(&mut self, incoming: &InHand, takeover: bool) {
        self.outcomes.counts().takeovers += u64::from(takeover);
        self.context.observe_message(
            incoming,
            &Event::Completed {
                operation: &incoming.request.operation,
                takeover,
            },
        );
        self.settle(incoming, Fate::Applied);
    }

    /// Holds back a message whose next attempt follows after `wait`.
    pub(in crate::consumer) fn released(
        &mut self,
        mut incoming: InHand,
        error: &str,
        wait: Duration,
    ) {
        self.context.observe_message(
            &incoming,
            &Event::Released {
                operation: &incoming.request.operation,
                error,
                wait,
            },
        );
        self.context
            .end_attempt(&mut incoming, End::Released, Some(error));
        incoming.request.claim_id = self.context.surroundings.claim_id();
        self.hold(incoming, Wait::Backoff, wait);
    }

    /// Parks a message whose attempt ended in a state that carries the case on: dead or in doubt.
    pub(in crate::consumer) fn given_up(
        &mut self,
        incoming: &InHand,
        state: StateKind,
        error: &str,
    ) {
        let operation = &incoming.request.operation;
        let coordinates = &incoming.coordinates;
        if state == StateKind::Dead {
            self.context.observe_message(
                incoming,
                &Event::Dead {
                    operation,
                    coordinates,
                    error,
                },
            );
        } else {
            self.context.observe_message(
                incoming,
                &Event::InDoubt {
                    operation,
                    coordinates,
                    error,
                },
            );
        }
        self.parked(incoming, state, error);
    }

    fn parked(&mut self, incoming: &InHand, state: StateKind, detail: &str) {
        if state == StateKind::Dead {
            self.set_aside(incoming, "dead", detail, Fate::Dead);
        } else {
            self.set_aside(incoming, "in-doubt", detail, Fate::InDoubt);
        }
    }

    /// Asks again for a message whose claim was lost: its result is discarded, and nothing is
    /// acknowledged.
    pub(in crate::consumer) fn fenced(
        &mut self,
        mut incoming: InHand,
        token: FencingToken,
        found: Option<StateKind>,
    ) {
        if semel_core::planted("M06") {
            return self.settle(&incoming, Fate::Replayed);
        }
        self.outcomes.counts().fenced += 1;
        let operation = &incoming.request.operation;
        self.context.observe_message(
            &incoming,
            &Event::Fenced {
                operation,
                token,
                found,
            },
        );
        self.context.end_attempt(&mut incoming, End::Fenced, None);
        incoming.request.claim_id = self.context.surroundings.claim_id();
        self.hold(incoming, Wait::Busy, RECHECK);
    }

    /// Holds a message back for `wait`.
    pub(super) fn hold(&mut self, mut incoming: InHand, why: Wait, wait: Duration) {
        if incoming.timing_mut().first_waits(why) {
            self.context.observe(&Event::Waits { why });
        }
        // What the store takes is added to the message; what others take is not.
        if why != Wait::Store {
            let now = self.now();
            incoming.timing_mut().begin_wait(now);
        }
        self.outstanding.delay(incoming, wait);
    }

    /// Lets go of a message that another consumer has by now.
    pub(in crate::consumer) fn gone(&mut self, incoming: &InHand) {
        self.forget(incoming.delivery);
        self.context.end_trace(incoming, End::Gone, None);
        self.outcomes.count(Fate::Released);
        let now = self.now();
        self.outstanding
            .finish(incoming.lane(), incoming.payload.len(), now);
        self.outstanding.revoke(incoming.delivery);
    }

    /// Counts a claim that took the place of one whose lease ran out.
    pub(in crate::consumer) fn taken_over(&mut self) {
        self.outcomes.counts().takeovers += 1;
    }

    fn hold_back(&mut self, mut incoming: InHand, until: Timestamp, now: Timestamp) {
        if semel_core::planted("M07") {
            return self.settle(&incoming, Fate::Replayed);
        }
        if semel_core::planted("M20") {
            let failed = &mut incoming.request.limits.failed;
            *failed = NonZeroU32::new(failed.get() - 1).unwrap_or(NonZeroU32::MIN);
        }
        // Its owner may be done long before its lease ends.
        let wait = until.since(now).clamp(Duration::from_millis(5), RECHECK);
        self.context.observe_message(
            &incoming,
            &Event::Busy {
                operation: &incoming.request.operation,
                wait,
            },
        );
        self.hold(incoming, Wait::Busy, wait);
    }

    fn set_aside(&mut self, incoming: &InHand, reason: &'static str, detail: &str, fate: Fate) {
        if semel_core::planted("M35") && fate == Fate::Dead {
            return self.settle(incoming, fate);
        }
        self.forget(incoming.delivery);
        self.context
            .end_trace(incoming, End::Fate(fate), Some(detail));
        self.outcomes.park(incoming, reason, detail, fate);
    }

    pub(super) fn settle(&mut self, incoming: &InHand, fate: Fate) {
        self.forget(incoming.delivery);
        self.context.end_trace(incoming, End::Fate(fate), None);
        self.outcomes.settle(incoming, fate);
    }
}
