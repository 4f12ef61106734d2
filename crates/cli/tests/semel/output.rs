//! Messages of the program: logs, colours, and the environment variables that it heeds.

use std::process::Command;

use serde_json::Value;

use crate::site::{Ended, Running, Site, lines};

const CONFIG: &str = "[store]\nurl = \"embedded:data\"\n[pipelines.p]\n\
                      source = { kind = \"file\", path = \"in\" }\nkey = \"json:/id\"\n\
                      fingerprint = [\"json:/amount\"]\n\
                      effect = { kind = \"file\", path = \"out\" }\n";

/// One message that is applied, one published again, one conflict, one without a key.
const INPUT: &str = "{\"id\":\"alice@example.org\",\"amount\":1}\n\
                     {\"id\":\"alice@example.org\",\"amount\":1}\n\
                     {\"id\":\"alice@example.org\",\"amount\":2}\n{\"amount\":1}\n";

fn site() -> Site {
    Site::with(&[("semel.toml", CONFIG), ("in", INPUT)])
}

/// The objects on standard error, which holds nothing else.
fn log(ended: &Ended) -> Vec<Value> {
    ended
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}

fn decisions(log: &[Value]) -> Vec<&str> {
    log.iter()
        .filter_map(|line| line["decision"].as_str())
        .collect()
}

#[test]
fn a_json_log_has_what_wants_attention_with_key_and_coordinates() {
    let ended = site().semel(&["run", "--log", "json"]).done();
    let log = log(&ended);
    let mut told = decisions(&log);
    told.sort_unstable();
    assert_eq!(told, ["conflict", "quarantined"]);
    let conflict = log
        .iter()
        .find(|line| line["decision"] == "conflict")
        .expect("a conflict");
    assert_eq!(conflict["key"], "alice@example.org");
    assert_eq!(conflict["coordinates"], "in:3");
    assert_eq!(conflict["pipeline"], "p");
    assert_eq!(conflict["code"], "fingerprint-conflict");
    assert_eq!(conflict["differing"], serde_json::json!(["json:/amount"]));
    assert_eq!(conflict["operation_id"].as_str().map(str::len), Some(64));
    for line in &log {
        let time = line["time"].as_str().unwrap_or_default();
        assert!(time.len() == 24 && time.ends_with('Z'), "{line}");
        assert!(
            line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }
}

#[test]
fn a_json_log_of_decisions_has_each_of_them() {
    let ended = site()
        .semel(&[
            "run",
            "--log",
            "json",
            "--log-level",
            "decisions",
            "--output",
            "json",
        ])
        .done();
    let log = log(&ended);
    let mut all = decisions(&log);
    all.sort_unstable();
    assert_eq!(
        all,
        [
            "completed",
            "conflict",
            "granted",
            "quarantined",
            "replayed"
        ]
    );
    let replayed = log
        .iter()
        .find(|line| line["decision"] == "replayed")
        .expect("a duplicate");
    assert_eq!(replayed["coordinates"], "in:2");
    assert_eq!(replayed["duplicate"], "republish");
    assert_eq!(ended.summary().count("deliveries"), 4, "and data is data");
}

#[test]
fn a_text_log_shows_no_key() {
    for level in ["attention", "decisions"] {
        let ended = site().semel(&["run", "--log-level", level]).done();
        assert!(!ended.stderr.contains("alice"), "{}", ended.stderr);
        let duplicates = ended.stderr.matches("skipped: done before").count();
        assert_eq!(
            duplicates,
            usize::from(level == "decisions"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn without_a_log_there_are_only_errors() {
    let site = site();
    assert_eq!(site.semel(&["run", "--log", "off"]).done().stderr, "");
    site.semel(&["run", "--log", "off", "no-such.toml"])
        .code(2)
        .says("error: no-such.toml: cannot read the configuration");
}

#[test]
fn a_failure_is_an_object_of_a_json_log_too() {
    let site = site();
    std::fs::remove_file(site.path("in")).expect("a file");
    let ended = site.semel(&["run", "--log", "json"]).code(3);
    let log = log(&ended);
    let last = log.last().expect("a line");
    assert_eq!(last["level"], "error");
    assert_eq!(last["code"], "source-unavailable");
    let faults = site.semel(&["run", "--log", "json", "none.toml"]).code(2);
    assert!(faults.stderr.starts_with("{\"time\":"), "{}", faults.stderr);
}

#[test]
fn a_producer_that_sends_everything_twice_is_told_of_once() {
    let twice = |times: usize| lines(0..3_000, |id| format!("{{\"id\":{}}}", id / times));
    let config = CONFIG.replace("fingerprint = [\"json:/amount\"]\n", "");
    for (times, warnings) in [(1, 0), (3, 1)] {
        let site = Site::with(&[("semel.toml", &config), ("in", &twice(times))]);
        let ended = site.semel(&["run"]).done();
        let told = ended
            .stderr
            .matches("were published again after they were done")
            .count();
        assert_eq!(told, warnings, "{}", ended.stderr);
    }
}

#[test]
fn colours_are_for_terminals_and_for_those_who_ask() {
    let site = site();
    let failed = |change: &dyn Fn(&mut Command)| {
        let mut command = site.command();
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "TERM"] {
            command.env_remove(name);
        }
        command.args(["run", "no-such.toml"]);
        change(&mut command);
        Running::start(&mut command).wait().code(2).stderr
    };
    let is_coloured = |text: &str| text.contains('\u{1b}');
    assert!(!is_coloured(&failed(&|_| ())), "a file is no terminal");
    assert!(is_coloured(&failed(&|command| {
        command.args(["--color", "always"]);
    })));
    assert!(is_coloured(&failed(&|command| {
        command.env("CLICOLOR_FORCE", "1");
    })));
    assert!(!is_coloured(&failed(&|command| {
        command
            .args(["--color", "never"])
            .env("CLICOLOR_FORCE", "1");
    })));
    assert!(
        is_coloured(&failed(&|command| {
            command.args(["--color", "always"]).env("NO_COLOR", "1");
        })),
        "a flag stands over the environment"
    );
}

#[test]
fn what_a_message_brings_along_cannot_reach_the_terminal() {
    let config = "[store]\nurl = \"embedded:data\"\n[pipelines.p]\n\
                  source = { kind = \"file\", path = \"in\u{1b}[2J\" }\nkey = \"json:/id\"\n\
                  effect = { kind = \"file\", path = \"out\" }\n"
        .replace('\u{1b}', "\\u001b");
    let site = Site::with(&[("semel.toml", &config), ("in\u{1b}[2J", "{}\n")]);
    let ended = site.semel(&["run"]).done();
    assert!(
        ended.stderr.contains("quarantined in\\u{1b}[2J:1"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains('\u{1b}'), "{:?}", ended.stderr);
}
