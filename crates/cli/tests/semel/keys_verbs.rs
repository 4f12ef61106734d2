//! `semel keys`: shows keys on record, and gives orders about them.

use rustix::process::Signal;
use serde_json::Value;

use crate::operator::{STORES, fresh, items, member, object, worked, worker};
use crate::site::{Running, Site, lines, wait_for};

const VERBS: [&[&str]; 7] = [
    &["keys", "show", "done-1"],
    &["keys", "explain", "done-1"],
    &["keys", "list"],
    &["keys", "release", "done-1", "--yes"],
    &["keys", "forget", "done-1", "--yes"],
    &["keys", "hold", "done-1", "--yes"],
    &["keys", "extend", "done-1", "--window", "30d", "--yes"],
];

#[test]
fn every_verb_has_help_with_an_example_and_refuses_what_it_does_not_know() {
    let site = Site::new();
    for verb in VERBS {
        let help = site.semel(&[verb[0], verb[1], "--help"]).done();
        assert!(help.stdout.contains("Example"), "{help:#?}");
        let arguments = [verb, &["--no-such-option"]].concat();
        assert_eq!(site.semel(&arguments).code(2).stdout, "");
    }
    for arguments in [
        &["keys", "list", "--state", "lost"][..],
        &["keys", "list", "--older-than", "yesterday"],
        &["keys", "show"],
        &["keys", "show", "json:{"],
        &["keys", "forget"],
        &[
            "keys",
            "show",
            "--outcome",
            "a",
            "b",
            "--store",
            "sqlite:x.db",
        ],
    ] {
        assert_eq!(site.semel(arguments).code(2).stdout, "", "{arguments:?}");
    }
}

#[test]
fn without_a_configuration_a_store_and_a_pipeline_must_be_named() {
    let site = worked("sqlite:s.db");
    std::fs::remove_file(site.path("semel.toml")).expect("a file");
    site.semel(&["keys", "list"])
        .code(2)
        .says("which store? there is no semel.toml here")
        .says("--store embedded:DIR");
    let store = ["--store", "sqlite:s.db"];
    site.semel(&[&["keys", "hold", "done-1"][..], &store].concat())
        .code(2)
        .says("name it with --pipeline NAME");
    site.semel(&[&["keys", "show", "done-1", "--pipeline", "pay"][..], &store].concat())
        .done();
    // A verb that looks needs only one pipeline that has the key.
    let explained = site.semel(&[&["keys", "explain", "done-1"][..], &store].concat());
    let hint = "semel keys show done-1 --store sqlite:s.db --pipeline pay\n";
    assert!(explained.stdout.contains(hint), "{explained:#?}");
    site.semel(&[&["keys", "show", "nobody"][..], &store].concat())
        .code(1)
        .says("there is no record of nobody in any pipeline");
    let all = site.semel(&[&["keys", "list", "--output", "json"][..], &store].concat());
    assert_eq!(items(&all.done()).len(), 5);
}

#[test]
fn a_store_that_is_not_there_is_told_and_not_made() {
    for store in STORES {
        let site = fresh(store);
        for verb in VERBS {
            let ended = site.semel(verb).code(3).says("there is no store at");
            assert_eq!(ended.stdout, "");
            assert!(!site.path("data").exists() && !site.path("s.db").exists());
        }
    }
    let memory = fresh("sqlite:s.db");
    memory
        .semel(&["keys", "list", "--store", "memory:"])
        .code(2)
        .says("gone with its process");
}

