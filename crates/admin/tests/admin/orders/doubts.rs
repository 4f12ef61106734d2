//! Doubts that are resolved: in selections, by several operators, and each once.

use std::collections::BTreeSet;
use std::time::Duration;

use semel_admin::MOST_CHANGES;
use semel_core::StateKind;
use serde_json::json;

use super::{Doubtful, each, numbered, operation, operator};

const RESOLVE: &str = "in-doubt/resolve";

#[tokio::test]
async fn a_plan_changes_nothing_and_its_token_does_what_it_says() {
    let keys = numbered(0, 3);
    let doubtful = Doubtful::with(3).await;
    let ada = operator("ada");
    let order =
        json!({ "keys": ["pay-1", "pay-0", "pay-9"], "verdict": "applied", "outcome": "ch_1" });
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    assert_eq!(each(&plan, "key"), ["pay-1", "pay-0"], "as they were named");
    assert_eq!(each(&plan, "before"), ["in_doubt"; 2]);
    assert_eq!(each(&plan, "after"), ["completed"; 2]);
    assert_eq!(each(&plan, "message"), ["dropped"; 2]);
    assert_eq!(plan["left"][0]["key"], "pay-9");
    assert_eq!(plan["left"].as_array().map(Vec::len), Some(1), "{plan}");
    assert_eq!(plan["complete"], true);
    let in_doubt = Some(StateKind::InDoubt);
    assert_eq!(doubtful.states("acme", &keys).await, [in_doubt; 3]);
    assert!(doubtful.audit().await.is_empty());
    let done = doubtful.done(RESOLVE, &plan, &ada).await;
    assert_eq!(each(&done, "result"), ["done"; 2]);
    assert_eq!(
        (&done["done"], &done["complete"]),
        (&2.into(), &true.into())
    );
    let completed = Some(StateKind::Completed);
    let states = doubtful.states("acme", &keys).await;
    assert_eq!(states, [completed, completed, in_doubt]);
    let audit = doubtful.audit().await;
    assert_eq!(audit.len(), 2, "{audit:?}");
    for entry in audit {
        assert_eq!(&*entry.note.by, "ada");
        assert_eq!(&*entry.note.reason, "not at the provider");
        assert_eq!(&*entry.action, "resolve-applied");
    }
    // The messages of those two went with them.
    let shown = doubtful.site.good("/v1/keys/show?key=pay-0").await;
    assert_eq!(shown["state"], "completed", "{shown}");
}

#[tokio::test]
async fn two_operators_resolve_in_selections_and_nothing_is_done_twice() {
    let doubtful = Doubtful::with(MOST_CHANGES).await;
    let (ada, bob) = (operator("ada"), operator("bob"));
    let all = numbered(0, MOST_CHANGES);
    let of_ada = json!({ "keys": &all[..1_200], "verdict": "applied" });
    let of_ada = doubtful.plan(RESOLVE, &of_ada, &ada).await;
    let ids = all[800..]
        .iter()
        .map(|key| operation("acme", key).id().to_string());
    let of_bob = json!({ "ids": ids.collect::<Vec<_>>(), "verdict": "abandon" });
    let of_bob = doubtful.plan(RESOLVE, &of_bob, &bob).await;
    assert_eq!(each(&of_bob, "key").len(), 1_200);
    // Everything, as it stands before.
    let rest = json!({ "all": true, "verdict": "not_applied" });
    let rest = doubtful.plan(RESOLVE, &rest, &bob).await;
    assert_eq!(each(&rest, "key").len(), MOST_CHANGES);
    assert_eq!(rest["complete"], true);
    let done = doubtful.done(RESOLVE, &of_ada, &ada).await;
    assert_eq!(done["done"], 1_200);
    let (status, fresh) = doubtful.carry_out(RESOLVE, &of_bob, &bob).await;
    assert_eq!(
        (status, &fresh["code"]),
        (409, &"plan-stale".into()),
        "{fresh}"
    );
    assert_eq!(fresh["certainty"], "not_applied");
    assert_eq!(each(&fresh, "key").len(), 800, "what ada left");
    assert_eq!(fresh["left"].as_array().map(Vec::len), Some(400));
    assert_ne!(fresh["token"], of_bob["token"]);
    let standing = doubtful.states("acme", &all).await;
    assert!(
        standing[1_200..]
            .iter()
            .all(|it| *it == Some(StateKind::InDoubt))
    );
    let done = doubtful.done(RESOLVE, &fresh, &bob).await;
    assert_eq!(
        (&done["done"], &done["complete"]),
        (&800.into(), &true.into())
    );
    let (status, fresh) = doubtful.carry_out(RESOLVE, &rest, &bob).await;
    assert_eq!(status, 409, "{fresh}");
    assert!(each(&fresh, "key").is_empty(), "nothing is left");
    let audit = doubtful.audit().await;
    let named: BTreeSet<_> = audit.iter().filter_map(|it| it.key.clone()).collect();
    assert_eq!(
        (audit.len(), named.len()),
        (MOST_CHANGES, MOST_CHANGES),
        "one entry each"
    );
    let by = |name: &str| audit.iter().filter(|it| &*it.note.by == name).count();
    assert_eq!((by("ada"), by("bob")), (1_200, 800));
    assert!(
        audit
            .iter()
            .all(|it| &*it.note.reason == "not at the provider")
    );
}

