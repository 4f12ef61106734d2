//! `semel gameday`: each drill passes where all is well, and fails where something was set up wrongly.

use serde_json::Value;

use crate::site::Site;

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
    let (code, report) = played(&site, &["crash", "--break", loses, "--dir", "kept"]);
    assert_eq!(code, 1, "{report}");
    assert!(
        failures(&report).contains(&"no effect happens twice".to_owned()),
        "{report}"
    );
    assert!(site.path("kept").join("second.log").exists());
}

#[test]
fn an_alert_without_a_runbook_fails_the_drill() {
    let rules = "groups:\n- name: a\n  rules:\n  - alert: SemelReplayStorm\n    expr: semel_storm == 1\n    labels: \
                 {severity: page}\n    annotations: {summary: \"{{ $labels.pipeline }}: a storm\"}\n";
    let site = Site::with(&[("alerts.yml", rules)]);
    let (code, report) = played(&site, &["replay", "--alerts", "alerts.yml"]);
    assert_eq!(code, 1, "{report}");
    let expected = "\"SemelReplayStorm\": \"it names no runbook\"";
    assert_eq!(failures(&report), [expected], "{report}");
    assert_eq!(report["alerts"][0]["summary"], "drill: a storm");
    let (code, report) = played(&site, &["crash", "--alerts", "alerts.yml"]);
    assert_eq!(code, 1);
    let expected = "\"SemelWorkerDown\": \"there is no such alert\"";
    assert_eq!(failures(&report)[0], expected, "{report}");
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
    for (arguments, message) in [
        (&["crash", "--dir", "."][..], "is not empty"),
        (&["crash", "--dir", "no.yml"], "no.yml"),
        (&["crash", "--alerts", "no.yml"], "no.yml: "),
        (&["crash", "--alerts", "none.yml"], "none.yml"),
        (&["crash", "--mend", "true"], "--break"),
        (&["crash", "--config", "none.toml"], "none.toml"),
        (
            &["store-down", "--store", "sqlite:s.db"],
            "--break and --mend",
        ),
        (&["flood"], "flood"),
    ] {
        let mut all = vec!["gameday"];
        all.extend(arguments);
        let ended = site.semel(&all);
        assert!(
            matches!(ended.status.code(), Some(2 | 3)),
            "{arguments:?}: {ended:?}"
        );
        assert!(ended.stderr.contains(message), "{arguments:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
}
