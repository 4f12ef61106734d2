//! Intents in a store: answers that are given again, and doubts that outlive a call.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use semel_client::{
    AnswerFrom, Error, Intent, IntentLayer, IntentSettings, Intents, Reason, RetryLayer, Settings,
    Stopped,
};
use semel_core::{Advice, Certainty};
use semel_engine::once::{Happened, Once};
use semel_engine::system::SystemClock;
use semel_store_memory::MemoryStore;
use tower::{Layer, ServiceExt};

use crate::scripted::{Act, DAY, RESET, Scripted, post, retries};

type Store = Arc<MemoryStore>;

fn memory() -> Once<Store> {
    Once::new(Arc::new(MemoryStore::new(Arc::new(SystemClock::new()))))
}

fn one_attempt() -> Settings {
    Settings {
        attempts: NonZeroU32::MIN,
        ..Settings::keyed(DAY)
    }
}

fn layer(once: &Once<Store>, settings: Settings) -> IntentLayer<Store> {
    let retry = retries(settings, 0);
    IntentLayer::new(once, retry, IntentSettings::default()).expect("settings that hold")
}

fn service(server: &Scripted) -> Intents<Store, Scripted> {
    layer(&memory(), one_attempt()).layer(server.clone())
}

fn charge() -> Intent {
    Intent::of("charge", "order-1017").expect("an intent")
}

fn from(answer: &Response<Full<Bytes>>) -> AnswerFrom {
    *answer.extensions().get().expect("the origin")
}

async fn body(answer: Response<Full<Bytes>>) -> Bytes {
    answer
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes()
}

#[tokio::test]
async fn a_success_is_given_again_without_a_request() {
    let created = Act::Answer(
        201,
        vec![("content-type", "application/json")],
        "{\"id\":7}",
    );
    let server = Scripted::new([created, Act::status(500)]);
    let once = memory();
    let first = layer(&once, one_attempt()).layer(server.clone());
    let answer = first.send(&charge(), post()).await.expect("an answer");
    assert_eq!(from(&answer), AnswerFrom::Server { attempts: 1 });
    assert_eq!(body(answer).await, "{\"id\":7}");
    // Another client of the same store, as after a restart.
    let layer = layer(&once, one_attempt());
    let second = layer.layer(server.clone());
    for _ in 0..3 {
        let answer = second.send(&charge(), post()).await.expect("the answer");
        assert_eq!(
            (from(&answer), answer.status()),
            (AnswerFrom::Store, StatusCode::CREATED)
        );
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert_eq!(body(answer).await, "{\"id\":7}");
    }
    assert_eq!(server.keys(), [Some(charge().idempotency_key())]);
    let counts = layer.counts();
    assert_eq!((counts.calls, counts.store_replays), (0, 3));
}

#[tokio::test]
async fn calls_for_one_intent_wait_for_each_other() {
    let server = Scripted::new([Act::Slow(Duration::from_millis(100), 201), Act::status(500)]);
    let client = service(&server);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        calls.spawn(async move { client.send(&charge(), post()).await });
    }
    for sent in calls.join_all().await {
        assert_eq!(sent.expect("an answer").status(), StatusCode::CREATED);
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_refusal_is_asked_for_again_under_the_same_key() {
    let server = Scripted::new([Act::status(404), Act::status(401), Act::status(201)]);
    let client = service(&server);
    for status in [404, 401, 201, 201] {
        let answer = client.send(&charge(), post()).await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status);
    }
    let key = Some(charge().idempotency_key());
    assert_eq!(server.keys(), [key.clone(), key.clone(), key]);
}

