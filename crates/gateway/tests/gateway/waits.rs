//! Requests that meet the first one while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel_gateway::Mode;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tower::ServiceExt;

use crate::site::{Site, created, request, with};

/// A handler that answers once it is let go.
fn gated(change: impl FnOnce(&mut semel_gateway::Route)) -> (Arc<Site>, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let at = Arc::clone(&gate);
    let site = Site::new(change, move |call, _| {
        let at = Arc::clone(&at);
        async move {
            let _turn = at.acquire().await.expect("it is open");
            Ok(created(call))
        }
    });
    (Arc::new(site), gate)
}

fn post(site: &Arc<Site>, key: &'static str) -> tokio::task::JoinHandle<crate::site::Seen> {
    let site = Arc::clone(site);
    tokio::spawn(async move { site.post(key).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_requests_at_once_make_one_call_and_get_one_answer() {
    let (site, gate) = gated(|it| it.wait = Duration::from_secs(30));
    let all: Vec<_> = (0..200).map(|_| post(&site, "pay-1")).collect();
    site.called(1).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    gate.add_permits(1);
    let (mut first, mut replayed) = (0, 0);
    for one in all {
        let seen = one.await.expect("it ends");
        let is_replay = seen.is_replay();
        seen.is_created(1, is_replay);
        assert_eq!(seen.headers["content-type"], "text/plain");
        *(if is_replay { &mut replayed } else { &mut first }) += 1;
    }
    assert_eq!((first, replayed, site.calls()), (1, 199, 1));
}

#[tokio::test]
async fn a_request_waits_as_long_as_the_route_says_and_is_told_when_to_come_again() {
    let (site, gate) = gated(|it| it.wait = Duration::from_millis(100));
    let first = post(&site, "pay-1");
    site.called(1).await;
    let began = Instant::now();
    let seen = site.post("pay-1").await;
    seen.problem(409, "in-progress");
    assert!(began.elapsed() >= Duration::from_millis(100));
    let after: u64 = seen.headers["retry-after"]
        .to_str()
        .expect("it")
        .parse()
        .expect("seconds");
    assert!((1..=30).contains(&after), "{after}");
    gate.add_permits(1);
    first.await.expect("it ends").is_created(1, false);
    site.post("pay-1").await.is_created(1, true);
}

#[tokio::test]
async fn a_reused_key_is_refused_at_once_while_the_first_request_runs() {
    let (site, gate) = gated(|it| it.wait = Duration::from_secs(60));
    let first = post(&site, "pay-1");
    site.called(1).await;
    let other = with(&[("idempotency-key", "pay-1")], "{}");
    let refused = tokio::time::timeout(Duration::from_secs(10), site.send(other)).await;
    refused.expect("at once").problem(422, "key-reused");
    gate.add_permits(1);
    first.await.expect("it ends").is_created(1, false);
}

#[tokio::test]
async fn stripe_does_not_wait() {
    let (site, gate) = gated(|it| (it.mode, it.wait) = (Mode::Stripe, Duration::from_secs(60)));
    let first = post(&site, "pay-1");
    site.called(1).await;
    let refused = tokio::time::timeout(Duration::from_secs(10), site.post("pay-1")).await;
    refused.expect("at once").problem(409, "in-progress");
    gate.add_permits(1);
    first.await.expect("it ends").is_created(1, false);
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_stop_its_handler() {
    let (site, gate) = gated(|_| {});
    let first = post(&site, "pay-1");
    site.called(1).await;
    first.abort();
    assert!(first.await.is_err(), "the client is gone");
    gate.add_permits(1);
    site.post("pay-1").await.is_created(1, true);
    assert_eq!(site.calls(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_wait_and_no_more() {
    let (site, gate) = gated(|it| it.wait = Duration::from_secs(60));
    let first = post(&site, "pay-1");
    site.called(1).await;
    let mut waiting = tokio::task::JoinSet::new();
    let places = Arc::new(AtomicUsize::new(0));
    for _ in 0..1_000 {
        let mut one = Box::pin(site.service.clone().oneshot(request("pay-1")));
        let places = Arc::clone(&places);
        waiting.spawn(async move {
            // It takes its place before it has to wait for anything.
            let begun = futures_util::poll!(&mut one);
            assert!(begun.is_pending());
            places.fetch_add(1, Ordering::SeqCst);
            one.await
        });
    }
    while places.load(Ordering::SeqCst) < 1_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let refused = tokio::time::timeout(Duration::from_secs(30), site.post("pay-1")).await;
    refused.expect("at once").problem(409, "in-progress");
    // One that is over the number is still told at once that its key belongs to another request.
    let other = with(&[("idempotency-key", "pay-1")], "{}");
    site.send(other).await.problem(422, "key-reused");
    gate.add_permits(1);
    first.await.expect("it ends").is_created(1, false);
    while let Some(one) = waiting.join_next().await {
        let response = one.expect("it ends").expect("an answer");
        assert_eq!(response.status(), 201);
    }
    assert_eq!(site.calls(), 1);
    // With their places free again, the next one is answered from the record.
    site.post("pay-1").await.is_created(1, true);
}
