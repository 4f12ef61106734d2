//! Readers that close the pipe or do not read, and slow inputs.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{dedup, numbers, piped, printed};
use crate::site::{Site, Summary, read_all, wait_for};

fn signal(child: &std::process::Child, signal: Signal) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(id.expect("a process id"), signal).expect("it still runs");
}

#[test]
fn a_line_goes_out_as_soon_as_it_has_come() {
    for on_doubt in ["repeat", "park"] {
        let site = Site::new();
        let mut child = piped(&site, &["--on-doubt", on_doubt]);
        let mut input = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        for (line, once) in [("a\n", "a\n"), ("a\nb\n", "b\n"), ("c\n", "c\n")] {
            input.write_all(line.as_bytes()).expect("a reader");
            let mut printed = String::new();
            output.read_line(&mut printed).expect("a line");
            assert_eq!(printed, once);
        }
        drop(input);
        let stderr = read_all(child.stderr.take().expect("a pipe"));
        assert_eq!(
            (child.wait().expect("a child").code(), &*stderr),
            (Some(0), "")
        );
    }
}

#[test]
fn a_reader_that_has_had_enough_ends_the_run_quietly_and_loses_nothing() {
    let all = numbers(0..100_000);
    for on_doubt in ["repeat", "park"] {
        let site = Site::with(&[("in", &all)]);
        let mut child = piped(
            &site,
            &["--on-doubt", on_doubt, "--summary", "summary", "in"],
        );
        let mut first = String::new();
        let mut reader = BufReader::with_capacity(64, child.stdout.take().expect("a pipe"));
        reader.read_line(&mut first).expect("a line");
        drop(reader);
        let stderr = read_all(child.stderr.take().expect("a pipe"));
        assert_eq!(child.wait().expect("a child").code(), Some(0), "{stderr}");
        assert_eq!(first, "line 00000000\n");
        let told = Summary::read(site.text("summary").trim_end());
        let (done, doubted) = (told.count("applied"), told.count("in_doubt"));
        assert!(done + doubted < 100_000, "{told:?}");
        assert!(doubted + told.count("released") > 0, "{told:?}");

        // The next run prints every line that was not printed; lines that may have been printed are listed.
        let ended = dedup(&site, &["--on-doubt", on_doubt, "in"]).done();
        let rest = numbers(u32::try_from(done + doubted).expect("a count")..100_000);
        assert!(ended.stdout == rest, "{on_doubt}: {told:?}");
        if on_doubt == "repeat" {
            assert_eq!((doubted, &*stderr), (0, ""));
        } else {
            let arguments = ["in-doubt", "list", "--store", "embedded:.semel-dedup"];
            let listed = site.semel(&[&arguments[..], &["--output", "jsonl"]].concat());
            let listed = listed.done().stdout.lines().count();
            assert_eq!(listed as u64, doubted);
            // The reader may have closed the pipe just between two batches.
            assert_eq!(doubted > 0, stderr.contains("in doubt"), "{stderr}");
        }
    }
}

#[test]
fn what_lies_in_the_pipe_when_the_reader_goes_is_printed_by_the_next_run() {
    let all = numbers(0..1_000);
    let site = Site::with(&[("in", &all)]);
    let mut child = piped(&site, &["in"]);
    let mut reader = child.stdout.take().expect("a pipe");
    reader.read_exact(&mut [0; 14]).expect("a line");
    drop(reader);
    let stderr = read_all(child.stderr.take().expect("a pipe"));
    assert_eq!(
        (child.wait().expect("a child").code(), &*stderr),
        (Some(0), "")
    );
    // All lines fitted into the pipe, and nobody read most of them.
    assert!(printed(&site, &["in"]) == all.as_bytes());
}

#[test]
fn a_reader_that_never_comes_is_no_failure() {
    let site = Site::with(&[("in", "a\n")]);
    let mut child = piped(&site, &["in"]);
    drop(child.stdout.take());
    let stderr = read_all(child.stderr.take().expect("a pipe"));
    assert_eq!(
        (child.wait().expect("a child").code(), &*stderr),
        (Some(0), "")
    );
    assert_eq!(printed(&site, &["in"]), b"a\n");
}

#[test]
fn a_stop_finishes_the_batch() {
    for end in [Signal::TERM, Signal::INT] {
        let site = Site::new();
        let mut child = piped(&site, &["--to", "out", "--summary", "summary"]);
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"a\nb\na\n").expect("a reader");
        wait_for("two lines", || site.text("out") == "a\nb\n");
        signal(&child, end);
        let stderr = read_all(child.stderr.take().expect("a pipe"));
        assert_eq!(child.wait().expect("a child").code(), Some(0), "{stderr}");
        let told = Summary::read(site.text("summary").trim_end());
        assert_eq!(told.count("applied"), 2);
        drop(input);
    }
}

