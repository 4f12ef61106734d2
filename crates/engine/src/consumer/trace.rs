//! The trace of an attempt while it is under way: the identities of its spans, and the times so far. A message in hand
//! has one only if the observer wants spans, from the time that it is taken to be tried to the end of the attempt.

use std::time::Duration;

use semel_core::{
    Admission, ByteString, Carried, Certainty, Duplicate, Entropy, Grant, SpanId, TraceContext,
    TraceFlags, TraceId,
};

use super::context::Context;
use super::in_hand::InHand;
use crate::effect::Verdict;
use crate::event::Origin;
use crate::pipeline::Rejected;
use crate::summary::Fate;
use crate::trace::{End, SampleShare, Span, Spans};

/// The place for the trace of a message in hand.
#[derive(Debug, Default)]
pub(super) struct TraceSlot {
    trace: Option<Box<AttemptTrace>>,
    /// An attempt with the message has ended.
    is_later: bool,
}

/// The trace of one attempt.
#[derive(Debug)]
pub(super) struct AttemptTrace {
    parent: Option<TraceContext>,
    state: Option<ByteString>,
    process: TraceContext,
    claim_id: SpanId,
    effect_id: SpanId,
    settle_id: SpanId,
    began_at: Duration,
    asked_at: Duration,
    asked: u32,
    answered_at: Option<Duration>,
    effect_began_at: Option<Duration>,
    effect: Option<Period>,
    settled_at: Option<Duration>,
    decision: Option<&'static str>,
    duplicate: Option<Duplicate>,
    grant: Option<Grant>,
    verdict: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
struct Period {
    began_at: Duration,
    ended_at: Duration,
}

impl TraceSlot {
    pub(super) fn get(&self) -> Option<&AttemptTrace> {
        self.trace.as_deref()
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut AttemptTrace> {
        self.trace.as_deref_mut()
    }
}

impl AttemptTrace {
    fn begin(
        carried: Option<Carried>,
        share: SampleShare,
        entropy: &dyn Entropy,
        began_at: Duration,
    ) -> Self {
        let process_id = SpanId::random(entropy);
        let (parent, state) = match carried {
            Some(carried) => (Some(carried.context), carried.state),
            None => (None, None),
        };
        let process = if let Some(parent) = parent {
            parent.with_span(process_id)
        } else {
            let trace_id = TraceId::random(entropy);
            let mark = if share.has(trace_id) {
                TraceFlags::SAMPLED
            } else {
                TraceFlags::default()
            };
            TraceContext {
                trace_id,
                span_id: process_id,
                flags: TraceFlags::RANDOM.and(mark),
            }
        };
        Self {
            parent,
            state,
            process,
            claim_id: SpanId::random(entropy),
            effect_id: SpanId::random(entropy),
            settle_id: SpanId::random(entropy),
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
        }
    }

    /// Returns the span of the attempt.
    pub(super) const fn process(&self) -> TraceContext {
        self.process
    }

    /// Returns the span of the effect, which the effect is told.
    pub(super) const fn effect(&self) -> TraceContext {
        self.process.with_span(self.effect_id)
    }

    /// Notes that the effect is called.
    pub(super) const fn effect_begins(&mut self, now: Duration) {
        self.effect_began_at = Some(now);
    }

    fn answered(&mut self, now: Duration, decision: &'static str, duplicate: Option<Duplicate>) {
        self.answered_at = Some(now);
        self.decision = Some(decision);
        self.duplicate = duplicate;
    }

    /// Returns the spans so far, at `clock`, which is both now on the monotonic clock and since 1970.
    fn spans<'a>(
        &'a self,
        (now, since_1970): (Duration, Duration),
        incoming: &'a InHand,
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
            parent: self.parent,
            state: self.state.as_deref(),
            claim: claim.map(|it| span(self.claim_id, it)),
            effect: self.effect.map(|it| span(self.effect_id, it)),
            settle: settle.map(|it| span(self.settle_id, it)),
            operation: Some(&incoming.request.operation),
            message_bytes: incoming.payload.len(),
            asked: self.asked,
            decision: self.decision,
            duplicate: self.duplicate,
            attempt: grant.map(|it| it.attempt),
            takeover: grant.is_some_and(|it| it.takeover),
            resumed: grant.is_some_and(|it| it.resumed),
            possible_repeat: grant.is_some_and(|it| it.possible_repeat),
            formerly_expired: grant.is_some_and(|it| it.formerly_expired),
            verdict: self.verdict,
            error: error.filter(|it| !it.is_empty()),
            ..Spans::new(process, &incoming.coordinates, end)
        }
    }
}

impl Context {
    /// Begins the traces of messages that are about to be tried, or goes on with those that were tried before and not
    /// answered.
    pub(super) fn begin_traces(&self, taken: &mut [InHand]) {
        let Some(share) = self.spans else {
            return;
        };
        let now = self.now();
        for incoming in taken {
            let fetched_at = incoming.timing().fetched_at();
            let carried = || Carried::of(&incoming.headers);
            if incoming.trace_slot().trace.is_none() {
                let began_at = if incoming.trace_slot().is_later {
                    now
                } else {
                    fetched_at
                };
                let entropy = &*self.surroundings.entropy;
                let begun = AttemptTrace::begin(carried(), share, entropy, began_at);
                incoming.trace_slot_mut().trace = Some(Box::new(begun));
            }
            if let Some(trace) = incoming.trace_mut() {
                trace.asked_at = now;
                trace.asked = trace.asked.saturating_add(1);
            }
        }
    }

