//! The metrics of a worker, compared with traffic of which the truth is known.

mod leases;
mod measures;
mod waits;

use std::io::{PipeWriter, Write};

use crate::ready::Admin;
use crate::site::{Running, Site, lines, wait_for};

/// Declines `dead-…`, asks for another attempt at the first of `again-…`, and does not know about `doubt-…`. Writes
/// down the trace of each call.
pub(crate) const HANDLER: &str = r#"
import json, sys
log = open("calls", "a")
for line in sys.stdin:
    request = json.loads(line)
    log.write(request.get("traceparent", "none") + "\n")
    log.flush()
    kind = request["key"].split("-")[0]
    answer = {"id": request["id"], "status": "done"}
    if kind == "dead":
        answer = {"id": request["id"], "status": "dead", "error": "declined " + request["key"]}
    elif kind == "doubt":
        answer = {"id": request["id"], "status": "unknown", "error": "no answer"}
    elif kind == "again" and request["attempt"] == 1:
        answer = {"id": request["id"], "status": "retry", "error": "not yet"}
    print(json.dumps(answer), flush=True)
"#;

pub(crate) fn message(id: &str, amount: u32) -> String {
    format!("{{\"id\":\"{id}\",\"amount\":{amount}}}")
}

#[test]
fn what_is_scraped_is_what_was_fed() {
    let admin = Admin::new();
    let config = format!(
        "{}[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\npause_after = 0\n\
         retry = {{ attempts = 3, backoff = \"1ms\" }}\n[pipelines.pay.effect]\nkind = \"exec\"\n\
         protocol = \"jsonl\"\ncommand = [\"python3\", \"handler.py\"]\nclass = \"unkeyed\"\non_doubt = \"park\"\n",
        admin.table()
    );
    let site = Site::with(&[("semel.toml", &config), ("handler.py", HANDLER)]);
    let (running, mut messages) = running(&site);
    // A fifth of 400 is republished, seven reuse a key, three have none, and eleven end otherwise.
    let mut fed = lines(0..320, |id| message(&format!("pay-{id}"), id));
    fed += &lines(0..80, |id| message(&format!("pay-{id}"), id));
    fed += &lines(0..7, |id| message(&format!("pay-{id}"), 1_000 + id));
    fed += &lines(0..3, |_| "{\"amount\":1}".to_owned());
    fed += &lines(0..5, |id| message(&format!("dead-{id}"), id));
    fed += &lines(0..4, |id| message(&format!("again-{id}"), id));
    fed += &lines(0..2, |id| message(&format!("doubt-{id}"), id));
    messages.write_all(fed.as_bytes()).expect("messages");
    let series = |name: &str, labels: &str| {
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!(",{labels}")
        };
        format!("semel_{name}{{pipeline=\"pay\"{labels}}}")
    };
    let expected = [
        ("deliveries_total", "fate=\"applied\"", 324),
        ("deliveries_total", "fate=\"replayed\"", 80),
        ("deliveries_total", "fate=\"conflicts\"", 7),
        ("deliveries_total", "fate=\"quarantined\"", 3),
        ("deliveries_total", "fate=\"dead\"", 5),
        ("deliveries_total", "fate=\"in_doubt\"", 2),
        ("decisions_total", "decision=\"granted\"", 335),
        ("decisions_total", "decision=\"replay\"", 80),
        ("decisions_total", "decision=\"conflict\"", 7),
        ("decisions_total", "decision=\"too_old\"", 0),
        ("duplicates_total", "kind=\"republish\"", 80),
        ("duplicates_total", "kind=\"redelivery\"", 0),
        ("quarantined_total", "reason=\"fingerprint-conflict\"", 7),
        ("quarantined_total", "reason=\"key-missing\"", 3),
        ("effects_total", "effect=\"jsonl\",verdict=\"applied\"", 324),
        (
            "effects_total",
            "effect=\"jsonl\",verdict=\"not_applied\"",
            4,
        ),
        (
            "effects_total",
            "effect=\"jsonl\",verdict=\"maybe_applied\"",
            2,
        ),
        ("effects_total", "effect=\"jsonl\",verdict=\"failed\"", 5),
        ("effect_seconds_count", "effect=\"jsonl\"", 335),
        // One for each that was acknowledged and had a key.
        ("overhead_seconds_count", "", 418),
        ("waits_total", "why=\"backoff\"", 4),
        ("fenced_total", "", 0),
        ("in_flight", "", 0),
        ("held", "", 0),
        ("expired_again_total", "certainty=\"exact\"", 0),
        ("expired_again_total", "certainty=\"likely\"", 0),
        ("outcome_differs_total", "", 0),
        // Four fifths of what came were new.
        ("storm", "", 0),
        ("replays_total", "", 0),
        ("source_connected", "", 1),
    ];
    let last = series("deliveries_total", "fate=\"in_doubt\"");
    wait_for("the last message", || {
        admin.shows(&format!("{last} 2")) && admin.shows(&format!("{} 0", series("in_flight", "")))
    });
    for (name, labels, count) in expected {
        let line = format!("{} {count}", series(name, labels));
        wait_for(&line, || admin.shows(&line));
    }
    let text = admin.metrics();
    for fed in ["pay-1", "dead-1", "doubt-1"] {
        assert!(!text.contains(fed), "a key in {text}");
    }
    let store = format!("store=\"embedded:{}\"", site.path("semel-data").display());
    assert!(!admin.shows(&format!(
        "semel_store_call_seconds_count{{{store},call=\"claim\"}} 0"
    )));
    assert!(text.contains(&format!(
        "semel_store_call_seconds_count{{{store},call=\"settle\"}}"
    )));
    assert!(!text.contains("semel_store_errors_total{"), "{text}");
    drop(messages);
    let ended = running.wait().done();
    ended.summary().is(&[
        ("applied", 324),
        ("replayed", 80),
        ("conflicts", 7),
        ("quarantined", 3),
        ("dead", 5),
        ("in_doubt", 2),
    ]);
}

