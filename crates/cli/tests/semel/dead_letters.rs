//! `semel dead-letters`: messages whose operations Semel gave up.

use serde_json::Value;

use crate::operator::{STORES, fresh, items, member, object, worked, worker};
use crate::site::{Site, killed_until_done, lines};
use crate::transfer::holdings;

const VERBS: [&[&str]; 4] = [
    &["dead-letters", "list"],
    &["dead-letters", "show", "dead-1"],
    &["dead-letters", "replay", "dead-1", "--yes"],
    &["dead-letters", "drop", "dead-1", "--yes"],
];

/// The keys of all dead letters.
fn dead(site: &Site) -> Vec<String> {
    let ended = site.semel(&["dead-letters", "list", "--output", "json"]);
    member(&items(&ended.done()), "key")
}

/// Replaces the handler by one that succeeds and says so.
fn mend(site: &Site) {
    site.write(
        "handler.sh",
        "cat >/dev/null; echo \"$SEMEL_KEY\" >> calls\n",
    );
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
        &["replay"][..],
        &["drop"],
        &["drop", "k", "--all"],
        &["drop", "k", "--older-than", "1h"],
        &["replay", "k", "--reason-like", "x"],
        &["drop", "--all", "--older-than", "soon"],
        &["replay", "json:{"],
        &["show"],
        &["show", "a", "b", "--payload"],
    ] {
        let arguments = [&["dead-letters"], words].concat();
        assert_eq!(site.semel(&arguments).code(2).stdout, "", "{words:?}");
    }
}

#[test]
fn a_store_that_is_missing_or_in_use_and_a_key_that_is_unknown_are_told() {
    for store in STORES {
        let site = fresh(store);
        for verb in VERBS {
            site.semel(verb).code(3).says("[store-unavailable]");
        }
        assert!(!site.path("data").exists() && !site.path("s.db").exists());
        let site = worked(store);
        for verb in ["show", "replay", "drop"] {
            let ended = site.semel(&["dead-letters", verb, "done-1"]).code(1);
            let ended = ended.says("done-1: no dead letter of pay has this key");
            assert_eq!(ended.stdout, "", "{verb}");
        }
    }
    let site = worked("embedded:data");
    let worker = worker(&site);
    assert_eq!(dead(&site), ["dead-1"], "a list disturbs nobody");
    site.semel(&["dead-letters", "show", "dead-1"]).done();
    site.semel(&["dead-letters", "replay", "--all"]).code(1);
    drop(worker.1);
}

#[test]
fn a_list_names_the_messages_and_what_became_of_their_keys() {
    for store in STORES {
        let site = worked(store);
        let ended = site.semel(&["dead-letters", "list", "--output", "json"]);
        let [item] = &items(&ended.done())[..] else {
            panic!("one dead letter");
        };
        for (name, value) in [
            ("key", "dead-1"),
            ("pipeline", "pay"),
            ("state", "dead"),
            ("reason", "dead"),
            ("coordinates", "in:2"),
        ] {
            assert_eq!(item[name], value, "{item}");
        }
        assert_eq!(item["size_bytes"], 15);
        assert_eq!(item["operation_id"].as_str().map(str::len), Some(64));
        let error = item["error"].as_str().expect("an error");
        assert!(error.contains("card declined"), "{error}");
        let table = site.semel(&["dead-letters", "list"]).done().stdout;
        let mut rows = table.lines();
        let heading = rows.next().expect("a heading");
        assert!(heading.starts_with("KEY "), "{heading}");
        assert!(rows.next().is_some_and(|row| row.contains("card declined")));
        assert_eq!(rows.next(), None);
        let lines = site.semel(&["dead-letters", "list", "--output", "jsonl"]);
        let line: Value = serde_json::from_str(lines.done().stdout.trim_end()).expect("JSON");
        assert_eq!(&line, item);
    }
    let site = worked("sqlite:s.db");
    let none = site.semel(&["dead-letters", "list", "--pipeline", "mail"]);
    assert_eq!(none.done().says("no dead letters").stdout, "");
}

