//! `config show`: the settings that apply, for people and for programs.

use serde_json::Value;

use super::pipeline;
use crate::site::{Running, Site};

#[test]
fn a_file_may_be_named_without_its_option() {
    let site = Site::with(&[("other.toml", &pipeline(""))]);
    let check = site.semel(&["config", "check", "other.toml"]).done();
    assert!(check.stdout.starts_with("other.toml: ok"), "{check:?}");
    let show = site.semel(&["config", "show", "other.toml", "--origin"]);
    let show = show.done().stdout;
    assert!(show.contains("# other.toml:"), "{show}");
    for verb in ["check", "show"] {
        let both = ["config", verb, "a.toml", "--config", "b.toml"];
        site.semel(&both).code(2).says("Usage:");
        site.semel(&["config", verb, "--outptu", "json"])
            .code(2)
            .says("--output");
        let help = site.semel(&["config", verb, "--help"]).done().stdout;
        assert!(help.contains("Example:\n  semel config "), "{help}");
    }
}

#[test]
fn what_is_known_of_a_provider_is_shown_and_loads_again() {
    let effect = "kind = \"http\", url = \"http://h/\", provider = \"stripe\"";
    let text = format!(
        "[pipelines.p]\neffect = {{ {effect} }}\nsource = {{ kind = \"stdin\" }}\nkey = \"line\"\n"
    );
    let site = Site::with(&[("semel.toml", &text)]);
    let shown = site.semel(&["config", "show"]).done().stdout;
    for line in [
        "class = \"keyed\"",
        "provider_window = \"1d\"",
        "decisive = \"402\"",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    site.write("again.toml", &shown);
    let again = site.semel(&["config", "show", "again.toml"]).done().stdout;
    assert_eq!(again, shown);
}

#[test]
fn faults_can_be_read_by_programs() {
    let site = Site::with(&[("semel.toml", "[pipelines.p]\nkye = \"line\"\n")]);
    let check = site.semel(&["config", "check", "--output", "json"]).code(1);
    let checked: Value = serde_json::from_str(&check.stdout).expect("JSON");
    assert_eq!(checked["valid"], false);
    let faults = checked["faults"].as_array().expect("a list");
    let unknown = faults
        .iter()
        .find(|fault| fault["code"] == "config-unknown-key");
    let unknown = unknown.expect("a misspelt key");
    assert_eq!(unknown["setting"], "pipelines.p.kye");
    assert_eq!(unknown["origin"], "semel.toml:2");
    assert_eq!(unknown["message"], "unknown setting; did you mean `key`?");
    site.write("semel.toml", pipeline(""));
    let sound = site.semel(&["config", "check", "--output", "jsonl"]).done();
    assert_eq!(sound.stdout, "{\"valid\":true,\"faults\":[]}\n");
}

#[test]
fn what_applies_is_shown_and_loads_again() {
    let site = Site::with(&[("semel.toml", &pipeline("shutdown = \"5s\"\n"))]);
    let mut command = site.command();
    let arguments = ["config", "show", "--store", "sqlite:x.db"];
    command
        .args(arguments)
        .env("SEMEL__PIPELINES__P__BATCH", "7");
    let shown = Running::start(&mut command).wait().done().stdout;
    assert!(shown.contains("shutdown = \"5s\"\n") && shown.contains("batch = 7\n"));
    site.write("again.toml", &shown);
    let again = site.semel(&["config", "show", "again.toml"]).done().stdout;
    assert_eq!(again, shown);
    let json = site.semel(&["config", "show", "again.toml", "--output", "json"]);
    let json: Value = serde_json::from_str(&json.done().stdout).expect("JSON");
    assert_eq!(json["settings"]["pipelines"]["p"]["batch"], 7);
    assert_eq!(json["settings"]["store"]["url"], "sqlite:x.db");
    assert_eq!(json["origins"], Value::Null, "only where it was asked for");
    site.write("semel.toml", "[pipelines]");
    let faulty = site.semel(&["config", "show"]).code(2);
    assert_eq!(faulty.stdout, "");
    faulty.says("error: semel.toml:1: pipelines: is missing");
}

#[test]
fn what_comes_from_a_file_of_secrets_is_not_shown() {
    let secret = "http://user:c4n4ry@127.0.0.1:1/?token=c4n4ry";
    let config = pipeline("[store]\nurl_file = \"store\"\n").replace(
        "kind = \"stdout\"",
        "kind = \"http\", url_file = \"charge\"",
    );
    let site = Site::with(&[
        ("semel.toml", &config),
        ("store", "sqlite:c4n4ry.db"),
        ("charge", secret),
    ]);
    for arguments in [
        &["config", "show", "--origin"][..],
        &["config", "show", "--output", "json", "--origin"],
    ] {
        let shown = site.semel(arguments).done();
        assert!(!shown.stdout.contains("c4n4ry"), "{}", shown.stdout);
        assert!(shown.stdout.contains("***"), "{}", shown.stdout);
    }
    let shown = site.semel(&["config", "show", "--origin"]).done().stdout;
    assert!(
        shown.contains("url_file = \"charge\"") && shown.contains("# url = \"***\""),
        "{shown}"
    );
    let check = site.semel(&["check"]);
    assert!(!check.stdout.contains("token=c4n4ry"), "{}", check.stdout);
    assert!(!check.stdout.contains("user:c4n4ry"), "{}", check.stdout);
}

#[test]
fn of_several_pipelines_one_can_be_shown() {
    let two = pipeline("") + &pipeline("").replace("pipelines.p", "pipelines.pq");
    let two = two.replacen("\"stdin\"", "\"file\", path = \"in\"", 1);
    let site = Site::with(&[("semel.toml", &two)]);
    let shown = site.semel(&["config", "show", "--pipeline", "p"]);
    let shown = shown.done().stdout;
    assert!(shown.contains("[pipelines.p.source]") && !shown.contains("pq"));
    let unknown = site.semel(&["config", "show", "--pipeline", "qp"]).code(2);
    unknown.says("there is no pipeline `qp`; known are p, pq");
}
