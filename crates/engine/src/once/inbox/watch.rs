//! The spans of calls within a caller's transaction: who gets them, and the trace of one call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Admission, Carried, ClaimRequest, Claimant, Result as CoreResult, Settled};

use super::super::error::Error;
use super::super::failure::{End as FailureEnd, Failure};
use super::super::receipt::Receipt;
use super::super::spans::{end_of, reason};
use crate::effect::{Class, TraceHeaders};
use crate::event::Observer;
use crate::summary::Fate;
use crate::surroundings::Surroundings;
use crate::system::{SystemClock, SystemEntropy};
use crate::trace::attempt::{AttemptTrace, Subject};
use crate::trace::{End, ProcessKind, SampleShare};

/// The observer of an inbox, and the trace of the request that its calls belong to. Cheap to clone.
///
/// The observer is handed spans and no events: what a call did is so only once its caller commits.
#[derive(Clone, Default)]
pub struct Watch {
    wanted: Option<Wanted>,
    carried: Option<Carried>,
}

#[derive(Clone)]
struct Wanted {
    surroundings: Surroundings,
    share: SampleShare,
}

impl Watch {
    /// Returns the same with this observer, which is asked now whether it wants spans; with the clock and the entropy of
    /// the system.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Self {
        let entropy = SystemEntropy;
        let claimant = Claimant::random(&entropy);
        self.within(Surroundings {
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(entropy),
            claimant,
            observer,
        })
    }

    /// Returns the same with an observer, a clock and an entropy of one's own.
    #[must_use]
    pub fn within(mut self, surroundings: Surroundings) -> Self {
        let share = surroundings.observer.wants_spans();
        self.wanted = share.map(|share| Wanted {
            surroundings,
            share,
        });
        self
    }

    /// Returns the same for calls of the request that came with this trace, if it is a valid one.
    #[must_use]
    pub fn came_with(mut self, trace: Option<TraceHeaders>) -> Self {
        self.carried = trace.and_then(TraceHeaders::carried);
        self
    }

    /// Begins the trace of a call, if anybody wants spans.
    pub(super) fn begin(&self, request: &ClaimRequest) -> Option<Box<CallTrace>> {
        let Wanted {
            surroundings,
            share,
        } = self.wanted.clone()?;
        let now = surroundings.clock.monotonic();
        // A claim that is asked for again after a commit without an answer has spans of its own.
        let fresh = surroundings.claim_id().randomness();
        let [.., a, b, c, d] = (fresh ^ (fresh >> 32)).to_be_bytes();
        let seed = (request.claim_id, u32::from_be_bytes([a, b, c, d]));
        Some(Box::new(CallTrace {
            attempt: AttemptTrace::begin(self.carried.clone(), share, seed, now),
            surroundings,
            runs_since: None,
            was_refused: false,
        }))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("wants_spans", &self.wanted.is_some())
            .finish_non_exhaustive()
    }
}

/// The trace of a call under way.
pub(super) struct CallTrace {
    attempt: AttemptTrace,
    surroundings: Surroundings,
    /// The time at which an effect began that has not ended.
    runs_since: Option<Duration>,
    /// The store has not taken the completion.
    was_refused: bool,
}

impl CallTrace {
    fn now(&self) -> Duration {
        self.surroundings.clock.monotonic()
    }

    /// Notes that the claim is asked for.
    pub(super) fn asks(&mut self) {
        self.attempt.is_asked_for(self.now());
    }

    /// Notes the store's answer to the claim. The effect of one that is granted begins.
    pub(super) fn answered(&mut self, answer: &CoreResult<Admission>) {
        let now = self.now();
        if let Ok(admission) = answer {
            self.attempt.admitted(now, admission);
        } else {
            self.attempt.answered(now, "failed", None);
            self.attempt.had_trouble = true;
        }
        if let Ok(Admission::Granted(_)) = answer {
            self.attempt.effect_begins(now);
            self.runs_since = Some(now);
        }
    }

    /// Notes the end of the effect. Whatever a failure says, it is undone.
    pub(super) fn ran(&mut self, failure: Option<&Failure>) {
        self.effect_ended(match failure.map(|it| it.end) {
            None => "applied",
            Some(FailureEnd::Dead { .. }) => "failed",
            Some(
                FailureEnd::NotApplied { .. }
                | FailureEnd::MaybeApplied
                | FailureEnd::Away { .. }
                | FailureEnd::GivenBack,
            ) => "not_applied",
        });
    }

    fn effect_ended(&mut self, verdict: &'static str) {
        let Some(since) = self.runs_since.take() else {
            return;
        };
        let now = self.now();
        let took = now.saturating_sub(since);
        self.attempt.effect_ended(|| now, took, verdict);
    }

    /// Notes the store's answer to the completion.
    pub(super) fn completed(&mut self, answer: &CoreResult<Settled>) {
        self.attempt.settled(self.now());
        self.was_refused = matches!(answer, Ok(Settled::Failed(_)) | Err(_));
    }

    /// Hands over the trace of a call that is answered so.
    pub(super) fn end<T>(self, request: &ClaimRequest, answer: &Result<Receipt<T>, Error>) {
        let end = match answer {
            Ok(receipt) if receipt.is_replay() => End::Fate(Fate::Replayed),
            Ok(_) => End::Fate(Fate::Applied),
            Err(_) if self.was_refused => End::StoreFailed,
            // It is a duplicate, whatever its caller can read.
            Err(Error::Unreadable { .. }) => End::Fate(Fate::Replayed),
            Err(error) => end_of(error),
        };
        let error = answer.as_ref().err().map(reason);
        self.hand_over(request, end, error.as_deref());
    }

    /// Hands over the trace of a call that nobody waits for any more, or whose effect panicked: nothing of it is recorded.
    pub(super) fn abandon(mut self, request: &ClaimRequest) {
        self.effect_ended("not_applied");
        self.hand_over(request, End::GivenBack, None);
    }

    fn hand_over(&self, request: &ClaimRequest, end: End, error: Option<&str>) {
        let subject = Subject {
            kind: ProcessKind::Internal,
            class: Class::Transactional,
            request,
            coordinates: "",
            message_bytes: 0,
        };
        let both_clocks = || self.surroundings.both_clocks();
        let recorded = self
            .attempt
            .recorded(both_clocks, (subject, false), end, error);
        if let Some(spans) = recorded {
            let name = request.operation.scope.operation();
            self.surroundings.observer.observe_spans(name, &spans);
        }
    }
}
