//! `semel gameday`: each drill passes where all is well, and fails where something was set up wrongly.

use serde_json::Value;

use crate::site::{Running, Site};

/// Plays a drill; returns its exit code and its report.
pub(crate) fn played(site: &Site, arguments: &[&str]) -> (i32, Value) {
    let mut all = vec!["gameday"];
    all.extend(arguments);
    all.extend(["--output", "json"]);
    let ended = site.semel(&all);
    let report = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    (ended.status.code().unwrap_or(-1), report)
}

/// The clauses of what did not hold, and the alerts that lack something, with what.
pub(crate) fn failures(report: &Value) -> Vec<String> {
    let of = |member: &str| report[member].as_array().cloned().unwrap_or_default();
    let checks = of("checks").into_iter();
    let checks = checks.filter(|it| it["passed"] == false);
    let alerts = of("alerts").into_iter();
    let alerts = alerts.filter(|it| !it["missing"].is_null());
    checks
        .map(|it| it["what"].as_str().unwrap_or_default().to_owned())
        .chain(alerts.map(|it| format!("{}: {}", it["alert"], it["missing"])))
        .collect()
}

/// The alerts that a drill names.
pub(crate) fn alerts(report: &Value) -> Vec<&str> {
    let alerts = report["alerts"].as_array().into_iter().flatten();
    alerts.filter_map(|it| it["alert"].as_str()).collect()
}

#[track_caller]
fn passes(drill: &str, told: &[&str]) {
    let site = Site::new();
    let (code, report) = played(&site, &[drill]);
    assert_eq!(failures(&report), [""; 0], "{report}");
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["drill"], drill);
    assert_eq!(alerts(&report), told);
    for alert in report["alerts"].as_array().into_iter().flatten() {
        assert!(alert["runbook"].is_string(), "{alert}");
        assert!(alert["summary"].is_string(), "{alert}");
    }
}

#[test]
fn a_crash_loses_and_repeats_nothing() {
    passes("crash", &["SemelWorkerDown", "SemelInDoubt"]);
}

#[test]
fn a_store_that_goes_stops_the_worker() {
    passes("store-down", &["SemelWorkerDown"]);
}

#[test]
fn a_replay_has_no_effect() {
    passes("replay", &["SemelReplayStorm"]);
}

#[test]
fn a_storm_is_noticed_and_holds_up_nothing() {
    passes("storm", &["SemelReplayStorm"]);
}

#[test]
fn a_window_that_is_long_enough_recognises_all() {
    passes("ttl", &[]);
}

#[test]
fn poison_is_kept_and_holds_up_nothing() {
    passes(
        "poison",
        &[
            "SemelDeadLettersGrowing",
            "SemelQuarantineGrowing",
            "SemelConflicts",
        ],
    );
}

#[test]
fn a_store_that_loses_fails_the_crash() {
    let site = Site::new();
    let loses = "rm -r \"$SEMEL_GAMEDAY_DIR/store\"";
    let broken = ["crash", "--break", loses, "--mend", "true", "--dir", "kept"];
    let (code, report) = played(&site, &broken);
    assert_eq!(code, 1, "{report}");
    assert!(
        failures(&report).contains(&"no effect happens twice".to_owned()),
        "{report}"
    );
    assert!(site.path("kept").join("second.log").exists());
}

#[test]
fn an_alert_without_a_runbook_fails_the_drill() {
    let rules = |expr: &str, runbook: &str| {
        format!(
            "groups:\n- name: a\n  rules:\n  - alert: SemelReplayStorm\n    expr: {expr}\n    for: 1m\n    labels: \
             {{severity: page}}\n    annotations: {{summary: \"{{{{ $labels.pipeline }}}}: a storm\"{runbook}}}\n"
        )
    };
    let site = Site::new();
    for (expr, runbook, missing) in [
        ("semel_storm == 1", "", Some("it names no runbook")),
        (
            "semel_storm == 1",
            ", runbook_url: page 7",
            Some("its runbook is no url"),
        ),
        (
            "vector(0)",
            ", runbook_url: https://example/storm",
            Some("it does not ask for what the worker shows"),
        ),
        (
            "semel_storm == 1",
            ", runbook_url: https://example/storm",
            None,
        ),
    ] {
        site.write("alerts.yml", rules(expr, runbook));
        let (code, report) = played(&site, &["replay", "--alerts", "alerts.yml"]);
        assert_eq!(code, i32::from(missing.is_some()), "{report}");
        let alert = &report["alerts"][0];
        assert_eq!(alert["missing"].as_str(), missing, "{report}");
        assert_eq!(alert["summary"], "drill: a storm");
        assert_eq!(alert["after"], "1m");
    }
    let (code, report) = played(&site, &["crash", "--alerts", "alerts.yml"]);
    assert_eq!(code, 1);
    let missing = &report["alerts"][0]["missing"];
    assert_eq!(missing, "the file has no alert of this name", "{report}");
}

