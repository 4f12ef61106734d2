//! Every exit code, with a situation that causes it.

use std::process::Stdio;

use crate::site::{Site, lines, read_all};

const CONFIG: &str = "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\n\
                      source = { kind = \"file\", path = \"in\" }\nkey = \"json:/id\"\n\
                      effect = { kind = \"file\", path = \"out\" }\n";

fn site() -> Site {
    Site::with(&[("semel.toml", CONFIG), ("in", "{\"id\":1}\n")])
}

#[test]
fn done_is_0_with_a_quarantined_line_and_a_closed_pipe_too() {
    let site = Site::with(&[("semel.toml", CONFIG), ("in", "{\"id\":1}\nno json\n")]);
    site.run().is(&[("applied", 1), ("quarantined", 1)]);
    site.semel(&["run"]).done();
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["explain", "store-in-use"],
        &["config", "check"],
        &["completions", "bash"],
        &["man"],
    ] {
        site.semel(arguments).done();
        let mut child = site
            .command()
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("semel");
        // The reader is gone before the first byte.
        drop(child.stdout.take());
        let said = read_all(child.stderr.take().expect("a pipe"));
        assert_eq!(said, "", "{arguments:?}");
        assert_eq!(
            child.wait().expect("a child").code(),
            Some(0),
            "{arguments:?}"
        );
    }
}

/// A misspelt selector stops the run; the store keeps nothing of it.
#[test]
fn no_usable_key_in_the_first_messages_is_1() {
    let input = lines(0..300, |id| format!("{{\"payment\":\"p{id}\"}}"));
    let site = Site::with(&[("semel.toml", CONFIG), ("in", &input)]);
    let ended = site
        .semel(&["run"])
        .code(1)
        .says("none of the first 100 messages has a usable key")
        .says("json:/id")
        .says("{\"payment\":\"p0\"}")
        .says("[no-usable-key]");
    assert!(!ended.stderr.contains("quarantined"), "{}", ended.stderr);
    assert!(site.rows("s.db", "select * from semel_parked").is_empty());
    let lenient = CONFIG.replace("key =", "pause_after = 0\nkey =");
    site.write("semel.toml", lenient);
    site.run().is(&[("quarantined", 300)]);
}

#[test]
fn what_a_run_must_not_set_aside_is_1_where_it_was_asked_for() {
    let config = CONFIG.replace(
        "{ kind = \"file\", path = \"out\" }",
        "{ kind = \"exec\", command = [\"false\"] }",
    );
    let input = "{\"id\":1}\nno json\n";
    let site = || Site::with(&[("semel.toml", &*config), ("in", input)]);
    site().semel(&["run"]).done();
    site()
        .semel(&["run", "--fail-on", "in-doubt,conflicts"])
        .done();
    let says = "p: 1 dead, on which the run fails";
    site()
        .semel(&["run", "--fail-on", "in-doubt,dead"])
        .code(1)
        .says(says);
    let says = "p: 1 quarantined, on which the run fails";
    site()
        .semel(&["run", "--fail-on=quarantined"])
        .code(1)
        .says(says);
    site()
        .semel(&["run", "--fail-on", "ded"])
        .code(2)
        .says("'dead'");
}

#[test]
fn the_version_names_commit_and_features() {
    let version = Site::new().semel(&["--version"]).done().stdout;
    let (number, rest) = version.split_once(" (").expect("a commit");
    assert_eq!(number, concat!("semel ", env!("CARGO_PKG_VERSION")));
    let (commit, features) = rest.split_once(") features: ").expect("features");
    assert!(!commit.is_empty(), "{version}");
    let has = |name: &str| features.trim_end().split(", ").any(|it| it == name);
    assert_eq!(has("nats"), cfg!(feature = "nats"), "{version}");
    assert_eq!(has("kafka"), cfg!(feature = "kafka"), "{version}");
    assert_eq!(has("mysql"), cfg!(feature = "mysql"), "{version}");
}

#[test]
fn the_answer_no_is_1() {
    let site = site();
    site.semel(&["explain", "no-such-code"]).code(1);
    site.run().is(&[("applied", 1)]);
    site.semel(&["keys", "show", "no-such-key"]).code(1);
    site.semel(&["keys", "forget", "json:1"])
        .code(1)
        .says("plan: forget 1 key")
        .says("nothing was changed; to carry it out:")
        .says(" keys forget json:1 --yes\n");
    site.semel(&["keys", "show", "json:1"]).done();
    site.write("semel.toml", CONFIG.replace("key =", "kye ="));
    site.semel(&["config", "check"]).code(1);
}

#[test]
fn a_mistake_on_the_command_line_or_in_the_configuration_is_2() {
    let site = site();
    for arguments in [
        &[][..],
        &["rnu"],
        &["run", "--no-such-option"],
        &["run", "--output", "yaml"],
        &["run", "--color", "red"],
        &["explain", "dead", "stale"],
        &["run", "no-such.toml"],
        &["run", "--store", "nosql:x"],
    ] {
        let ended = site.semel(arguments).code(2);
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
    site.write("semel.toml", CONFIG.replace("key =", "kye ="));
    site.semel(&["run"]).code(2);
}

#[test]
fn what_is_not_available_is_3() {
    let site = site();
    std::fs::remove_file(site.path("in")).expect("a file");
    site.semel(&["run"]).code(3).says("[source-unavailable]");
    site.write("in", "{\"id\":1}\n");
    site.write(
        "not-a-database",
        "this is text, not a database\n".repeat(40),
    );
    site.semel(&["run", "--store", "sqlite:not-a-database"])
        .code(3);
    site.semel(&["run", "--store", "sqlite:no/such/folder/s.db"])
        .code(3);
}

#[test]
fn an_output_that_takes_nothing_is_3() {
    let site = site();
    for arguments in [
        &["run"][..],
        &["explain", "dead"],
        &["completions", "zsh"],
        &["man"],
    ] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("a device that is always full");
        let output = site
            .command()
            .args(arguments)
            .stdout(full)
            .output()
            .expect("semel");
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("error: cannot print to standard output [target-unavailable]"),
            "{said}"
        );
    }
}

/// Causes a defect by removing a table of ours behind our back, for which no driver error stands. No ordinary
/// situation that we know of takes this path.
#[test]
fn a_defect_is_70() {
    let site = site();
    site.run().is(&[("applied", 1)]);
    site.database("s.db")
        .execute_batch("drop view semel_operations; drop table semel_records")
        .expect("tables that are there");
    site.semel(&["run"])
        .code(70)
        .says("[internal]")
        .says("caused by: no such table: semel_records");
}
