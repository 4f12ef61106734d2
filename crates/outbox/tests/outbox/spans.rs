//! The spans of a relay: what a message names as its producer, and what is handed over.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::outbox::OutboxId;
use semel_core::{ErrorKind, SpanId, TraceContext, TraceFlags, TraceId};
use semel_outbox::{Event, Observer, PublicationSpan};
use tokio::time::sleep;

use crate::Lab;
use crate::fakes::{FakeOutbox, FakeSink, Headers, Told};

/// Samples nothing by itself; numbers its spans.
#[derive(Default)]
struct Seen {
    spans: Mutex<Vec<String>>,
    told: Mutex<Vec<(u128, Option<TraceContext>)>>,
    count: Mutex<u64>,
}

impl Observer for Seen {
    fn observe(&self, _: &str, event: &Event<'_>) {
        if let Event::Dead { id, span, .. } | Event::PutOff { id, span, .. } = event {
            self.told
                .lock()
                .expect("no panic")
                .push((id.as_u128(), *span));
        }
    }

    fn wants_spans(&self) -> bool {
        true
    }

    fn span_of(&self, id: OutboxId, parent: Option<TraceContext>) -> Option<TraceContext> {
        let mut count = self.count.lock().expect("no panic");
        *count += 1;
        let span_id = SpanId::from_bytes(count.to_be_bytes())?;
        let own = TraceContext {
            trace_id: TraceId::from_bytes(id.as_u128().to_be_bytes())?,
            span_id,
            flags: TraceFlags::default(),
        };
        Some(parent.map_or(own, |parent| parent.with_span(span_id)))
    }

    fn observe_span(&self, relay: &str, span: &PublicationSpan<'_>) {
        let parent = span.parent.map_or("none".to_owned(), |it| it.to_string());
        let (id, end) = (span.id.as_u128(), span.end.as_str());
        let state = span.state.unwrap_or_default();
        let line = format!("{relay} {id} {end} {} below {parent} {state}", span.attempt);
        self.spans.lock().expect("no panic").push(line);
        assert_eq!(span.error.is_some(), span.end.is_failure(), "{span:?}");
        assert!(
            span.message_bytes > 0 && span.took >= Duration::from_secs(1) || span.end.is_failure()
        );
    }
}

/// Wants no spans, so that nobody asks for those that it has.
struct Unwilling(Seen);

