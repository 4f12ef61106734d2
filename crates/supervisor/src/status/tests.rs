use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::{Method, StatusCode};
use semel_config::Waived;
use semel_conformance::TestClock;
use semel_core::port::horizon::Horizon;
use semel_core::port::source::DeliveryId;
use semel_core::port::streamed::Restored;
use semel_core::{Code, Error, ErrorKind, Timestamp};
use semel_engine::event::{Event, Observer};
use semel_engine::pipeline::Fail;
use semel_engine::summary::Fate;
use semel_engine::system::SystemClock;
use semel_telemetry::Format;
use serde_json::{Value, json};

use super::server::{answer, serve_watched};
use super::watchdog::Watchdog;
use super::*;

fn restored(partition: i32, read: u64, records: Option<u64>, is_done: bool) -> Restored {
    Restored {
        partition,
        read,
        records,
        operations: read * 10,
        is_done,
    }
}

/// A pipeline that is restored to this point.
struct Told(Arc<Mutex<Vec<Restored>>>);

impl Monitor for Told {
    fn restored(&self) -> Vec<Restored> {
        self.0.lock().expect("no panic").clone()
    }

    fn hindrance(&self) -> Option<Error> {
        None
    }
}

/// The status of a worker in which nothing fails.
fn status(stopped: watch::Receiver<bool>) -> Arc<Status> {
    let clock = Arc::new(SystemClock::new());
    let health = Health::new(Duration::from_secs(30), clock);
    Status::new(stopped, Arc::new(health), "memory:")
}

async fn asked(status: &Status, path: &str) -> (u16, String) {
    let alive = Watchdog::new(Duration::from_secs(1));
    let answer = answer(&Method::GET, path, Format::Prometheus, status, &alive);
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("a body");
    let body = body.to_bytes().to_vec();
    (code, String::from_utf8(body).expect("text"))
}

async fn state(status: &Status) -> (u16, Value) {
    let (code, body) = asked(status, "/readyz").await;
    (code, serde_json::from_str(&body).expect("JSON"))
}

#[tokio::test]
async fn a_worker_is_ready_when_it_has_begun_and_everything_is_restored() {
    let (stop, stopped) = watch::channel(false);
    let status = status(stopped);
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["state"]), (503, &json!("starting")));
    let now = Arc::new(Mutex::new(Vec::new()));
    status.restores("clean", Arc::new(Told(Arc::clone(&now))));
    let _ = status.counting("other", Arc::new(|_, _| {}));
    status.begin();
    *now.lock().expect("it") = vec![restored(0, 5, Some(5), true), restored(1, 0, None, false)];
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["state"]), (503, &json!("restoring")));
    let clean = &body["pipelines"]["clean"];
    assert_eq!(clean["state"], "restoring");
    assert_eq!(clean["restored"]["records"], Value::Null);
    assert_eq!(body["pipelines"]["other"]["state"], "running");
    *now.lock().expect("it") = vec![
        restored(0, 5, Some(5), true),
        restored(1, 3, Some(7), false),
    ];
    let (_, body) = state(&status).await;
    let expected = json!({
        "read": 8, "records": 12, "operations": 80,
        "partitions": [
            { "partition": 0, "state": "running", "read": 5, "records": 5, "operations": 50 },
            { "partition": 1, "state": "restoring", "read": 3, "records": 7, "operations": 30 },
        ],
    });
    assert_eq!(body["pipelines"]["clean"]["restored"], expected);
    now.lock().expect("it")[1] = restored(1, 7, Some(7), true);
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["state"]), (200, &json!("running")));
    stop.send_replace(true);
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["state"]), (503, &json!("stopping")));
    assert_eq!(asked(&status, "/healthz").await.0, 200);
}

/// An order to pause a pipeline.
fn order() -> OrderedPause {
    OrderedPause {
        kind: PauseKind::Pause,
        since: Timestamp::EPOCH,
        by: "ada".into(),
        reason: "".into(),
    }
}

#[tokio::test]
async fn a_worker_is_not_ready_before_it_knows_which_pipelines_are_paused() {
    let status = status(watch::channel(false).1);
    status.awaits_order("pay");
    status.begin();
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["state"]), (503, &json!("starting")));
    assert_eq!(body["pipelines"]["pay"]["state"], "starting");
    for (pause, expected) in [(Some(order()), "paused"), (None, "running")] {
        status.paused("pay", pause);
        let (code, body) = state(&status).await;
        assert_eq!((code, &body["state"]), (200, &json!("running")));
        assert_eq!(body["pipelines"]["pay"]["state"], expected);
    }
}

