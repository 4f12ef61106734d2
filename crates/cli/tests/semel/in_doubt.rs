//! `semel in-doubt`: effects that nobody knows to have happened.

use rustix::process::Signal;
use serde_json::Value;

use crate::operator::{STORES, fresh, items, member, object, worked, worker};
use crate::site::{Running, Site, wait_for};

const VERBS: [&[&str]; 3] = [
    &["in-doubt", "list"],
    &["in-doubt", "show", "doubt-1"],
    &["in-doubt", "resolve", "doubt-1", "--applied", "--yes"],
];

/// The messages that the store keeps, by reason.
fn kept(site: &Site) -> Value {
    let stats = site.semel(&["store", "stats", "--output", "json"]).done();
    object(&stats)["parked"].clone()
}

/// The trail without who and why.
fn orders(site: &Site) -> Vec<[String; 3]> {
    let trail = site.trail().into_iter();
    trail
        .map(|[_, action, before, after, _]| [action, before, after])
        .collect()
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
    let site = worked("sqlite:s.db");
    for words in [
        &[][..],
        &["--applied", "--not-applied"],
        &["--abandon"],
        &["--not-applied", "--outcome", "x"],
        &["--abandon", "--reason", "x", "--outcome-file", "x"],
        &["--applied", "--outcome", "x", "--outcome-file", "x"],
        &["--applied", "--quiet", "1s"],
        &["--not-applied", "--quiet", "soon"],
    ] {
        let arguments = [&["in-doubt", "resolve", "doubt-1"], words].concat();
        assert_eq!(site.semel(&arguments).code(2).stdout, "", "{words:?}");
    }
    site.semel(&[
        "in-doubt",
        "resolve",
        "doubt-1",
        "--abandon",
        "--reason",
        " ",
        "--yes",
    ])
    .code(2)
    .says("--abandon wants to know why: --reason TEXT");
    site.semel(&[
        "in-doubt",
        "resolve",
        "doubt-1",
        "--applied",
        "--outcome-file",
        "no",
    ])
    .code(2)
    .says("cannot read the outcome from no");
}

