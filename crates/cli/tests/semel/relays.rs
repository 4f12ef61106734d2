//! Relays of an outbox in an SQLite file: what transactions wrote into it leaves if they commit, and in order, whatever is
//! killed meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;

use crate::site::{Site, wait_for};

/// A file with an outbox, and a relay that appends to another one.
struct Shop(Site);

impl Shop {
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

    /// Commits or undoes a transaction with so many orders and messages of some order keys, numbered from `from`.
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

    fn waiting(&self) -> u64 {
        let rows = self.0.rows("shop.db", "SELECT count(*) FROM semel_outbox");
        rows[0].parse().expect("a count")
    }

    fn lines(&self) -> usize {
        self.0.text("out").lines().count()
    }

    /// Checks that what the orders say arrived and nothing else, each order key in its order, and so many lines more at
    /// most.
    #[track_caller]
    fn arrived(&self, repeated: usize) {
        let text = self.0.text("out");
        let mut seen = BTreeSet::new();
        let mut last: BTreeMap<&str, u64> = BTreeMap::new();
        for line in text.lines() {
            let (key, number) = line.split_once(' ').expect("a key and a number");
            let number: u64 = number.parse().expect("a number");
            if seen.insert(number) {
                let before = last.insert(key, number).unwrap_or(0);
                assert!(before < number, "{key}: {number} came after {before}");
            }
        }
        let orders = self.0.rows("shop.db", "SELECT number FROM orders");
        let orders = orders.iter().map(|it| it.parse().expect("a number"));
        assert_eq!(seen, orders.collect());
        let lines = text.lines().count();
        assert!(lines <= seen.len() + repeated, "{lines} lines");
    }
}

#[test]
fn what_is_committed_to_a_file_arrives_in_order_however_often_the_relay_is_killed() {
    let shop = Shop::new();
    for kill in 0..4 {
        let relay = shop.0.start(&["run"]);
        for part in 0..10 {
            shop.transaction(1 + kill * 1_000 + part * 100, 100, "COMMIT");
            shop.transaction(1_000_000, 100, "ROLLBACK");
        }
        let enough = usize::try_from(kill * 1_000 + 200).expect("a count");
        wait_for("some lines", || shop.lines() >= enough);
        relay.signal(Signal::KILL);
        relay.wait();
    }
    let relay = shop.0.start(&["run", "--output", "json"]);
    wait_for("an empty outbox", || shop.waiting() == 0);
    relay.signal(Signal::TERM);
    let ended = relay.wait().done();
    assert!(
        ended
            .stdout
            .starts_with("{\"relay\":\"out\",\"published\":"),
        "{ended:?}"
    );
    shop.arrived(4 * 400);
    assert!(
        !shop.0.path("semel-data").exists(),
        "a relay needs no store"
    );
}

#[test]
fn two_processes_share_a_file_and_one_goes_on_where_the_other_was_killed() {
    let shop = Shop::new();
    let mut one = shop.0.start(&["run"]);
    let mut two = shop.0.start(&["run"]);
    let has_half = |it: &str| it.contains("publishes 16 of 32 partitions");
    wait_for("both to have their share", || {
        has_half(&one.stderr()) && has_half(&two.stderr())
    });
    for part in 0..10 {
        shop.transaction(1 + part * 100, 100, "COMMIT");
    }
    wait_for("some lines", || shop.lines() >= 100);
    one.signal(Signal::KILL);
    one.wait();
    for part in 10..20 {
        shop.transaction(1 + part * 100, 100, "COMMIT");
    }
    wait_for("an empty outbox", || shop.waiting() == 0);
    two.signal(Signal::TERM);
    two.wait().done();
    shop.arrived(400);
}

#[test]
fn a_dead_message_of_a_file_is_told_and_holds_up_its_order_key_alone() {
    let shop = Shop::new();
    shop.execute(
        "INSERT INTO orders VALUES (1), (2), (3), (4); \
         INSERT INTO semel_outbox (stream, order_key, payload) VALUES \
         ('orders', 'a', 'a 1'), ('orders', 'a', 'a' || char(10) || '2'), ('orders', 'a', 'a 3'), ('orders', 'b', 'b 4'); \
         INSERT INTO semel_outbox (stream, payload) VALUES ('bills', 'x')",
    );
    let mut relay = shop.0.start(&["run"]);
    wait_for("what is not held up", || shop.lines() == 2);
    wait_for("it to be told", || relay.stderr().contains(" is dead: "));
    relay.signal(Signal::TERM);
    relay.wait().done();
    let checked = shop.0.semel(&["check"]).done();
    assert!(checked.stdout.contains("relay-dead"), "{checked:?}");
    assert!(checked.stdout.contains("stream-unrelayed"), "{checked:?}");
    shop.execute(
        "UPDATE semel_outbox SET payload = 'a 2', due_at = NULL, dead_at = NULL, attempts = 0 \
         WHERE dead_at IS NOT NULL",
    );
    let relay = shop.0.start(&["run"]);
    wait_for("the rest", || shop.waiting() == 1);
    relay.signal(Signal::TERM);
    relay.wait().done();
    shop.arrived(0);
}

#[test]
fn an_outbox_that_is_missing_in_a_file_is_told_and_made_on_order() {
    let shop = Shop::without_outbox();
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

const MIGRATE: [&str; 5] = ["store", "migrate", "--yes", "--store", "sqlite:shop.db"];
const CONFIG: &str = "[relays.out]\nstore = \"sqlite:shop.db\"\nstream = \"orders\"\nlease = \"3s\"\n\
                      [relays.out.sink]\nkind = \"file\"\npath = \"out\"\n";
