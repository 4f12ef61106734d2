//! `semel check --production`: a verdict for each line of the list before production; and who answers for a
//! pipeline, in the configuration and in the metrics.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::check::snapshot;
use crate::operator::worked;
use crate::ready::Admin;
use crate::site::{Running, Site, lines, wait_for};

const OWNED: &str = "owner = \"team-payments\"\nrunbook = \"https://wiki.example/payments\"";

fn site(file: &str, source: &str, pipeline: &str) -> Site {
    let config = format!(
        "{file}\n[pipelines.pay]\nsource = {source}\n{pipeline}\n\
         effect = {{ kind = \"file\", path = \"out\" }}\n"
    );
    Site::with(&[("semel.toml", &config), ("in", "")])
}

const FROM_FILE: &str = "{ kind = \"file\", path = \"in\" }";

/// The list as JSON.
pub(crate) fn list(site: &Site, arguments: &[&str], code: i32) -> Value {
    let arguments = [&["check", "--production", "--output", "json"], arguments].concat();
    let ended = site.semel(&arguments).code(code);
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("no JSON: {ended:#?}"))
}

/// The names of the lines with this verdict.
fn names<'l>(list: &'l Value, verdict: &str) -> Vec<&'l str> {
    let lines = list["lines"].as_array().expect("lines").iter();
    let lines = lines.filter(|line| line["verdict"] == verdict);
    lines
        .map(|line| line["line"].as_str().expect("a name"))
        .collect()
}

pub(crate) fn line<'l>(list: &'l Value, name: &str) -> &'l Value {
    let mut lines = list["lines"].as_array().expect("lines").iter();
    lines.find(|line| line["line"] == name).expect("a line")
}

#[test]
fn a_pipeline_to_begin_with_fails_and_says_why() {
    let site = site("", FROM_FILE, "key = \"json:/id\"");
    let list = list(&site, &[], 1);
    assert_eq!(names(&list, "fail"), ["owner", "runbook", "alerts"]);
    assert_eq!(
        (&list["pipeline"], &list["verdict"], &list["failed"]),
        (&"pay".into(), &"fail".into(), &3.into())
    );
    let table = site.semel(&["check", "--production"]).code(1).stdout;
    let mut told = table.lines();
    assert_eq!(told.next(), Some("pay: 3 fail, 7 unknown, 5 pass"));
    assert_eq!(
        told.next(),
        Some("fail     owner      nobody is named whom an alert could reach")
    );
    assert_eq!(
        told.next(),
        Some("                    do: name the team, as in `owner = \"team-payments\"`")
    );
    assert!(!site.path("semel-data").exists(), "nothing was made");
    site.semel(&["check", "--production", "--strict"]).code(2);
}

#[test]
fn a_worker_that_is_ready_for_production_passes() {
    for store in ["embedded:./data", "sqlite:./data"] {
        let admin = Admin::new();
        let file = format!("[store]\nurl = \"{store}\"\n{}", admin.table());
        let rules =
            format!("{OWNED}\nkey = [\"json:/tenant\", \"json:/id\"]\nbirth = \"json:/at\"");
        let site = site(&file, "{ kind = \"stdin\" }", &rules);
        let message = |id: u32| {
            format!("{{\"tenant\":\"a\",\"id\":\"{id}\",\"at\":\"2026-11-28T10:00:00Z\"}}")
        };
        site.write("sample", lines(0..9, message));
        let arguments = ["--sample", "sample", "--rate", "50"];
        let worker = Running::start(site.command().arg("run").stdin(Stdio::piped()));
        let info = "semel_pipeline_info{pipeline=\"pay\",effect=\"file\",class=\"transactional\",\
                    owner=\"team-payments\",runbook=\"https://wiki.example/payments\"} 1";
        wait_for("its metrics", || admin.shows(info) && admin.ready().0);
        let (_, ready) = admin.ready();
        assert_eq!(ready["pipelines"]["pay"]["owner"], "team-payments");
        let passing = list(&site, &arguments, 0);
        assert_eq!(names(&passing, "fail"), [""; 0], "{passing}");
        assert_eq!(
            names(&passing, "unknown"),
            ["source", "backup"],
            "{passing}"
        );
        assert_eq!(passing["verdict"], "unknown");
        let alerts = line(&passing, "alerts");
        let why = alerts["why"].as_str().expect("text");
        assert!(why.contains("/metrics answers"), "{alerts}");
        worker.signal(Signal::TERM);
        wait_for("its end", || !admin.ready().0 && admin.metrics().is_empty());
        worker.wait().done();
        let before = snapshot(&site.path(""));
        let stopped = list(&site, &arguments, 0);
        assert_eq!(snapshot(&site.path("")), before, "nothing was changed");
        let alerts = line(&stopped, "alerts");
        assert_eq!(alerts["verdict"], "unknown", "{alerts}");
        assert!(
            alerts["why"]
                .as_str()
                .is_some_and(|it| it.contains("connection refused"))
        );
        site.write("bad", "{\"id\":1}\n");
        let failing = list(&site, &["--sample", "bad"], 1);
        let key = line(&failing, "key");
        assert_eq!(key["findings"], serde_json::json!(["sample-without-key"]));
    }
}

