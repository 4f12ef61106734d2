//! The order that remembers every finished key of a pipeline for longer: counted, carried out batch by batch, and stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_admin::Lent;
use semel_core::decide::{Directed, Directive, Refusal};
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{
    AnyStore, ClaimId, ClaimRequest, Error, ErrorKind, Outcome, Result, Settlement, Step, Store,
    Window, forward_store,
};
use semel_http::Caller;
use semel_store_memory::MemoryStore;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::description::is_described;
use crate::orders::{key, numbered, operation, operator, operator_of, scope};
use crate::site::Site;

/// A store each of whose batches of orders waits for a permit, and may fail.
#[derive(Clone)]
struct Gated {
    inner: Arc<MemoryStore>,
    permits: Arc<Semaphore>,
    failure: Arc<Mutex<Option<Error>>>,
    /// True if the first of each batch is gone by then.
    refuses_one: Arc<AtomicBool>,
}

impl Store for Gated {
    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let permit = self.permits.acquire().await.expect("a permit");
        permit.forget();
        let failure = self.failure.lock().expect("no panic").clone();
        match failure {
            Some(error) => Err(error),
            None if self.refuses_one.load(Ordering::Relaxed) => {
                let mut answers = self.inner.operate(batch).await?;
                answers[0] = Directed::Refused(Refusal::Absent);
                Ok(answers)
            }
            None => self.inner.operate(batch).await,
        }
    }

    forward_store!(self => self.inner; but operate);
}

/// A service over a store with so many completed keys of `pay`, and one that is claimed.
struct Finished {
    site: Site,
    store: Gated,
}

impl Finished {
    async fn with(count: usize) -> Self {
        let site = Site::new();
        let inner = site.memory();
        let store = Gated {
            inner: Arc::clone(&inner),
            permits: Arc::new(Semaphore::new(0)),
            failure: Arc::default(),
            refuses_one: Arc::default(),
        };
        for (at, name) in (0..).zip(numbered(0, count + 1)) {
            let claim_id = ClaimId::from_u128(at);
            let claim = ClaimRequest::new(scope("acme"), key(&name), claim_id);
            inner.claim([claim].into()).await.expect("a claim");
            let settlement = Settlement {
                operation: operation("acme", &name),
                claim_id,
                step: Step::Complete {
                    outcome: Outcome::Kept {
                        codec: 0,
                        bytes: bytes::Bytes::new(),
                    },
                    window: Window::DEFAULT,
                },
            };
            if at < count as u128 {
                inner.settle([settlement].into()).await.expect("an end");
            }
        }
        site.store.send_replace(Some(Lent {
            store: AnyStore::new(store.clone()),
            trail: Some(AnyTransferStore::new(inner)),
            runner: None,
        }));
        Self { site, store }
    }

    /// Lets so many batches of orders through.
    fn lets(&self, batches: usize) {
        self.store.permits.add_permits(batches);
    }

    async fn plan(&self, order: &Value, caller: Caller) -> (u16, Value) {
        let path = "/v1/keys/extend/plan";
        self.site.post(path, order, Some(caller)).await
    }

    async fn begin(&self, plan: &Value, caller: Caller) -> (u16, Value) {
        let order = json!({ "token": plan["token"], "reason": "INC-7" });
        let path = "/v1/keys/extend/do";
        self.site.post(path, &order, Some(caller)).await
    }

    /// The entries of the audit trail with this action.
    async fn trail(&self, action: &str) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/audit?limit=1000{cursor}");
            let page = self.site.good(&path).await;
            all.extend(page["items"].as_array().into_iter().flatten().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        all.retain(|it| it["action"] == action);
        all
    }
}

fn order() -> Value {
    json!({ "all": true, "pipeline": "pay", "window": "30d" })
}

fn result(extended: usize) -> Value {
    json!([{ "pipeline": "pay", "extended": extended, "refused": 0 }])
}

