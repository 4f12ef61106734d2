//! Checks: one at a time, for a bounded time, with one answer for all that ask the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel_admin::{CheckQuestion, Checker, LONGEST_CHECK, PendingCheck};
use semel_core::AnyStore;
use semel_http::Caller;
use semel_operate::check::{CheckAnswer, Severity};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::description::is_described;
use crate::site::{Site, viewer_of};

/// A checker that waits for a permit of each check, and says nothing but that it has begun.
struct Waiting {
    permits: Semaphore,
    begun: AtomicUsize,
    most_at_once: AtomicUsize,
    goes_on: watch::Sender<usize>,
}

impl Waiting {
    fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self {
            permits: Semaphore::new(permits),
            begun: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            goes_on: watch::channel(0).0,
        })
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    async fn is_begun(&self, count: usize) {
        let mut goes_on = self.goes_on.subscribe();
        let seen = goes_on.wait_for(|_| self.begun() >= count).await;
        seen.expect("the checker is there");
    }
}

/// A service, and its checker.
struct Service(Arc<Site>, Arc<Waiting>);

/// The checker of a service.
struct Shared(Arc<Waiting>);

/// Counts down when a check ends, however it does.
struct Ends(Arc<Waiting>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.goes_on.send_modify(|count| *count -= 1);
    }
}

impl Checker for Shared {
    fn check(&self, question: CheckQuestion, _: Option<AnyStore>) -> PendingCheck {
        let it = Arc::clone(&self.0);
        Box::pin(async move {
            it.begun.fetch_add(1, Ordering::SeqCst);
            it.goes_on.send_modify(|count| *count += 1);
            let _ends = Ends(Arc::clone(&it));
            let now = *it.goes_on.borrow();
            it.most_at_once.fetch_max(now, Ordering::SeqCst);
            let permit = it.permits.acquire().await.expect("it stays open");
            permit.forget();
            Ok(CheckAnswer {
                semel: CheckAnswer::VERSION,
                verdict: if question.production {
                    Severity::Fail
                } else {
                    Severity::Ok
                },
                items: Vec::new(),
                windows: Vec::new(),
                failure: None,
            })
        })
    }
}

impl Service {
    fn new(permits: usize) -> Self {
        let waiting = Waiting::new(permits);
        let checker = Arc::new(Shared(Arc::clone(&waiting)));
        let site = Site::of(|settings| settings.checker = Some(checker));
        Self(Arc::new(site), waiting)
    }
}

/// Somebody who asks for a check, and may go away.
fn ask(site: &Arc<Site>) -> tokio::task::JoinHandle<Value> {
    let site = Arc::clone(site);
    tokio::spawn(async move { site.good("/v1/check").await })
}

