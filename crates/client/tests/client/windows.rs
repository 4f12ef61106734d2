//! The server's window: no request that may have been applied is sent under a key that may be forgotten.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request};
use http_body_util::Full;
use semel_client::{Intent, IntentLayer, IntentSettings, Reason, Settings, Stopped};
use semel_core::{
    Advice, Certainty, Clock, Error, ErrorKind, Operation, Record, Result, Store, Timestamp,
    forward_store,
};
use semel_engine::once::Once;
use semel_engine::system::SystemClock;
use semel_store_memory::MemoryStore;
use tokio::time::{Instant, Sleep, sleep};
use tower::{Layer, Service, ServiceExt};

use crate::scripted::{Act, DAY, REFUSED, RESET, Scripted, post, retries};

const HEADER: HeaderName = HeaderName::from_static("idempotency-window");

fn patient(window: Duration) -> Settings {
    Settings {
        budget: Duration::from_secs(3_600),
        ..Settings::keyed(window)
    }
}

fn unclear(wait: &'static str) -> Act {
    Act::with(500, "retry-after", wait)
}

#[tokio::test(start_paused = true)]
async fn a_doubt_is_not_repeated_after_the_window() {
    for (wait, is_inside) in [("6", true), ("7", false)] {
        let server = Scripted::new([unclear(wait), Act::status(201)]);
        // A margin of one second is kept.
        let settings = patient(Duration::from_secs(8));
        let sent = server.retried(settings).oneshot(post()).await;
        assert_eq!(sent.is_ok(), is_inside);
        if let Err(error) = sent {
            assert_eq!(
                (error.reason(), error.stopped()),
                (Reason::Unclear, Stopped::Window)
            );
            assert_eq!(
                (error.certainty(), error.attempts()),
                (Certainty::MaybeApplied, 1)
            );
            assert_eq!(error.advice(), Advice::LookUpFirst);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_surely_was_not_applied_may_be_sent_after_the_window() {
    let script = [
        REFUSED,
        Act::with(503, "retry-after", "100"),
        Act::status(201),
    ];
    let server = Scripted::new(script);
    let sent = server
        .retried(patient(Duration::from_secs(8)))
        .oneshot(post())
        .await;
    assert!(sent.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_shorter_window_that_the_server_advertises_counts_for_all_requests() {
    let told = Act::Answer(
        500,
        vec![("idempotency-window", "8"), ("retry-after", "7")],
        "",
    );
    let server = Scripted::new([told, Act::status(201)]);
    let settings = Settings {
        window_header: Some(HEADER),
        ..patient(DAY)
    };
    let retry = server.retried(settings);
    let error = retry
        .clone()
        .oneshot(post())
        .await
        .expect_err("the window is over");
    assert_eq!(error.stopped(), Stopped::Window);
    // The next request is not told, and its server remembers a key no longer.
    server.continue_with([unclear("7"), Act::status(201)]);
    let error = retry
        .clone()
        .oneshot(post())
        .await
        .expect_err("the window is over");
    assert_eq!(error.stopped(), Stopped::Window);
    server.continue_with([unclear("6"), Act::status(201)]);
    assert!(retry.oneshot(post()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_advertised_date_counts_for_its_own_request() {
    let told = Act::Answer(
        500,
        vec![
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("idempotency-window", "Sun, 06 Nov 1994 08:49:45 GMT"),
            ("retry-after", "7"),
        ],
        "",
    );
    let server = Scripted::new([told, Act::status(201)]);
    let settings = Settings {
        window_header: Some(HEADER),
        ..patient(DAY)
    };
    let retry = server.retried(settings);
    let error = retry
        .clone()
        .oneshot(post())
        .await
        .expect_err("the window is over");
    assert_eq!(error.stopped(), Stopped::Window);
    server.continue_with([unclear("7"), Act::status(201)]);
    assert!(retry.oneshot(post()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_longer_window_than_is_documented_is_not_believed() {
    let told = Act::Answer(
        500,
        vec![("idempotency-window", "86400"), ("retry-after", "7")],
        "",
    );
    let server = Scripted::new([told, Act::status(201)]);
    let settings = Settings {
        window_header: Some(HEADER),
        ..patient(Duration::from_secs(8))
    };
    let sent = server.retried(settings).oneshot(post()).await;
    assert_eq!(
        sent.expect_err("the window is over").stopped(),
        Stopped::Window
    );
}

#[tokio::test(start_paused = true)]
async fn a_window_that_was_advertised_by_mistake_lasts_until_the_next() {
    let settings = Settings {
        window_header: Some(HEADER),
        ..patient(DAY)
    };
    let told = |window| {
        Act::Answer(
            500,
            vec![("idempotency-window", window), ("retry-after", "7")],
            "",
        )
    };
    // No server forgets a key at once.
    let server = Scripted::new([told("0"), Act::status(201)]);
    let retry = server.retried(settings);
    assert!(retry.clone().oneshot(post()).await.is_ok());
    server.continue_with([unclear("7"), Act::status(201)]);
    assert!(retry.clone().oneshot(post()).await.is_ok());

    server.continue_with([told("1"), Act::status(201)]);
    let sent = retry.clone().oneshot(post()).await;
    let error = sent.expect_err("the window is over");
    assert_eq!(error.stopped(), Stopped::Window);
    server.continue_with([Act::with(201, "idempotency-window", "3600")]);
    assert!(retry.clone().oneshot(post()).await.is_ok());
    server.continue_with([unclear("7"), Act::status(201)]);
    assert!(retry.oneshot(post()).await.is_ok());
}

/// A service that is ready at once for its first request, and for each later one after that long.
struct UnreadyService {
    inner: Scripted,
    after: Duration,
    is_first: bool,
    wait: Option<Pin<Box<Sleep>>>,
}

impl UnreadyService {
    fn new(inner: &Scripted, secs: u64) -> Self {
        Self {
            inner: inner.clone(),
            after: Duration::from_secs(secs),
            is_first: true,
            wait: None,
        }
    }
}

impl Clone for UnreadyService {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            wait: None,
            ..*self
        }
    }
}

impl Service<Request<Full<Bytes>>> for UnreadyService {
    type Response = <Scripted as Service<Request<Full<Bytes>>>>::Response;
    type Error = std::io::Error;
    type Future = <Scripted as Service<Request<Full<Bytes>>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        if self.is_first {
            return Poll::Ready(Ok(()));
        }
        let after = self.after;
        let wait = self.wait.get_or_insert_with(|| Box::pin(sleep(after)));
        wait.as_mut().poll(context).map(Ok)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        self.is_first = false;
        self.wait = None;
        self.inner.call(request)
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_ready_after_the_window_is_not_called() {
    // A margin of one second is kept before the end of the window.
    for (secs, is_inside) in [(6, true), (7, false), (8, false), (20, false)] {
        let server = Scripted::new([Act::status(500), Act::status(201)]);
        let settings = patient(Duration::from_secs(8));
        let retry = retries(settings, 0).layer(UnreadyService::new(&server, secs));
        let began = Instant::now();
        let sent = retry.oneshot(post()).await;
        assert_eq!(sent.is_ok(), is_inside, "{secs}");
        if let Err(error) = sent {
            assert_eq!(
                (error.reason(), error.stopped()),
                (Reason::Unreached, Stopped::Window)
            );
            assert_eq!(error.certainty(), Certainty::MaybeApplied);
            assert_eq!(error.advice(), Advice::LookUpFirst);
            assert_eq!(server.seen().len(), 1);
            assert!(began.elapsed() <= Duration::from_millis(7_010), "{secs}");
        }
    }
}

/// Without a doubt, the window does not matter.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_ready_after_the_window_is_called_if_nothing_was_applied() {
    let server = Scripted::new([REFUSED, Act::status(201)]);
    let retry = retries(patient(Duration::from_secs(8)), 0).layer(UnreadyService::new(&server, 20));
    assert!(retry.oneshot(post()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_after_a_doubt_ends_with_the_window() {
    let server = Scripted::new([RESET, Act::Hang]);
    // The window is the reason, even where it was the last attempt.
    let settings = Settings {
        attempts: NonZeroU32::new(2).expect("two"),
        ..patient(Duration::from_secs(8))
    };
    let began = Instant::now();
    let sent = server.retried(settings).oneshot(post()).await;
    let error = sent.expect_err("the window is over");
    assert_eq!(
        (error.reason(), error.stopped(), error.attempts()),
        (Reason::Late, Stopped::Window, 2)
    );
    assert!(began.elapsed() <= Duration::from_millis(7_010));
}

/// A clock of a store, which goes by hand.
struct ManualClock(AtomicU64);

impl ManualClock {
    fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).expect("short");
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// Sends twice under one intent, with the store's clock this far from ours; the store's time between the two is 700
/// seconds, and 60 seconds more are over the window.
async fn twice(
    clock: Arc<ManualClock>,
    second: Act,
) -> (Scripted, Result<u16, semel_client::Error>) {
    let once = Once::new(Arc::new(MemoryStore::new(
        Arc::<ManualClock>::clone(&clock) as Arc<dyn Clock>,
    )));
    let settings = Settings {
        attempts: NonZeroU32::new(2).expect("two"),
        ..patient(Duration::from_secs(800))
    };
    let single = Settings {
        attempts: NonZeroU32::MIN,
        ..settings.clone()
    };
    let layer = |settings| {
        IntentLayer::new(&once, retries(settings, 0), IntentSettings::default()).expect("it holds")
    };
    let server = Scripted::new([RESET, second, Act::status(201)]);
    let charge = Intent::of("charge", 1).expect("an intent");
    let sent = layer(single)
        .layer(server.clone())
        .send(&charge, post())
        .await;
    assert!(sent.is_err(), "a doubt");
    clock.advance(Duration::from_secs(700));
    let client = layer(settings).layer(server.clone());
    let sent = client.send(&charge, post()).await;
    (server, sent.map(|answer| answer.status().as_u16()))
}

#[tokio::test]
async fn the_age_of_a_doubt_is_on_the_clock_of_the_store_alone() {
    let ours = SystemClock::new().now().as_millis();
    let day = 86_400_000;
    for theirs in [ours - day, ours, ours + day] {
        let clock = || Arc::new(ManualClock(AtomicU64::new(theirs)));
        let (server, sent) = twice(clock(), Act::status(201)).await;
        assert_eq!(sent.expect("an answer"), 201, "{theirs}");
        assert_eq!(server.seen().len(), 2);
        let (server, sent) = twice(clock(), unclear("60")).await;
        let error = sent.expect_err("the window is over");
        assert_eq!(error.stopped(), Stopped::Window, "{theirs}");
        assert_eq!(server.seen().len(), 2);
    }
}

/// A store whose records cannot be read while a test says so.
#[derive(Clone)]
struct UnreadableStore {
    inner: Arc<MemoryStore>,
    is_away: Arc<AtomicBool>,
}

impl Store for UnreadableStore {
    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "refused").not_applied());
        }
        self.inner.get(batch).await
    }

    forward_store!(self => self.inner; but get);
}

/// Nobody could say whether the server still knows the key.
#[tokio::test]
async fn a_call_that_cannot_read_its_record_sends_nothing() {
    let store = UnreadableStore {
        inner: Arc::new(MemoryStore::new(Arc::new(SystemClock::new()))),
        is_away: Arc::new(AtomicBool::new(true)),
    };
    let once = Once::new(store.clone());
    let retry = retries(patient(DAY), 0);
    let layer = IntentLayer::new(&once, retry, IntentSettings::default()).expect("it holds");
    let server = Scripted::new([Act::status(201)]);
    let client = layer.layer(server.clone());
    let charge = Intent::of("charge", 1).expect("an intent");
    let error = client.send(&charge, post()).await.expect_err("no record");
    assert_eq!(
        (error.reason(), error.certainty()),
        (Reason::Store, Certainty::MaybeApplied),
        "an earlier call may have left a doubt on the record"
    );
    assert!(matches!(error.advice(), Advice::Retry { .. }));
    assert_eq!(server.seen(), []);
    store.is_away.store(false, Ordering::SeqCst);
    assert!(client.send(&charge, post()).await.is_ok());
}