#[tokio::test]
async fn a_worker_is_not_ready_before_requests_find_the_source_of_each_path() {
    let status = status(watch::channel(false).1);
    for pipeline in ["events", "orders"] {
        status.takes_webhooks(pipeline, Arc::default());
    }
    status.begin();
    status.takes_requests("orders");
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["state"]), (503, &json!("starting")));
    assert_eq!(body["pipelines"]["events"]["state"], "starting");
    assert_eq!(body["pipelines"]["orders"]["state"], "running");
    status.takes_requests("events");
    assert_eq!(state(&status).await.0, 200);
}

/// A pipeline that is resumed takes the others out of no load balancer.
#[tokio::test]
async fn a_worker_stays_ready_while_the_source_of_a_resumed_pipeline_is_opened_again() {
    for was_open in [true, false] {
        let status = status(watch::channel(false).1);
        status.takes_webhooks("events", Arc::default());
        status.begin();
        if was_open {
            status.paused("events", None);
            assert_eq!(state(&status).await.0, 503, "its first start");
            status.takes_requests("events");
        }
        let told = async |pipeline: &str| {
            let (code, body) = state(&status).await;
            assert_eq!((code, &body["state"]), (200, &json!("running")));
            assert_eq!(body["pipelines"]["events"]["state"], pipeline);
        };
        status.paused("events", Some(order()));
        told("paused").await;
        status.paused("events", None);
        told("starting").await;
        status.takes_requests("events");
        told("running").await;
    }
}

#[tokio::test]
async fn a_worker_whose_pipelines_are_all_paused_is_ready_while_its_store_is_there() {
    let clock = TestClock::new();
    let after = Duration::from_secs(30);
    let health = Arc::new(Health::new(after, Arc::new(clock.clone())));
    let status = Status::new(watch::channel(false).1, Arc::clone(&health), "memory:");
    health.knows("pay");
    let _ = status.counting("pay", Arc::new(|_, _| {}));
    status.begin();
    let gone = Error::new(ErrorKind::Unavailable, "gone").with_code(Code::StoreUnavailable);
    health.observe("pay", &Event::SourceAway { error: &gone });
    clock.advance(after);
    assert_eq!(state(&status).await.1["state"], "source-away");
    status.is_to_pause("pay", order());
    assert_eq!(state(&status).await.1["state"], "source-away");
    status.paused("pay", Some(order()));
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["state"]), (200, &json!("running")));
    assert_eq!(body["pipelines"]["pay"]["state"], "paused");
    let connected = "semel_source_connected{";
    let metrics = asked(&status, "/metrics").await.1;
    assert!(!metrics.contains(connected), "nobody looks: {metrics}");
    health.store_failed(&gone);
    clock.advance(after);
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["state"]), (503, &json!("store-away")));
    assert_eq!(body["pipelines"]["pay"]["state"], "store-away");
    assert_eq!(body["pipelines"]["pay"]["paused"]["by"], "ada");
    // The source that was away may be there by now.
    health.store_answers();
    status.paused("pay", None);
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["state"]), (200, &json!("running")));
    assert!(asked(&status, "/metrics").await.1.contains(connected));
}

