//! Dead letters of relays: lists, one as a whole, and orders about them.

use std::time::Duration;

use semel_admin::MOST_CHANGES;
use semel_config::ConsoleSettings;
use semel_core::port::outbox::operations::DeadOrder;
use semel_core::{AnyStore, Clock, Error, ErrorKind};
use semel_http::{Caller, Role};
use serde_json::{Value, json};

use crate::description::is_described;
use crate::outbox::DeadOutbox;
use crate::site::{Site, viewer_of};

/// A service over two relays, and their outboxes: `bills` has one dead letter, `out` has three.
fn site() -> (Site, [DeadOutbox; 2]) {
    let outboxes = [DeadOutbox::default(), DeadOutbox::default()];
    let [bills, out] = &outboxes;
    bills.gives_up(9, Some("b"), 3_000);
    for (id, order_key, at) in [
        (1, Some("z"), 1_000),
        (2, None, 4_000),
        (3, Some("a"), 2_000),
    ] {
        out.gives_up(id, order_key, at);
    }
    let site = with(&outboxes, ConsoleSettings::default());
    (site, outboxes)
}

fn with([bills, out]: &[DeadOutbox; 2], console: ConsoleSettings) -> Site {
    let site = Site::of(|settings| {
        settings.relays = vec![bills.relay("bills"), out.relay("out")];
        settings.console = console;
    });
    site.lend(AnyStore::new(site.memory()));
    site
}

const LIST: &str = "/v1/relays/dead-letters";

fn id(number: u128) -> String {
    format!("00000000-0000-0000-0000-{number:012x}")
}

/// The numbers of the ids of a list, or of the changes of a plan.
fn numbers(items: &Value) -> Vec<u128> {
    let items = items.as_array().into_iter().flatten();
    items
        .map(|it| {
            let id = it["id"].as_str().expect("an id");
            let digits = id.rsplit('-').next().unwrap_or_default();
            u128::from_str_radix(digits, 16).expect("a number")
        })
        .collect()
}

/// Asks for a list, page by page; returns the numbers, and the count of pages.
async fn listed(site: &Site, query: &str) -> (Vec<u128>, usize) {
    let (mut found, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = site.good(&format!("{LIST}?{query}{cursor}")).await;
        found.extend(numbers(&page["items"]));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (found, pages),
        }
        assert_eq!(page["complete"], false, "{page}");
    }
}

#[tokio::test]
async fn dead_letters_are_listed_relay_by_relay_and_page_by_page() {
    let (site, [_, out]) = site();
    let page = site.good(LIST).await;
    for item in page["items"].as_array().into_iter().flatten() {
        is_described(item, "RelayDeadLetter");
    }
    assert_eq!(page["items"][0]["relay"], "bills");
    let all = vec![9, 2, 3, 1];
    assert_eq!(listed(&site, "limit=1000").await.0, all);
    let (found, pages) = listed(&site, "limit=1").await;
    assert_eq!(found, all);
    assert!(pages >= all.len(), "{pages}");
    for (query, expected) in [
        ("relay=out", vec![2, 3, 1]),
        ("relay=bills", vec![9]),
        ("reason_like=http%20413", vec![9, 2, 3, 1]),
        ("reason_like=HTTP%20500", vec![]),
        (&format!("id={}", id(3)), vec![3]),
        (&format!("id={}", id(7)), vec![]),
        (&format!("id={}&relay=bills", id(3)), vec![]),
    ] {
        assert_eq!(listed(&site, query).await.0, expected, "{query}");
    }
    out.gives_up(4, None, site.clock.now().as_millis());
    assert_eq!(listed(&site, "").await.0, [9, 2, 4, 3, 1]);
    assert_eq!(listed(&site, "older_than=1h").await.0, all);

    for (query, pointer) in [
        ("relay=ot", "/relay"),
        ("id=7", "/id"),
        ("limit=0", "/limit"),
        ("cursor=abc", "/cursor"),
        ("pipeline=pay", "/"),
    ] {
        let path = format!("{LIST}?{query}");
        let (status, problem) = site.ask(&path, Some(Caller::loopback())).await;
        assert_eq!((status, &problem["pointer"]), (400, &json!(pointer)));
    }
    let (_, problem) = site
        .ask(&format!("{LIST}?relay=ot"), Some(Caller::loopback()))
        .await;
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("did you mean `out`?"), "{problem}");

    let away = Error::new(ErrorKind::Unavailable, "no connection");
    out.fails(Some(away));
    let (status, problem) = site
        .ask(&format!("{LIST}?relay=out"), Some(Caller::loopback()))
        .await;
    assert_eq!(
        (status, &problem["code"]),
        (503, &json!("store-unavailable"))
    );
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.starts_with("relay out: "), "{problem}");
}

