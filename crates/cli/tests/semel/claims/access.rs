//! Tokens, and requests that are refused before anything is done.

use std::sync::Arc;

use serde_json::{Value, json};

use super::server::{Reply, Request, Server};
use crate::site::{Site, wait_for};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Makes a token; returns what goes into `Authorization`.
fn token(site: &Site, arguments: &str) -> String {
    let words = format!("token create {arguments} --output json");
    let words: Vec<_> = words.split(' ').collect();
    let made: Value = serde_json::from_str(&site.semel(&words).done().stdout).expect("JSON");
    format!("Bearer {}", made["token"].as_str().expect("a token"))
}

/// A server on all addresses, which has one token for an operator.
fn public() -> (Server, String) {
    let site = Site::new();
    site.write("semel.toml", "[claims]\nlisten = \"127.0.0.1:1\"\n");
    let operator = token(&site, "billing --role operator");
    let server = Server::start_at("0.0.0.0", Arc::new(site), "embedded:data", "", "");
    (server, operator)
}

fn claims(server: &Server, token: &str, tenant: Option<&str>) -> Reply {
    let mut claim = json!({ "operation": "charge", "key": "payment-1" });
    if let Some(tenant) = tenant {
        claim["tenant"] = json!(tenant);
    }
    let body = claim.to_string();
    server.ask(&Request {
        method: "POST",
        path: "/v1/claims",
        headers: vec![JSON, ("authorization", token)],
        body: body.as_bytes(),
    })
}

fn look(server: &Server, token: &str) -> Reply {
    server.ask(&Request {
        headers: vec![("authorization", token)],
        ..Request::get("/v1/operations?operation=charge&key=payment-1")
    })
}

#[test]
fn another_address_needs_a_token_of_the_right_role() {
    let (mut server, operator) = public();
    assert!(
        server.stderr().contains("for 1 token in"),
        "{}",
        server.stderr()
    );
    let bare = server.ask(&Request::get(
        "/v1/operations?operation=charge&key=payment-1",
    ));
    bare.is_problem(401, "unauthorized");
    assert!(
        bare.header("www-authenticate")
            .is_some_and(|it| it.starts_with("Bearer"))
    );
    claims(&server, "Bearer semel_00", None).is_problem(401, "unauthorized");
    assert_eq!(claims(&server, &operator, None).status, 200);
    assert_eq!(look(&server, &operator).status, 200);
    let viewer = token(server.site(), "watcher --role viewer");
    wait_for("the new token", || look(&server, &viewer).status == 200);
    claims(&server, &viewer, None).is_problem(403, "forbidden");
    assert_eq!(look(&server, &viewer).status, 200);
    server.stopped().done();
}

#[test]
fn a_token_is_made_and_revoked_while_the_server_runs() {
    let (mut server, operator) = public();
    let second = token(server.site(), "second --role operator");
    wait_for("the new token", || {
        claims(&server, &second, None).status == 200
    });
    let revoked = server
        .site()
        .semel(&["token", "revoke", "billing", "--yes"]);
    revoked.done();
    wait_for("the revocation", || {
        claims(&server, &operator, None).status == 401
    });
    assert_eq!(claims(&server, &second, None).status, 200);
    // What was known stays good when the file is damaged.
    let sound = server.site().text("semel-tokens.json");
    server.site().write("semel-tokens.json", "{");
    wait_for("a word about it", || server.stderr().contains("is damaged"));
    assert_eq!(claims(&server, &second, None).status, 200);
    claims(&server, &operator, None).is_problem(401, "unauthorized");
    server.site().write("semel-tokens.json", sound);
    wait_for("a word about the end", || {
        server.stderr().contains("has 1 token now")
    });
}

