//! Shops whose transactions write into an outbox, and the stories of their relays that hold for every database.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;
use serde_json::Value;

use crate::operator::{items, object};
use crate::site::{Site, wait_for};

/// A database with an outbox, and a folder with a relay that appends its messages to the file `out`.
pub(crate) trait Shop {
    fn site(&self) -> &Site;

    /// Begins a transaction, writes so many messages of some order keys, numbered from `from`, and ends it with `end`.
    fn transaction(&self, from: u64, count: u64, end: &str);

    /// Executes statements.
    fn execute(&self, sql: &str);

    /// The url of the database, as a store.
    fn store(&self) -> String;

    /// Counts the messages that are not published.
    fn waiting(&self) -> u64;

    fn lines(&self) -> usize {
        if self.site().path("out").exists() {
            self.site().text("out").lines().count()
        } else {
            0
        }
    }

    /// Checks that these numbers arrived and no other, each order key in its order, and so many lines more at most.
    #[track_caller]
    fn arrived(&self, numbers: impl IntoIterator<Item = u64>, repeated: usize) {
        let text = self.site().text("out");
        let mut seen = BTreeSet::new();
        let mut last: BTreeMap<&str, u64> = BTreeMap::new();
        let mut lines = 0;
        for line in text.lines() {
            lines += 1;
            let (key, number) = line.split_once(' ').expect("a key and a number");
            let number: u64 = number.parse().expect("a number");
            if seen.insert(number) {
                let before = last.insert(key, number).unwrap_or(0);
                assert!(before < number, "{key}: {number} came after {before}");
            }
        }
        let expected: BTreeSet<u64> = numbers.into_iter().collect();
        assert_eq!(seen, expected);
        assert!(lines <= seen.len() + repeated, "{lines} lines");
    }
}

/// Kills a relay four times while transactions commit 4,000 messages and undo others.
#[track_caller]
pub(crate) fn a_relay_is_killed_often(shop: &impl Shop) {
    for kill in 0..4 {
        let relay = shop.site().start(&["run"]);
        for part in 0..10 {
            shop.transaction(1 + kill * 1_000 + part * 100, 100, "COMMIT");
            shop.transaction(1_000_000, 100, "ROLLBACK");
        }
        let enough = usize::try_from(kill * 1_000 + 200).expect("a count");
        wait_for("some lines", || shop.lines() >= enough);
        relay.signal(Signal::KILL);
        relay.wait();
    }
    let relay = shop.site().start(&["run", "--output", "json"]);
    wait_for("an empty outbox", || shop.waiting() == 0);
    relay.signal(Signal::TERM);
    let ended = relay.wait().done();
    let summary = "{\"relay\":\"out\",\"published\":";
    assert!(ended.stdout.starts_with(summary), "{ended:?}");
    shop.arrived(1..=4_000, 4 * 400);
    assert!(
        !shop.site().path("semel-data").exists(),
        "a relay needs no store"
    );
}

/// Kills one of two relays while transactions commit 2,000 messages.
#[track_caller]
pub(crate) fn one_of_two_relays_is_killed(shop: &impl Shop) {
    let mut one = shop.site().start(&["run"]);
    let mut two = shop.site().start(&["run"]);
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
    wait_for("the whole stream", || {
        two.stderr().contains("publishes 32 of 32 partitions")
    });
    two.signal(Signal::TERM);
    two.wait().done();
    shop.arrived(1..=2_000, 400);
}

/// Has a relay give up the second of four messages, and lets it go on once that was corrected. There is a message of a
/// stream that nobody relays, too.
#[track_caller]
pub(crate) fn a_dead_message_holds_up_its_order_key_alone(shop: &impl Shop) {
    shop.execute(
        "INSERT INTO semel_outbox (stream, order_key, payload) VALUES ('orders', 'a', 'a 1'), ('orders', 'a', 'a\n2'), \
         ('orders', 'a', 'a 3'), ('orders', 'b', 'b 4'), ('bills', NULL, 'x')",
    );
    let site = shop.site();
    let mut relay = site.start(&["run"]);
    wait_for("what is not held up", || shop.lines() == 2);
    wait_for("it to be told", || relay.stderr().contains(" is dead: "));
    relay.signal(Signal::TERM);
    relay.wait().done();
    let checked = site.semel(&["check"]).done();
    assert!(checked.stdout.contains("relay-dead"), "{checked:?}");
    assert!(checked.stdout.contains("stream-unrelayed"), "{checked:?}");
    shop.execute(
        "UPDATE semel_outbox SET payload = 'a 2', due_at = NULL, dead_at = NULL, attempts = 0 \
         WHERE dead_at IS NOT NULL",
    );
    let relay = site.start(&["run"]);
    wait_for("the rest", || shop.waiting() == 1);
    relay.signal(Signal::TERM);
    relay.wait().done();
    shop.arrived(1..=4, 0);
}

