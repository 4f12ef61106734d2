//! A client before the gateway's layer, answer by answer.

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use semel_client::{AnswerFrom, Intent, Reason, Settings};
use semel_core::{Advice, Certainty};
use semel_engine::once::{Happened, Once};
use semel_engine::system::SystemClock;
use semel_gateway::{IdempotencyLayer, Mode, Route, upstream_unreachable};
use semel_store_memory::MemoryStore;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

use crate::scripted::{DAY, retries};

type Service = BoxCloneSyncService<Request<Full<Bytes>>, Response, io::Error>;

/// A service behind the layer, and how often it was called.
struct Site {
    service: Service,
    calls: Arc<AtomicUsize>,
}

impl Site {
    /// A handler that is told the number of its call, from 1.
    fn new<F: Future<Output = Response> + Send + 'static>(
        change: impl FnOnce(&mut Route),
        handler: impl Fn(usize) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        let once = Once::new(Arc::new(MemoryStore::new(Arc::new(SystemClock::new()))));
        let mut route = Route::default();
        change(&mut route);
        let layer = IdempotencyLayer::new(&once, route).expect("settings that hold");
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let inner = service_fn(move |_: Request<Body>| {
            let answer = handler(count.fetch_add(1, Ordering::SeqCst) + 1);
            async move { Ok::<_, io::Error>(answer.await) }
        });
        Self {
            service: BoxCloneSyncService::new(layer.layer(inner)),
            calls,
        }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// The same service behind a network that loses its first answer.
    fn lossy(&self) -> Service {
        let (service, sent) = (self.service.clone(), Arc::new(AtomicUsize::new(0)));
        BoxCloneSyncService::new(service_fn(move |request| {
            let (service, sent) = (service.clone(), Arc::clone(&sent));
            async move {
                let answer = service.oneshot(request).await?;
                if sent.fetch_add(1, Ordering::SeqCst) == 0 {
                    return Err(io::Error::from(io::ErrorKind::ConnectionReset));
                }
                Ok(answer)
            }
        }))
    }
}

async fn send(
    service: &Service,
    settings: Settings,
    body: &'static str,
) -> Result<http::Response<Full<Bytes>>, semel_client::Error> {
    let intent = Intent::with_key("pay-1").expect("a key");
    let request = Request::post("/charges").body(Full::new(Bytes::from_static(body.as_bytes())));
    let retry = retries(settings, 0).layer(service.clone());
    retry.send(&intent, request.expect("a request")).await
}

fn keyed() -> Settings {
    Settings::keyed(DAY)
}

#[tokio::test]
async fn a_lost_answer_is_replayed() {
    let site = Site::new(|_| {}, async |call| format!("call {call}").into_response());
    let answer = send(&site.lossy(), keyed(), "{}").await.expect("an answer");
    let from = answer.extensions().get::<AnswerFrom>();
    assert_eq!(from, Some(&AnswerFrom::ServerRecord { attempts: 2 }));
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn a_parked_doubt_ends_the_call_and_is_named() {
    let failing = async |_| StatusCode::INTERNAL_SERVER_ERROR.into_response();
    let site = Site::new(|_| {}, failing);
    let error = send(&site.service, keyed(), "{}")
        .await
        .expect_err("a doubt");
    assert_eq!((error.reason(), error.attempts()), (Reason::InDoubt, 2));
    assert_eq!(error.advice(), Advice::LookUpFirst);
    assert_eq!(error.operation_id().map(str::len), Some(64));
    assert_eq!((error.key(), site.calls()), (Some("pay-1"), 1));
}

#[tokio::test]
async fn a_reused_key_is_known_in_both_dialects() {
    for mode in [Mode::Ietf, Mode::Stripe] {
        let site = Site::new(|route| route.mode = mode, async |_| "ok".into_response());
        assert!(send(&site.service, keyed(), "{\"cents\":1}").await.is_ok());
        let sent = send(&site.service, keyed(), "{\"cents\":2}").await;
        let error = sent.expect_err("another request");
        assert_eq!(
            (error.reason(), error.advice()),
            (Reason::KeyReused, Advice::Fix)
        );
        assert_eq!((error.attempts(), site.calls()), (1, 1));
    }
}

#[tokio::test]
async fn an_answer_that_was_too_large_to_keep_was_applied() {
    let short = |route: &mut Route| route.max_answer_bytes = 4;
    let site = Site::new(short, async |_| "0123456789".into_response());
    let error = send(&site.lossy(), keyed(), "{}")
        .await
        .expect_err("it is gone");
    assert_eq!(
        (error.reason(), error.happened()),
        (Reason::NotKept, Happened::Yes)
    );
    assert_eq!((error.attempts(), site.calls()), (2, 1));
}

#[tokio::test]
async fn a_failure_that_stripe_has_stored_is_the_result() {
    let failing = async |_| StatusCode::INTERNAL_SERVER_ERROR.into_response();
    let site = Site::new(|route| route.mode = Mode::Stripe, failing);
    let answer = send(&site.service, keyed(), "{}")
        .await
        .expect("the stored failure");
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let from = answer.extensions().get::<AnswerFrom>();
    assert_eq!(from, Some(&AnswerFrom::ServerRecord { attempts: 2 }));
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn a_request_under_way_is_asked_for_until_it_has_its_answer() {
    let slow = async |_| {
        tokio::time::sleep(Duration::from_millis(300)).await;
        "slow".into_response()
    };
    let site = Site::new(|route| route.wait = Duration::ZERO, slow);
    let (one, other) = tokio::join!(
        send(&site.service, keyed(), "{}"),
        send(&site.service, keyed(), "{}")
    );
    assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn a_service_that_the_gateway_did_not_reach_was_not_called() {
    let site = Site::new(|_| {}, async |_| upstream_unreachable());
    let settings = Settings {
        attempts: NonZeroU32::MIN,
        ..keyed()
    };
    let error = send(&site.service, settings, "{}")
        .await
        .expect_err("no result");
    assert_eq!(error.certainty(), Certainty::NotApplied);
    assert_eq!(error.reason(), Reason::Unclear);
}

#[tokio::test]
async fn a_refusal_is_the_result_and_replayed() {
    let site = Site::new(
        |_| {},
        async |_| StatusCode::PAYMENT_REQUIRED.into_response(),
    );
    for _ in 0..2 {
        let answer = send(&site.lossy(), keyed(), "{}")
            .await
            .expect("the refusal");
        assert_eq!(answer.status(), StatusCode::PAYMENT_REQUIRED);
    }
    assert_eq!(site.calls(), 1);
}
