//! The trace of an attempt while it is under way: the identities of its spans, and the times so far. A message in hand, or
//! an item of a call, has one only if the observer wants spans, from the time that it is taken to be tried to the end of
//! the attempt.

use std::time::Duration;

use semel_core::{
    Admission, ByteString, Carried, ClaimId, ClaimRequest, Duplicate, Grant, SpanId, StateKind,
    TraceContext, TraceFlags, TraceId,
};

use super::{End, ProcessKind, SampleShare, Span, Spans};
use crate::effect::Class;

/// The place for the trace of a message in hand, or of an item of a call.
#[derive(Debug, Default)]
pub(crate) struct TraceSlot {
    pub(crate) trace: Option<Box<AttemptTrace>>,
    /// The count of attempts with it that have ended.
    pub(crate) ended: u32,
    /// A claim of it was lost.
    pub(crate) was_fenced: bool,
}

/// The subject of an attempt: a message, or an item of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) kind: ProcessKind,
    pub(crate) class: Class,
    pub(crate) request: &'a ClaimRequest,
    pub(crate) coordinates: &'a str,
    pub(crate) message_bytes: usize,
}

/// The trace of one attempt.
#[derive(Debug)]
pub(crate) struct AttemptTrace {
    pub(crate) parent: Option<TraceContext>,
    pub(crate) state: Option<ByteString>,
    process: TraceContext,
    claim_id: SpanId,
    effect_id: SpanId,
    settle_id: SpanId,
    pub(crate) began_at: Duration,
    pub(crate) asked_at: Duration,
    pub(crate) asked: u32,
    answered_at: Option<Duration>,
    effect_began_at: Option<Duration>,
    effect: Option<Period>,
    settled_at: Option<Duration>,
    decision: Option<&'static str>,
    duplicate: Option<Duplicate>,
    grant: Option<Grant>,
    verdict: Option<&'static str>,
    /// A transaction was a takeover; other claims have that in their grant.
    takeover: bool,
    /// The store failed for the message, or told of a doubt, however the attempt goes on.
    pub(crate) had_trouble: bool,
    /// The recorded outcome differs from that of an attempt before.
    pub(crate) outcome_differs: bool,
}

/// A time from its begin to its end, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Period {
    began_at: Duration,
    ended_at: Duration,
}

impl TraceSlot {
    pub(crate) fn get(&self) -> Option<&AttemptTrace> {
        self.trace.as_deref()
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut AttemptTrace> {
        self.trace.as_deref_mut()
    }

    /// Lets go of the trace of an attempt that ended so, and that another one may follow.
    pub(crate) fn clear(&mut self, end: End) {
        *self = Self {
            trace: None,
            ended: self.ended.saturating_add(1),
            was_fenced: self.was_fenced || end == End::Fenced,
        };
    }
}

impl AttemptTrace {
    /// Begins the trace of an attempt with a message or an item that carried this one, after so many others. All ids
    /// follow from that of the attempt's claim; an attempt may ask under the claim of the one before.
    pub(crate) fn begin(
        carried: Option<Carried>,
        share: SampleShare,
        (claim_id, ended): (ClaimId, u32),
        began_at: Duration,
    ) -> Self {
        let random = claim_id.randomness().wrapping_add(u64::from(ended) << 2);
        let [span_id, claim, effect, settle] = SpanId::four(random);
        let (parent, state) = match carried {
            Some(carried) => (Some(carried.context), carried.state),
            None => (None, None),
        };
        let process = if let Some(parent) = parent {
            parent.with_span(span_id)
        } else {
            let trace_id = TraceId::of_claim(claim_id);
            let mark = if share.has(trace_id) {
                TraceFlags::SAMPLED
            } else {
                TraceFlags::default()
            };
            TraceContext {
                trace_id,
                span_id,
                flags: TraceFlags::RANDOM.and(mark),
            }
        };
        Self {
            parent,
            state,
            process,
            claim_id: claim,
            effect_id: effect,
            settle_id: settle,
            began_at,
            asked_at: began_at,
            asked: 0,
            answered_at: None,
            effect_began_at: None,
            effect: None,
            settled_at: None,
            decision: None,
            duplicate: None,
            grant: None,
            verdict: None,
            takeover: false,
            had_trouble: false,
            outcome_differs: false,
        }
    }

    /// Tells whether the effect was called, and has ended.
    pub(crate) const fn was_called(&self) -> bool {
        self.effect.is_some()
    }

    /// Returns the span of the attempt.
    pub(crate) const fn process(&self) -> TraceContext {
        self.process
    }

    /// Returns the span of the effect, which the effect is told.
    pub(crate) const fn effect(&self) -> TraceContext {
        self.process.with_span(self.effect_id)
    }

    /// Notes that the effect is called.
    pub(crate) const fn effect_begins(&mut self, now: Duration) {
        self.effect_began_at = Some(now);
    }

    /// Notes that a transaction was granted its claim, which is no call of its own.
    pub(crate) const fn granted_within(&mut self, takeover: bool) {
        self.decision = Some("granted");
        self.takeover = takeover;
    }

    /// Notes that the claim was granted.
    pub(crate) fn granted(&mut self, now: Duration, grant: Grant) {
        self.answered(now, "granted", None);
        self.grant = Some(grant);
    }

