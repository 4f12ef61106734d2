use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use semel_http::{Caller, Role, Tenant};

use super::*;
use crate::series::{Series, SeriesQuery};

/// A worker whose count and state a test sets.
#[derive(Default)]
struct Counting {
    done: AtomicU64,
    is_stopping: AtomicU64,
    asked: AtomicU64,
}

impl Worker for Counting {
    fn status(&self) -> Value {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let is_stopping = self.is_stopping.load(Ordering::Relaxed) == 1;
        let state = if is_stopping { "stopping" } else { "running" };
        json!({ "state": state, "ready": !is_stopping })
    }

    fn pipelines(&self) -> Vec<(Box<str>, Value)> {
        let done = self.done.load(Ordering::Relaxed);
        let pipeline = json!({ "state": "running", "set_aside": { "dead": 1 }, "so_far": { "applied": done }, "window": "72h" });
        vec![("pay".into(), pipeline)]
    }

    fn series(&self, _: SeriesQuery<'_>) -> Series {
        Series::default()
    }
}

fn query(caller: Caller) -> Query {
    let mut request = Request::get("/v1/events")
        .body(Body::empty())
        .expect("a request");
    request.extensions_mut().insert(caller);
    Query::read(&request.into_parts().0, &[]).expect("a query")
}

fn opened(events: &Events, worker: &Arc<Counting>) -> Body {
    let worker: Arc<dyn Worker> = Arc::clone(worker) as _;
    let opened = events.open(&worker, &query(Caller::loopback()));
    opened.expect("a stream").into_body()
}

async fn told(body: &mut Body) -> Option<String> {
    let frame = body.frame().await?.expect("it never fails");
    let data = frame.into_data().expect("data");
    Some(String::from_utf8(data.to_vec()).expect("text"))
}

#[tokio::test(start_paused = true)]
async fn a_stream_tells_all_at_first_and_then_what_has_changed_once_a_second() {
    let (events, worker) = (Events::new(), Arc::default());
    let mut body = opened(&events, &worker);
    let first = told(&mut body).await.expect("an event");
    for part in [
        "retry: 1000\n\n",
        "event: status\ndata: {\"pipelines\":[{\"pipeline\":\"pay\",\"reasons\":null,\"state\":\"running\"}],\"ready\":true,\"state\":\"running\"}\n\n",
        "event: set_aside\ndata: {\"pipelines\":[{\"pipeline\":\"pay\",\"set_aside\":{\"dead\":1}}]}\n\n",
        "event: so_far\ndata: {\"pipelines\":[{\"pipeline\":\"pay\",\"so_far\":{\"applied\":0}}]}\n\n",
    ] {
        assert!(first.contains(part), "{part} {first}");
    }
    worker.done.store(7, Ordering::Relaxed);
    let (before, second) = (Instant::now(), told(&mut body).await.expect("an event"));
    assert_eq!(before.elapsed(), TICK);
    let expected = "event: so_far\ndata: {\"pipelines\":[{\"pipeline\":\"pay\",\"so_far\":{\"applied\":7}}]}\n\n";
    assert_eq!(second, expected);
    let (before, silence) = (Instant::now(), told(&mut body).await.expect("a heartbeat"));
    assert_eq!(
        (before.elapsed(), &*silence),
        (HEARTBEAT, "event: heartbeat\ndata: {}\n\n")
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_worker_and_after_its_time() {
    let (events, worker) = (Events::new(), Arc::default());
    let (mut body, begun) = (opened(&events, &worker), Instant::now());
    while told(&mut body).await.is_some() {
        assert!(begun.elapsed() <= LONGEST);
    }
    assert_eq!(begun.elapsed(), LONGEST);
    let mut body = opened(&events, &worker);
    told(&mut body).await.expect("the first");
    worker.is_stopping.store(1, Ordering::Relaxed);
    let last = told(&mut body).await.expect("the last");
    assert!(last.contains("\"state\":\"stopping\""), "{last}");
    assert_eq!(told(&mut body).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_streams_is_bounded_and_they_ask_the_worker_once_for_all() {
    let (events, worker) = (Events::new(), Arc::default());
    let mut bodies: Vec<_> = (0..STREAMS).map(|_| opened(&events, &worker)).collect();
    for body in &mut bodies {
        told(body).await.expect("an event");
    }
    assert_eq!(worker.asked.load(Ordering::Relaxed), 1);
    let one_more: Arc<dyn Worker> = Arc::clone(&worker) as _;
    let refused = events.open(&one_more, &query(Caller::loopback()));
    assert_eq!(refused.expect_err("there is no room").code(), "throttled");
    bodies.pop();
    let _ = opened(&events, &worker);
}

#[tokio::test]
async fn a_caller_of_one_tenant_is_refused() {
    let (events, worker) = (Events::new(), Arc::<Counting>::default());
    let caller = Caller {
        name: "eve".into(),
        role: Role::Admin,
        tenant: Some(Tenant::new("acme")),
    };
    let worker: Arc<dyn Worker> = worker;
    let refused = events.open(&worker, &query(caller));
    assert_eq!(refused.expect_err("it is about all").code(), "forbidden");
}
