//! `semel quarantine`: messages that were set aside unrun.

use serde_json::Value;

use crate::operator::{STORES, fresh, items, member, object, worked, worker};
use crate::site::{Site, lines};
use crate::transfer::holdings;

const VERBS: [&[&str]; 4] = [
    &["quarantine", "list"],
    &["quarantine", "show", "done-1"],
    &["quarantine", "release", "done-1", "--yes"],
    &["quarantine", "drop", "done-1", "--yes"],
];

/// The messages in quarantine.
fn kept(site: &Site) -> Vec<Value> {
    let ended = site.semel(&["quarantine", "list", "--output", "json"]);
    items(&ended.done())
}

fn reasons(site: &Site) -> Vec<String> {
    member(&kept(site), "reason")
}

/// A site with a message for each of several reasons: no JSON, no key, too old, a conflict.
fn troubled(store: &str) -> Site {
    let site = worked(store);
    let config = site.text("semel.toml");
    site.write(
        "semel.toml",
        config.replace("retry =", "birth = \"json:/born\"\nretry ="),
    );
    site.write(
        "in",
        "no json\n{\"name\":\"a\",\"born\":\"2026-11-01T00:00:00Z\"}\n{\"id\":\"old-1\",\"born\":1}\n",
    );
    site.run().is(&[("quarantined", 2), ("too_old", 1)]);
    assert_eq!(
        reasons(&site),
        ["fingerprint-conflict", "key-missing", "not-json", "too-old"]
    );
    site
}

/// The id of the message with this reason.
fn id_of(site: &Site, reason: &str) -> String {
    let kept = kept(site);
    let mut ids = kept.iter().filter(|it| it["reason"] == reason);
    let id = ids.next().and_then(|it| it["id"].as_str());
    id.expect("a message with this reason").to_owned()
}

#[test]
fn every_verb_has_help_with_an_example_and_refuses_what_it_does_not_know() {
    let site = Site::new();
    for verb in VERBS {
        let help = site.semel(&[verb[0], verb[1], "--help"]).done();
        assert!(help.stdout.contains("Example"), "{help:#?}");
        let arguments = [verb, &["--no-such-option"]].concat();
        assert_eq!(site.semel(&arguments).code(2).stdout, "");
    }
    for words in [
        &["release"][..],
        &["drop"],
        &["drop", "k", "--all"],
        &["release", "k", "--older-than", "1h"],
        &["drop", "--all", "--older-than", "soon"],
        &["show"],
    ] {
        let arguments = [&["quarantine"], words].concat();
        assert_eq!(site.semel(&arguments).code(2).stdout, "", "{words:?}");
    }
}

#[test]
fn a_store_that_is_missing_or_in_use_and_a_name_that_is_unknown_are_told() {
    for store in STORES {
        let site = fresh(store);
        for verb in VERBS {
            site.semel(verb).code(3).says("[store-unavailable]");
        }
        let site = worked(store);
        for verb in ["show", "release", "drop"] {
            for name in ["no-such-key", "00000000", "dead-1"] {
                let ended = site.semel(&["quarantine", verb, name]).code(1);
                let text = "no message in quarantine has this key, or an id that begins so";
                assert_eq!(ended.says(text).stdout, "", "{verb} {name}");
            }
        }
        site.semel(&["quarantine", "show", "json:{"]).code(2);
    }
    let site = worked("embedded:data");
    let worker = worker(&site);
    assert_eq!(
        reasons(&site),
        ["fingerprint-conflict"],
        "a list disturbs nobody"
    );
    site.semel(&["quarantine", "show", "done-1"]).done();
    drop(worker.1);
}

#[test]
fn a_list_has_every_reason_and_a_message_is_shown_by_key_or_id() {
    for store in STORES {
        let site = troubled(store);
        for item in &kept(&site) {
            assert_eq!(item["state"], "quarantined");
            assert_eq!(item["pipeline"], "pay");
            assert_eq!(item["id"].as_str().map(str::len), Some(32), "{item}");
            assert!(
                item["since"]
                    .as_str()
                    .is_some_and(|since| since.ends_with('Z'))
            );
            let has_key = item["reason"] == "too-old" || item["reason"] == "fingerprint-conflict";
            assert_eq!(item["key"].is_string(), has_key, "{item}");
            assert_eq!(item["operation_id"].is_string(), has_key, "{item}");
        }
        let id = id_of(&site, "not-json");
        for name in [&id[..], &id[..8], &id[..8].to_uppercase()] {
            let shown = site.semel(&["quarantine", "show", name, "--output", "json"]);
            assert_eq!(object(&shown.done())["payload"], "no json");
        }
        let raw = site.semel(&["quarantine", "show", &id, "--payload"]).done();
        assert_eq!(raw.stdout, "no json");
        let shown = site.semel(&["quarantine", "show", "old-1"]).done();
        assert!(shown.stdout.contains("reason:       too-old"), "{shown:#?}");
        let table = site.semel(&["quarantine", "list"]).done().stdout;
        assert!(
            table.starts_with("ID            KEY     PIPELINE  REASON"),
            "{table}"
        );
        assert!(table.contains(&format!("\n{}  ", &id[..12])), "{table}");
        let lines = site.semel(&["quarantine", "list", "--output", "jsonl", "--limit", "2"]);
        assert_eq!(lines.done().stdout.lines().count(), 2);
    }
}

