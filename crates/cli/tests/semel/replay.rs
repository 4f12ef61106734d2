//! `semel replay`: every message carries the id, and finished operations do not run again.

use crate::site::{Ended, Running, Site, lines};

fn site(more: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"sqlite:store.db\"\n[pipelines.pay]\nkey = \"json:/id\"\n{more}\n\
         source = {{ kind = \"file\", path = \"in\" }}\n\
         effect = {{ kind = \"exec\", command = [\"sh\", \"-c\", \"echo $SEMEL_KEY >> out\"] }}\n"
    );
    let site = Site::with(&[("semel.toml", &config), ("in", &messages(0..3))]);
    site.semel(&["run"]).done();
    assert_eq!(site.sorted_lines("out"), ["pay-0", "pay-1", "pay-2"]);
    site
}

fn messages(ids: std::ops::Range<u32>) -> String {
    lines(ids, |id| format!("{{\"id\":\"pay-{id}\"}}"))
}

fn replayed(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(ended.stdout.trim_end()).expect("JSON")
}

#[test]
fn what_was_done_is_not_done_again_and_every_message_carries_the_id() {
    let site = site("");
    site.write("in", messages(0..5));
    let plan = site
        .semel(&["replay", "--id", "r 1", "--allow-expired"])
        .code(1);
    plan.says("file in, as r 1")
        .says("longer than 7d ago")
        .says("--allow-expired --yes");
    assert_eq!(site.sorted_lines("out").len(), 3, "nothing was changed");
    let log = ["--log", "json", "--log-level", "decisions"];
    let arguments = [
        &[
            "replay",
            "--id",
            "r 1",
            "--yes",
            "--allow-expired",
            "--output",
            "json",
        ],
        &log[..],
    ]
    .concat();
    let ended = site.semel(&arguments).done();
    let json = replayed(&ended);
    assert_eq!(json["replay_id"], "r 1");
    assert_eq!(
        (&json["applied"], &json["replayed"]),
        (&2.into(), &3.into())
    );
    assert_eq!(json["sent_again"], 5, "{json}");
    assert_eq!(site.sorted_lines("out").len(), 5);
    let decisions: Vec<serde_json::Value> = ended
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .filter(|line: &serde_json::Value| !line["key"].is_null())
        .collect();
    assert!(decisions.len() >= 5, "{ended:?}");
    assert!(
        decisions.iter().all(|it| it["replay_id"] == "r 1"),
        "{ended:?}"
    );
    // A live message has none.
    let ended = site
        .semel(&[&["run", "--output", "json"], &log[..]].concat())
        .done();
    assert!(!ended.stderr.contains("replay_id"), "{ended:?}");
    assert!(replayed(&ended)["sent_again"].is_null());
}

#[test]
fn a_file_or_standard_input_may_be_named_instead() {
    let site = site("");
    site.write("more", messages(2..4));
    let arguments = [
        "replay",
        "--id",
        "r",
        "--from",
        "more",
        "--yes",
        "--allow-expired",
        "--output",
        "json",
    ];
    let json = replayed(&site.semel(&arguments).done());
    assert_eq!(
        (&json["applied"], &json["replayed"]),
        (&1.into(), &1.into())
    );
    let mut command = site.command();
    command.args([
        "replay",
        "--id",
        "r",
        "--from",
        "-",
        "--yes",
        "--allow-expired",
        "--output",
        "json",
    ]);
    let ended = Running::start_with(&mut command, messages(3..5))
        .wait()
        .done();
    let json = replayed(&ended);
    assert_eq!(
        (&json["applied"], &json["replayed"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn what_may_be_forgotten_is_not_done_again_unless_that_is_accepted_by_name() {
    let no_age = site("");
    no_age.write("in", messages(0..5));
    for more in [&["--yes"][..], &[]] {
        let refused = no_age.semel(&[&["replay", "--id", "r"], more].concat());
        refused
            .code(2)
            .says("(7d)")
            .says("`birth`")
            .says("--allow-expired");
    }
    assert_eq!(no_age.sorted_lines("out").len(), 3, "nothing was done");

    let gated = site("");
    let config = gated.text("semel.toml");
    let key = "key = \"json:/id\"\n";
    let with_birth = config.replace(
        key,
        &format!("{key}birth = \"json:/at\"\nwindow = \"1h\"\n"),
    );
    gated.write("semel.toml", with_birth);
    gated.write("in", "{\"id\":\"old\",\"at\":\"2026-01-01T00:00:00Z\"}\n");
    let plan = gated.semel(&["replay", "--id", "r"]).code(1);
    plan.says("older than 1h").says("quarantined");
    let arguments = ["replay", "--id", "r", "--yes", "--output", "json"];
    let json = replayed(&gated.semel(&arguments).done());
    assert_eq!((&json["applied"], &json["too_old"]), (&0.into(), &1.into()));
    let accepted = [&arguments[..], &["--allow-expired"]].concat();
    let json = replayed(&gated.semel(&accepted).done());
    assert_eq!((&json["applied"], &json["too_old"]), (&1.into(), &0.into()));
    assert!(gated.sorted_lines("out").contains(&"old".to_owned()));
}

#[test]
fn an_effect_for_live_messages_alone_gets_none_of_it() {
    let site = site("live_only = true");
    site.write("in", messages(0..5));
    site.semel(&["replay", "--id", "r"])
        .code(1)
        .says("live_only");
    let arguments = ["replay", "--id", "r", "--yes", "--output", "json"];
    let json = replayed(&site.semel(&arguments).done());
    assert_eq!(
        (&json["applied"], &json["replayed"]),
        (&0.into(), &3.into())
    );
    assert_eq!(
        (&json["quarantined"], &json["suppressed"]),
        (&2.into(), &2.into())
    );
    assert_eq!(site.sorted_lines("out").len(), 3);
}

#[test]
fn what_cannot_be_replayed_is_refused_before_anything_begins() {
    let site = site("");
    for (arguments, code, words) in [
        (&["replay"][..], 2, "--id"),
        (&["replay", "--id", ""], 2, "printable"),
        (&["replay", "--id", "\u{fc}"], 2, "printable"),
        (
            &["replay", "--id", "r", "--newer-than", "1h"],
            2,
            "Kafka topic",
        ),
        (
            &["replay", "--id", "r", "--pipeline", "other", "--yes"],
            2,
            "other",
        ),
        (
            &[
                "replay",
                "--id",
                "r",
                "--from",
                "absent",
                "--allow-expired",
                "--yes",
            ],
            3,
            "absent",
        ),
    ] {
        site.semel(arguments).code(code).says(words);
    }
    let config = site.text("semel.toml");
    let other = config.replace("kind = \"file\", path = \"in\"", "kind = \"stdin\"");
    site.write("semel.toml", other);
    site.semel(&["replay", "--id", "r", "--allow-expired", "--yes"])
        .code(2)
        .says("--from FILE");
}
