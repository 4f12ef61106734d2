//! The messages that are run: doubts that may be called again, one message under another key, and none of another worker or tenant.

use std::num::NonZeroU32;
use std::time::Duration;

use semel_core::{
    AttemptLimits, Certainty, ClaimId, ClaimRequest, Reason, Recovery, Scope, Settlement, Start,
    StateKind, Step, Store, Window,
};
use serde_json::json;

use super::{RELEASE, REPLAY, RETRY, Running};
use crate::orders::{each, operation, operator, operator_of};

impl Running {
    /// Leaves keys in doubt, of effects with this recovery: the only attempt may have happened. A key may begin with the name
    /// of another pipeline.
    async fn doubt(&self, recovery: Recovery, keys: &[&str]) {
        for (at, key) in (1..).zip(keys) {
            let mut operation = operation("", key);
            if let Some((pipeline, _)) = key.split_once('/') {
                operation.scope = Scope::new("", pipeline).expect("a scope");
            }
            let claim_id = ClaimId::from_u128(at);
            let scope = operation.scope.clone();
            let request = ClaimRequest {
                start: Start::Marked(recovery),
                ..ClaimRequest::new(scope, operation.key.clone(), claim_id)
            };
            self.store.claim([request].into()).await.expect("a claim");
            let step = Step::Release {
                error: "timed out".into(),
                certainty: Certainty::MaybeApplied,
                after: Duration::ZERO,
                counted: true,
                limits: AttemptLimits {
                    failed: NonZeroU32::MIN,
                    ..AttemptLimits::default()
                },
                window: Window::DEFAULT,
            };
            let settlement = Settlement {
                operation,
                claim_id,
                step,
            };
            let settled = self.store.settle([settlement].into()).await;
            settled.expect("settled");
        }
    }
}

#[tokio::test]
async fn doubts_are_called_again_where_that_is_no_second_effect() {
    let running = Running::new();
    let ada = operator("ada");
    let lasting = Recovery::RerunWithin(Duration::from_secs(86_400));
    running.doubt(lasting, &["kept", "alone"]).await;
    running.doubt(Recovery::Park, &["parked"]).await;
    running
        .set_aside(&Reason::InDoubt, &["kept", "parked"])
        .await;
    let plan = running.plan(RETRY, &json!({ "all": true }), &ada).await;
    assert_eq!(each(&plan, "key"), ["alone", "kept"], "{plan}");
    assert_eq!(plan["changes"][0]["after"], "released");
    assert_eq!(plan["changes"][1]["predicted"], "runs");
    assert_eq!(plan["left"][0]["key"], "parked");
    assert_eq!(plan["left"].as_array().map(Vec::len), Some(1), "{plan}");
    let (status, run) = running.carry_out(RETRY, &plan, &ada).await;
    assert_eq!(status, 200, "{run}");
    assert_eq!(each(&run, "result"), ["done", "applied"], "{run}");
    assert_eq!((&run["done"], &run["complete"]), (&2.into(), &true.into()));
    assert_eq!(running.effects().len(), 1);
    assert_eq!(running.left().await, ["parked"]);
    let state = |key: &str| {
        let operation = operation("", key);
        let store = running.store.clone();
        async move {
            let records = store.get([operation].into()).await.expect("a record");
            records[0].as_ref().map(|it| it.state.kind())
        }
    };
    assert_eq!(state("kept").await, Some(StateKind::Completed));
    assert_eq!(state("alone").await, Some(StateKind::Released));
    assert_eq!(state("parked").await, Some(StateKind::InDoubt));
    let audit = running.audit().await;
    let retried = audit.iter().filter(|it| it.starts_with("ada retry"));
    assert_eq!(retried.count(), 2, "{audit:?}");
}

#[tokio::test]
async fn a_doubt_of_another_worker_is_left() {
    let running = Running::new();
    let ada = operator("ada");
    let lasting = Recovery::RerunWithin(Duration::from_secs(86_400));
    running.doubt(lasting, &["alone", "elsewhere/b"]).await;
    let plan = running.plan(RETRY, &json!({ "all": true }), &ada).await;
    assert_eq!(each(&plan, "key"), ["alone"], "{plan}");
    assert_eq!(plan["left"][0]["key"], "elsewhere/b", "{plan}");
    let (status, run) = running.carry_out(RETRY, &plan, &ada).await;
    assert_eq!((status, &run["complete"]), (200, &true.into()), "{run}");
}

