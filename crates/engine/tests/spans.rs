//! An observer that gathers spans.

use std::sync::{Arc, Mutex};

use semel_core::{Duplicate, TraceContext};
use semel_engine::effect::Class;
use semel_engine::event::{Event, Observer, Origin};
use semel_engine::trace::{End, ProcessKind, SampleShare, Span, Spans};

/// The spans of an attempt, as they were handed over.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) process: Span,
    pub(crate) kind: ProcessKind,
    pub(crate) class: Option<Class>,
    pub(crate) parent: Option<TraceContext>,
    pub(crate) state: Option<String>,
    pub(crate) claim: Option<Span>,
    pub(crate) effect: Option<Span>,
    pub(crate) settle: Option<Span>,
    pub(crate) key: Option<String>,
    pub(crate) asked: u32,
    pub(crate) decision: Option<&'static str>,
    pub(crate) duplicate: Option<Duplicate>,
    pub(crate) number: Option<u32>,
    pub(crate) takeover: bool,
    pub(crate) follows_fence: bool,
    pub(crate) verdict: Option<&'static str>,
    pub(crate) end: End,
    pub(crate) error: Option<String>,
    pub(crate) is_always_kept: bool,
}

/// Gathers spans.
#[derive(Clone)]
pub(crate) struct Gathered {
    share: SampleShare,
    attempts: Arc<Mutex<Vec<Attempt>>>,
    /// The spans that events named.
    named: Arc<Mutex<Vec<TraceContext>>>,
}

impl Gathered {
    /// Wants spans, of which `share` is sampled.
    pub(crate) fn new(share: SampleShare) -> Self {
        Self {
            share,
            attempts: Arc::default(),
            named: Arc::default(),
        }
    }

    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.attempts.lock().expect("no panic").clone()
    }

    /// Returns the attempt, of which there is one.
    pub(crate) fn only(&self) -> Attempt {
        let [attempt] = <[_; 1]>::try_from(self.attempts()).expect("one attempt");
        attempt
    }

    /// Asserts that two effects were told traces that began here, with this mark, and that those alone are recorded that
    /// have it.
    pub(crate) fn are_begun_here(&self, [one, other]: [TraceContext; 2], is_sampled: bool) {
        assert_ne!(one.trace_id, other.trace_id);
        for trace in [one, other] {
            let expected = 2 | u8::from(is_sampled);
            assert_eq!(trace.flags.to_byte(), expected, "and random");
        }
        let attempts = self.attempts();
        assert_eq!(attempts.len(), if is_sampled { 2 } else { 0 });
        assert!(attempts.iter().all(|it| it.parent.is_none()));
    }

    /// Returns the spans that events named.
    pub(crate) fn named(&self) -> Vec<TraceContext> {
        self.named.lock().expect("no panic").clone()
    }
}

impl Observer for Gathered {
    fn observe(&self, _pipeline: &str, _event: &Event<'_>) {}

    fn observe_message(&self, _pipeline: &str, _event: &Event<'_>, origin: Origin<'_>) {
        let span = origin.span.expect("a span");
        self.named.lock().expect("no panic").push(span);
    }

    /// Nobody reads the texts of events.
    fn is_watching(&self) -> bool {
        false
    }

    fn wants_spans(&self) -> Option<SampleShare> {
        Some(self.share)
    }

    fn observe_spans(&self, pipeline: &str, spans: &Spans<'_>) {
        assert_eq!(pipeline, "test");
        self.attempts.lock().expect("no panic").push(Attempt {
            process: spans.process,
            kind: spans.kind,
            class: spans.class,
            parent: spans.parent,
            state: spans.state.map(str::to_owned),
            claim: spans.claim,
            effect: spans.effect,
            settle: spans.settle,
            key: spans.operation.map(|it| it.key.to_string()),
            asked: spans.asked,
            decision: spans.decision,
            duplicate: spans.duplicate,
            number: spans.attempt,
            takeover: spans.takeover,
            follows_fence: spans.follows_fence,
            verdict: spans.verdict,
            end: spans.end,
            error: spans.error.map(str::to_owned),
            is_always_kept: spans.are_always_kept(),
        });
    }
}
