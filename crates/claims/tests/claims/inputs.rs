//! Requests that cannot be meant are refused, with the pointer to what is wrong, and change nothing.

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::json;

use crate::site::{Answer, Site, claim_of};

/// Members beside `operation` and `key`, as text, and the pointer to what is wrong with them.
const CLAIMS: &[(&str, &str)] = &[
    (r#""leese":"30s""#, "/leese"),
    (r#""a/b~c":1"#, "/a~1b~0c"),
    (r#""lease":"30s","lease":"30s""#, "/lease"),
    (r#""operation":"charge""#, "/operation"),
    (r#""lease":null"#, "/lease"),
    (r#""lease":30"#, "/lease"),
    (r#""lease":"0s""#, "/lease"),
    (r#""lease":"0ms""#, "/lease"),
    (r#""lease":"-1s""#, "/lease"),
    (r#""lease":"30""#, "/lease"),
    (r#""lease":"1.5s""#, "/lease"),
    (r#""lease":"13h""#, "/lease"),
    (r#""lease":"""#, "/lease"),
    (r#""window":"0s""#, "/window"),
    (r#""window":null"#, "/window"),
    (r#""window":"99999999999999999999d""#, "/window"),
    (r#""window":"90000d""#, "/window"),
    (r#""wait":"6m""#, "/wait"),
    (r#""wait":null"#, "/wait"),
    (r#""wait":5"#, "/wait"),
    (r#""class":"keyed""#, "/provider_window"),
    (
        r#""class":"keyed","provider_window":"0s""#,
        "/provider_window",
    ),
    (
        r#""class":"keyed","provider_window":null"#,
        "/provider_window",
    ),
    (
        r#""class":"unkeyed","provider_window":"24h""#,
        "/provider_window",
    ),
    (r#""provider_window":"24h""#, "/provider_window"),
    (
        r#""class":"keyed","provider_window":"24h","on_doubt":"park""#,
        "/on_doubt",
    ),
    (r#""on_doubt":"park""#, "/on_doubt"),
    (r#""class":"unkeyed","on_doubt":"maybe""#, "/on_doubt"),
    (r#""class":"unkeyed","on_doubt":null"#, "/on_doubt"),
    (r#""class":"transactional""#, "/class"),
    (r#""class":null"#, "/class"),
    (r#""entity":"order-9""#, "/version"),
    (r#""version":3"#, "/entity"),
    (r#""entity":"order-9","version":-1"#, "/version"),
    (r#""entity":"order-9","version":1.5"#, "/version"),
    (r#""entity":"order-9","version":"3""#, "/version"),
    (
        r#""entity":"order-9","version":18446744073709551616"#,
        "/version",
    ),
    (r#""entity":"order-9","version":1e999999999"#, "/version"),
    (r#""entity":{},"version":3"#, "/entity"),
    (r#""entity":"","version":3"#, "/entity"),
    (r#""tenant":"""#, "/tenant"),
    (r#""tenant":null"#, "/tenant"),
    (r#""tenant":7"#, "/tenant"),
    (r#""tenant":"a\u0000b""#, "/tenant"),
    (r#""transport":"""#, "/transport"),
    (r#""transport":null"#, "/transport"),
    (r#""transport":1"#, "/transport"),
    (r#""birth":"yesterday""#, "/birth"),
    (r#""birth":"2026-13-01T00:00:00Z""#, "/birth"),
    (r#""birth":"2026-11-20""#, "/birth"),
    (r#""birth":"1795255200""#, "/birth"),
    (r#""birth":" 2026-11-20T10:00:00Z""#, "/birth"),
    (r#""birth":1795255200"#, "/birth"),
    (r#""birth":null"#, "/birth"),
    (r#""claim_id":"00112233""#, "/claim_id"),
    (
        r#""claim_id":"+0112233445566778899aabbccddeeff""#,
        "/claim_id",
    ),
    (
        r#""claim_id":"0x112233445566778899aabbccddeeff""#,
        "/claim_id",
    ),
    (r#""claim_id":null"#, "/claim_id"),
    (r#""fingerprint":{"a":1,"a":1}"#, "/fingerprint"),
    (
        r#""fingerprint":{"a":[{"b":1,"\u0062":2}]}"#,
        "/fingerprint",
    ),
    (r#""fingerprint":1e999999999"#, "/fingerprint"),
    (r#""fingerprint":{"a":1e-2000}"#, "/fingerprint"),
];

/// Operation and key, as text, and the pointer.
const KEYS: &[(&str, &str)] = &[
    ("", "/operation"),
    (r#""operation":"charge""#, "/key"),
    (r#""key":"pay-1""#, "/operation"),
    (r#""operation":"","key":"k""#, "/operation"),
    (r#""operation":null,"key":"k""#, "/operation"),
    (r#""operation":1,"key":"k""#, "/operation"),
    (r#""operation":"a\nb","key":"k""#, "/operation"),
    (r#""operation":"semel-pause","key":"k""#, "/operation"),
    (r#""operation":"semel-drain","key":"k""#, "/operation"),
    (r#""operation":"charge","key":null"#, "/key"),
    (r#""operation":"charge","key":true"#, "/key"),
    (r#""operation":"charge","key":["a"]"#, "/key"),
    (r#""operation":"charge","key":{"a":1}"#, "/key"),
    (r#""operation":"charge","key":"""#, "/key"),
    (r#""operation":"charge","key":"  ""#, "/key"),
    (r#""operation":"charge","key":"a\u0007""#, "/key"),
    (r#""operation":"charge","key":1e999999999"#, "/key"),
    (r#""operation":"charge","key":"k","key":"k""#, "/key"),
];

/// Bodies that are no JSON object.
const BODIES: &[&str] = &[
    "[]",
    "1",
    "null",
    "\"x\"",
    "{",
    "{}{}",
    "{'a':1}",
    "\u{feff}{}",
    "{\"a\":01}",
    "{\"a\":\"\\ud800\"}",
    "NaN",
    "{\"a\":1,}",
    "// {}",
];

fn refused(answer: &Answer, pointer: &str, body: &str) {
    let problem = answer.problem(400, "invalid-input");
    assert_eq!(problem["pointer"], pointer, "{body}: {problem}");
}

#[tokio::test]
async fn each_bad_claim_is_refused_where_it_is_wrong() {
    let site = Site::new();
    let claims = CLAIMS.iter().map(|(more, pointer)| {
        let body = format!(r#"{{"operation":"charge","key":"pay-1",{more}}}"#);
        (body, *pointer)
    });
    let keys = KEYS
        .iter()
        .map(|(members, pointer)| (format!("{{{members}}}"), *pointer));
    for (body, pointer) in claims.chain(keys) {
        refused(
            &site.post_text("/v1/claims", body.clone()).await,
            pointer,
            &body,
        );
        // The same in a batch, item by item.
        let text = format!(r#"{{"claims":[{{"operation":"x","key":1}},{body}]}}"#);
        let answer = site.post_text("/v1/claims/batch", text).await;
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        let problem = &answer.json()["answers"][1];
        assert_eq!(problem["code"], "invalid-input", "{body}");
        assert_eq!(problem["pointer"], format!("/claims/1{pointer}"), "{body}");
    }
    let nothing = site.get("/v1/operations?operation=charge&key=pay-1").await;
    nothing.problem(404, "key-unknown");
}

#[tokio::test]
async fn limits_of_length_are_those_of_a_pipeline() {
    let site = Site::new();
    for (name, most) in [
        ("operation", 255),
        ("key", 1_024),
        ("tenant", 255),
        ("transport", 1_024),
    ] {
        let of = |length: usize| claim_of("pay-1", json!({name: "x".repeat(length)}));
        assert_eq!(site.claim(&of(most)).await["decision"], "granted", "{name}");
        let answer = site.post("/v1/claims", &of(most + 1)).await;
        refused(&answer, &format!("/{name}"), name);
    }
    let name = "x".repeat(100);
    let answer = site
        .post("/v1/claims", &claim_of("k", json!({&name: 1})))
        .await;
    refused(&answer, &format!("/{}…", &name[..64]), "a long name");
}

#[tokio::test]
async fn what_is_no_json_object_is_refused() {
    let site = Site::new();
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    let step = format!("/v1/claims/{claim}/complete");
    for path in ["/v1/claims", "/v1/claims/batch", "/v1/settle/batch", &step] {
        for &body in BODIES {
            refused(
                &site.post_text(path, body).await,
                "",
                &format!("{path} {body}"),
            );
        }
        let nested = "[".repeat(200) + &"]".repeat(200);
        refused(&site.post_text(path, nested).await, "", path);
        let invalid = Body::from(&b"{\"a\":\"\xff\"}"[..]);
        refused(&site.post_text(path, invalid).await, "", path);
    }
    for (path, member) in [
        ("/v1/claims/batch", "claims"),
        ("/v1/settle/batch", "settlements"),
    ] {
        refused(
            &site.post_text(path, "{}").await,
            &format!("/{member}"),
            path,
        );
        let answer = site.post(path, &json!({member: {}})).await;
        refused(&answer, &format!("/{member}"), path);
        let answer = site.post(path, &json!({member: [], "wait": "1s"})).await;
        refused(&answer, "/wait", path);
    }
}

#[tokio::test]
async fn each_bad_step_is_refused_where_it_is_wrong() {
    let site = Site::new();
    let claim = site
        .granted(&claim_of("pay-1", json!({"class": "unkeyed"})))
        .await;
    for (verb, body, pointer) in [
        ("renew", r#"{"lease":"0s"}"#, "/lease"),
        ("renew", r#"{"lease":null}"#, "/lease"),
        ("renew", r#"{"lease":"13h"}"#, "/lease"),
        ("renew", r#"{"window":"1d"}"#, "/window"),
        ("start", r#"{"lease":"1s"}"#, "/lease"),
        ("start", r#"{"claim":"x"}"#, "/claim"),
        ("complete", r#"{"step":"complete"}"#, "/step"),
        ("complete", r#"{"outcome":1,"outcome":1}"#, "/outcome"),
        (
            "complete",
            r#"{"outcome":1,"outcome_base64":""}"#,
            "/outcome_base64",
        ),
        ("complete", r#"{"outcome_base64":null}"#, "/outcome_base64"),
        ("complete", r#"{"outcome_base64":"e30"}"#, "/outcome_base64"),
        (
            "complete",
            r#"{"outcome_base64":"e31="}"#,
            "/outcome_base64",
        ),
        (
            "complete",
            r#"{"outcome_base64":"_-==" }"#,
            "/outcome_base64",
        ),
        (
            "complete",
            r#"{"content_type":"text/plain"}"#,
            "/content_type",
        ),
        (
            "complete",
            r#"{"outcome":1,"content_type":"text/plain"}"#,
            "/content_type",
        ),
        (
            "complete",
            r#"{"outcome_base64":"","content_type":""}"#,
            "/content_type",
        ),
        (
            "complete",
            r#"{"outcome_base64":"","content_type":"a\r\nb"}"#,
            "/content_type",
        ),
        ("complete", r#"{"window":"0s"}"#, "/window"),
        ("complete", r#"{"window":null}"#, "/window"),
        ("complete", r#"{"result":1}"#, "/result"),
        ("release", r#"{"error":null}"#, "/error"),
        ("release", r#"{"error":7}"#, "/error"),
        ("release", r#"{"certainty":"perhaps"}"#, "/certainty"),
        ("release", r#"{"certainty":null}"#, "/certainty"),
        ("release", r#"{"not_before":"5s"}"#, "/not_before"),
        (
            "release",
            r#"{"not_before":"2999-01-01T00:00:00Z"}"#,
            "/not_before",
        ),
        ("release", r#"{"not_before":null}"#, "/not_before"),
        ("release", r#"{"decisive":true}"#, "/decisive"),
        ("fail", r#"{"decisive":1}"#, "/decisive"),
        ("fail", r#"{"decisive":null}"#, "/decisive"),
        (
            "fail",
            r#"{"decisive":true,"certainty":"maybe_applied"}"#,
            "/decisive",
        ),
        (
            "fail",
            r#"{"not_before":"2026-11-21T10:00:00Z"}"#,
            "/not_before",
        ),
    ] {
        let path = format!("/v1/claims/{claim}/{verb}");
        refused(
            &site.post_text(&path, body).await,
            pointer,
            &format!("{verb} {body}"),
        );
    }
    let record = site
        .get("/v1/operations?operation=charge&key=pay-1")
        .await
        .json();
    assert_eq!(record["state"], "started", "nothing of it counted");
}

#[tokio::test]
async fn what_is_no_claim_is_refused() {
    let site = Site::new();
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    let changed = format!("{}{}", &claim[1..], &claim[..1]);
    let cut = &claim[..claim.len() - 1];
    for no_claim in [
        "x",
        "batch",
        "AA",
        "%00",
        "%ff",
        "..",
        &changed,
        cut,
        &"A".repeat(5_000),
    ] {
        let answer = site.step(no_claim, "complete", &json!({})).await;
        answer.problem(400, "invalid-input");
    }
}

#[tokio::test]
async fn bad_look_ups_are_refused() {
    let site = Site::new();
    for (query, pointer) in [
        ("", "/operation"),
        ("?operation=charge", "/key"),
        ("?key=a", "/operation"),
        ("?operation=charge&key=", "/key"),
        ("?operation=charge&key=a&key=b", "/key"),
        ("?operation=charge&key=json:nonsense", "/key"),
        ("?operation=charge&key=json:true", "/key"),
        ("?operation=&key=a", "/operation"),
        ("?operation=a%00&key=a", "/operation"),
        ("?operation=charge&key=a&tenant=", "/tenant"),
        ("?operation=charge&key=a&tenant=%0a", "/tenant"),
        ("?operation=charge&key=a&verbose=1", ""),
    ] {
        let answer = site.get(&format!("/v1/operations{query}")).await;
        refused(&answer, pointer, query);
    }
    let unknown = site.get("/v1/operations?operation=charge&key=a").await;
    unknown.problem(404, "key-unknown");
}

#[tokio::test]
async fn a_look_up_spells_keys_as_the_command_line_does() {
    let site = Site::new();
    for (key, spelled) in [
        (json!(1), "json:1"),
        (json!("1"), "1"),
        (json!("json:1"), "json:%22json:1%22"),
        (json!("a b+c&d"), "a+b%2Bc%26d"),
        (json!("ä"), "%C3%A4"),
    ] {
        site.granted(&claim_of(key.clone(), json!({"lease": "10s"})))
            .await;
        let path = format!("/v1/operations?operation=charge&key={spelled}");
        let record = site.get(&path).await.json();
        assert_eq!(record["state"], "claimed", "{key}: {record}");
        assert_eq!(record["lease_until"], site.at(10));
        assert_eq!(record["operation_id"].as_str().map(str::len), Some(64));
    }
}

#[tokio::test]
async fn bodies_are_json_by_their_content_type() {
    let site = Site::new();
    let body = claim_of("pay-1", json!({})).to_string();
    let send = async |content_type: &[&str], body: &str| {
        let mut request = Request::post("/v1/claims");
        for &value in content_type {
            request = request.header("content-type", value);
        }
        site.send(
            request
                .body(Body::from(body.to_owned()))
                .expect("a request"),
        )
        .await
    };
    for content_type in [
        "application/json",
        "Application/JSON; charset=UTF-8",
        "application/json;charset=\"utf-8\"",
        "application/vnd.acme+json",
    ] {
        assert_eq!(
            send(&[content_type], &body).await.status,
            200,
            "{content_type}"
        );
    }
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin1",
        "json",
        "",
    ] {
        send(&[content_type], &body)
            .await
            .problem(415, "unsupported-media-type");
    }
    send(&[], &body)
        .await
        .problem(415, "unsupported-media-type");
    send(&["text/plain"], "")
        .await
        .problem(415, "unsupported-media-type");
    send(&["application/json", "text/plain"], &body)
        .await
        .problem(400, "invalid-input");
    // Without a body there is nothing that could be JSON or not; but members are missing.
    refused(&send(&[], "").await, "/operation", "");
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let site = Site::with(|mut settings| {
        settings.max_body_bytes = 1_000;
        settings
    });
    let body = |length: usize| claim_of("k", json!({"fingerprint": "x".repeat(length)}));
    assert_eq!(site.post("/v1/claims", &body(900)).await.status, 200);
    for path in [
        "/v1/claims",
        "/v1/claims/batch",
        "/v1/settle/batch",
        "/v1/claims/x/complete",
    ] {
        site.post(path, &body(1_000))
            .await
            .problem(413, "body-too-large");
    }
}

#[tokio::test]
async fn another_method_is_405_and_another_path_404() {
    let site = Site::new();
    let send = async |method: Method, path: &str| {
        let request = Request::builder().method(method).uri(path);
        site.send(request.body(Body::empty()).expect("a request"))
            .await
    };
    for (path, allow) in [
        ("/v1/claims", "POST"),
        ("/v1/claims/batch", "POST"),
        ("/v1/settle/batch", "POST"),
        ("/v1/claims/x/complete", "POST"),
        ("/v1/operations", "GET,HEAD"),
        ("/v1/openapi.json", "GET,HEAD"),
    ] {
        for method in [Method::DELETE, Method::PUT, Method::OPTIONS, Method::PATCH] {
            let answer = send(method.clone(), path).await;
            answer.problem(405, "method-not-allowed");
            assert_eq!(answer.headers["allow"], allow, "{method} {path}");
        }
    }
    for path in [
        "/",
        "/v1",
        "/v1/claims/",
        "/v1/claim",
        "/v1/claims/x",
        "/v1/claims/x/explode",
        "/v2/claims",
        "/v1/claims/x/complete/y",
    ] {
        for method in [Method::GET, Method::POST] {
            send(method, path).await.problem(404, "path-unknown");
        }
    }
}