#[test]
fn a_name_that_means_several_things_is_refused() {
    let site = fresh("sqlite:s.db");
    // Among this many ids, two begin alike.
    site.write("in", lines(0..1_500, |id| format!("no json {id}")));
    site.run().is(&[("quarantined", 1_500)]);
    let mut ids = member(&kept(&site), "id");
    ids.sort_unstable();
    let twins = ids.windows(2).find(|pair| pair[0][..4] == pair[1][..4]);
    let prefix = &twins.expect("two of 1,500 share four digits")[0][..4];
    let ended = site.semel(&["quarantine", "drop", prefix, "--yes"]).code(2);
    ended.says("ids begin so; type more of it");
    // A key that looks like the beginning of another message's id.
    let other = &ids.iter().find(|id| id[..4] != *prefix).expect("another")[..8];
    let config = site
        .text("semel.toml")
        .replace("retry =", "birth = \"json:/born\"\nretry =");
    site.write("semel.toml", config);
    site.write("in", format!("{{\"id\":\"{other}\",\"born\":1}}\n"));
    site.run().is(&[("too_old", 1)]);
    let ended = site.semel(&["quarantine", "drop", other, "--yes"]).code(2);
    ended.says("a key, and the beginning of another message's id; type the whole id");
    // A key in quarantine of two pipelines.
    site.write("in", "{\"id\":\"k\",\"born\":1}\n");
    let two = site
        .text("two.toml")
        .replace("retry =", "birth = \"json:/born\"\nretry =");
    site.write("two.toml", two);
    site.semel(&["run", "two.toml"]).done();
    let ended = site.semel(&["quarantine", "drop", "k", "--config", "two.toml"]);
    ended
        .code(2)
        .says("which pipeline? k is in mail, pay; name one with --pipeline NAME");
    let named = [
        "quarantine",
        "drop",
        "k",
        "--config",
        "two.toml",
        "--pipeline",
        "mail",
        "--yes",
    ];
    site.semel(&named).done();
    assert_eq!(kept(&site).len(), 1_502);
}

#[test]
fn without_yes_a_release_foretells_and_changes_nothing() {
    for store in STORES {
        let site = troubled(store);
        let before = holdings(&site, store);
        let ended = site.semel(&["quarantine", "release", "--all", "--output", "json"]);
        let ended = ended.code(1).says("plan: release 4 messages\n");
        let predicted: Vec<_> = items(&ended)
            .iter()
            .map(|it| (it["reason"].clone(), it["predicted"].clone()))
            .collect();
        for (reason, outcome) in [
            ("fingerprint-conflict", "stays"),
            ("key-missing", "stays"),
            ("not-json", "stays"),
            ("too-old", "runs"),
        ] {
            assert!(
                predicted.contains(&(reason.into(), outcome.into())),
                "{predicted:?}"
            );
        }
        site.semel(&["quarantine", "drop", "--all"])
            .code(1)
            .says("plan: drop 4 messages");
        assert_eq!(holdings(&site, store), before);
        assert!(!site.path("ran-old-1").exists());
    }
}

