//! The spans of relays, by the messaging conventions of OpenTelemetry: one for each try to publish a message.

use std::fmt;
use std::sync::Arc;

use semel_core::outbox::OutboxId;
use semel_core::{Entropy, SpanId, TraceContext, TraceFlags, TraceId};
use semel_engine::trace::{SampleShare, Span};
use semel_outbox::{Event, Observer, PublicationSpan};

use super::convert::{bare, masked, target};
use super::exporter::Queue;
use super::otlp::{self, KeyValue, SpanKind, Status, StatusCode, Value};
use super::{KeyForm, TraceSettings, TracedTarget};

/// A relay, and the place that it publishes to.
#[derive(Clone, Debug)]
pub struct TracedRelay {
    /// Its name.
    pub name: String,
    /// The stream of the outbox.
    pub stream: String,
    /// The place.
    pub target: TracedTarget,
}

/// Hands the spans of one relay to the exporter.
#[derive(Clone)]
pub struct RelayTraces {
    share: SampleShare,
    keys: KeyForm,
    queue: Queue,
    entropy: Arc<dyn Entropy>,
    name: String,
    kind: SpanKind,
    attributes: Vec<KeyValue>,
}

impl RelayTraces {
    pub(super) fn new(
        relay: &TracedRelay,
        settings: &TraceSettings,
        queue: Queue,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        let mut attributes = target(&relay.target);
        attributes.push(KeyValue::new("semel.relay", relay.name.clone()));
        attributes.push(KeyValue::new("semel.stream", relay.stream.clone()));
        Self {
            share: settings.share,
            keys: settings.keys,
            queue,
            entropy,
            name: format!("publish {}", relay.name),
            kind: match relay.target {
                TracedTarget::Local => SpanKind::Internal,
                TracedTarget::Broker { .. } => SpanKind::Producer,
                TracedTarget::Http { .. } | TracedTarget::Database { .. } => SpanKind::Client,
            },
            attributes,
        }
    }

    fn made(&self, span: &PublicationSpan<'_>) -> otlp::Span {
        let whole = Span {
            context: span.context,
            began: span.began,
            took: span.took,
        };
        let parent = span.parent.map(|parent| (parent, Some(true)));
        let mut made = bare(&self.name, self.kind, whole, parent);
        span.state
            .unwrap_or_default()
            .clone_into(&mut made.trace_state);
        made.attributes.clone_from(&self.attributes);
        let mut add = |key, value: Value| made.attributes.push(KeyValue::new(key, value));
        let body_bytes = i64::try_from(span.message_bytes).unwrap_or(i64::MAX);
        add("messaging.message.id", span.id.to_string().into());
        add("messaging.message.body.size", body_bytes.into());
        add("semel.attempt", i64::from(span.attempt).into());
        add("semel.fate", span.end.as_str().into());
        if span.end.is_failure() {
            add("error.type", span.end.as_str().into());
            made.status = Some(Status {
                message: masked(self.keys, span.order_key, span.error.unwrap_or_default()),
                code: StatusCode::Error.into(),
            });
        }
        made
    }

    fn span_id(&self) -> SpanId {
        let mut random = [0; 8];
        self.entropy.fill(&mut random);
        let [id, ..] = SpanId::four(u64::from_be_bytes(random));
        id
    }
}

impl Observer for RelayTraces {
    fn observe(&self, _relay: &str, _event: &Event<'_>) {}

    fn wants_spans(&self) -> bool {
        true
    }

    /// Returns a span in the trace of the message. One that came without has the trace that its id names, so that every try
    /// belongs to it, by whichever process.
    fn span_of(&self, id: OutboxId, parent: Option<TraceContext>) -> Option<TraceContext> {
        let span_id = self.span_id();
        if let Some(parent) = parent {
            return Some(parent.with_span(span_id));
        }
        let trace_id = TraceId::from_bytes(id.as_u128().to_be_bytes())?;
        let mark = if self.share.has(trace_id) {
            TraceFlags::SAMPLED
        } else {
            TraceFlags::default()
        };
        Some(TraceContext {
            trace_id,
            span_id,
            flags: TraceFlags::RANDOM.and(mark),
        })
    }

    fn observe_span(&self, _relay: &str, span: &PublicationSpan<'_>) {
        self.queue
            .offer_all(span.end.is_failure(), 1, || vec![self.made(span)]);
    }
}

impl fmt::Debug for RelayTraces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayTraces")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
