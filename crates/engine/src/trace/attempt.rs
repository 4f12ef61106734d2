//! The trace of an attempt while it is under way: the identities of its spans, and the times so far. A message in hand, or
//! an item of a call, has one only if the observer wants spans, from the time that it is taken to be tried to the end of
//! the attempt.

use std::num::NonZeroU64;
use std::time::Duration;

use semel_core::{
    Admission, ByteString, Carried, ClaimId, ClaimRequest, Duplicate, Grant, SpanId, StateKind,
    TraceContext, TraceFlags, TraceId,
};

use super::{End, HttpExchange, ProcessKind, SampleShare, Span, Spans};
use crate::effect::Class;

/// The place for the trace of a message in hand, or of an item of a call.
#[derive(Debug, Default)]
pub(crate) struct TraceSlot {
    pub(crate) trace: Option<AttemptTrace>,
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

/// The trace of one attempt. Compact, and a part of the message in hand: most traces are not recorded, and cost what
/// writing them into memory costs.
#[derive(Debug)]
pub(crate) struct AttemptTrace {
    /// The span that the message or the call came with, which is of the same trace.
    parent: Option<SpanId>,
    state: Option<Box<ByteString>>,
    process: TraceContext,
    began_at: Duration,
    asked_at: Offset,
    answered_at: Option<Offset>,
    effect_began_at: Option<Offset>,
    effect_ended_at: Option<Offset>,
    settled_at: Option<Offset>,
    asked: u32,
    duplicate: Option<Duplicate>,
    grant: Option<Grant>,
    decision: Option<&'static str>,
    verdict: Option<&'static str>,
    http: Option<Box<HttpExchange>>,
    /// A transaction was a takeover; other claims have that in their grant.
    takeover: bool,
    /// The store failed for the message, or told of a doubt, however the attempt goes on.
    pub(crate) had_trouble: bool,
    /// The recorded outcome differs from that of an attempt before.
    pub(crate) outcome_differs: bool,
}

/// The time from the begin of an attempt to something in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Offset {
    /// Nanoseconds and one more, so that nothing is said in the same eight bytes.
    after: NonZeroU64,
}

impl Offset {
    const BEGIN: Self = Self {
        after: NonZeroU64::MIN,
    };

    fn new(since_begin: Duration) -> Self {
        let nanos = u64::try_from(since_begin.as_nanos()).unwrap_or(u64::MAX);
        Self {
            after: Self::BEGIN.after.saturating_add(nanos),
        }
    }

    fn get(self) -> Duration {
        Duration::from_nanos(self.after.get() - 1)
    }
}

impl TraceSlot {
    pub(crate) fn get(&self) -> Option<&AttemptTrace> {
        self.trace.as_ref()
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut AttemptTrace> {
        self.trace.as_mut()
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
        let [span_id, ..] = SpanId::four(random);
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
            parent: parent.map(|it| it.span_id),
            state: state.map(Box::new),
            process,
            began_at,
            asked_at: Offset::BEGIN,
            answered_at: None,
            effect_began_at: None,
            effect_ended_at: None,
            settled_at: None,
            asked: 0,
            duplicate: None,
            grant: None,
            decision: None,
            verdict: None,
            http: None,
            takeover: false,
            had_trouble: false,
            outcome_differs: false,
        }
    }

    /// Notes that the claim is asked for.
    pub(crate) fn is_asked_for(&mut self, now: Duration) {
        self.asked_at = self.offset(now);
        self.asked = self.asked.saturating_add(1);
    }

    /// Tells whether the effect was called, and has ended.
    pub(crate) const fn was_called(&self) -> bool {
        self.effect_ended_at.is_some()
    }

    /// Returns the span of the attempt.
    pub(crate) const fn process(&self) -> TraceContext {
        self.process
    }

    /// Returns the span that the message or the call came with.
    pub(crate) fn parent(&self) -> Option<TraceContext> {
        self.parent.map(|it| self.process.with_span(it))
    }

    /// Returns the `tracestate` that came with it.
    pub(crate) fn state(&self) -> Option<&str> {
        self.state.as_deref().map(|it| &**it)
    }