#[tokio::test]
async fn a_dead_letter_is_shown_as_far_as_its_caller_and_the_mask_allow() {
    let (_, outboxes) = site();
    let mask = ["iban".parse().expect("a member")];
    let console = ConsoleSettings {
        mask: mask.into_iter().collect(),
        ..ConsoleSettings::default()
    };
    // A body with the word `secret` fails the test.
    let site = with(&outboxes, console);
    let path = format!("{LIST}/show?id={}", id(3));
    let shown = site.good(&path).await;
    is_described(&shown, "WholeRelayDeadLetter");
    assert_eq!(shown["payload"], "{\"iban\":\"***\",\"amount\":7}");
    assert_eq!(shown["withheld"], "members");
    assert_eq!(
        shown["headers"][0],
        json!({ "name": "iban", "value": "***" })
    );
    assert_eq!(
        (&shown["relay"], &shown["order_key"]),
        (&json!("out"), &json!("a"))
    );

    let site = with(&outboxes, ConsoleSettings::default());
    let viewer = Caller {
        name: "watcher".into(),
        role: Role::Viewer,
        tenant: None,
    };
    let (status, shown) = site.ask(&path, Some(viewer)).await;
    assert_eq!(status, 200, "{shown}");
    assert_eq!(
        (&shown["withheld"], shown.get("payload")),
        (&json!("role"), None)
    );
    assert_eq!(shown["headers"][0], json!({ "name": "iban" }));

    let none = format!("{LIST}/show?id={}", id(7));
    assert_eq!(site.refused(&none).await, (404, "message-unknown".into()));
    for query in ["", "?id=3", "?relay=out"] {
        let path = format!("{LIST}/show{query}");
        assert_eq!(site.refused(&path).await.0, 400, "{query}");
    }
    // Two streams may have a message of one id.
    outboxes[0].gives_up(3, None, 1_000);
    assert_eq!(site.refused(&path).await, (400, "invalid-input".into()));
}

/// Plans an order; returns the status and the answer.
async fn plan(site: &Site, action: &str, order: &Value) -> (u16, Value) {
    let path = format!("{LIST}/{action}/plan");
    site.post(&path, order, Some(Caller::loopback())).await
}

/// Carries out a plan; returns the status and the answer.
async fn carry_out(site: &Site, action: &str, plan: &Value) -> (u16, Value) {
    let order = json!({ "token": plan["token"], "reason": "INC-7" });
    let path = format!("{LIST}/{action}/do");
    site.post(&path, &order, Some(Caller::loopback())).await
}

