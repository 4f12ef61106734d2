//! Effects happen once: after kills, after resumption, with several processes, to the last row.

use std::collections::BTreeSet;

use rustix::process::Signal;

use super::{Schema, site};
use crate::site::{Running, Site, lines, wait_for};

/// The payments of the README, charged as rows of a table beside the records.
fn payments(schema: &Schema, batch: usize) -> Site {
    let config = format!(
        "[store]\nurl = \"{}\"\n[pipelines.payments]\n\
         source = {{ kind = \"file\", path = \"payments.ndjson\" }}\n\
         key = \"json:/payment_intent\"\ntransport = \"json:/event_id\"\n\
         fingerprint = [\"json:/amount\", \"json:/currency\"]\nbatch = {batch}\n\
         [pipelines.payments.effect]\nkind = \"sql\"\n\
         statement = \"insert into {}.charges values (:payment_intent, :amount, :currency)\"\n",
        schema.url(),
        schema.name
    );
    Site::with(&[("semel.toml", &config), ("payments.ndjson", PAYMENTS)])
}

#[test]
fn each_payment_is_charged_once_however_often_the_run_is_killed() {
    let schema = Schema::with(CHARGES);
    let site = payments(&schema, 5);
    for kill in 1..=3 {
        let running = site.start(&["run"]);
        wait_for("some charges", || schema.count("charges") >= kill * 300);
        running.signal(Signal::KILL);
        running.wait();
    }
    let killed = schema.count("charges");
    assert!(killed < 2_000, "all were charged before the last kill");
    let summary = site.run();
    assert_eq!(summary.count("applied"), 2_000 - killed, "{summary:?}");
    site.run()
        .is(&[("replayed", 2_546), ("conflicts", 1), ("quarantined", 7)]);
    let name = &schema.name;
    let rows = schema.rows(&format!(
        "select count(*), count(distinct payment_intent) from {name}.charges"
    ));
    assert_eq!(rows, ["2000|2000"]);
    let records = schema.rows(&format!(
        "select key from {name}.operations where state = 'completed'"
    ));
    let charged = schema.rows(&format!("select payment_intent from {name}.charges"));
    let set = |rows: Vec<String>| rows.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(set(records), set(charged), "what is charged is on record");
}

#[test]
fn two_processes_share_the_work() {
    let schema = Schema::with(CHARGES);
    let site = payments(&schema, 50);
    let runs = [(); 2].map(|()| site.start(&["run", "--output", "json"]));
    let mut applied = 0;
    for run in runs {
        let summary = run.wait().done().summary();
        assert_eq!(summary.count("deliveries"), 2_554);
        applied += summary.count("applied");
    }
    assert_eq!((applied, schema.count("charges")), (2_000, 2_000));
}

#[test]
fn an_output_file_is_exact_after_a_kill() {
    let schema = Schema::new();
    let input = lines(0..2_000, |id| format!("{{\"id\":\"pay-{}\"}}", id % 1_500));
    let site = site(
        &schema.url(),
        "batch = 5",
        "kind = \"file\"\npath = \"out\"",
        &input,
    );
    for kill in 1..=2 {
        let running = site.start(&["run"]);
        wait_for("some lines", || {
            site.text("out").lines().count() >= kill * 300
        });
        running.signal(Signal::KILL);
        running.wait();
    }
    site.run();
    let out = site.text("out");
    assert_eq!(out.lines().count(), 1_500);
    assert_eq!(out.lines().collect::<BTreeSet<_>>().len(), 1_500);
}

#[test]
fn a_call_that_was_broken_off_is_in_doubt() {
    let schema = Schema::new();
    let site = site(
        &schema.url(),
        "lease = \"200ms\"",
        "kind = \"exec\"\ncommand = [\"sh\", \"-c\", \"touch began; exec sleep 60\"]",
        "{\"id\":\"a\"}\n",
    );
    let running = site.start(&["run"]);
    wait_for("the call", || site.path("began").exists());
    running.signal(Signal::KILL);
    running.wait();
    site.run().is(&[("in_doubt", 1)]);
    let listed = site
        .semel(&["in-doubt", "list", "--output", "jsonl"])
        .done();
    assert!(listed.stdout.contains("\"key\":\"a\""), "{listed:?}");
}

#[test]
fn a_stop_ends_well_and_the_next_run_goes_on() {
    let schema = Schema::with(CHARGES);
    let site = payments(&schema, 5);
    let running = site.start(&["run", "--output", "json"]);
    wait_for("some charges", || schema.count("charges") >= 100);
    running.signal(Signal::TERM);
    let stopped = running.wait().done().summary().count("applied");
    assert_eq!(stopped, schema.count("charges"));
    let rest = site.run().count("applied");
    assert_eq!(stopped + rest, 2_000);
}

#[test]
fn first_lines_are_printed_once_and_appended_once() {
    let schema = Schema::new();
    let url = schema.url();
    let site = Site::with(&[("in", "b\na\nb\n\na\nlast")]);
    let dedup = |rest: &[&str]| {
        let arguments = [&["dedup", "--store", &url], rest].concat();
        site.semel(&arguments).done().stdout
    };
    assert_eq!(dedup(&["in"]), "b\na\n\nlast");
    assert_eq!(dedup(&["in"]), "");
    let named = ["--pipeline", "other", "--to", "out", "in"];
    for _ in 0..2 {
        dedup(&named);
        assert_eq!(site.text("out"), "b\na\n\nlast\n");
    }
    // If a variable names the store, the command line need not.
    let mut command = site.command();
    let command = command.args(["dedup", "in"]).env("SEMEL__STORE__URL", &url);
    assert_eq!(Running::start(command).wait().done().stdout, "");
    assert!(!site.path("semel-data").exists());
}

const CHARGES: &str =
    "create table charges (payment_intent text not null, amount bigint not null, currency text)";
const PAYMENTS: &str = include_str!("../../../../../examples/payments/payments.ndjson");
