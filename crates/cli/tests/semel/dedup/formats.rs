//! Fields with delimiters other than tabs, and CSV.

use super::{dedup, printed, summary};
use crate::site::Site;

#[test]
fn fields_lie_between_what_is_named() {
    for (delimiter, input, once) in [
        (",", "1,x,a\n2,x,b\n3,y\n", "1,x,a\n3,y\n"),
        ("\\t", "1\tx\n2\tx\n", "1\tx\n"),
        (" ", "1 x\n2 x\n3  x\n", "1 x\n"),
        ("whitespace", "1 x\n  2 \t x y\n", "1 x\n"),
        ("→", "1→x\n2→x\n", "1→x\n"),
        ("-", "1-x\n2-x\n", "1-x\n"),
    ] {
        for ephemeral in [&["--ephemeral"][..], &[]] {
            let site = Site::with(&[("in", input)]);
            let arguments = ["--key", "field:2", "--delimiter", delimiter, "in"];
            let ended = dedup(&site, &[ephemeral, &arguments].concat()).code(0);
            assert_eq!(ended.stdout, once, "{delimiter}");
        }
    }
}

#[test]
fn lines_none_of_which_has_a_key_end_with_1_and_say_why() {
    let site = Site::with(&[("in", "x 1\nx,1\n"), ("one", "{\"a\":1}\n")]);
    for ephemeral in [&["--ephemeral"][..], &[]] {
        let arguments = [ephemeral, &["--key", "field:2", "in"]].concat();
        let ended = dedup(&site, &arguments).code(1);
        let last = "error: none of 2 lines had a usable key: --key field:2; fields are between tabs, \
                    unless --delimiter or --csv says otherwise";
        assert_eq!(ended.stderr.lines().last(), Some(last));
        assert_eq!(ended.stdout, "");
        let arguments = [ephemeral, &["--key", "json:/id", "one"]].concat();
        dedup(&site, &arguments)
            .code(1)
            .says("error: the only line had no usable key: --key json:/id");
    }
    // A single line with a key is enough.
    dedup(&site, &["--key", "field:2", "--delimiter", " ", "in"]).code(0);
}

const PEOPLE: &str = "id,\"e-mail\",note\r\n\
                      1,a@x,\"two\r\nlines, \"\"so\"\"\"\r\n\
                      2,\"a@x\",again\r\n\
                      id,e-mail,note\r\n\
                      3,b@x,last";

#[test]
fn records_of_csv_go_by_a_column_and_the_header_goes_through_once() {
    let once = "id,\"e-mail\",note\r\n\
                1,a@x,\"two\r\nlines, \"\"so\"\"\"\r\n\
                id,e-mail,note\r\n\
                3,b@x,last";
    for ephemeral in [&["--ephemeral"][..], &[]] {
        for key in ["column:e-mail", "field:2"] {
            let site = Site::with(&[("in", PEOPLE)]);
            let arguments = [ephemeral, &["--csv", "--key", key, "in"]].concat();
            assert_eq!(printed(&site, &arguments), once.as_bytes(), "{arguments:?}");
        }
    }
}

#[test]
fn the_header_is_in_a_file_once_however_often_it_comes() {
    for store in super::STORES {
        let site = Site::with(&[("one", PEOPLE), ("two", "id,e-mail,note\n4,c@x,\n5,c@x,\n")]);
        let arguments = [
            "--store",
            store,
            "--csv",
            "--key",
            "column:e-mail",
            "--to",
            "out",
        ];
        for _ in 0..2 {
            printed(&site, &[&arguments[..], &["one"]].concat());
        }
        let told = summary(&site, &[&arguments[..], &["two"]].concat());
        told.is(&[("applied", 1), ("replayed", 1)]);
        let expected = "id,\"e-mail\",note\r\n\
                        1,a@x,\"two\r\nlines, \"\"so\"\"\"\r\n\
                        id,e-mail,note\r\n\
                        3,b@x,last\n\
                        4,c@x,\n";
        assert_eq!(site.text("out"), expected, "{store}");
    }
}

#[test]
fn csv_may_have_no_header_and_another_delimiter() {
    let site = Site::with(&[("in", "1;\"a;b\"\n2;\"a;b\"\n1;c\n"), ("none", "")]);
    let arguments = [
        "--csv",
        "--no-header",
        "--delimiter",
        ";",
        "--key",
        "field:2",
        "in",
    ];
    assert_eq!(printed(&site, &arguments), b"1;\"a;b\"\n1;c\n");
    assert_eq!(
        printed(&site, &["--csv", "--key", "column:id", "none"]),
        b""
    );
}

#[test]
fn records_without_a_key_are_kept_with_the_line_they_begin_on() {
    let site = Site::with(&[("in", "id,note\n1,\"a\nb\"\n,x\n\n2,\n")]);
    let arguments = [
        "--store",
        "sqlite:s.db",
        "--csv",
        "--key",
        "column:id",
        "in",
    ];
    summary(&site, &arguments).is(&[("applied", 2), ("quarantined", 2)]);
    let kept = "select reason, coordinates, payload from semel_parked order by coordinates";
    let kept = site.rows("s.db", kept);
    assert_eq!(kept, ["key-blank|in:4|,x", "key-missing|in:5|"]);
}

#[test]
fn what_does_not_go_together_is_told() {
    let site = Site::with(&[("in", "id,id,n\n1,2,3\n")]);
    for (arguments, words) in [
        (
            &["--key", "column:id"][..],
            "only --csv with a header names columns",
        ),
        (
            &["--csv", "--no-header", "--key", "column:id"],
            "only --csv with a header",
        ),
        (
            &["--csv", "--key", "column:x"],
            "the header has no such column; it has id, id, n",
        ),
        (
            &["--csv", "--key", "column:id"],
            "the header names it twice",
        ),
        (&["--csv", "--key", "json:/id"], "CSV is no JSON"),
        (
            &["--csv", "--delimiter", "whitespace"],
            "one ASCII character",
        ),
        (&["--delimiter", ","], "add --key field:N"),
        (&["--delimiter", ", "], "a delimiter is one character"),
        (
            &["--key", "column:"],
            "this selector is written column:NAME",
        ),
    ] {
        let arguments = [arguments, &["in"]].concat();
        let ended = dedup(&site, &arguments).code(2);
        assert!(ended.stderr.contains(words), "{arguments:?}: {ended:?}");
    }
    assert_eq!(super::files(&site), ["in"], "nothing was made");
}