/// Starts a worker that reads its messages from a pipe, and ends with it.
pub(crate) fn running(site: &Site) -> (Running, PipeWriter) {
    let (input, messages) = std::io::pipe().expect("a pipe");
    let mut command = site.command();
    command.args(["run", "--output", "json"]).stdin(input);
    let running = Running::start(&mut command);
    // The command holds the reading end.
    drop(command);
    (running, messages)
}

#[test]
fn a_transaction_counts_its_claims_and_its_effects() {
    let admin = Admin::new();
    let config = format!(
        "[store]\nurl = \"sqlite:s.db\"\n{}[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n\
         effect = {{ kind = \"sql\", statement = \"insert into t values (:id)\" }}\n",
        admin.table()
    );
    let site = Site::with(&[("semel.toml", &config)]);
    site.database("s.db")
        .execute_batch("create table t (id text)")
        .expect("a table");
    let (running, mut messages) = running(&site);
    let mut fed = lines(0..50, |id| message(&format!("pay-{id}"), id));
    fed += &lines(0..10, |id| message(&format!("pay-{id}"), id));
    messages.write_all(fed.as_bytes()).expect("messages");
    let of = "pipeline=\"pay\"";
    for line in [
        format!("semel_decisions_total{{{of},decision=\"granted\"}} 50"),
        format!("semel_decisions_total{{{of},decision=\"replay\"}} 10"),
        format!("semel_effects_total{{{of},effect=\"sql\",verdict=\"applied\"}} 50"),
        format!("semel_effect_seconds_count{{{of},effect=\"sql\"}} 50"),
        format!("semel_overhead_seconds_count{{{of}}} 60"),
    ] {
        wait_for(&line, || admin.shows(&line));
    }
    drop(messages);
    running
        .wait()
        .done()
        .summary()
        .is(&[("applied", 50), ("replayed", 10)]);
}

/// A worker on `s.db` whose effect is this, with every decision in its log.
fn on_shared(site: &Site, admin: &Admin, name: &str, effect: &str) -> (Running, PipeWriter) {
    let config = format!(
        "[store]\nurl = \"sqlite:s.db\"\n{}[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n\
         concurrency = 16\neffect = {{ kind = \"exec\", command = {effect}, class = \"unkeyed\", on_doubt = \"repeat\" }}\n",
        admin.table()
    );
    site.write(name, config);
    let (input, messages) = std::io::pipe().expect("a pipe");
    let mut command = site.command();
    command.args(["run", name, "--output", "json", "--log", "json"]);
    command.args(["--log-level", "decisions"]).stdin(input);
    let running = Running::start(&mut command);
    drop(command);
    (running, messages)
}

#[test]
fn claims_that_met_another_worker_are_counted_one_by_one() {
    let site = Site::new();
    let [first, second] = [Admin::new(), Admin::new()];
    let waits = "[\"sh\", \"-c\", \"until [ -e go ]; do sleep 0.05; done\"]";
    let (slow, mut held) = on_shared(&site, &first, "slow.toml", waits);
    let twelve = lines(0..12, |id| message(&format!("pay-{id}"), id));
    held.write_all(twelve.as_bytes()).expect("messages");
    let decided = |admin: &Admin, decision: &str| {
        let of = format!("semel_decisions_total{{pipeline=\"pay\",decision=\"{decision}\"}} ");
        let text = admin.metrics();
        let told = text.lines().find_map(|line| line.strip_prefix(&*of));
        told.and_then(|it| it.parse::<usize>().ok()).unwrap_or(0)
    };
    wait_for("the claims", || decided(&first, "granted") == 12);
    let (quick, mut messages) = on_shared(&site, &second, "quick.toml", "[\"true\"]");
    let hundred = lines(0..100, |id| message(&format!("pay-{id}"), id));
    messages.write_all(hundred.as_bytes()).expect("messages");
    wait_for("what is free", || decided(&second, "granted") == 88);
    wait_for("each of the others", || decided(&second, "busy") >= 12);
    let busy = "semel_waits_total{pipeline=\"pay\",why=\"busy\"} 12";
    wait_for(busy, || second.shows(busy));
    site.write("go", "");
    wait_for("the replays", || decided(&second, "replay") == 12);
    let told = decided(&second, "busy");
    assert_eq!(decided(&first, "busy"), 0, "the first met nobody");
    drop(messages);
    let ended = quick.wait().done();
    let logged = ended.stderr.matches("\"decision\":\"busy\"").count();
    assert_eq!(told, logged, "{}", ended.stderr);
    ended.summary().is(&[("applied", 88), ("replayed", 12)]);
    drop(held);
    slow.wait().done().summary().is(&[("applied", 12)]);
}
