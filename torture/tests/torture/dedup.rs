//! `semel dedup` under `kill -9` at random moments. The oracle is the input itself: the first line of
//! each key.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::Connection;
use torture::{LineKey, Lines, Moments, Run, Site, Summary, scaled, tell};

const MS: fn(u64) -> Duration = Duration::from_millis;
const EMBEDDED: &str = "embedded:data";
const SQLITE: &str = "sqlite:s.db";

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_killed_dedup_leaves_each_first_line_in_the_file_exactly_once() {
    let mut moments = Moments::seeded(31);
    for key in [LineKey::Line, LineKey::JsonId] {
        let kills = scaled(15, 60);
        exact(EMBEDDED, key, kills, 200_000, MS(400), &mut moments);
    }
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_killed_dedup_over_sqlite_leaves_each_first_line_in_the_file_exactly_once() {
    let mut moments = Moments::seeded(32);
    for key in [LineKey::Line, LineKey::JsonId] {
        let kills = scaled(8, 20);
        exact(SQLITE, key, kills, 60_000, MS(600), &mut moments);
    }
}

/// Kills until `kills` have hit a run at work, over as many inputs as that takes.
fn exact(
    store: &str,
    key: LineKey,
    kills: u32,
    count: u64,
    longest: Duration,
    moments: &mut Moments,
) {
    let (mut struck, mut inputs, mut midway, mut deliveries) = (0, 0, 0, 0);
    while struck < kills {
        inputs += 1;
        let lines = Lines::generate(count, key, moments);
        deliveries += lines.deliveries;
        let (site, file) = (site(&lines), lines.file());
        loop {
            let run = start(&site, store, key, &["--to", "out"]);
            let is_struck = if moments.below(2) == 0 {
                run.kill_after(moments.between(MS(1), longest))
            } else {
                // As soon as a batch is out, so that it may not be recorded yet.
                let len = || std::fs::metadata(site.path("out")).map_or(0, |file| file.len());
                let most = file.len() as u64;
                let enough = len() + moments.below(most.saturating_sub(len()) + 1);
                run.kill_when(|| len() > enough)
            };
            let left = std::fs::read(site.path("out")).unwrap_or_default();
            // Never anything but first lines in order; unrecorded lines are cut off later.
            assert!(file.starts_with(&left), "the file went wrong");
            if !is_struck {
                break;
            }
            struck += 1;
            midway += u32::from(!left.is_empty() && left.len() < file.len());
            if struck == kills {
                break;
            }
        }
        let summary = to_the_end(&site, store, key, &["--to", "out"]);
        summary.check_sum(lines.deliveries);
        assert_eq!(summary.count("quarantined"), lines.unusable);
        let left = std::fs::read(site.path("out")).expect("a file");
        assert!(left == file, "not exactly the first lines");
        if store == SQLITE {
            let database = Connection::open(site.path("s.db")).expect("a database");
            let kept = "select count(*) from semel_parked";
            let kept: u32 = database
                .query_row(kept, [], |row| row.get(0))
                .expect("rows");
            assert_eq!(u64::from(kept), lines.unusable, "each kept once");
        }
    }
    println!("{store}, {key:?}: {struck} kills over {inputs} inputs, {midway} between two lines");
    assert!(midway * 8 > kills, "hardly a kill struck in the middle");
    let kept_in = if store == SQLITE {
        "SQLite"
    } else {
        "embedded"
    };
    let figures = [
        ("operations", deliveries),
        ("workers killed", struck.into()),
    ];
    tell(&format!("lines, {kept_in}"), &figures);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_killed_dedup_to_a_pipe_repeats_only_lines_of_its_last_batch() {
    let mut moments = Moments::seeded(33);
    let (mut struck, mut repeated) = (0, 0);
    while struck < 40 {
        let lines = Lines::generate(200_000, LineKey::Line, &mut moments);
        let site = site(&lines);
        // The number of lines that are out, whole.
        let mut reached = 0;
        loop {
            let (is_struck, printed) = run_printing(&site, "repeat", &mut moments);
            let (from, to, rest) = place(&lines, &printed, 0);
            if let Some(from) = from {
                assert!(from <= reached, "{} lines vanished", from - reached);
                assert!(
                    reached - from <= MOST_LINES,
                    "more than a batch was repeated"
                );
                repeated += reached - from;
                reached = to;
            }
            if !is_struck {
                assert_eq!((reached, rest), (lines.once.len(), 0));
                break;
            }
            struck += 1;
        }
    }
    println!("repeat: {struck} kills, {repeated} lines printed again");
    assert!(repeated > 0, "no kill struck between print and record");
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_killed_dedup_that_parks_repeats_none_and_lists_what_is_missing() {
    let mut moments = Moments::seeded(34);
    let (mut struck, mut doubts) = (0, 0);
    while struck < 40 {
        let lines = Lines::generate(60_000, LineKey::JsonId, &mut moments);
        let site = site(&lines);
        let mut reached = 0;
        let mut missing = BTreeSet::new();
        loop {
            let (is_struck, printed) = run_printing(&site, "park", &mut moments);
            let (from, to, _) = place(&lines, &printed, reached);
            if let Some(from) = from {
                missing.extend(reached..from);
                reached = to;
            }
            if !is_struck {
                missing.extend(reached..lines.once.len());
                break;
            }
            struck += 1;
        }
        let arguments = ["in-doubt", "list", "--store", EMBEDDED, "--output", "jsonl"];
        let (status, listed) = site.start(&arguments).wait();
        assert!(status.success(), "{}", site.text("stderr.log"));
        let listed: BTreeSet<String> = listed.lines().map(key_of).collect();
        for at in &missing {
            let line = String::from_utf8_lossy(&lines.once[*at]);
            assert!(listed.contains(&id_of(&line)), "{line} vanished unlisted");
        }
        doubts += listed.len();
    }
    println!("park: {struck} kills, {doubts} lines in doubt");
    assert!(doubts > 0, "no kill struck between start and record");
}

/// Runs until a random moment, its standard output into a file, or until a random number of bytes was
/// read from it, so that it waits in the middle of a batch. Returns whether it still ran, and its
/// output.
fn run_printing(site: &Site, on_doubt: &str, moments: &mut Moments) -> (bool, Vec<u8>) {
    let key = if on_doubt == "park" {
        "json:/id"
    } else {
        "line"
    };
    let arguments = [
        "dedup",
        "--store",
        EMBEDDED,
        "--key",
        key,
        "--on-doubt",
        on_doubt,
        "in",
    ];
    if moments.below(2) == 0 {
        let bytes = usize::try_from(moments.below(1_000_000)).expect("a count");
        return site.start(&arguments).kill_after_reading(bytes);
    }
    let _ = std::fs::remove_file(site.path("printed"));
    let run = site.start_into("printed", &arguments);
    let is_struck = run.kill_after(moments.between(MS(1), MS(300)));
    let printed = std::fs::read(site.path("printed")).expect("a file");
    (is_struck, printed)
}

/// The range of the first lines, from `least` on, that were printed whole, and the number of bytes of
/// a broken one behind them. The lines must be neighbours.
fn place(lines: &Lines, printed: &[u8], least: usize) -> (Option<usize>, usize, usize) {
    let first = printed.split_inclusive(|byte| *byte == b'\n').next();
    let candidates = &lines.once[least..];
    let Some(from) = first.and_then(|first| candidates.iter().position(|line| line == first))
    else {
        let is_broken = candidates.iter().any(|line| line.starts_with(printed));
        assert!(
            printed.is_empty() || is_broken,
            "printed something else, or twice: {:?}, from {least} on",
            first.map(String::from_utf8_lossy)
        );
        return (None, 0, printed.len());
    };
    let from = least + from;
    let (mut to, mut rest) = (from, printed);
    while let Some(line) = lines.once.get(to)
        && let Some(behind) = rest.strip_prefix(line.as_slice())
    {
        (to, rest) = (to + 1, behind);
    }
    let is_broken = lines
        .once
        .get(to)
        .is_some_and(|line| line.starts_with(rest));
    assert!(rest.is_empty() || is_broken, "printed something else");
    (Some(from), to, rest.len())
}

/// The key of a list entry.
fn key_of(entry: &str) -> String {
    let entry: serde_json::Value = serde_json::from_str(entry).expect("an object");
    entry["key"].as_str().expect("a key").to_owned()
}

/// The id in a line.
fn id_of(line: &str) -> String {
    let line: serde_json::Value = serde_json::from_str(line).expect("an object");
    line["id"].as_str().expect("an id").to_owned()
}

fn site(lines: &Lines) -> Site {
    let site = Site::with(&[]);
    std::fs::write(site.path("in"), &lines.bytes).expect("an input");
    site
}

fn start(site: &Site, store: &str, key: LineKey, more: &[&str]) -> Run {
    let arguments = ["dedup", "--store", store, "--key", key.selector(), "in"];
    site.start(&[&arguments[..], more].concat())
}

fn to_the_end(site: &Site, store: &str, key: LineKey, more: &[&str]) -> Summary {
    let with_summary = [more, &["--summary", "summary"]].concat();
    let (status, _) = start(site, store, key, &with_summary).wait();
    assert!(status.success(), "{status}: {}", site.text("stderr.log"));
    Summary::parse(site.text("summary").trim_end())
}

/// The number of lines that `semel dedup` decides at once.
const MOST_LINES: usize = 24_576;