#[tokio::test]
async fn a_doubt_that_was_resolved_since_makes_the_plan_stale() {
    let running = Running::new();
    let (ada, bob) = (operator("ada"), operator("bob"));
    let lasting = Recovery::RerunWithin(Duration::from_secs(86_400));
    running.doubt(lasting, &["a", "b"]).await;
    running.set_aside(&Reason::InDoubt, &["a", "b"]).await;
    let plan = running.plan(RETRY, &json!({ "all": true }), &ada).await;
    let resolve = json!({ "keys": ["a"], "verdict": "applied" });
    let resolved = running.plan("in-doubt/resolve", &resolve, &bob).await;
    let (status, _) = running.carry_out("in-doubt/resolve", &resolved, &bob).await;
    assert_eq!(status, 200);
    let (status, stale) = running.carry_out(RETRY, &plan, &ada).await;
    assert_eq!(
        (status, &stale["code"]),
        (409, &"plan-stale".into()),
        "{stale}"
    );
    assert_eq!(each(&stale, "key"), ["b"]);
    assert!(running.effects().is_empty());
    let (status, _) = running.carry_out(RETRY, &stale, &ada).await;
    assert_eq!((status, running.effects().len()), (200, 1));
}

/// The id of a dead letter is that of its operation, so what is set aside anew has the same.
#[tokio::test]
async fn what_is_set_aside_after_the_plan_is_not_run() {
    let running = Running::waiting("batch = 1\nconcurrency = 1\n");
    let ada = operator("ada");
    let keys: Vec<_> = (0..30).map(|at| format!("k{at}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    running.set_aside(&Reason::Dead, &keys).await;
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    let request = running.begun(REPLAY, &plan, &ada, 1).await;
    running.drop_all().await;
    running.site.clock.advance(Duration::from_secs(1));
    running.set_aside(&Reason::Dead, &keys).await;
    running.open();
    let (status, _) = request.await.expect("no panic");
    let run = running.ended().await;
    assert_eq!((status, &run["state"]), (200, &"ended".into()), "{run}");
    let results = each(&run, "result");
    let refused = results.iter().filter(|it| **it == "refused").count();
    assert!(refused >= 10, "only those that were in hand ran: {run}");
    assert_eq!(results.len() - refused, running.effects().len(), "{run}");
    assert_eq!(run["differ"], refused, "{run}");
    assert_eq!(run["complete"], false);
    let changes = run["changes"].as_array().expect("changes");
    let first = changes.iter().find(|it| it["result"] == "refused");
    let why = first.map(|it| &it["why"]);
    assert_eq!(why, Some(&"it has changed since the plan".into()), "{run}");
}

#[tokio::test]
async fn a_message_is_released_under_a_key_of_its_own() {
    let running = Running::new();
    let ada = operator("ada");
    running.set_aside(&Reason::Conflict, &["a", "b"]).await;
    let listed = running.site.good("/v1/quarantine?key=a").await;
    let id = &listed["items"][0]["id"];
    for (body, pointer) in [
        (json!({ "all": true, "key": "a-2" }), "/key"),
        (json!({ "keys": ["a"], "key": "a-2" }), "/key"),
        (json!({ "ids": [id, "0".repeat(32)], "key": "a-2" }), "/key"),
        (json!({ "ids": [id], "key": "" }), "/key"),
        (
            json!({ "ids": [id], "key": "a-2", "verdict": "applied" }),
            "/verdict",
        ),
    ] {
        let path = format!("/v1/{RELEASE}/plan");
        let (status, refused) = running.site.post(&path, &body, Some(ada.clone())).await;
        assert_eq!(
            (status, &refused["pointer"]),
            (400, &pointer.into()),
            "{refused}"
        );
    }
    let plan = running
        .plan(RELEASE, &json!({ "ids": [id], "key": "a-2" }), &ada)
        .await;
    assert_eq!(each(&plan, "predicted"), ["runs"], "{plan}");
    let (status, run) = running.carry_out(RELEASE, &plan, &ada).await;
    assert_eq!((status, &run["key"]), (200, &"a-2".into()), "{run}");
    assert_eq!(each(&run, "result"), ["applied"]);
    assert_eq!(
        (running.effects().len(), running.left().await.len()),
        (1, 2),
        "{run}"
    );
    let shown = running.site.good("/v1/keys/show?key=a-2").await;
    assert_eq!(shown["state"], "completed");
    let audit = running.audit().await;
    let ran = "the bank is back; ran under the key a-2: completed";
    assert!(audit.iter().any(|it| it.contains(ran)), "{audit:?}");
}

#[tokio::test]
async fn what_this_worker_cannot_run_is_refused_with_a_code_and_left() {
    let running = Running::new();
    let ada = operator("ada");
    running.set_aside(&Reason::Dead, &["a"]).await;
    running.park("", "files", &Reason::Dead, "f").await;
    running.park("", "elsewhere", &Reason::Dead, "e").await;
    for (action, pipeline, status, code) in [
        (REPLAY, "elsewhere", 404, "pipeline-unknown"),
        (RELEASE, "elsewhere", 404, "pipeline-unknown"),
        (RETRY, "elsewhere", 404, "pipeline-unknown"),
        (REPLAY, "files", 501, "unsupported"),
        (REPLAY, "printed", 501, "unsupported"),
    ] {
        let path = format!("/v1/{action}/plan");
        let body = json!({ "all": true, "pipeline": pipeline });
        let (got, refused) = running.site.post(&path, &body, Some(ada.clone())).await;
        assert_eq!(
            (got, refused["code"].as_str()),
            (status, Some(code)),
            "{refused}"
        );
    }
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    assert_eq!(each(&plan, "key"), ["a"]);
    let left = plan["left"].as_array().expect("a list");
    let mut left: Vec<_> = left.iter().map(|it| it["key"].as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, [Some("e"), Some("f")], "{plan}");
    let (status, run) = running.carry_out(REPLAY, &plan, &ada).await;
    assert_eq!((status, &run["complete"]), (200, &true.into()), "{run}");
    assert_eq!(running.left().await, ["e", "f"]);
}

/// As after a change of the selector: another tenant is found in the message than it was set aside for.
#[tokio::test]
async fn a_message_in_which_another_tenant_is_found_is_not_released() {
    let running = Running::waiting("tenant = \"json:/id\"\n");
    running.open();
    running.park("acme", "pay", &Reason::Conflict, "evil").await;
    running.park("good", "pay", &Reason::Conflict, "good").await;
    for (tenant, planned) in [("acme", 0), ("good", 1)] {
        let ada = operator_of("ada", tenant);
        let plan = running.plan(RELEASE, &json!({ "all": true }), &ada).await;
        assert_eq!(each(&plan, "key").len(), planned, "{plan}");
        let left = plan["left"].as_array().map(Vec::len);
        assert_eq!(left, Some(1 - planned), "{plan}");
        let (status, run) = running.carry_out(RELEASE, &plan, &ada).await;
        assert_eq!((status, &run["done"]), (200, &planned.into()), "{run}");
    }
    assert_eq!(running.effects().len(), 1);
    assert_eq!(running.left().await, ["evil"]);
}

/// A tenant that shares a pipeline learns that it has to wait, and nothing of who makes it wait.
#[tokio::test]
async fn a_refusal_tells_nothing_of_a_run_that_its_caller_may_not_see() {
    let running = Running::waiting("tenant = \"json:/tenant\"\n");
    for tenant in ["acme", "other"] {
        running.park(tenant, "pay", &Reason::Dead, "a").await;
    }
    let (ada, mallory) = (operator_of("ada", "acme"), operator_of("mallory", "other"));
    let order = json!({ "all": true });
    let of_ada = running.plan(REPLAY, &order, &ada).await;
    let of_mallory = running.plan(REPLAY, &order, &mallory).await;
    let of_bob = running.plan(REPLAY, &order, &operator("bob")).await;
    let request = running.begun(REPLAY, &of_ada, &ada, 1).await;
    let (status, refused) = running.carry_out(REPLAY, &of_mallory, &mallory).await;
    let code = refused["code"].as_str();
    assert_eq!((status, code), (409, Some("run-unfinished")), "{refused}");
    assert_eq!(refused["run"], json!(null), "{refused}");
    let (_, runs) = running.site.ask("/v1/runs", Some(ada)).await;
    let id = runs["items"][0]["id"].as_str().expect("an id");
    let text = refused.to_string();
    assert!(!text.contains(id) && !text.contains("ada"), "{refused}");
    let (status, refused) = running.carry_out(REPLAY, &of_bob, &operator("bob")).await;
    assert_eq!((status, &refused["run"]), (409, &id.into()), "{refused}");
    running.open();
    request.await.expect("no panic");
}

#[tokio::test]
async fn a_run_is_seen_by_its_tenant_and_by_those_who_see_everything() {
    let running = Running::waiting("tenant = \"json:/tenant\"\n");
    running.open();
    for tenant in ["acme", "other"] {
        running.park(tenant, "pay", &Reason::Dead, "a").await;
    }
    let ada = operator_of("ada", "acme");
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    assert_eq!(each(&plan, "tenant"), ["acme"]);
    let (status, run) = running.carry_out(REPLAY, &plan, &ada).await;
    assert_eq!(
        (status, each(&run, "result")),
        (200, vec!["applied"]),
        "{run}"
    );
    assert_eq!(
        running.effects().len(),
        1,
        "that of the other tenant is left"
    );
    let path = format!("/v1/runs/{}", run["id"].as_str().expect("an id"));
    for (caller, status, count) in [
        (operator_of("eve", "acme"), 200, 1),
        (operator("bob"), 200, 1),
        (operator_of("mallory", "other"), 404, 0),
    ] {
        let (got, shown) = running.site.ask(&path, Some(caller.clone())).await;
        assert_eq!(got, status, "{shown}");
        assert!(got == 200 || shown["code"] == "run-unknown", "{shown}");
        let (_, listed) = running.site.ask("/v1/runs", Some(caller)).await;
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(count));
    }
}
