use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use prost::Message;
use semel_core::{Fate, Key, Operation, Scope, SpanId, TraceContext, TraceFlags, TraceId};
use semel_engine::trace::{End, HttpExchange, ProcessKind, Span};
use tokio::time::Instant;

use super::otlp::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse, Value,
};
use super::*;

mod publication;

/// A collector, and its behaviour.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    spans: Vec<otlp::Span>,
    resource: Vec<otlp::KeyValue>,
    calls: usize,
    manner: Manner,
    news: Vec<News>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Manner {
    #[default]
    Takes,
    Refuses,
    Hangs,
    Page,
    Rejects(i64),
}

impl Collector {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    fn begin(&self, share: SampleShare, keys: KeyForm) -> (Exporter, PipelineTraces, LostSpans) {
        self.begin_to(share, keys, ("http", charges()))
    }

    /// Begins with an effect of this kind that goes to this place.
    fn begin_to(
        &self,
        share: SampleShare,
        keys: KeyForm,
        (effect, target): (&'static str, TracedTarget),
    ) -> (Exporter, PipelineTraces, LostSpans) {
        let settings = TraceSettings {
            share,
            keys,
            resource: vec![("service.name".into(), "shop".into())],
            version: "1.2.3",
        };
        let lost = LostSpans::default();
        let told = self.clone();
        let on_news: OnNews = Arc::new(move |news| told.state().news.push(news));
        let exporter = Exporter::begin(settings, self.clone(), lost.clone(), on_news);
        let traces = exporter.traces().pipeline(&TracedPipeline {
            name: "pay".into(),
            system: "kafka",
            destination: Some("orders".into()),
            group: Some("shop".into()),
            effect,
            target,
            class: Class::Transactional,
            front: TracedFront::None,
        });
        (exporter, traces, lost)
    }

    fn ids(&self) -> Vec<Vec<u8>> {
        self.state()
            .spans
            .iter()
            .map(|it| it.span_id.clone())
            .collect()
    }
}

fn charges() -> TracedTarget {
    TracedTarget::Http {
        method: "POST".into(),
        url: "https://pay.example/charge".into(),
        server: ("pay.example".into(), 443),
    }
}

impl Transport for Collector {
    async fn post(&self, body: Vec<u8>) -> Result<Vec<u8>, Refused> {
        let manner = {
            let mut state = self.state();
            state.calls += 1;
            state.manner
        };
        let rejected_spans = match manner {
            Manner::Takes => 0,
            Manner::Refuses => return Err(Refused("connection refused".into())),
            Manner::Hangs => return std::future::pending().await,
            Manner::Rejects(count) => count,
            Manner::Page => return Ok(b"<!doctype html><html></html>".to_vec()),
        };
        let request = ExportTraceServiceRequest::decode(&*body).expect("a request");
        let mut state = self.state();
        for resource in request.resource_spans {
            state.resource = resource.resource.expect("a resource").attributes;
            let scopes = resource.scope_spans.into_iter();
            state.spans.extend(scopes.flat_map(|scope| scope.spans));
        }
        let answer = ExportTraceServiceResponse {
            partial_success: (rejected_spans > 0).then(|| ExportTracePartialSuccess {
                rejected_spans,
                error_message: "too old".into(),
            }),
        };
        Ok(answer.encode_to_vec())
    }
}

fn context(number: u64, is_sampled: bool) -> TraceContext {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut bytes = [7; 16];
    bytes[8..].copy_from_slice(&(mixed ^ (mixed >> 27)).to_be_bytes());
    let sampled = if is_sampled {
        TraceFlags::SAMPLED
    } else {
        TraceFlags::default()
    };
    TraceContext {
        trace_id: TraceId::from_bytes(bytes).expect("not zero"),
        span_id: SpanId::from_bytes((number + 1).to_be_bytes()).expect("not zero"),
        flags: sampled,
    }
}

fn span(number: u64, is_sampled: bool) -> Span {
    Span {
        context: context(number, is_sampled),
        began: Duration::from_millis(1_795_255_200_123),
        took: Duration::from_micros(1_500),
    }
}

fn applied(number: u64, is_sampled: bool) -> Spans<'static> {
    let end = End::Fate(Fate::Applied);
    Spans::new(span(number, is_sampled), "t/0@7", end)
}

