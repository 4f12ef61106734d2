//! Equality of keys: strings and numbers by their value, never through a double.

use crate::site::{Site, Summary};

fn run(key: &str, lines: &[&str]) -> (Site, Summary) {
    let config = format!(
        "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = {key}\nfingerprint = \"none\"\neffect = {{ kind = \"file\", path = \"out\" }}\n"
    );
    let site = Site::with(&[("semel.toml", &config), ("in", &(lines.join("\n") + "\n"))]);
    let summary = site.run();
    (site, summary)
}

#[track_caller]
fn distinct(lines: &[&str], expected: u64) {
    let (_, summary) = run("\"json:/id\"", lines);
    summary.is(&[
        ("applied", expected),
        ("replayed", lines.len() as u64 - expected),
    ]);
}

#[test]
fn a_number_and_a_string_differ() {
    distinct(
        &[
            r#"{"id":1}"#,
            r#"{"id":"1"}"#,
            r#"{"id":"json:1"}"#,
            r#"{"id":"\"1\""}"#,
        ],
        4,
    );
}

#[test]
fn numbers_count_by_value() {
    distinct(
        &[
            r#"{"id":1}"#,
            r#"{"id":1.0}"#,
            r#"{"id":10e-1}"#,
            r#"{"id":0.1E1}"#,
            r#"{"id":1.000e+0}"#,
        ],
        1,
    );
    distinct(&[r#"{"id":0}"#, r#"{"id":-0}"#, r#"{"id":0.0e9}"#], 1);
    distinct(
        &[
            r#"{"id":1}"#,
            r#"{"id":-1}"#,
            r#"{"id":1.0000000000000000001}"#,
        ],
        3,
    );
}

#[test]
fn neighbours_beyond_doubles_differ() {
    distinct(
        &[
            r#"{"id":9007199254740992}"#,
            r#"{"id":9007199254740993}"#,
            r#"{"id":18446744073709551615}"#,
            r#"{"id":18446744073709551616}"#,
            r#"{"id":0.1}"#,
            r#"{"id":0.1000000000000000055511151231257827}"#,
        ],
        6,
    );
}

#[test]
fn strings_count_by_their_characters() {
    distinct(
        &[
            r#"{"id":"caf\u00e9"}"#,
            r#"{"id":"café"}"#,
            r#"{ "id" : "caf\u00E9" }"#,
        ],
        1,
    );
    distinct(
        &[
            r#"{"id":"cafe"}"#,
            r#"{"id":"Cafe"}"#,
            r#"{"id":"cafe "}"#,
            r#"{"id":"café"}"#,
            // The letter e and a combining accent are another text.
            r#"{"id":"cafe\u0301"}"#,
        ],
        5,
    );
}

#[test]
fn joined_parts_never_meet() {
    let lines = [
        r#"{"a":"x","b":"y:z"}"#,
        r#"{"a":"x:y","b":"z"}"#,
        r#"{"a":"x\",\"y","b":"z"}"#,
        r#"{"a":1,"b":"2"}"#,
        r#"{"a":"1","b":2}"#,
        r#"{"a":1.0,"b":"2"}"#,
    ];
    let (_, summary) = run(r#"["json:/a", "json:/b"]"#, &lines);
    summary.is(&[("applied", 5), ("replayed", 1)]);
}

#[test]
fn a_record_shows_its_key_as_people_write_it() {
    let (site, _) = run(
        "\"json:/id\"",
        &[r#"{"id":"pay-1"}"#, r#"{"id":1.50}"#, r#"{"id":"json:1"}"#],
    );
    let mut keys = site.rows("s.db", "select key from semel_operations");
    keys.sort_unstable();
    assert_eq!(keys, ["json:\"json:1\"", "json:1.5", "pay-1"]);
}

#[test]
fn two_pipelines_do_not_share_keys() {
    let pipeline = |name: &str| {
        format!(
            "[pipelines.{name}]\nsource = {{ kind = \"file\", path = \"in\" }}\nkey = \"json:/id\"\n\
             effect = {{ kind = \"file\", path = \"{name}.out\" }}\n"
        )
    };
    for store in ["sqlite:s.db", "embedded:data"] {
        let config = format!(
            "[store]\nurl = \"{store}\"\n{}{}",
            pipeline("one"),
            pipeline("two")
        );
        let site = Site::with(&[("semel.toml", &config), ("in", "{\"id\":1}\n{\"id\":1}\n")]);
        let ended = site.semel(&["run", "--output", "json"]).done();
        let summaries: Vec<_> = ended.stdout.lines().map(Summary::read).collect();
        assert_eq!(summaries.len(), 2);
        for summary in summaries {
            summary.is(&[("applied", 1), ("replayed", 1)]);
        }
    }
}
