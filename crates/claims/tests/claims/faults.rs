//! A store that is away, or whose answer is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use semel_conformance::TestClock;
use semel_core::{
    Admission, ClaimRequest, Error, ErrorKind, Operation, Record, Result, Settled, Settlement,
    Store, forward_store,
};
use semel_store_memory::MemoryStore;
use serde_json::json;
use tokio::time::timeout;

use crate::batches;
use crate::site::{Site, assert_problem, claim_of};

/// A store that loses the answer to the next call, or all of them.
#[derive(Clone)]
struct Faulty {
    inner: Arc<MemoryStore>,
    loses_answer: Arc<AtomicBool>,
    is_away: Arc<AtomicBool>,
    /// Reads of records are never answered.
    is_stuck: Arc<AtomicBool>,
    /// Of the next reports the first fails alone, and is not carried out.
    fails_first: Arc<AtomicBool>,
}

impl Faulty {
    fn new(clock: &TestClock) -> Self {
        Self {
            inner: Arc::new(MemoryStore::new(Arc::new(clock.clone()))),
            loses_answer: Arc::default(),
            is_away: Arc::default(),
            is_stuck: Arc::default(),
            fails_first: Arc::default(),
        }
    }

    fn before(&self) -> Result<()> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "refused").not_applied());
        }
        Ok(())
    }

    fn after(&self) -> Result<()> {
        if self.loses_answer.swap(false, Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "the connection broke"));
        }
        Ok(())
    }
}

impl Store for Faulty {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        self.before()?;
        let answer = self.inner.claim(batch).await;
        self.after()?;
        answer
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        self.before()?;
        if self.fails_first.swap(false, Ordering::SeqCst) {
            let error = Error::new(ErrorKind::Unavailable, "a deadlock");
            let rest = self.inner.settle(batch[1..].into()).await?;
            return Ok(std::iter::once(Settled::Failed(error))
                .chain(rest)
                .collect());
        }
        let answer = self.inner.settle(batch).await;
        self.after()?;
        answer
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        if self.is_stuck.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.before()?;
        self.inner.get(batch).await
    }

    forward_store!(self => self.inner; but claim, settle, get);
}

