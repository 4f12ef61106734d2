//! `[gateway] claims = true`: the claim API at the address of a gateway, beside the API behind it.

use serde_json::{Value, json};

use super::server::{Gateway, Reply};
use super::upstream::Upstream;
use crate::site::{Site, wait_for};

/// The gateway of these tests is called by the name that a proxy before it would hand on.
const SERVED: &str = "claims = true\n[claims]\nhosts = [\"api.example\"]\n";

fn post(gateway: &Gateway, path: &str, body: &Value) -> Reply {
    gateway.ask("POST", path, &[], &body.to_string())
}

fn claim() -> Value {
    json!({ "operation": "charge", "key": "payment-1", "class": "unkeyed" })
}

#[test]
fn claims_are_answered_and_everything_else_is_passed_on() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(&upstream, SERVED);
    let place = format!("claims: http://127.0.0.1:{}/v1/claims", gateway.port());
    // The gateway serves from the beginning, and says so first.
    wait_for("the line", || gateway.stderr().contains(&place));
    let granted = post(&gateway, "/v1/claims", &claim());
    assert_eq!(granted.json()["decision"], "granted", "{granted:?}");
    let name = granted.json()["claim"].as_str().map(str::to_owned);
    let step = format!("/v1/claims/{}/complete", name.expect("a claim"));
    let done = post(&gateway, &step, &json!({ "outcome": 7 }));
    assert_eq!(done.json()["state"], "completed", "{done:?}");
    let batch = json!({ "claims": [claim()] });
    let replayed = post(&gateway, "/v1/claims/batch", &batch);
    assert_eq!(replayed.json()["answers"][0]["outcome"], 7, "{replayed:?}");
    let settled = post(&gateway, "/v1/settle/batch", &json!({ "settlements": [] }));
    assert_eq!(settled.status, 200, "{settled:?}");
    let found = "/v1/operations?operation=charge&key=payment-1";
    let found = gateway.ask("GET", found, &[], "");
    assert_eq!(found.json()["state"], "completed", "{found:?}");
    let described = gateway.ask("GET", "/v1/openapi.json", &[], "");
    assert_eq!(described.json()["openapi"], "3.1.0", "{described:?}");
    // What the API does not have is no path of the upstream, and a key changes nothing.
    for path in ["/v1/claims/a/b", "/v1/settle", "/v1/operations/x"] {
        let key = [("idempotency-key", "k")];
        let reply = gateway.ask("POST", path, &key, "{}");
        assert_eq!(
            reply.code().as_deref(),
            Some("path-unknown"),
            "{path}: {reply:?}"
        );
    }
    // Nor does another way to write a path get around it, in either direction.
    for path in [
        "//v1/claims",
        "/x/../v1/claims",
        "/v1/%63laims",
        "/v1/claims/../charges",
    ] {
        post(&gateway, path, &claim()).is_problem(400, "invalid-input");
    }
    assert_eq!(upstream.arrivals().len(), 0, "{:?}", upstream.arrivals());
    for path in [
        "/v1/charges",
        "/v1/claims-of-others",
        "/v1",
        "/v1/settlements",
    ] {
        assert_eq!(post(&gateway, path, &claim()).status, 201, "{path}");
    }
    assert_eq!(upstream.arrivals().len(), 4);
    let shown = ["keys", "show", "payment-1", "--pipeline", "charge"];
    gateway.site().semel(&shown).done();
    gateway.stopped().done();
}

#[test]
fn without_the_setting_they_are_paths_of_the_upstream() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&upstream, "");
    assert_eq!(post(&gateway, "/v1/claims", &claim()).status, 201);
    assert_eq!(upstream.arrivals().len(), 1);
}