#[tokio::test]
async fn a_decisive_refusal_is_given_again() {
    let server = Scripted::new([Act::status(402), Act::status(201)]);
    let settings = Settings {
        decisive: "402".parse().expect("codes"),
        ..one_attempt()
    };
    let client = layer(&memory(), settings).layer(server.clone());
    for _ in 0..2 {
        let answer = client.send(&charge(), post()).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::PAYMENT_REQUIRED);
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_doubt_outlives_the_call_that_left_it() {
    let away = Act::with(503, "retry-after", "0");
    let server = Scripted::new([RESET, Act::status(404), away, Act::status(201)]);
    let client = service(&server);
    let error = client.send(&charge(), post()).await.expect_err("a doubt");
    assert_eq!(
        (error.reason(), error.certainty()),
        (Reason::Broken, Certainty::MaybeApplied)
    );
    assert_eq!(error.key(), Some(&*charge().idempotency_key()));
    // Without the doubt, 404 would be what came of the request, and 503 would say that nothing was applied.
    let error = client.send(&charge(), post()).await.expect_err("a doubt");
    assert_eq!(
        (error.reason(), error.happened()),
        (Reason::Unclear, Happened::Maybe)
    );
    assert_eq!(
        error.answer().map(Response::status),
        Some(StatusCode::NOT_FOUND)
    );
    let error = client.send(&charge(), post()).await.expect_err("a doubt");
    assert_eq!(
        (error.reason(), error.happened()),
        (Reason::Throttled, Happened::Maybe)
    );
    let answer = client.send(&charge(), post()).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::CREATED);
    let key = Some(charge().idempotency_key());
    assert_eq!(server.keys(), vec![key; 4]);
}