    /// Returns the span of the effect, which the effect is told.
    pub(crate) fn effect(&self) -> TraceContext {
        let [_, _, effect, _] = self.span_ids();
        self.process.with_span(effect)
    }

    /// Notes that the effect is called.
    pub(crate) fn effect_begins(&mut self, now: Duration) {
        self.effect_began_at = Some(self.offset(now));
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
        let began_at = match self.effect_under_way() {
            Some(began_at) => began_at,
            None => self.offset(now().saturating_sub(took)),
        };
        self.effect_began_at = Some(began_at);
        self.effect_ended_at = Some(Offset::new(began_at.get() + took));
        self.verdict = Some(verdict);
    }

    /// Notes the request of HTTP that the effect was.
    pub(crate) fn exchanged(&mut self, exchange: HttpExchange) {
        self.http = Some(Box::new(exchange));
    }

    /// Notes that an effect that has not ended is broken off: nobody knows how it would have ended.
    pub(crate) fn abandon_effect(&mut self, now: Duration) {
        if self.effect_under_way().is_some() {
            self.effect_ended_at = Some(self.offset(now));
            self.verdict = Some("maybe_applied");
        }
    }

    /// Notes that a batch was committed with the message in it, or was not: the commit is the effect, unless that went
    /// before.
    pub(crate) fn committed(&mut self, now: Duration, is_done: bool) {
        if self.effect_under_way().is_none() {
            return self.settled(now);
        }
        self.effect_ended_at = Some(self.offset(now));
        self.verdict = is_done.then_some("applied");
    }

    /// Notes that the store has answered the report on the claim.
    pub(crate) fn settled(&mut self, now: Duration) {
        self.settled_at = Some(self.offset(now));
    }

    /// Notes the store's answer to the claim.
    pub(crate) fn answered(
        &mut self,
        now: Duration,
        decision: &'static str,
        duplicate: Option<Duplicate>,
    ) {
        self.answered_at = Some(self.offset(now));
        self.decision = Some(decision);
        self.duplicate = duplicate;
    }

    /// Returns the spans of the attempt that ends so if they are recorded. Only then are the clocks read: the monotonic one,
    /// and the time since 1970.
    pub(crate) fn recorded<'a>(
        &'a self,
        both_clocks: impl FnOnce() -> (Duration, Duration),
        (subject, was_fenced): (Subject<'a>, bool),
        end: End,
        error: Option<&'a str>,
    ) -> Option<Spans<'a>> {
        self.is_recorded(was_fenced, end)
            .then(|| self.made(both_clocks(), (subject, was_fenced), end, error))
    }

    fn made<'a>(
        &'a self,
        (now, since_1970): (Duration, Duration),
        (subject, was_fenced): (Subject<'a>, bool),
        end: End,
        error: Option<&'a str>,
    ) -> Spans<'a> {
        let took = now.saturating_sub(self.began_at);
        let began = since_1970.saturating_sub(took);
        let [process, claim, effect, settle] = self.span_ids();
        let span = |span_id, from: Offset, to: Offset| Span {
            context: self.process.with_span(span_id),
            began: began + from.get(),
            took: to.get().saturating_sub(from.get()),
        };
        // The report follows on the effect, or on the claim that was given back.
        let reported_at = self.effect_ended_at.or(self.answered_at);
        let reported_at = reported_at.unwrap_or(Offset::BEGIN);
        let effect_span = self.effect_began_at.zip(self.effect_ended_at);
        let grant = self.grant;
        Spans {
            kind: subject.kind,
            class: Some(subject.class),
            parent: self.parent(),
            state: self.state(),
            claim: self.answered_at.map(|it| span(claim, self.asked_at, it)),
            effect: effect_span.map(|(from, to)| span(effect, from, to)),
            settle: self.settled_at.map(|it| span(settle, reported_at, it)),
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
            http: self.http.as_deref(),
            error: error.filter(|it| !it.is_empty()),
            ..Spans::new(
                span(process, Offset::BEGIN, Offset::new(took)),
                subject.coordinates,
                end,
            )
        }
    }

    /// Tells whether the spans of the attempt that ends so [are recorded](Spans::are_recorded), without making them.
    fn is_recorded(&self, was_fenced: bool, end: End) -> bool {
        let is_hard = |it: Grant| it.takeover || it.resumed || it.possible_repeat;
        self.process.flags.is_sampled()
            || self.takeover
            || self.grant.is_some_and(is_hard)
            || was_fenced
            || self.had_trouble
            || self.outcome_differs
            || end.is_hard(self.was_called() || self.verdict.is_some(), self.verdict)
    }

    /// Returns the ids of the spans of the attempt, the claim, the effect and the report.
    fn span_ids(&self) -> [SpanId; 4] {
        SpanId::four(u64::from_be_bytes(self.process.span_id.to_bytes()))
    }

    /// Returns the begin of an effect that has not ended.
    fn effect_under_way(&self) -> Option<Offset> {
        self.effect_began_at
            .filter(|_| self.effect_ended_at.is_none())
    }

    fn offset(&self, now: Duration) -> Offset {
        Offset::new(now.saturating_sub(self.began_at))
    }
}

