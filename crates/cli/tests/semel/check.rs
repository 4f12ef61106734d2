//! `semel check`: reports what a pipeline promises and what stands in the way, before anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::site::{Ended, Running, Site, lines, wait_for};

/// The reports of `check --output json` with these arguments.
fn reports(site: &Site, arguments: &[&str], code: i32) -> Vec<Value> {
    let arguments = [&["check", "--output", "json"], arguments].concat();
    read(&site.semel(&arguments).code(code))
}

fn read(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}

fn codes(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("a list").iter();
    findings
        .map(|finding| finding["code"].as_str().expect("a code"))
        .collect()
}

/// A pipeline without a fault, whose settings the arguments may replace.
fn site(file: &str, pipeline: &str, effect: &str) -> Site {
    let config = format!(
        "{file}\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n{pipeline}\n\
         [pipelines.p.effect]\n{effect}\n"
    );
    Site::with(&[("semel.toml", &config), ("in", "")])
}

const SOUND: &str = "key = \"json:/id\"\nbirth = \"json:/at\"";
const FILE: &str = "kind = \"file\"\npath = \"out\"";
const EXEC: &str = "kind = \"exec\"\ncommand = [\"true\"]";
const KEYED: &str = "class = \"keyed\"\nprovider_window = \"7d\"";

#[test]
fn a_sound_pipeline_has_no_finding() {
    let site = site("", SOUND, FILE);
    let [report] = &reports(&site, &[], 0)[..] else {
        panic!("one report")
    };
    assert_eq!(codes(report), [""; 0]);
    for (member, expected) in [
        ("/pipeline", Value::from("p")),
        ("/verdict", "ok".into()),
        ("/class", "transactional".into()),
        ("/guarantee", "exactly once".into()),
        ("/source", "file in".into()),
        ("/effect", "file out".into()),
        ("/coverage/protection", "protected".into()),
        ("/store/url", "embedded:./semel-data".into()),
        ("/store/is_there", false.into()),
        ("/store/survives", Value::Null),
        ("/key/0", "json:/id".into()),
        ("/fingerprint/0", "payload".into()),
        ("/birth", "json:/at".into()),
        ("/window", "7d".into()),
        ("/margin", "1m".into()),
        ("/lease", "30s".into()),
        ("/timeout", Value::Null),
        ("/retry/attempts", 10.into()),
        ("/retry/longest", "102200ms".into()),
        ("/storage/disk_bytes_per_key", 140.into()),
        ("/sample", Value::Null),
    ] {
        assert_eq!(report.pointer(member), Some(&expected), "{member}");
    }
    let table = site.semel(&["check"]).done();
    for line in [
        "p: ok",
        "class:       transactional: exactly once",
        "store:       embedded:./semel-data; will be created",
        "age gate:    on, by json:/at",
        "retry:       10 attempts, 200ms to 1m between them, at most 1m 42s in all",
        "storage:     about 140 B of disk and 24 B of memory a key, outcomes apart",
    ] {
        assert!(
            table.stdout.lines().any(|said| said == line),
            "{line}\n{}",
            table.stdout
        );
    }
    assert!(!site.path("semel-data").exists(), "nothing was made");
}

