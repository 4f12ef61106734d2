//! From the spans of an attempt to those of OTLP: names, kinds and attributes, by the messaging conventions of
//! OpenTelemetry.

use std::time::Duration;

use semel_core::{Duplicate, Fate, TraceContext};
use semel_engine::trace::{End, HttpExchange, ProcessKind, ServedRequest, Span, Spans};

use super::otlp::{self, KeyValue, Link, SpanKind, Status, StatusCode, Value};
use super::{KeyForm, TracedPipeline, TracedTarget};

/// The parts of a pipeline's spans that are the same in all.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    process: String,
    effect: String,
    effect_kind: SpanKind,
    effect_attributes: Vec<KeyValue>,
    attributes: Vec<KeyValue>,
    keys: KeyForm,
}

impl Subject {
    pub(super) fn new(pipeline: &TracedPipeline, keys: KeyForm) -> Self {
        let mut attributes = vec![
            KeyValue::new("messaging.system", pipeline.system),
            KeyValue::new("messaging.operation.type", "process"),
            KeyValue::new("messaging.operation.name", "process"),
            KeyValue::new("semel.pipeline", pipeline.name.clone()),
            KeyValue::new("semel.class", pipeline.class.as_str()),
        ];
        if let Some(name) = &pipeline.destination {
            attributes.push(KeyValue::new("messaging.destination.name", name.clone()));
        }
        if let Some(group) = &pipeline.group {
            attributes.push(KeyValue::new(
                "messaging.consumer.group.name",
                group.clone(),
            ));
        }
        Self {
            process: format!("process {}", pipeline.name),
            effect: format!("effect {}", pipeline.effect),
            effect_kind: match pipeline.target {
                TracedTarget::Local => SpanKind::Internal,
                TracedTarget::Broker { .. } => SpanKind::Producer,
                TracedTarget::Http { .. } | TracedTarget::Database { .. } => SpanKind::Client,
            },
            effect_attributes: target(&pipeline.target),
            attributes,
            keys,
        }
    }

    /// Returns what is known of an attempt of a program's own handle: its operation or its consumer, by name.
    pub(super) fn of_handle(name: &str, spans: &Spans<'_>, keys: KeyForm) -> Self {
        let mut attributes = Vec::new();
        let process = match spans.kind {
            ProcessKind::Consumer => {
                attributes.push(KeyValue::new("messaging.operation.type", "process"));
                attributes.push(KeyValue::new("messaging.operation.name", "process"));
                format!("process {name}")
            }
            ProcessKind::Internal => format!("process {name}"),
            ProcessKind::Server(ServedRequest {
                method,
                route,
                status,
            }) => {
                attributes.extend(http_method(method));
                attributes.push(KeyValue::new("http.route", route));
                attributes.push(status_code(status));
                format!("{method} {route}")
            }
        };
        attributes.push(KeyValue::new("semel.pipeline", name.to_owned()));
        if let Some(class) = spans.class {
            attributes.push(KeyValue::new("semel.class", class.as_str()));
        }
        Self {
            process,
            effect: format!("effect {name}"),
            effect_kind: SpanKind::Internal,
            effect_attributes: Vec::new(),
            attributes,
            keys,
        }
    }

    /// Returns the spans of an attempt, the span of the whole first.
    pub(super) fn spans(&self, spans: &Spans<'_>, hit: Option<&'static str>) -> Vec<otlp::Span> {
        let mut made = Vec::with_capacity(spans.count());
        made.push(self.process(spans, hit));
        let process = spans.process.context;
        let child = |name: &str, kind, span: Span| {
            let parent = Some((process, Some(false)));
            otlp::Span {
                trace_state: spans.state.unwrap_or_default().to_owned(),
                ..bare(name, kind, span, parent)
            }
        };
        if let Some(claim) = spans.claim {
            let mut claim = child("claim", SpanKind::Internal, claim);
            claim.attributes = decision(spans);
            if spans.decision == Some("failed") {
                claim.attributes.push(KeyValue::new("error.type", "failed"));
                claim.status = Some(self.failure(spans));
            }
            made.push(claim);
        }
        if let Some(effect) = spans.effect {
            let mut effect = child(&self.effect, self.effect_kind, effect);
            effect.attributes.clone_from(&self.effect_attributes);
            if let Some(exchange) = spans.http {
                let url = exchange.url.as_deref();
                let url = url.map(|url| self.masked(spans, url));
                effect.attributes.extend(exchanged(exchange, url));
                if exchange.server.is_some() {
                    effect.kind = SpanKind::Client.into();
                }
            }
            if let Some(verdict) = spans.verdict {
                effect
                    .attributes
                    .push(KeyValue::new("semel.verdict", verdict));
            }
            if let Some(kind) = effect_error(spans) {
                effect.attributes.push(KeyValue::new("error.type", kind));
                effect.status = Some(self.failure(spans));
            }
            made.push(effect);
        }
        if let Some(settle) = spans.settle {
            let mut settle = child("settle", SpanKind::Internal, settle);
            if matches!(spans.end, End::Fenced | End::StoreFailed) {
                let end = end_name(spans.end);
                settle.attributes.push(KeyValue::new("error.type", end));
                settle.status = Some(self.failure(spans));
            }
            made.push(settle);
        }
        made
    }

