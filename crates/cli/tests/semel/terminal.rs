//! `semel` on a terminal: widths, colours, bars.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::site::{Site, lines};

const CONFIG: &str = "[store]\nurl = \"embedded:data\"\n[pipelines.payments]\n\
                      source = { kind = \"file\", path = \"in\" }\nkey = \"json:/id\"\n\
                      effect = { kind = \"file\", path = \"out\" }\n";

/// A store with a thousand keys of 60 columns each, some of them wide characters.
fn site() -> Site {
    let input = lines(0..1_000, |id| {
        format!("{{\"id\":\"{id:04}-{}支払い\"}}", "x".repeat(49))
    });
    let site = Site::with(&[("semel.toml", CONFIG), ("in", &input)]);
    site.semel(&["run"]).done();
    site
}

/// Makes a terminal with this many columns: our end, and the one for a process.
fn terminal(columns: u16) -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours)
        .and_then(|()| unlockpt(&ours))
        .expect("a terminal");
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size).expect("a terminal");
    let name = ptsname(&ours, Vec::new()).expect("its name");
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
    (ours.into(), theirs.expect("its other end").into())
}

fn semel(site: &Site, arguments: &[&str]) -> Command {
    let mut command = site.command();
    command.args(arguments).env("TERM", "xterm-256color");
    // `CI` forces colours even on a dumb terminal.
    for name in ["CI", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(name);
    }
    command
}

/// The output of a successful `semel` to a terminal that is its standard output, lines ended by LF.
fn shown(columns: u16, command: &mut Command) -> String {
    let (ours, theirs) = terminal(columns);
    let mut child = command
        .stdout(theirs)
        .stderr(Stdio::piped())
        .spawn()
        .expect("semel");
    // The command keeps handles of the other end; once they are gone, the last reader sees its end.
    command.stdout(Stdio::null());
    let text = read_terminal(ours);
    assert!(child.wait().expect("a child").success(), "{text}");
    text
}

/// Reads everything until no process has the other end any more, which a terminal reports as an error.
fn read_terminal(mut ours: File) -> String {
    let mut bytes = Vec::new();
    let mut block = [0; 4096];
    while let Ok(count @ 1..) = ours.read(&mut block) {
        bytes.extend_from_slice(&block[..count]);
    }
    String::from_utf8(bytes)
        .expect("text")
        .replace("\r\n", "\n")
}

/// The number of columns of text in a line: colours take none, and wide characters take two.
fn columns(line: &str) -> usize {
    let mut columns = 0;
    let mut is_escape = false;
    for c in line.chars() {
        match c {
            '\u{1b}' => is_escape = true,
            'm' if is_escape => is_escape = false,
            _ if is_escape => {}
            '支' | '払' | 'い' => columns += 2,
            _ => columns += 1,
        }
    }
    columns
}

#[test]
fn a_table_fits_the_terminal_and_stays_whole_in_a_pipe() {
    let site = site();
    for width in [80, 120] {
        let text = shown(width, &mut semel(&site, &["keys", "list"]));
        assert_eq!(text.lines().count(), 1_001);
        for line in text.lines() {
            assert!(columns(line) <= usize::from(width), "{width}: {line}");
        }
        assert!(text.contains('…'), "{text}");
    }
    let wide = shown(200, &mut semel(&site, &["keys", "list"]));
    assert!(!wide.contains('…'), "{wide}");
    let piped = site.semel(&["keys", "list"]).done().stdout;
    assert!(!piped.contains('…') && !piped.contains('\u{1b}'));
    assert_eq!(piped.matches("支払い").count(), 1_000);
    assert!(piped.lines().all(|line| !line.ends_with(' ')));
    let ends: Vec<_> = piped.lines().map(columns).collect();
    assert!(
        ends[1..].iter().all(|end| *end == ends[1]),
        "columns line up"
    );
}

#[test]
fn json_is_the_same_on_a_terminal() {
    let site = site();
    for output in ["json", "jsonl"] {
        let arguments = ["keys", "list", "--output", output];
        let text = shown(80, &mut semel(&site, &arguments));
        assert_eq!(text, site.semel(&arguments).done().stdout);
    }
}

#[test]
fn a_terminal_has_colours_unless_somebody_minds() {
    let site = site();
    let list = ["keys", "list", "--limit", "1"];
    let coloured = shown(120, &mut semel(&site, &list));
    assert!(
        coloured.contains("\u{1b}[32mcompleted\u{1b}[0m"),
        "{coloured}"
    );
    let plain = [
        shown(120, semel(&site, &list).env("NO_COLOR", "1")),
        shown(120, semel(&site, &list).env("TERM", "dumb")),
        shown(120, semel(&site, &list).args(["--color", "never"])),
    ];
    for text in plain {
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}

#[test]
fn a_run_shows_a_bar_where_standard_error_is_a_terminal() {
    let site = site();
    let (ours, theirs) = terminal(100);
    let mut command = semel(&site, &["run", "--output", "json"]);
    let child = command.stdout(Stdio::piped()).stderr(theirs).spawn();
    command.stderr(Stdio::null());
    let shown = read_terminal(ours);
    let output = child.expect("semel").wait_with_output().expect("a child");
    assert!(output.status.success(), "{shown}");
    assert!(
        shown.contains("100%") && shown.contains("applied of 1000"),
        "{shown}"
    );
    assert!(shown.contains("left"), "the time left: {shown}");
    let summary = String::from_utf8(output.stdout).expect("text");
    assert_eq!(summary.lines().count(), 1, "{summary}");
}

#[test]
fn a_reader_that_has_had_enough_ends_the_list_quietly() {
    let site = site();
    for output in ["table", "json", "jsonl"] {
        let mut child = semel(&site, &["keys", "list", "--output", output])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("semel");
        let mut first = [0; 10];
        let mut pipe = child.stdout.take().expect("a pipe");
        pipe.read_exact(&mut first).expect("a first line");
        drop(pipe);
        let ended = child.wait_with_output().expect("a child");
        assert_eq!(ended.status.code(), Some(0), "{output}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{output}");
    }
}