#[tokio::test]
async fn dead_letters_are_tried_again_or_dropped_once_with_the_name_and_the_reason() {
    let (site, [bills, out]) = site();
    let ids = json!({ "ids": [id(1), id(9), id(7)] });
    let (status, planned) = plan(&site, "replay", &ids).await;
    assert_eq!(status, 200, "{planned}");
    is_described(&planned, "Plan");
    assert_eq!(numbers(&planned["changes"]), [9, 1], "relay by relay");
    assert_eq!(planned["left"][0]["id"], id(7).as_str(), "{planned}");
    assert_eq!(out.orders(), [], "a plan changes nothing");

    let (status, done) = carry_out(&site, "replay", &planned).await;
    assert_eq!(status, 200, "{done}");
    is_described(&done, "Done");
    assert_eq!(
        (&done["done"], &done["complete"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(done["changes"][0]["result"], "done");
    assert_eq!(done["changes"][0].get("audited"), None, "it is");
    let why = "loopback: INC-7".to_owned();
    assert_eq!(out.orders(), [(DeadOrder::TryAgain, 1, why.clone())]);
    assert_eq!(bills.orders(), [(DeadOrder::TryAgain, 1, why.clone())]);
    let (status, stale) = carry_out(&site, "replay", &planned).await;
    assert_eq!((status, &stale["code"]), (409, &json!("plan-stale")));
    assert_eq!(stale["changes"], json!([]), "{stale}");

    out.has_no_trail();
    let all = json!({ "relay": "out", "all": true, "reason_like": "too LARGE" });
    let (_, planned) = plan(&site, "drop", &all).await;
    assert_eq!(numbers(&planned["changes"]), [3, 2], "the oldest first");
    let (_, done) = carry_out(&site, "drop", &planned).await;
    assert_eq!(
        (&done["done"], &done["complete"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(done["changes"][0]["audited"], false, "{done}");
    assert_eq!(out.orders().last(), Some(&(DeadOrder::Drop, 2, why)));
    assert_eq!(listed(&site, "").await.0, [] as [u128; 0]);
}

#[tokio::test]
async fn a_message_that_died_again_makes_a_plan_stale_and_one_that_dies_later_does_not() {
    let (site, [_, out]) = site();
    let all = json!({ "relay": "out", "all": true });
    let (_, first) = plan(&site, "drop", &all).await;
    out.gives_up(4, None, 5_000);
    let (_, second) = plan(
        &site,
        "drop",
        &json!({ "relay": "out", "ids": [id(4), id(3)] }),
    )
    .await;
    out.gives_up(3, Some("a"), 6_000);
    for (planned, again) in [(&first, vec![1, 2, 4, 3]), (&second, vec![4, 3])] {
        let (status, stale) = carry_out(&site, "drop", planned).await;
        assert_eq!((status, &stale["code"]), (409, &json!("plan-stale")));
        assert_eq!(numbers(&stale["changes"]), again);
    }
    let (_, planned) = plan(&site, "drop", &all).await;
    out.gives_up(5, None, 7_000);
    let (status, done) = carry_out(&site, "drop", &planned).await;
    assert_eq!(status, 200, "{done}");
    assert_eq!(numbers(&done["changes"]), [1, 2, 4, 3]);
    assert_eq!(listed(&site, "relay=out").await.0, [5]);
}

#[tokio::test]
async fn a_plan_takes_the_oldest_and_says_that_there_are_more() {
    let (bills, out) = (DeadOutbox::default(), DeadOutbox::default());
    for number in 0..MOST_CHANGES as u64 {
        out.gives_up(u128::from(number), None, 10_000 - number);
    }
    bills.gives_up(9_999, None, 1);
    let site = with(&[bills.clone(), out.clone()], ConsoleSettings::default());
    let (_, planned) = plan(&site, "replay", &json!({ "all": true })).await;
    assert_eq!(planned["complete"], false);
    let found = numbers(&planned["changes"]);
    assert_eq!((found.len(), found[0]), (MOST_CHANGES, 9_999));
    assert!(!found.contains(&0), "it is the youngest");
    // MySQL reads all of them for each page.
    assert!(out.reads() <= 2, "{}", out.reads());
    let (_, done) = carry_out(&site, "replay", &planned).await;
    assert_eq!(done["done"], MOST_CHANGES);
    let counts: usize = out.orders().iter().map(|(_, count, _)| count).sum();
    assert_eq!(counts, MOST_CHANGES - 1);
    assert!(out.orders().len() > 1, "in batches");
    assert_eq!(listed(&site, "").await.0, [0]);
}

#[tokio::test]
async fn an_outbox_that_fails_is_told_with_what_is_known_of_the_order() {
    let (site, [_, out]) = site();
    let all = json!({ "relay": "out", "all": true });
    let (_, planned) = plan(&site, "drop", &all).await;
    let away = Error::new(ErrorKind::Unavailable, "no connection").maybe_applied();
    out.fails(Some(away));
    let (status, problem) = plan(&site, "drop", &all).await;
    assert_eq!(
        (status, &problem["code"]),
        (503, &json!("store-unavailable"))
    );
    let (status, problem) = carry_out(&site, "drop", &planned).await;
    let told = (status, &problem["certainty"]);
    assert_eq!(told, (503, &json!("not_applied")), "it was compared first");
    out.fails(None);
    assert_eq!(listed(&site, "relay=out").await.0.len(), 3);
}

#[tokio::test]
async fn a_batch_of_which_somebody_else_changed_some_is_unknown() {
    let (site, [bills, out]) = site();
    out.counts_one_less();
    let (_, planned) = plan(&site, "drop", &json!({ "all": true })).await;
    let (status, done) = carry_out(&site, "drop", &planned).await;
    assert_eq!((status, &done["complete"]), (200, &json!(false)), "{done}");
    assert_eq!(done["done"], 1, "that of the other relay: {done}");
    assert_eq!(bills.orders().len(), 1);
    let of_out = done["changes"].as_array().into_iter().flatten();
    let of_out: Vec<_> = of_out.filter(|it| it["relay"] == "out").collect();
    assert_eq!(of_out.len(), 3);
    for change in of_out {
        assert_eq!(change["result"], "unknown", "{done}");
        let why = change["why"].as_str().unwrap_or_default();
        assert!(why.starts_with("2 of 3"), "{done}");
        assert_eq!(change.get("audited"), None, "nobody knows");
    }
}

#[tokio::test]
async fn an_order_that_is_broken_off_sends_people_to_the_outbox() {
    let (site, [_, out]) = site();
    let (_, planned) = plan(&site, "drop", &json!({ "relay": "out", "all": true })).await;
    let order = json!({ "token": planned["token"], "reason": "INC-7" });
    let path = format!("{LIST}/drop/do");
    let caller = Some(Caller::loopback());
    out.hangs_in_orders();
    let ends = async {
        while out.orders().is_empty() {
            tokio::task::yield_now().await;
        }
        site.orders.ended(Duration::from_millis(50)).await;
    };
    let ((status, problem), ()) = tokio::join!(site.post(&path, &order, caller), ends);
    let told = (status, &problem["certainty"]);
    assert_eq!(told, (503, &json!("maybe_applied")), "{problem}");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains(LIST), "{problem}");
    assert!(!detail.contains("/v1/audit"), "it has no entry: {problem}");
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_does_not_answer_in_time_is_named_with_what_narrows_it_down() {
    let (site, [_, out]) = site();
    out.hangs();
    let listed = site.ask(LIST, Some(Caller::loopback())).await;
    let planned = plan(&site, "drop", &json!({ "all": true })).await;
    for (status, problem) in [listed, planned] {
        assert_eq!((status, &problem["code"]), (503, &json!("timeout")));
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains("outbox"), "{problem}");
        assert!(detail.contains("`relay`"), "{problem}");
        assert!(!detail.contains("`pipeline`"), "{problem}");
    }
}

#[tokio::test]
async fn an_order_about_dead_letters_of_relays_is_refused_by_role_by_tenant_and_by_what_it_says() {
    let (site, [bills, _]) = site();
    let good = json!({ "all": true });
    let viewer = |tenant: Option<&str>| Caller {
        tenant: tenant.map(semel_http::Tenant::new),
        ..viewer_of("acme")
    };
    let operator = Caller {
        role: Role::Operator,
        ..viewer_of("acme")
    };
    for action in ["replay", "drop"] {
        for caller in [viewer(None), viewer(Some("acme")), operator.clone()] {
            let path = format!("{LIST}/{action}/plan");
            let (status, problem) = site.post(&path, &good, Some(caller)).await;
            assert_eq!(status, 403, "{problem}");
        }
        bills.gives_up(3, None, 1_000);
        for bad in [
            json!({}),
            json!({ "ids": [] }),
            json!({ "ids": ["7"] }),
            json!({ "ids": [id(1)], "all": true }),
            json!({ "ids": [id(1)], "older_than": "1h" }),
            json!({ "all": true, "relay": "none" }),
            json!({ "all": true, "pipeline": "pay" }),
            // Both relays have it.
            json!({ "ids": [id(3)] }),
        ] {
            let (status, problem) = plan(&site, action, &bad).await;
            assert_eq!(status, 400, "{bad}: {problem}");
        }
        let (status, _) = plan(&site, action, &json!({ "ids": [id(3)], "relay": "out" })).await;
        assert_eq!(status, 200);
    }
    for path in [LIST.to_owned(), format!("{LIST}/show?id={}", id(1))] {
        let (status, problem) = site.ask(&path, Some(viewer_of("acme"))).await;
        assert_eq!(status, 403, "{problem}");
    }
}