#[test]
fn a_pipe_that_nobody_reads_does_not_hold_up_the_end() {
    for on_doubt in ["repeat", "park"] {
        let site = Site::with(&[("in", &numbers(0..100_000))]);
        let mut child = piped(&site, &["--on-doubt", on_doubt, "in"]);
        // The test keeps the pipe open and reads no further, so that it fills up.
        let mut unread = child.stdout.take().expect("a pipe");
        let mut first = [0; 14];
        unread.read_exact(&mut first).expect("a line");
        signal(&child, Signal::TERM);
        wait_for("the end of semel", || {
            child.try_wait().expect("a child").is_some()
        });
        let stderr = read_all(child.stderr.take().expect("a pipe"));
        assert!(child.wait().expect("a child").success(), "{stderr}");
        drop(unread);
        let rest = dedup(&site, &["in"]).done().stdout;
        assert!(rest.ends_with("line 00099999\n"), "nothing is lost");
    }
}

#[test]
fn what_a_killed_run_may_have_printed_is_listed_and_not_printed_again() {
    let all = numbers(0..20_000);
    let site = Site::with(&[("in", &all)]);
    let mut child = piped(&site, &["--on-doubt", "park", "in"]);
    // The process has filled the pipe and waits in the middle of a batch.
    let mut first = [0; 14];
    let mut unread = child.stdout.take().expect("a pipe");
    unread.read_exact(&mut first).expect("a line");
    child.kill().expect("it still runs");
    child.wait().expect("a child");
    let mut before = String::from_utf8(first.to_vec()).expect("text");
    unread.read_to_string(&mut before).expect("what it printed");

    let arguments = ["--on-doubt", "park", "--summary", "summary", "in"];
    let after = dedup(&site, &arguments)
        .done()
        .says("in doubt, not printed");
    let told = Summary::read(site.text("summary").trim_end());
    let listed = site.semel(&[
        "in-doubt",
        "list",
        "--store",
        "embedded:.semel-dedup",
        "--output",
        "jsonl",
    ]);
    let listed = listed.done().stdout;
    assert_eq!(listed.lines().count() as u64, told.count("in_doubt"));
    let listed: BTreeSet<_> = listed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an item"))
        .map(|item| item["key"].as_str().expect("a key").to_owned())
        .collect();
    let [before, after] =
        [&before, &after.stdout].map(|text| text.lines().collect::<BTreeSet<_>>());
    for line in all.lines() {
        match (before.contains(line), after.contains(line)) {
            (true, true) => panic!("{line} was printed twice"),
            (false, false) => assert!(listed.contains(line), "{line} vanished"),
            (true, false) | (false, true) => {}
        }
    }
}

#[test]
fn a_named_pipe_is_waited_for() {
    let site = Site::new();
    let path = site.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo").success());
    let running = site.start(&["dedup", "fifo"]);
    std::fs::write(&path, "a\nb\na").expect("somebody reads");
    assert_eq!(running.wait().done().stdout, "a\nb\n");
}

#[test]
fn a_second_run_on_the_store_is_told_that_it_is_in_use() {
    let site = Site::with(&[("in", "a\n")]);
    let mut child = piped(&site, &[] as &[&str]);
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"a\n").expect("a reader");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    output.read_line(&mut String::new()).expect("a line");
    let refused = dedup(&site, &["in"]).code(3).says("[store-in-use]");
    assert_eq!(refused.stdout, "");
    drop(input);
    assert!(child.wait().expect("a child").success());
    assert_eq!(printed(&site, &["in"]), b"");
}

#[test]
fn a_second_run_on_the_file_is_told_that_it_is_in_use() {
    let site = Site::with(&[("in", "a\n")]);
    let mut child = piped(&site, &["--to", "out"]);
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"b\n").expect("a reader");
    wait_for("a line", || site.text("out") == "b\n");
    dedup(&site, &["--store", "embedded:other", "in", "--to", "out"])
        .code(3)
        .says("[target-in-use]");
    drop(input);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn a_store_that_is_taken_away_is_told() {
    let site = Site::new();
    let mut child = piped(&site, &[] as &[&str]);
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"a\n").expect("a reader");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    output.read_line(&mut String::new()).expect("a line");
    std::fs::remove_dir_all(site.path(".semel-dedup")).expect("a folder");
    // The process notices by itself, although no line arrives.
    let stderr = read_all(child.stderr.take().expect("a pipe"));
    assert_eq!(child.wait().expect("a child").code(), Some(3), "{stderr}");
    assert!(
        stderr.contains("was removed or replaced while it was in use"),
        "{stderr}"
    );
    drop(input);
}