#[tokio::test(start_paused = true)]
async fn all_that_ask_the_same_at_once_get_one_answer_and_later_ones_a_new_one() {
    let Service(site, waiting) = Service::new(0);
    let asked: Vec<_> = (0..5).map(|_| ask(&site)).collect();
    waiting.is_begun(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    waiting.permits.add_permits(1);
    for answer in asked {
        assert_eq!(answer.await.expect("no panic")["verdict"], "ok");
    }
    assert_eq!(waiting.begun(), 1, "one for all of them");
    waiting.permits.add_permits(1);
    site.good("/v1/check").await;
    assert_eq!(waiting.begun(), 2, "nothing is kept");
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_takes_no_answer_from_those_that_wait_with_it() {
    let Service(site, waiting) = Service::new(0);
    let first = ask(&site);
    waiting.is_begun(1).await;
    let second = ask(&site);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(waiting.begun(), 1);
    // Whoever began it.
    first.abort();
    assert!(first.await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    waiting.permits.add_permits(1);
    assert_eq!(second.await.expect("no panic")["verdict"], "ok");
    assert_eq!(waiting.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_nobody_waits_for_keeps_its_place_until_its_end() {
    let Service(site, waiting) = Service::new(0);
    let first = ask(&site);
    waiting.is_begun(1).await;
    first.abort();
    assert!(first.await.is_err());
    let other = site.refused("/v1/check?production=true").await;
    assert_eq!(other, (503, "throttled".to_owned()));
    assert_eq!(waiting.begun(), 1);
    // It takes along whoever asks the same.
    let again = ask(&site);
    tokio::time::sleep(Duration::from_secs(1)).await;
    waiting.permits.add_permits(1);
    assert_eq!(again.await.expect("no panic")["verdict"], "ok");
    assert_eq!(waiting.begun(), 1);
    waiting.permits.add_permits(1);
    site.good("/v1/check?production=true").await;
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_left_before_its_turn_is_not_begun() {
    let Service(site, waiting) = Service::new(0);
    let ask = |path: &'static str| {
        let site = Arc::clone(&site);
        tokio::spawn(async move { site.good(path).await })
    };
    let first = ask("/v1/check");
    waiting.is_begun(1).await;
    let left = ask("/v1/check?rate=1");
    tokio::time::sleep(Duration::from_secs(1)).await;
    left.abort();
    assert!(left.await.is_err());
    waiting.permits.add_permits(1);
    first.await.expect("no panic");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(waiting.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_question_waits_for_its_turn_and_not_for_long() {
    let Service(site, waiting) = Service::new(0);
    let first = {
        let site = Arc::clone(&site);
        tokio::spawn(async move { site.good("/v1/check").await })
    };
    waiting.is_begun(1).await;
    let begun = Instant::now();
    let other = site.refused("/v1/check?production=true").await;
    assert_eq!(other, (503, "throttled".to_owned()));
    assert_eq!(begun.elapsed().as_secs(), 2);
    waiting.permits.add_permits(2);
    assert_eq!(first.await.expect("no panic")["verdict"], "ok");
    let other = site.good("/v1/check?production=true").await;
    assert_eq!(other["verdict"], "fail");
    assert_eq!(waiting.most_at_once.load(Ordering::SeqCst), 1);
}

/// Each waits for its turn, and is looked for by whoever asks: as many as there are rates would be a burden.
#[tokio::test(start_paused = true)]
async fn more_questions_than_may_wait_are_refused_at_once() {
    let Service(site, waiting) = Service::new(0);
    let first = ask(&site);
    waiting.is_begun(1).await;
    let refused = |rate: u32| {
        let site = Arc::clone(&site);
        async move { site.refused(&format!("/v1/check?rate={rate}")).await }
    };
    let others: Vec<_> = (1..32).map(|rate| tokio::spawn(refused(rate))).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    assert_eq!(refused(32).await, (503, "throttled".to_owned()));
    assert_eq!(begun.elapsed().as_secs(), 0);
    // What somebody waits for already is no more.
    let same = ask(&site);
    for other in others {
        assert_eq!(other.await.expect("no panic").0, 503);
    }
    waiting.permits.add_permits(1);
    for asked in [first, same] {
        assert_eq!(asked.await.expect("no panic")["verdict"], "ok");
    }
    assert_eq!(waiting.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_does_not_end_is_given_up() {
    let Service(site, waiting) = Service::new(0);
    let begun = Instant::now();
    let refused = site.refused("/v1/check").await;
    assert_eq!(refused, (503, "timeout".to_owned()));
    assert_eq!(begun.elapsed().as_secs(), LONGEST_CHECK.as_secs());
    assert_eq!(*waiting.goes_on.borrow(), 0, "it was dropped");
    // What it has asked may go on for a while.
    waiting.permits.add_permits(1);
    let refused = site.refused("/v1/check").await;
    assert_eq!(refused, (503, "throttled".to_owned()));
    assert_eq!(waiting.begun(), 1);
    tokio::time::sleep(Duration::from_secs(30)).await;
    site.good("/v1/check").await;
}

#[tokio::test]
async fn only_a_question_that_can_be_meant_is_asked_by_whom_it_is_for() {
    let Service(site, waiting) = Service::new(9);
    let invalid = (400, "invalid-input".to_owned());
    for query in [
        "rate=0",
        "rate=-1",
        "rate=%2B1",
        "rate=",
        "rate=4294967296",
        "production=yes",
        "sample=in",
        "rate=1&rate=1",
    ] {
        let refused = site.refused(&format!("/v1/check?{query}")).await;
        assert_eq!(refused, invalid, "{query}");
    }
    let unknown = site.refused("/v1/check?pipeline=none").await;
    assert_eq!(unknown, (404, "pipeline-unknown".to_owned()));
    let (status, refused) = site.ask("/v1/check", Some(viewer_of("acme"))).await;
    assert_eq!((status, &refused["code"]), (403, &"forbidden".into()));
    let (status, _) = site.ask("/v1/check", None).await;
    assert_eq!(status, 401);
    assert_eq!(waiting.begun(), 0);
    let viewer = Caller {
        tenant: None,
        ..viewer_of("acme")
    };
    let (status, answer) = site.ask("/v1/check?rate=4294967295", Some(viewer)).await;
    assert_eq!(status, 200, "{answer}");
    is_described(&answer, "Check");
    let nobody = Site::new().refused("/v1/check").await;
    assert_eq!(nobody, (501, "unsupported".to_owned()));
}
