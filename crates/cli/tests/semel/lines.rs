//! The beginning and the end of a message: blank lines, byte order marks, CR, a last line without LF.

use crate::site::{Running, Site};

const STORES: [&str; 2] = ["sqlite:s.db", "embedded:data"];

fn config(store: &str, source: &str, key: &str) -> String {
    format!(
        "[store]\nurl = \"{store}\"\n[pipelines.p]\nsource = {{ kind = \"{source}\", {path} }}\n\
         key = \"{key}\"\nfingerprint = \"none\"\neffect = {{ kind = \"file\", path = \"out\" }}\n",
        path = "path = \"in\"",
    )
}

fn lines_config(store: &str) -> String {
    config(store, "file", "line").replace("path = \"in\" }", "path = \"in\", format = \"lines\" }")
}

#[test]
fn ndjson_skips_blank_lines_and_a_byte_order_mark() {
    for store in STORES {
        let site = Site::with(&[("semel.toml", &config(store, "file", "json:/id"))]);
        let input =
            "\u{FEFF}{\"id\":1}\n\n   \n\t\r\n{\"id\":2}\r\n{\"id\":2}\n not json\n{\"id\":3}";
        site.write("in", input);
        let ended = site.semel(&["run", "--output", "json"]).done();
        ended
            .summary()
            .is(&[("applied", 3), ("replayed", 1), ("quarantined", 1)]);
        assert!(
            ended.stderr.contains("quarantined in:7: "),
            "skipped lines count: {}",
            ended.stderr
        );
        // CR belongs to the line: the payload is passed on byte for byte.
        assert_eq!(site.text("out"), "{\"id\":1}\n{\"id\":2}\r\n{\"id\":3}\n");
    }
}

#[test]
fn an_empty_input_is_no_delivery() {
    for input in ["", "\n\n", "\u{FEFF}"] {
        for store in STORES {
            let site = Site::with(&[
                ("semel.toml", &config(store, "file", "json:/id")),
                ("in", input),
            ]);
            site.run().is(&[]);
            assert_eq!(site.text("out"), "");
        }
    }
}

#[test]
fn lines_are_messages_the_empty_one_too() {
    let long = "x".repeat(300);
    let near = format!("{}y", "x".repeat(299));
    let input = format!("a\n\nb\na\r\na\n\n{long}\n{near}\n{long}\n \n\u{FEFF}\nb");
    let once = format!("a\n\nb\na\r\n{long}\n{near}\n \n\u{FEFF}\n");
    for store in STORES {
        let site = Site::with(&[("semel.toml", &lines_config(store)), ("in", &input)]);
        site.run().is(&[("applied", 8), ("replayed", 4)]);
        assert_eq!(site.text("out"), once);
        site.run().is(&[("replayed", 12)]);
        assert_eq!(site.text("out"), once);
    }
}

#[test]
fn lines_may_be_any_bytes() {
    for store in STORES {
        let site = Site::with(&[("semel.toml", &lines_config(store))]);
        site.write("in", b"\xFF\xFE\n\x00\x01\n\xFF\xFE\n\xFF\n\x00\x01\n");
        site.run().is(&[("applied", 3), ("replayed", 2)]);
        let out = std::fs::read(site.path("out")).expect("an output");
        assert_eq!(out, b"\xFF\xFE\n\x00\x01\n\xFF\n");
    }
}

#[test]
fn standard_input_is_read_to_its_end() {
    let config = config("sqlite:s.db", "stdin", "json:/id").replace(", path = \"in\"", "");
    let site = Site::with(&[("semel.toml", &config)]);
    let mut command = site.command();
    command.args(["run", "--output", "json"]);
    let ended = Running::start_with(&mut command, "{\"id\":1}\n{\"id\":1}\n{\"id\":2}")
        .wait()
        .done();
    ended.summary().is(&[("applied", 2), ("replayed", 1)]);
    assert_eq!(site.text("out"), "{\"id\":1}\n{\"id\":2}\n");
}

#[test]
fn a_source_that_is_not_there_is_told() {
    let site = Site::with(&[("semel.toml", &config("sqlite:s.db", "file", "line"))]);
    let ended = site.semel(&["run"]).code(3);
    assert!(
        ended
            .stderr
            .contains("error: cannot open in: there is no such file [source-unavailable]"),
        "{}",
        ended.stderr
    );
    std::fs::create_dir(site.path("in")).expect("a folder");
    site.semel(&["run"])
        .code(3)
        .says("it is a folder, not a file [source-unavailable]");
}