#[test]
fn a_token_of_one_tenant_reaches_no_other() {
    let (server, anybody) = public();
    let acme = token(server.site(), "acme --role operator --tenant acme");
    wait_for("the new token", || {
        claims(&server, &acme, None).status == 200
    });
    let own = claims(&server, &acme, Some("acme"));
    assert_eq!(own.body["decision"], "busy", "the same operation: {own:?}");
    claims(&server, &acme, Some("other")).is_problem(403, "forbidden");
    let other = claims(&server, &anybody, Some("other"));
    assert_eq!(
        other.body["decision"], "granted",
        "another operation: {other:?}"
    );
    let body = json!({ "claims": [
        { "operation": "charge", "key": "batch-1" },
        { "operation": "charge", "key": "batch-2", "tenant": "other" },
    ] });
    let mixed = server.ask(&Request {
        method: "POST",
        path: "/v1/claims/batch",
        headers: vec![JSON, ("authorization", &acme)],
        body: body.to_string().as_bytes(),
    });
    assert_eq!(mixed.status, 200, "{mixed:?}");
    assert_eq!(mixed.body["answers"][0]["decision"], "granted", "{mixed:?}");
    assert_eq!(mixed.body["answers"][1]["code"], "forbidden", "{mixed:?}");
}

#[test]
fn a_start_without_tokens_or_with_a_taken_address_is_refused() {
    let site = Site::new();
    site.write("semel.toml", "[claims]\nlisten = \"0.0.0.0:0\"\n");
    site.semel(&["run"])
        .code(2)
        .says("there is no token in semel-tokens.json")
        .says("semel token create NAME --role operator");
    let checked = site.semel(&["check", "--output", "json"]).code(1);
    let report: Value = serde_json::from_str(&checked.stdout).expect("JSON");
    assert_eq!(report["claims"], "0.0.0.0:0", "{report}");
    assert_eq!(report["findings"][0]["code"], "tokens-missing", "{report}");
    token(&site, "billing --role operator");
    let checked = site.semel(&["check"]).done();
    assert!(checked.stdout.contains("claims: ok"), "{checked:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    site.write("semel.toml", format!("[claims]\nlisten = \"{address}\"\n"));
    site.semel(&["run"])
        .code(3)
        .says("claims.listen:")
        .says("[address-in-use]")
        .says(&std::process::id().to_string());
    site.write("semel.toml", "[claims]\nlisten = \"192.0.2.1:8181\"\n");
    site.semel(&["run"])
        .code(2)
        .says("claims.listen: this machine does not have the address 192.0.2.1")
        .says("[invalid-config]");
    assert!(!site.path("semel-data").exists(), "nothing was begun");
}

#[test]
fn bad_requests_are_problems() {
    let server = Server::start("embedded:data", "max_body = \"64KiB\"\n");
    let claim = br#"{"operation":"charge","key":"payment-1"}"#;
    let post = |path, headers: &[(&'static str, &'static str)], body: &[u8]| {
        server.ask(&Request {
            method: "POST",
            path,
            headers: headers.to_vec(),
            body,
        })
    };
    let text = ("content-type", "text/plain");
    assert_eq!(post("/v1/claims", &[text], claim).status, 415);
    assert_eq!(post("/v1/claims", &[], claim).status, 415);
    assert_eq!(post("/v1/nothing", &[JSON], claim).status, 404);
    let wrong = server.ask(&Request::get("/v1/claims").with_method("PUT"));
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    post("/v1/claims", &[JSON], b"{").is_problem(400, "invalid-input");
    let large = vec![b' '; 70_000];
    post("/v1/claims", &[JSON], &large).is_problem(413, "body-too-large");
    let evil = ("host", "evil.example");
    post("/v1/claims", &[JSON, evil], claim).is_problem(403, "host-refused");
    let page = ("origin", "https://evil.example");
    post("/v1/claims", &[JSON, page], claim).is_problem(403, "origin-refused");
    let wrong = ("authorization", "Bearer semel_00");
    post("/v1/claims", &[JSON, wrong], claim).is_problem(401, "unauthorized");
    assert_eq!(post("/v1/claims", &[JSON], claim).status, 200);
}
