//! Retries of single requests, on a clock that is set by hand.

use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use semel_client::{AnswerFrom, Error, Fault, Intent, Reason, Settings, Stopped};
use semel_core::{Advice, Certainty};
use semel_engine::once::Happened;
use tokio::time::Instant;
use tower::{Layer, ServiceExt};

use crate::scripted::{Act, DAY, REFUSED, RESET, Scripted, post, request, retries};

type Answer = http::Response<Full<Bytes>>;

async fn send(server: &Scripted, settings: Settings, what: &str) -> Result<Answer, Error> {
    server.retried(settings).oneshot(request(what)).await
}

fn keyed() -> Settings {
    Settings::keyed(DAY)
}

fn attempts(attempts: u32) -> NonZeroU32 {
    NonZeroU32::new(attempts).expect("one at least")
}

#[tokio::test(start_paused = true)]
async fn every_attempt_has_the_same_key_and_the_whole_body() {
    let script = [
        RESET,
        Act::status(500),
        Act::Torn(201),
        Act::Hang,
        Act::status(201),
    ];
    let server = Scripted::new(script);
    let settings = Settings {
        budget: Duration::from_secs(600),
        ..keyed()
    };
    let answer = send(&server, settings, "POST").await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::CREATED);
    let from = answer.extensions().get::<AnswerFrom>();
    assert_eq!(from, Some(&AnswerFrom::Server { attempts: 5 }));
    let keys: BTreeSet<_> = server.keys().into_iter().collect();
    assert_eq!((server.seen().len(), keys.len()), (5, 1));
    let key = keys.into_iter().next().flatten().expect("a key");
    assert_eq!(key.len(), 64);
    assert!(
        server
            .seen()
            .iter()
            .all(|seen| seen.body == "{\"cents\":4200}")
    );
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_call() {
    let replay = Act::with(201, "idempotency-replayed", "true");
    let server = Scripted::new([RESET, Act::status(500), replay, Act::status(201)]);
    let layer = retries(keyed(), 0);
    for _ in 0..2 {
        let sent = layer.layer(server.clone()).oneshot(post()).await;
        assert!(sent.is_ok());
    }
    let counts = layer.counts();
    assert_eq!((counts.calls, counts.requests), (2, 4));
    assert_eq!((counts.server_replays, counts.store_replays), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn two_requests_never_share_a_fresh_key() {
    let server = Scripted::new([Act::status(201)]);
    let layer = semel_client::RetryLayer::new(keyed()).expect("settings that hold");
    for _ in 0..100 {
        let sent = layer.layer(server.clone()).oneshot(post()).await;
        assert!(sent.is_ok());
    }
    let keys: BTreeSet<_> = server.keys().into_iter().flatten().collect();
    assert_eq!(keys.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn the_key_is_that_of_the_intent_or_the_callers_own() {
    let server = Scripted::new([Act::status(201)]);
    let intent = Intent::of("charge", "order-1017").expect("an intent");
    let retry = server.retried(keyed());
    retry.send(&intent, post()).await.expect("an answer");
    let mut extended = post();
    extended.extensions_mut().insert(intent.clone());
    retry.clone().oneshot(extended).await.expect("an answer");
    let mut own = post();
    own.headers_mut()
        .insert("idempotency-key", "\"pay-1\"".parse().expect("a value"));
    retry.oneshot(own).await.expect("an answer");
    let key = Some(intent.idempotency_key());
    assert_eq!(server.keys(), [key.clone(), key, Some("\"pay-1\"".into())]);
}

#[tokio::test(start_paused = true)]
async fn the_key_goes_in_the_header_and_the_quotes_that_the_server_wants() {
    let header = HeaderName::from_static("paypal-request-id");
    let server = Scripted::new([Act::status(201)]).with_key_header(header.clone());
    let settings = Settings {
        key_header: header,
        quotes: true,
        ..keyed()
    };
    let intent = Intent::with_key("pay-1").expect("an intent");
    server
        .retried(settings)
        .send(&intent, post())
        .await
        .expect("an answer");
    assert_eq!(server.keys(), [Some("\"pay-1\"".into())]);
}

#[tokio::test(start_paused = true)]
async fn without_a_key_that_is_recognised_a_doubt_is_never_repeated() {
    let no_keys = Settings {
        fresh_keys: false,
        ..keyed()
    };
    for settings in [Settings::unkeyed(), no_keys] {
        for (act, reason) in [
            (RESET, Reason::Broken),
            (Act::Torn(201), Reason::Broken),
            (Act::Hang, Reason::Late),
            (Act::status(500), Reason::Unclear),
        ] {
            for method in ["POST", "PATCH"] {
                let server = Scripted::new([act.clone(), Act::status(201)]);
                let error = send(&server, settings.clone(), method)
                    .await
                    .expect_err("a doubt");
                assert_eq!(
                    (error.reason(), error.stopped()),
                    (reason, Stopped::Unkeyed)
                );
                assert_eq!(error.certainty(), Certainty::MaybeApplied);
                assert_eq!(error.advice(), Advice::LookUpFirst);
                assert_eq!(server.keys(), [None], "{act:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_no_keys_is_not_trusted_with_one() {
    let server = Scripted::new([RESET, Act::status(201)]);
    let intent = Intent::of("charge", 1).expect("an intent");
    let sent = server
        .retried(Settings::unkeyed())
        .send(&intent, post())
        .await;
    let error = sent.expect_err("a doubt");
    assert_eq!(
        (error.stopped(), server.seen().len()),
        (Stopped::Unkeyed, 1)
    );
    assert_eq!(error.key(), Some(&*intent.idempotency_key()));
}

#[tokio::test(start_paused = true)]
async fn what_surely_was_not_applied_is_repeated_without_a_key() {
    let script = [
        REFUSED,
        Act::with(503, "retry-after", "0"),
        Act::status(429),
        Act::status(425),
        Act::status(201),
    ];
    let server = Scripted::new(script);
    let answer = send(&server, Settings::unkeyed(), "POST")
        .await
        .expect("an answer");
    assert_eq!((answer.status().as_u16(), server.seen().len()), (201, 5));
}

/// A proxy answers so, too, when the server behind it broke off.
#[tokio::test(start_paused = true)]
async fn a_503_of_a_server_that_also_answers_so_later_is_a_doubt() {
    let server = Scripted::new([Act::status(503), Act::status(201)]);
    let sent = send(&server, Settings::unkeyed(), "POST").await;
    assert!(sent.is_ok(), "nothing was applied: {sent:?}");
    let server = Scripted::new([Act::status(503), Act::status(201)]);
    let unsure = Settings {
        unsure: "503".parse().expect("codes"),
        ..Settings::unkeyed()
    };
    let error = send(&server, unsure, "POST").await.expect_err("a doubt");
    assert_eq!(
        (error.reason(), error.stopped()),
        (Reason::Unclear, Stopped::Unkeyed)
    );
    assert_eq!(
        (error.certainty(), server.seen().len()),
        (Certainty::MaybeApplied, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_problem_that_says_maybe_applied_is_not_repeated_without_a_key() {
    let timeout = r#"{"type":"urn:semel:problem:timeout","certainty":"maybe_applied"}"#;
    for status in [429, 503] {
        let problem = Act::Answer(
            status,
            vec![
                ("content-type", "application/problem+json"),
                ("retry-after", "1"),
            ],
            timeout,
        );
        let server = Scripted::new([problem, Act::status(201)]);
        let error = send(&server, Settings::unkeyed(), "POST")
            .await
            .expect_err("a doubt");
        assert_eq!(
            (error.stopped(), error.certainty()),
            (Stopped::Unkeyed, Certainty::MaybeApplied)
        );
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_under_way_elsewhere_may_have_been_applied() {
    let server = Scripted::new([Act::status(409)]);
    let error = send(&server, keyed(), "POST").await.expect_err("no result");
    assert_eq!(
        (error.reason(), error.stopped()),
        (Reason::InProgress, Stopped::Attempts)
    );
    assert_eq!(error.certainty(), Certainty::MaybeApplied);
    // A refusal of the next attempt says nothing of the one that was under way.
    for status in [401, 404, 303] {
        let server = Scripted::new([Act::status(409), Act::status(status), Act::status(201)]);
        let error = send(&server, keyed(), "POST").await.expect_err("a doubt");
        assert_eq!(
            (error.reason(), error.happened()),
            (Reason::Unclear, Happened::Maybe)
        );
        assert_eq!(server.seen().len(), 2, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idempotent_method_is_repeated_without_a_key() {
    for method in ["PUT", "DELETE", "GET", "HEAD", "OPTIONS"] {
        let server = Scripted::new([RESET, Act::status(500), Act::status(200)]);
        let answer = send(&server, Settings::unkeyed(), method)
            .await
            .expect("an answer");
        assert_eq!((answer.status().as_u16(), server.seen().len()), (200, 3));
        assert_eq!(server.keys(), [None, None, None]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_that_changes_nothing_leaves_no_doubt() {
    let few = Settings {
        attempts: attempts(2),
        ..keyed()
    };
    let server = Scripted::new([RESET]);
    let get = send(&server, few.clone(), "GET")
        .await
        .expect_err("no answer");
    assert_eq!(
        (get.certainty(), get.stopped()),
        (Certainty::NotApplied, Stopped::Attempts)
    );
    let put = send(&server, few, "PUT").await.expect_err("no answer");
    assert_eq!(put.certainty(), Certainty::MaybeApplied);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_returned_and_not_repeated() {
    for status in [301, 400, 401, 403, 404, 405, 422] {
        let server = Scripted::new([Act::status(status), Act::status(201)]);
        let answer = send(&server, keyed(), "POST").await.expect("an answer");
        assert_eq!((answer.status().as_u16(), server.seen().len()), (status, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reused_key_is_an_error_and_not_repeated() {
    let reused =
        r#"{"type":"urn:semel:problem:key-reused","code":"key-reused","operation_id":"0af3"}"#;
    let server = Scripted::new([Act::problem(422, reused), Act::status(201)]);
    let error = send(&server, keyed(), "POST")
        .await
        .expect_err("a reused key");
    assert_eq!((error.code(), error.advice()), ("key-reused", Advice::Fix));
    assert_eq!((error.operation_id(), error.attempts()), (Some("0af3"), 1));
    assert_eq!(error.certainty(), Certainty::NotApplied);
    assert_eq!(
        error.answer().map(http::Response::status),
        Some(StatusCode::UNPROCESSABLE_ENTITY)
    );
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_doubt_says_nothing_of_the_doubt() {
    for status in [302, 401, 402, 404, 422] {
        let server = Scripted::new([RESET, Act::status(status), Act::status(201)]);
        let error = send(&server, keyed(), "POST").await.expect_err("a doubt");
        assert_eq!(
            (error.reason(), error.happened()),
            (Reason::Unclear, Happened::Maybe)
        );
        assert_eq!((error.attempts(), server.seen().len()), (2, 2));
        let answer = error.into_answer().expect("the refusal");
        assert_eq!(answer.status().as_u16(), status);
    }
    let decisive = Settings {
        decisive: "402".parse().expect("codes"),
        ..keyed()
    };
    let server = Scripted::new([RESET, Act::status(402)]);
    let answer = send(&server, decisive, "POST")
        .await
        .expect("the provider's last word");
    assert_eq!(answer.status(), StatusCode::PAYMENT_REQUIRED);
}

#[tokio::test(start_paused = true)]
async fn a_stored_answer_is_the_first_attempts_own() {
    for (name, status) in [("idempotency-replayed", 402), ("idempotent-replayed", 500)] {
        let server = Scripted::new([RESET, Act::with(status, name, "true"), Act::status(201)]);
        let answer = send(&server, keyed(), "POST")
            .await
            .expect("the stored answer");
        assert_eq!(answer.status().as_u16(), status);
        let from = answer.extensions().get::<AnswerFrom>();
        assert_eq!(from, Some(&AnswerFrom::ServerRecord { attempts: 2 }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_under_way_is_waited_for() {
    let script = [
        RESET,
        Act::with(409, "retry-after", "1"),
        Act::status(409),
        Act::status(201),
    ];
    let server = Scripted::new(script);
    let answer = send(&server, keyed(), "POST").await.expect("an answer");
    assert_eq!((answer.status().as_u16(), server.seen().len()), (201, 4));
    let waits: Vec<_> = server
        .seen()
        .windows(2)
        .map(|two| two[1].at - two[0].at)
        .collect();
    assert_eq!(waits[1], Duration::from_secs(1));
    assert!(
        waits[2] >= Duration::from_millis(50),
        "it is not asked all the time"
    );
}

#[tokio::test(start_paused = true)]
async fn a_doubt_of_the_server_is_told_and_not_repeated() {
    let doubt = r#"{"type":"urn:semel:problem:in-doubt","code":"in-doubt","operation_id":"0af3"}"#;
    let server = Scripted::new([Act::problem(409, doubt), Act::status(201)]);
    let error = send(&server, keyed(), "POST").await.expect_err("a doubt");
    assert_eq!(
        (error.reason(), error.operation_id()),
        (Reason::InDoubt, Some("0af3"))
    );
    assert_eq!(
        (error.certainty(), server.seen().len()),
        (Certainty::MaybeApplied, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn the_server_says_when_to_come_again() {
    let began = Instant::now();
    let server = Scripted::new([Act::with(503, "retry-after", "7"), Act::status(201)]);
    send(&server, keyed(), "POST").await.expect("an answer");
    assert_eq!(began.elapsed(), Duration::from_secs(7));
    let date = Act::Answer(
        429,
        vec![
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 08:49:48 GMT"),
        ],
        "",
    );
    let (server, began) = (Scripted::new([date, Act::status(201)]), Instant::now());
    send(&server, keyed(), "POST").await.expect("an answer");
    assert_eq!(began.elapsed(), Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn the_servers_time_is_kept_even_where_the_budget_has_none_for_jitter() {
    let (server, began) = (
        Scripted::new([Act::with(503, "retry-after", "15"), Act::status(201)]),
        Instant::now(),
    );
    let settings = Settings {
        budget: Duration::from_secs(20),
        backoff: semel_core::Backoff {
            first: Duration::from_secs(10),
            most: Duration::from_secs(10),
        },
        ..keyed()
    };
    let sent = retries(settings, 255).layer(server).oneshot(post()).await;
    assert!(sent.is_ok() && began.elapsed() == Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_time_that_the_budget_does_not_have() {
    let began = Instant::now();
    let server = Scripted::new([Act::with(503, "retry-after", "3600"), Act::status(201)]);
    let error = send(&server, keyed(), "POST").await.expect_err("no result");
    let hour = Duration::from_secs(3_600);
    assert_eq!(
        (error.stopped(), error.retry_after()),
        (Stopped::Budget, Some(hour))
    );
    assert_eq!(error.advice(), Advice::Retry { after: hour });
    assert_eq!(error.certainty(), Certainty::NotApplied);
    assert_eq!((began.elapsed(), server.seen().len()), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_with_its_budget_and_says_what_is_known() {
    for (act, certainty) in [
        (RESET, Certainty::MaybeApplied),
        (Act::Hang, Certainty::MaybeApplied),
        (Act::status(500), Certainty::MaybeApplied),
        (Act::status(503), Certainty::NotApplied),
        (Act::status(409), Certainty::MaybeApplied),
        (REFUSED, Certainty::NotApplied),
        (Act::with(503, "retry-after", "1"), Certainty::NotApplied),
    ] {
        let (server, began) = (Scripted::new([act.clone()]), Instant::now());
        let settings = Settings {
            budget: Duration::from_secs(20),
            attempts: attempts(1_000_000),
            attempt_timeout: Duration::from_secs(3),
            ..keyed()
        };
        let sent = retries(settings, 255)
            .layer(server.clone())
            .oneshot(post())
            .await;
        let error = sent.expect_err("no result");
        assert_eq!(
            (error.stopped(), error.certainty()),
            (Stopped::Budget, certainty),
            "{act:?}"
        );
        assert!(began.elapsed() <= Duration::from_secs(20), "{act:?}");
        let attempts = usize::try_from(error.attempts()).expect("a few");
        assert_eq!(attempts, server.seen().len());
        assert!(attempts > 3, "{act:?}: {attempts}");
        let key = server.keys().pop().flatten();
        assert_eq!(error.key(), key.as_deref());
        assert!(
            error
                .to_string()
                .contains("the time of the call is used up")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn waits_grow_up_to_their_bounds_and_are_random() {
    let server = Scripted::new([RESET]);
    let settings = Settings {
        attempts: attempts(9),
        ..keyed()
    };
    let longest = retries(settings.clone(), 255)
        .layer(server.clone())
        .oneshot(post())
        .await;
    let error = longest.expect_err("no result");
    assert_eq!((error.stopped(), error.attempts()), (Stopped::Attempts, 9));
    let waits: Vec<_> = server
        .seen()
        .windows(2)
        .map(|two| two[1].at - two[0].at)
        .collect();
    let bounds = [200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000];
    for (wait, bound) in waits.iter().zip(bounds.map(Duration::from_millis)) {
        // The clock of the tests has whole milliseconds.
        let slack = Duration::from_millis(2);
        assert!(
            *wait <= bound + slack && *wait + slack >= bound,
            "{wait:?} {bound:?}"
        );
    }
    let server = Scripted::new([RESET]);
    let layer = semel_client::RetryLayer::new(settings).expect("settings that hold");
    let began = Instant::now();
    let sent = layer.layer(server.clone()).oneshot(post()).await;
    assert!(sent.is_err() && began.elapsed() < waits.iter().sum());
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_the_limit_is_no_reason_to_send_again() {
    let long = Act::Answer(201, Vec::new(), "0123456789");
    for (limit, fits) in [(10, true), (9, false)] {
        let server = Scripted::new([long.clone()]);
        let settings = Settings {
            answer_limit_bytes: limit,
            ..keyed()
        };
        let sent = send(&server, settings, "POST").await;
        assert_eq!((sent.is_ok(), server.seen().len()), (fits, 1));
        if let Err(error) = sent {
            assert_eq!(
                (error.reason(), error.happened()),
                (Reason::NotKept, Happened::Yes)
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_the_limit_is_no_proof_unless_it_is_a_refusal() {
    for (status, happened) in [
        (404, Happened::No),
        (303, Happened::Maybe),
        (408, Happened::No),
        (503, Happened::No),
        (409, Happened::Maybe),
        (500, Happened::Maybe),
    ] {
        let server = Scripted::new([Act::Answer(status, Vec::new(), "0123456789")]);
        let settings = Settings {
            answer_limit_bytes: 9,
            ..keyed()
        };
        let error = send(&server, settings, "POST").await.expect_err("too long");
        assert_eq!(
            (error.reason(), error.happened()),
            (Reason::NotKept, happened),
            "{status}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_sent_is_not_tried_again() {
    let server = Scripted::new([RESET]);
    let settings = Settings {
        fault: |_| Fault::Unsendable,
        ..keyed()
    };
    let error = send(&server, settings, "POST")
        .await
        .expect_err("it cannot be sent");
    assert_eq!((error.reason(), error.attempts()), (Reason::Invalid, 1));
    assert_eq!(
        (error.certainty(), error.advice()),
        (Certainty::NotApplied, Advice::Fix)
    );
}

#[tokio::test(start_paused = true)]
async fn half_a_body_is_not_sent() {
    let server = Scripted::new([Act::status(201)]);
    let torn = futures_util::stream::iter([
        Ok(http_body::Frame::data(Bytes::from_static(b"{"))),
        Err(io::Error::other("the file is gone")),
    ]);
    let request = Request::post("http://provider.test/").body(StreamBody::new(torn));
    let sent = server
        .retried(keyed())
        .oneshot(request.expect("a request"))
        .await;
    let error = sent.expect_err("half a body");
    assert_eq!(
        (error.reason(), error.certainty()),
        (Reason::Invalid, Certainty::NotApplied)
    );
    assert_eq!(server.seen(), []);
}

#[tokio::test(start_paused = true)]
async fn the_body_of_an_answer_comes_whole() {
    let server = Scripted::new([Act::Torn(201), Act::Answer(201, Vec::new(), "{\"id\":7}")]);
    let answer = send(&server, keyed(), "POST").await.expect("an answer");
    let body = answer
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    assert_eq!(body, "{\"id\":7}");
}