#[tokio::test]
async fn of_two_orders_at_once_one_is_carried_out() {
    for _ in 0..8 {
        let doubtful = Doubtful::with(20).await;
        let (ada, bob) = (operator("ada"), operator("bob"));
        let order = json!({ "all": true, "verdict": "applied" });
        let plans = [&ada, &bob].map(|by| doubtful.plan(RESOLVE, &order, by));
        let [of_ada, of_bob] = plans;
        let (of_ada, of_bob) = (of_ada.await, of_bob.await);
        let (first, second) = tokio::join!(
            doubtful.carry_out(RESOLVE, &of_ada, &ada),
            doubtful.carry_out(RESOLVE, &of_bob, &bob),
        );
        let mut statuses = [first.0, second.0];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{first:?} {second:?}");
        assert_eq!(doubtful.audit().await.len(), 20);
    }
}

#[tokio::test]
async fn an_order_that_is_sent_twice_is_carried_out_once() {
    let doubtful = Doubtful::with(2).await;
    let ada = operator("ada");
    let order = json!({ "all": true, "verdict": "not_applied" });
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    doubtful.done(RESOLVE, &plan, &ada).await;
    let (status, fresh) = doubtful.carry_out(RESOLVE, &plan, &ada).await;
    assert_eq!((status, each(&fresh, "key").len()), (409, 0), "{fresh}");
    assert_eq!(doubtful.audit().await.len(), 2);
}

#[tokio::test]
async fn what_comes_later_is_in_no_plan() {
    let doubtful = Doubtful::with(2).await;
    let ada = operator("ada");
    let order = json!({ "all": true, "verdict": "not_applied" });
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    let later = ["later".to_owned()];
    doubtful.doubt("acme", &later).await;
    let done = doubtful.done(RESOLVE, &plan, &ada).await;
    assert_eq!(each(&done, "key").len(), 2, "{done}");
    let states = doubtful.states("acme", &later).await;
    assert_eq!(states, [Some(StateKind::InDoubt)]);
}

#[tokio::test]
async fn a_doubt_that_came_back_is_another_one() {
    let doubtful = Doubtful::with(2).await;
    let (ada, bob) = (operator("ada"), operator("bob"));
    let order = json!({ "keys": ["pay-0", "pay-1"], "verdict": "applied" });
    let of_ada = doubtful.plan(RESOLVE, &order, &ada).await;
    let again = json!({ "keys": ["pay-1"], "verdict": "not_applied" });
    let of_bob = doubtful.plan(RESOLVE, &again, &bob).await;
    doubtful.done(RESOLVE, &of_bob, &bob).await;
    // It is run again, and in doubt again: the same states as before.
    doubtful.doubt("acme", &["pay-1".to_owned()]).await;
    let (status, fresh) = doubtful.carry_out(RESOLVE, &of_ada, &ada).await;
    assert_eq!((status, each(&fresh, "key").len()), (409, 2), "{fresh}");
    let done = doubtful.done(RESOLVE, &fresh, &ada).await;
    assert_eq!(done["done"], 2);
}