#[cfg(test)]
mod tests {
    use semel_core::{FencingToken, Key, Scope};

    use super::*;
    use crate::summary::Fate;

    #[test]
    fn what_is_recorded_is_said_before_the_spans_are_made() {
        let grant = Grant::first(FencingToken::new(1));
        let ends = [
            End::Claimed,
            End::Released,
            End::Fenced,
            End::Gone,
            End::GivenBack,
            End::StoreFailed,
            End::Fate(Fate::Applied),
            End::Fate(Fate::Conflict),
        ];
        let grants = [
            None,
            Some(grant),
            Some(Grant {
                takeover: true,
                ..grant
            }),
            Some(Grant {
                resumed: true,
                ..grant
            }),
            Some(Grant {
                possible_repeat: true,
                ..grant
            }),
            Some(Grant {
                formerly_expired: true,
                ..grant
            }),
        ];
        let claim = ClaimId::from_u128(7);
        let request = ClaimRequest::new(
            Scope::new("", "charge").expect("a name"),
            Key::from(1),
            claim,
        );
        let mut kept = 0;
        for bits in 0..1 << 6 {
            let has = |bit: u32| bits & (1 << bit) != 0;
            let share = if has(0) {
                SampleShare::ALL
            } else {
                SampleShare::NONE
            };
            let mut trace = AttemptTrace::begin(None, share, (claim, 0), Duration::ZERO);
            trace.takeover = has(1);
            trace.had_trouble = has(2);
            trace.outcome_differs = has(3);
            let was_fenced = has(4);
            if has(5) {
                trace.effect_ended(|| Duration::ZERO, Duration::ZERO, "applied");
            }
            for (grant, end) in grants.iter().flat_map(|it| ends.map(|end| (*it, end))) {
                for verdict in [trace.verdict, Some("failed")] {
                    trace.grant = grant;
                    trace.verdict = verdict;
                    let subject = Subject {
                        kind: ProcessKind::Consumer,
                        class: Class::Transactional,
                        request: &request,
                        coordinates: "",
                        message_bytes: 0,
                    };
                    let is_recorded = trace.is_recorded(was_fenced, end);
                    let made = trace.made(Default::default(), (subject, was_fenced), end, None);
                    assert_eq!(made.are_recorded(), is_recorded, "{made:?}");
                    kept += u32::from(is_recorded);
                }
                trace.verdict = trace.effect_ended_at.map(|_| "applied");
            }
        }
        assert!(kept > 0);
    }

    #[test]
    fn an_attempt_under_the_same_claim_has_spans_of_its_own() {
        let claim = ClaimId::from_u128(0xabc_0000_0000_0000_1234);
        let begin =
            |ended| AttemptTrace::begin(None, SampleShare::ALL, (claim, ended), Duration::ZERO);
        let ids: Vec<_> = [begin(0), begin(1)]
            .iter()
            .flat_map(AttemptTrace::span_ids)
            .collect();
        for (at, id) in ids.iter().enumerate() {
            assert!(!ids[..at].contains(id), "{ids:?}");
        }
        assert_eq!(begin(0).process.trace_id, begin(1).process.trace_id);
        assert_eq!(begin(0).process.trace_id.to_string(), claim.to_string());
    }
}
