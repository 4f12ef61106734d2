//! Orders to a worker, by the command line: planned, consented to, carried out, and refused once they are stale.

use serde_json::Value;

use super::{Asked, end, timeless};
use crate::operator::STORES;
use crate::site::Ended;

/// The verbs that change something, in this order, each with the lines that it prints.
const ORDERS: [&str; 12] = [
    "keys release dead-1 --pipeline pay",
    "keys forget json:7 --pipeline pay",
    "keys hold done-1 --pipeline pay",
    "keys hold --off done-1 --pipeline pay",
    "keys extend done-1 --window 30d --pipeline pay",
    "in-doubt resolve doubt-1 --applied --outcome {\"charge\":1} --pipeline pay",
    "in-doubt resolve --all --abandon",
    "dead-letters drop --all",
    "quarantine drop done-1",
    "pipelines pause pay",
    "pipelines resume pay",
    "store sweep",
];

#[track_caller]
fn words<'w>(verb: &'w str, more: &[&'w str]) -> Vec<&'w str> {
    verb.split(' ').chain(more.iter().copied()).collect()
}

#[test]
fn each_order_changes_by_a_worker_what_it_changes_in_the_store_and_prints_the_same() {
    for store in STORES {
        let (mine, asked) = (Asked::new(store), Asked::new(store));
        let worker = asked.worker();
        for verb in ORDERS {
            // First the plan alone, which changes nothing. To abandon takes a reason from the beginning.
            if !verb.contains("--abandon") {
                let before = asked.there(&["store", "audit", "--output", "jsonl"]).done();
                let planned = asked.there(&words(verb, &[])).code(1);
                let planned = planned
                    .says("nothing was changed")
                    .says("--reason WHY --yes");
                let said = format!("the worker at {} carries it out", asked.url());
                assert!(planned.stderr.contains(&said), "{verb}: {planned:#?}");
                let after = asked.there(&["store", "audit", "--output", "jsonl"]).done();
                assert_eq!(before.stdout, after.stdout, "{store}: {verb}");
                // Without a reason, it is not even planned.
                let refused = asked.there(&words(verb, &["--yes"])).code(2);
                refused.says("a worker wants to know why");
            }
            let order = words(verb, &["--reason", "why", "--yes", "--output", "json"]);
            let here = mine.here(&order);
            let there = asked.there(&order);
            assert_eq!(
                here.status, there.status,
                "{store}: {verb}: {here:#?} {there:#?}"
            );
            assert_eq!(
                timeless(&here.stdout),
                timeless(&there.stdout),
                "{store}: {verb}"
            );
        }
        // The same has happened, and the trail has the same entries by another name.
        for verb in [
            "keys list",
            "dead-letters list",
            "quarantine list",
            "in-doubt list",
        ] {
            let listed = |ended: Ended| timeless(&without_times(&ended.done().stdout));
            let words = words(verb, &["--output", "jsonl"]);
            assert_eq!(
                listed(mine.here(&words)),
                listed(asked.there(&words)),
                "{store}: {verb}"
            );
        }
        let trail = |ended: Ended| {
            let lines = ended.done().stdout;
            let entries = lines.lines().map(|line| {
                let entry: Value = serde_json::from_str(line).expect("JSON");
                let of = |name: &str| entry[name].to_string();
                (
                    of("action"),
                    of("key"),
                    of("before"),
                    of("after"),
                    of("reason"),
                )
            });
            let mut entries: Vec<_> = entries.collect();
            entries.sort();
            (entries, lines.contains("\"by\":\"loopback\""))
        };
        let audit = ["store", "audit", "--output", "jsonl"];
        let (here, there) = (trail(mine.here(&audit)), trail(asked.there(&audit)));
        assert_eq!(here.0, there.0, "{store}");
        assert_eq!((here.1, there.1), (false, true), "{store}");
        end(worker);
    }
}

/// Lines of objects without the times at which something was done to them.
fn without_times(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let mut entry: Value = serde_json::from_str(line).expect("JSON");
        for name in ["since", "remembered_until"] {
            entry[name] = Value::Null;
        }
        entry.to_string() + "\n"
    });
    lines.collect()
}

#[test]
fn nothing_to_do_and_what_is_left_as_it_is_end_as_they_do_on_the_store() {
    let (mine, asked) = (Asked::new(STORES[1]), Asked::new(STORES[1]));
    let worker = asked.worker();
    for (verb, code) in [
        // It is so already.
        ("keys hold --off done-1 --pipeline pay", 0),
        ("pipelines resume pay", 0),
        // It cannot be done.
        ("keys forget doubt-1 --pipeline pay", 1),
        ("in-doubt resolve done-1 --applied --pipeline pay", 1),
        ("in-doubt resolve none --applied --pipeline pay", 1),
        ("keys release none --pipeline pay", 1),
        ("quarantine drop none", 1),
        // Some of it can.
        ("keys hold done-1 none --pipeline pay", 1),
        ("in-doubt resolve doubt-1 none --applied --pipeline pay", 1),
        // Nothing is, where a name of these verbs is nothing's.
        ("dead-letters drop dead-1 none --pipeline pay", 1),
        ("dead-letters replay dead-1 none --pipeline pay", 1),
        ("quarantine drop done-1 none", 1),
        ("quarantine drop done-1 not/an/id", 1),
        ("pipelines pause pay none", 2),
        ("pipelines drain pay none", 2),
        ("pipelines resume pay none", 2),
    ] {
        let order = words(verb, &["--reason", "why", "--yes", "--output", "json"]);
        let (here, there) = (mine.here(&order), asked.there(&order));
        assert_eq!(
            (here.status.code(), there.status.code()),
            (Some(code), Some(code)),
            "{verb}: {there:#?}"
        );
        assert_eq!(timeless(&here.stdout), timeless(&there.stdout), "{verb}");
        assert!(!there.stderr.is_empty(), "{verb}");
    }
    for list in ["dead-letters list", "quarantine list", "pipelines list"] {
        let list = words(list, &["--output", "jsonl"]);
        let (here, there) = (mine.here(&list).done(), asked.there(&list).done());
        let (here, there) = (without_times(&here.stdout), without_times(&there.stdout));
        assert_eq!(timeless(&here), timeless(&there), "{list:?}");
        let is_left = |line: &str| match list[0] {
            "pipelines" => line.contains("\"pay\"") && line.contains("\"run\""),
            "quarantine" => line.contains("\"done-1\""),
            _ => line.contains("\"dead-1\""),
        };
        assert!(there.lines().any(is_left), "{list:?}: {there}");
    }
    let by = [
        "keys", "hold", "done-1", "--yes", "--reason", "why", "--by", "eve",
    ];
    asked
        .there(&by)
        .code(2)
        .says("--by does not go with --admin");
    end(worker);
}
