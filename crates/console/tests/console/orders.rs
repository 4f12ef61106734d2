//! Orders: a plan first, then what came of it.

use semel_core::Reason;
use semel_http::Role;

use crate::site::{Page, Site, key, scope};

pub(crate) async fn planned(site: &Site, action: &str, form: &[(&str, &str)]) -> Page {
    let page = site.post(&format!("/orders/plan/{action}"), form).await;
    assert_eq!(page.status, 200, "{action}: {}", page.text);
    page
}

pub(crate) async fn done(site: &Site, action: &str, plan: &Page, reason: &str) -> Page {
    let form = [("token", plan.hidden("token")), ("reason", reason)];
    site.post(&format!("/orders/do/{action}"), &form).await
}

/// A site with a key in doubt; returns the id of its operation, too.
pub(crate) async fn doubtful(name: &str) -> (Site, String) {
    let site = Site::new();
    site.doubt(&scope("", "pay"), &[key(name)], "no answer")
        .await;
    let page = site.get(&format!("/key?key={name}")).await;
    let id = page.operation_id().to_owned();
    (site, id)
}

#[tokio::test]
async fn a_selection_of_doubts_is_resolved_after_a_plan_and_with_a_reason() {
    let site = Site::new();
    let scope = scope("", "pay");
    site.doubt(&scope, &[key("a"), key("b"), key("c")], "no answer")
        .await;
    let page = site.get("/in-doubt").await;
    let ids = page.text.split("name=\"ids\" value=\"").skip(1).take(2);
    let ids: Vec<_> = ids.map(|it| it.split('"').next().expect("an id")).collect();
    let form = [
        ("ids", ids[0]),
        ("ids", ids[1]),
        ("verdict", "not_applied"),
        ("outcome", ""),
    ];
    let plan = planned(&site, "in-doubt/resolve", &form).await;
    plan.has("What would change")
        .has("released")
        .has("Resolve 2 changes");
    assert_eq!(
        site.state(&scope, &key("a")).await,
        Some("in_doubt"),
        "nothing is done yet"
    );
    let without = done(&site, "in-doubt/resolve", &plan, " ").await;
    assert_eq!(without.status, 400, "{}", without.text);
    let page = done(&site, "in-doubt/resolve", &plan, "not at the provider").await;
    assert_eq!(page.status, 200);
    page.has("2 of 2 changes done");
    let mut states = Vec::new();
    for name in ["a", "b", "c"] {
        states.push(site.state(&scope, &key(name)).await.expect("a record"));
    }
    states.sort_unstable();
    assert_eq!(states, ["in_doubt", "released", "released"]);
    site.get("/audit")
        .await
        .has("not at the provider")
        .has("loopback");
}

#[tokio::test]
async fn a_stale_plan_shows_the_new_one_and_does_nothing() {
    let (site, id) = doubtful("pay-1").await;
    let form = [
        ("ids", &*id),
        ("verdict", "applied"),
        ("outcome", "charged"),
    ];
    let mine = planned(&site, "in-doubt/resolve", &form).await;
    let theirs = planned(
        &site,
        "in-doubt/resolve",
        &[("ids", &*id), ("verdict", "abandon")],
    )
    .await;
    done(&site, "in-doubt/resolve", &theirs, "somebody else")
        .await
        .has("one change done");
    let stale = done(&site, "in-doubt/resolve", &mine, "mine").await;
    assert_eq!(stale.status, 409);
    stale
        .has("Something has changed since this was planned")
        .has("or you have sent it already")
        .has("nothing in doubt has this operation id")
        .has("Nothing would change.");
    assert_eq!(
        site.state(&scope("", "pay"), &key("pay-1")).await,
        Some("dead")
    );
    let again = done(&site, "in-doubt/resolve", &theirs, "twice").await;
    assert_eq!(again.status, 409, "a reload does nothing twice");
}

#[tokio::test]
async fn a_stale_plan_that_still_means_something_can_be_confirmed() {
    let site = Site::new();
    let scope = scope("", "pay");
    site.doubt(&scope, &[key("a"), key("b")], "no answer").await;
    let all = [("all", "true"), ("verdict", "abandon")];
    let mine = planned(&site, "in-doubt/resolve", &all).await;
    let page = site.get("/key?key=a").await;
    let id = page.operation_id().to_owned();
    let theirs = planned(
        &site,
        "in-doubt/resolve",
        &[("ids", &*id), ("verdict", "abandon")],
    )
    .await;
    done(&site, "in-doubt/resolve", &theirs, "somebody else")
        .await
        .has("one change done");
    let stale = done(&site, "in-doubt/resolve", &mine, "mine").await;
    assert_eq!(stale.status, 409);
    done(&site, "in-doubt/resolve", &stale, "mine")
        .await
        .has("one change done");
    assert_eq!(site.state(&scope, &key("b")).await, Some("dead"));
}

