//! Notes each step of a call in the traces of its items, and hands a trace over when its attempt ends. All of it does
//! nothing, and reads no clock, while nobody wants spans.

use std::time::Duration;

use semel_core::{Store, TraceContext};

use super::error::Error;
use super::failure::line;
use super::run::{Answer, Run};
use crate::event::{Event, Origin};
use crate::summary::Fate;
use crate::trace::attempt::{AttemptTrace, Subject, TraceSlot};
use crate::trace::{End, ProcessKind};

impl<S: Store + Clone> Run<S> {
    /// Begins the traces of items that are about to be asked for, or goes on with those that were asked for before and were
    /// busy.
    pub(super) fn begin_traces(&mut self, items: &[usize]) {
        let Some(share) = self.shared.spans else {
            return;
        };
        let now = self.shared.now();
        for &index in items {
            let Some(slot) = self.traces.get_mut(index) else {
                continue;
            };
            let seed = (self.requests[index].claim_id, slot.ended);
            let trace = slot
                .trace
                .get_or_insert_with(|| AttemptTrace::begin(self.carried.clone(), share, seed, now));
            trace.is_asked_for(now);
        }
    }

    /// Notes something in the trace of an item, with the time, if it has one.
    pub(super) fn trace(&mut self, index: usize, note: impl FnOnce(&mut AttemptTrace, Duration)) {
        if let Some(trace) = self.traces.get_mut(index).and_then(TraceSlot::get_mut) {
            note(trace, self.shared.now());
        }
    }

    /// Notes that the store failed for the call, in the traces of all its items.
    pub(super) fn trace_trouble(&mut self) {
        for trace in self.traces.iter_mut().filter_map(TraceSlot::get_mut) {
            trace.had_trouble = true;
        }
    }

    /// Returns the span of the effect of an item, if anybody wants spans.
    pub(super) fn effect_span(&self, index: usize) -> Option<TraceContext> {
        self.traced(index).map(AttemptTrace::effect)
    }

    /// Emits an event about an item, with the span of the attempt if anybody wants spans.
    pub(super) fn observe(&self, index: usize, event: &Event<'_>) {
        let observer = &self.shared.surroundings.observer;
        match self.traced(index) {
            Some(trace) => {
                let origin = Origin::new("", &[]).in_span(Some(trace.process()));
                observer.observe_message(&self.name, event, origin);
            }
            None => observer.observe(&self.name, event),
        }
    }

    /// Has an item ask for another claim, since it lost one before its effect began.
    pub(super) fn ask_anew(&mut self, index: usize) {
        self.hand_over(index, End::Fenced, None);
        self.requests[index].claim_id = self.shared.surroundings.claim_id();
    }

    /// Hands over the trace of an item that is answered so.
    pub(super) fn end_trace(&mut self, index: usize, answer: &Result<Answer, Error>) {
        let Some(trace) = self.traced(index) else {
            return;
        };
        let end = match answer {
            Ok(Answer::Ran { .. }) => End::Fate(Fate::Applied),
            Ok(Answer::Replayed { .. }) => End::Fate(Fate::Replayed),
            Err(error) => end_of(error),
        };
        let end = match end {
            End::Released if !trace.was_called() => End::GivenBack,
            end => end,
        };
        let error = answer.as_ref().err().map(reason);
        self.hand_over(index, end, error.as_deref());
    }

    /// Hands over the traces of the items that nobody was answered about.
    pub(super) fn give_back_traces(&mut self) {
        for index in 0..self.traces.len() {
            self.hand_over(index, End::GivenBack, None);
        }
    }

    fn hand_over(&mut self, index: usize, end: End, error: Option<&str>) {
        let Some(slot) = self.traces.get_mut(index) else {
            return;
        };
        let Some(trace) = slot.get() else {
            return;
        };
        let subject = Subject {
            kind: ProcessKind::Internal,
            class: self.settings.class,
            request: &self.requests[index],
            coordinates: "",
            message_bytes: 0,
        };
        let surroundings = &self.shared.surroundings;
        let both_clocks = || surroundings.both_clocks();
        let subject = (subject, slot.was_fenced);
        if let Some(spans) = trace.recorded(both_clocks, subject, end, error) {
            surroundings.observer.observe_spans(&self.name, &spans);
        }
        slot.clear(end);
    }

    fn traced(&self, index: usize) -> Option<&AttemptTrace> {
        self.traces.get(index).and_then(TraceSlot::get)
    }
}

/// Returns the end of an attempt that is answered with this error.
pub(super) const fn end_of(error: &Error) -> End {
    match error {
        Error::Conflict { .. } => End::Fate(Fate::Conflict),
        Error::TooOld { .. } => End::Fate(Fate::TooOld),
        Error::Stale { .. } => End::Fate(Fate::Stale),
        Error::Dead { .. } => End::Fate(Fate::Dead),
        Error::InDoubt { .. } => End::Fate(Fate::InDoubt),
        Error::Failed { .. } => End::Released,
        Error::ClaimLost { .. } => End::Fenced,
        Error::Busy { .. } => End::Gone,
        Error::Unrecorded { .. } | Error::Store { .. } => End::StoreFailed,
        // No item that has a trace is answered with the first two.
        Error::Invalid { .. } | Error::Unreadable { .. } | Error::Closed => End::GivenBack,
    }
}

/// Returns the reason of a failure on one line.
pub(super) fn reason(error: &Error) -> Box<str> {
    match std::error::Error::source(error) {
        Some(source) => line(source),
        None => line(error),
    }
}
