//! Answers that are no outcomes.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Request};
use futures_util::stream;
use semel_core::decide::{Directed, Directive, Order};
use semel_core::{Admission, OpId, Recovery, Start, StateKind, Store, StoreExt};
use semel_engine::effect::{Class, OnDoubt};
use semel_engine::once::{Error, Failure, Happened, Op, TimedOut};
use semel_gateway::{Proof, Reply, Route, upstream_unreachable};

use crate::site::{Oops, Site, answer, created, request};

fn keyed(route: &mut Route) {
    let provider_window = Duration::from_secs(86_400);
    route.class = Class::Keyed { provider_window };
}

fn repeated(route: &mut Route) {
    route.class = Class::Unkeyed(OnDoubt::Repeat);
}

/// Sends the same request again and again, and returns which answers were replays.
async fn played(site: &Site, statuses: &[u16]) {
    for (index, status) in statuses.iter().enumerate() {
        let seen = site.post("pay-1").await;
        let expected = format!("call {}", index + 1);
        assert_eq!(
            (seen.status, &seen.body[..]),
            (*status, expected.as_bytes()),
            "{index}"
        );
        assert!(!seen.is_replay());
    }
}

#[tokio::test]
async fn what_was_not_applied_frees_the_key_however_often() {
    let statuses: &[u16] = &[
        401, 403, 407, 425, 429, 503, 503, 503, 503, 503, 503, 503, 201,
    ];
    for class in [Route::default().class, Class::Unkeyed(OnDoubt::Repeat)] {
        let site = Site::scripted(|it| it.class = class, statuses);
        played(&site, statuses).await;
        site.post("pay-1").await.is_created(statuses.len(), true);
    }
}

#[tokio::test]
async fn an_answer_that_may_have_been_applied_is_a_doubt() {
    let site = Site::scripted(|_| {}, &[500]);
    played(&site, &[500]).await;
    for _ in 0..2 {
        let members = site.post("pay-1").await.problem(409, "in-doubt");
        let detail = members["detail"].as_str().expect("it");
        assert!(detail.contains("semel in-doubt show"), "{detail}");
    }
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn repeated_requests_are_possible_repeats_until_one_is_decisive() {
    let site = Site::new(
        |it| (repeated(it), it.decisive = "402".parse().expect("it")).0,
        async |call, request: Request<Body>| {
            let op = request.extensions().get::<Op>().expect("the attempt");
            assert_eq!(
                (op.attempt() as usize, op.is_possible_repeat()),
                (call, call > 1)
            );
            Ok(answer(
                [500, 404, 409, 303, 429, 402][call - 1],
                format!("call {call}"),
            ))
        },
    );
    played(&site, &[500, 404, 409, 303, 429, 402]).await;
    let last = site.post("pay-1").await;
    assert!(last.status == 402 && last.is_replay());
}

#[tokio::test]
async fn a_keyed_handler_is_called_again_with_the_same_key() {
    let site = Site::scripted(keyed, &[500, 409, 404, 500, 201]);
    played(&site, &[500, 409, 404, 500, 201]).await;
    site.post("pay-1").await.is_created(5, true);
}

/// After attempts that surely did nothing, a refusal is the answer.
#[tokio::test]
async fn without_a_doubt_a_later_refusal_is_an_outcome() {
    for class in [keyed, repeated, |_: &mut Route| {}] {
        let site = Site::scripted(class, &[429, 503, 404]);
        played(&site, &[429, 503, 404]).await;
        let last = site.post("pay-1").await;
        assert!(last.status == 404 && last.is_replay());
    }
}

#[tokio::test]
async fn a_stored_answer_of_a_keyed_handler_ends_the_doubt() {
    let site = Site::new(keyed, async |call, _| {
        let mut response = answer([500, 500][call - 1], format!("call {call}"));
        if call == 2 {
            let name = "idempotent-replayed";
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static("true"));
            // Whatever is said of this attempt, the answer is that of the first one.
            response.extensions_mut().insert(Proof::NotApplied);
        }
        Ok(response)
    });
    assert_eq!(site.post("pay-1").await.status, 500);
    assert_eq!(site.post("pay-1").await.status, 500);
    let last = site.post("pay-1").await;
    assert!(last.status == 500 && last.is_replay());
    assert_eq!(site.calls(), 2);
}

#[tokio::test]
async fn a_handler_that_knows_better_says_so() {
    let site = Site::new(
        |_| {},
        async |call, _| {
            let mut response = answer([502, 404, 200][call - 1], format!("call {call}"));
            let proofs = [Proof::NotApplied, Proof::NotApplied, Proof::MaybeApplied];
            response.extensions_mut().insert(proofs[call - 1]);
            Ok(response)
        },
    );
    played(&site, &[502, 404, 200]).await;
    site.post("pay-1").await.problem(409, "in-doubt");
}