#[tokio::test]
async fn metrics_tell_live_messages_from_those_that_were_sent_again() {
    let status = status(watch::channel(false).1);
    let counts = status.counting("a\"b", Arc::new(|_, _| {}));
    let mut summary = Summary::default();
    summary.sent_again = 1;
    counts(None, &summary);
    let counting = status.metrics().pipeline("a\"b", "http");
    for (delivery, fate) in [(0, Fate::Applied), (1, Fate::Replayed)] {
        let delivery = DeliveryId(delivery);
        let overhead = None;
        let settled = Event::Settled {
            delivery,
            fate,
            overhead,
            sent_again: false,
        };
        counting.observe("a\"b", &settled);
    }
    let now = vec![restored(3, 4, Some(9), false)];
    status.restores("clean", Arc::new(Told(Arc::new(Mutex::new(now)))));
    status.begin();
    let (code, text) = asked(&status, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        "# TYPE semel_ready gauge",
        "semel_ready 0",
        "semel_restoring{pipeline=\"clean\",partition=\"3\"} 1",
        "semel_restore_records{pipeline=\"clean\",partition=\"3\"} 9",
        "semel_restore_read_records{pipeline=\"clean\",partition=\"3\"} 4",
        "semel_restore_operations{pipeline=\"clean\",partition=\"3\"} 40",
        "semel_deliveries_total{pipeline=\"a\\\"b\",fate=\"applied\"} 1",
        "semel_deliveries_total{pipeline=\"a\\\"b\",fate=\"dead\"} 0",
        "semel_deliveries_sent_again_total{pipeline=\"a\\\"b\"} 1",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
}

#[tokio::test]
async fn metrics_have_windows_what_is_needed_and_what_is_left_of_a_source() {
    let status = status(watch::channel(false).1);
    let hour = Duration::from_secs(3_600);
    for pipeline in ["file", "endless", "unknown"] {
        let declared = Declared {
            effect: "http",
            class: "keyed",
            ownership: Ownership::default(),
            fail: Fail::Closed,
            waived: Waived::default(),
        };
        status.expects(pipeline, declared);
        status.windows().knows(pipeline, hour);
    }
    for (pipeline, needed) in [
        ("file", Horizon::Within(Duration::from_millis(90_500))),
        ("endless", Horizon::Endless),
        ("unknown", Horizon::Unknown),
    ] {
        status.windows().needs(pipeline, needed);
    }
    let progress = |read_bytes| {
        let total_bytes = Some(1_000);
        Some(Progress {
            read_bytes,
            total_bytes,
        })
    };
    let counting = status.counting("file", Arc::new(|_, _| {}));
    counting(progress(100), &Summary::default());
    counting(progress(400), &Summary::default());
    let now = tokio::time::Instant::now();
    status.lags("endless", Some(Reading::new(7, now)));
    let long_ago = now.checked_sub(Duration::from_secs(15));
    let long_ago = long_ago.expect("the machine runs for longer");
    status.lags("unknown", Some(Reading::new(8, long_ago)));
    let (_, text) = asked(&status, "/metrics").await;
    for line in [
        "semel_window_seconds{pipeline=\"file\"} 3600.0",
        "semel_window_seconds{pipeline=\"unknown\"} 3600.0",
        "semel_window_needed_seconds{pipeline=\"file\"} 90.5",
        "semel_window_needed_seconds{pipeline=\"endless\"} +Inf",
        "semel_source_lag_bytes{pipeline=\"file\"} 600",
        "semel_source_lag{pipeline=\"endless\"} 7",
        "semel_source_connected{pipeline=\"file\"} 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    for absent in [
        "semel_window_needed_seconds{pipeline=\"unknown\"}",
        "semel_source_lag{pipeline=\"file\"}",
        "semel_source_lag{pipeline=\"unknown\"}",
    ] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
}

#[tokio::test]
async fn a_pipeline_says_who_answers_for_it() {
    let status = status(watch::channel(false).1);
    let declared = |owner: Option<&str>, runbook: Option<&str>| Declared {
        effect: "http",
        class: "keyed",
        ownership: Ownership {
            owner: owner.map(Into::into),
            runbook: runbook.map(Into::into),
        },
        fail: Fail::Closed,
        waived: Waived::default(),
    };
    let page = "https://wiki.example/payments";
    status.expects("payments", declared(Some("the \"a\" team"), Some(page)));
    status.expects("refunds", declared(None, None));
    let (_, text) = asked(&status, "/metrics").await;
    for line in [
        "# TYPE semel_pipeline_info gauge".to_owned(),
        format!(
            "semel_pipeline_info{{pipeline=\"payments\",effect=\"http\",class=\"keyed\",\
             owner=\"the \\\"a\\\" team\",runbook=\"{page}\"}} 1"
        ),
        "semel_pipeline_info{pipeline=\"refunds\",effect=\"http\",class=\"keyed\",owner=\"\",runbook=\"\"} 1"
            .to_owned(),
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    let (_, body) = state(&status).await;
    let owned = json!({ "state": "starting", "owner": "the \"a\" team", "runbook": page });
    assert_eq!(body["pipelines"]["payments"], owned);
    assert_eq!(body["pipelines"]["refunds"], json!({ "state": "starting" }));
}

#[tokio::test]
async fn claims_are_ready_while_their_store_answers() {
    let clock = TestClock::new();
    let health = Health::new(Duration::from_secs(30), Arc::new(clock.clone()));
    let status = Status::new(watch::channel(false).1, Arc::new(health), "memory:");
    status.expects_claims();
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["claims"]["state"]), (503, &json!("starting")));
    status.begin();
    let (code, body) = state(&status).await;
    let expected = json!({ "state": "running", "pipelines": {}, "claims": { "state": "running" } });
    assert_eq!((code, body), (200, expected));
    let away = Error::new(ErrorKind::Unavailable, "connection refused");
    status.health().store_failed(&away);
    assert_eq!(state(&status).await.0, 200, "not for a moment");
    clock.advance(Duration::from_secs(30));
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["state"]), (503, &json!("store-away")));
    assert_eq!(body["claims"]["reasons"][0]["code"], "store-unavailable");
    status.health().store_answers();
    assert_eq!(state(&status).await.0, 200);
}