fn site() -> (Faulty, Site) {
    let clock = TestClock::new();
    let store = Faulty::new(&clock);
    (store.clone(), Site::over(store, clock))
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_asked_for_again_under_the_id_that_is_told() {
    let (store, site) = site();
    store.loses_answer.store(true, Ordering::SeqCst);
    let body = claim_of("pay-1", json!({"class": "unkeyed"}));
    let answer = site.post("/v1/claims", &body).await;
    let problem = answer.problem(503, "store-unavailable");
    assert_eq!(problem["certainty"], "maybe_applied");
    assert!(answer.headers.contains_key("retry-after"));
    let mut again = body.clone();
    again["claim_id"] = problem["claim_id"].clone();
    assert_eq!(
        site.claim(&body).await["decision"],
        "busy",
        "it was granted"
    );
    assert_eq!(site.claim(&again).await["resumed"], true);
}

#[tokio::test]
async fn a_step_whose_answer_was_lost_is_repeated() {
    let (store, site) = site();
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    store.loses_answer.store(true, Ordering::SeqCst);
    let done = json!({"outcome": 1});
    let answer = site.step(&claim, "complete", &done).await;
    let problem = answer.problem(503, "store-unavailable");
    assert_eq!(problem["certainty"], "maybe_applied");
    assert!(problem["operation_id"].is_string(), "{problem}");
    assert_eq!(
        site.state_after(&claim, "complete", &done).await,
        "completed"
    );
}

/// The record never says, whatever fails in between, of an effect that may have happened that it did not.
#[tokio::test]
async fn an_effect_that_is_not_marked_for_certain_is_not_reported_on() {
    for verb in ["release", "fail"] {
        let (store, site) = site();
        let body = claim_of("pay-1", json!({"lease": "10s"}));
        let claim = site.granted(&body).await;
        let unsure = json!({"certainty": "maybe_applied"});
        store.fails_first.store(true, Ordering::SeqCst);
        let answer = site.step(&claim, verb, &unsure).await;
        answer.problem(503, "store-unavailable");
        assert_eq!(site.claim(&body).await["decision"], "busy", "{verb}");
        // In a batch the others are reported.
        let other = site.granted(&claim_of("pay-2", json!({}))).await;
        store.fails_first.store(true, Ordering::SeqCst);
        let items = [
            json!({"claim": claim, "step": verb, "certainty": "maybe_applied"}),
            json!({"claim": other, "step": verb, "certainty": "maybe_applied"}),
        ];
        let answers = batches::steps(&site, &items).await;
        assert_problem(&answers[0], 503, "store-unavailable");
        assert_eq!(answers[1]["state"], "in_doubt");
        assert_eq!(site.state_after(&claim, verb, &unsure).await, "in_doubt");
    }
}

#[tokio::test]
async fn a_batch_of_claims_without_an_answer_is_one_problem_and_names_the_ids() {
    let (store, site) = site();
    store.loses_answer.store(true, Ordering::SeqCst);
    let unreadable = claim_of(true, json!({}));
    let items = json!({"claims": [claim_of(1, json!({})), unreadable, claim_of(2, json!({}))]});
    let problem = site
        .post("/v1/claims/batch", &items)
        .await
        .problem(503, "store-unavailable");
    assert_eq!(problem["claim_ids"][1], json!(null));
    for (key, id) in [(1, 0), (2, 2)] {
        let again = claim_of(key, json!({"claim_id": problem["claim_ids"][id]}));
        assert_eq!(site.claim(&again).await["resumed"], true);
    }
}

#[tokio::test]
async fn a_batch_of_steps_without_an_answer_has_a_problem_for_each() {
    let (store, site) = site();
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    store.loses_answer.store(true, Ordering::SeqCst);
    let items = [
        json!({"claim": claim, "step": "complete"}),
        json!({"claim": claim, "step": "renew"}),
        json!({"claim": claim, "step": "complete"}),
    ];
    let answers = batches::steps(&site, &items).await;
    assert_problem(&answers[0], 503, "store-unavailable");
    assert_problem(&answers[1], 409, "claim-lost");
    assert_eq!(answers[2]["state"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_replay_does_not_hang_on_the_time_of_its_completion() {
    let (store, site) = site();
    let body = claim_of("pay-1", json!({}));
    let claim = site.granted(&body).await;
    site.state_after(&claim, "complete", &json!({"outcome": 7}))
        .await;
    store.is_stuck.store(true, Ordering::SeqCst);
    let patience = std::time::Duration::from_secs(5);
    let late = "answered in time";
    let replay = timeout(patience, site.claim(&body)).await.expect(late);
    assert_eq!(replay["outcome"], 7);
    assert!(replay.get("completed_at").is_none(), "{replay}");
    let batch = [body.clone(), claim_of("pay-2", json!({}))];
    let answers = timeout(patience, batches::claims(&site, &batch));
    let answers = answers.await.expect(late);
    assert_problem(&answers[0], 503, "timeout");
    assert_eq!(answers[0]["operation_id"], replay["operation_id"]);
    assert_eq!(answers[1]["decision"], "granted");
    store.is_stuck.store(false, Ordering::SeqCst);
    let answers = batches::claims(&site, &[body]).await;
    assert_eq!(answers[0]["outcome"], 7);
}

#[tokio::test]
async fn a_failed_look_up_names_the_operation() {
    let (store, site) = site();
    let granted = site.claim(&claim_of("pay-1", json!({}))).await;
    store.is_away.store(true, Ordering::SeqCst);
    let answer = site.get("/v1/operations?operation=charge&key=pay-1").await;
    let problem = answer.problem(503, "store-unavailable");
    assert_eq!(problem["operation_id"], granted["operation_id"]);
}

#[tokio::test]
async fn a_store_that_is_away_is_told_and_nothing_is_taken_for_absent() {
    let (store, site) = site();
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    store.is_away.store(true, Ordering::SeqCst);
    let answer = site
        .post("/v1/claims", &claim_of("pay-2", json!({"wait": "5s"})))
        .await;
    assert_eq!(
        answer.problem(503, "store-unavailable")["certainty"],
        "not_applied"
    );
    let answer = site.step(&claim, "complete", &json!({})).await;
    assert_eq!(
        answer.problem(503, "store-unavailable")["certainty"],
        "not_applied"
    );
    store.is_away.store(false, Ordering::SeqCst);
    assert_eq!(
        site.state_after(&claim, "complete", &json!({})).await,
        "completed"
    );
}
