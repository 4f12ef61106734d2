//! Messages that are run again from their pages: what is foretold, and what has come of it.

use axum::body::Body;
use axum::http::Request;
use axum::http::header::{CONTENT_TYPE, HOST};
use bytes::Bytes;
use semel_core::{
    ClaimId, ClaimRequest, Operation, Outcome, Parked, Reason, Settlement, Step, Store, Timestamp,
    Window,
};
use semel_http::Role;
use serde_json::{Value, json};

use crate::markup;
use crate::orders::{done, planned};
use crate::site::{Page, Site, key, scope};

/// Sets a message aside that its pipeline can read.
async fn set_aside(site: &Site, name: &str, reason: Reason) {
    let message = Parked {
        scope: scope("", "pay"),
        key: Some(key(name)),
        reason: reason.code().into(),
        detail: "declined".into(),
        transport: None,
        coordinates: format!("in:{name}").into(),
        headers: Vec::new(),
        payload: Bytes::from(json!({ "id": name }).to_string()),
        since: Timestamp::EPOCH,
    };
    site.store.park([message].into()).await.expect("parked");
}

/// The first id that a page offers to select.
fn id(page: &Page) -> String {
    let (_, rest) = page
        .text
        .split_once("name=\"ids\" value=\"")
        .expect("a row");
    rest.split('"').next().expect("an id").to_owned()
}

#[tokio::test]
async fn dead_letters_are_run_again_after_what_is_foretold() {
    let site = Site::configured();
    for name in ["good", "bad"] {
        set_aside(&site, name, Reason::Dead).await;
    }
    let page = site.get("/dead-letters").await;
    page.has("Run the selected…")
        .has("Run all of <bdi>pay</bdi> with this error…");
    let all = [
        ("all", "true"),
        ("pipeline", "pay"),
        ("reason_like", "declined"),
    ];
    let plan = planned(&site, "dead-letters/replay", &all).await;
    plan.has("<h1>Run again?</h1>")
        .has("Foretold: <b>2</b> runs.")
        .has("its effect is called as if new")
        .has("Run again 2 changes");
    let page = done(
        &site,
        "dead-letters/replay",
        &plan,
        "the bank <b>is</b> back",
    )
    .await;
    assert_eq!(page.status, 200);
    page.has("<h1>Run again: not all of it</h1>")
        .has("1 of 2 done. 1 not as foretold.")
        .has("the bank &lt;b&gt;is&lt;/b&gt; back")
        .has("So far: <b>1</b> applied, <b>1</b> dead.");
    markup::check(&page.text);
    let listed = site.get("/runs").await;
    listed
        .has("dead letters/replay")
        .has("ended")
        .has("loopback");
    markup::check(&listed.text);
    let run = site.get(&listed.link("/runs/")).await;
    run.has("1 of 2 done. 1 not as foretold.")
        .has("aria-current=\"page\">Dead letters");
    markup::check(&run.text);
    // The same form again, as a browser sends it after a reload, runs nothing.
    done(&site, "dead-letters/replay", &plan, "twice")
        .await
        .has("1 of 2 done");
    let page = site.get("/dead-letters").await;
    page.has("<b>1</b> message").lacks("in:good");
}

#[tokio::test]
async fn a_message_in_quarantine_is_released_under_another_key() {
    let site = Site::configured();
    set_aside(&site, "one", Reason::Conflict).await;
    set_aside(&site, "two", Reason::Conflict).await;
    let page = site.get("/quarantine").await;
    page.has("Release the selected…")
        .has("release it under another key");
    markup::check(&page.text);
    // What the first button of a form does is done from its fields, too.
    let at = |button: &str| page.text.find(button).expect("a button");
    assert!(at("Release the selected…") < at("Drop the selected…"));
    let id = id(&page);
    let form = [("ids", &*id), ("key", "one-again")];
    let plan = planned(&site, "quarantine/release", &form).await;
    plan.has("As an operation of its own, under the key")
        .has("one-again");
    let page = done(&site, "quarantine/release", &plan, "another order").await;
    page.has("<h1>Release: done</h1>")
        .has("1 of 1 done.")
        .has("one-again");
    let form = [("all", "true"), ("pipeline", "pay"), ("key", "one-again")];
    let refused = site.post("/orders/plan/quarantine/release", &form).await;
    assert_eq!(refused.status, 400);
    refused.has("a key is for one message");
}