#[tokio::test(start_paused = true)]
async fn every_finished_key_is_counted_and_remembered_for_longer_once() {
    let finished = Finished::with(1_200).await;
    let ada = operator("ada");
    let (status, plan) = finished.plan(&order(), ada.clone()).await;
    assert_eq!(status, 200, "{plan}");
    is_described(&plan, "Plan");
    let change = json!({
        "pipeline": "pay", "action": "extend", "window": "30d", "keys": 1_200, "counted": true
    });
    assert_eq!(plan["changes"], json!([change]));
    is_described(&plan["changes"][0], "Change");
    finished.lets(10);
    let (status, run) = finished.begin(&plan, ada.clone()).await;
    assert_eq!((status, &run["state"]), (200, &json!("ended")), "{run}");
    is_described(&run, "Run");
    assert_eq!(run["results"], result(1_200));
    assert_eq!(
        (&run["complete"], &run["by"]),
        (&json!(true), &json!("ada"))
    );
    assert_eq!(run["changes"][0]["result"], "done");
    let (_, again) = finished.begin(&plan, ada.clone()).await;
    assert_eq!(again["id"], run["id"], "the run that it began");

    let (_, none) = finished.plan(&order(), ada).await;
    assert_eq!(none["changes"], json!([]), "all are remembered as long");
    let of_keys = finished.trail("extend").await;
    assert_eq!(of_keys.len(), 1_200);
    assert!(
        of_keys
            .iter()
            .all(|it| it["by"] == "ada" && it["reason"] == "INC-7")
    );
    let of_run = finished.trail("keys/extend").await;
    let told: Vec<_> = of_run.iter().map(|it| it["after"].as_str()).collect();
    assert_eq!(told.len(), 2, "{of_run:?}");
    let ended = told[1].unwrap_or_default();
    assert!(ended.contains("1200 keys extended"), "{ended}");
    assert_eq!(of_run[0]["before"], "the finished keys of pay");
}

