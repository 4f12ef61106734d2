//! Messages without a usable key: set aside whole, each with its reason, without harm to other messages.

use crate::site::{Site, lines};

const GOOD: &str = r#"{"id":"good","n":1}"#;

/// Lines that yield no usable key, with their reasons. `max_message` is 2 KiB.
fn unusable() -> Vec<(Vec<u8>, &'static str)> {
    let id = |value: &str| format!(r#"{{"id":{value},"n":1}}"#).into_bytes();
    let nested = |depth: usize| {
        // The object itself is the first level.
        let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
        format!(r#"{{"id":"nested","n":{open}{close}}}"#).into_bytes()
    };
    let mut lines = vec![
        (b"not json".to_vec(), "not-json"),
        (br#"{"id":"half""#.to_vec(), "not-json"),
        (b"{\"id\":\"latin \xFF\"}".to_vec(), "not-json"),
        (b"{\"id\":\"raw \x01\"}".to_vec(), "not-json"),
        (b"{\"id\":\"raw \x00\"}".to_vec(), "not-json"),
        (br#"{"id":"lone \ud800"}"#.to_vec(), "not-json"),
        (br#"{"id":NaN}"#.to_vec(), "not-json"),
        (id(r#""nul \u0000""#), "key-control-character"),
        (id(r#""line \u000a feed""#), "key-control-character"),
        (id(r#""delete \u007f""#), "key-control-character"),
        (br#"{"n":1}"#.to_vec(), "key-missing"),
        (br"[]".to_vec(), "key-missing"),
        (br#""text""#.to_vec(), "key-missing"),
        (id("null"), "key-null"),
        (id("true"), "key-not-scalar"),
        (id("[1]"), "key-not-scalar"),
        (id(r#"{"a":1}"#), "key-not-scalar"),
        (id(r#""""#), "key-blank"),
        (id(r#""  \u3000""#), "key-blank"),
        (id(&format!("\"{}\"", "k".repeat(1025))), "key-too-long"),
        (br#"{"id":"a","id":"a"}"#.to_vec(), "member-duplicated"),
        (br#"{"id":"a","\u0069d":"b"}"#.to_vec(), "member-duplicated"),
        (id("1e2000"), "number-too-long"),
        (id("1e-2000"), "number-too-long"),
        (nested(129), "nested-too-deep"),
        (
            id(&format!("\"big\",\"pad\":\"{}\"", "x".repeat(2049 - 27))),
            "message-too-large",
        ),
    ];
    for (line, reason) in &mut lines {
        if *reason == "message-too-large" {
            assert_eq!(line.len(), 2049);
        }
        assert!(!line.contains(&b'\n'));
    }
    lines
}

fn input() -> Vec<u8> {
    let mut input = Vec::new();
    for (line, _) in unusable() {
        input.extend_from_slice(&line);
        input.push(b'\n');
    }
    input.extend_from_slice(GOOD.as_bytes());
    input.push(b'\n');
    input
}

fn config(store: &str) -> String {
    format!(
        "[store]\nurl = \"{store}\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\nfingerprint = \"none\"\nmax_message = \"2KiB\"\n\
         effect = {{ kind = \"file\", path = \"out\" }}\n"
    )
}

/// Two runs over the same input; the second finds everything on record.
fn run(store: &str) -> Site {
    let site = Site::with(&[("semel.toml", &config(store))]);
    site.write("in", input());
    let count = unusable().len() as u64;
    site.run().is(&[("applied", 1), ("quarantined", count)]);
    site.run().is(&[("replayed", 1), ("quarantined", count)]);
    assert_eq!(site.text("out"), format!("{GOOD}\n"));
    site
}

#[test]
fn each_is_kept_whole_with_its_reason_in_sqlite() {
    let site = run("sqlite:s.db");
    let database = site.database("s.db");
    let mut statement = database
        .prepare("select payload, reason, coordinates from semel_parked order by seq")
        .expect("a statement");
    let parked: Vec<(Vec<u8>, String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .and_then(Iterator::collect)
        .expect("rows");
    let expected: Vec<_> = unusable()
        .into_iter()
        .enumerate()
        .map(|(index, (line, reason))| (line, reason.to_owned(), format!("in:{}", index + 1)))
        .collect();
    assert_eq!(parked.len(), expected.len(), "a rerun adds none");
    for (parked, expected) in parked.into_iter().zip(expected) {
        assert_eq!(parked, expected, "{}", String::from_utf8_lossy(&expected.0));
    }
}

#[test]
fn each_is_kept_whole_with_its_reason_in_the_embedded_store() {
    let site = run("embedded:data");
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(site.path("data")).expect("a folder") {
        kept.extend(std::fs::read(entry.expect("an entry").path()).unwrap_or_default());
    }
    let has = |what: &[u8]| kept.windows(what.len()).any(|window| window == what);
    for (line, reason) in unusable() {
        assert!(has(&line), "{}", String::from_utf8_lossy(&line));
        assert!(has(reason.as_bytes()), "{reason}");
    }
}

#[test]
fn the_limits_themselves_are_within() {
    let depth = |depth: usize| format!("{}{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    let lines = [
        format!(r#"{{"id":"nested","n":{}}}"#, depth(128)),
        format!(r#"{{"id":"{}"}}"#, "k".repeat(1024)),
        format!(r#"{{"id":"big","pad":"{}"}}"#, "x".repeat(2048 - 21)),
        r#"{"id":1e999}"#.to_owned(),
        // The member occurs twice, but on no selected path.
        r#"{"id":"twice","n":1,"n":2}"#.to_owned(),
        r#"{"id":"deeper","n":{"id":1,"id":2}}"#.to_owned(),
    ];
    assert_eq!(lines[2].len(), 2048);
    let expected = lines.join("\n") + "\n";
    for store in ["sqlite:s.db", "embedded:data"] {
        let site = Site::with(&[("semel.toml", &config(store)), ("in", &expected)]);
        site.run().is(&[("applied", 6)]);
        assert_eq!(site.text("out"), expected);
    }
}

#[test]
fn a_member_that_comes_twice_counts_on_the_path_of_key_and_fingerprint_alone() {
    for (fingerprint, quarantined) in [
        ("fingerprint = \"none\"", 0),
        ("fingerprint = [\"json:/amount\"]", 0),
        ("fingerprint = [\"json:/n\"]", 1),
        ("", 1),
    ] {
        let config = config("sqlite:s.db").replace("fingerprint = \"none\"", fingerprint);
        let site = Site::with(&[
            ("semel.toml", &config),
            ("in", "{\"id\":\"a\",\"amount\":1,\"n\":1,\"n\":2}\n"),
        ]);
        site.run()
            .is(&[("applied", 1 - quarantined), ("quarantined", quarantined)]);
        let reasons = site.rows("s.db", "select reason from semel_parked");
        let expected = if quarantined == 1 {
            vec!["member-duplicated"]
        } else {
            vec![]
        };
        assert_eq!(reasons, expected, "{fingerprint}");
    }
}

#[test]
fn what_is_told_of_them_is_bounded_and_without_their_payload() {
    let lines: String = lines(0..50, |index| format!("s3cr3t {index}"));
    let site = Site::with(&[("semel.toml", &config("sqlite:s.db")), ("in", &lines)]);
    let ended = site
        .semel(&["run"])
        .done()
        .says("p: quarantined in:1: the payload is not JSON")
        .says("[not-json]");
    assert!(
        !ended.stderr.contains("s3cr3t") && !ended.stdout.contains("s3cr3t"),
        "{ended:#?}"
    );
    assert_eq!(
        ended.stderr.matches("quarantined in:").count(),
        10,
        "{}",
        ended.stderr
    );
    assert!(
        ended
            .stderr
            .contains("p: quarantined more; the summary counts them")
    );
    assert!(
        ended.stdout.contains("quarantined        50"),
        "{}",
        ended.stdout
    );
}

#[test]
fn of_a_message_beyond_all_memory_the_beginning_is_kept_and_its_length() {
    let line = format!("{{\"id\":\"{}\"}}", "x".repeat(300_000));
    for end in ["", "\n", "\n{\"id\":\"next\"}\n"] {
        let site = Site::with(&[
            ("semel.toml", &config("sqlite:s.db")),
            ("in", &(line.clone() + end)),
        ]);
        site.run()
            .is(&[("applied", u64::from(end.len() > 1)), ("quarantined", 1)]);
        let parked = site.rows(
            "s.db",
            "select reason, detail, length(payload), coordinates from semel_parked",
        );
        let expected =
            "message-too-large|the message has 300009 bytes, over the 2048 allowed|65536|in:1";
        assert_eq!(parked, [expected]);
    }
}

#[test]
fn every_reason_can_be_explained() {
    let site = Site::new();
    let mut reasons: Vec<_> = unusable().into_iter().map(|(_, reason)| reason).collect();
    reasons.dedup();
    for reason in reasons {
        let page = site.semel(&["explain", reason]).done();
        assert!(page.stdout.contains(reason), "{reason}");
    }
}