#[test]
fn a_store_that_is_not_there_or_in_use_is_told() {
    for store in STORES {
        let site = fresh(store);
        for verb in VERBS {
            site.semel(verb).code(3).says("there is no store at");
            assert!(!site.path("data").exists() && !site.path("s.db").exists());
        }
    }
    let site = worked("embedded:data");
    let (mut child, stdin) = worker(&site);
    site.semel(VERBS[0]).done();
    site.semel(VERBS[1]).done();
    site.semel(VERBS[2]).code(3).says("[store-in-use]");
    drop(stdin);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn doubts_are_listed_and_shown_with_their_messages() {
    for store in STORES {
        let site = worked(store);
        let list = site.semel(&["in-doubt", "list", "--output", "json"]).done();
        let list = items(&list);
        assert_eq!(member(&list, "key"), ["doubt-1", "doubt-2"]);
        assert_eq!(member(&list, "state"), ["in_doubt", "in_doubt"]);
        let reason = list[0]["reason"].as_str().expect("a reason");
        assert!(reason.contains("signal"), "{reason}");

        let shown = site.semel(&["in-doubt", "show", "doubt-1", "--output", "json"]);
        let shown = object(&shown.done());
        assert_eq!(shown["state"], "in_doubt");
        assert_eq!(shown["message"]["payload"], "{\"id\":\"doubt-1\"}");
        assert_eq!(shown["message"]["coordinates"], "in:3");
        let table = site.semel(&["in-doubt", "show", "doubt-1"]).done();
        assert!(
            table.stdout.contains("{\"id\":\"doubt-1\"}"),
            "{}",
            table.stdout
        );

        site.semel(&["in-doubt", "show", "done-1"])
            .code(1)
            .says("done-1 is not in doubt but completed: semel keys explain done-1");
        site.semel(&["in-doubt", "show", "nobody"])
            .code(1)
            .says("there is no record of nobody in pay");
    }
}

#[test]
fn a_worker_that_was_killed_leaves_a_doubt_that_a_sweep_brings_to_light() {
    for store in STORES {
        let site = fresh(store);
        let config = site
            .text("semel.toml")
            .replace("key =", "lease = \"100ms\"\nkey =");
        site.write("semel.toml", config);
        site.write("in", "{\"id\":\"slow-1\"}\n");
        let run = site.start(&["run"]);
        wait_for("the call", || site.path("ran-slow-1").exists());
        run.signal(Signal::KILL);
        drop(run);
        wait_for("the end of the lease", || {
            let swept = site.semel(&["store", "sweep", "--output", "json"]).done();
            object(&swept)["doubted"] == 1
        });
        let list = site.semel(&["in-doubt", "list", "--output", "json"]).done();
        assert_eq!(member(&items(&list), "reason"), ["its worker vanished"]);
        let shown = site.semel(&["in-doubt", "show", "slow-1", "--output", "json"]);
        let shown = object(&shown.done());
        assert_eq!(shown["message"], Value::Null);
        assert_eq!(shown["past"][0]["end"], "vanished");
        site.semel(&["in-doubt", "resolve", "slow-1", "--applied", "--yes"])
            .done();
        assert_eq!(site.state("slow-1").as_deref(), Some("completed"));
    }
}

#[test]
fn possible_repeats_are_listed_whatever_became_of_them() {
    for store in STORES {
        let site = fresh(store);
        let config = site.text("semel.toml").replace(
            "\"handler.sh\"] }",
            "\"handler.sh\"], on_doubt = \"repeat\" }",
        );
        site.write("semel.toml", config.replace("\"1h\"", "\"1ms\""));
        let handler = "cat >/dev/null; test $SEMEL_ATTEMPT = 2 || kill -9 $$";
        site.write("handler.sh", handler);
        site.write("in", "{\"id\":\"twice\"}\n");
        site.run().is(&[("applied", 1)]);
        let list = |rest: &[&str]| {
            let ended = site.semel(&[&["in-doubt", "list", "--output", "json"], rest].concat());
            items(&ended.done())
        };
        assert!(list(&[]).is_empty());
        let repeated = list(&["--repeated"]);
        assert_eq!(member(&repeated, "state"), ["completed"]);
        assert_eq!(repeated[0]["possible_repeats"], 1);
    }
}

#[test]
fn nothing_is_resolved_without_yes() {
    for store in STORES {
        let site = worked(store);
        for (words, after) in [
            (&["--applied"][..], "completed"),
            (&["--not-applied", "--quiet", "0s"], "released"),
            (&["--abandon", "--reason", "why"], "dead"),
        ] {
            let ended = site.semel(&[&["in-doubt", "resolve", "doubt-1"], words].concat());
            assert_eq!(ended.stdout, "");
            ended
                .code(1)
                .says("plan: resolve 1 doubt")
                .says(&format!("pay  doubt-1  in doubt → {after}"))
                .says("nothing was changed");
        }
        assert_eq!(site.state("doubt-1").as_deref(), Some("in_doubt"));
        assert!(site.trail().is_empty());
    }
}

#[test]
fn what_was_applied_is_completed_and_its_message_is_dropped() {
    for store in STORES {
        let site = worked(store);
        let resolved = site.semel(&[
            "in-doubt",
            "resolve",
            "doubt-1",
            "--applied",
            "--outcome",
            "ch_1",
            "--by",
            "ada",
            "--reason",
            "seen at the provider",
            "--yes",
            "--output",
            "json",
        ]);
        let resolved = object(&resolved.done());
        assert_eq!(
            (
                &resolved["before"],
                &resolved["after"],
                &resolved["message"]
            ),
            (&"in_doubt".into(), &"completed".into(), &"dropped".into())
        );
        let outcome = site.semel(&["keys", "show", "doubt-1", "--outcome"]).done();
        assert_eq!(outcome.stdout, "ch_1");
        assert_eq!(kept(&site)["in-doubt"], 1, "the other one");
        let trail = site.trail();
        let expected = [
            "ada",
            "resolve-applied",
            "in_doubt",
            "completed",
            "seen at the provider",
        ];
        assert_eq!(trail[0], expected.map(str::to_owned));
        assert_eq!(
            (trail.len(), trail[1][1].as_str(), trail[1][0].as_str()),
            (2, "drop", "ada")
        );
        site.write("in", "{\"id\":\"doubt-1\"}\n");
        site.run().is(&[("replayed", 1)]);
        site.semel(&["in-doubt", "resolve", "doubt-1", "--applied", "--yes"])
            .code(1)
            .says("doubt-1 is not in doubt but completed");

        let mut command = site.command();
        command.args(["in-doubt", "resolve", "doubt-2", "--applied", "--yes"]);
        command.args(["--outcome-file", "-"]);
        Running::start_with(&mut command, "from\na pipe")
            .wait()
            .done();
        let outcome = site.semel(&["keys", "show", "doubt-2", "--outcome"]).done();
        assert_eq!(outcome.stdout, "from\na pipe");
    }
}

#[test]
fn not_applied_is_believed_only_when_the_call_cannot_land_any_more() {
    for store in STORES {
        let site = worked(store);
        let resolve = |words: &[&str]| {
            let verb = ["in-doubt", "resolve", "doubt-1", "--not-applied", "--yes"];
            site.semel(&[&verb[..], words].concat())
        };
        // The effect's timeout is ten minutes, and nobody has waited that long.
        resolve(&[])
            .code(1)
            .says("doubt-1: refused: its call can still land until")
            .says("ask again then");
        assert_eq!(site.state("doubt-1").as_deref(), Some("in_doubt"));
        assert!(site.trail().is_empty());
        let resolved = resolve(&["--quiet", "0s", "--output", "json"])
            .done()
            .says("semel dead-letters replay doubt-1");
        assert_eq!(object(&resolved)["message"], "kept");
        assert_eq!(site.state("doubt-1").as_deref(), Some("released"));
        assert_eq!(kept(&site)["in-doubt"], 2, "its message is still there");
        site.write("handler.sh", "cat >/dev/null; printf better");
        site.write("in", "{\"id\":\"doubt-1\"}\n");
        site.run().is(&[("applied", 1)]);
    }
}

#[test]
fn what_is_abandoned_is_dead_and_its_message_a_dead_letter() {
    for store in STORES {
        let site = worked(store);
        let resolved = site.semel(&[
            "in-doubt",
            "resolve",
            "doubt-1",
            "--abandon",
            "--reason",
            "refunded",
            "--yes",
            "--output",
            "json",
        ]);
        assert_eq!(object(&resolved.done())["message"], "dead_letter");
        assert_eq!(site.state("doubt-1").as_deref(), Some("dead"));
        assert_eq!(
            (&kept(&site)["dead"], &kept(&site)["in-doubt"]),
            (&2.into(), &1.into())
        );
        assert_eq!(
            orders(&site),
            [
                ["abandon", "in_doubt", "dead"],
                ["drop", "message kept: in-doubt", "message dropped"]
            ]
            .map(|entry| entry.map(str::to_owned))
        );
        let explained = site.semel(&["keys", "explain", "doubt-1"]).done();
        for part in [
            "a person gave it up: the effect may or may not have happened",
            "gave the doubt up for dead (in_doubt → dead), because: refunded",
        ] {
            assert!(
                explained.stdout.contains(part),
                "no {part:?} in {}",
                explained.stdout
            );
        }
        site.write("in", "{\"id\":\"doubt-1\"}\n");
        site.run().is(&[("dead", 1)]);
    }
}

#[test]
fn an_unknown_key_cannot_be_resolved() {
    for store in STORES {
        let site = worked(store);
        site.semel(&["in-doubt", "resolve", "nobody", "--applied", "--yes"])
            .code(1)
            .says("there is no record of nobody in pay");
        site.semel(&["in-doubt", "resolve", "dead-1", "--applied", "--yes"])
            .code(1)
            .says("dead-1 is not in doubt but dead");
        assert!(site.trail().is_empty());
    }
}

#[test]
fn a_word_that_was_interrupted_can_be_said_again() {
    for (words, left) in [
        (&["--applied"][..], None),
        (&["--abandon", "--reason", "refunded"], Some(1)),
    ] {
        let site = worked("sqlite:s.db");
        std::fs::copy(site.path("s.db"), site.path("before.db")).expect("a copy");
        let verb = ["in-doubt", "resolve", "doubt-1", "--yes"];
        let verb = [&verb[..], words].concat();
        site.semel(&verb).done();
        // As if the process had ended between the record and its message.
        let put_back = format!(
            "attach '{}' as b; delete from semel_parked where key = 'doubt-1';
             insert into semel_parked select * from b.semel_parked where key = 'doubt-1';",
            site.path("before.db").display()
        );
        site.database("s.db")
            .execute_batch(&put_back)
            .expect("the message is back");
        assert_eq!(kept(&site)["in-doubt"], 2);
        site.semel(&verb)
            .done()
            .says("the record says so already; its message was left over");
        assert_eq!(kept(&site)["in-doubt"], 1);
        let letters = kept(&site)["dead"].as_u64().map(|count| count - 1);
        assert_eq!(letters.filter(|count| *count > 0), left);
    }
}