#[test]
fn a_message_is_shown_whole_and_its_payload_byte_for_byte() {
    let site = worked("embedded:data");
    let shown = site.semel(&["dead-letters", "show", "dead-1"]).done();
    for line in ["key:          dead-1", "payload:      {\"id\":\"dead-1\"}"] {
        assert!(shown.stdout.lines().any(|it| it == line), "{shown:#?}");
    }
    let json = object(
        &site
            .semel(&["dead-letters", "show", "dead-1", "--output", "json"])
            .done(),
    );
    assert_eq!(json["payload"], "{\"id\":\"dead-1\"}");
    assert_eq!(json["transport"], "in:2");
    let raw = site
        .semel(&["dead-letters", "show", "dead-1", "--payload"])
        .done();
    assert_eq!(raw.stdout, "{\"id\":\"dead-1\"}");
}

#[test]
fn a_payload_that_is_no_text_is_shown_as_base64() {
    let site = fresh("sqlite:s.db");
    let config = site.text("semel.toml");
    let config = config
        .replace("json:/id", "hash")
        .replace("path = \"in\"", "path = \"in\", format = \"lines\"");
    site.write("semel.toml", config);
    site.write("handler.sh", "exit 3\n");
    site.write("in", b"\xff\xfe\n");
    site.run().is(&[("dead", 1)]);
    let key = dead(&site).remove(0);
    let shown = site.semel(&["dead-letters", "show", &key, "--output", "json"]);
    assert_eq!(object(&shown.done())["payload_base64"], "//4=");
    let shown = site.semel(&["dead-letters", "show", &key]).done();
    assert!(
        shown.stdout.contains("payload (base64): //4="),
        "{shown:#?}"
    );
}

#[test]
fn without_yes_a_replay_foretells_and_changes_nothing() {
    for store in STORES {
        let site = worked(store);
        mend(&site);
        let before = holdings(&site, store);
        let ended = site.semel(&["dead-letters", "replay", "--all", "--output", "json"]);
        let ended = ended
            .code(1)
            .says("plan: replay 1 dead letter\n")
            .says("  pay  dead-1  dead: its effect is called\n")
            .says("nothing was changed; to carry it out:");
        let [item] = &items(&ended)[..] else {
            panic!("one dead letter");
        };
        assert_eq!(
            (&item["key"], &item["predicted"]),
            (&"dead-1".into(), &"runs".into())
        );
        assert_eq!(holdings(&site, store), before, "{store}");
        assert_eq!(site.text("calls"), "");
        let ended = site.semel(&["dead-letters", "drop", "--all"]).code(1);
        assert_eq!(ended.says("plan: drop 1 dead letter\n").stdout, "");
        assert_eq!(holdings(&site, store), before, "{store}");
    }
}

#[test]
fn a_dead_letter_runs_again_through_its_pipeline_as_it_is_now() {
    for store in STORES {
        let site = worked(store);
        let again = [
            "dead-letters",
            "replay",
            "dead-1",
            "--yes",
            "--output",
            "json",
        ];
        let ended = site.semel(&again).done();
        ended.summary().is(&[("dead", 1)]);
        let json = object(&ended);
        assert_eq!((&json["dropped"], &json["kept"]), (&0.into(), &1.into()));
        assert_eq!(dead(&site), ["dead-1"], "it failed again");
        mend(&site);
        let because = ["--reason", "card was renewed", "--by", "ann"];
        let ended = site.semel(&[&again[..], &because].concat()).done();
        ended.summary().is(&[("applied", 1)]);
        assert_eq!(object(&ended)["dropped"], 1);
        assert!(dead(&site).is_empty());
        assert_eq!(site.state("dead-1").as_deref(), Some("completed"));
        assert_eq!(site.text("calls"), "dead-1\n");
        let trail = site.trail();
        let last: Vec<_> = trail[1..]
            .iter()
            .map(|entry| entry.each_ref().map(String::as_str))
            .collect();
        assert_eq!(
            last,
            [
                ["ann", "requeue", "dead", "released", "card was renewed"],
                [
                    "ann",
                    "drop",
                    "message kept: dead",
                    "message dropped",
                    "card was renewed; ran again: completed"
                ],
            ]
        );
        site.run()
            .is(&[("replayed", 3), ("in_doubt", 2), ("conflicts", 1)]);
        assert_eq!(site.text("calls"), "dead-1\n", "its duplicates do not run");
        let table = site
            .semel(&["dead-letters", "replay", "--all", "--yes"])
            .done();
        assert_eq!(table.says("nothing to replay: no dead letters").stdout, "");
    }
}

