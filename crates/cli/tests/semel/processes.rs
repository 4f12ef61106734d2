//! Two processes on one store.

use std::process::Stdio;

use crate::site::{Running, Site, wait_for};

/// Each of 400 payments twice, in another order for the second copies.
fn payments() -> String {
    let line = |id: u32| format!("{{\"id\":\"pay-{id}\",\"amount\":{id}}}\n");
    (0..400).map(line).chain((0..400).rev().map(line)).collect()
}

fn both(site: &Site) -> (u64, u64) {
    let (one, two) = (
        site.start(&["run", "--output", "json"]),
        site.start(&["run", "--output", "json"]),
    );
    let summaries = [one.wait().done().summary(), two.wait().done().summary()];
    let mut sums = (0, 0);
    for summary in &summaries {
        assert_eq!(summary.count("deliveries"), 800);
        assert_eq!(
            summary.count("applied") + summary.count("replayed"),
            800,
            "{summary:?}"
        );
        sums.0 += summary.count("applied");
        sums.1 += summary.count("replayed");
    }
    sums
}

#[test]
fn a_table_has_each_payment_once() {
    let config = "[store]\nurl = \"sqlite:shop.db\"\n[pipelines.p]\nsource = { kind = \"file\", path = \"in\" }\n\
                  key = \"json:/id\"\nbatch = 20\n\
                  effect = { kind = \"sql\", statement = \"insert into t values (:id, :amount)\" }\n";
    let site = Site::with(&[("semel.toml", config), ("in", &payments())]);
    site.database("shop.db")
        .execute_batch("create table t (id, amount)")
        .expect("a table");
    assert_eq!(both(&site), (400, 1_200));
    assert_eq!(
        site.rows(
            "shop.db",
            "select count(*), count(distinct id), sum(amount) from t"
        ),
        ["400|400|79800"]
    );
}

#[test]
fn a_command_is_called_once_for_each_payment() {
    let config = "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = { kind = \"file\", path = \"in\" }\n\
                  key = \"json:/id\"\n[pipelines.p.effect]\nkind = \"exec\"\nprotocol = \"jsonl\"\n\
                  command = [\"python3\", \"-u\", \"handler.py\"]\n";
    let handler = "import json, os, sys\nlog = os.open('calls.log', os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n\
                   for line in sys.stdin:\n    request = json.loads(line)\n\
                   \x20   os.write(log, (request['key'] + '\\n').encode())\n\
                   \x20   print(json.dumps({'id': request['id'], 'status': 'done'}), flush=True)\n";
    let site = Site::with(&[
        ("semel.toml", config),
        ("in", &payments()),
        ("handler.py", handler),
    ]);
    assert_eq!(both(&site), (400, 1_200));
    let mut calls = site.sorted_lines("calls.log");
    assert_eq!(calls.len(), 400);
    calls.dedup();
    assert_eq!(calls.len(), 400, "none was called twice");
}

#[test]
fn an_embedded_folder_has_one_process() {
    let config = "[store]\nurl = \"embedded:data\"\n[pipelines.p]\nsource = { kind = \"stdin\" }\n\
                  key = \"line\"\neffect = { kind = \"file\", path = \"out\" }\n";
    let site = Site::with(&[("semel.toml", config)]);
    let mut command = site.command();
    let mut child = command
        .arg("run")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("semel");
    wait_for("the first process to open its output", || {
        site.path("out").exists()
    });
    let second = Running::start(site.command().arg("run")).wait().code(3);
    let holder = format!(
        "error: embedded:data: the store is in use by process {}; ",
        child.id()
    );
    assert!(
        second.stderr.contains(&holder) && second.stderr.contains("[store-in-use]"),
        "{}",
        second.stderr
    );
    assert_eq!(second.stdout, "");
    drop(child.stdin.take());
    assert!(
        child.wait().expect("a child").success(),
        "the first is not disturbed"
    );
    Running::start(site.command().arg("run")).wait().done();
}
