//! Relays of an outbox in an SQLite file: what transactions wrote into it leaves if they commit, and in order, whatever is
//! killed meanwhile.

use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::collector::Collector;
use crate::operator::{items, member, worked};
use crate::outbox_shop::{
    Shop, a_dead_message_holds_up_its_order_key_alone, a_relay_is_killed_often,
    dead_letters_are_operated_while_the_relay_runs, one_of_two_relays_is_killed,
};
use crate::ready::Admin;
use crate::relay_pauses::a_relay_is_paused_wherever_it_runs;
use crate::site::{Running, Site, wait_for};

/// A file with an outbox, and a relay that appends to another one.
struct InFile(Site);

impl InFile {
    fn new() -> Self {
        let shop = Self::without_outbox();
        shop.0.semel(&MIGRATE).done();
        shop
    }

    fn without_outbox() -> Self {
        let site = Site::with(&[("semel.toml", CONFIG)]);
        let made = site.database("shop.db").execute_batch(
            "PRAGMA journal_mode = wal; CREATE TABLE orders (number INTEGER PRIMARY KEY)",
        );
        made.expect("a shop");
        Self(site)
    }

    /// The numbers of the orders that are in the shop.
    fn orders(&self) -> Vec<u64> {
        let orders = self.0.rows("shop.db", "SELECT number FROM orders");
        let number = |it: &String| it.parse().expect("a number");
        orders.iter().map(number).collect()
    }
}

impl Shop for InFile {
    fn site(&self) -> &Site {
        &self.0
    }

    /// Each message is about an order, which the transaction makes.
    fn transaction(&self, from: u64, count: u64, end: &str) {
        let last = from + count - 1;
        let numbers = format!(
            "WITH RECURSIVE n (i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {last})"
        );
        self.execute(&format!(
            "BEGIN IMMEDIATE; {numbers} INSERT INTO orders SELECT i FROM n; \
             {numbers} INSERT INTO semel_outbox (stream, order_key, payload) \
             SELECT 'orders', 'k' || (i % 7), 'k' || (i % 7) || ' ' || i FROM n; {end}"
        ));
    }

    fn execute(&self, sql: &str) {
        let done = self.0.database("shop.db").execute_batch(sql);
        done.expect("executed");
    }

    fn store(&self) -> String {
        "sqlite:shop.db".to_owned()
    }

    fn waiting(&self) -> u64 {
        let rows = self.0.rows("shop.db", "SELECT count(*) FROM semel_outbox");
        rows[0].parse().expect("a count")
    }
}

#[test]
fn what_is_committed_to_a_file_arrives_in_order_however_often_the_relay_is_killed() {
    let shop = InFile::new();
    a_relay_is_killed_often(&shop);
    shop.arrived(shop.orders(), 4 * 400);
}

#[test]
fn two_processes_share_a_file_and_one_goes_on_where_the_other_was_killed() {
    one_of_two_relays_is_killed(&InFile::new());
}

#[test]
fn a_dead_message_of_a_file_is_told_and_holds_up_its_order_key_alone() {
    a_dead_message_holds_up_its_order_key_alone(&InFile::new());
}

#[test]
fn dead_letters_of_a_file_are_operated_while_the_relay_runs() {
    dead_letters_are_operated_while_the_relay_runs(&InFile::new());
}

#[test]
fn a_relay_of_a_file_is_paused_wherever_it_runs() {
    a_relay_is_paused_wherever_it_runs(&InFile::new());
}