#[test]
fn what_is_set_aside_is_told_with_its_age() {
    let site = site("", FROM_FILE, &format!("{OWNED}\nkey = \"json:/id\""));
    site.write(
        "in",
        "{\"id\":\"1\"}\n{\"amount\":1}\n{\"id\":\"1\",\"amount\":2}\n",
    );
    site.run();
    let list = list(&site, &[], 1);
    let aside = line(&list, "set-aside");
    assert_eq!(aside["verdict"], "unknown", "{aside}");
    let why = aside["why"].as_str().expect("text");
    assert!(
        why.starts_with("2 messages in quarantine, the oldest for "),
        "{why}"
    );
    assert_eq!(names(&list, "fail"), ["alerts"]);
    let worked = worked("embedded:./data");
    tells_what_was_left(&worked);
}

/// Asserts that the list of a site that has worked counts what waits for a person there.
pub(crate) fn tells_what_was_left(worked: &Site) {
    let list = list(worked, &[], 1);
    let aside = line(&list, "set-aside");
    let why = aside["why"].as_str().expect("text");
    let parts: Vec<_> = why.split("; ").collect();
    let [dead, doubts, quarantined, _] = &parts[..] else {
        panic!("three kinds: {why}");
    };
    assert!(dead.starts_with("1 dead letter, for "), "{why}");
    assert!(
        doubts.starts_with("2 operations in doubt, the oldest for "),
        "{why}"
    );
    assert!(
        quarantined.starts_with("1 message in quarantine, for "),
        "{why}"
    );
    assert_eq!(line(&list, "store")["verdict"], "pass", "{list}");
}

#[test]
fn a_store_that_is_away_fails_its_line_and_the_command() {
    let file = "[store]\nurl = \"sqlite:./data\"";
    let site = site(file, FROM_FILE, &format!("{OWNED}\nkey = \"json:/id\""));
    site.write("data", "no database at all");
    let list = list(&site, &[], 3);
    assert_eq!(names(&list, "fail"), ["store", "alerts"]);
    let findings = &line(&list, "store")["findings"];
    assert_eq!(*findings, serde_json::json!(["store-foreign"]));
    assert_eq!(line(&list, "set-aside")["verdict"], "unknown");
}

#[test]
fn an_owner_and_a_runbook_are_shown_or_refused_without_a_secret() {
    let owned = site("", FROM_FILE, &format!("{OWNED}\nkey = \"json:/id\""));
    let shown = owned.semel(&["config", "show"]).done().stdout;
    for line in OWNED.lines() {
        assert!(shown.lines().any(|it| it == line), "{line}: {shown}");
    }
    for (written, told) in [
        ("owner = \"\"", "pay.owner: must not be empty"),
        ("owner = \"a\\nb\"", "pay.owner: must be on one line"),
        ("owner = 7", "pay.owner: must be a string"),
        (
            "runbook = \"wiki\"",
            "pay.runbook: must be a URL that begins with http://",
        ),
        (
            "runbook = \"https://ann:hunter2@wiki/\"",
            "pay.runbook: must not have a user or a password",
        ),
    ] {
        let site = site("", FROM_FILE, &format!("{written}\nkey = \"json:/id\""));
        let ended = site.semel(&["check"]).code(2).says(told);
        let ended = ended.says("[invalid-config]");
        assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    }
}

#[test]
fn a_missing_owner_is_a_finding_only_where_metrics_are_served() {
    let admin = Admin::new();
    let rules = "key = \"json:/id\"\nbirth = \"json:/at\"";
    let codes = |site: &Site| {
        let ended = site.semel(&["check", "--output", "json"]).done();
        let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("a list").clone();
        findings.into_iter().map(|it| it["code"].clone()).collect()
    };
    let quiet: Vec<Value> = codes(&site("", FROM_FILE, rules));
    assert_eq!(quiet, [""; 0]);
    let watched: Vec<Value> = codes(&site(&admin.table(), FROM_FILE, rules));
    assert_eq!(watched, ["owner-missing"]);
}