fn attributes(span: &otlp::Span) -> BTreeMap<&str, &Value> {
    let each = span.attributes.iter();
    each.map(|it| {
        (
            &*it.key,
            it.value
                .as_ref()
                .and_then(|it| it.value.as_ref())
                .expect("a value"),
        )
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_a_span_with_children_and_a_link() {
    let collector = Collector::default();
    let (exporter, traces, lost) = collector.begin(SampleShare::NONE, KeyForm::Hashed);
    let operation = Operation::new(
        Scope::new("acme", "pay").expect("a scope"),
        Key::parse("card-4711").expect("a key"),
    );
    let parent = context(40, true);
    let mut spans = Spans::new(span(1, true), "t/0@7", End::Released);
    spans.parent = Some(parent);
    spans.state = Some("vendor=1");
    spans.claim = Some(span(2, true));
    spans.effect = Some(span(3, true));
    spans.settle = Some(span(4, true));
    spans.operation = Some(&operation);
    spans.message_bytes = 12;
    spans.asked = 2;
    spans.decision = Some("granted");
    spans.attempt = Some(2);
    spans.takeover = true;
    spans.verdict = Some("not_applied");
    spans.error = Some("card-4711 was declined");
    traces.observe_spans("pay", &spans);
    exporter.close().await;

    let state = collector.state();
    let [process, claim, effect, settle] = &state.spans[..] else {
        panic!("{:?}", state.spans)
    };
    assert_eq!(lost.count(), 0);
    assert_eq!(process.name, "process pay");
    assert_eq!(process.kind, otlp::SpanKind::Consumer as i32);
    assert_eq!(process.parent_span_id, parent.span_id.to_bytes());
    assert_eq!(process.trace_state, "vendor=1");
    assert_eq!(process.start_time_unix_nano, 1_795_255_200_123_000_000);
    assert_eq!(process.end_time_unix_nano, 1_795_255_200_124_500_000);
    assert_eq!(process.flags, 0x301);
    let [link] = &process.links[..] else {
        panic!("{:?}", process.links)
    };
    assert_eq!(link.trace_id, parent.trace_id.to_bytes());
    assert_eq!(link.span_id, parent.span_id.to_bytes());
    assert_eq!((&*link.trace_state, link.flags), ("vendor=1", 0x301));
    let names = [claim, effect, settle].map(|it| &*it.name);
    assert_eq!(names, ["claim", "effect http", "settle"]);
    for child in [claim, effect, settle] {
        assert_eq!(child.parent_span_id, process.span_id);
        assert!(child.links.is_empty());
        assert_eq!(child.flags, 0x101);
    }
    assert_eq!(effect.kind, otlp::SpanKind::Client as i32);
    let status = process.status.clone().expect("a failure");
    assert_eq!(status.code, otlp::StatusCode::Error as i32);
    assert_eq!(status.message, "*** was declined");
    assert!(effect.status.is_some() && claim.status.is_none() && settle.status.is_none());
    let text = |text: &str| Value::String(text.into());
    let said = attributes(process);
    let hash = said["semel.key_hash"];
    let digits = blake3::hash(b"card-4711").to_hex();
    assert_eq!(hash, &text(&digits[..16]));
    let expected = [
        ("messaging.system", text("kafka")),
        ("messaging.operation.type", text("process")),
        ("messaging.operation.name", text("process")),
        ("messaging.destination.name", text("orders")),
        ("messaging.consumer.group.name", text("shop")),
        ("messaging.message.body.size", Value::Int(12)),
        ("semel.pipeline", text("pay")),
        ("semel.class", text("transactional")),
        ("semel.coordinates", text("t/0@7")),
        ("semel.operation_id", text(&operation.id().to_string())),
        ("semel.tenant", text("acme")),
        ("semel.decision", text("granted")),
        ("semel.hit", text("store")),
        ("semel.attempt", Value::Int(2)),
        ("semel.asked", Value::Int(2)),
        ("semel.takeover", Value::Bool(true)),
        ("semel.fenced", Value::Bool(false)),
        ("semel.verdict", text("not_applied")),
        ("semel.fate", text("released")),
        ("error.type", text("released")),
    ];
    for (name, value) in &expected {
        assert_eq!(said.get(name), Some(&value), "{name}");
    }
    assert_eq!(said.len(), expected.len() + 1, "{said:?}");
    assert_eq!(
        state.resource,
        [otlp::KeyValue::new("service.name", "shop")]
    );
    assert!(!format!("{:?}", state.spans).contains("4711"));
}

/// Checks kind and attributes of the span of an effect that goes to this place and is applied.
async fn goes_to(target: TracedTarget, kind: otlp::SpanKind, expected: &[(&str, &str)]) {
    let collector = Collector::default();
    let (exporter, traces, _) =
        collector.begin_to(SampleShare::ALL, KeyForm::Hashed, ("kind", target));
    let mut spans = applied(1, true);
    spans.effect = Some(span(2, true));
    spans.verdict = Some("applied");
    traces.observe_spans("pay", &spans);
    exporter.close().await;
    let state = collector.state();
    let [process, effect] = &state.spans[..] else {
        panic!("{:?}", state.spans)
    };
    assert_eq!((&*effect.name, effect.kind), ("effect kind", kind as i32));
    let said = attributes(effect).into_iter().map(|(name, value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Int(number) => number.to_string(),
            Value::Bool(is_so) => is_so.to_string(),
        };
        (name, value)
    });
    let mut expected: BTreeMap<_, _> = expected
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    expected.insert("semel.verdict", "applied".to_owned());
    assert_eq!(said.collect::<BTreeMap<_, _>>(), expected);
    let said = attributes(process);
    let system = Value::String("kafka".into());
    assert_eq!(said["messaging.system"], &system, "that of the source");
    assert!(!said.contains_key("server.address"));
}

#[tokio::test(start_paused = true)]
async fn what_is_published_names_its_broker_and_its_destination() {
    let broker = |system, server: Option<(&str, u16)>| TracedTarget::Broker {
        system,
        destination: "paid".into(),
        server: server.map(|(host, port)| (host.to_owned(), port)),
    };
    let kafka = broker("kafka", Some(("one", 9_092)));
    let expected = [
        ("messaging.system", "kafka"),
        ("messaging.destination.name", "paid"),
        ("messaging.operation.type", "send"),
        ("messaging.operation.name", "send"),
        ("server.address", "one"),
        ("server.port", "9092"),
    ];
    goes_to(kafka, otlp::SpanKind::Producer, &expected).await;
    let expected = [
        ("messaging.system", "rabbitmq"),
        ("messaging.destination.name", "paid"),
        ("messaging.operation.type", "send"),
        ("messaging.operation.name", "publish"),
    ];
    let rabbitmq = broker("rabbitmq", None);
    goes_to(rabbitmq, otlp::SpanKind::Producer, &expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_names_its_server() {
    let expected = [
        ("url.full", "https://pay.example/charge"),
        ("http.request.method", "POST"),
        ("server.address", "pay.example"),
        ("server.port", "443"),
    ];
    goes_to(charges(), otlp::SpanKind::Client, &expected).await;
    let own_method = TracedTarget::Http {
        method: "CHARGE".into(),
        url: "http://pay.example/".into(),
        server: ("pay.example".into(), 80),
    };
    let expected = [
        ("url.full", "http://pay.example/"),
        ("http.request.method", "_OTHER"),
        ("http.request.method_original", "CHARGE"),
        ("server.address", "pay.example"),
        ("server.port", "80"),
    ];
    goes_to(own_method, otlp::SpanKind::Client, &expected).await;
    let database = |system, server| TracedTarget::Database { system, server };
    let postgres = database("postgresql", Some(("db".to_owned(), 5_432)));
    let expected = [
        ("db.system.name", "postgresql"),
        ("server.address", "db"),
        ("server.port", "5432"),
    ];
    goes_to(postgres, otlp::SpanKind::Client, &expected).await;
    let expected = [("db.system.name", "sqlite")];
    goes_to(database("sqlite", None), otlp::SpanKind::Client, &expected).await;
    goes_to(TracedTarget::Local, otlp::SpanKind::Internal, &[]).await;
}

/// Returns the attributes of the span of an effect that ended so with this exchange, its kind, and whether it failed.
async fn exchanged(
    target: TracedTarget,
    verdict: &'static str,
    exchange: HttpExchange,
) -> (BTreeMap<String, String>, i32, bool) {
    let collector = Collector::default();
    let to = ("http", target);
    let (exporter, traces, _) = collector.begin_to(SampleShare::ALL, KeyForm::Hashed, to);
    let mut spans = applied(1, true);
    (spans.effect, spans.verdict) = (Some(span(2, true)), Some(verdict));
    spans.http = Some(&exchange);
    traces.observe_spans("pay", &spans);
    exporter.close().await;
    let state = collector.state();
    let effect = &state.spans[1];
    let text = |value: &Value| match value {
        Value::Int(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Bool(truth) => truth.to_string(),
    };
    let said = attributes(effect).into_iter();
    let said = said.map(|(name, value)| (name.to_owned(), text(value)));
    (said.collect(), effect.kind, effect.status.is_some())
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_http_has_its_status_and_an_error_its_type() {
    let answered = |status| HttpExchange {
        status,
        ..HttpExchange::default()
    };
    for (verdict, status, error) in [
        ("applied", Some(201), None),
        ("applied", Some(409), None),
        ("applied", Some(500), Some("500")),
        ("not_applied", Some(429), Some("429")),
        ("failed", Some(404), Some("404")),
        ("failed", Some(301), Some("failed")),
        ("maybe_applied", Some(502), Some("502")),
        ("maybe_applied", Some(200), Some("maybe_applied")),
        ("maybe_applied", None, Some("maybe_applied")),
    ] {
        let (said, kind, has_failed) = exchanged(charges(), verdict, answered(status)).await;
        let found = said.get("http.response.status_code").cloned();
        assert_eq!(found, status.map(|it| it.to_string()), "{verdict}");
        let found = said.get("error.type").map(|it| &**it);
        assert_eq!(
            (found, has_failed),
            (error, error.is_some()),
            "{verdict} {status:?}"
        );
        assert_eq!(said["http.request.method"], "POST");
        assert_eq!(said["url.full"], "https://pay.example/charge");
        assert_eq!(kind, otlp::SpanKind::Client as i32);
    }
    // A gateway learns with each request which server it went to.
    let sent = HttpExchange {
        method: Some("CHARGE".into()),
        url: Some("http://upstream:8080/charges".into()),
        server: Some(("upstream".into(), 8_080)),
        status: Some(201),
    };
    let (said, kind, _) = exchanged(TracedTarget::Local, "applied", sent.clone()).await;
    for (name, value) in [
        ("http.request.method", "_OTHER"),
        ("http.request.method_original", "CHARGE"),
        ("url.full", "http://upstream:8080/charges"),
        ("server.address", "upstream"),
        ("server.port", "8080"),
        ("http.response.status_code", "201"),
    ] {
        assert_eq!(said.get(name).map(|it| &**it), Some(value), "{said:?}");
    }
    assert_eq!(kind, otlp::SpanKind::Client as i32);
    // A handler in the same process is no call of a server.
    let here = HttpExchange {
        url: None,
        server: None,
        ..sent
    };
    let (said, kind, _) = exchanged(TracedTarget::Local, "applied", here).await;
    assert!(!said.contains_key("server.address"), "{said:?}");
    assert_eq!(kind, otlp::SpanKind::Internal as i32);
}

#[tokio::test(start_paused = true)]
async fn keys_are_plain_if_that_is_asked_for() {
    let collector = Collector::default();
    let (exporter, traces, _) = collector.begin(SampleShare::ALL, KeyForm::Plain);
    let scope = Scope::new("", "pay").expect("a scope");
    let operation = Operation::new(scope, Key::parse("card-4711").expect("a key"));
    let mut spans = Spans::new(span(1, false), "t/0@7", End::Fenced);
    spans.operation = Some(&operation);
    spans.error = Some("card-4711 was declined");
    traces.observe_spans("pay", &spans);
    exporter.close().await;
    let state = collector.state();
    let said = attributes(&state.spans[0]);
    assert_eq!(said["semel.key"], &Value::String("card-4711".into()));
    assert_eq!(said["semel.fenced"], &Value::Bool(true));
    assert!(!said.contains_key("semel.key_hash") && !said.contains_key("semel.tenant"));
    let status = state.spans[0].status.clone().expect("a failure");
    assert_eq!(status.message, "card-4711 was declined");
}

#[tokio::test(start_paused = true)]
async fn of_a_hundredth_everything_that_went_wrong_arrives() {
    let collector = Collector::default();
    let share = SampleShare::per_million(10_000);
    let (exporter, traces, lost) = collector.begin(share, KeyForm::Hashed);
    let mut wrong = Vec::new();
    let mut sampled = 0;
    for number in 0..20_000 {
        let is_sampled = share.has(context(number, false).trace_id);
        let mut spans = applied(number, is_sampled);
        let is_wrong = match number % 200 {
            7 => {
                spans.end = End::Fate(Fate::Conflict);
                true
            }
            60 => {
                spans.end = End::Fenced;
                true
            }
            111 => {
                spans.takeover = true;
                true
            }
            140 => {
                spans.end = End::Fate(Fate::InDoubt);
                true
            }
            _ => false,
        };
        if is_wrong {
            wrong.push(spans.process.context.span_id.to_bytes().to_vec());
        } else {
            sampled += usize::from(is_sampled);
        }
        // As the engine does.
        if spans.are_recorded() {
            traces.observe_spans("pay", &spans);
        }
        if number % 1_000 == 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    exporter.close().await;
    let ids = collector.ids();
    assert_eq!(wrong.len(), 400);
    assert!(wrong.iter().all(|id| ids.contains(id)));
    assert_eq!(ids.len(), wrong.len() + sampled);
    assert!((150..=250).contains(&sampled), "{sampled}");
    assert_eq!(lost.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_away_loses_spans_which_are_counted_and_said_once() {
    let collector = Collector::default();
    let (exporter, traces, lost) = collector.begin(SampleShare::ALL, KeyForm::Hashed);
    collector.state().manner = Manner::Refuses;
    for number in 0..10 {
        traces.observe_spans("pay", &applied(number, true));
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    assert_eq!((lost.count(), collector.state().calls), (10, 10));
    let away = News::Away("connection refused".into());
    assert_eq!(collector.state().news, [away]);
    collector.state().manner = Manner::Takes;
    traces.observe_spans("pay", &applied(10, true));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(collector.ids().len(), 1, "it came back");
    assert_eq!(
        collector.state().news.last(),
        Some(&News::Back { lost: 10 })
    );
    exporter.close().await;
    assert_eq!(lost.count(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_hangs_slows_nothing_and_every_span_is_counted() {
    let collector = Collector::default();
    collector.state().manner = Manner::Hangs;
    let (exporter, traces, lost) = collector.begin(SampleShare::ALL, KeyForm::Hashed);
    let begun = Instant::now();
    for number in 0..20_000 {
        let mut spans = applied(number, true);
        spans.claim = Some(span(number, true));
        traces.observe_spans("pay", &spans);
        if number == 1_000 {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }
    assert!(begun.elapsed() <= Duration::from_secs(3), "nobody waits");
    assert!(lost.count() > 0, "the queue is bounded");
    let closed = Instant::now();
    exporter.close().await;
    assert!(
        closed.elapsed() <= Duration::from_secs(2),
        "{:?}",
        closed.elapsed()
    );
    assert_eq!(lost.count(), 40_000);
    traces.observe_spans("pay", &applied(1, true));
    assert_eq!(lost.count(), 40_001, "after the end");
}

#[tokio::test(start_paused = true)]
async fn the_end_sends_what_waits_at_once() {
    let collector = Collector::default();
    let (exporter, traces, lost) = collector.begin(SampleShare::ALL, KeyForm::Hashed);
    for number in 0..2_000 {
        traces.observe_spans("pay", &applied(number, true));
    }
    let closed = Instant::now();
    exporter.close().await;
    assert!(closed.elapsed() < Duration::from_millis(50));
    assert_eq!((collector.ids().len(), lost.count()), (2_000, 0));
    assert!(collector.state().calls < 10, "in batches");
}

#[tokio::test(start_paused = true)]
async fn spans_that_the_collector_rejects_are_lost() {
    let collector = Collector::default();
    collector.state().manner = Manner::Rejects(3);
    let (exporter, traces, lost) = collector.begin(SampleShare::ALL, KeyForm::Hashed);
    for number in 0..5 {
        traces.observe_spans("pay", &applied(number, true));
    }
    exporter.close().await;
    assert_eq!(lost.count(), 3);
    let part = News::TookPart("too old".into());
    assert_eq!(collector.state().news, [part]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_none_of_a_collector_counts_as_a_failure() {
    let collector = Collector::default();
    collector.state().manner = Manner::Page;
    let (exporter, traces, lost) = collector.begin(SampleShare::ALL, KeyForm::Hashed);
    traces.observe_spans("pay", &applied(1, true));
    exporter.close().await;
    assert_eq!(lost.count(), 1);
    let away = News::Away("the answer is not that of a collector".into());
    assert_eq!(collector.state().news, [away]);
}

#[tokio::test(start_paused = true)]
async fn hard_cases_find_room_where_ordinary_ones_do_not() {
    let collector = Collector::default();
    let (exporter, traces, lost) = collector.begin(SampleShare::ALL, KeyForm::Hashed);
    for number in 0..5_000 {
        traces.observe_spans("pay", &applied(number, true));
    }
    assert_eq!(lost.count(), 5_000 - 3 * 1_024, "three quarters");
    for number in 5_000..6_024 {
        let mut spans = applied(number, false);
        spans.takeover = true;
        traces.observe_spans("pay", &spans);
    }
    exporter.close().await;
    assert_eq!(lost.count(), 5_000 - 3 * 1_024);
    assert_eq!(collector.state().news, [News::Overflows], "once");
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_program_is_an_internal_span_and_nothing_of_messages() {
    let collector = Collector::default();
    let (exporter, _, _) = collector.begin(SampleShare::ALL, KeyForm::Hashed);
    let handle = exporter.traces().handle();
    assert_eq!(handle.wants_spans(), Some(SampleShare::ALL));
    let parent = context(40, true);
    let mut call = applied(1, true);
    call.kind = ProcessKind::Internal;
    call.class = Some(Class::Keyed {
        provider_window: Duration::from_secs(60),
    });
    call.parent = Some(parent);
    call.effect = Some(span(3, true));
    handle.observe_spans("charge", &call);
    // The same handle has consumers, too.
    handle.observe_spans("payments", &applied(2, true));
    call.end = End::StoreFailed;
    call.process = span(4, false);
    handle.observe_spans("charge", &call);
    exporter.close().await;

    let state = collector.state();
    let [process, effect, consumer, failed, _] = &state.spans[..] else {
        panic!("{:?}", state.spans)
    };
    assert_eq!(
        (&*process.name, &*effect.name),
        ("process charge", "effect charge")
    );
    let internal = otlp::SpanKind::Internal as i32;
    assert_eq!((process.kind, effect.kind), (internal, internal));
    assert_eq!(process.parent_span_id, parent.span_id.to_bytes());
    assert!(process.links.is_empty());
    // Nobody says whose span the parent is; that of the effect is ours.
    assert_eq!((process.flags, effect.flags), (1, 0x101));
    let said = attributes(process);
    let text = |text: &str| Value::String(text.into());
    assert_eq!(said["semel.pipeline"], &text("charge"));
    assert_eq!(said["semel.class"], &text("keyed"));
    assert_eq!(said["semel.fate"], &text("applied"));
    let is_of_messages =
        |name: &&&str| name.starts_with("messaging") || **name == "semel.coordinates";
    assert_eq!(said.keys().find(is_of_messages), None);

    assert_eq!(consumer.name, "process payments");
    assert_eq!(consumer.kind, otlp::SpanKind::Consumer as i32);
    let said = attributes(consumer);
    assert_eq!(said["messaging.operation.type"], &text("process"));

    let said = attributes(failed);
    assert_eq!(said["semel.fate"], &text("store_failed"));
    assert!(failed.status.is_some(), "it is kept, and an error");
}
