//! The other orders: about keys, about messages that were set aside, and about the store.

use std::time::Duration;

use bytes::Bytes;
use semel_admin::Lent;
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{
    AnyStore, AttemptLimits, Certainty, ClaimId, ClaimRequest, Parked, Reason, Settlement,
    StateKind, Step, Store, Timestamp, Window,
};
use semel_http::Caller;
use serde_json::json;

use super::{Doubtful, each, key, numbered, operator, scope};

#[tokio::test]
async fn orders_about_keys_do_what_their_verbs_do() {
    let doubtful = Doubtful::with(2).await;
    let ada = operator("ada");
    let resolve = json!({ "keys": ["pay-0"], "verdict": "applied" });
    let plan = doubtful.plan("in-doubt/resolve", &resolve, &ada).await;
    doubtful.done("in-doubt/resolve", &plan, &ada).await;
    let claim = ClaimRequest {
        lease: Duration::from_secs(600),
        ..ClaimRequest::new(scope("acme"), key("busy"), ClaimId::from_u128(7))
    };
    let claimed = doubtful.store.claim([claim].into()).await;
    assert_eq!(claimed.expect("a claim").len(), 1);
    wait(&doubtful.store, "waits", Duration::from_secs(600)).await;
    for (action, order, after) in [
        ("keys/hold", json!({ "keys": ["pay-0"] }), "completed, held"),
        (
            "keys/hold",
            json!({ "keys": ["pay-0"], "off": true }),
            "completed",
        ),
        (
            "keys/extend",
            json!({ "keys": ["pay-0"], "window": "90d" }),
            "completed",
        ),
        (
            "keys/release",
            json!({ "keys": ["busy"] }),
            "claimed, lease over",
        ),
        ("keys/release", json!({ "keys": ["waits"] }), "released"),
        ("keys/forget", json!({ "keys": ["pay-0"] }), "absent"),
    ] {
        let plan = doubtful.plan(action, &order, &ada).await;
        assert_eq!(each(&plan, "after"), [after], "{action}: {plan}");
        doubtful.site.clock.advance(Duration::from_secs(5));
        let done = doubtful.done(action, &plan, &ada).await;
        assert_eq!(each(&done, "after"), [after], "{action}: {done}");
        assert_eq!(each(&done, "result"), ["done"], "{action}");
        doubtful.site.clock.advance(Duration::from_secs(5));
        let (status, fresh) = doubtful.carry_out(action, &plan, &ada).await;
        assert_eq!(
            (status, each(&fresh, "key").len()),
            (409, 0),
            "{action}: {fresh}"
        );
        assert_eq!(fresh["left"].as_array().map(Vec::len), Some(1), "{fresh}");
    }
    // What does not fit says what to do instead.
    let plan = doubtful
        .plan("keys/forget", &json!({ "keys": ["pay-1"] }), &ada)
        .await;
    assert_eq!(plan["left"][0]["next"]["action"], "explain", "{plan}");
    let actions: Vec<_> = doubtful
        .audit()
        .await
        .into_iter()
        .map(|it| it.action)
        .collect();
    let expected = [
        "resolve-applied",
        "hold",
        "let-go",
        "extend",
        "release",
        "release",
        "forget",
    ];
    assert_eq!(actions.iter().map(|it| &**it).collect::<Vec<_>>(), expected);
}

/// Leaves a key released, with a backoff.
async fn wait(store: &AnyStore, text: &str, after: Duration) {
    let claim_id = ClaimId::from_u128(8);
    let claim = ClaimRequest::new(scope("acme"), key(text), claim_id);
    let claimed = store.claim([claim].into()).await;
    assert_eq!(claimed.expect("a claim").len(), 1);
    let settlement = Settlement {
        operation: super::operation("acme", text),
        claim_id,
        step: Step::Release {
            error: "not now".into(),
            certainty: Certainty::NotApplied,
            after,
            counted: true,
            limits: AttemptLimits::default(),
            window: Window::DEFAULT,
        },
    };
    let settled = store.settle([settlement].into()).await;
    assert_eq!(settled.expect("a settlement").len(), 1);
}

