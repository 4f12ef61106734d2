//! Notes each step of an attempt in its trace, and hands the trace over at the end. All of it does nothing for a message
//! without a trace.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Carried, TraceContext};

use super::context::Context;
use super::in_hand::InHand;
use crate::effect::Verdict;
use crate::event::Event;
use crate::pipeline::Rejected;
use crate::summary::Fate;
use crate::trace::attempt::{AttemptTrace, Subject};
use crate::trace::{End, ProcessKind, Span, Spans};

impl Context {
    /// Begins the traces of messages that are about to be tried, or goes on with those that were tried before and not
    /// answered.
    pub(super) fn begin_traces(self: &Arc<Self>, taken: &mut [InHand]) {
        let Some(share) = self.spans else {
            return;
        };
        let now = self.now();
        for incoming in taken {
            // Each call of the effect has a span of its own.
            if incoming.trace().is_some_and(AttemptTrace::was_called) {
                self.end_attempt(incoming, End::Released, None);
            }
            let fetched_at = incoming.timing().fetched_at();
            let carried = || Carried::of(&incoming.headers);
            if incoming.trace_slot().trace.is_none() {
                let ended = incoming.trace_slot().ended;
                let began_at = if ended > 0 { now } else { fetched_at };
                // A batch of which no claim is stored has one for all.
                let claim_id = if self.class.stores_claims() {
                    incoming.request.claim_id
                } else {
                    self.surroundings.claim_id()
                };
                let seed = (claim_id, ended);
                let begun = AttemptTrace::begin(carried(), share, seed, began_at);
                incoming.begin_trace(begun, self);
            }
            if let Some(trace) = incoming.trace_mut() {
                trace.is_asked_for(now);
            }
        }
    }

    /// Emits an event about a message, with the span of its attempt if it has a trace.
    pub(super) fn observe_message(&self, incoming: &InHand, event: &Event<'_>) {
        let origin = incoming.origin();
        self.surroundings
            .observer
            .observe_message(&self.pipeline.name, event, origin);
    }

    /// Notes that a message begins without a claim.
    pub(super) fn trace_unprotected(&self, incoming: &mut InHand) {
        if let Some(trace) = incoming.trace_mut() {
            trace.answered(self.now(), "unprotected", None);
        }
    }

    /// Notes that the effect of a message ended after this time.
    pub(super) fn trace_effect(&self, incoming: &mut InHand, verdict: &Verdict, took: Duration) {
        if let Some(trace) = incoming.trace_mut() {
            trace.effect_ended(|| self.now(), took, verdict.as_str());
        }
    }

    /// Hands over the trace of a message that is dropped in the middle of an attempt. An effect that runs is dropped with
    /// it.
    pub(super) fn trace_abandoned(&self, incoming: &mut InHand) {
        // An observer that panics, too, would end the process.
        if std::thread::panicking() {
            return;
        }
        if let Some(trace) = incoming.trace_mut() {
            trace.abandon_effect(self.now());
        }
        self.end_trace(incoming, End::GivenBack, Some(RUN_BROKE_OFF));
    }

    /// Hands over the trace of an attempt with which the message is done.
    pub(super) fn end_trace(&self, incoming: &InHand, end: End, error: Option<&str>) {
        if let Some(trace) = incoming.trace() {
            incoming.trace_is_over();
            let subject = Subject {
                kind: ProcessKind::Consumer,
                class: self.class,
                request: &incoming.request,
                coordinates: &incoming.coordinates,
                message_bytes: incoming.payload.len(),
            };
            let was_fenced = incoming.trace_slot().was_fenced;
            let both_clocks = || self.surroundings.both_clocks();
            let recorded = trace.recorded(both_clocks, (subject, was_fenced), end, error);
            if let Some(spans) = recorded {
                self.hand_over(&spans);
            }
        }
    }

    /// Hands over the trace of an attempt that another one follows.
    pub(super) fn end_attempt(&self, incoming: &mut InHand, end: End, error: Option<&str>) {
        if incoming.trace().is_some() {
            self.end_trace(incoming, end, error);
            incoming.trace_slot_mut().clear(end);
        }
    }

    /// Hands over the trace of a message without a usable key; returns its span.
    pub(super) fn trace_rejected(&self, rejected: &Rejected) -> Option<TraceContext> {
        let share = self.spans?;
        let parked = &rejected.parked;
        let (now, since_1970) = self.surroundings.both_clocks();
        let carried = Carried::of(&parked.headers);
        let seed = (self.surroundings.claim_id(), 0);
        let trace = AttemptTrace::begin(carried, share, seed, now);
        let process = Span {
            context: trace.process(),
            began: since_1970,
            took: Duration::ZERO,
        };
        self.hand_over(&Spans {
            class: Some(self.class),
            parent: trace.parent(),
            state: trace.state(),
            message_bytes: parked.payload.len(),
            error: Some(&parked.detail),
            ..Spans::new(process, &parked.coordinates, End::Fate(Fate::Quarantined))
        });
        Some(trace.process())
    }

    fn hand_over(&self, spans: &Spans<'_>) {
        let observer = &self.surroundings.observer;
        observer.observe_spans(&self.pipeline.name, spans);
    }
}

const RUN_BROKE_OFF: &str = "the run ended with an error";