#[tokio::test]
async fn a_plan_is_good_for_an_hour() {
    let doubtful = Doubtful::with(2).await;
    let ada = operator("ada");
    let order = json!({ "all": true, "verdict": "applied" });
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    doubtful.site.clock.advance(Duration::from_secs(3_600));
    let good = doubtful.plan(RESOLVE, &order, &ada).await;
    doubtful.site.clock.advance(Duration::from_millis(1));
    let (status, fresh) = doubtful.carry_out(RESOLVE, &plan, &ada).await;
    assert_eq!((status, each(&fresh, "key").len()), (409, 2), "{fresh}");
    assert!(doubtful.audit().await.is_empty());
    doubtful.done(RESOLVE, &good, &ada).await;
}

#[tokio::test]
async fn more_than_fits_into_a_plan_is_resolved_oldest_first() {
    let doubtful = Doubtful::with(MOST_CHANGES).await;
    doubtful
        .doubt("acme", &numbered(MOST_CHANGES, MOST_CHANGES + 5))
        .await;
    let ada = operator("ada");
    let order = json!({ "all": true, "verdict": "applied" });
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    assert_eq!(each(&plan, "key").len(), MOST_CHANGES);
    assert_eq!(plan["complete"], false, "there is more");
    let done = doubtful.done(RESOLVE, &plan, &ada).await;
    assert_eq!(done["done"], MOST_CHANGES);
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    let mut rest = each(&plan, "key");
    rest.sort_unstable();
    assert_eq!(rest, numbered(MOST_CHANGES, MOST_CHANGES + 5));
    assert_eq!(plan["complete"], true);
}

#[tokio::test]
async fn hostile_keys_come_back_exactly() {
    let long = "é".repeat(128);
    let longest = "x".repeat(1_024);
    let keys: Vec<String> = [
        "it's \"quoted\"",
        "back\\slash \\u0000 \\n",
        "<script>alert(1)</script>",
        "'; drop table records; --",
        "../../etc/passwd",
        "{\"json\":1}",
        "json:\"json:1\"",
        "json:7",
        "json:[\"a\",7]",
        "json:0.10000000000000000000001",
        "a,b;c|d\u{a0}\u{2028}\u{202e}e",
        "\u{1f4b8}\u{200d}\u{fe0f}",
        "%00%0a&key=other#x",
        " leading and trailing ",
        &long,
        &longest,
    ]
    .map(str::to_owned)
    .into();
    let doubtful = Doubtful::of(&keys).await;
    let ada = operator("ada");
    let order =
        json!({ "keys": keys, "verdict": "not_applied", "tenant": "acme", "pipeline": "pay" });
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    let printed: Vec<String> = keys
        .iter()
        .map(|it| super::key(it).as_str().to_owned())
        .collect();
    assert_eq!(each(&plan, "key"), printed);
    let done = doubtful.done(RESOLVE, &plan, &ada).await;
    assert_eq!(each(&done, "key"), printed);
    assert_eq!(done["complete"], true, "{done}");
    let audit = doubtful.audit().await;
    let audited: Vec<_> = audit.iter().filter_map(|it| it.key.as_ref()).collect();
    let audited: BTreeSet<_> = audited
        .into_iter()
        .map(|it| it.as_str().to_owned())
        .collect();
    assert_eq!(audited, printed.into_iter().collect());
    // Two thousand of the longest, each with what JSON has to escape, fit into one request.
    let all: Vec<String> = (0..MOST_CHANGES)
        .map(|at| format!("\"{at:0>255}"))
        .collect();
    let doubtful = Doubtful::of(&all).await;
    let plan = doubtful
        .plan(RESOLVE, &json!({ "keys": all, "verdict": "abandon" }), &ada)
        .await;
    assert_eq!(each(&plan, "key"), all);
    let done = doubtful.done(RESOLVE, &plan, &ada).await;
    assert_eq!(done["done"], MOST_CHANGES);
    let dead = doubtful.site.good("/v1/dead-letters?limit=1000").await;
    assert_eq!(
        dead["items"].as_array().map(Vec::len),
        Some(1_000),
        "their messages"
    );
}