#[test]
fn a_relay_beside_whose_outbox_there_is_no_store_runs_and_cannot_be_paused() {
    let shop = InFile::new();
    let tables = "SELECT type || ' ' || name FROM sqlite_schema WHERE type IN ('view', 'table') AND name GLOB 'semel_*' \
                  AND NOT name GLOB 'semel_outbox*' AND NOT name GLOB 'semel_producer*'";
    let tables = shop.0.rows("shop.db", tables);
    let drop = |it: &String| format!("DROP {it};");
    let drop: String = tables.iter().map(drop).collect();
    shop.execute(&format!("PRAGMA foreign_keys = off; {drop}"));
    let mut relay = shop.0.start(&["run"]);
    shop.transaction(1, 50, "COMMIT");
    wait_for("what is to be published", || shop.lines() == 50);
    wait_for("a warning", || {
        relay
            .stderr()
            .contains("no store is seen beside the outbox")
    });
    let checked = shop.0.semel(&["check"]).done();
    assert!(
        checked.stdout.contains("relay-orders-unread"),
        "{checked:?}"
    );
    let refused = shop.0.semel(&["pipelines", "pause", "out", "--yes"]);
    refused.code(2).says("semel store migrate");
    shop.0.semel(&MIGRATE).done();
    shop.0.semel(&["pipelines", "pause", "out", "--yes"]).done();
    wait_for("the order", || relay.stderr().contains("out: paused"));
    relay.signal(Signal::TERM);
    relay.wait().done();
}

#[test]
fn an_order_is_about_pipelines_and_relays_in_their_own_stores() {
    let site = worked("sqlite:s.db");
    site.write("semel.toml", site.text("semel.toml") + CONFIG);
    site.database("shop.db")
        .execute_batch("PRAGMA journal_mode = wal")
        .expect("a shop");
    site.semel(&MIGRATE).done();
    let both = [
        "pipelines",
        "pause",
        "pay",
        "out",
        "--yes",
        "--output",
        "json",
    ];
    let given = items(&site.semel(&both).done());
    assert_eq!(member(&given, "pipeline"), ["out", "pay"]);
    let actions = |store: &str| {
        let trail = ["store", "audit", "--store", store, "--output", "json"];
        let mut trail = items(&site.semel(&trail).done());
        trail.retain(|it| it["action"] == "pause");
        member(&trail, "pipeline")
    };
    assert_eq!(actions("sqlite:s.db"), ["pay"]);
    assert_eq!(actions("sqlite:shop.db"), ["out"]);
    let table = site.semel(&["pipelines", "list"]).done().stdout;
    assert!(table.contains("KIND") && table.contains("relay"), "{table}");
    let misspelt = site.semel(&["pipelines", "pause", "outt"]);
    misspelt.code(2).says("did you mean `out`?");

    let clash = site
        .text("semel.toml")
        .replace("[relays.out", "[relays.pay");
    site.write("clash.toml", clash);
    site.semel(&["run", "clash.toml"])
        .code(2)
        .says("relays.pay: is the name of a pipeline, too");
}

