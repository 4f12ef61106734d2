//! A pipeline that fails open while its store is away: messages that may run unprotected, and those that wait.
//!
//! A message is either protected or not, never both: if its claim was granted, or may have reached the store, it
//! runs only under a claim that the store has confirmed. If it ran under a claim, it is acknowledged only once
//! the store has taken its outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use semel_core::port::source::DeliveryId;
use semel_core::{Certainty, Claim, FencingToken, Settlement, Store, Timestamp};

use super::RunState;
use crate::consumer::in_hand::InHand;
use crate::consumer::pause::{GIVEN_BACK, Judged};
use crate::consumer::pending_settlements::PendingSettlements;
use crate::effect::{Class, Verdict};
use crate::event::{Event, Wait};
use crate::step;
use crate::summary::Fate;
use crate::trace::End;

/// Messages and settlements that wait for the store.
#[derive(Debug, Default)]
pub(in crate::consumer) struct OutageBacklog {
    /// Messages that the store must be asked about: they may have been claimed, or must not run without a claim
    /// (any more).
    suspended: Vec<InHand>,
    /// Settlements of claims whose attempt has ended or will not begin, and which the store has not accepted
    /// yet.
    unsettled: PendingSettlements,
    /// Deliveries in hand that were attempted without a claim, or must not be.
    tried: BTreeMap<DeliveryId, Tried>,
}

/// Attempts of one delivery without a claim.
#[derive(Debug, Default)]
struct Tried {
    attempts: u32,
    /// The time at which the latest attempt began.
    began: Duration,
    /// The time at which the first attempt began that may have been applied.
    maybe_since: Option<Duration>,
    /// No more attempts without a claim: the message waits for the store.
    is_over: bool,
}

impl OutageBacklog {
    /// Tells whether nothing waits for the store.
    pub(in crate::consumer) fn is_empty(&self) -> bool {
        self.suspended.is_empty() && self.unsettled.is_empty()
    }

    /// Counts the settlements that the store has not accepted yet.
    pub(super) fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// Takes out the settlements that the store has not accepted yet.
    pub(in crate::consumer) fn take_unsettled(&mut self) -> PendingSettlements {
        std::mem::take(&mut self.unsettled)
    }

    /// Keeps settlements that were reported and not answered, until the store accepts them.
    pub(in crate::consumer) fn put_back_unsettled(&mut self, unanswered: PendingSettlements) {
        self.unsettled.put_back(unanswered);
    }

    /// Keeps the settlement of a message whose claim had this token, until the store accepts it.
    pub(in crate::consumer) fn push_unsettled(
        &mut self,
        incoming: InHand,
        token: FencingToken,
        settlement: Settlement,
    ) {
        self.unsettled.push(incoming, token, settlement);
    }

    /// Forgets everything about a delivery that met its fate.
    pub(super) fn forget(&mut self, delivery: DeliveryId) {
        self.tried.remove(&delivery);
    }
}

impl<S: Store + Clone> RunState<S> {
    /// Tells whether something waits for the store; suspended messages count only if there is a slot for them.
    pub(in crate::consumer) fn waits_for_store(&self, has_slot: bool) -> bool {
        let has_suspended = has_slot && !self.backlog.suspended.is_empty();
        has_suspended || !self.backlog.unsettled.is_empty() || self.outcomes.parking() > 0
    }

    /// Takes messages to ask the store about, at most `max`, and counts those that were suspended before. While
    /// the store is away, it takes only suspended ones; if there are none, it takes one ready message, to find
    /// out whether the store is back.
    pub(in crate::consumer) fn take_to_ask(&mut self, max: usize) -> (Vec<InHand>, usize) {
        let count = max.min(self.backlog.suspended.len());
        let mut asking: Vec<_> = self.backlog.suspended.drain(..count).collect();
        self.context.begin_traces(&mut asking);
        let further = if self.store.is_away() {
            let is_due = self.store.is_due();
            usize::from(asking.is_empty() && max > 0 && is_due)
        } else {
            max - count
        };
        asking.extend(self.take_ready(further));
        (asking, count)
    }

    /// Keeps a message until the store can be asked about it.
    pub(in crate::consumer) fn suspend(&mut self, mut incoming: InHand) {
        if incoming.timing_mut().first_waits(Wait::Store) {
            self.context.observe(&Event::Waits { why: Wait::Store });
        }
        self.backlog.suspended.push(incoming);
    }

    /// Notes that a message was claimed, or may have been: it is not run without a claim any more.
    pub(in crate::consumer) fn note_claimed(&mut self, delivery: DeliveryId) {
        if self.store.fails_open() && !semel_core::planted("U08") {
            self.backlog.tried.entry(delivery).or_default().is_over = true;
        }
    }

    /// Stops waiting for the store, at a shutdown.
    pub(in crate::consumer) fn put_back_suspended(&mut self) {
        let suspended = std::mem::take(&mut self.backlog.suspended);
        self.outstanding.put_back(suspended);
    }

