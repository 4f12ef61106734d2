//! Relays asked of a worker: the list of pipelines has them, and their dead letters are listed, shown, replayed and dropped
//! as on the store itself.

use rustix::process::Signal;
use serde_json::Value;

use super::{Asked, end, timeless};
use crate::claims::server::{Request, ask};
use crate::operator::{items, member};
use crate::ready::Admin;
use crate::site::{Ended, Running, Site, wait_for};

/// The ids of messages that their relay has given up.
const DEAD: [&str; 4] = [
    "00000000-0000-7000-8000-00000000000a",
    "00000000-0000-7000-8000-00000000000b",
    "00000000-0000-7000-8000-00000000000c",
    "00000000-0000-7000-8000-00000000000d",
];

/// A worker of pipelines and a relay, which has given up four messages.
fn asked() -> Asked {
    let asked = Asked::new("sqlite:s.db");
    let site = &asked.site;
    let relay = "[relays.out]\nstore = \"sqlite:shop.db\"\nstream = \"orders\"\n\
                 [relays.out.sink]\nkind = \"file\"\npath = \"out\"\n";
    for file in ["semel.toml", "worker.toml"] {
        site.write(file, site.text(file) + relay);
    }
    let shop = site.database("shop.db");
    shop.execute_batch("PRAGMA journal_mode = wal")
        .expect("a shop");
    let migrate = ["store", "migrate", "--yes", "--store", "sqlite:shop.db"];
    site.semel(&migrate).done();
    for (at, id) in (1..).zip(DEAD) {
        let bits = id.replace('-', "");
        let dead = format!(
            "INSERT INTO semel_outbox (id, stream, order_key, headers, payload, due_at, dead_at, attempts, error) \
             VALUES (X'{bits}', 'orders', 'k{at}', '{{\"a\":\"b\"}}', 'k{at} {at}', 9223372036854775807, {at}, 8, \
             'too large')"
        );
        shop.execute_batch(&dead).expect("a dead letter");
    }
    asked
}

/// Asks with a verb, on the store and of the worker; both print the same and end with this code.
#[track_caller]
fn same(asked: &Asked, verb: &str, code: i32) -> String {
    let words: Vec<&str> = verb.split(' ').collect();
    let (here, there) = (asked.here(&words), asked.there(&words));
    assert_eq!(
        (here.status.code(), there.status.code()),
        (Some(code), Some(code)),
        "{verb}: {here:#?} {there:#?}"
    );
    if verb.contains("--output json") {
        assert_eq!(here.stdout, there.stdout, "{verb}");
    } else {
        assert_eq!(timeless(&here.stdout), timeless(&there.stdout), "{verb}");
    }
    there.stderr
}

#[test]
fn dead_letters_of_relays_are_asked_of_a_worker_as_of_the_store() {
    let asked = asked();
    let worker = asked.worker();
    wait_for("what is dead to be counted", || {
        let pipelines = ask(asked.port, &Request::get("/v1/pipelines")).body;
        pipelines["items"][2]["backlog"]["dead"] == 4
    });
    let [one, two, ..] = DEAD;
    for output in ["table", "json", "jsonl"] {
        for verb in [
            "pipelines list".to_owned(),
            "dead-letters list".to_owned(),
            "dead-letters list --limit 2".to_owned(),
            "dead-letters list --relay out".to_owned(),
            "dead-letters list --relay out --limit 3".to_owned(),
            "dead-letters list --pipeline pay".to_owned(),
            format!("dead-letters show {two} {one}"),
            format!("dead-letters show {two} --relay out"),
        ] {
            same(&asked, &format!("{verb} --output {output}"), 0);
        }
    }
    let list = ["dead-letters", "list", "--output", "json"];
    let listed = items(&asked.there(&list).done());
    assert_eq!(listed[0]["key"], "dead-1", "{listed:?}");
    assert_eq!(member(&listed[1..], "id"), DEAD);
    let list = ["pipelines", "list", "--output", "json"];
    let listed = items(&asked.there(&list).done());
    assert_eq!(member(&listed, "pipeline"), ["mail", "out", "pay"]);
    assert_eq!(listed[2]["relay"], true, "after the pipelines: {listed:?}");

    same(&asked, &format!("dead-letters show {one} --payload"), 0);
    same(
        &asked,
        "dead-letters show dead-1 --pipeline pay --payload",
        0,
    );
    let none = "00000000-0000-7000-8000-000000000000";
    let said = same(&asked, &format!("dead-letters show {none} --relay out"), 1);
    assert!(said.contains("no dead letter of relay out"), "{said}");
    let said = same(&asked, &format!("dead-letters replay dead-1 {one}"), 2);
    assert!(said.contains("--relay NAME"), "{said}");
    let said = same(&asked, "dead-letters list --relay ot", 2);
    assert!(said.contains("did you mean `out`?"), "{said}");
    same(&asked, "dead-letters show dead-1 --relay out", 2);
    // Without a yes nothing is done, and all without a relay are those of pipelines.
    let said = same(&asked, &format!("dead-letters replay {one} {two}"), 1);
    assert!(said.contains("plan: replay 2 dead letters"), "{said}");
    assert!(said.contains(&format!("relay out  {one}  k1  too large")));
    let said = same(&asked, "dead-letters drop --all", 1);
    assert!(!said.contains(one), "{said}");
    let said = same(
        &asked,
        "dead-letters drop --relay out --all --reason-like HTTP",
        0,
    );
    assert!(said.contains("nothing to drop"), "{said}");
    let said = same(&asked, &format!("dead-letters drop {none} --relay out"), 1);
    assert!(said.contains(none), "{said}");
    end(worker);
}