#[test]
fn names_and_pages_are_checked_for_claims_alone() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&upstream, "claims = true\n");
    // A page that has its own name point here would get in by it.
    post(&gateway, "/v1/claims", &claim()).is_problem(403, "host-refused");
    assert_eq!(post(&gateway, "/charges", &claim()).status, 201);
    let gateway = Gateway::start(&upstream, SERVED);
    let page = [("origin", "https://evil.example")];
    let body = claim().to_string();
    let refused = gateway.ask("POST", "/v1/claims", &page, &body);
    refused.is_problem(403, "origin-refused");
    assert_eq!(gateway.ask("POST", "/charges", &page, &body).status, 201);
    let wrong = [("authorization", "Bearer semel_00")];
    let refused = gateway.ask("POST", "/v1/claims", &wrong, &body);
    refused.is_problem(401, "unauthorized");
    assert_eq!(gateway.ask("POST", "/charges", &wrong, &body).status, 201);
}

#[test]
fn another_address_needs_a_token_for_claims_alone() {
    let upstream = Upstream::start();
    let site = Site::new();
    let text =
        "[gateway]\nlisten = \"0.0.0.0:0\"\nupstream = \"http://127.0.0.1:9\"\nclaims = true\n";
    site.write("semel.toml", text);
    site.semel(&["run"])
        .code(2)
        .says("gateway.listen: 0.0.0.0:0 is no loopback address")
        .says("semel token create NAME --role operator");
    let checked = site.semel(&["check", "--output", "jsonl"]).code(1);
    let reports = checked
        .stdout
        .lines()
        .map(|it| serde_json::from_str(it).expect("JSON"));
    let report = reports
        .into_iter()
        .find(|it: &Value| it.get("claims").is_some());
    let report = report.expect("a report of claims");
    assert_eq!(report["listener"], "gateway.listen", "{report}");
    assert_eq!(report["findings"][0]["code"], "tokens-missing", "{report}");
    let checked = site.semel(&["config", "check"]).done();
    assert!(
        checked.stdout.contains("claims at 0.0.0.0:0"),
        "{checked:?}"
    );
    let made = "token create billing --role operator --tenant acme --output json";
    let made: Vec<_> = made.split(' ').collect();
    let made: Value = serde_json::from_str(&site.semel(&made).done().stdout).expect("JSON");
    let token = format!("Bearer {}", made["token"].as_str().expect("a token"));
    let mut gateway = Gateway::begin_at(
        "0.0.0.0",
        site,
        "embedded:data",
        &upstream.url(),
        "claims = true\n",
    );
    gateway.serves();
    let bare = post(&gateway, "/v1/claims", &claim());
    bare.is_problem(401, "unauthorized");
    assert!(bare.header("www-authenticate").is_some(), "{bare:?}");
    let headers = [("authorization", &*token)];
    let granted = gateway.ask("POST", "/v1/claims", &headers, &claim().to_string());
    assert_eq!(granted.json()["decision"], "granted", "{granted:?}");
    let mut other = claim();
    other["tenant"] = json!("other");
    let refused = gateway.ask("POST", "/v1/claims", &headers, &other.to_string());
    refused.is_problem(403, "forbidden");
    assert_eq!(upstream.arrivals().len(), 0);
    // The API behind it knows its own callers.
    assert_eq!(post(&gateway, "/charges", &claim()).status, 201);
    gateway.stopped().done();
}

#[test]
fn both_addresses_are_one_service() {
    let upstream = Upstream::start();
    let port = free_port::take().expect("a free port");
    let gateway = Gateway::start(
        &upstream,
        &format!("{SERVED}listen = \"127.0.0.1:{port}\"\n"),
    );
    let granted = post(&gateway, "/v1/claims", &claim());
    assert_eq!(granted.json()["decision"], "granted", "{granted:?}");
    let body = claim().to_string();
    let other = super::server::send(port, "POST", "/v1/claims", &[], &body);
    let other = other.expect("an answer");
    assert_eq!(other.json()["decision"], "busy", "{other:?}");
    gateway.stopped().done();
}