    /// Begins a message without a claim, if that is allowed, and returns it with a substitute for a claim;
    /// otherwise the message waits for the store.
    pub(in crate::consumer) fn begin_unprotected(
        &mut self,
        mut incoming: InHand,
    ) -> Option<(InHand, Claim)> {
        let now = self.now();
        let request = &incoming.request;
        let is_too_old = request.birth.is_some_and(|birth| {
            let wall = self.context.surroundings.clock.now();
            request.window.is_too_old(birth, wall)
        });
        if is_too_old || self.is_past_provider(incoming.delivery) {
            self.suspend(incoming);
            return None;
        }
        let tried = self.backlog.tried.entry(incoming.delivery).or_default();
        if tried.is_over {
            self.suspend(incoming);
            return None;
        }
        if !self.begins(incoming.delivery) {
            self.outstanding.put_back(vec![incoming]);
            return None;
        }
        let tried = self.backlog.tried.entry(incoming.delivery).or_default();
        tried.attempts += 1;
        tried.began = now;
        let attempt = tried.attempts;
        self.context.trace_unprotected(&mut incoming);
        self.outcomes.counts().unprotected_calls += 1;
        let operation = &incoming.request.operation;
        self.context
            .observe_message(&incoming, &Event::Unprotected { operation, attempt });
        let claim = Claim {
            operation: operation.clone(),
            claim_id: incoming.request.claim_id,
            // Below every token: a target that refuses smaller tokens refuses this one.
            token: FencingToken::new(0),
            lease_until: Timestamp::EPOCH,
            attempt,
            takeover: false,
            resumed: false,
            formerly_expired: false,
            // The store could not be asked.
            possible_repeat: true,
            first_started_at: None,
        };
        Some((incoming, claim))
    }

    /// Tells whether a call without a claim may have been applied so long ago that its provider no longer
    /// recognises the key.
    pub(in crate::consumer) fn is_past_provider(&self, delivery: DeliveryId) -> bool {
        let Class::Keyed { provider_window } = self.context.class else {
            return false;
        };
        let tried = self.backlog.tried.get(&delivery);
        let since = tried.and_then(|tried| tried.maybe_since);
        since.is_some_and(|since| self.now().saturating_sub(since) >= provider_window)
    }

    /// Adds to the verdict of a claimed call the doubt that an earlier call without a claim left behind.
    pub(in crate::consumer) fn with_doubt(
        &self,
        delivery: DeliveryId,
        verdict: Verdict,
    ) -> Verdict {
        let tried = self.backlog.tried.get(&delivery);
        if tried.is_some_and(|tried| tried.maybe_since.is_some()) {
            return doubting(verdict);
        }
        verdict
    }

    /// Deals with the end of an attempt without a claim. Only a success is a fate: after any other end the
    /// message is tried again, with a claim as soon as the store is back.
    pub(in crate::consumer) fn end_unprotected(&mut self, mut incoming: InHand, verdict: Verdict) {
        let judged = self.hear(incoming.delivery, &verdict);
        let most = self.context.pipeline.limits.failed.get();
        let backoff = self.context.pipeline.backoff;
        let tried = self.backlog.tried.entry(incoming.delivery).or_default();
        if judged == Judged::GivenBack {
            tried.attempts = tried.attempts.saturating_sub(1);
        }
        tried.is_over |= tried.attempts >= most;
        let backoff = match judged {
            Judged::AsSaid => backoff.after(tried.attempts),
            Judged::GivenBack => GIVEN_BACK,
        };
        let (error, wait) = match verdict {
            Verdict::Done(_) | Verdict::DoneUnkept { .. } => {
                let fate = if semel_core::planted("U05") {
                    Fate::Applied
                } else {
                    Fate::Unprotected
                };
                return self.settle(&incoming, fate);
            }
            Verdict::NotApplied { .. } | Verdict::MaybeApplied { .. }
                if semel_core::planted("U01") =>
            {
                return self.settle(&incoming, Fate::Unprotected);
            }
            Verdict::NotApplied { error, retry_after } => (error, step::wait(retry_after, backoff)),
            Verdict::Away { error }
            | Verdict::Broken {
                error,
                certainty: Certainty::NotApplied,
            } => (error, backoff),
            Verdict::MaybeApplied { error }
            | Verdict::Broken {
                error,
                certainty: Certainty::MaybeApplied,
            } => {
                tried.maybe_since.get_or_insert(tried.began);
                (error, backoff)
            }
            // A dead letter needs a store that keeps it.
            Verdict::Dead { error, .. } => {
                tried.is_over |= judged == Judged::AsSaid;
                (error, backoff)
            }
        };
        let wait = self.context.surroundings.jittered(wait);
        let operation = &incoming.request.operation;
        let event = Event::Released {
            operation,
            error: &error,
            wait,
        };
        self.context.observe_message(&incoming, &event);
        self.context
            .end_attempt(&mut incoming, End::Released, Some(&error));
        self.hold(incoming, Wait::Backoff, wait);
    }
}

/// Keeps the doubt of a call without a claim, which the store knows nothing of: a later call speaks only for
/// itself and must not make the record say that the effect surely did not happen. DBT-6.
fn doubting(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::NotApplied { error, .. }
        | Verdict::Dead {
            error,
            decisive: false,
        } => Verdict::MaybeApplied { error },
        // Given back as well, and with the doubt on record.
        Verdict::Away { error } | Verdict::Broken { error, .. } => Verdict::Broken {
            error,
            certainty: Certainty::MaybeApplied,
        },
        Verdict::Done(_)
        | Verdict::DoneUnkept { .. }
        | Verdict::MaybeApplied { .. }
        | Verdict::Dead { decisive: true, .. } => verdict,
    }
}

/// Returns the verdict on a message that may have been applied without a claim, so long ago that its provider
/// would not recognise another call as a repetition.
pub(in crate::consumer) fn past_provider() -> Verdict {
    Verdict::MaybeApplied {
        error: "it ran unprotected, and its provider may have forgotten the key since".into(),
    }
}