    /// Notes that the claim of a message was granted.
    pub(super) fn trace_grant(&self, incoming: &mut InHand, grant: Grant) {
        if let Some(trace) = incoming.trace_mut() {
            trace.answered(self.now(), "granted", None);
            trace.grant = Some(grant);
        }
    }

    /// Notes the answer to a claim that was not granted, or too late.
    pub(super) fn trace_answer(&self, incoming: &mut InHand, admission: &Admission) {
        let Some(trace) = incoming.trace_mut() else {
            return;
        };
        let (decision, duplicate) = match admission {
            Admission::Granted(claim) => {
                trace.grant = Some(claim.grant());
                ("granted", None)
            }
            Admission::Replay { duplicate, .. } => ("replay", Some(*duplicate)),
            Admission::Busy { .. } => ("busy", None),
            Admission::Conflict { duplicate, .. } => ("conflict", Some(*duplicate)),
            Admission::Stale { .. } => ("stale", None),
            Admission::Parked { duplicate, .. } => ("parked", Some(*duplicate)),
            Admission::TooOld => ("too_old", None),
            Admission::Failed(_) => ("failed", None),
        };
        trace.answered(self.now(), decision, duplicate);
    }

    /// Notes that a message begins without a claim.
    pub(super) fn trace_unprotected(&self, incoming: &mut InHand) {
        if let Some(trace) = incoming.trace_mut() {
            trace.answered(self.now(), "unprotected", None);
        }
    }

    /// Notes that the effect of a message ended after this time.
    pub(super) fn trace_effect(&self, incoming: &mut InHand, verdict: &Verdict, took: Duration) {
        let Some(trace) = incoming.trace_mut() else {
            return;
        };
        let began_at = match trace.effect_began_at.take() {
            Some(began_at) => began_at,
            None => self.now().saturating_sub(took),
        };
        trace.effect = Some(Period {
            began_at,
            ended_at: began_at + took,
        });
        trace.verdict = Some(verdict_name(verdict));
    }

    /// Notes that the store has answered the report on a claim.
    pub(super) fn trace_settled(&self, incoming: &mut InHand) {
        if let Some(trace) = incoming.trace_mut() {
            trace.settled_at = Some(self.now());
        }
    }

    /// Notes that a batch was committed with the message in it, or was not: the commit is the effect, unless that went
    /// before.
    pub(super) fn trace_commit(&self, incoming: &mut InHand, is_done: bool) {
        let Some(trace) = incoming.trace_mut() else {
            return;
        };
        let now = self.now();
        let Some(began_at) = trace.effect_began_at.take() else {
            trace.settled_at = Some(now);
            return;
        };
        trace.effect = Some(Period {
            began_at,
            ended_at: now,
        });
        trace.verdict = is_done.then_some("applied");
    }

    /// Hands over the trace of an attempt with which the message is done.
    pub(super) fn end_trace(&self, incoming: &InHand, end: End, error: Option<&str>) {
        if let Some(trace) = incoming.trace() {
            let spans = trace.spans(self.both_clocks(), incoming, end, error);
            self.hand_over(&spans);
        }
    }

    /// Hands over the trace of an attempt that another one follows.
    pub(super) fn end_attempt(&self, incoming: &mut InHand, end: End, error: Option<&str>) {
        if incoming.trace().is_some() {
            self.end_trace(incoming, end, error);
            *incoming.trace_slot_mut() = TraceSlot {
                trace: None,
                is_later: true,
            };
        }
    }

    /// Hands over the trace of a message without a usable key; returns its span.
    pub(super) fn trace_rejected(&self, rejected: &Rejected) -> Option<TraceContext> {
        let share = self.spans?;
        let parked = &rejected.parked;
        let (now, since_1970) = self.both_clocks();
        let carried = Carried::of(&parked.headers);
        let trace = AttemptTrace::begin(carried, share, &*self.surroundings.entropy, now);
        let process = Span {
            context: trace.process,
            began: since_1970,
            took: Duration::ZERO,
        };
        self.hand_over(&Spans {
            parent: trace.parent,
            state: trace.state.as_deref(),
            message_bytes: parked.payload.len(),
            error: Some(&parked.detail),
            ..Spans::new(process, &parked.coordinates, End::Fate(Fate::Quarantined))
        });
        Some(trace.process)
    }

    fn hand_over(&self, spans: &Spans<'_>) {
        let observer = &self.surroundings.observer;
        observer.observe_spans(&self.pipeline.name, spans);
    }

    /// Returns the time of the monotonic clock, and the time since 1970.
    fn both_clocks(&self) -> (Duration, Duration) {
        let since_1970 = Duration::from_millis(self.surroundings.clock.now().as_millis());
        (self.now(), since_1970)
    }
}

/// Returns where a message came from, and the span under which it is worked on.
pub(super) fn origin(incoming: &InHand) -> Origin<'_> {
    let trace = incoming.trace().map(AttemptTrace::process);
    Origin::new(&incoming.coordinates, &incoming.headers).in_span(trace)
}

/// Returns the name that metrics have for a verdict.
const fn verdict_name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Done(_) | Verdict::DoneUnkept { .. } => "applied",
        Verdict::NotApplied { .. }
        | Verdict::Away { .. }
        | Verdict::Broken {
            certainty: Certainty::NotApplied,
            ..
        } => "not_applied",
        Verdict::MaybeApplied { .. }
        | Verdict::Broken {
            certainty: Certainty::MaybeApplied,
            ..
        } => "maybe_applied",
        Verdict::Dead { .. } => "failed",
    }
}