#[tokio::test]
async fn messages_are_dropped_as_planned_and_those_that_came_later_stay() {
    let doubtful = Doubtful::with(0).await;
    let ada = operator("ada");
    let park = async |keys: &[String]| {
        let messages = keys.iter().map(|it| Parked {
            scope: scope("acme"),
            key: Some(key(it)),
            reason: Reason::Conflict.code().into(),
            detail: "another request".into(),
            transport: None,
            coordinates: it.as_str().into(),
            headers: Vec::new(),
            payload: Bytes::from_static(b"secret"),
            since: Timestamp::EPOCH,
        });
        let parked = doubtful.store.park(messages.collect()).await;
        parked.expect("messages");
        doubtful.site.clock.advance(Duration::from_secs(1));
    };
    park(&numbered(0, 70)).await;
    let order = json!({ "all": true, "reason_like": "ANOTHER" });
    let plan = doubtful.plan("quarantine/drop", &order, &ada).await;
    assert_eq!(each(&plan, "key").len(), 70);
    park(&numbered(70, 75)).await;
    let done = doubtful.done("quarantine/drop", &plan, &ada).await;
    assert_eq!(
        (&done["done"], &done["complete"]),
        (&70.into(), &true.into()),
        "{done}"
    );
    let rest = doubtful.site.good("/v1/quarantine").await;
    let ids = rest["items"].as_array().expect("a list").iter();
    let ids: Vec<_> = ids.filter_map(|it| it["id"].as_str()).collect();
    assert_eq!(ids.len(), 5);
    // One of those that were planned is gone meanwhile.
    let by_id = json!({ "ids": ids });
    let of_ids = doubtful.plan("quarantine/drop", &by_id, &ada).await;
    let one = doubtful
        .plan(
            "quarantine/drop",
            &json!({ "keys": ["pay-70", "pay-7"] }),
            &ada,
        )
        .await;
    assert_eq!(
        (each(&one, "key"), &one["left"][0]["key"]),
        (vec!["pay-70"], &"pay-7".into())
    );
    doubtful.done("quarantine/drop", &one, &ada).await;
    let (status, fresh) = doubtful.carry_out("quarantine/drop", &of_ids, &ada).await;
    assert_eq!((status, each(&fresh, "key").len()), (409, 4), "{fresh}");
    doubtful.done("quarantine/drop", &fresh, &ada).await;
    let query = ListQuery {
        limit: 1_000,
        ..ListQuery::default()
    };
    let audit = doubtful.store.list_audit(&query).await.expect("the trail");
    assert_eq!(audit.items.len(), 75, "an entry for each");
    assert!(
        audit
            .items
            .iter()
            .all(|it| &*it.note.by == "ada" && &*it.action == "drop")
    );
}

#[tokio::test]
async fn a_plan_tells_that_a_dead_letter_lives_again() {
    let doubtful = Doubtful::with(2).await;
    let ada = operator("ada");
    let abandon = json!({ "all": true, "verdict": "abandon" });
    let plan = doubtful.plan("in-doubt/resolve", &abandon, &ada).await;
    doubtful.done("in-doubt/resolve", &plan, &ada).await;
    let plan = doubtful
        .plan("dead-letters/drop", &json!({ "all": true }), &ada)
        .await;
    assert_eq!(each(&plan, "state"), ["dead"; 2]);
    let release = doubtful
        .plan("keys/release", &json!({ "keys": ["pay-0"] }), &ada)
        .await;
    assert_eq!(each(&release, "action"), ["requeue"]);
    assert!(
        release["changes"][0]["remark"]["text"].is_string(),
        "{release}"
    );
    doubtful.done("keys/release", &release, &ada).await;
    let (status, fresh) = doubtful.carry_out("dead-letters/drop", &plan, &ada).await;
    assert_eq!(status, 409, "{fresh}");
    let mut found: Vec<_> = each(&fresh, "key")
        .into_iter()
        .zip(each(&fresh, "state"))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [("pay-0", "released"), ("pay-1", "dead")],
        "and may be dropped all the same"
    );
    let done = doubtful.done("dead-letters/drop", &fresh, &ada).await;
    assert_eq!(done["complete"], true);
}

#[tokio::test]
async fn a_sweep_is_planned_and_leaves_an_entry() {
    let doubtful = Doubtful::with(3).await;
    let memory = doubtful.site.memory();
    let store = AnyStore::new(memory.clone());
    let path = "/v1/store/sweep/plan";
    let admin = Caller::loopback();
    let claim = ClaimRequest {
        start: semel_core::Start::Marked(semel_core::Recovery::Park),
        lease: Duration::from_secs(1),
        ..ClaimRequest::new(scope("acme"), key("vanished"), ClaimId::from_u128(7))
    };
    assert_eq!(store.claim([claim].into()).await.expect("a claim").len(), 1);
    doubtful.site.clock.advance(Duration::from_secs(60));
    doubtful.site.lend(store.clone());
    let (status, _) = doubtful
        .site
        .post(path, &json!({}), Some(admin.clone()))
        .await;
    assert_eq!(status, 501, "nobody could tell who did it");
    doubtful.site.store.send_replace(Some(Lent {
        store: store.clone(),
        trail: Some(AnyTransferStore::new(memory)),
        runner: None,
    }));
    let plan = doubtful.plan("store/sweep", &json!({}), &admin).await;
    assert_eq!(plan["changes"], json!([{ "removed": 0 }]));
    let done = doubtful.done("store/sweep", &plan, &admin).await;
    let swept = &done["changes"][0];
    assert_eq!(
        (&swept["doubted"], &swept["result"]),
        (&1.into(), &"done".into()),
        "{done}"
    );
    let query = ListQuery {
        limit: 10,
        ..ListQuery::default()
    };
    let audit = store.list_audit(&query).await.expect("the trail").items;
    assert_eq!((audit.len(), &*audit[0].action), (1, "sweep"), "{audit:?}");
    assert_eq!(&*audit[0].note.by, "loopback");
    let operation = super::operation("acme", "vanished");
    let records = store.get([operation].into()).await.expect("a record");
    let state = records[0].as_ref().map(|it| it.state.kind());
    assert_eq!(state, Some(StateKind::InDoubt));
}