/// A layer between ours and the handler drops the handler and answers 408: its effect may have begun.
#[tokio::test]
async fn a_408_is_a_doubt_unless_the_handler_says_otherwise() {
    let site = Site::scripted(|_| {}, &[408]);
    played(&site, &[408]).await;
    site.post("pay-1").await.problem(409, "in-doubt");
    assert_eq!(site.calls(), 1);
    let site = Site::new(
        |_| {},
        async |call, _| {
            let mut response = answer([408, 201][call - 1], format!("call {call}"));
            if call == 1 {
                response.extensions_mut().insert(Proof::NotApplied);
            }
            Ok(response)
        },
    );
    played(&site, &[408, 201]).await;
    site.post("pay-1").await.is_created(2, true);
}

/// An operator's retry counts the attempts anew and keeps the doubt: a refusal says nothing about the earlier attempt.
#[tokio::test]
async fn a_doubt_outlives_an_operators_retry() {
    let site = Site::scripted(keyed, &[404, 404, 201]);
    let by_hand = site.once.operation("http").attempts(1);
    let by_hand = by_hand.keyed(Duration::from_secs(86_400));
    let failed = async |_| Err::<(), _>(Failure::maybe_applied("it timed out"));
    let failed = by_hand.once("pay-1", failed).await;
    assert!(matches!(failed, Err(Error::InDoubt { .. })), "{failed:?}");
    let directive = Directive {
        operation: by_hand.operation("pay-1").expect("a key"),
        order: Order::Retry,
        note: None,
    };
    let store = site.once.store().expect("it is open");
    let directed = store.operate([directive].into()).await.expect("an answer");
    assert!(
        matches!(directed[..], [Directed::Now(Some(StateKind::Released))]),
        "{directed:?}"
    );
    played(&site, &[404, 404, 201]).await;
    site.post("pay-1").await.is_created(3, true);
}

#[tokio::test]
async fn a_takeover_leaves_the_doubt_of_the_attempt_that_vanished() {
    let site = Site::scripted(keyed, &[404, 404, 201]);
    let by_hand = site.once.operation("http");
    let mut vanishing = by_hand.claim_request("pay-1").expect("a key");
    vanishing.lease = Duration::from_millis(100);
    let provider_window = Duration::from_secs(86_400);
    vanishing.start = Start::Marked(Recovery::RerunWithin(provider_window));
    let store = site.once.store().expect("it is open");
    let admission = store.claim_one(vanishing).await.expect("an answer");
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
    tokio::time::sleep(Duration::from_millis(150)).await;
    played(&site, &[404, 404, 201]).await;
    site.post("pay-1").await.is_created(3, true);
}

#[tokio::test]
async fn an_upstream_that_was_not_reached_burns_nothing() {
    let site = Site::new(
        |_| {},
        async |call, _| {
            Ok(if call == 1 {
                upstream_unreachable()
            } else {
                created(call)
            })
        },
    );
    site.post("pay-1")
        .await
        .problem(502, "upstream-unreachable");
    site.post("pay-1").await.is_created(2, false);
}

#[tokio::test]
async fn a_handler_that_panics_may_have_been_applied() {
    let site = Site::new(|_| {}, async |_, _| panic!("the handler panics"));
    let members = site.post("pay-1").await.problem(502, "upstream-broken");
    assert_eq!(members["operation_id"].as_str().map(str::len), Some(64));
    site.post("pay-1").await.problem(409, "in-doubt");
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn a_handler_that_fails_may_have_been_applied_and_its_client_gets_the_error() {
    let site = Site::new(|_| {}, async |_, _| Err(Oops));
    assert_eq!(site.try_send(request("pay-1")).await, Err(Oops));
    site.post("pay-1").await.problem(409, "in-doubt");
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn an_answer_that_breaks_off_may_have_been_applied() {
    let site = Site::new(keyed, async |call, _| {
        if call == 2 {
            return Ok(created(call));
        }
        let pieces = vec![Ok("half"), Err(std::io::Error::other("gone"))];
        Ok(answer(201, Body::from_stream(stream::iter(pieces))))
    });
    site.post("pay-1").await.problem(502, "upstream-broken");
    site.post("pay-1").await.is_created(2, false);
    site.post("pay-1").await.is_created(2, true);
}

#[test]
fn an_answer_that_came_as_its_time_ran_out_is_not_given() {
    let operation_id = OpId::from_bytes([7; 32]);
    let source = || TimedOut {
        limit: Duration::from_secs(1),
    };
    let in_doubt = Error::InDoubt {
        operation_id,
        ran: true,
        source: source().into(),
    };
    let failed = Error::Failed {
        operation_id,
        attempt: 1,
        happened: Happened::Maybe,
        retry_after: Duration::ZERO,
        source: source().into(),
    };
    for error in [in_doubt, failed] {
        // The record has a doubt, and whoever asks next is told of that.
        let Reply::Problem(problem) = Route::default().reply(&error, true) else {
            panic!("{error:?}: the client is told what nobody else will be");
        };
        assert_eq!(problem.code(), "upstream-timeout");
    }
}

#[tokio::test]
async fn a_handler_out_of_time_may_have_been_applied() {
    let hanging = async |_, _| {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(created(1))
    };
    let site = Site::new(
        |it| it.upstream_timeout = Duration::from_millis(50),
        hanging,
    );
    site.post("pay-1").await.problem(504, "upstream-timeout");
    site.post("pay-1").await.problem(409, "in-doubt");
}