#[tokio::test]
async fn a_request_that_is_under_way_elsewhere_leaves_a_doubt() {
    let server = Scripted::new([Act::status(409), Act::status(404), Act::status(201)]);
    let client = service(&server);
    let error = client.send(&charge(), post()).await.expect_err("no result");
    assert_eq!(
        (error.reason(), error.certainty()),
        (Reason::InProgress, Certainty::MaybeApplied)
    );
    let error = client.send(&charge(), post()).await.expect_err("a doubt");
    assert_eq!(
        (error.reason(), error.happened()),
        (Reason::Unclear, Happened::Maybe)
    );
    let answer = client.send(&charge(), post()).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn a_redirect_is_given_again_as_a_gateway_gives_it() {
    for status in [301, 302, 303] {
        let redirect = Act::with(status, "location", "/charges/7");
        let server = Scripted::new([redirect, Act::status(201)]);
        let client = service(&server);
        for expected in [AnswerFrom::Server { attempts: 1 }, AnswerFrom::Store] {
            let answer = client.send(&charge(), post()).await.expect("an answer");
            assert_eq!(
                (answer.status().as_u16(), from(&answer)),
                (status, expected)
            );
            assert_eq!(answer.headers()["location"], "/charges/7");
        }
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_redirect_after_a_doubt_is_not_kept() {
    let redirect = Act::with(303, "location", "/charges/7");
    let server = Scripted::new([RESET, redirect, Act::status(201)]);
    let client = service(&server);
    client.send(&charge(), post()).await.expect_err("a doubt");
    let error = client.send(&charge(), post()).await.expect_err("a doubt");
    assert_eq!(
        (error.reason(), error.happened()),
        (Reason::Unclear, Happened::Maybe)
    );
    let answer = client.send(&charge(), post()).await.expect("an answer");
    assert_eq!(from(&answer), AnswerFrom::Server { attempts: 1 });
}

#[tokio::test]
async fn a_call_that_vanished_leaves_a_doubt() {
    let server = Scripted::new([Act::Hang]);
    let intents = IntentSettings {
        lease: Duration::from_millis(200),
        ..IntentSettings::default()
    };
    let layer = IntentLayer::new(&memory(), retries(one_attempt(), 0), intents).expect("it holds");
    let client = layer.layer(server.clone());
    let elsewhere = tokio::runtime::Runtime::new().expect("a runtime");
    let vanishing = client.clone();
    elsewhere.spawn(async move { vanishing.send(&charge(), post()).await });
    while server.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    elsewhere.shutdown_background();
    server.continue_with([Act::status(404), Act::status(201)]);
    let error = client.send(&charge(), post()).await.expect_err("a doubt");
    assert_eq!(
        (error.reason(), error.happened()),
        (Reason::Unclear, Happened::Maybe)
    );
    let answer = client.send(&charge(), post()).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::CREATED);
    let key = Some(charge().idempotency_key());
    assert_eq!(server.keys(), vec![key; 3]);
}

#[tokio::test]
async fn what_was_not_applied_leaves_no_doubt() {
    let away = Act::with(503, "retry-after", "0");
    let server = Scripted::new([away, Act::status(404)]);
    let client = service(&server);
    let error = client.send(&charge(), post()).await.expect_err("no result");
    assert_eq!(
        (error.reason(), error.certainty()),
        (Reason::Throttled, Certainty::NotApplied)
    );
    let answer = client.send(&charge(), post()).await.expect("a refusal");
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn another_request_under_the_same_intent_is_not_sent() {
    let server = Scripted::new([Act::status(201)]);
    let client = service(&server);
    client.send(&charge(), post()).await.expect("an answer");
    let other =
        Request::post("http://provider.test/charges").body(Full::new(Bytes::from("{\"cents\":1}")));
    let sent = client.send(&charge(), other.expect("a request")).await;
    let error = sent.expect_err("another request");
    assert_eq!((error.code(), error.advice()), ("key-reused", Advice::Fix));
    assert_eq!(server.seen().len(), 1);
    // The same value, written in another way.
    let same = Request::post("http://provider.test/charges")
        .body(Full::new(Bytes::from("{ \"cents\": 4200 }")));
    let answer = client
        .send(&charge(), same.expect("a request"))
        .await
        .expect("the answer");
    assert_eq!(from(&answer), AnswerFrom::Store);
}

#[tokio::test]
async fn nothing_is_sent_after_the_window_of_a_doubt() {
    let server = Scripted::new([RESET, Act::status(201)]);
    let settings = Settings {
        window: Some(Duration::from_secs(1)),
        ..one_attempt()
    };
    let intents = IntentSettings {
        lease: Duration::from_millis(200),
        ..IntentSettings::default()
    };
    let layer = IntentLayer::new(&memory(), retries(settings, 0), intents).expect("it holds");
    let client = layer.layer(server.clone());
    client.send(&charge(), post()).await.expect_err("a doubt");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let error = client
        .send(&charge(), post())
        .await
        .expect_err("a doubt for good");
    assert_eq!(
        (error.reason(), error.advice()),
        (Reason::InDoubt, Advice::LookUpFirst)
    );
    assert_eq!(error.certainty(), Certainty::MaybeApplied);
    let id = charge().operation_id().to_string();
    assert_eq!((error.operation_id(), server.seen().len()), (Some(&*id), 1));
    let open = client.open("charge", 10).await.expect("a list");
    assert!(open.len() == 1 && open[0].is_in_doubt, "{open:?}");
}

#[tokio::test]
async fn a_window_that_the_server_advertises_ends_a_doubt_too() {
    let told = vec![("idempotency-window", "1")];
    let server = Scripted::new([Act::Answer(500, told, ""), Act::status(201)]);
    let settings = Settings {
        window_header: Some(HeaderName::from_static("idempotency-window")),
        ..one_attempt()
    };
    let client = layer(&memory(), settings).layer(server.clone());
    client.send(&charge(), post()).await.expect_err("a doubt");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let error = client
        .send(&charge(), post())
        .await
        .expect_err("a doubt for good");
    assert_eq!(
        (error.reason(), error.stopped()),
        (Reason::InDoubt, Stopped::Window)
    );
    assert_eq!((error.happened(), error.attempts()), (Happened::Maybe, 0));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_server_without_a_window_is_refused() {
    let retry = RetryLayer::new(Settings::unkeyed()).expect("settings that hold");
    let refused = IntentLayer::new(&memory(), retry.clone(), IntentSettings::default());
    assert!(refused.is_err_and(|why| why.to_string().contains("window")));
    let no_lease = IntentSettings {
        lease: Duration::ZERO,
        ..IntentSettings::default()
    };
    let retry = RetryLayer::new(Settings::keyed(DAY)).expect("settings that hold");
    assert!(IntentLayer::new(&memory(), retry, no_lease).is_err());
}

#[tokio::test]
async fn an_answer_that_is_not_kept_is_no_reason_to_send_again() {
    let server = Scripted::new([Act::Answer(201, Vec::new(), "0123456789"), Act::status(500)]);
    let intents = IntentSettings {
        answer_limit_bytes: 9,
        ..IntentSettings::default()
    };
    let layer = IntentLayer::new(&memory(), retries(one_attempt(), 0), intents).expect("it holds");
    let client = layer.layer(server.clone());
    let answer = client
        .send(&charge(), post())
        .await
        .expect("the whole answer");
    assert_eq!(body(answer).await, "0123456789");
    let error = client
        .send(&charge(), post())
        .await
        .expect_err("it is gone");
    assert_eq!(
        (error.reason(), error.happened()),
        (Reason::NotKept, Happened::Yes)
    );
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_server_that_has_not_kept_the_answer_is_not_asked_again() {
    let gone = r#"{"type":"urn:semel:problem:answer-too-large","original_status":201}"#;
    let server = Scripted::new([Act::problem(410, gone), Act::status(500)]);
    let client = service(&server);
    for _ in 0..2 {
        let error = client
            .send(&charge(), post())
            .await
            .expect_err("it is gone");
        assert_eq!(
            (error.reason(), error.happened()),
            (Reason::NotKept, Happened::Yes)
        );
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_its_answer_to_the_next() {
    let server = Scripted::new([Act::Slow(Duration::from_millis(200), 201), Act::status(500)]);
    let client = service(&server);
    let called = {
        let client = client.clone();
        tokio::spawn(async move { client.send(&charge(), post()).await })
    };
    while server.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    called.abort();
    let answer = client.send(&charge(), post()).await.expect("the answer");
    assert_eq!((from(&answer), server.seen().len()), (AnswerFrom::Store, 1));
}

#[tokio::test]
async fn intents_without_a_result_are_listed_with_their_keys() {
    let server = Scripted::new([RESET, Act::status(201)]);
    let client = service(&server);
    let fresh = Intent::fresh("charge").expect("an intent");
    client.send(&fresh, post()).await.expect_err("a doubt");
    let open = client.open("charge", 10).await.expect("a list");
    assert_eq!(open.len(), 1);
    assert_eq!((&open[0].intent, open[0].calls), (&fresh, 1));
    assert!(open[0].first_sent_at.is_some() && !open[0].is_in_doubt);
    assert_eq!(client.open("refund", 10).await.expect("a list"), []);
    client
        .send(&open[0].intent, post())
        .await
        .expect("an answer");
    assert_eq!(client.open("charge", 10).await.expect("a list"), []);
    let keys = server.keys();
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn a_service_takes_the_intent_or_the_key_of_a_request() {
    let server = Scripted::new([Act::status(201)]);
    // Fresh keys need an entropy of their own.
    let retry = RetryLayer::new(one_attempt()).expect("settings that hold");
    let layer = IntentLayer::new(&memory(), retry, IntentSettings::default());
    let client = layer.expect("settings that hold").layer(server.clone());
    let send = async |request: Request<Full<Bytes>>| -> Result<AnswerFrom, Error> {
        client
            .clone()
            .oneshot(request)
            .await
            .map(|answer| from(&answer))
    };
    let server_says = AnswerFrom::Server { attempts: 1 };
    for expected in [server_says, AnswerFrom::Store] {
        let mut extended = post();
        extended.extensions_mut().insert(charge());
        assert_eq!(send(extended).await.expect("an answer"), expected);
    }
    for (key, expected) in [("\"pay-1\"", server_says), ("pay-1", AnswerFrom::Store)] {
        let mut own = post();
        own.headers_mut()
            .insert("idempotency-key", key.parse().expect("a value"));
        assert_eq!(send(own).await.expect("an answer"), expected);
    }
    // Without either, nothing is remembered.
    for _ in 0..2 {
        assert_eq!(send(post()).await.expect("an answer"), server_says);
    }
    let keys = server.keys();
    assert_eq!(keys.len(), 4);
    assert_eq!(
        keys[1].as_deref(),
        Some("\"pay-1\""),
        "as the caller wrote it"
    );
    assert_ne!(keys[2], keys[3]);
}