#[test]
fn a_relay_whose_outbox_is_in_the_store_of_its_worker_is_paused_beside_a_pipeline() {
    let shop = InFile::new();
    let (site, admin) = (&shop.0, Admin::new());
    site.write("done", "");
    let pay = "[store]\nurl = \"sqlite:shop.db\"\n[pipelines.pay]\nkey = \"json:/id\"\n\
               source = { kind = \"stdin\" }\neffect = { kind = \"file\", path = \"done\" }\n";
    site.write("semel.toml", admin.table() + pay + CONFIG);
    let mut command = site.command();
    let mut relay = Running::start(command.arg("run").stdin(Stdio::piped()));
    let mut stdin = relay.take_stdin().expect("a pipe");
    let mut sends = |key: usize| {
        let line = format!("{{\"id\":\"{key}\"}}\n");
        stdin.write_all(line.as_bytes()).expect("a pipe");
    };
    let states = || {
        let said = admin.ready().1;
        let [relay, pay] = [&said["relays"]["out"], &said["pipelines"]["pay"]];
        [relay, pay].map(|it| it["state"].as_str().unwrap_or_default().to_owned())
    };
    let are = |expected: [&str; 2]| wait_for("the states", || states() == expected);
    shop.transaction(1, 50, "COMMIT");
    wait_for("what is to be published", || shop.lines() == 50);
    are(["running", "running"]);
    for verb in ["pause", "drain"] {
        site.semel(&["pipelines", verb, "out", "--yes"]).done();
        are(["paused", "running"]);
        let before = shop.lines();
        shop.transaction(shop.orders().len() as u64 + 1, 50, "COMMIT");
        let waiting = "semel_relay_backlog{relay=\"out\"} 50";
        wait_for("what waits", || admin.shows(waiting));
        // The pipeline goes on meanwhile.
        let done = site.text("done").lines().count();
        sends(done);
        wait_for("the effect", || {
            site.text("done").lines().count() == done + 1
        });
        assert_eq!(shop.lines(), before);
        site.semel(&["pipelines", "resume", "out", "--yes"]).done();
        wait_for("what is to be published", || shop.lines() == before + 50);
    }
    site.semel(&["pipelines", "pause", "pay", "--yes"]).done();
    are(["running", "paused"]);
    let trail = ["store", "audit", "--output", "json"];
    let trail = member(&items(&site.semel(&trail).done()), "pipeline");
    assert_eq!(trail, ["out", "out", "out", "out", "pay"]);
    relay.signal(Signal::TERM);
    relay.wait().done();
    shop.arrived(1..=150, 0);
}

#[test]
fn a_misspelt_relay_is_refused_where_there_are_relays_alone() {
    let shop = InFile::new();
    for verb in ["pause", "drain", "resume"] {
        let misspelt = shop.0.semel(&["pipelines", verb, "outt", "--yes"]);
        misspelt.code(2).says("did you mean `out`?");
    }
    assert!(!shop.0.path("semel-data").exists(), "no store was made");
}

/// The id of a message that its relay has given up.
const DEAD: &str = "00000000-0000-7000-8000-00000000000d";

#[test]
fn dead_letters_of_relays_and_of_pipelines_are_told_apart() {
    let site = worked("sqlite:s.db");
    site.write("semel.toml", site.text("semel.toml") + CONFIG);
    site.database("shop.db")
        .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE orders (number INTEGER)")
        .expect("a shop");
    site.semel(&MIGRATE).done();
    let dead = "INSERT INTO semel_outbox (id, stream, payload, due_at, dead_at, error) VALUES \
                (X'0000000000007000800000000000000D', 'orders', 'x', 9223372036854775807, 1, 'too large')";
    site.database("shop.db").execute_batch(dead).expect("one");

    let list = site.semel(&["dead-letters", "list", "--output", "json"]);
    let list = items(&list.done());
    assert_eq!(
        (&list[0]["key"], &list[1]["id"]),
        (&"dead-1".into(), &DEAD.into())
    );
    assert_eq!(list.len(), 2);
    for (option, expected) in [
        (["--relay", "out"], vec![DEAD.to_owned()]),
        (["--pipeline", "pay"], vec![]),
    ] {
        let verb = ["dead-letters", "list", "--output", "json"];
        let list = site.semel(&[&verb[..], &option].concat()).done();
        let mut list = items(&list);
        list.retain(|it| it["relay"] == "out");
        assert_eq!(member(&list, "id"), expected);
    }
    let table = site.semel(&["dead-letters", "list"]).done().stdout;
    assert!(table.contains(DEAD) && table.contains("dead-1"), "{table}");

    let both = ["dead-letters", "replay", "dead-1", DEAD];
    site.semel(&both)
        .code(2)
        .says("name those of a relay with --relay");
    let misspelt = ["dead-letters", "list", "--relay", "ot"];
    site.semel(&misspelt).code(2).says("did you mean `out`?");
    let clash = [
        "dead-letters",
        "list",
        "--relay",
        "out",
        "--store",
        "sqlite:s.db",
    ];
    site.semel(&clash).code(2);
    let none = [
        "dead-letters",
        "drop",
        "--relay",
        "out",
        "--all",
        "--reason-like",
        "HTTP",
    ];
    site.semel(&none)
        .done()
        .says("nothing to drop: no dead letters");
    // All without a relay are those of pipelines, as ever.
    let all = site.semel(&["dead-letters", "drop", "--all"]).code(1);
    let all = all.says("plan: drop 1 dead letter\n");
    assert!(!all.stderr.contains(DEAD), "{all:?}");
    let planned = site.semel(&["dead-letters", "replay", DEAD]).code(1);
    planned.says("relay out").says(DEAD);
    let drop = [
        "dead-letters",
        "drop",
        "--relay",
        "out",
        "--all",
        "--reason-like",
        "LARGE",
        "--yes",
    ];
    let ended = site.semel(&[&drop[..], &["--reason", "sent by hand"]].concat());
    ended.done();
    let left = site.semel(&["dead-letters", "list", "--output", "json"]);
    assert_eq!(member(&items(&left.done()), "key"), ["dead-1"]);
}