#[test]
fn a_resolved_doubt_is_a_dead_letter_until_it_has_run() {
    for store in STORES {
        let site = worked(store);
        mend(&site);
        let ended = site.semel(&[
            "in-doubt",
            "resolve",
            "doubt-1",
            "--not-applied",
            "--quiet",
            "0ms",
            "--yes",
        ]);
        ended.done().says("dead-letters replay doubt-1");
        assert_eq!(
            dead(&site),
            ["dead-1", "doubt-1"],
            "doubt-2 is in doubt still"
        );
        let list = site
            .semel(&["dead-letters", "list", "--output", "json"])
            .done();
        assert_eq!(member(&items(&list), "state"), ["dead", "released"]);
        let ended = site.semel(&[
            "dead-letters",
            "replay",
            "--all",
            "--yes",
            "--output",
            "json",
        ]);
        ended.done().summary().is(&[("applied", 2)]);
        assert_eq!(site.sorted_lines("calls"), ["dead-1", "doubt-1"]);
        assert!(dead(&site).is_empty());
        site.semel(&["in-doubt", "show", "doubt-2"]).done();
    }
}

#[test]
fn to_run_anything_takes_the_configuration() {
    let site = worked("embedded:data");
    let config = site.text("semel.toml");
    std::fs::remove_file(site.path("semel.toml")).expect("a file");
    let replay = [
        "dead-letters",
        "replay",
        "dead-1",
        "--store",
        "embedded:data",
        "--pipeline",
        "pay",
        "--yes",
    ];
    site.semel(&replay)
        .code(2)
        .says("name the configuration with --config FILE");
    site.write(
        "semel.toml",
        config.replace("[pipelines.pay]", "[pipelines.other]"),
    );
    let ended = site
        .semel(&["dead-letters", "replay", "--all", "--yes"])
        .code(1);
    ended.says("1 stays as they are: the configuration has no pipeline of this name");
    site.write("semel.toml", config.replace("json:/id", "json:/other"));
    let ended = site
        .semel(&["dead-letters", "replay", "--all", "--yes"])
        .code(1);
    ended.says("as configured now, the pipeline cannot use it: key-missing");
    site.write("semel.toml", config);
    assert_eq!(
        site.state("dead-1").as_deref(),
        Some("dead"),
        "nor was it requeued"
    );
    assert_eq!(dead(&site), ["dead-1"]);
}

#[test]
fn what_is_dropped_is_gone_and_on_the_trail() {
    for store in STORES {
        let site = worked(store);
        let trail = site.trail().len();
        let drop = ["dead-letters", "drop", "--yes", "--output", "json"];
        for filter in [&["--older-than", "1h"][..], &["--reason-like", "HTTP"]] {
            let ended = site.semel(&[&drop[..], &["--all"], filter].concat()).done();
            ended.says("nothing to drop: no dead letters");
        }
        let filter = [
            "--all",
            "--older-than",
            "0ms",
            "--reason-like",
            "Card DECLINED",
        ];
        let why = ["--reason", "retention", "--by", "ann"];
        let ended = site.semel(&[&drop[..], &filter, &why].concat()).done();
        assert_eq!(object(&ended)["dropped"], 1);
        assert!(dead(&site).is_empty());
        assert_eq!(
            site.state("dead-1").as_deref(),
            Some("dead"),
            "its record stays"
        );
        assert_eq!(
            site.trail()[trail..],
            [[
                "ann",
                "drop",
                "message kept: dead",
                "message dropped",
                "retention"
            ]
            .map(str::to_owned)]
        );
    }
}