#[test]
fn each_finding_is_told_where_it_belongs() {
    let retry = |retry: &str| format!("{SOUND}\nretry = {{ {retry} }}");
    let exec = |more: &str| format!("{EXEC}\n{more}");
    for (pipeline, effect, expected, code) in [
        ("key = \"json:/id\"", FILE, "age-gate-off", 0),
        (
            "key = \"coordinates\"\nbirth = \"json:/at\"",
            FILE,
            "key-is-coordinates",
            0,
        ),
        (
            &*format!("{SOUND}\ntransport = \"json:/id\""),
            FILE,
            "key-is-transport",
            0,
        ),
        (
            &format!("{SOUND}\nfingerprint = \"none\""),
            FILE,
            "fingerprint-off",
            0,
        ),
        (
            &retry("attempts = 100, backoff = \"3h\""),
            FILE,
            "window-shorter-than-retries",
            0,
        ),
        (
            SOUND,
            &exec("timeout = \"31s\""),
            "lease-shorter-than-timeout",
            0,
        ),
        (
            SOUND,
            &exec("class = \"keyed\"\nprovider_window = \"24h\""),
            "provider-window-short",
            0,
        ),
        (
            &retry("attempts = 20, backoff = \"1h\""),
            &exec("class = \"keyed\"\nprovider_window = \"10h\""),
            "provider-window-shorter-than-retries",
            0,
        ),
        (
            SOUND,
            "kind = \"file\"\npath = \"none/out\"",
            "target-unavailable",
            1,
        ),
        (
            SOUND,
            "kind = \"file\"\npath = \".\"",
            "target-unavailable",
            1,
        ),
        (
            SOUND,
            "kind = \"exec\"\ncommand = [\"./no\"]",
            "target-unavailable",
            1,
        ),
        (
            SOUND,
            "kind = \"exec\"\nprotocol = \"jsonl\"\ncommand = [\"./no\"]",
            "target-unavailable",
            1,
        ),
    ] {
        let site = site("", pipeline, effect);
        let report = &reports(&site, &[], code)[0];
        assert_eq!(codes(report), [expected], "{report}");
        let verdict = if code == 0 { "warn" } else { "fail" };
        assert_eq!(
            (&report["verdict"], &report["findings"][0]["severity"]),
            (&verdict.into(), &verdict.into())
        );
        let table = site.semel(&["check"]).code(code).stdout;
        let line = format!("{verdict}:        {expected}: ");
        assert!(table.contains(&line), "{line}\n{table}");
    }
    let site = site("", SOUND, &exec(KEYED));
    assert_eq!(
        codes(&reports(&site, &[], 0)[0]),
        [""; 0],
        "a window as long as the provider's"
    );
    std::fs::remove_file(site.path("in")).expect("a file");
    assert_eq!(codes(&reports(&site, &[], 1)[0]), ["source-unavailable"]);
}

#[test]
fn every_finding_has_its_row_in_the_book() {
    let rules = include_str!("../../../operate/src/check/rules.rs");
    let source = rules.to_owned()
        + include_str!("../../../operate/src/check/broker.rs")
        + include_str!("../../../operate/src/check/paused.rs")
        + include_str!("../../../operate/src/check/sequence_gate.rs")
        + include_str!("../../../operate/src/check/webhook.rs")
        + include_str!("../../../check/src/store_path.rs");
    let book = include_str!("../../../../docs/book/src/reference/check.md");
    let mut codes = BTreeSet::new();
    for call in ["warn(", "fail(", "found("] {
        for after in source.split(call).skip(1) {
            let code = after.trim_start().strip_prefix('"');
            if let Some((code, _)) = code.and_then(|rest| rest.split_once('"')) {
                codes.insert(code);
            }
        }
    }
    assert!(codes.len() > 12, "{codes:?}");
    // Those of relays are in a table before this one.
    let codes = codes.into_iter().filter(|it| !it.starts_with("relay-"));
    let codes: Vec<_> = codes.collect();
    let (_, book) = book.split_once("\n## Findings\n").expect("the section");
    let rows = book.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter_map(|row| row.split_once('`'));
    let rows = rows.filter(|(code, _)| !code.starts_with('-'));
    let rows: Vec<_> = rows.map(|(code, _)| code).collect();
    assert_eq!(rows, codes, "in alphabetical order");
}

#[test]
fn coverage_says_how_far_the_promise_reaches() {
    let outside = |class: &str| format!("{EXEC}\n{class}");
    for (effect, protection, guarantee) in [
        (FILE, "protected", "exactly once"),
        (
            &outside(KEYED),
            "protected",
            "exactly once inside the provider's window",
        ),
        (
            &outside("class = \"keyed\"\nprovider_window = \"1h\""),
            "partial",
            "exactly once inside the provider's window",
        ),
        (&outside("on_doubt = \"park\""), "partial", "at most once"),
        (
            &outside("on_doubt = \"repeat\""),
            "partial",
            "at least once",
        ),
    ] {
        let report = &reports(&site("", SOUND, effect), &[], 0)[0];
        assert_eq!(report["coverage"]["protection"], protection, "{report}");
        assert_eq!(report["guarantee"], guarantee);
        assert_ne!(report["coverage"]["why"], "");
    }
}

#[test]
fn a_store_that_forgets_is_no_store() {
    let site = site(
        "[store]\nallow_volatile = true\nurl = \"memory:\"",
        SOUND,
        FILE,
    );
    let report = &reports(&site, &[], 1)[0];
    assert_eq!(codes(report), ["store-volatile"]);
    assert_eq!(report["coverage"]["protection"], "unprotected");
    assert_eq!(report["store"]["survives"], "nothing");
}