#[test]
fn a_store_in_use_can_be_looked_at() {
    let site = worked("embedded:data");
    let (mut child, stdin) = worker(&site);
    for verb in VERBS.into_iter().filter(|verb| !verb.contains(&"--yes")) {
        site.semel(verb).done();
    }
    // The work that the worker did meanwhile is on record.
    assert_eq!(site.state("by-worker").as_deref(), Some("completed"));
    drop(stdin);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn a_shared_store_can_be_changed_beside_a_worker() {
    let site = worked("sqlite:s.db");
    let (mut child, stdin) = worker(&site);
    site.semel(&["keys", "forget", "done-1", "--yes"]).done();
    assert_eq!(site.state("done-1"), None);
    assert_eq!(site.state("by-worker").as_deref(), Some("completed"));
    drop(stdin);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn a_list_has_every_key_with_what_its_members_promise() {
    for store in STORES {
        let site = worked(store);
        let list = |rest: &[&str]| {
            let ended = site.semel(&[&["keys", "list", "--output", "json"], rest].concat());
            items(&ended.done())
        };
        let all = list(&[]);
        assert_eq!(
            member(&all, "key"),
            ["dead-1", "done-1", "doubt-1", "doubt-2", "json:7"]
        );
        for entry in &all {
            for name in ["operation_id", "pipeline", "state", "since"] {
                assert!(entry[name].is_string(), "{name} of {entry}");
            }
            assert_eq!(
                (&entry["pipeline"], &entry["attempts"]),
                (&"pay".into(), &1.into())
            );
            let is_finished = matches!(entry["state"].as_str(), Some("completed" | "dead"));
            assert_eq!(
                entry["remembered_until"].is_string(),
                is_finished,
                "{entry}"
            );
        }
        assert_eq!(
            member(&list(&["--state", "completed"]), "key"),
            ["done-1", "json:7"]
        );
        assert_eq!(
            list(&["--state", "in-doubt"]),
            list(&["--state", "in_doubt"])
        );
        assert_eq!(
            member(&list(&["--prefix", "doubt-"]), "key"),
            ["doubt-1", "doubt-2"]
        );
        assert_eq!(list(&["--older-than", "1h"]).len(), 0);
        assert_eq!(list(&["--older-than", "0s"]).len(), 5);
        assert_eq!(list(&["--limit", "2"]).len(), 2);
        assert_eq!(list(&["--pipeline", "mail"]).len(), 0);
        assert_eq!(
            (list(&["--held"]).len(), list(&["--repeated"]).len()),
            (0, 0)
        );
        let dead = &list(&["--state", "dead"])[0];
        assert_eq!(dead["reason"], "exit code 3: card declined");

        let listed = site.semel(&["keys", "list", "--output", "jsonl"]).done();
        assert_eq!(listed.stdout.lines().count(), 5);
        let table = site.semel(&["keys", "list"]).done();
        assert!(table.stdout.starts_with("KEY "), "{}", table.stdout);
        assert_eq!(table.stdout.lines().count(), 6);
    }
}

#[test]
fn a_list_of_many_pages_is_complete_and_ends_with_its_reader() {
    for store in STORES {
        let site = fresh(store);
        let config = site.text("semel.toml").replace(
            "{ kind = \"exec\", timeout = \"10m\", command = [\"sh\", \"handler.sh\"] }",
            "{ kind = \"file\", path = \"out\" }",
        );
        site.write("semel.toml", config);
        let input = lines(0..6_000, |id| format!("{{\"id\":\"k-{id}\"}}"));
        site.write("in", input);
        site.run().is(&[("applied", 6_000)]);
        let all = site.semel(&["keys", "list", "--output", "json"]).done();
        let mut keys = member(&items(&all), "key");
        keys.dedup();
        assert_eq!(keys.len(), 6_000);
        let mut child = site
            .command()
            .args(["keys", "list", "--output", "jsonl"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("semel");
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("a child").code(), Some(0));
    }
}

#[test]
fn show_prints_all_that_is_on_record() {
    for store in STORES {
        let site = worked(store);
        let ended = site.semel(&["keys", "show", "json:7", "dead-1", "--output", "json"]);
        let shown: Vec<Value> = ended
            .done()
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let [seven, dead] = &shown[..] else {
            panic!("{shown:?}");
        };
        assert_eq!(
            (&seven["key"], &seven["state"]),
            (&"json:7".into(), &"completed".into())
        );
        assert_eq!(seven["outcome"]["value"], "charged json:7");
        assert_eq!(seven["outcome"]["len_bytes"], 14);
        assert_eq!(seven["window"], "7d");
        assert_eq!(seven["transport"], "in:5");
        assert!(seven["fingerprint"].is_string() && seven["first_started_at"].is_string());
        assert_eq!(seven["past"], Value::Array(Vec::new()));
        assert_eq!(dead["outcome"], Value::Null);
        assert_eq!(dead["last_error"], "exit code 3: card declined");
        let past = &dead["past"][0];
        assert_eq!(
            (&past["attempt"], &past["end"]),
            (&1.into(), &"failed".into())
        );
        assert_eq!(past["claimant"], dead["claimant"]);

        let table = site.semel(&["keys", "show", "json:7"]).done();
        for text in [
            "state:            completed",
            "charged json:7",
            "transport id:     in:5",
        ] {
            assert!(
                table.stdout.contains(text),
                "no {text:?} in {}",
                table.stdout
            );
        }
    }
}

#[test]
fn the_outcome_alone_is_printed_byte_for_byte() {
    for store in STORES {
        let site = fresh(store);
        site.write("handler.sh", "cat >/dev/null; printf 'a\\377\\n\\n'");
        site.write("in", "{\"id\":\"raw\"}\n");
        site.run().is(&[("applied", 1)]);
        let output = site
            .command()
            .args(["keys", "show", "raw", "--outcome"])
            .output()
            .expect("semel");
        assert_eq!(output.stdout, b"a\xff\n\n");
        let json = site
            .semel(&["keys", "show", "raw", "--output", "json"])
            .done();
        let outcome = &object(&json)["outcome"];
        assert_eq!(outcome["value"], Value::Null);
        assert_eq!(outcome["value_base64"], "Yf8KCg==");
    }
    let site = worked("sqlite:s.db");
    site.semel(&["keys", "show", "dead-1", "--outcome"])
        .code(1)
        .says("there is no outcome: the key is dead");
}

#[test]
fn an_unknown_key_is_1_and_what_comes_near_is_told() {
    for store in STORES {
        let site = worked(store);
        for verb in VERBS.iter().filter(|verb| verb[1] != "list") {
            let mut arguments = verb.to_vec();
            arguments[2] = "7";
            site.semel(&arguments)
                .code(1)
                .says("there is no record of 7 in pay")
                .says("pay has json:7, completed: semel keys show json:7");
            arguments[2] = "nobody";
            site.semel(&arguments).code(1).says("it was never claimed");
        }
        assert!(site.trail().is_empty());
    }
}

#[test]
fn nothing_is_changed_without_yes() {
    for store in STORES {
        let site = worked(store);
        for (verb, key, state) in [
            ("forget", "done-1", "completed"),
            ("release", "dead-1", "dead"),
            ("hold", "done-1", "completed"),
        ] {
            let ended = site.semel(&["keys", verb, key]).code(1);
            assert_eq!(ended.stdout, "");
            ended
                .says(&format!("plan: {verb} 1 key"))
                .says("nothing was changed; to carry it out:")
                .says(&format!("keys {verb} {key} --yes"));
            assert_eq!(site.state(key).as_deref(), Some(state));
        }
        assert!(site.trail().is_empty());
    }
}

#[test]
fn a_forgotten_key_runs_again_and_the_trail_says_who_and_why() {
    for store in STORES {
        let site = worked(store);
        let ended = site.semel(&[
            "keys", "forget", "done-1", "--yes", "--by", "ada", "--reason", "refunded", "--output",
            "json",
        ]);
        let done = items(&ended.done());
        assert_eq!(member(&done, "before"), ["completed"]);
        assert_eq!(member(&done, "after"), ["absent"]);
        assert_eq!(site.state("done-1"), None);
        let entry = ["ada", "forget", "completed", "absent", "refunded"];
        assert_eq!(site.trail(), [entry.map(str::to_owned)]);
        std::fs::remove_file(site.path("ran-done-1")).expect("it ran");
        site.run();
        assert!(site.path("ran-done-1").exists());
    }
}

#[test]
fn a_dead_key_that_is_released_is_attempted_again() {
    for store in STORES {
        let site = worked(store);
        site.semel(&["keys", "release", "dead-1", "--yes"])
            .done()
            .says("semel dead-letters replay dead-1");
        assert_eq!(site.state("dead-1").as_deref(), Some("released"));
        let trail = site.trail();
        assert_eq!(trail[0][1..4], ["requeue", "dead", "released"]);
        assert!(trail[0][0].contains('@'), "{trail:?}");
        site.write("handler.sh", "cat >/dev/null; printf better");
        site.write("in", "{\"id\":\"dead-1\"}\n");
        site.run().is(&[("applied", 1)]);
    }
}

#[test]
fn a_backoff_ends_when_its_key_is_released() {
    for store in STORES {
        let site = fresh(store);
        site.write("in", "{\"id\":\"again-1\"}\n");
        let run = site.start(&["run"]);
        wait_for("the backoff", || {
            site.path("ran-again-1").exists()
                && site.state("again-1").as_deref() == Some("released")
        });
        run.signal(Signal::TERM);
        run.wait().done();
        let record = site.semel(&["keys", "show", "again-1", "--output", "json"]);
        assert_eq!(object(&record.done())["past"][0]["end"], "not_applied");
        let waits = site.semel(&["keys", "explain", "again-1"]).done().stdout;
        assert!(waits.contains("It waits until"), "{waits}");
        site.semel(&["keys", "release", "again-1", "--yes"]).done();
        assert_eq!(site.trail()[0][1..4], ["release", "released", "released"]);
        site.semel(&["keys", "release", "again-1", "--yes"])
            .done()
            .says("waits for nothing but a delivery; left as it is");
        site.write("handler.sh", "cat >/dev/null; printf better");
        site.run().is(&[("applied", 1)]);
    }
}

#[test]
fn a_claim_ends_when_its_key_is_released() {
    for store in STORES {
        let site = fresh(store);
        site.write("in", "{\"id\":\"slow-1\"}\n");
        let run = site.start(&["run"]);
        wait_for("the call", || site.path("ran-slow-1").exists());
        run.signal(Signal::KILL);
        drop(run);
        assert_eq!(site.state("slow-1").as_deref(), Some("started"));
        let explained = site.semel(&["keys", "explain", "slow-1"]).done().stdout;
        let forget = site.semel(&["keys", "forget", "slow-1", "--yes"]).code(1);
        let release = site.semel(&["keys", "release", "slow-1", "--yes"]).done();
        if store.starts_with("embedded") {
            // Only one process can work on it, and that process is gone.
            let told = "whoever opens it next ends the lease";
            assert!(explained.contains(told), "{explained}");
            forget.says("its worker vanished");
            release.says("its lease is over, so that nothing waits for it");
            assert!(site.trail().is_empty());
        } else {
            assert!(explained.contains("Its lease runs until"), "{explained}");
            forget.says("end its lease first: semel keys release slow-1");
            release.says("finds it in doubt and does not run it");
            assert_eq!(site.trail()[0][1..4], ["release", "started", "started"]);
        }
        site.run().is(&[("in_doubt", 1)]);
        let explained = site.semel(&["keys", "explain", "slow-1"]).done();
        let told = "vanished: its lease ended without a report";
        assert!(explained.stdout.contains(told), "{}", explained.stdout);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_what_to_do_and_the_rest_is_done() {
    for store in STORES {
        let site = worked(store);
        let keys = ["dead-1", "done-1", "doubt-1", "nobody", "dead-1"];
        let ended =
            site.semel(&[&["keys", "release", "--yes", "--output", "json"], &keys[..]].concat());
        let ended = ended
            .code(1)
            .says("done-1 is completed: the effect happened; if it must happen again")
            .says("semel keys forget done-1")
            .says("doubt-1 is in doubt: nobody knows whether the effect happened")
            .says("semel keys explain doubt-1")
            .says("there is no record of nobody in pay");
        assert_eq!(member(&items(&ended), "key"), ["dead-1"]);
        assert_eq!(site.trail().len(), 1);
        site.semel(&["keys", "forget", "doubt-1", "--yes"])
            .code(1)
            .says("semel keys explain doubt-1");
        assert_eq!(site.state("doubt-1").as_deref(), Some("in_doubt"));
    }
}

#[test]
fn keys_come_from_a_file_or_from_standard_input_too() {
    for store in STORES {
        let site = worked(store);
        site.write("keys.txt", "done-1\n\njson:7\n");
        site.semel(&["keys", "hold", "--keys-from", "keys.txt", "--yes"])
            .done()
            .says("plan: hold 2 keys");
        let held = site
            .semel(&["keys", "list", "--held", "--output", "json"])
            .done();
        assert_eq!(member(&items(&held), "key"), ["done-1", "json:7"]);
        let mut command = site.command();
        command.args(["keys", "hold", "--off", "--keys-from", "-", "--yes"]);
        Running::start_with(&mut command, "json:7\n").wait().done();
        let held = site
            .semel(&["keys", "list", "--held", "--output", "json"])
            .done();
        assert_eq!(member(&items(&held), "key"), ["done-1"]);
        site.semel(&["keys", "hold", "done-1", "--yes"])
            .done()
            .says("it is held already");
        let trail = site.trail();
        assert_eq!(trail[2][1..4], ["let-go", "completed, held", "completed"]);

        site.write("keys.txt", "done-1\njson:nope\n");
        site.semel(&["keys", "forget", "--keys-from", "keys.txt", "--yes"])
            .code(2)
            .says("keys.txt:2: ");
        site.semel(&["keys", "forget", "--keys-from", "no.txt", "--yes"])
            .code(2)
            .says("cannot read keys from no.txt");
    }
}

#[test]
fn explain_tells_the_story_of_each_state() {
    for store in STORES {
        let site = worked(store);
        let story = |key: &str| {
            let ended = site.semel(&["keys", "explain", key, "--output", "json"]);
            object(&ended.done())
        };
        let done = story("done-1");
        assert_eq!(done["state"], "completed");
        assert_eq!(done["duplicate"]["answer"], "replay");
        assert_eq!(done["messages"][0]["reason"], "fingerprint-conflict");
        assert!(done["outcome_blake3"].is_string());
        let dead = story("dead-1");
        assert_eq!(dead["duplicate"]["answer"], "parked");
        assert_eq!(dead["messages"][0]["reason"], "dead");
        let doubt = story("doubt-1");
        assert_eq!(doubt["state"], "in_doubt");
        let commands = member(doubt["can"].as_array().expect("a list"), "command");
        assert!(
            commands.contains(&"semel in-doubt resolve --applied doubt-1".to_owned()),
            "{commands:?}"
        );

        site.semel(&["keys", "forget", "dead-1", "--yes", "--reason", "test"])
            .done();
        let forgotten = story("dead-1");
        assert_eq!(forgotten["state"], "absent");
        assert_eq!(forgotten["audit"][0]["action"], "forget");
        assert_eq!(forgotten["audit"][0]["reason"], "test");

        let text = site.semel(&["keys", "explain", "done-1"]).done().stdout;
        for part in [
            "transport id: in:1\n",
            "How it stands\nThe effect happened, and its outcome is on record, BLAKE3 ",
            "What happened\n",
            "What a message with this key meets now\nIt gets the outcome on record (14 bytes)",
            "What you can do\n",
            "  semel keys forget done-1\n",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
    }
}