#[test]
fn a_released_message_runs_as_its_pipeline_is_configured_now() {
    for store in STORES {
        let site = troubled(store);
        let trail = site.trail().len();
        let release = [
            "quarantine",
            "release",
            "--all",
            "--yes",
            "--output",
            "json",
        ];
        let ended = site.semel(&[&release[..], &["--reason", "checked", "--by", "ann"]].concat());
        let ended = ended.done();
        ended
            .summary()
            .is(&[("applied", 1), ("conflicts", 1), ("quarantined", 2)]);
        assert_eq!(
            (&object(&ended)["dropped"], &object(&ended)["kept"]),
            (&1.into(), &3.into())
        );
        assert_eq!(
            reasons(&site),
            ["fingerprint-conflict", "key-missing", "not-json"]
        );
        assert_eq!(site.state("old-1").as_deref(), Some("completed"));
        assert_eq!(
            site.trail()[trail..],
            [[
                "ann",
                "drop",
                "message kept: too-old",
                "message dropped",
                "checked; ran again: completed"
            ]
            .map(str::to_owned)]
        );
        // A corrected selector releases the message without a key, and a fingerprint the other.
        let config = site.text("semel.toml");
        let config = config.replace("key = \"json:/id\"", "key = \"json:/name\"");
        site.write("semel.toml", &config);
        let id = id_of(&site, "key-missing");
        site.semel(&["quarantine", "release", &id[..10], "--yes"])
            .done();
        assert_eq!(site.state("a").as_deref(), Some("completed"));
        let config = config.replace("json:/name", "json:/id");
        let config = config.replace("retry =", "fingerprint = \"none\"\nretry =");
        site.write("semel.toml", config);
        let ended = site.semel(&[
            "quarantine",
            "release",
            "done-1",
            "--yes",
            "--output",
            "json",
        ]);
        ended.done().summary().is(&[("replayed", 1)]);
        assert_eq!(reasons(&site), ["not-json"]);
    }
}

#[test]
fn a_message_of_which_only_the_beginning_was_kept_is_not_released() {
    let site = fresh("sqlite:s.db");
    let config = site.text("semel.toml");
    site.write(
        "semel.toml",
        config.replace("retry =", "max_message = \"20B\"\nretry ="),
    );
    site.write("in", "{\"id\":\"done-1\",\"text\":\"more than may be\"}\n");
    site.run().is(&[("quarantined", 1)]);
    site.write("semel.toml", config);
    let why = "only its beginning was kept: raise max_message and deliver it again";
    let ended = site
        .semel(&["quarantine", "release", "--all", "--yes"])
        .code(1);
    assert_eq!(ended.says(why).stdout, "");
    assert_eq!(reasons(&site), ["message-too-large"]);
    assert_eq!(site.state("done-1"), None);
}

#[test]
fn a_released_message_that_fails_is_a_dead_letter_or_in_doubt() {
    let site = fresh("embedded:data");
    let config = site.text("semel.toml");
    site.write("semel.toml", config.replace("json:/id", "json:/name"));
    site.write("in", "{\"id\":\"dead-1\"}\n{\"id\":\"doubt-1\"}\n");
    site.run().is(&[("quarantined", 2)]);
    site.write("semel.toml", config);
    let ended = site.semel(&[
        "quarantine",
        "release",
        "--all",
        "--yes",
        "--output",
        "json",
    ]);
    let ended = ended.done();
    ended.summary().is(&[("dead", 1), ("in_doubt", 1)]);
    assert_eq!(object(&ended)["dropped"], 2);
    assert!(kept(&site).is_empty());
    let dead = site
        .semel(&["dead-letters", "list", "--output", "json"])
        .done();
    assert_eq!(member(&items(&dead), "key"), ["dead-1"]);
    site.semel(&["in-doubt", "show", "doubt-1"]).done();
}

#[test]
fn what_is_dropped_is_gone_and_on_the_trail() {
    for store in STORES {
        let site = troubled(store);
        let trail = site.trail().len();
        let drop = [
            "quarantine",
            "drop",
            "--yes",
            "--output",
            "json",
            "--by",
            "ann",
        ];
        let all = [&drop[..], &["--all", "--reason-like", "KEY-"]].concat();
        assert_eq!(object(&site.semel(&all).done())["dropped"], 1);
        let old = [&drop[..], &["--all", "--older-than", "1d"]].concat();
        site.semel(&old)
            .done()
            .says("nothing to drop: no messages in quarantine");
        let id = id_of(&site, "not-json");
        let named = [&drop[..], &[&id[..6], "old-1", "--reason", "garbage"]].concat();
        assert_eq!(object(&site.semel(&named).done())["dropped"], 2);
        assert_eq!(reasons(&site), ["fingerprint-conflict"]);
        let mut dropped: Vec<_> = site.trail()[trail..]
            .iter()
            .map(|it| (it[2].clone(), it[4].clone()))
            .collect();
        dropped.sort_unstable();
        assert_eq!(
            dropped,
            [
                ("message kept: key-missing", ""),
                ("message kept: not-json", "garbage"),
                ("message kept: too-old", "garbage"),
            ]
            .map(|(before, why)| (before.to_owned(), why.to_owned()))
        );
    }
}