#[test]
fn keys_may_come_from_a_file() {
    let site = fresh("sqlite:s.db");
    site.write("in", lines(0..30, |id| format!("{{\"id\":\"dead-{id}\"}}")));
    site.run().is(&[("dead", 30)]);
    mend(&site);
    site.write("keys", lines(0..20, |id| format!("dead-{id}")));
    let replay = [
        "dead-letters",
        "replay",
        "--keys-from",
        "keys",
        "--yes",
        "--output",
        "json",
    ];
    site.semel(&replay).done().summary().is(&[("applied", 20)]);
    assert_eq!(dead(&site).len(), 10);
    site.semel(&replay)
        .code(1)
        .says("dead-0: no dead letter of pay has this key");
}

/// Kills a replay in the middle, again and again, until one completes.
fn replay_under_fire(site: &Site, progress: impl Fn() -> usize) {
    let replay = ["dead-letters", "replay", "--all", "--yes"];
    killed_until_done(site, &replay, 20, progress);
}

#[test]
fn a_replay_that_is_killed_loses_nothing_and_repeats_no_more_than_its_class_allows() {
    for store in STORES {
        let site = fresh(store);
        site.write(
            "in",
            lines(0..100, |id| format!("{{\"id\":\"dead-{id}\"}}")),
        );
        site.run().is(&[("dead", 100)]);
        // Short leases, since the test waits for those of a killed run.
        let keyed = site.text("semel.toml").replace(
            "kind = \"exec\",",
            "kind = \"exec\", class = \"keyed\", provider_window = \"1h\",",
        );
        let keyed = keyed.replace("retry =", "lease = \"300ms\"\nconcurrency = 2\nretry =");
        site.write("semel.toml", keyed);
        site.write(
            "handler.sh",
            "cat >/dev/null; echo \"$SEMEL_KEY $SEMEL_IDEMPOTENCY_KEY\" >> calls; sleep 0.01\n",
        );
        let calls = || site.text("calls").lines().count();
        replay_under_fire(&site, calls);
        assert!(dead(&site).is_empty(), "{store}");
        let mut keys = site.sorted_lines("calls");
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), 100, "each with one key for the provider");
        // Each kill may interrupt two calls.
        assert!(all <= 100 + 2 * 8, "{all} calls");
        for id in 0..100 {
            assert_eq!(
                site.state(&format!("dead-{id}")).as_deref(),
                Some("completed")
            );
        }
    }
}

#[test]
fn a_transactional_effect_is_exact_however_often_its_replay_is_killed() {
    let site = fresh("sqlite:s.db");
    site.write(
        "in",
        lines(0..300, |id| format!("{{\"id\":\"dead-{id}\"}}")),
    );
    let exec = site.text("semel.toml");
    site.run().is(&[("dead", 300)]);
    let effect = "effect = { kind = \"sql\", statement = \"insert into t values (:id)\" }";
    let from = exec.find("effect =").expect("an effect");
    site.write(
        "semel.toml",
        format!("{}batch = 1\n{effect}\n", &exec[..from]),
    );
    let database = site.database("s.db");
    database
        .execute_batch("create table t (id)")
        .expect("a table");
    let count = || {
        let count = database.query_row("select count(*) from t", [], |row| row.get::<_, i64>(0));
        usize::try_from(count.expect("a count")).expect("a count")
    };
    replay_under_fire(&site, count);
    assert!(dead(&site).is_empty());
    assert_eq!(
        site.rows("s.db", "select count(*), count(distinct id) from t"),
        ["300|300"]
    );
}