#[test]
fn a_relay_is_seen_in_the_metrics_and_a_sink_that_is_away_makes_it_not_ready() {
    let admin = Admin::new();
    let shop = InFile::new();
    let config = CONFIG.replace("path = \"out\"", "path = \"there/out\"");
    shop.0.write("semel.toml", config + &admin.table());
    std::fs::create_dir(shop.0.path("there")).expect("a folder");
    shop.execute(
        "INSERT INTO semel_outbox (stream, order_key, payload) VALUES \
         ('orders', 'a', 'a' || char(10) || '1'), ('orders', 'a', 'a 2'), ('orders', 'a', 'a 3'), ('orders', 'b', 'b 4')",
    );
    let relay = shop.0.start(&["run"]);
    let shows = |name: &str, value: u64| {
        let line = format!("semel_relay_{name}{{relay=\"out\"}} {value}");
        wait_for(&line, || admin.shows(&line));
    };
    for (name, value) in [
        ("published_total", 1),
        ("failures_total", 1),
        ("fenced_total", 0),
        ("dead", 1),
        ("backlog", 2),
    ] {
        shows(name, value);
    }
    let oldest = || {
        let text = admin.metrics();
        let mut lines = text.lines();
        let line =
            lines.find_map(|it| it.strip_prefix("semel_relay_oldest_seconds{relay=\"out\"} "));
        line.and_then(|it| it.parse::<f64>().ok())
            .unwrap_or_default()
    };
    wait_for("the age of what waits", || oldest() > 1.0);
    let (is_ready, said) = admin.ready();
    assert!(is_ready, "{said}");
    assert_eq!(said["relays"]["out"]["state"], "running", "{said}");

    // A folder that is gone takes no message.
    std::fs::rename(shop.0.path("there"), shop.0.path("elsewhere")).expect("moved");
    shop.transaction(10, 1, "COMMIT");
    wait_for("it to be not ready", || !admin.ready().0);
    let (_, said) = admin.ready();
    assert_eq!(said["relays"]["out"]["state"], "target-away", "{said}");
    assert_eq!(said["relays"]["out"]["reasons"][0]["reason"], "target-away");
    std::fs::rename(shop.0.path("elsewhere"), shop.0.path("there")).expect("back");
    wait_for("it to be ready again", || admin.ready().0);
    shows("published_total", 2);

    let all = ["dead-letters", "drop", "--all", "--yes", "--reason", "no"];
    shop.0.semel(&all).done();
    shows("published_total", 4);
    shows("dead", 0);
    shows("backlog", 0);
    wait_for("nothing to wait", || {
        admin.shows("semel_relay_oldest_seconds{relay=\"out\"} 0.0")
    });
    relay.signal(Signal::TERM);
    relay.wait().done();
}