#[test]
fn a_drill_plays_with_the_settings_of_a_pipeline_and_touches_nothing_of_it() {
    let config = "[store]\nurl = \"embedded:theirs\"\n[pipelines.\"pay-out\"]\nsource = { kind = \"file\", path = \"gone.ndjson\" }\n\
                  key = \"json:/id\"\nwindow = \"10m\"\neffect = { kind = \"file\", path = \"out.ndjson\" }\n\
                  [pipelines.other]\nsource = { kind = \"file\", path = \"gone.ndjson\" }\nkey = \"json:/id\"\n\
                  effect = { kind = \"file\", path = \"other.ndjson\" }\n";
    let site = Site::with(&[("semel.toml", config)]);
    let refused = site.semel(&["gameday", "replay", "--config", "semel.toml"]);
    refused.code(2).says("--pipeline NAME");
    let named = ["replay", "--config", "semel.toml", "--pipeline", "pay-out"];
    let (code, report) = played(&site, &named);
    assert_eq!((code, failures(&report)), (0, Vec::new()), "{report}");
    assert_eq!(report["pipeline"], "pay-out");
    assert_eq!(
        std::fs::read_dir(site.path("")).expect("a folder").count(),
        1
    );
}

#[test]
fn what_a_drill_cannot_play_is_refused() {
    let site = Site::with(&[("no.yml", "a: [")]);
    for (arguments, code, message) in [
        (&["crash", "--dir", "."][..], 2, "is not empty"),
        (&["crash", "--dir", "no.yml"], 2, "no.yml is no folder"),
        (&["crash", "--alerts", "no.yml"], 2, "no.yml: "),
        (&["crash", "--alerts", "none.yml"], 2, "none.yml"),
        (&["crash", "--mend", "true"], 2, "--break"),
        (&["crash", "--config", "none.toml"], 2, "none.toml"),
        (&["crash", "--store", "bogus"], 2, "--store: "),
        (&["crash", "--store", "memory:"], 2, "name another store"),
        (&["crash", "--break", "true"], 2, "--mend"),
        (
            &[
                "crash",
                "--break",
                "S=s3cret; echo no; exit 7",
                "--mend",
                "exit 8",
            ],
            3,
            "the command of --break failed with exit status: 7: no; what it printed is in",
        ),
        (
            &["crash", "--break", "false", "--mend", "exit 8"],
            3,
            "the store may still be broken",
        ),
        (
            &[
                "store-down",
                "--store",
                "sqlite:s.db",
                "--break",
                "true",
                "--mend",
                "true",
            ],
            3,
            "the store still answers",
        ),
        (
            &["store-down", "--store", "sqlite:s.db"],
            2,
            "--break and --mend",
        ),
        (
            &["store-down", "--break", "true", "--mend", "true"],
            2,
            "--store names",
        ),
        (
            &["storm", "--break", "true", "--mend", "true"],
            2,
            "breaks no store",
        ),
        (&["flood"], 2, "flood"),
    ] {
        let mut all = vec!["gameday"];
        all.extend(arguments);
        let ended = site.semel(&all);
        let ended = ended.code(code).says(message);
        assert_eq!(ended.stdout, "", "{arguments:?}");
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
    }
}

#[test]
fn a_drill_does_not_hear_of_what_configures_a_worker() {
    let site = Site::new();
    let theirs = format!("embedded:{}", site.path("theirs").display());
    let mut command = site.command();
    command
        .args(["gameday", "replay", "--output", "json"])
        .env("SEMEL__STORE__URL", theirs)
        .env("SEMEL__PIPELINES__PAY__OWNER", "team")
        .env("SEMEL__ADMIN__LISTEN", "127.0.0.1:1");
    let ended = Running::start(&mut command).wait().done();
    let report: Value = serde_json::from_str(&ended.stdout).expect("a report");
    assert_eq!(report["dir"], Value::Null, "nothing is left");
    let left = std::fs::read_dir(site.path("")).expect("a folder").count();
    assert_eq!(left, 0);
}

#[test]
fn drills_may_share_a_store() {
    let site = Site::new();
    for drill in ["replay", "poison", "replay"] {
        let (code, report) = played(&site, &[drill, "--store", "sqlite:drills.db"]);
        assert_eq!((code, failures(&report)), (0, Vec::new()), "{report}");
    }
    assert!(site.path("drills.db").exists());
}

#[test]
fn a_drill_expects_no_more_than_its_pipeline_promises() {
    let config = "[pipelines.pay]\nsource = { kind = \"file\", path = \"in\" }\nkey = \"json:/id\"\nfail = \"open\"\n\
                  retry = { attempts = 1 }\n[pipelines.pay.effect]\nkind = \"http\"\nurl = \"http://127.0.0.1:1/\"\n\
                  class = \"unkeyed\"\non_doubt = \"repeat\"\n";
    let site = Site::with(&[("semel.toml", config)]);
    for drill in ["crash", "poison"] {
        let (code, report) = played(&site, &[drill, "--config", "semel.toml"]);
        assert_eq!((code, failures(&report)), (0, Vec::new()), "{report}");
    }
}
