//! `kind = "stdout"`: messages for the reader of the pipe, and no failure when the reader is gone.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::site::{Site, Summary, lines, read_all, wait_for};

fn config(on_doubt: &str) -> String {
    format!(
        "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\neffect = {{ kind = \"stdout\", on_doubt = \"{on_doubt}\" }}\nbatch = 100\n"
    )
}

#[test]
fn first_copies_are_printed_in_order_and_the_summary_comes_last() {
    let site = Site::with(&[
        ("semel.toml", &config("park")),
        ("in", "{\"id\":2}\r\n{\"id\":1}\n{\"id\":2}\r\n{\"id\": 3}"),
    ]);
    let ended = site.semel(&["run", "--output", "json"]).done();
    let (messages, summary) = ended
        .stdout
        .trim_end()
        .rsplit_once('\n')
        .expect("two parts");
    assert_eq!(messages, "{\"id\":2}\r\n{\"id\":1}\n{\"id\": 3}");
    Summary::read(summary).is(&[("applied", 3), ("replayed", 1)]);
}

#[test]
fn a_reader_that_has_had_enough_ends_the_run_quietly() {
    let lines: String = lines(0..20_000, |id| {
        format!("{{\"id\":{id},\"pad\":\"0123456789\"}}")
    });
    let site = Site::with(&[("semel.toml", &config("repeat")), ("in", &lines)]);
    let mut command = site.command();
    let mut child = command
        .arg("run")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("semel");
    let mut first = String::new();
    let mut reader = BufReader::with_capacity(256, child.stdout.take().expect("a pipe"));
    reader.read_line(&mut first).expect("a line");
    drop(reader);
    let stderr = read_all(child.stderr.take().expect("a pipe"));
    let status = child.wait().expect("a child");
    assert_eq!(
        (first.as_str(), status.code()),
        ("{\"id\":0,\"pad\":\"0123456789\"}\n", Some(0)),
        "{stderr}"
    );
    assert!(
        !stderr.to_lowercase().contains("error") && !stderr.contains("pipe"),
        "{stderr}"
    );

    // Nothing is lost: the next run prints every message that was not printed.
    let done: usize = site.rows(
        "s.db",
        "select count(*) from semel_operations where state = 'completed'",
    )[0]
    .parse()
    .expect("a count");
    assert!(done < 20_000, "{done}");
    let ended = site.semel(&["run", "--output", "json"]).done();
    let (messages, summary) = ended
        .stdout
        .trim_end()
        .rsplit_once('\n')
        .expect("two parts");
    Summary::read(summary).is(&[
        ("applied", messages.lines().count() as u64),
        ("replayed", done as u64),
    ]);
    assert_eq!(messages.lines().count() + done, 20_000);
}

#[test]
fn a_pipe_that_nobody_reads_does_not_hold_up_the_end() {
    let lines: String = lines(0..20_000, |id| format!("{{\"id\":{id}}}"));
    let config = format!("shutdown = \"200ms\"\n{}", config("repeat"));
    let site = Site::with(&[("semel.toml", &config), ("in", &lines)]);
    let mut child = site
        .command()
        .arg("run")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the semel binary");
    // The test keeps the pipe open and never reads, so that it fills up.
    let unread = child.stdout.take().expect("a pipe");
    std::thread::sleep(Duration::from_millis(700));
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(id.expect("a process id"), Signal::TERM).expect("it still runs");
    wait_for("the end of semel", || {
        child.try_wait().expect("a child").is_some()
    });
    assert!(child.wait().expect("a child").success());
    drop(unread);
}
