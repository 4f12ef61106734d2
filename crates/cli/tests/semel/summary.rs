//! The summary at the end of a run.

use std::process::Stdio;

use crate::site::{Site, Summary, read_all};

const CONFIG: &str = r#"
[store]
url = "sqlite:s.db"

[pipelines.payments]
source = { kind = "file", path = "in" }
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
effect = { kind = "file", path = "out" }
"#;

/// One message that is applied, one redelivered, two published again, one conflict, one without a key.
const INPUT: &str = r#"{"id":1,"event":"a","amount":5}
{"id":1,"event":"a","amount":5}
{"id":1,"event":"b","amount":5}
{"id":1,"event":"c","amount":5.0}
{"id":1,"event":"d","amount":6}
{"event":"e","amount":5}
"#;

#[test]
fn json_has_these_members_in_this_order() {
    let site = Site::with(&[("semel.toml", CONFIG), ("in", INPUT)]);
    for output in ["json", "jsonl"] {
        let line = site.semel(&["run", "--output", output]).done().stdout;
        let (applied, replayed) = if output == "json" { (1, 3) } else { (0, 4) };
        let (stable, elapsed) = line
            .split_once(",\"elapsed_seconds\":")
            .expect("the last member");
        assert_eq!(
            stable,
            format!(
                "{{\"pipeline\":\"payments\",\"deliveries\":6,\"applied\":{applied},\"replayed\":{replayed},\
                 \"stale\":0,\"conflicts\":1,\"too_old\":0,\"released\":0,\"dead\":0,\"in_doubt\":0,\
                 \"quarantined\":1,\"takeovers\":0"
            )
        );
        let elapsed: f64 = elapsed
            .strip_suffix("}\n")
            .and_then(|text| text.parse().ok())
            .expect("seconds");
        assert!((0.0..60.0).contains(&elapsed), "{elapsed}");
    }
}

#[test]
fn people_are_told_redelivered_from_published_again() {
    let site = Site::with(&[("semel.toml", CONFIG), ("in", INPUT)]);
    let ended = site.semel(&["run"]).done();
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert!(
        lines[0].starts_with("payments: 6 deliveries in "),
        "{lines:?}"
    );
    assert_eq!(
        lines[1..],
        [
            "  applied             1  effects that happened in this run",
            "  replayed            3  duplicates of something finished: 1 redelivered, 2 published again",
            "  conflicts           1  a key used for another request; in quarantine",
            "  quarantined         1  no usable key; in quarantine",
        ]
    );
    assert!(
        ended.stderr.contains(
            "payments: transactional (exactly once), window 7d, age gate: off (no `birth`; "
        ),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains(
        "quarantined in:5: the key was used with another request: json:/amount differs [fingerprint-conflict]"
    ));
    assert!(
        !ended.stderr.contains('\u{1b}'),
        "no colours and no bar where there is no terminal"
    );
}

#[test]
fn a_run_goes_on_when_nobody_listens_to_what_it_says() {
    let site = Site::with(&[("semel.toml", CONFIG), ("in", INPUT)]);
    let mut command = site.command();
    command
        .args(["run", "--output", "json"])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("semel");
    drop(child.stderr.take());
    let summary = read_all(child.stdout.take().expect("a pipe"));
    assert_eq!(child.wait().expect("a child").code(), Some(0));
    Summary::read(summary.trim_end()).is(&[
        ("applied", 1),
        ("replayed", 3),
        ("conflicts", 1),
        ("quarantined", 1),
    ]);
}

#[test]
fn a_conflict_is_kept_whole_and_the_first_result_untouched() {
    let site = Site::with(&[("semel.toml", CONFIG), ("in", INPUT)]);
    site.run().is(&[
        ("applied", 1),
        ("replayed", 3),
        ("conflicts", 1),
        ("quarantined", 1),
    ]);
    assert_eq!(
        site.text("out"),
        "{\"id\":1,\"event\":\"a\",\"amount\":5}\n"
    );
    assert_eq!(
        site.rows(
            "s.db",
            "select reason, coordinates, key, payload from semel_parked order by reason"
        ),
        [
            "fingerprint-conflict|in:5|json:1|{\"id\":1,\"event\":\"d\",\"amount\":6}",
            "key-missing|in:6|NULL|{\"event\":\"e\",\"amount\":5}",
        ]
    );
    assert_eq!(
        site.rows("s.db", "select state, attempts from semel_operations"),
        ["completed|1"]
    );
}