    fn process(&self, spans: &Spans<'_>, hit: Option<&'static str>) -> otlp::Span {
        let is_message = spans.kind == ProcessKind::Consumer;
        let kind = match spans.kind {
            ProcessKind::Consumer => SpanKind::Consumer,
            ProcessKind::Internal => SpanKind::Internal,
            ProcessKind::Server(_) => SpanKind::Server,
        };
        // The span around a call may be one of the program's own.
        let is_remote = (spans.kind != ProcessKind::Internal).then_some(true);
        let parent = spans.parent.map(|parent| (parent, is_remote));
        let mut process = bare(&self.process, kind, spans.process, parent);
        spans
            .state
            .unwrap_or_default()
            .clone_into(&mut process.trace_state);
        if let Some(parent) = spans.parent.filter(|_| is_message) {
            process.links.push(Link {
                trace_id: parent.trace_id.to_bytes().to_vec(),
                span_id: parent.span_id.to_bytes().to_vec(),
                trace_state: spans.state.unwrap_or_default().to_owned(),
                flags: flags(parent, Some(true)),
            });
        }
        let mut attributes = self.attributes.clone();
        attributes.extend(decision(spans));
        let mut add = |key, value: Value| attributes.push(KeyValue::new(key, value));
        if is_message {
            let body_bytes = i64::try_from(spans.message_bytes).unwrap_or(i64::MAX);
            add("messaging.message.body.size", body_bytes.into());
            add("semel.coordinates", spans.coordinates.into());
        }
        if let Some(operation) = spans.operation {
            add("semel.operation_id", operation.id().to_string().into());
            let key = operation.key.as_str();
            match self.keys {
                KeyForm::Hashed => add("semel.key_hash", key_hash(key).into()),
                KeyForm::Plain => add("semel.key", key.into()),
            }
            let tenant = operation.scope.tenant();
            if !tenant.is_empty() {
                add("semel.tenant", tenant.into());
            }
        }
        if let Some(claim) = spans.claim_id {
            add("semel.claim_id", claim.to_string().into());
        }
        if let Some(hit) = hit {
            add("semel.hit", hit.into());
        }
        if let Some(attempt) = spans.attempt {
            add("semel.attempt", i64::from(attempt).into());
        }
        if spans.asked > 1 {
            add("semel.asked", i64::from(spans.asked).into());
        }
        add("semel.takeover", spans.takeover.into());
        add("semel.fenced", (spans.end == End::Fenced).into());
        let facts = [
            ("semel.resumed", spans.resumed),
            ("semel.possible_repeat", spans.possible_repeat),
            ("semel.formerly_expired", spans.formerly_expired),
            ("semel.follows_fence", spans.follows_fence),
            ("semel.outcome_differs", spans.outcome_differs),
        ];
        for (name, _) in facts.into_iter().filter(|(_, is_so)| *is_so) {
            add(name, true.into());
        }
        if let Some(verdict) = spans.verdict {
            add("semel.verdict", verdict.into());
        }
        let end = end_name(spans.end);
        add("semel.fate", end.into());
        if spans.has_failed() {
            add("error.type", end.into());
            process.status = Some(self.failure(spans));
        }
        process.attributes = attributes;
        process
    }

    /// Returns the status of a span that failed. A reason may repeat the key, which only plain spans have.
    fn failure(&self, spans: &Spans<'_>) -> Status {
        Status {
            message: self.masked(spans, spans.error.unwrap_or_default()),
            code: StatusCode::Error.into(),
        }
    }

    fn masked(&self, spans: &Spans<'_>, text: &str) -> String {
        masked(self.keys, spans.operation.map(|it| it.key.as_str()), text)
    }
}

/// Returns a text without the key, unless spans have it.
pub(super) fn masked(keys: KeyForm, key: Option<&str>, text: &str) -> String {
    match (keys, key) {
        (KeyForm::Hashed, Some(key)) if key.len() >= SHORTEST_KEY_BYTES => text.replace(key, "***"),
        _ => text.to_owned(),
    }
}

/// Returns the attributes of a place that an effect goes to.
pub(super) fn target(target: &TracedTarget) -> Vec<KeyValue> {
    let (mut attributes, server) = match target {
        TracedTarget::Local => (Vec::new(), None),
        TracedTarget::Broker {
            system,
            destination,
            server,
        } => {
            // Each system has a word of its own.
            let operation = if *system == "kafka" {
                "send"
            } else {
                "publish"
            };
            let attributes = vec![
                KeyValue::new("messaging.system", *system),
                KeyValue::new("messaging.operation.type", "send"),
                KeyValue::new("messaging.operation.name", operation),
                KeyValue::new("messaging.destination.name", destination.clone()),
            ];
            (attributes, server.as_ref())
        }
        TracedTarget::Http {
            method,
            url,
            server,
        } => {
            let mut attributes = vec![KeyValue::new("url.full", url.clone())];
            attributes.extend(http_method(method));
            (attributes, Some(server))
        }
        TracedTarget::Database { system, server } => {
            let attributes = vec![KeyValue::new("db.system.name", *system)];
            (attributes, server.as_ref())
        }
    };
    if let Some((host, port)) = server {
        attributes.extend(server_at(host, *port));
    }
    attributes
}