#[tokio::test]
async fn every_order_of_the_pages_is_planned_and_done() {
    let (site, id) = doubtful("pay-1").await;
    for (action, form, has) in [
        ("keys/hold", vec![("ids", &*id)], "one change done"),
        (
            "keys/hold",
            vec![("ids", &*id), ("off", "true")],
            "one change done",
        ),
        (
            "in-doubt/resolve",
            vec![
                ("ids", &*id),
                ("verdict", "applied"),
                ("outcome", "charged"),
            ],
            "one change done",
        ),
        (
            "keys/extend",
            vec![("ids", &*id), ("window", "30d")],
            "one change done",
        ),
        ("keys/forget", vec![("ids", &*id)], "one change done"),
        ("store/sweep", vec![], "one change done"),
    ] {
        let plan = planned(&site, action, &form).await;
        let page = done(&site, action, &plan, "a drill").await;
        assert_eq!(page.status, 200, "{action}: {}", page.text);
        page.has(has);
    }
    assert_eq!(site.state(&scope("", "pay"), &key("pay-1")).await, None);
    for (reason, action, path) in [
        (Reason::Dead, "dead-letters/drop", "/dead-letters"),
        (Reason::Conflict, "quarantine/drop", "/quarantine"),
    ] {
        site.park(&scope("", "pay"), &key("m"), reason, "declined")
            .await;
        let page = site.get(path).await;
        let (_, rest) = page
            .text
            .split_once("name=\"ids\" value=\"")
            .expect("a message");
        let id = rest.split('"').next().expect("an id");
        let plan = planned(&site, action, &[("ids", id)]).await;
        plan.has("dropped").has("declined");
        done(&site, action, &plan, "a drill")
            .await
            .has("one change done");
        assert!(!site.get(path).await.text.contains("declined"));
    }
}

#[tokio::test]
async fn what_cannot_be_meant_is_told_and_nothing_is_done() {
    let (site, id) = doubtful("pay-1").await;
    for (action, form, status, has) in [
        (
            "in-doubt/resolve",
            vec![("verdict", "applied")],
            400,
            "Nothing is selected",
        ),
        ("in-doubt/resolve", vec![("ids", &*id)], 400, "verdict"),
        (
            "in-doubt/resolve",
            vec![("ids", "no id"), ("verdict", "applied")],
            400,
            "hexadecimal",
        ),
        (
            "keys/extend",
            vec![("ids", &*id), ("window", "soon")],
            400,
            "soon",
        ),
        (
            "keys/burn",
            vec![("ids", &*id)],
            404,
            "There is no such order",
        ),
        (
            "../config",
            vec![("ids", &*id)],
            404,
            "There is no such order",
        ),
    ] {
        let page = site.post(&format!("/orders/plan/{action}"), &form).await;
        assert_eq!(page.status, status, "{action}: {}", page.text);
        page.has(has);
    }
    let page = site
        .post(
            "/orders/do/keys/forget",
            &[("token", "AXk"), ("reason", "why")],
        )
        .await;
    assert_eq!(page.status, 400, "{}", page.text);
    assert_eq!(site.get("/orders/plan/keys/forget").await.status, 405);
    assert_eq!(
        site.state(&scope("", "pay"), &key("pay-1")).await,
        Some("in_doubt")
    );
}

#[tokio::test]
async fn a_form_of_another_page_is_refused() {
    let (site, id) = doubtful("pay-1").await;
    let form = [("ids", &*id), ("token", "semel_00")];
    for headers in [
        &[][..],
        &[("sec-fetch-site", "cross-site")],
        &[
            ("sec-fetch-site", "same-site"),
            ("origin", "http://127.0.0.1:9464"),
        ],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        &[
            ("host", "evil.example"),
            ("origin", "http://evil.example"),
            ("sec-fetch-site", "same-origin"),
        ],
    ] {
        for path in [
            "/orders/plan/keys/forget",
            "/orders/do/keys/forget",
            "/login",
            "/logout",
        ] {
            let page = site.post_with(path, &form, headers).await;
            assert_eq!(page.status, 403, "{path} {headers:?}");
            assert_eq!(page.header("set-cookie"), "", "{path}");
        }
    }
    let own = [("origin", "http://127.0.0.1:9464")];
    let page = site
        .post_with("/orders/plan/keys/forget", &form, &own)
        .await;
    assert_eq!(
        page.status, 200,
        "a browser without the newer header: {}",
        page.text
    );
}

#[tokio::test]
async fn a_viewer_and_another_tenant_plan_nothing() {
    let tokens = [
        ("eve", Role::Viewer, None),
        ("bob", Role::Operator, Some("other")),
        ("ada", Role::Operator, None),
    ];
    let (site, secrets) = Site::with("0.0.0.0:9464", &["pay".to_owned()], &tokens);
    site.doubt(&scope("acme", "pay"), &[key("pay-1")], "no answer")
        .await;
    let cookies: Vec<_> = secrets
        .iter()
        .map(|it| format!("semel_token={it}"))
        .collect();
    let page = site
        .get_with("/key?key=pay-1", &[("cookie", &cookies[2])])
        .await;
    let id = page.operation_id().to_owned();
    let form = [("ids", &*id), ("verdict", "abandon")];
    let mut pages = Vec::new();
    for cookie in &cookies {
        let headers = [("cookie", &**cookie), ("sec-fetch-site", "same-origin")];
        pages.push(
            site.post_with("/orders/plan/in-doubt/resolve", &form, &headers)
                .await,
        );
    }
    assert_eq!(pages[0].status, 403);
    pages[1].has("Nothing would change.");
    let form = [("token", pages[2].hidden("token")), ("reason", "why")];
    let headers = [("cookie", &*cookies[1]), ("sec-fetch-site", "same-origin")];
    let page = site
        .post_with("/orders/do/in-doubt/resolve", &form, &headers)
        .await;
    assert_eq!(page.status, 403, "somebody else's plan: {}", page.text);
    let headers = [("cookie", &*cookies[2]), ("sec-fetch-site", "same-origin")];
    site.post_with("/orders/do/in-doubt/resolve", &form, &headers)
        .await
        .has("one change done");
    site.get_with("/audit", &[("cookie", &cookies[0])])
        .await
        .has("ada");
}
