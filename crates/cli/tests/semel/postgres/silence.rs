//! A store that goes silent while a worker is asked to stop: it is there, carries out what it is told, and gives no answer.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use super::outage::through_proxy;
use super::{Schema, site};
use crate::site::{Ended, Running, lines, wait_for, wait_within};

/// Asks a worker to stop whose store gives no answer, does `then` once it has heard, and waits for its end.
fn stopped(mut running: Running, then: impl FnOnce()) -> Ended {
    running.signal(Signal::TERM);
    wait_for("the word of the worker", || {
        running.stderr().contains("stopping: ")
    });
    then();
    wait_within(SOON, "the end of a worker that is asked to stop", || {
        !running.is_running()
    });
    let ended = running.wait();
    assert_eq!(ended.status.code(), Some(3), "{ended:#?}");
    ended.says("[timeout]")
}

#[test]
fn a_stop_ends_in_time_and_what_was_not_reported_is_found_by_the_next_worker() {
    let schema = Schema::new();
    let (proxy, url) = through_proxy(&schema);
    let pipeline = "concurrency = 2";
    let effect = "kind = \"exec\"\ncommand = [\"sh\", \"handler.sh\"]\non_doubt = \"park\"\n";
    let input = lines(0..12, |id| format!("{{\"id\":{id}}}"));
    let site = site(&url, pipeline, effect, &input);
    let config = format!("shutdown = \"3s\"\n{}", site.text("semel.toml"));
    site.write("semel.toml", config);
    site.write(
        "handler.sh",
        "echo \"$SEMEL_KEY\" >> calls.log; until test -e go; do sleep 0.05; done\n",
    );
    let running = site.start(&["run"]);
    wait_for("the first pair of calls", || {
        site.text("calls.log").lines().count() == 2
    });
    proxy.hold_answers();
    // Their effects end, and the reports are carried out unanswered.
    stopped(running, || site.write("go", ""));
    proxy.heal();

    // On a machine that was slow to begin with, the effects were broken off, and nobody knows.
    let summary = site.run();
    let reported = summary.count("replayed") + summary.count("in_doubt");
    assert_eq!(reported, 2, "{summary:?}");
    assert_eq!(summary.count("applied"), 10, "{summary:?}");
    let mut keys = site.sorted_lines("calls.log");
    keys.dedup();
    assert_eq!(keys.len(), 12, "{keys:?}");
    assert_eq!(site.text("calls.log").lines().count(), 12, "each once");
}

#[test]
fn a_transaction_that_is_not_answered_does_not_hold_up_a_stop_and_is_not_repeated() {
    let schema = Schema::with("create table charges (id bigint)");
    let (proxy, url) = through_proxy(&schema);
    let effect = format!(
        "kind = \"sql\"\nstatement = \"insert into {}.charges values (:id)\"",
        schema.name
    );
    let input = lines(0..40, |id| format!("{{\"id\":{id}}}"));
    let site = site(&url, "", &effect, &input);
    let config = site.text("semel.toml");
    let source = "source = { kind = \"file\", path = \"in\" }";
    let piped = config.replace(source, "source = { kind = \"stdin\" }");
    site.write("piped.toml", format!("shutdown = \"1s\"\n{piped}"));
    let mut command = site.command();
    command.args(["run", "piped.toml"]).stdin(Stdio::piped());
    let mut running = Running::start(&mut command);
    let mut messages = running.input();
    let mut send = |ids| {
        let text = lines(ids, |id: u32| format!("{{\"id\":{id}}}"));
        messages.write_all(text.as_bytes()).expect("a reader");
    };
    send(0..20);
    wait_for("the first charges", || schema.count("charges") == 20);
    proxy.hold_answers();
    let asked = proxy.seen().client_bytes;
    send(20..40);
    wait_for("a transaction that is not answered", || {
        proxy.seen().client_bytes > asked
    });
    stopped(running, || {});
    proxy.heal();

    let summary = site.run();
    let applied = summary.count("applied");
    assert_eq!(applied + summary.count("replayed"), 40, "{summary:?}");
    assert!(applied <= 20, "{summary:?}");
    let name = &schema.name;
    let rows = schema.rows(&format!(
        "select count(*), count(distinct id) from {name}.charges"
    ));
    assert_eq!(rows, ["40|40"]);
}

/// Much longer than `shutdown` and the last reports take here, and shorter than a store has to answer one call.
const SOON: Duration = Duration::from_secs(25);
