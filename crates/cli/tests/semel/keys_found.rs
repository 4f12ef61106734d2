//! The record that a typed KEY means: by pipeline, by operation id, and by the key as it is printed.

use std::process::Command;

use crate::operator::{STORES, items, member, object, worked};
use crate::site::{Running, Site, lines};

#[test]
fn where_several_pipelines_have_a_key_one_must_be_named() {
    for store in STORES {
        let site = worked(store);
        let two = |rest: &[&str]| site.semel(&[rest, &["--config", "two.toml"]].concat());
        let shown = two(&["keys", "show", "done-1", "--output", "json"]);
        assert_eq!(object(&shown.done())["pipeline"], "pay");
        let explained = two(&["keys", "explain", "doubt-1"]).done().stdout;
        let hint = "semel in-doubt show doubt-1 --config two.toml --pipeline pay\n";
        assert!(explained.contains(hint), "{explained}");
        two(&["in-doubt", "show", "doubt-1"]).done();
        two(&["keys", "show", "nobody"])
            .code(1)
            .says("there is no record of nobody in any pipeline")
            .says("it was never claimed");
        two(&["keys", "show", "7"])
            .code(1)
            .says("pay has json:7, completed: semel keys show json:7");
        for verb in ["hold", "forget", "release"] {
            two(&["keys", verb, "done-1"])
                .code(2)
                .says("name it with --pipeline NAME: mail, pay");
        }
        two(&["run", "--pipeline", "mail"]).done();
        for verb in ["show", "explain"] {
            two(&["keys", verb, "done-1"])
                .code(2)
                .says("which pipeline? done-1 is in mail (completed), pay (completed)");
        }
        two(&["keys", "show", "done-1", "--pipeline", "pay"]).done();
        two(&["keys", "show", "nobody", "--pipeline", "mail"])
            .code(1)
            .says("there is no record of nobody in mail");
        two(&["keys", "show", "done-1", "--pipeline", "pya"])
            .code(1)
            .says("the configuration has no pipeline `pya`; did you mean `pay`?")
            .says("pay has done-1, completed: semel keys show done-1 --config two.toml --pipeline pay");
    }
}

#[test]
fn a_key_is_found_by_its_operation_id_as_logs_have_it() {
    for store in STORES {
        let site = worked(store);
        let shown = site.semel(&["keys", "show", "doubt-1", "--output", "json"]);
        let id = object(&shown.done())["operation_id"].clone();
        let id = id.as_str().expect("an id");
        for verb in [["keys", "show"], ["keys", "explain"], ["in-doubt", "show"]] {
            let found = site.semel(&[verb[0], verb[1], id, "--output", "json"]);
            assert_eq!(object(&found.done())["key"], "doubt-1", "{verb:?}");
        }
        let other = format!(
            "{}{}",
            if id.starts_with('0') { '1' } else { '0' },
            &id[1..]
        );
        site.semel(&["keys", "show", &other])
            .code(1)
            .says("there is no record of");
        // A verb that changes something needs the key itself.
        site.semel(&["keys", "hold", id, "--yes"]).code(1);
        assert!(site.trail().is_empty());
    }
}

#[test]
fn a_key_that_cannot_be_seen_is_shown_so_that_it_can_be_typed() {
    for store in STORES {
        let site = Site::with(&[
            (
                "semel.toml",
                &format!("[store]\nurl = \"{store}\"\n{LINES}"),
            ),
            ("in", "a\tb\u{200b}\nends in CR\r\n-x\n"),
        ]);
        site.run().is(&[("applied", 3)]);
        let listed = site.semel(&["keys", "list"]).done().stdout;
        for typed in [r#"json:"a\tb\u200b""#, r#"json:"ends in CR\r""#, "-x"] {
            assert!(listed.contains(&format!("{typed} ")), "{typed}: {listed}");
            let told = site.semel(&["keys", "explain", "--", typed]).done().stdout;
            let hint = told.lines().find(|line| line.contains("keys hold"));
            let hint = hint.expect("a hint").trim().strip_prefix("semel ");
            let mut shell = Command::new("sh");
            shell.current_dir(site.path("")).arg("-c").arg(format!(
                "{} {}",
                env!("CARGO_BIN_EXE_semel"),
                hint.expect("a command").replacen("hold", "hold --yes", 1)
            ));
            Running::start(&mut shell)
                .wait()
                .done()
                .says("plan: hold 1 key");
        }
        let held = site.semel(&["keys", "list", "--held", "--output", "json"]);
        assert_eq!(
            member(&items(&held.done()), "key"),
            ["-x", "a\tb\u{200b}", "ends in CR\r"],
            "in JSON a key is itself"
        );
        site.semel(&["keys", "show", "no\u{1b}[31mbody"])
            .code(1)
            .says(r#"there is no record of json:"no\u001b[31mbody""#);
    }
}

/// A pipeline whose keys are lines.
const LINES: &str = "[pipelines.lines]\nsource = { kind = \"file\", path = \"in\", format = \"lines\" }\n\
                     key = \"line\"\neffect = { kind = \"file\", path = \"out\" }\n";

#[test]
fn a_key_is_found_by_the_beginning_of_its_operation_id_and_ambiguous_ones_are_listed() {
    for store in STORES {
        let site = Site::with(&[(
            "semel.toml",
            &format!(
                "[store]\nurl = \"{store}\"\n[pipelines.pay]\nkey = \"json:/id\"\n\
                 source = {{ kind = \"file\", path = \"in\" }}\neffect = {{ kind = \"file\", path = \"out\" }}\n"
            ),
        )]);
        site.write("in", lines(0..900, |id| format!("{{\"id\":\"pay-{id}\"}}")));
        site.run().is(&[("applied", 900)]);
        let listed = site.semel(&["keys", "list", "--output", "json"]).done();
        let mut ids: Vec<_> = items(&listed)
            .iter()
            .map(|item| {
                ["operation_id", "key"].map(|name| item[name].as_str().expect("a text").to_owned())
            })
            .collect();
        ids.sort_unstable();
        for verb in ["show", "explain"] {
            let found = site.semel(&["keys", verb, &ids[7][0][..10], "--output", "json"]);
            assert_eq!(object(&found.done())["key"], *ids[7][1]);
        }
        let twins = ids
            .windows(2)
            .find(|pair| pair[0][0][..4] == pair[1][0][..4]);
        let [one, other] = twins.expect("two that begin alike") else {
            panic!("a pair");
        };
        site.semel(&["keys", "show", &one[0][..4].to_uppercase()])
            .code(2)
            .says("which one? several operation ids begin with")
            .says(&format!("pay {} ({})", one[1], &one[0][..12]))
            .says(&format!("pay {} ({})", other[1], &other[0][..12]));
        site.semel(&["keys", "show", "00000000"])
            .code(1)
            .says("there is no record of 00000000 in pay");
        // A verb that changes something needs the key itself.
        site.semel(&["keys", "hold", &ids[7][0][..10], "--yes"])
            .code(1);
    }
}