#[test]
fn a_store_is_looked_at_and_not_touched() {
    for (store, survives) in [
        ("embedded:./data", "power-cut"),
        ("sqlite:./data", "power-cut"),
    ] {
        let site = site(&format!("[store]\nurl = \"{store}\""), SOUND, FILE);
        site.run();
        let before = snapshot(&site.path(""));
        let report = &reports(&site, &[], 0)[0];
        assert_eq!(report["store"]["is_there"], true);
        // Tests that run in a folder in memory get that answer.
        assert!([survives, "kill"].contains(&report["store"]["survives"].as_str().expect("text")));
        assert_eq!(snapshot(&site.path("")), before, "{store}");
    }
}

#[test]
fn a_database_of_somebody_else_stays_as_it_is() {
    let sql = "kind = \"sql\"\nstatement = \"insert into charges values (:id)\"";
    let site = site("[store]\nurl = \"sqlite:./data.db\"", SOUND, sql);
    assert_eq!(codes(&reports(&site, &[], 0)[0]), ["statements-unchecked"]);
    assert!(!site.path("data.db").exists());
    let database = site.database("data.db");
    database
        .execute_batch("create table other (id)")
        .expect("a table");
    drop(database);
    let before = snapshot(&site.path(""));
    let report = &reports(&site, &[], 1)[0];
    assert_eq!(codes(report), ["statement-refused"]);
    assert_eq!(report["store"]["is_there"], false);
    let message = report["findings"][0]["message"].as_str().expect("text");
    assert!(message.contains("no such table: charges"), "{message}");
    assert_eq!(snapshot(&site.path("")), before);
    let database = site.database("data.db");
    database
        .execute_batch("create table charges (id)")
        .expect("a table");
    drop(database);
    assert_eq!(codes(&reports(&site, &[], 0)[0]), [""; 0]);
}

#[test]
fn a_store_in_use_can_be_looked_at() {
    for store in ["embedded:./data", "sqlite:./data"] {
        let site = site(&format!("[store]\nurl = \"{store}\""), SOUND, FILE);
        let config = site
            .text("semel.toml")
            .replace("\"file\", path = \"in\"", "\"stdin\"");
        site.write("semel.toml", config);
        let mut worker = Running::start(site.command().arg("run").stdin(Stdio::piped()));
        wait_for("the worker", || worker.stderr().contains("age gate"));
        let report = &reports(&site, &[], 0)[0];
        assert_eq!(report["store"]["is_there"], true, "{report}");
        worker.signal(Signal::TERM);
        worker.wait().done();
    }
}

#[test]
fn a_store_that_cannot_be_opened_is_an_unavailable_environment() {
    let site = site("[store]\nurl = \"sqlite:./data\"", SOUND, FILE);
    site.write("data", "no database at all");
    let check = site.semel(&["check", "--output", "jsonl"]).code(3);
    let report = &read(&check)[0];
    assert_eq!(
        (codes(report), &report["verdict"]),
        (vec!["store-foreign"], &"fail".into())
    );
    assert!(
        report["store"]["error"]
            .as_str()
            .expect("text")
            .contains("not an SQLite database")
    );
    check.says("[store-foreign]");
    let missing = site
        .semel(&["check", "--store", "sqlite:./no/data"])
        .code(3);
    missing.says("there is no folder");
    std::fs::create_dir(site.path("folder")).expect("a folder");
    site.write("folder/mine", "mine");
    let foreign = site.semel(&["check", "--store", "embedded:folder"]).code(3);
    assert!(foreign.stdout.starts_with("p: fail\n") && foreign.stderr.contains("[store-"));
}

#[test]
fn a_wrong_command_line_or_configuration_is_told() {
    let site = site("", SOUND, FILE);
    for (rate, why) in [
        ("0", "wanted is a whole number from 1 on"),
        ("ten", "wanted is a whole number"),
        ("99999999999", "that is too many"),
    ] {
        site.semel(&["check", "--rate", rate])
            .code(2)
            .says("--rate")
            .says(why);
    }
    site.semel(&["check", "--limit", "5"])
        .code(2)
        .says("--sample");
    site.semel(&["check", "semel.toml", "--config", "semel.toml"])
        .code(2)
        .says("Usage:");
    site.semel(&["check", "no.toml"])
        .code(2)
        .says("[config-unreadable]");
    site.semel(&["check", "--pipeline", "q"])
        .code(2)
        .says("there is no pipeline `q`");
    site.semel(&["check", "--store", "embeded:x"])
        .code(2)
        .says("did you mean `embedded`?");
    site.semel(&["check", "--sample", "no"])
        .code(3)
        .says("[source-unavailable]");
    let help = site.semel(&["check", "--help"]).done();
    assert!(
        help.stdout.contains("Example:\n  semel check"),
        "{}",
        help.stdout
    );
}

