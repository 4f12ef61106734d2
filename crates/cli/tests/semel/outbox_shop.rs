//! Shops whose transactions write into an outbox, and the stories of their relays that hold for every database.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;

use crate::site::{Site, wait_for};

/// A database with an outbox, and a folder with a relay that appends its messages to the file `out`.
pub(crate) trait Shop {
    fn site(&self) -> &Site;

    /// Begins a transaction, writes so many messages of some order keys, numbered from `from`, and ends it with `end`.
    fn transaction(&self, from: u64, count: u64, end: &str);

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
