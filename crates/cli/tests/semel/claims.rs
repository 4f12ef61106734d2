//! `semel run` with `[claims]`: claims over plain HTTP, and the process behind them killed, stopped and started again.

mod access;
pub(crate) mod server;
mod traces;
mod verbs;

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ready::Admin;
use crate::site::{Site, wait_for};
use server::Server;

/// A claim of class `unkeyed`, whose start is durable before it is answered.
fn claim(key: &str, claim_id: &str) -> Value {
    json!({ "operation": "charge", "key": key, "class": "unkeyed", "on_doubt": "park", "claim_id": claim_id })
}

const FIRST: &str = "00000000000000000000000000000001";
const SECOND: &str = "00000000000000000000000000000002";

#[test]
fn a_claim_is_granted_completed_and_replayed() {
    for store in ["embedded:data", "sqlite:claims.db"] {
        let server = Server::start(store, "");
        let granted = server.claims(
            &json!({ "operation": "charge", "key": "payment-1", "fingerprint": { "amount": 1 } }),
        );
        assert_eq!(granted["decision"], "granted", "{granted}");
        let busy = server.claims(
            &json!({ "operation": "charge", "key": "payment-1", "fingerprint": { "amount": 1 } }),
        );
        assert_eq!(busy["decision"], "busy", "{busy}");
        let done = server.step(
            &granted,
            "complete",
            &json!({ "outcome": { "receipt": 7 } }),
        );
        assert_eq!(done.status, 200, "{done:?}");
        let replay = server.claims(
            &json!({ "operation": "charge", "key": "payment-1", "fingerprint": { "amount": 1 } }),
        );
        assert_eq!(replay["decision"], "replay", "{replay}");
        assert_eq!(replay["outcome"], json!({ "receipt": 7 }));
        let other = server.claims(
            &json!({ "operation": "charge", "key": "payment-1", "fingerprint": { "amount": 2 } }),
        );
        assert_eq!(other["decision"], "conflict", "{other}");
        server.stopped().done();
    }
}

#[test]
fn the_start_says_where_claims_are_served_and_the_verbs_know_their_keys() {
    let mut server = Server::start("embedded:data", "");
    assert!(
        server
            .stderr()
            .contains("open to every program of this machine"),
        "{}",
        server.stderr()
    );
    let granted = server.claims(&claim("payment-1", FIRST));
    server.step(&granted, "complete", &json!({ "outcome": "ok" }));
    let site = server.site();
    let shown = site.semel(&["keys", "show", "payment-1", "--output", "json"]);
    let shown: Value = serde_json::from_str(&shown.done().stdout).expect("JSON");
    assert_eq!(shown["state"], "completed", "{shown}");
    assert_eq!(shown["pipeline"], "charge", "{shown}");
    site.semel(&["keys", "explain", "payment-1"]).done();
    site.semel(&["config", "check"]).done();
}

#[test]
fn a_lost_answer_is_asked_again_after_a_kill() {
    let mut server = Server::start("embedded:data", "");
    let granted = server.claims(&claim("payment-1", FIRST));
    assert_eq!(granted["decision"], "granted", "{granted}");
    server.killed_and_started();
    let again = server.claims(&claim("payment-1", FIRST));
    assert_eq!(
        (&again["decision"], &again["resumed"]),
        (&json!("granted"), &json!(true)),
        "{again}"
    );
    assert_eq!(again["token"], granted["token"]);
    server.killed_and_started();
    let done = server.step(&granted, "complete", &json!({ "outcome": 1 }));
    assert_eq!(done.status, 200, "{done:?}");
    server.killed_and_started();
    let repeated = server.step(&granted, "complete", &json!({ "outcome": 1 }));
    assert_eq!(repeated.status, 200, "it is harmless: {repeated:?}");
    let replay = server.claims(&claim("payment-1", SECOND));
    assert_eq!(
        (&replay["decision"], &replay["outcome"]),
        (&json!("replay"), &json!(1)),
        "{replay}"
    );
}