fn server_at(host: &str, port: u16) -> [KeyValue; 2] {
    [
        KeyValue::new("server.address", host.to_owned()),
        KeyValue::new("server.port", i64::from(port)),
    ]
}

fn http_method(method: &str) -> Vec<KeyValue> {
    if METHODS.contains(&method) {
        return vec![KeyValue::new("http.request.method", method.to_owned())];
    }
    vec![
        KeyValue::new("http.request.method", "_OTHER"),
        KeyValue::new("http.request.method_original", method.to_owned()),
    ]
}

/// Returns the attributes of the request of HTTP that an effect was, beside those that its settings say.
fn exchanged(exchange: &HttpExchange, url: Option<String>) -> Vec<KeyValue> {
    let mut attributes = Vec::new();
    if let Some(method) = &exchange.method {
        attributes.extend(http_method(method));
    }
    if let Some(url) = url {
        attributes.push(KeyValue::new("url.full", url));
    }
    if let Some((host, port)) = &exchange.server {
        attributes.extend(server_at(host, *port));
    }
    if let Some(status) = exchange.status {
        attributes.push(status_code(status));
    }
    attributes
}

fn status_code(status: u16) -> KeyValue {
    KeyValue::new("http.response.status_code", i64::from(status))
}

/// Returns the kind of failure that an effect ended with: the status of an HTTP answer that is an error, else the verdict.
/// A status of 4xx is one unless the effect counts as applied all the same.
fn effect_error(spans: &Spans<'_>) -> Option<String> {
    let failed = spans.verdict.filter(|it| *it != "applied");
    let status = spans.http.and_then(|it| it.status);
    let least = if failed.is_some() { 400 } else { 500 };
    match status.filter(|it| *it >= least) {
        Some(status) => Some(status.to_string()),
        None => failed.map(str::to_owned),
    }
}

fn decision(spans: &Spans<'_>) -> Vec<KeyValue> {
    let duplicate = spans.duplicate.map(Duplicate::as_str);
    let each = [
        ("semel.decision", spans.decision),
        ("semel.duplicate", duplicate),
    ];
    let said = each.into_iter();
    said.filter_map(|(name, word)| word.map(|word| KeyValue::new(name, word)))
        .collect()
}

/// Returns a span without attributes. Its parent is a span of its own process, or one that came with the message; of a
/// call, nobody knows.
pub(super) fn bare(
    name: &str,
    kind: SpanKind,
    span: Span,
    parent: Option<(TraceContext, Option<bool>)>,
) -> otlp::Span {
    let parent_id = parent.map(|(parent, _)| parent.span_id.to_bytes().to_vec());
    otlp::Span {
        trace_id: span.context.trace_id.to_bytes().to_vec(),
        span_id: span.context.span_id.to_bytes().to_vec(),
        parent_span_id: parent_id.unwrap_or_default(),
        name: name.to_owned(),
        kind: kind.into(),
        start_time_unix_nano: nanos(span.began),
        end_time_unix_nano: nanos(span.began + span.took),
        flags: flags(span.context, parent.and_then(|(_, is_remote)| is_remote)),
        ..otlp::Span::default()
    }
}

/// Returns the marks of a trace, and whether the parent, or the span that is linked, is of another process, if that is
/// known.
pub(super) fn flags(context: TraceContext, is_remote: Option<bool>) -> u32 {
    let marks = u32::from(context.flags.to_byte());
    match is_remote {
        None => marks,
        Some(false) => marks | HAS_IS_REMOTE,
        Some(true) => marks | HAS_IS_REMOTE | IS_REMOTE,
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the first 16 hexadecimal digits of the BLAKE3 hash of a key.
fn key_hash(key: &str) -> String {
    blake3::hash(key.as_bytes()).to_hex()[..16].to_owned()
}

const fn end_name(end: End) -> &'static str {
    match end {
        End::Claimed => "claimed",
        End::Released => "released",
        End::Fenced => "fenced",
        End::Gone => "gone",
        End::GivenBack => "given_back",
        End::StoreFailed => "store_failed",
        End::Fate(fate) => match fate {
            Fate::Applied => "applied",
            Fate::Replayed => "replayed",
            Fate::Stale => "stale",
            Fate::Conflict => "conflict",
            Fate::TooOld => "too_old",
            Fate::Released => "released",
            Fate::Dead => "dead",
            Fate::InDoubt => "in_doubt",
            Fate::Quarantined => "quarantined",
            Fate::Unprotected => "unprotected",
        },
    }
}

/// `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`.
const HAS_IS_REMOTE: u32 = 0x100;
/// `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`.
const IS_REMOTE: u32 = 0x200;
/// The methods that `http.request.method` has by their names.
const METHODS: [&str; 9] = [
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];
/// A shorter key would be found in words that have nothing to do with it.
const SHORTEST_KEY_BYTES: usize = 3;