impl Observer for Unwilling {
    fn observe(&self, _: &str, _: &Event<'_>) {}

    fn span_of(&self, id: OutboxId, parent: Option<TraceContext>) -> Option<TraceContext> {
        self.0.span_of(id, parent)
    }
}

fn headers(parent: &str) -> Headers {
    vec![
        ("a".into(), "b".into()),
        ("TraceParent".into(), parent.to_owned().into()),
        ("tracestate".into(), "vendor=1".into()),
    ]
}

const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

#[tokio::test(start_paused = true)]
async fn a_message_names_the_span_of_its_try_and_failures_are_always_handed_over() {
    let (outbox, sink, seen) = (
        FakeOutbox::default(),
        FakeSink::default(),
        Arc::new(Seen::default()),
    );
    sink.takes_its_time(Duration::from_secs(1));
    sink.fails(4, ErrorKind::InvalidInput);
    outbox.commit_with(1, None, Ok(headers(SAMPLED)));
    outbox.commit_with(2, None, Ok(headers(UNSAMPLED)));
    outbox.commit_with(3, None, Ok(headers("no trace")));
    outbox.commit_with(4, None, Ok(headers(UNSAMPLED)));
    outbox.commit_with(5, None, Err("no headers".into()));
    let lab = Lab::observed(outbox, sink, Told::default(), seen.clone());
    lab.recorded(3).await;
    while lab.outbox.dead().len() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    let (_, _, sink, _) = lab.stop().await;
    let parent =
        |trace: &str, span: u64, mark: &str| format!("traceparent: 00-{trace}-{span:016x}-{mark}");
    let state = "tracestate: vendor=1".to_owned();
    let a = "a: b".to_owned();
    let first = parent(&SAMPLED[3..35], 1, "01");
    assert_eq!(sink.headers(1), [a.clone(), state.clone(), first]);
    let second = parent(&UNSAMPLED[3..35], 2, "00");
    assert_eq!(sink.headers(2), [a.clone(), state, second]);
    // What came with no trace goes with none, and the message begins one that its id names.
    assert_eq!(
        sink.headers(3),
        [a, parent(&format!("{:032x}", 3), 3, "00")]
    );
    let mut spans = seen.spans.lock().expect("no panic").clone();
    spans.sort_unstable();
    assert_eq!(
        spans,
        [
            format!("out 1 published 1 below {SAMPLED} vendor=1"),
            format!("out 4 dead 1 below {UNSAMPLED} vendor=1"),
            "out 5 dead 1 below none ".to_owned(),
        ]
    );
    let told = seen.told.lock().expect("no panic").clone();
    let told: Vec<_> = told
        .into_iter()
        .map(|(id, span)| (id, span.is_some()))
        .collect();
    assert_eq!(told.len(), 2);
    assert!(
        told.contains(&(4, true)) && told.contains(&(5, true)),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn of_an_outage_one_span_of_a_batch_is_handed_over_and_each_try_has_its_own() {
    let (outbox, sink, seen) = (
        FakeOutbox::default(),
        FakeSink::default(),
        Arc::new(Seen::default()),
    );
    sink.takes_its_time(Duration::from_secs(1));
    for id in 1..=3 {
        sink.fails(id, ErrorKind::Unavailable);
        outbox.commit_with(id, None, Ok(headers(UNSAMPLED)));
    }
    let lab = Lab::observed(outbox, sink, Told::default(), seen.clone());
    let count = || seen.spans.lock().expect("no panic").len();
    while count() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    let spans = seen.spans.lock().expect("no panic").clone();
    let expected = format!("out 1 put_off 1 below {UNSAMPLED} vendor=1");
    assert!(spans.iter().all(|it| *it == expected), "{spans:?}");
    assert!(
        *seen.count.lock().expect("no panic") >= 6,
        "each try of each message"
    );
    for id in 1..=3 {
        lab.sink.takes(id);
    }
    lab.recorded(3).await;
    lab.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_try_that_a_stop_breaks_off_is_no_failure_and_kept_by_its_mark_alone() {
    let (outbox, sink, seen) = (
        FakeOutbox::default(),
        FakeSink::default(),
        Arc::new(Seen::default()),
    );
    sink.takes_its_time(Duration::from_secs(3_600));
    outbox.commit_with(1, None, Ok(headers(SAMPLED)));
    outbox.commit_with(2, None, Ok(headers(UNSAMPLED)));
    let lab = Lab::observed(outbox, sink, Told::default(), seen.clone());
    sleep(Duration::from_secs(1)).await;
    lab.stop().await;
    assert_eq!(*seen.count.lock().expect("no panic"), 2, "both were begun");
    let spans = seen.spans.lock().expect("no panic").clone();
    let expected = format!("out 1 given_back 1 below {SAMPLED} vendor=1");
    assert_eq!(spans, [expected]);
}

#[tokio::test(start_paused = true)]
async fn while_nobody_wants_spans_a_trace_goes_on_as_it_came() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    outbox.commit_with(1, None, Ok(headers("no trace")));
    let unwilling = Arc::new(Unwilling(Seen::default()));
    let lab = Lab::observed(outbox, sink, Told::default(), unwilling);
    lab.recorded(1).await;
    let (_, _, sink, _) = lab.stop().await;
    assert_eq!(
        sink.headers(1),
        ["a: b", "TraceParent: no trace", "tracestate: vendor=1"]
    );
}