#[test]
fn a_lease_outlives_the_server_and_ends_when_its_time_is_over() {
    for store in ["embedded:data", "sqlite:claims.db"] {
        let mut server = Server::start(store, "lease = \"3s\"\n");
        let granted = server.claims(&claim("payment-1", FIRST));
        assert_eq!(granted["decision"], "granted", "{granted}");
        server.killed_and_started();
        let other = server.claims(&claim("payment-1", SECOND));
        assert_eq!(other["decision"], "busy", "{store}: {other}");
        wait_for("the end of the lease", || {
            server.claims(&claim("payment-1", SECOND))["decision"] != "busy"
        });
        // The effect may have begun, and nobody could recognise it.
        let parked = server.claims(&claim("payment-1", SECOND));
        assert_eq!(parked["decision"], "parked", "{store}: {parked}");
        // Nobody else was granted the key, so that its own claim settles the doubt, and that stays.
        let late = server.step(&granted, "complete", &json!({ "outcome": 1 }));
        assert_eq!(late.status, 200, "{store}: {late:?}");
        assert_eq!(late.body["state"], "completed", "{store}: {late:?}");
        server.killed_and_started();
        let replay = server.claims(&claim("payment-1", SECOND));
        assert_eq!(
            (&replay["decision"], &replay["outcome"]),
            (&json!("replay"), &json!(1)),
            "{store}: {replay}"
        );
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "how soon it ends is the question"
)]
fn a_stop_answers_a_claim_that_waits() {
    let server = Server::start("embedded:data", "");
    server.claims(&claim("payment-1", FIRST));
    let mut waiting = claim("payment-1", SECOND);
    waiting["wait"] = json!("60s");
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.post("/v1/claims", &waiting));
        sleep(Duration::from_millis(500));
        let began = Instant::now();
        server.signal(Signal::TERM);
        let answer = asked.join().expect("no panic");
        assert_eq!(
            (answer.status, &answer.body["decision"]),
            (200, &json!("busy")),
            "{answer:?}"
        );
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    });
    server.ended().done();
}

#[test]
fn pipelines_run_beside_claims_and_claims_outlast_them() {
    let pipeline = "[pipelines.p]\nkey = \"line\"\nsource = { kind = \"file\", path = \"in\" }\n\
                    effect = { kind = \"file\", path = \"out\" }\n";
    let admin = Admin::new();
    let pipeline = pipeline.to_owned() + &admin.table();
    let site = Site::with(&[("in", "a\nb\na\n")]);
    let server = Server::start_in(site, "embedded:data", "", &pipeline);
    wait_for("the pipeline", || server.site().text("out") == "a\nb\n");
    let replayed = "semel_deliveries_total{pipeline=\"p\",fate=\"replayed\"} 1";
    wait_for("the duplicate", || admin.shows(replayed));
    let granted = server.claims(&claim("payment-1", FIRST));
    assert_eq!(granted["decision"], "granted", "{granted}");
    server
        .stopped()
        .done()
        .summary()
        .is(&[("applied", 2), ("replayed", 1)]);
}

#[test]
fn calls_of_clients_are_counted_and_the_store_is_watched() {
    let admin = Admin::new();
    let server = Server::start_in(Site::new(), "embedded:data", "", &admin.table());
    wait_for("a server that is ready", || admin.ready().0);
    assert_eq!(admin.ready().1["claims"]["state"], "running");
    let granted = server.claims(&claim("payment-1", FIRST));
    server.step(&granted, "complete", &json!({ "outcome": 1 }));
    let counted = |call: &str| {
        let metrics = admin.metrics();
        let of_call = format!("call=\"{call}\"");
        let mut lines = metrics.lines();
        lines.any(|it| {
            it.starts_with("semel_store_call_seconds_count")
                && it.contains(&of_call)
                && !it.ends_with(" 0")
        })
    };
    assert!(counted("claim") && counted("settle"), "{}", admin.metrics());
    let audit = std::fs::remove_dir_all(server.site().path("data"));
    audit.expect("the store is gone");
    server.ended().code(3);
}

#[test]
fn two_servers_share_a_store() {
    let one = Server::start("sqlite:claims.db", "");
    let two = one.beside();
    let granted = one.claims(&claim("payment-1", FIRST));
    assert_eq!(granted["decision"], "granted", "{granted}");
    assert_eq!(two.claims(&claim("payment-1", SECOND))["decision"], "busy");
    assert_eq!(
        two.step(&granted, "complete", &json!({ "outcome": 5 }))
            .status,
        200
    );
    let replay = one.claims(&claim("payment-1", SECOND));
    assert_eq!(
        (&replay["decision"], &replay["outcome"]),
        (&json!("replay"), &json!(5)),
        "{replay}"
    );
}
