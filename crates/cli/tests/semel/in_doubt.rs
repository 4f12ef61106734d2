//! `semel in-doubt`: effects of which nobody knows whether they happened.

use rustix::process::Signal;
use serde_json::Value;

use crate::operator::{STORES, fresh, items, member, object, worked, worker};
use crate::site::{Running, Site, wait_for};

const VERBS: [&[&str]; 4] = [
    &["in-doubt", "list"],
    &["in-doubt", "show", "doubt-1"],
    &["in-doubt", "resolve", "doubt-1", "--applied", "--yes"],
    &["in-doubt", "retry", "doubt-1", "--yes"],
];

/// The messages that the store keeps, by reason.
fn kept(site: &Site) -> Value {
    let stats = site.semel(&["store", "stats", "--output", "json"]).done();
    object(&stats)["parked"].clone()
}

/// The audit trail without authors and reasons.
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
fn a_store_that_is_not_there_is_told_and_one_in_use_is_looked_at() {
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
            let swept = site
                .semel(&["store", "sweep", "--yes", "--output", "json"])
                .done();
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
        let resolved = &items(&resolved.done())[0];
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
        // The effect's timeout is ten minutes, and less time has passed.
        resolve(&[])
            .code(1)
            .says("doubt-1: refused: its call can still land until")
            .says("ask again then");
        assert_eq!(site.state("doubt-1").as_deref(), Some("in_doubt"));
        assert!(site.trail().is_empty());
        let resolved = resolve(&["--quiet", "0s", "--output", "json"])
            .done()
            .says("semel dead-letters replay doubt-1");
        assert_eq!(items(&resolved)[0]["message"], "kept");
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
        assert_eq!(items(&resolved.done())[0]["message"], "dead_letter");
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

#[test]
fn many_doubts_are_resolved_by_one_word() {
    for store in STORES {
        let site = worked(store);
        for words in [&["--applied"][..], &["--keys-from", "none", "--applied"]] {
            let ended = site.semel(&[&["in-doubt", "resolve"], words].concat());
            assert_eq!(ended.code(2).stdout, "", "{words:?}");
        }
        site.semel(&["in-doubt", "resolve", "--applied"])
            .code(2)
            .says("which ones? name keys, or --all");
        let like = |text: &str| {
            let verb = ["in-doubt", "resolve", "--all", "--applied", "--reason-like"];
            site.semel(&[&verb[..], &[text]].concat())
        };
        like("no such reason")
            .done()
            .says("nothing to resolve: no doubts");
        like("SIGNAL")
            .code(1)
            .says("plan: resolve 2 doubts")
            .says("messages that were kept and are dropped: 2");
        // Keys that are not in doubt, or not on record, are reported and left; the others are resolved.
        site.write("keys.txt", "doubt-1\ndone-1\nnobody\n");
        let resolved = site.semel(&[
            "in-doubt",
            "resolve",
            "doubt-2",
            "--keys-from",
            "keys.txt",
            "--abandon",
            "--reason",
            "refunded",
            "--by",
            "ada",
            "--yes",
            "--output",
            "json",
        ]);
        let resolved = resolved
            .code(1)
            .says("there is no record of nobody in pay")
            .says("done-1 is not in doubt but completed");
        assert_eq!(member(&items(&resolved), "key"), ["doubt-1", "doubt-2"]);
        assert_eq!(member(&items(&resolved), "after"), ["dead", "dead"]);
        assert_eq!(
            (&kept(&site)["dead"], &kept(&site)["in-doubt"]),
            (&3.into(), &Value::Null)
        );
        let abandoned = orders(&site);
        let abandoned = abandoned.iter().filter(|order| order[0] == "abandon");
        assert_eq!(abandoned.count(), 2, "an entry each");
        site.semel(&["in-doubt", "resolve", "--all", "--applied", "--yes"])
            .done()
            .says("nothing to resolve: no doubts");
    }
}

/// A site with two doubts of a target that recognises its keys for `window`.
fn keyed(store: &str, window: &str) -> Site {
    let site = fresh(store);
    let config = site.text("semel.toml").replace(
        "\"handler.sh\"] }",
        &format!("\"handler.sh\"], class = \"keyed\", provider_window = \"{window}\" }}"),
    );
    let config = config.replace("backoff = \"1h\"", "attempts = 1, backoff = \"1ms\"");
    site.write("semel.toml", config);
    site.write("in", "{\"id\":\"doubt-1\"}\n{\"id\":\"doubt-2\"}\n");
    site.run().is(&[("in_doubt", 2)]);
    site
}

#[test]
fn a_doubt_that_nothing_recognises_is_not_tried_again() {
    for store in STORES {
        let site = worked(store);
        let ended = site.semel(&["in-doubt", "retry", "--all", "--yes"]).code(1);
        assert_eq!(ended.stdout, "");
        ended
            .says("doubt-1: refused: its pipeline parks what may have happened")
            .says("semel in-doubt resolve doubt-1")
            .says("nothing to retry: no doubts");
        site.semel(&["in-doubt", "retry", "done-1", "--yes"])
            .code(1)
            .says("done-1 is not in doubt but completed");
        assert_eq!(site.state("doubt-1").as_deref(), Some("in_doubt"));
        assert!(site.trail().is_empty());
    }
}

#[test]
fn a_doubt_inside_its_providers_window_is_called_again_under_the_same_key() {
    for store in STORES {
        let site = keyed(store, "24h");
        let explained = site.semel(&["keys", "explain", "doubt-1"]).done();
        assert!(
            explained
                .stdout
                .contains("  semel in-doubt retry doubt-1\n"),
            "{}",
            explained.stdout
        );
        let keys = "cat >/dev/null; echo $SEMEL_IDEMPOTENCY_KEY >> keys; printf better";
        site.write("handler.sh", keys);
        let plan = site.semel(&["in-doubt", "retry", "--all"]).code(1);
        assert_eq!(plan.stdout, "", "a person gets the first few and a count");
        plan.says("plan: retry 2 doubts\n")
            .says("pay  doubt-1  in-doubt: its effect is called")
            .says("nothing was changed");
        assert!(!site.path("keys").exists() && site.trail().is_empty());
        let foretold = site.semel(&["in-doubt", "retry", "--all", "--output", "json"]);
        assert_eq!(
            member(&items(&foretold.code(1)), "predicted"),
            ["runs", "runs"]
        );

        site.semel(&["in-doubt", "retry", "doubt-1", "--yes", "--by", "ada"])
            .done();
        assert_eq!(site.state("doubt-1").as_deref(), Some("completed"));
        assert_eq!(site.state("doubt-2").as_deref(), Some("in_doubt"));
        let shown = site.semel(&["keys", "show", "doubt-1", "--output", "json"]);
        let id = object(&shown.done())["operation_id"].clone();
        assert_eq!(Some(site.text("keys").trim()), id.as_str());
        assert_eq!(
            orders(&site),
            [
                ["retry", "in_doubt", "released"],
                ["drop", "message kept: in-doubt", "message dropped"]
            ]
            .map(|entry| entry.map(str::to_owned))
        );
        assert_eq!(kept(&site)["in-doubt"], 1, "that of the other");
        let explained = site.semel(&["keys", "explain", "doubt-1"]).done().stdout;
        let told = "had the effect called again though it was in doubt (in_doubt → released)";
        assert!(explained.contains(told), "{explained}");
    }
}

#[test]
fn past_its_providers_window_a_doubt_is_not_called_again() {
    let site = keyed("sqlite:s.db", "1s");
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    site.write("handler.sh", "touch called");
    site.semel(&["in-doubt", "retry", "doubt-1", "--yes"])
        .code(1)
        .says("doubt-1: refused: its provider has forgotten the key by now")
        .says("semel in-doubt resolve doubt-1");
    assert_eq!(site.state("doubt-1").as_deref(), Some("in_doubt"));
    assert!(!site.path("called").exists());
}
