//! The spans of publications: one for each try to publish a message, in the trace that the message carries. While nobody
//! wants spans, nothing of this is done, and a trace goes on as it came.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semel_core::outbox::{OutboxId, Outgoing};
use semel_core::port::sink::Publication;
use semel_core::trace_context::{TRACEPARENT, TRACESTATE};
use semel_core::{ByteString, Carried, Clock, TraceContext};

use crate::event::Observer;
use crate::outcomes::Settled;
use crate::publication::{PublicationEnd, PublicationSpan};

/// The tries of a batch that have a span.
#[derive(Default)]
pub(crate) struct Tries(Vec<Try>);

struct Try {
    id: OutboxId,
    order_key: Option<ByteString>,
    context: TraceContext,
    carried: Option<Carried>,
    message_bytes: usize,
    attempt: u32,
    began_at: Duration,
    ended_at: Option<Duration>,
    error: Option<Box<str>>,
}

/// The span of each try of a batch that failed.
pub(crate) type Spans = BTreeMap<OutboxId, TraceContext>;

impl Tries {
    /// Begins the span of a message, if the observer wants spans.
    pub(crate) fn begin(
        &mut self,
        observer: &dyn Observer,
        message: &Outgoing,
        now: Duration,
    ) -> Option<TraceContext> {
        if !observer.wants_spans() {
            return None;
        }
        let headers = message.headers.as_deref().unwrap_or_default();
        let carried = Carried::of(headers);
        let parent = carried.as_ref().map(|it| it.context);
        let context = observer.span_of(message.id, parent)?;
        self.0.push(Try {
            id: message.id,
            order_key: message.order_key.clone(),
            context,
            carried,
            message_bytes: message.payload.len(),
            attempt: message.attempts.saturating_add(1),
            began_at: now,
            ended_at: None,
            error: None,
        });
        Some(context)
    }

    /// Notes that the sink has answered about all that were begun.
    pub(crate) fn answered(&mut self, now: Duration) {
        // Those of the waves before it are over.
        let open = self.0.iter_mut().rev();
        for open in open.take_while(|it| it.ended_at.is_none()) {
            open.ended_at = Some(now);
        }
    }

    /// Notes that a message failed.
    pub(crate) fn fails(&mut self, id: OutboxId, error: &str) {
        if let Some(failed) = self.0.iter_mut().rev().find(|it| it.id == id) {
            failed.error = Some(error.into());
        }
    }

    /// Hands over the spans of a batch that ended so, as far as they are recorded: those of traces that are marked, and of
    /// every failure. While the sink takes nothing, one of a batch stands for the others. Returns the spans of the failures,
    /// for the events about them.
    pub(crate) fn hand_over(
        self,
        relay: &str,
        observer: &dyn Observer,
        clock: &dyn Clock,
        settled: &Settled,
    ) -> Spans {
        let mut failures = Spans::new();
        if self.0.is_empty() {
            return failures;
        }
        let (now, since_1970) = (clock.monotonic(), clock.now());
        let since_1970 = Duration::from_millis(since_1970.as_millis());
        let sent: BTreeSet<_> = settled.sent.iter().collect();
        let unsent: BTreeMap<_, _> = settled.unsent.iter().map(|it| (it.id, it)).collect();
        let mut has_outage = false;
        for it in &self.0 {
            let unsent = unsent.get(&it.id);
            let error = unsent.map(|it| &*it.error).or(it.error.as_deref());
            let end = if sent.contains(&it.id) {
                PublicationEnd::Published
            } else if unsent.is_some_and(|it| it.wait.is_none()) {
                PublicationEnd::Dead
            } else if error.is_some() {
                PublicationEnd::PutOff
            } else {
                PublicationEnd::GivenBack
            };
            if end.is_failure() {
                failures.insert(it.id, it.context);
            }
            let is_one_of_many =
                end == PublicationEnd::PutOff && !unsent.is_some_and(|it| it.counted);
            let is_kept = end.is_failure() && !(is_one_of_many && has_outage);
            has_outage |= is_one_of_many;
            if !is_kept && !it.context.flags.is_sampled() {
                continue;
            }
            let span = PublicationSpan {
                parent: it.carried.as_ref().map(|it| it.context),
                state: it.carried.as_ref().and_then(|it| it.state.as_deref()),
                began: since_1970.saturating_sub(now.saturating_sub(it.began_at)),
                took: it.ended_at.unwrap_or(now).saturating_sub(it.began_at),
                order_key: it.order_key.as_deref(),
                message_bytes: it.message_bytes,
                attempt: it.attempt,
                error,
                ..PublicationSpan::new(it.context, it.id, end)
            };
            observer.observe_span(relay, &span);
        }
        failures
    }
}

/// Has a message name a span as that of its producer. A state goes along if the message belonged to the trace.
pub(crate) fn in_span(publication: &mut Publication, span: TraceContext) {
    let headers = &mut publication.headers;
    let is_continued = Carried::of(headers).is_some();
    headers.retain(|(name, _)| {
        let is_state = name.eq_ignore_ascii_case(TRACESTATE);
        !name.eq_ignore_ascii_case(TRACEPARENT) && (is_continued || !is_state)
    });
    headers.push((TRACEPARENT.into(), span.to_string().into()));
}