#[test]
fn dead_letters_of_relays_are_replayed_and_dropped_by_a_worker_as_in_the_store() {
    let asked = asked();
    let worker = asked.worker();
    let [one, two, three, four] = DEAD;
    // What is done prints the same, too.
    let yes = ["--yes", "--output", "json", "--reason", "sent by hand"];
    let done = |run: &dyn Fn(&[&str]) -> Ended, verb: &str| {
        let words: Vec<_> = verb.split(' ').chain(yes).collect();
        run(&words).done().stdout
    };
    let here = done(
        &|words| asked.here(words),
        &format!("dead-letters drop {one}"),
    );
    let there = done(
        &|words| asked.there(words),
        &format!("dead-letters drop {two}"),
    );
    assert_eq!(here, there);
    let here = done(
        &|words| asked.here(words),
        &format!("dead-letters replay {three}"),
    );
    let there = done(
        &|words| asked.there(words),
        "dead-letters replay --relay out --all --older-than 1h",
    );
    assert_eq!(here, there);
    wait_for("what was tried again", || {
        let path = asked.site.path("out");
        path.exists() && asked.site.text("out").lines().count() == 2
    });
    let mut lines: Vec<_> = asked.site.text("out").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["k3 3", "k4 4"], "{four}");
    let audit = ["store", "audit", "--store", "sqlite:shop.db", "--output"];
    let audit = [&audit[..], &["json"]].concat();
    let audit = items(&asked.here(&audit).done());
    let by: Vec<_> = audit
        .iter()
        .filter(|it| it["by"] == "loopback")
        .map(|it| {
            (
                it["action"].clone(),
                it["key"].clone(),
                it["reason"].clone(),
            )
        })
        .collect();
    let entry = |action: &str, id: &str| -> (Value, Value, Value) {
        (action.into(), id.into(), "sent by hand".into())
    };
    assert_eq!(by, [entry("drop", two), entry("requeue", four)]);
    assert_eq!(audit.len(), 4, "{audit:?}");
    end(worker);
}

/// A worker with one relay and nothing else, which serves its status.
struct Alone {
    site: Site,
    admin: Admin,
    running: Running,
}

impl Alone {
    fn new(store: &str) -> Self {
        let admin = Admin::new();
        let relay = format!(
            "[relays.out]\nstore = \"{store}\"\nstream = \"orders\"\n[relays.out.sink]\nkind = \"file\"\npath = \"out\"\n"
        );
        let site = Site::with(&[("semel.toml", &(admin.table() + &relay))]);
        let mut running = site.start(&["run"]);
        wait_for("a status", || {
            assert!(running.is_running(), "{}", running.stderr());
            admin.ready().1["state"].is_string()
        });
        Self {
            site,
            admin,
            running,
        }
    }

    fn here(&self, words: &[&str]) -> Ended {
        self.site.semel(words)
    }

    fn there(&self, words: &[&str]) -> Ended {
        let mut command = self.site.command();
        let url = format!("http://{}", self.admin.address());
        command.args(words).env("SEMEL_ADMIN", url);
        Running::start(&mut command).wait()
    }
}

const PAUSE: [&str; 6] = ["pipelines", "pause", "out", "--reason", "why", "--yes"];

#[test]
fn a_relay_whose_database_is_away_is_no_mistake_of_the_command() {
    // Nobody listens there.
    let alone = Alone::new("postgres://semel@127.0.0.1:1/none?sslmode=disable");
    let letters = ["dead-letters", "list", "--relay", "out"];
    for words in [&PAUSE[..], &PAUSE[..5], &letters] {
        for ended in [alone.here(words), alone.there(words)] {
            let ended = ended.code(3).says("[store-unavailable]");
            assert!(!ended.stderr.contains("may have"), "{ended:#?}");
        }
    }
    // That one is.
    let misspelt = ["pipelines", "pause", "outt", "--reason", "why", "--yes"];
    alone.here(&misspelt).code(2);
    alone.there(&misspelt).code(2);
    alone.running.signal(Signal::TERM);
    alone.running.wait();
}

#[test]
fn a_relay_beside_whose_outbox_there_is_no_store_is_told_so_by_its_worker() {
    let site = Site::with(&[]);
    let migrate = ["store", "migrate", "--yes", "--store", "sqlite:shop.db"];
    site.database("shop.db")
        .execute_batch("PRAGMA journal_mode = wal")
        .expect("a shop");
    site.semel(&migrate).done();
    let shop = site.path("shop.db");
    let tables = "SELECT type || ' ' || name FROM sqlite_schema WHERE type IN ('view', 'table') AND name GLOB 'semel_*' \
                  AND NOT name GLOB 'semel_outbox*' AND NOT name GLOB 'semel_producer*'";
    let tables = site.rows("shop.db", tables);
    let drop = |it: &String| format!("DROP {it};");
    let drop: String = tables.iter().map(drop).collect();
    site.database("shop.db")
        .execute_batch(&format!("PRAGMA foreign_keys = off; {drop}"))
        .expect("dropped");
    let mut alone = Alone::new(&format!("sqlite:{}", shop.display()));
    wait_for("a warning", || {
        let said = alone.running.stderr();
        said.contains("no store is seen beside the outbox")
    });
    for ended in [alone.here(&PAUSE), alone.there(&PAUSE)] {
        let ended = ended.code(2).says("[store-unavailable]");
        ended.says("semel store migrate --yes");
    }
    alone
        .here(&[
            "store",
            "migrate",
            "--yes",
            "--store",
            &format!("sqlite:{}", shop.display()),
        ])
        .done();
    wait_for("the order", || alone.there(&PAUSE).status.success());
    wait_for("the pause", || {
        alone.admin.ready().1["relays"]["out"]["state"] == "paused"
    });
    alone.running.signal(Signal::TERM);
    alone.running.wait().done();
}
