//! Leases that are lost in a known number.

use std::io::{PipeWriter, Write};
use std::time::Duration;

use rusqlite::Connection;
use rustix::process::Signal;

use super::message;
use crate::ready::Admin;
use crate::site::{Running, Site, lines, wait_for};

const COUNT: u32 = 50;

/// Writes down each call, and answers it: at once, or with `HOLD` in its environment once there is a file `go`.
const HANDLER: &str = r#"
import json, os, sys, time
calls = open("calls", "a")
held = []
for line in sys.stdin:
    calls.write("call\n")
    calls.flush()
    held.append(json.loads(line)["id"])
    if "HOLD" in os.environ:
        if len(held) < 50:
            continue
        while not os.path.exists("go"):
            time.sleep(0.005)
    for id in held:
        print(json.dumps({"id": id, "status": "done"}), flush=True)
    held = []
"#;

/// Starts a worker on the store that the two share, and feeds it.
fn worker(site: &Site, admin: &Admin, name: &str, is_held: bool) -> (Running, PipeWriter) {
    let config = format!(
        "[store]\nurl = \"sqlite:s.db\"\n{}[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n\
         lease = \"3s\"\npause_after = 0\nconcurrency = {COUNT}\n[pipelines.pay.effect]\nkind = \"exec\"\nprotocol = \"jsonl\"\n\
         command = [\"python3\", \"handler.py\"]\nclass = \"unkeyed\"\non_doubt = \"repeat\"\n",
        admin.table()
    );
    site.write(name, config);
    let (input, mut messages) = std::io::pipe().expect("a pipe");
    let mut command = site.command();
    command.args(["run", name, "--output", "json"]).stdin(input);
    if is_held {
        command.env("HOLD", "1");
    }
    let running = Running::start(&mut command);
    // The command holds the reading end.
    drop(command);
    let fed = lines(0..COUNT, |id| message(&format!("pay-{id}"), id));
    messages.write_all(fed.as_bytes()).expect("messages");
    (running, messages)
}

/// Stops a worker at a moment at which it does not write, since nobody else could then.
fn stop(site: &Site, worker: &Running) {
    let database = Connection::open(site.path("s.db")).expect("a database");
    database.busy_timeout(Duration::ZERO).expect("a timeout");
    wait_for("a moment without a write", || {
        worker.halt();
        let is_free = database.execute_batch("begin immediate; rollback").is_ok();
        if !is_free {
            worker.signal(Signal::CONT);
        }
        is_free
    });
}

#[test]
fn each_lease_that_is_lost_is_counted_once_and_so_is_each_takeover() {
    let site = Site::with(&[("handler.py", HANDLER)]);
    let [first, second] = [Admin::new(), Admin::new()];
    let (zombie, held) = worker(&site, &first, "first.toml", true);
    wait_for("every call", || {
        site.text("calls").lines().count() == COUNT as usize
    });
    first.tells("semel_in_flight{pipeline=\"pay\"}", COUNT);
    stop(&site, &zombie);
    let (heir, messages) = worker(&site, &second, "second.toml", false);
    second.tells("semel_takeovers_total{pipeline=\"pay\"}", COUNT);
    let applied = "semel_deliveries_total{pipeline=\"pay\",fate=\"applied\"}";
    second.tells(applied, COUNT);
    zombie.signal(Signal::CONT);
    let replayed = "semel_deliveries_total{pipeline=\"pay\",fate=\"replayed\"}";
    first.tells(replayed, COUNT);
    for (name, labels, of_first, of_second) in [
        ("renewals", ",result=\"lost\"", COUNT, 0),
        ("fenced", "", COUNT, 0),
        ("takeovers", "", 0, COUNT),
        ("decisions", ",decision=\"granted\"", COUNT, COUNT),
        ("decisions", ",decision=\"replay\"", COUNT, 0),
        ("effects", ",effect=\"jsonl\",verdict=\"applied\"", 0, COUNT),
        (
            "effects",
            ",effect=\"jsonl\",verdict=\"maybe_applied\"",
            COUNT,
            0,
        ),
        ("outcome_differs", "", 0, 0),
    ] {
        let series = format!("semel_{name}_total{{pipeline=\"pay\"{labels}}}");
        first.tells(&series, of_first);
        second.tells(&series, of_second);
    }
    // Whether the other one waited depends on how soon it began, before the leases ended or after.
    first.tells("semel_waits_total{pipeline=\"pay\",why=\"busy\"}", COUNT);
    site.write("go", "");
    drop((held, messages));
    let (zombie, heir) = (zombie.wait().done(), heir.wait().done());
    zombie.summary().is(&[("replayed", COUNT.into())]);
    heir.summary()
        .is(&[("applied", COUNT.into()), ("takeovers", COUNT.into())]);
}
