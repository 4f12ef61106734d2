//! Orders that are refused: nothing is changed by any of them.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use semel_core::Clock;
use semel_http::{Caller, Role};
use serde_json::{Value, json};

use super::{Doubtful, each, numbered, operation, operator, operator_of};
use crate::site::viewer_of;

const ACTIONS: [(&str, &str); 8] = [
    (
        "in-doubt/resolve",
        r#"{"keys":["pay-0"],"verdict":"applied"}"#,
    ),
    ("dead-letters/drop", r#"{"keys":["pay-0"]}"#),
    ("quarantine/drop", r#"{"keys":["pay-0"]}"#),
    ("keys/release", r#"{"keys":["pay-0"]}"#),
    ("keys/forget", r#"{"keys":["pay-0"]}"#),
    ("keys/hold", r#"{"keys":["pay-0"]}"#),
    ("keys/extend", r#"{"keys":["pay-0"],"window":"30d"}"#),
    ("store/sweep", "{}"),
];

#[tokio::test]
async fn a_viewer_and_a_stranger_neither_plan_nor_do() {
    let doubtful = Doubtful::with(1).await;
    let operator = operator("ada");
    let viewer = Caller {
        role: Role::Viewer,
        ..operator.clone()
    };
    for (action, order) in ACTIONS {
        let order: Value = serde_json::from_str(order).expect("JSON");
        let admin = Caller {
            role: Role::Admin,
            ..operator.clone()
        };
        let plan = doubtful.plan(action, &order, &admin).await;
        let body = json!({ "token": plan["token"], "reason": "why" });
        for (path, body) in [("plan", &order), ("do", &body)] {
            let path = format!("/v1/{action}/{path}");
            let (status, refused) = doubtful.site.post(&path, body, Some(viewer.clone())).await;
            assert_eq!(
                (status, &refused["code"]),
                (403, &"forbidden".into()),
                "{path}"
            );
            let (status, refused) = doubtful.site.post(&path, body, None).await;
            assert_eq!(
                (status, &refused["code"]),
                (401, &"unauthorized".into()),
                "{path}"
            );
        }
    }
    // A sweep concerns every tenant.
    let path = "/v1/store/sweep/plan";
    let (status, _) = doubtful.site.post(path, &json!({}), Some(operator)).await;
    assert_eq!(status, 403);
    let one = Caller {
        role: Role::Admin,
        ..operator_of("ada", "acme")
    };
    let (status, _) = doubtful.site.post(path, &json!({}), Some(one)).await;
    assert_eq!(status, 403);
    assert!(doubtful.audit().await.is_empty());
}

#[tokio::test]
async fn a_tenant_changes_its_own_alone() {
    let keys = numbered(0, 2);
    let doubtful = Doubtful::with(2).await;
    doubtful.doubt("other", &keys).await;
    let (acme, other) = (operator_of("eve", "acme"), operator_of("eve", "other"));
    let id = operation("other", "pay-0").id().to_string();
    let action = "in-doubt/resolve";
    for (order, changes) in [
        (json!({ "all": true, "verdict": "applied" }), 2),
        (json!({ "keys": ["pay-0"], "verdict": "applied" }), 1),
        (json!({ "ids": [id], "verdict": "applied" }), 0),
    ] {
        let plan = doubtful.plan(action, &order, &acme).await;
        assert_eq!(each(&plan, "key").len(), changes, "{plan}");
        assert!(
            each(&plan, "tenant").iter().all(|it| *it == "acme"),
            "{plan}"
        );
        // The same name in another tenant is another caller, whatever the token says.
        let (status, refused) = doubtful.carry_out(action, &plan, &other).await;
        assert_eq!((status, &refused["code"]), (403, &"forbidden".into()));
        let (status, refused) = doubtful.carry_out(action, &plan, &viewer_of("acme")).await;
        assert_eq!((status, &refused["code"]), (403, &"forbidden".into()));
    }
    let named = json!({ "all": true, "verdict": "applied", "tenant": "other" });
    let path = "/v1/in-doubt/resolve/plan";
    let (status, refused) = doubtful.site.post(path, &named, Some(acme.clone())).await;
    assert_eq!((status, &refused["code"]), (403, &"forbidden".into()));
    // A key of two tenants has to be told apart by a caller who sees both.
    let key = json!({ "keys": ["pay-0"], "verdict": "applied" });
    let (status, refused) = doubtful.site.post(path, &key, Some(operator("ada"))).await;
    assert_eq!(
        (status, &refused["pointer"]),
        (400, &"/tenant".into()),
        "{refused}"
    );
    assert!(doubtful.audit().await.is_empty());
    let plan = doubtful
        .plan(action, &json!({ "all": true, "verdict": "applied" }), &acme)
        .await;
    doubtful.done(action, &plan, &acme).await;
    let audit = doubtful.audit().await;
    assert_eq!(audit.len(), 2);
    assert!(
        audit
            .iter()
            .all(|it| it.scope.as_ref().is_some_and(|it| it.tenant() == "acme"))
    );
}

#[tokio::test]
async fn a_token_is_good_for_its_own_plan_alone() {
    let doubtful = Doubtful::with(1).await;
    let ada = operator("ada");
    let plan = doubtful
        .plan("keys/hold", &json!({ "keys": ["pay-0"] }), &ada)
        .await;
    let (status, refused) = doubtful.carry_out("keys/forget", &plan, &ada).await;
    assert_eq!(
        (status, &refused["pointer"]),
        (400, &"/token".into()),
        "{refused}"
    );
    let detail = refused["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("keys/hold"), "{detail}");
    let (status, refused) = doubtful
        .carry_out("keys/hold", &plan, &operator("bob"))
        .await;
    assert_eq!(
        (status, &refused["code"]),
        (403, &"forbidden".into()),
        "{refused}"
    );
    let token = plan["token"].as_str().expect("a token");
    for (body, pointer) in [
        (json!({ "token": token }), "/reason"),
        (json!({ "token": token, "reason": "" }), "/reason"),
        (json!({ "token": token, "reason": " \n" }), "/reason"),
        (json!({ "token": token, "reason": "a\u{0}b" }), "/reason"),
        (
            json!({ "token": token, "reason": "x".repeat(1_025) }),
            "/reason",
        ),
        (json!({ "reason": "why" }), "/token"),
        (json!({ "token": "", "reason": "why" }), "/token"),
        (json!({ "token": &token[1..], "reason": "why" }), "/token"),
        (json!({ "token": 1, "reason": "why" }), "/token"),
        (
            json!({ "token": token, "reason": "why", "by": "eve" }),
            "/by",
        ),
        (json!([token]), ""),
    ] {
        let (status, refused) = doubtful
            .site
            .post("/v1/keys/hold/do", &body, Some(ada.clone()))
            .await;
        assert_eq!(status, 400, "{body}: {refused}");
        assert_eq!(refused["pointer"], pointer, "{body}: {refused}");
    }
    assert!(doubtful.audit().await.is_empty());
    doubtful.done("keys/hold", &plan, &ada).await;
}

/// The same token with other bytes in it, and a good checksum.
fn forged(token: &Value, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let token = token.as_str().expect("a token");
    let mut bytes = URL_SAFE_NO_PAD.decode(token).expect("a token");
    change(&mut bytes);
    let checksum = crc32fast::hash(&bytes[5..]).to_le_bytes();
    bytes[1..5].copy_from_slice(&checksum);
    URL_SAFE_NO_PAD.encode(bytes)
}

#[tokio::test]
async fn a_forged_token_is_good_for_nothing_that_its_caller_may_not_do() {
    let doubtful = Doubtful::with(1).await;
    doubtful.doubt("other", &numbered(0, 1)).await;
    let eve = operator_of("eve", "acme");
    let order = json!({ "keys": ["pay-0"] });
    let plan = doubtful.plan("keys/hold", &order, &eve).await;
    let of_other = json!({ "keys": ["pay-0"], "tenant": "other" }).to_string();
    let length = order.to_string().len();
    let other = forged(&plan["token"], |bytes| {
        bytes.truncate(bytes.len() - length);
        bytes.extend_from_slice(of_other.as_bytes());
    });
    // From tomorrow on, it would be good for another hour.
    let tomorrow = doubtful.site.clock.now().plus(Duration::from_secs(86_400));
    let late = forged(&plan["token"], |bytes| {
        bytes[5..13].copy_from_slice(&tomorrow.as_millis().to_le_bytes());
    });
    let digest = forged(&plan["token"], |bytes| bytes[21] ^= 1);
    for (token, status, code) in [
        (other, 403, "forbidden"),
        (late, 409, "plan-stale"),
        (digest, 409, "plan-stale"),
    ] {
        let forged = json!({ "token": token });
        let (answered, refused) = doubtful.carry_out("keys/hold", &forged, &eve).await;
        assert_eq!(
            (answered, &refused["code"]),
            (status, &code.into()),
            "{refused}"
        );
        assert_eq!(refused["certainty"], "not_applied", "{refused}");
    }
    assert!(doubtful.audit().await.is_empty());
    doubtful.done("keys/hold", &plan, &eve).await;
}

#[tokio::test]
async fn every_order_of_a_tenant_leaves_others_alone() {
    let doubtful = Doubtful::with(1).await;
    doubtful.doubt("other", &numbered(0, 1)).await;
    let ada = operator("ada");
    let abandon = json!({ "all": true, "verdict": "abandon" });
    let plan = doubtful.plan("in-doubt/resolve", &abandon, &ada).await;
    doubtful.done("in-doubt/resolve", &plan, &ada).await;
    let eve = operator_of("eve", "acme");
    let id = operation("other", "pay-0").id().to_string();
    let letters = doubtful.site.good("/v1/dead-letters?tenant=other").await;
    let letter = &letters["items"][0]["id"];
    for (action, order, changes) in [
        ("keys/release", json!({ "ids": [id] }), 0),
        ("keys/forget", json!({ "ids": [id] }), 0),
        ("keys/hold", json!({ "ids": [id] }), 0),
        ("keys/extend", json!({ "ids": [id], "window": "90d" }), 0),
        ("dead-letters/drop", json!({ "ids": [letter] }), 0),
        ("keys/hold", json!({ "keys": ["pay-0"] }), 1),
        (
            "keys/extend",
            json!({ "keys": ["pay-0"], "window": "90d" }),
            1,
        ),
        ("dead-letters/drop", json!({ "all": true }), 1),
        ("keys/release", json!({ "keys": ["pay-0"] }), 1),
        ("keys/forget", json!({ "keys": ["pay-0"] }), 1),
    ] {
        let plan = doubtful.plan(action, &order, &eve).await;
        assert_eq!(
            each(&plan, "tenant"),
            vec!["acme"; changes],
            "{action}: {plan}"
        );
        doubtful.done(action, &plan, &eve).await;
        let mut other = order.clone();
        other["tenant"] = "other".into();
        let path = format!("/v1/{action}/plan");
        let (status, _) = doubtful.site.post(&path, &other, Some(eve.clone())).await;
        assert_eq!(status, 403, "{action}");
    }
    let states = doubtful.states("other", &numbered(0, 1)).await;
    assert_eq!(states, [Some(semel_core::StateKind::Dead)]);
    let letters = doubtful.site.good("/v1/dead-letters").await;
    assert_eq!(
        letters["items"].as_array().map(Vec::len),
        Some(1),
        "{letters}"
    );
}

#[tokio::test]
async fn an_order_that_cannot_be_meant_is_refused_with_a_pointer() {
    let doubtful = Doubtful::with(1).await;
    let key = "0".repeat(1_025);
    let many = vec!["pay-0"; semel_admin::MOST_CHANGES + 1];
    let large = "x".repeat(semel_core::Outcome::DEFAULT_LIMIT_BYTES + 1);
    for (action, order, pointer) in [
        ("in-doubt/resolve", json!({ "keys": ["a"] }), "/verdict"),
        ("in-doubt/resolve", json!({ "verdict": "applied" }), ""),
        (
            "in-doubt/resolve",
            json!({ "verdict": "gone", "all": true }),
            "/verdict",
        ),
        (
            "in-doubt/resolve",
            json!({ "verdict": "applied", "all": false }),
            "",
        ),
        (
            "in-doubt/resolve",
            json!({ "verdict": "applied", "all": 1 }),
            "/all",
        ),
        (
            "in-doubt/resolve",
            json!({ "verdict": "applied", "all": true, "keys": ["a"] }),
            "",
        ),
        (
            "in-doubt/resolve",
            json!({ "verdict": "applied", "keys": ["a"], "older_than": "1h" }),
            "/older_than",
        ),
        (
            "in-doubt/resolve",
            json!({ "verdict": "abandon", "all": true, "outcome": "" }),
            "/outcome",
        ),
        (
            "in-doubt/resolve",
            json!({ "verdict": "applied", "all": true, "quiet": "1s" }),
            "/quiet",
        ),
        (
            "in-doubt/resolve",
            json!({ "verdict": "applied", "all": true, "outcome_base64": "?" }),
            "/outcome_base64",
        ),
        (
            "in-doubt/resolve",
            json!({ "verdict": "applied", "all": true, "force": true }),
            "/force",
        ),
        (
            "in-doubt/resolve",
            json!({ "verdict": "applied", "keys": ["pay-0"], "outcome": large }),
            "/outcome",
        ),
        ("keys/hold", json!({ "keys": [] }), "/keys"),
        ("keys/hold", json!({ "keys": ["a", 7] }), "/keys/1"),
        ("keys/hold", json!({ "keys": ["a", ""] }), "/keys/1"),
        ("keys/hold", json!({ "keys": [key] }), "/keys/0"),
        ("keys/hold", json!({ "keys": ["json:{"] }), "/keys/0"),
        ("keys/hold", json!({ "keys": many }), "/keys"),
        ("keys/hold", json!({ "ids": ["abcd"] }), "/ids/0"),
        ("keys/hold", json!({ "all": true }), "/all"),
        ("keys/hold", json!({ "keys": ["a"], "off": "yes" }), "/off"),
        (
            "keys/hold",
            json!({ "keys": ["a"], "tenant": "\u{1}" }),
            "/tenant",
        ),
        ("keys/extend", json!({ "keys": ["a"] }), "/window"),
        (
            "keys/extend",
            json!({ "keys": ["a"], "window": "long" }),
            "/window",
        ),
        ("dead-letters/drop", json!({}), ""),
        (
            "quarantine/drop",
            json!({ "all": true, "older_than": 7 }),
            "/older_than",
        ),
        ("store/sweep", json!({ "all": true }), "/all"),
    ] {
        let path = format!("/v1/{action}/plan");
        let (status, refused) = doubtful
            .site
            .post(&path, &order, Some(Caller::loopback()))
            .await;
        assert_eq!(
            (status, &refused["code"]),
            (400, &"invalid-input".into()),
            "{order}: {refused}"
        );
        assert_eq!(refused["pointer"], pointer, "{action} {order}: {refused}");
    }
}

#[tokio::test]
async fn a_body_that_a_page_could_send_across_origins_is_refused() {
    let doubtful = Doubtful::with(1).await;
    let order = r#"{"keys":["pay-0"]}"#;
    for (kind, status) in [
        (None, 415),
        (Some("text/plain"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (Some("multipart/form-data; boundary=x"), 415),
        (Some("application/json; charset=utf-8"), 200),
    ] {
        let request = Request::post("/v1/keys/hold/plan");
        let request = match kind {
            Some(kind) => request.header(CONTENT_TYPE, kind),
            None => request,
        };
        let request = request.body(Body::from(order)).expect("a request");
        let (answered, body) = doubtful.site.send(request, Some(operator("ada"))).await;
        assert_eq!(answered, status, "{kind:?}: {body}");
    }
    let path = "/v1/keys/hold/plan?keys=pay-0";
    let (status, _) = doubtful
        .site
        .post(path, &json!({}), Some(operator("ada")))
        .await;
    assert_eq!(status, 400);
    for path in ["/v1/keys/hold/plan", "/v1/keys/hold/do"] {
        assert_eq!(doubtful.site.refused(path).await.0, 405);
    }
    assert_eq!(doubtful.site.refused("/v1/keys/hold").await.0, 404);
}