#[tokio::test(start_paused = true)]
async fn a_run_about_keys_is_stopped_after_the_batch_in_hand() {
    let finished = Finished::with(1_200).await;
    let (ada, bob) = (operator("ada"), operator("bob"));
    let (_, plan) = finished.plan(&order(), ada.clone()).await;
    let (_, another) = finished.plan(&order(), bob.clone()).await;
    finished.lets(1);
    let (status, run) = finished.begin(&plan, ada.clone()).await;
    assert_eq!((status, &run["state"]), (202, &json!("running")), "{run}");
    assert_eq!(run["changes"][0]["result"], "waiting");
    // Nobody else begins one about the same pipeline.
    let (status, refused) = finished.begin(&another, bob.clone()).await;
    assert_eq!((status, &refused["code"]), (409, &json!("run-unfinished")));
    let detail = refused["detail"].as_str().unwrap_or_default();
    assert!(detail.starts_with("ada extends the keys of"), "{refused}");

    let path = format!("/v1/runs/{}", run["id"].as_str().unwrap_or_default());
    let because = json!({ "reason": "wrong window" });
    let stop = format!("{path}/stop");
    let (status, stopping) = finished.site.post(&stop, &because, Some(bob)).await;
    assert_eq!((status, &stopping["state"]), (202, &json!("running")));
    finished.lets(5);
    let (_, stopped) = finished.begin(&plan, ada.clone()).await;
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    // A page has a thousand records, perhaps the claimed one among them.
    let extended = stopped["results"][0]["extended"]
        .as_u64()
        .unwrap_or_default();
    assert!((999..=1_000).contains(&extended), "{stopped}");
    assert_eq!(
        (&stopped["complete"], &stopped["stopped"]["by"]),
        (&json!(false), &json!("bob"))
    );
    assert_eq!(stopped["changes"][0]["result"], "left");
    let (_, rest) = finished.plan(&order(), ada).await;
    assert_eq!(rest["changes"][0]["keys"], 1_200 - extended, "{rest}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_in_the_middle_is_told_with_what_was_done() {
    let finished = Finished::with(1_200).await;
    let ada = operator("ada");
    let (_, plan) = finished.plan(&order(), ada.clone()).await;
    finished.lets(1);
    let (_, run) = finished.begin(&plan, ada.clone()).await;
    assert_eq!(run["state"], "running", "{run}");
    let away = Error::new(ErrorKind::Unavailable, "gone").not_applied();
    *finished.store.failure.lock().expect("no panic") = Some(away);
    finished.lets(5);
    let (_, run) = finished.begin(&plan, ada).await;
    assert_eq!(run["state"], "failed", "{run}");
    assert_eq!(run["results"], result(500));
    assert_eq!(run["problem"]["certainty"], "maybe_applied", "{run}");
}

#[tokio::test(start_paused = true)]
async fn a_run_about_keys_that_is_broken_off_may_have_extended_some() {
    let finished = Finished::with(1_200).await;
    let ada = operator("ada");
    let (_, plan) = finished.plan(&order(), ada.clone()).await;
    finished.lets(1);
    let (_, run) = finished.begin(&plan, ada.clone()).await;
    assert_eq!(run["state"], "running", "{run}");
    // The second batch waits for its permit.
    let orders = &finished.site.orders;
    orders.ended(Duration::from_millis(50)).await;
    let path = format!("/v1/runs/{}", run["id"].as_str().unwrap_or_default());
    let run = finished.site.good(&path).await;
    assert_eq!(run["state"], "failed", "{run}");
    assert_eq!(run["changes"][0]["result"], "unknown", "{run}");
    assert_eq!(run["differ"], 0, "nothing was foretold: {run}");
    let detail = run["problem"]["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("keys"), "{run}");
    assert!(!detail.contains("set aside"), "{run}");
    assert_eq!(finished.trail("extend").await.len(), 500);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_refused_keys_is_not_complete() {
    let finished = Finished::with(3).await;
    finished.store.refuses_one.store(true, Ordering::Relaxed);
    let ada = operator("ada");
    let (_, plan) = finished.plan(&order(), ada.clone()).await;
    finished.lets(1);
    let (_, run) = finished.begin(&plan, ada).await;
    assert_eq!(
        (&run["state"], &run["complete"]),
        (&json!("ended"), &json!(false))
    );
    assert_eq!(run["results"][0]["refused"], 1);
    let why = run["changes"][0]["why"].as_str().unwrap_or_default();
    assert!(why.starts_with("1 keys"), "{run}");
}

#[tokio::test]
async fn an_order_about_no_keys_begins_no_run() {
    let finished = Finished::with(0).await;
    let ada = operator("ada");
    let (_, plan) = finished.plan(&order(), ada.clone()).await;
    assert_eq!(plan["changes"], json!([]));
    let (status, done) = finished.begin(&plan, ada).await;
    assert_eq!((status, &done["complete"]), (200, &json!(true)), "{done}");
    is_described(&done, "Done");
    let runs = finished.site.good("/v1/runs").await;
    assert_eq!(runs["items"], json!([]));
}

#[tokio::test]
async fn an_order_about_all_keys_is_about_one_pipeline_and_of_those_who_may() {
    let finished = Finished::with(3).await;
    let (ada, eve) = (operator("ada"), operator_of("eve", "acme"));
    for bad in [
        json!({ "all": true, "window": "30d" }),
        json!({ "all": true, "pipeline": "pay" }),
        json!({ "all": true, "pipeline": "pay", "window": "30d", "keys": ["pay-1"] }),
        json!({ "all": true, "pipeline": "pay", "window": "30d", "older_than": "1h" }),
    ] {
        let (status, problem) = finished.plan(&bad, ada.clone()).await;
        assert_eq!(status, 400, "{bad}: {problem}");
    }
    let (status, plan) = finished.plan(&order(), eve.clone()).await;
    assert_eq!(
        (status, &plan["changes"][0]["tenant"]),
        (200, &json!("acme"))
    );
    let other = operator_of("mallory", "other");
    let (_, none) = finished.plan(&order(), other).await;
    assert_eq!(none["changes"], json!([]), "it has none");
    finished.lets(1);
    let (status, run) = finished.begin(&plan, eve).await;
    assert_eq!((status, &run["state"]), (200, &json!("ended")), "{run}");
    let viewer = crate::site::viewer_of("acme");
    assert_eq!(finished.plan(&order(), viewer).await.0, 403);
}
