//! Relays that are paused, drained and resumed, by verb and over HTTP, on several machines and through crashes.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::claims::server::{Reply, Request, ask};
use crate::operator::items;
use crate::outbox_shop::Shop;
use crate::ready::Admin;
use crate::site::{Site, wait_for};

/// Gives an order about the relay by its verb, with the plan before it.
#[track_caller]
fn order(site: &Site, verb: &str) {
    site.semel(&["pipelines", verb, "out"])
        .code(1)
        .says(&format!("plan: {verb} 1 relay\n"))
        .says("nothing was changed");
    let words = ["--yes", "--by", "ada", "--reason", "INC-7"];
    let given = site.semel(&[&["pipelines", verb, "out", "--output", "json"][..], &words].concat());
    let given = items(&given.done());
    assert_eq!(given[0]["relay"], true, "{given:?}");
    assert_eq!(given[0]["pipeline"], "out", "{given:?}");
}

/// The relay, as `/readyz` tells.
fn told(admin: &Admin) -> Value {
    let (is_ready, said) = admin.ready();
    let relay = said["relays"]["out"].clone();
    // An order is no trouble.
    let is_known = !matches!(relay["state"].as_str(), None | Some("starting"));
    assert!(is_ready || !is_known, "{said}");
    relay
}

#[track_caller]
fn is(admin: &Admin, state: &str) {
    wait_for(state, || told(admin)["state"] == state);
}

fn post(admin: &Admin, path: &str, body: &Value) -> Reply {
    let body = body.to_string();
    let request = Request {
        headers: vec![("content-type", "application/json")],
        body: body.as_bytes(),
        ..Request::get(path).with_method("POST")
    };
    ask(admin.address().port(), &request)
}

/// Pauses a relay that two workers run, of which one is killed, and lets it go on; drains it, and lets it go on.
#[track_caller]
pub(crate) fn a_relay_is_paused_wherever_it_runs(shop: &impl Shop) {
    let (site, admin) = (shop.site(), Admin::new());
    let config = site.text("semel.toml");
    site.write("other.toml", &config);
    site.write("semel.toml", admin.table() + &config);
    let has = |lines: usize| wait_for("what is to be published", || shop.lines() == lines);
    let mut one = site.start(&["run"]);
    let mut two = site.start(&["run", "other.toml"]);
    shop.transaction(1, 50, "COMMIT");
    has(50);
    is(&admin, "running");
    assert!(admin.shows("semel_relay_paused{relay=\"out\"} 0"));

    order(site, "pause");
    is(&admin, "paused");
    let said = "out: paused by ada: INC-7; to go on: semel pipelines resume out";
    wait_for("the other worker", || two.stderr().contains(said));
    // Nobody is left who publishes: what is counted as waiting stays so.
    shop.transaction(51, 50, "COMMIT");
    let waits = |count: u64| format!("semel_relay_backlog{{relay=\"out\"}} {count}");
    wait_for("what waits", || admin.shows(&waits(50)));
    one.signal(Signal::KILL);
    one.wait();
    one = site.start(&["run"]);
    is(&admin, "paused");
    assert_eq!(told(&admin)["paused"]["reason"], "INC-7");
    assert!(admin.shows("semel_relay_paused{relay=\"out\"} 1"));
    wait_for("what waits", || admin.shows(&waits(50)));
    assert_eq!(shop.lines(), 50);
    let checked = site.semel(&["check"]).done();
    assert!(checked.stdout.contains("relay-paused"), "{checked:?}");
    let listed = items(
        &site
            .semel(&["pipelines", "list", "--output", "json"])
            .done(),
    );
    let expected = ["out", "pause", "ada"].map(Value::from);
    let [name, order_of, by] = ["pipeline", "order", "by"].map(|it| listed[0][it].clone());
    assert_eq!([name, order_of, by], expected, "{listed:?}");
    let again = site.semel(&["pipelines", "pause", "out", "--yes"]);
    again.done().says("out: it is paused since");

    order(site, "resume");
    has(100);
    is(&admin, "running");
    assert_eq!(told(&admin)["paused"], Value::Null);

    order(site, "drain");
    is(&admin, "paused");
    let said = "out: drained by ada: INC-7";
    wait_for("the other worker", || two.stderr().contains(said));
    shop.transaction(101, 50, "COMMIT");
    wait_for("what waits", || admin.shows(&waits(50)));
    assert_eq!(shop.lines(), 100);

    let body = json!({ "pipelines": ["out", "none"] });
    let plan = post(&admin, "/v1/pipelines/resume/plan", &body).body;
    let change = json!({
        "pipeline": "out", "relay": true, "action": "resume", "before": "drain", "after": "run"
    });
    assert_eq!(plan["changes"], json!([change]), "{plan}");
    assert_eq!(plan["left"][0]["pipeline"], "none", "{plan}");
    let body = json!({ "token": plan["token"], "reason": "INC-8" });
    let done = post(&admin, "/v1/pipelines/resume/do", &body);
    assert_eq!((done.status, &done.body["done"]), (200, &json!(1)));
    has(150);
    let stale = post(&admin, "/v1/pipelines/resume/do", &body);
    assert_eq!(stale.status, 409, "{stale:?}");

    let store = shop.store();
    let trail = ["store", "audit", "--store", &store, "--output", "json"];
    let trail = items(&site.semel(&trail).done());
    let actions: Vec<_> = trail.iter().map(|it| it["action"].clone()).collect();
    assert_eq!(actions, ["pause", "resume", "drain", "resume"]);
    assert_eq!(trail[3]["reason"], "INC-8", "{trail:?}");
    for mut worker in [one, two] {
        assert!(worker.is_running(), "{}", worker.stderr());
        worker.signal(Signal::TERM);
        worker.wait().done();
    }
    shop.arrived(1..=150, 0);
    assert!(!site.path("semel-data").exists(), "none was made");
}
