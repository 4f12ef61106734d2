//! Relays of an outbox in an SQLite file: what transactions wrote into it leaves if they commit, and in order, whatever is
//! killed meanwhile.

use rustix::process::Signal;

use crate::outbox_shop::{Shop, a_relay_is_killed_often, one_of_two_relays_is_killed};
use crate::site::{Site, wait_for};

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

    fn execute(&self, sql: &str) {
        let done = self.0.database("shop.db").execute_batch(sql);
        done.expect("executed");
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
    let shop = InFile::new();
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
    shop.arrived(shop.orders(), 0);
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

const MIGRATE: [&str; 5] = ["store", "migrate", "--yes", "--store", "sqlite:shop.db"];
const CONFIG: &str = "[relays.out]\nstore = \"sqlite:shop.db\"\nstream = \"orders\"\nlease = \"3s\"\n\
                      [relays.out.sink]\nkind = \"file\"\npath = \"out\"\n";