#[test]
fn the_place_of_the_store_is_looked_at_before_it_is_there_and_after() {
    let site = site("", SOUND, FILE);
    let (exposed, short) = (["store-exposed"], ["disk-short"]);
    assert_eq!(
        codes(&reports(&site, &["--rate", "4000000000"], 0)[0]),
        short
    );
    for store in ["embedded:in/data", "embedded:in/a/b"] {
        let report = &reports(&site, &["--store", store], 1)[0];
        assert_eq!(codes(report), ["store-unavailable"], "{report}");
        let message = report["findings"][0]["message"].as_str();
        assert_eq!(
            message,
            Some("in is no folder, so that nothing can be made in it")
        );
    }
    assert!(!site.path("semel-data").exists());
    site.run();
    for (store, path) in [
        ("embedded:semel-data", "semel-data"),
        ("sqlite:s.db", "s.db"),
    ] {
        let named = ["--store", store];
        site.semel(&[&["run"][..], &named].concat()).done();
        assert_eq!(codes(&reports(&site, &named, 0)[0]), [""; 0]);
        readable(&site.path(path));
        let report = &reports(&site, &named, 0)[0];
        assert_eq!(codes(report), exposed);
        let said = format!(
            "other users of this machine can read {path}, and the messages that are kept in it"
        );
        assert_eq!(report["findings"][0]["message"].as_str(), Some(&*said));
        site.semel(&[&["run"][..], &named].concat())
            .done()
            .says(&format!(
                "warning: store {store}: {said}; take the right away: chmod "
            ));
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(site.path(path), everybody).expect("a right");
        assert_eq!(codes(&reports(&site, &named, 0)[0]), exposed);
    }
}

#[test]
fn a_sample_comes_from_standard_input_too() {
    let site = site("", SOUND, FILE);
    let mut command = site.command();
    command.args(["check", "--sample", "-", "--output", "json"]);
    let ended = Running::start_with(&mut command, "{\"id\":1,\"at\":1}\nno\n").wait();
    let report = &read(&ended.done())[0];
    assert_eq!(report["sample"]["messages"], 2);
    assert_eq!(report["sample"]["keys"], 1);
    let two = site
        .text("semel.toml")
        .replace("pipelines.p", "pipelines.q")
        .replace("\"out\"", "\"other\"");
    site.write("semel.toml", site.text("semel.toml") + &two);
    site.semel(&["check", "--sample", "-"])
        .code(2)
        .says("name one pipeline with --pipeline NAME");
}

#[test]
fn a_sample_is_told_by_what_each_pipeline_makes_of_it() {
    let pipeline = "key = \"json:/id\"\nbirth = \"json:/at\"\ntransport = \"json:/event\"\n\
                    fingerprint = \"json:/amount\"";
    let site = site("", pipeline, FILE);
    let sample = r#"{"id":"a","event":1,"amount":1,"at":0}
{"id":"a","event":1,"amount":1,"at":0}
{"id":"a","event":2,"amount":1,"at":0}
{"id":"a","event":3,"amount":2,"at":0}

{"event":4,"amount":2,"at":0}
{"id":null,"event":4,"amount":2,"at":0}
{"id":"b","event":4,"amount":2}
not json
{"id":"c","event":5,"amount":2,"at":0}
{"id":null,"event":4,"amount":2,"at":0}
"#;
    site.write("sample", sample);
    let report = &reports(&site, &["--sample", "sample"], 0)[0];
    assert_eq!(codes(report), ["sample-unusable", "sample-conflicts"]);
    let expected = r#"{"file":"sample","complete":true,"messages":10,"keyed":5,"keys":2,"redelivered":1,
        "republished":1,"conflicts":1,
        "first_conflicts":[{"key":"a","first_at":"sample:1","again_at":"sample:4"}],
        "unusable":{"birth-missing":{"count":1,"first_at":["sample:8"]},
        "key-missing":{"count":1,"first_at":["sample:6"]},
        "key-null":{"count":2,"first_at":["sample:7","sample:11"]},
        "not-json":{"count":1,"first_at":["sample:9"]}}}"#;
    let expected: Value = serde_json::from_str(expected).expect("JSON");
    assert_eq!(report["sample"], expected);
    let table = site.semel(&["check", "--sample", "sample"]).done().stdout;
    let line = "sample:      10 messages: 2 keys, 1 redelivered, 1 published again, 1 in conflict, \
                5 without a usable key\n";
    assert!(table.contains(line), "{table}");
    assert!(
        table.contains("2 key-null (sample:7, sample:11)"),
        "{table}"
    );
    let some = &reports(&site, &["--sample", "sample", "--limit", "3"], 0)[0]["sample"];
    assert_eq!(
        (&some["messages"], &some["complete"]),
        (&3.into(), &false.into())
    );
    let all = &reports(&site, &["--sample", "sample", "--limit", "10"], 0)[0]["sample"];
    assert_eq!(
        (&all["messages"], &all["complete"]),
        (&10.into(), &true.into())
    );
    site.write("none", "{}\n");
    let none = &reports(&site, &["--sample", "none"], 1)[0];
    assert_eq!(codes(none), ["sample-without-key"]);
    assert_eq!(
        codes(&reports(&site, &["--sample", "in"], 0)[0]),
        ["sample-empty"]
    );
    assert!(!site.path("semel-data").exists(), "nothing was claimed");
}