    /// Notes the store's answer to the claim, as it gave it.
    pub(crate) fn admitted(&mut self, now: Duration, admission: &Admission) {
        let duplicate = match admission {
            Admission::Replay { duplicate, .. }
            | Admission::Conflict { duplicate, .. }
            | Admission::Parked { duplicate, .. } => Some(*duplicate),
            Admission::Granted(_)
            | Admission::Busy { .. }
            | Admission::Stale { .. }
            | Admission::TooOld
            | Admission::Failed(_) => None,
        };
        if let Admission::Granted(claim) = admission {
            self.grant = Some(claim.grant());
        }
        self.had_trouble |= matches!(
            admission,
            Admission::Failed(_)
                | Admission::Parked {
                    state: StateKind::InDoubt,
                    ..
                }
        );
        self.answered(now, admission.as_str(), duplicate);
    }

    /// Notes that the effect ended so after this time; the clock is read if nobody said when it began.
    pub(crate) fn effect_ended(
        &mut self,
        now: impl FnOnce() -> Duration,
        took: Duration,
        verdict: &'static str,
    ) {
        let began_at = self.effect_began_at.take();
        let began_at = began_at.unwrap_or_else(|| now().saturating_sub(took));
        self.effect = Some(Period {
            began_at,
            ended_at: began_at + took,
        });
        self.verdict = Some(verdict);
    }

    /// Notes that a batch was committed with the message in it, or was not: the commit is the effect, unless that went
    /// before.
    pub(crate) fn committed(&mut self, now: Duration, is_done: bool) {
        let Some(began_at) = self.effect_began_at.take() else {
            return self.settled(now);
        };
        self.effect = Some(Period {
            began_at,
            ended_at: now,
        });
        self.verdict = is_done.then_some("applied");
    }

    /// Notes that the store has answered the report on the claim.
    pub(crate) const fn settled(&mut self, now: Duration) {
        self.settled_at = Some(now);
    }

    /// Notes the store's answer to the claim.
    pub(crate) fn answered(
        &mut self,
        now: Duration,
        decision: &'static str,
        duplicate: Option<Duplicate>,
    ) {
        self.answered_at = Some(now);
        self.decision = Some(decision);
        self.duplicate = duplicate;
    }

    /// Returns the spans so far, at this time, both on the monotonic clock and since 1970.
    pub(crate) fn spans<'a>(
        &'a self,
        (now, since_1970): (Duration, Duration),
        (subject, was_fenced): (Subject<'a>, bool),
        end: End,
        error: Option<&'a str>,
    ) -> Spans<'a> {
        let span = |span_id, period: Period| Span {
            context: self.process.with_span(span_id),
            began: since_1970.saturating_sub(now.saturating_sub(period.began_at)),
            took: period.ended_at.saturating_sub(period.began_at),
        };
        let whole = Period {
            began_at: self.began_at,
            ended_at: now,
        };
        let claim = self.answered_at.map(|ended_at| Period {
            began_at: self.asked_at,
            ended_at,
        });
        // The report follows on the effect, or on the claim that was given back.
        let reported_at = self.effect.map(|it| it.ended_at).or(self.answered_at);
        let settle = self.settled_at.map(|ended_at| Period {
            began_at: reported_at.unwrap_or(self.began_at),
            ended_at,
        });
        let grant = self.grant;
        let process = span(self.process.span_id, whole);
        Spans {
            kind: subject.kind,
            class: Some(subject.class),
            parent: self.parent,
            state: self.state.as_deref(),
            claim: claim.map(|it| span(self.claim_id, it)),
            effect: self.effect.map(|it| span(self.effect_id, it)),
            settle: settle.map(|it| span(self.settle_id, it)),
            operation: Some(&subject.request.operation),
            claim_id: Some(subject.request.claim_id),
            message_bytes: subject.message_bytes,
            asked: self.asked,
            decision: self.decision,
            duplicate: self.duplicate,
            attempt: grant.map(|it| it.attempt),
            takeover: self.takeover || grant.is_some_and(|it| it.takeover),
            resumed: grant.is_some_and(|it| it.resumed),
            possible_repeat: grant.is_some_and(|it| it.possible_repeat),
            formerly_expired: grant.is_some_and(|it| it.formerly_expired),
            follows_fence: was_fenced,
            had_trouble: self.had_trouble,
            outcome_differs: self.outcome_differs,
            verdict: self.verdict,
            error: error.filter(|it| !it.is_empty()),
            ..Spans::new(process, subject.coordinates, end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_under_the_same_claim_has_spans_of_its_own() {
        let claim = ClaimId::from_u128(0xabc_0000_0000_0000_1234);
        let begin =
            |ended| AttemptTrace::begin(None, SampleShare::ALL, (claim, ended), Duration::ZERO);
        let ids: Vec<_> = [begin(0), begin(1)]
            .iter()
            .flat_map(|it| [it.process.span_id, it.claim_id, it.effect_id, it.settle_id])
            .collect();
        for (at, id) in ids.iter().enumerate() {
            assert!(!ids[..at].contains(id), "{ids:?}");
        }
        assert_eq!(begin(0).process.trace_id, begin(1).process.trace_id);
        assert_eq!(begin(0).process.trace_id.to_string(), claim.to_string());
    }
}
