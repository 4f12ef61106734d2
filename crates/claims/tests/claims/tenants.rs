//! Rights of callers, and the keys of tenants.

use axum::body::Body;
use axum::http::Request;
use semel_http::Role;
use serde_json::json;

use crate::batches;
use crate::site::{Site, assert_problem, claim_of};

const OPERATION: &str = "/v1/operations?operation=charge&key=pay-1";

#[tokio::test]
async fn nobody_is_served_without_a_caller() {
    let mut site = Site::new();
    site.caller = None;
    let answer = site.post("/v1/claims", &claim_of("pay-1", json!({}))).await;
    answer.problem(401, "unauthorized");
    site.get(OPERATION).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn a_viewer_reads_and_an_operator_claims() {
    let site = Site::new();
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    let viewer = site.as_caller(Role::Viewer, None);
    assert_eq!(viewer.get(OPERATION).await.status, 200);
    for (path, body) in [
        ("/v1/claims".to_owned(), claim_of("pay-1", json!({}))),
        ("/v1/claims/batch".to_owned(), json!({"claims": []})),
        ("/v1/settle/batch".to_owned(), json!({"settlements": []})),
        (format!("/v1/claims/{claim}/renew"), json!({})),
        (format!("/v1/claims/{claim}/start"), json!({})),
        (format!("/v1/claims/{claim}/complete"), json!({})),
        (format!("/v1/claims/{claim}/release"), json!({})),
        (format!("/v1/claims/{claim}/fail"), json!({})),
    ] {
        viewer.post(&path, &body).await.problem(403, "forbidden");
    }
    let operator = site.as_caller(Role::Operator, None);
    assert_eq!(
        operator.state_after(&claim, "complete", &json!({})).await,
        "completed"
    );
    assert_eq!(operator.get(OPERATION).await.status, 200);
}

#[tokio::test]
async fn a_role_is_asked_for_before_the_body() {
    let viewer = Site::new().as_caller(Role::Viewer, None);
    let request = Request::post("/v1/claims").header("content-type", "text/plain");
    let answer = viewer
        .send(request.body(Body::from("{")).expect("a request"))
        .await;
    answer.problem(403, "forbidden");
}

#[tokio::test]
async fn a_token_of_one_tenant_means_its_own_and_reaches_no_other() {
    let any = Site::new();
    let acme = any.as_caller(Role::Operator, Some("acme"));
    let other = any.as_caller(Role::Operator, Some("other"));
    let body = claim_of("pay-1", json!({}));
    let claim = acme.granted(&body).await;
    // Its own by name, too; and other tenants have keys of their own.
    let named = claim_of("pay-1", json!({"tenant": "acme"}));
    assert_eq!(acme.claim(&named).await["decision"], "busy");
    assert_eq!(any.claim(&named).await["decision"], "busy");
    assert_eq!(other.claim(&body).await["decision"], "granted");
    assert_eq!(any.claim(&body).await["decision"], "granted");

    other
        .post("/v1/claims", &named)
        .await
        .problem(403, "forbidden");
    for verb in ["renew", "start", "complete", "release", "fail"] {
        let answer = other.step(&claim, verb, &json!({})).await;
        answer.problem(403, "forbidden");
    }
    let path = format!("{OPERATION}&tenant=acme");
    other.get(&path).await.problem(403, "forbidden");
    assert_eq!(acme.get(&path).await.status, 200);
    assert_eq!(acme.get(OPERATION).await.json()["tenant"], "acme");
    assert_eq!(any.get(OPERATION).await.json()["tenant"], json!(null));
    let nobodys = any.granted(&claim_of("pay-2", json!({}))).await;
    acme.step(&nobodys, "complete", &json!({}))
        .await
        .problem(403, "forbidden");
    assert_eq!(
        acme.state_after(&claim, "complete", &json!({})).await,
        "completed"
    );
}

#[tokio::test]
async fn a_batch_that_crosses_tenants_is_refused_item_by_item() {
    let any = Site::new();
    let acme = any.as_caller(Role::Operator, Some("acme"));
    let answers = batches::claims(
        &acme,
        &[
            claim_of("a", json!({})),
            claim_of("a", json!({"tenant": "other"})),
            claim_of("b", json!({"tenant": "acme"})),
        ],
    )
    .await;
    assert_eq!(answers[0]["decision"], "granted");
    assert_problem(&answers[1], 403, "forbidden");
    assert_eq!(answers[2]["decision"], "granted");
    let others = any
        .granted(&claim_of("a", json!({"tenant": "other"})))
        .await;
    let answers = batches::steps(
        &acme,
        &[
            json!({"claim": others, "step": "complete"}),
            json!({"claim": answers[0]["claim"], "step": "complete"}),
        ],
    )
    .await;
    assert_problem(&answers[0], 403, "forbidden");
    assert_eq!(answers[1]["state"], "completed");
}