#[tokio::test]
async fn a_doubt_that_may_not_be_called_again_is_left_and_the_verdict_is_no_part_of_it() {
    let site = Site::configured();
    site.doubt(&scope("", "pay"), &[key("pay-1")], "no answer")
        .await;
    let page = site.get("/in-doubt").await;
    page.has("Call the selected again…")
        .has("Call all of them again…");
    markup::check(&page.text);
    let id = id(&page);
    let form = [
        ("ids", &*id),
        ("verdict", "applied"),
        ("outcome", "charged"),
    ];
    planned(&site, "in-doubt/retry", &form)
        .await
        .has("Nothing would change.")
        .has("nothing recognises a second call")
        .lacks("it happened");
}

/// Completes a key.
async fn complete(site: &Site, name: &str, id: u128) {
    let (scope, claim_id) = (scope("", "pay"), ClaimId::from_u128(id));
    let claim = ClaimRequest::new(scope.clone(), key(name), claim_id);
    site.store.claim([claim].into()).await.expect("a claim");
    let settlement = Settlement {
        operation: Operation::new(scope, key(name)),
        claim_id,
        step: Step::Complete {
            outcome: Outcome::Kept {
                codec: 0,
                bytes: Bytes::new(),
            },
            window: Window::DEFAULT,
        },
    };
    let settled = site.store.settle([settlement].into()).await;
    settled.expect("an end");
}

/// Sends JSON to the API that the console is over.
async fn api(site: &Site, path: &str, body: &Value) -> Value {
    let request = Request::post(path)
        .header(HOST, "127.0.0.1:9464")
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()));
    let answer = site.answer(request.expect("a request")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    serde_json::from_str(&answer.text).expect("JSON")
}

#[tokio::test]
async fn a_run_about_keys_is_told_by_its_keys() {
    let site = Site::configured();
    for (id, name) in (1..).zip(["pay-1", "pay-2", "pay-3"]) {
        complete(&site, name, id).await;
    }
    let order = json!({ "all": true, "pipeline": "pay", "window": "30d" });
    let plan = api(&site, "/v1/keys/extend/plan", &order).await;
    let order = json!({ "token": plan["token"], "reason": "INC-7" });
    let run = api(&site, "/v1/keys/extend/do", &order).await;
    assert_eq!(run["state"], "ended", "{run}");

    let listed = site.get("/runs").await;
    listed.has("keys/extend").has("3 keys");
    markup::check(&listed.text);
    let page = site.get(&listed.link("/runs/")).await;
    page.has("<h1>Extend: done</h1>")
        .has("3 keys extended, 0 refused.")
        .has("Finished keys")
        .has("30d")
        .lacks("set aside")
        .lacks("foretold")
        .lacks("1 of 1");
    markup::check(&page.text);
}

#[tokio::test]
async fn a_backlog_that_is_not_counted_to_its_end_is_told_as_such() {
    let (site, _) = Site::with(
        "127.0.0.1:9464",
        &["busy".to_owned(), "pay".to_owned()],
        &[],
    );
    let page = site.get("/").await;
    page.has("at least 100\u{202f}000")
        .has("4\u{202f}321")
        .lacks("at least 4\u{202f}321");
}

#[tokio::test]
async fn a_viewer_runs_nothing_and_sees_what_was_run() {
    let tokens = [("eve", Role::Viewer, None)];
    let (site, secrets) = Site::with("0.0.0.0:9464", &["pay".to_owned()], &tokens);
    set_aside(&site, "good", Reason::Dead).await;
    let cookie = format!("semel_token={}", secrets[0]);
    let headers = [("cookie", &*cookie)];
    let page = site.get_with("/dead-letters", &headers).await;
    page.has("in:good")
        .lacks("Run the selected")
        .lacks("formaction");
    let page = site.get_with("/runs", &headers).await;
    page.has("There was no run since the worker began.");
    let page = site.get_with("/runs/0123456789abcdef", &headers).await;
    page.has("the worker remembers no run by this id");
    let page = site.get_with("/runs/..%2Fconfig", &headers).await;
    page.lacks("\"settings\"");
    let form = [("all", "true")];
    let headers = [("cookie", &*cookie), ("sec-fetch-site", "same-origin")];
    let page = site
        .post_with("/orders/plan/dead-letters/replay", &form, &headers)
        .await;
    assert_eq!(page.status, 403);
}