/// Lists, shows, replays and drops dead letters while a relay runs: what is replayed goes out in its place.
#[track_caller]
pub(crate) fn dead_letters_are_operated_while_the_relay_runs(shop: &impl Shop) {
    let site = shop.site();
    let dead = || dead_letters(site);
    shop.execute(
        "INSERT INTO semel_outbox (stream, order_key, payload) VALUES ('orders', 'a', 'a\n1'), ('orders', 'a', 'a 2'), \
         ('orders', 'b', 'b\n4'), ('orders', 'b', 'b 5'), ('orders', 'c', 'c 6')",
    );
    let relay = site.start(&["run"]);
    wait_for("two dead letters", || dead().len() == 2);
    let found = dead();
    let [a, b] = &found[..] else {
        panic!("{found:?}")
    };
    for (it, key) in [(a, "a"), (b, "b")] {
        assert_eq!(
            (&it["relay"], &it["stream"]),
            (&"out".into(), &"orders".into())
        );
        assert_eq!(
            (&it["order_key"], &it["state"]),
            (&key.into(), &"dead".into())
        );
        assert_eq!((&it["size_bytes"], &it["attempts"]), (&3.into(), &1.into()));
        assert_ne!(it["error"], "", "{it}");
    }
    let (a, b) = (id_of(a), id_of(b));
    let table = site.semel(&["dead-letters", "list"]).done().stdout;
    assert!(table.contains(&a) && table.contains("out"), "{table}");

    are_shown_by_their_ids(site, &a);

    let planned = site.semel(&["dead-letters", "replay", &a]).code(1);
    let planned = planned.says("plan: replay 1 dead letter\n");
    planned.says("nothing was changed; to carry it out:");
    assert_eq!(dead().len(), 2, "a plan changes nothing");
    // A later message of its order key, which waits for it as those before do.
    shop.execute(
        "INSERT INTO semel_outbox (stream, order_key, payload) VALUES ('orders', 'a', 'a 7')",
    );
    shop.execute(
        "UPDATE semel_outbox SET payload = 'a 1' WHERE order_key = 'a' AND dead_at IS NOT NULL",
    );
    let because = ["--yes", "--reason", "mended", "--by", "ann"];
    let again = [
        &["dead-letters", "replay", &a, "--output", "json"],
        &because[..],
    ]
    .concat();
    let ended = object(&site.semel(&again).done());
    let expected = (&"out".into(), &1.into(), &true.into());
    assert_eq!(
        (&ended["relay"], &ended["replayed"], &ended["audited"]),
        expected
    );
    wait_for("what waited behind it", || shop.lines() == 4);
    assert_eq!(dead().len(), 1);

    let drop = ["dead-letters", "drop", &b];
    let planned = site.semel(&drop).code(1).says("plan: drop 1 dead letter\n");
    planned.says("--reason TEXT");
    let ended = site.semel(&[&drop[..], &["--yes"]].concat()).code(2);
    ended.says("--reason TEXT");
    assert_eq!(dead().len(), 1);
    let ended = site.semel(&[&drop[..], &["--output", "json"], &because].concat());
    assert_eq!(object(&ended.done())["dropped"], 1);
    wait_for("what waited behind it", || shop.lines() == 5);
    let none = site.semel(&["dead-letters", "list"]).done();
    none.says("no dead letters");
    relay.signal(Signal::TERM);
    relay.wait().done();
    shop.arrived([1, 2, 5, 6, 7], 0);

    let trail = site.semel(&[
        "store",
        "audit",
        "--store",
        &shop.store(),
        "--output",
        "json",
    ]);
    let trail: Vec<_> = items(&trail.done())
        .iter()
        .map(|it| {
            ["by", "action", "key", "reason"]
                .map(|name| it[name].as_str().unwrap_or_default().to_owned())
        })
        .collect();
    let expected = [
        ["ann", "requeue", &a, "mended"],
        ["ann", "drop", &b, "mended"],
    ];
    assert_eq!(trail, expected.map(|it| it.map(str::to_owned)));
}

#[track_caller]
fn are_shown_by_their_ids(site: &Site, a: &str) {
    let shown = site.semel(&["dead-letters", "show", a, "--output", "json"]);
    let shown = object(&shown.done());
    assert_eq!(
        (&shown["id"], &shown["payload"]),
        (&a.into(), &"a\n1".into())
    );
    let bytes = site.semel(&["dead-letters", "show", a, "--payload"]).done();
    assert_eq!(bytes.stdout, "a\n1");
    let unknown = "00000000-0000-7000-8000-000000000000";
    for verb in ["show", "replay", "drop"] {
        let ended = site.semel(&["dead-letters", verb, unknown]).code(1);
        ended.says(&format!(
            "{unknown}: no dead letter of relay out has this id"
        ));
        let ended = site.semel(&["dead-letters", verb, "pay-1"]).code(2);
        ended.says("pay-1: a dead letter of a relay goes by the id of its message");
    }
}

fn dead_letters(site: &Site) -> Vec<Value> {
    items(
        &site
            .semel(&["dead-letters", "list", "--output", "json"])
            .done(),
    )
}

fn id_of(item: &Value) -> String {
    item["id"].as_str().expect("an id").to_owned()
}
