//! `semel dedup` without memory beyond the run, and the options of `uniq`.

use std::io::{BufRead, BufReader, Read, Write};

use super::{dedup, files, numbers, piped, printed, summary};
use crate::site::{Running, Site};

const INPUT: &str = "b\na\nb\nc\na\nb\nlast";

#[test]
fn first_lines_are_printed_and_nothing_is_kept() {
    let site = Site::with(&[("in", INPUT)]);
    for _ in 0..2 {
        assert_eq!(printed(&site, &["--ephemeral", "in"]), b"b\na\nc\nlast");
    }
    let mut command = site.command();
    command.env("SEMEL__STORE__URL", "sqlite:s.db");
    let ended = Running::start_with(command.args(["dedup", "--ephemeral"]), INPUT).wait();
    assert_eq!(ended.done().stdout, "b\na\nc\nlast");
    assert_eq!(files(&site), ["in"]);
}

#[test]
fn repeated_unique_and_counted_lines_are_shown_as_uniq_does() {
    let site = Site::with(&[("in", INPUT)]);
    for (options, expected) in [
        (&["-d"][..], "b\na\n"),
        (&["-u"], "c\nlast\n"),
        (&["-c"], "      3 b\n      2 a\n      1 c\n      1 last\n"),
        (&["-cd"], "      3 b\n      2 a\n"),
        (&["-cu"], "      1 c\n      1 last\n"),
        (&["--ephemeral", "--repeated"], "b\na\n"),
    ] {
        let arguments = [options, &["in"]].concat();
        assert_eq!(
            printed(&site, &arguments),
            expected.as_bytes(),
            "{options:?}"
        );
    }
    assert_eq!(files(&site), ["in"]);
}

#[test]
fn the_summary_counts_printed_lines_and_others() {
    let site = Site::with(&[("in", "1\ta\n2\ta\nnone\n3\tb\n")]);
    let arguments = [
        "--ephemeral",
        "--key",
        "field:2",
        "--summary",
        "s.json",
        "in",
    ];
    let ended = dedup(&site, &arguments).code(0);
    let said =
        "dedup: 1 line without a usable key left out, the first in:3: the message has no field:2\n";
    assert_eq!((&*ended.stdout, &*ended.stderr), ("1\ta\n3\tb\n", said));
    let told = crate::site::Summary::read(site.text("s.json").trim_end());
    told.is(&[("applied", 2), ("replayed", 1), ("quarantined", 1)]);
    summary(&site, &["-u", "in"]).is(&[("applied", 4)]);
}

#[test]
fn what_remembers_and_what_does_not_is_not_mixed() {
    let site = Site::with(&[("in", INPUT)]);
    for arguments in [
        &["--ephemeral", "--to", "out"][..],
        &["--ephemeral", "--store", "sqlite:s.db"],
        &["--ephemeral", "--window", "1h"],
        &["-c", "--pipeline", "mine"],
        &["-d", "--config", "semel.toml"],
        &["-d", "-u"],
        &["-c", "--csv"],
    ] {
        let arguments = [arguments, &["in"]].concat();
        let ended = dedup(&site, &arguments).code(2);
        assert!(ended.stderr.contains("cannot be used with"), "{ended:?}");
    }
    assert_eq!(files(&site), ["in"]);
}

#[test]
fn the_input_itself_is_no_output() {
    let site = Site::with(&[("in", INPUT)]);
    let append = std::fs::OpenOptions::new()
        .append(true)
        .open(site.path("in"));
    let mut command = site.command();
    let command = command.args(["dedup", "--ephemeral", "in"]);
    let ended = command.stdout(append.expect("a file")).output();
    let ended = ended.expect("the semel binary");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("[same-file]"), "{said}");
    assert_eq!(site.text("in"), INPUT);
}

#[test]
fn a_slow_input_is_passed_on_line_by_line_and_a_reader_may_go() {
    let site = Site::new();
    let mut child = piped(&site, &["--ephemeral"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    for line in ["one\n", "two\n"] {
        stdin.write_all(line.as_bytes()).expect("a reader");
        let mut read = String::new();
        stdout.read_line(&mut read).expect("a line");
        assert_eq!(read, line);
    }
    drop(stdout);
    // The process may end before it has read everything.
    let _ = stdin.write_all(numbers(0..100_000).as_bytes());
    drop(stdin);
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut said).expect("text");
    assert_eq!(
        (child.wait().expect("an end").code(), &*said),
        (Some(0), "")
    );
}