#[test]
fn a_sample_is_read_as_the_statements_of_the_effect_would() {
    let sql = "kind = \"sql\"\nstatement = \"insert into t values (:id, :b)\"\n\
               params = { b = \"json:/b\" }";
    let text = "key = \"line\"\nbirth = \"coordinates\"\nfingerprint = \"none\"";
    let site = site("[store]\nurl = \"sqlite:./data.db\"", text, sql);
    site.write("sample", "not json\n");
    let report = &reports(&site, &["--sample", "sample"], 1)[0];
    let unusable = report["sample"]["unusable"].as_object().expect("an object");
    assert_eq!(unusable.len(), 1, "{report}");
}

#[test]
fn the_estimate_is_near_what_the_disk_takes() {
    for store in ["embedded:./data", "sqlite:./data"] {
        let site = site(
            &format!("[store]\nurl = \"{store}\""),
            "key = \"json:/id\"",
            FILE,
        );
        let count = 20_000;
        site.write(
            "in",
            lines(0..count, |id| format!("{{\"id\":\"pay-{id:012}\"}}")),
        );
        site.run().is(&[("applied", count)]);
        let disk: u64 = snapshot(&site.path(""))
            .iter()
            .filter(|(path, _)| path.contains("/data"))
            .map(|(_, (len, _))| *len as u64)
            .sum();
        let report = &reports(&site, &["--rate", "10"], 0)[0];
        let storage = &report["storage"];
        let a_key = storage["disk_bytes_per_key"].as_u64().expect("a number");
        let real = disk / count;
        assert!(
            (real * 2 / 3..=real * 3 / 2).contains(&a_key),
            "{store}: {real} B a key on disk, {a_key} told"
        );
        let keys = storage["at_rate"]["keys"].as_u64().expect("a number");
        assert_eq!(keys, 10 * (7 * 86_400 * 9 / 8 + 1));
        assert_eq!(storage["at_rate"]["disk_bytes"], keys * a_key);
    }
}

#[test]
fn every_pipeline_has_its_report_and_the_worst_decides() {
    let site = site("", SOUND, FILE);
    let second = "\n[pipelines.q]\nsource = { kind = \"file\", path = \"no\" }\nkey = \"line\"\n\
                  effect = { kind = \"file\", path = \"other\" }\n";
    site.write("semel.toml", site.text("semel.toml") + second);
    let both = reports(&site, &[], 1);
    let verdicts: Vec<_> = both.iter().map(|report| &report["verdict"]).collect();
    assert_eq!(verdicts, ["ok", "fail"]);
    assert_eq!(reports(&site, &["--pipeline", "p"], 0).len(), 1);
}

/// Every file below the folder, with its length and a digest of its bytes.
pub(crate) fn snapshot(folder: &Path) -> BTreeMap<String, (usize, u64)> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(snapshot(&path));
        } else {
            let bytes = std::fs::read(&path).expect("a file");
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            files.insert(path.display().to_string(), (bytes.len(), hasher.finish()));
        }
    }
    files
}

/// Lets every user read a store, as if an earlier release had made it.
fn readable(path: &std::path::Path) {
    let allow = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a right");
    };
    if !path.is_dir() {
        return allow(path, 0o644);
    }
    for file in std::fs::read_dir(path).expect("a folder") {
        allow(&file.expect("a file").path(), 0o644);
    }
    allow(path, 0o755);
}

#[test]
fn a_warning_is_a_no_where_somebody_wants_it_strict() {
    let warned = site("", "key = \"json:/id\"", FILE);
    let report = reports(&warned, &[], 0);
    assert_eq!(codes(&report[0]), ["age-gate-off"]);
    reports(&warned, &["--strict"], 1);
    reports(&site("", SOUND, FILE), &["--strict"], 0);
}