#[tokio::test]
async fn what_is_not_there_and_what_is_no_question_is_refused() {
    let status = status(watch::channel(false).1);
    assert_eq!(asked(&status, "/").await.0, 404);
    let alive = Watchdog::new(Duration::from_secs(1));
    let refused = answer(
        &Method::POST,
        "/readyz",
        Format::Prometheus,
        &status,
        &alive,
    );
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_gateway_is_ready_while_its_store_and_an_upstream_answer() {
    let clock = TestClock::new();
    let health = Health::new(Duration::from_secs(30), Arc::new(clock.clone()));
    let status = Status::new(watch::channel(false).1, Arc::new(health), "memory:");
    let store = semel_store_memory::MemoryStore::new(Arc::new(clock.clone()));
    let once = semel_engine::once::Once::new(Arc::new(store));
    let upstream = semel_proxy::Upstream::new("http://127.0.0.1:9".parse().expect("a URL"));
    let settings = semel_proxy::Settings::new(vec![upstream]);
    status.serves_api(Proxy::new(&once, settings).expect("a proxy"));
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["gateway"]["state"]), (503, &json!("starting")));
    status.begin();
    let (code, body) = state(&status).await;
    assert_eq!(
        (code, &body["gateway"]),
        (200, &json!({ "state": "running" }))
    );
    let error =
        Error::new(ErrorKind::Unavailable, "refused").with_code(semel_core::Code::TargetAway);
    status.health().upstreams_failed(&error);
    assert_eq!(state(&status).await.0, 200, "it may come back");
    clock.advance(Duration::from_secs(30));
    let (code, body) = state(&status).await;
    assert_eq!((code, &body["state"]), (503, &json!("target-away")));
    assert_eq!(body["gateway"]["reasons"][0]["code"], "target-away");
    status.health().upstreams_answer();
    assert_eq!(state(&status).await.0, 200);
    let metrics = asked(&status, "/metrics").await.1;
    assert!(
        metrics.contains("semel_gateway_unmatched_total 0\n"),
        "{metrics}"
    );
}

/// Asks over a connection of its own, from a thread that no runtime has.
fn asked_over(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let request = b"GET /healthz HTTP/1.1\r\nHost: worker\r\n\r\n";
    stream.write_all(request).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Asks until the answer has this in it.
fn asked_until(address: SocketAddr, expected: &str) {
    let mut last = String::new();
    for _ in 0..3_000 {
        last = asked_over(address);
        if last.contains(expected) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("`{expected}` never came: {last}");
}

/// A worker of two threads, both of which are held up.
#[test]
fn a_runtime_that_hangs_is_told_at_healthz_until_it_goes_on() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let port = free_port::take().expect("a free port");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let (_stop, stopped) = watch::channel(false);
    let watchdog = Watchdog::new(Duration::from_millis(20));
    let served = serve_watched((address, None), status(stopped), watchdog, |_| None);
    let served = runtime.block_on(served).expect("a listener");
    let served = runtime.spawn(served);
    asked_until(address, "200 OK");
    let held = Arc::new(Mutex::new(()));
    let lock = held.lock().expect("no panic");
    for _ in 0..2 {
        let held = Arc::clone(&held);
        runtime.spawn(async move { drop(held.lock()) });
    }
    asked_until(address, "503 Service Unavailable");
    assert!(asked_over(address).contains("the worker hangs"));
    drop(lock);
    asked_until(address, "200 OK");
    served.abort();
    let ended = runtime.block_on(served);
    assert!(ended.expect_err("it was aborted").is_cancelled());
    TcpStream::connect(address).expect_err("nobody listens any more");
}

#[tokio::test]
async fn an_address_of_the_status_that_is_taken_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = taken.local_addr().expect("an address");
    let (_stop, stopped) = watch::channel(false);
    let watchdog = Watchdog::new(Duration::from_secs(1));
    let refused = serve_watched((address, None), status(stopped), watchdog, |_| None).await;
    let refused = refused.err().expect("it is refused");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
}

#[tokio::test]
async fn a_relay_is_told_as_the_list_of_pipelines_has_it() {
    let (_stop, stopped) = watch::channel(false);
    let status = status(stopped);
    status.expects_relay("out");
    let told = |state: &str| {
        let relay = json!({ "pipeline": "out", "relay": true, "state": state, "backlog": null });
        vec![("out".into(), relay)]
    };
    assert_eq!(semel_admin::Worker::relays(&*status), told("starting"));
    status.begin();
    assert_eq!(semel_admin::Worker::relays(&*status), told("running"));
}