/// Nobody samples: what is published leaves no span, and what is dead does, however often.
#[test]
fn a_dead_message_of_a_relay_is_in_the_traces_and_named_in_the_log() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";
    let collector = Collector::new();
    let shop = InFile::new();
    let telemetry = format!(
        "[telemetry]\notlp = \"{}\"\nsample = \"1%\"\n",
        collector.url()
    );
    shop.0.write("semel.toml", telemetry + CONFIG);
    let headers = format!("{{\"traceparent\":\"00-{TRACE}-{PARENT}-00\"}}");
    shop.execute(&format!(
        "INSERT INTO semel_outbox (stream, order_key, headers, payload) VALUES \
         ('orders', 'a', '{headers}', 'a' || char(10) || '1'), ('orders', 'b', '{headers}', 'b 2')"
    ));
    let mut relay = shop.0.start(&["run", "--log", "json"]);
    wait_for("it to be told", || relay.stderr().contains(" is dead: "));
    wait_for("the other one", || shop.lines() == 1);
    relay.signal(Signal::TERM);
    let log = relay.wait().done().stderr;
    let spans = collector.spans();
    let [dead] = &spans[..] else {
        panic!("{spans:?}")
    };
    assert_eq!((&*dead.name, dead.kind), ("publish out", 1));
    assert_eq!((&*dead.trace_id, &*dead.parent_id), (TRACE, PARENT));
    assert_eq!(dead.attribute("semel.fate"), "dead");
    assert_eq!((dead.status, dead.flags & 1), (2, 0), "{dead:?}");
    let lines = log
        .lines()
        .map(|it| serde_json::from_str(it).expect("JSON"));
    let mut lines = lines.filter(|it: &Value| it["trace_id"].is_string());
    let line = lines.next().expect("a line with a trace");
    assert_eq!(
        (&line["trace_id"], &line["span_id"]),
        (&dead.trace_id.clone().into(), &dead.id.clone().into())
    );
    assert!(
        line["message"]
            .as_str()
            .is_some_and(|it| it.contains(" is dead: "))
    );
    assert_eq!(lines.next(), None);
}

#[test]
fn an_outbox_that_is_missing_in_a_file_is_told_and_made_on_order() {
    let shop = InFile::without_outbox();
    let ended = shop.0.semel(&["run"]).code(2);
    assert!(ended.stderr.contains("semel store migrate"), "{ended:?}");
    let checked = shop.0.semel(&["check"]).code(1);
    assert!(
        checked.stdout.contains("semel store migrate"),
        "{checked:?}"
    );
    let without_yes = ["store", "migrate", "--store", "sqlite:shop.db"];
    let planned = shop.0.semel(&without_yes).code(1);
    assert!(planned.stderr.contains("--yes"), "{planned:?}");
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name GLOB 'semel_*'";
    assert_eq!(shop.0.rows("shop.db", tables), ["0"]);
    shop.0.semel(&MIGRATE).done();
    shop.0.semel(&MIGRATE).done();
    shop.0.semel(&["check"]).done();
}

#[test]
fn a_relay_whose_report_nobody_would_read_is_not_looked_at() {
    let shop = InFile::new();
    let second = CONFIG.replace("relays.out", "relays.second");
    let config = format!("{CONFIG}{}", second.replace("shop.db", "gone.db"));
    shop.0.write("semel.toml", config);
    let read = shop.0.semel(&["check", "--output", "json"]).code(1);
    assert_eq!(read.stdout.lines().count(), 2, "{read:?}");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut unread = shop.0.command();
    unread.args(["check", "--output", "json"]).stdout(writer);
    let unread = unread.output().expect("the semel binary");
    assert_eq!(unread.status.code(), Some(0), "{unread:?}");
}

const MIGRATE: [&str; 5] = ["store", "migrate", "--yes", "--store", "sqlite:shop.db"];
const CONFIG: &str = "[relays.out]\nstore = \"sqlite:shop.db\"\nstream = \"orders\"\nlease = \"3s\"\n\
                      [relays.out.sink]\nkind = \"file\"\npath = \"out\"\n";
