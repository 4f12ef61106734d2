//! `semel dedup`: the first line of each key, to a pipe and to a file.

mod ephemeral;
mod formats;
mod pipes;
mod wrong;

use std::ffi::OsStr;
use std::process::Stdio;

use crate::site::{Ended, Running, Site, Summary, lines, wait_for};

const STORES: [&str; 2] = ["embedded:store", "sqlite:s.db"];

/// The output, byte for byte, of a run that must end well and without messages.
#[track_caller]
fn printed(site: &Site, arguments: &[&str]) -> Vec<u8> {
    let output = site.command().arg("dedup").args(arguments).output();
    let output = output.expect("the semel binary");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""));
    output.stdout
}

fn dedup(site: &Site, arguments: &[&str]) -> Ended {
    let mut command = site.command();
    Running::start(command.arg("dedup").args(arguments)).wait()
}

/// The summary of a run that must end well.
#[track_caller]
fn summary(site: &Site, arguments: &[&str]) -> Summary {
    let mut with = vec!["--summary", "summary.json"];
    with.extend(arguments);
    dedup(site, &with).done();
    Summary::read(site.text("summary.json").trim_end())
}

fn files(site: &Site) -> Vec<String> {
    let files = std::fs::read_dir(site.path("")).expect("a folder");
    let mut files: Vec<_> = files
        .map(|file| file.expect("a file").file_name())
        .filter_map(|name| name.to_str().map(str::to_owned))
        .collect();
    files.sort_unstable();
    files
}

#[test]
fn first_lines_are_printed_as_they_came() {
    let input = b"b\r\n\na\n\0\xFF\nb\r\nb\n\na\n\xEF\xBB\xBFa\n\0\xFF\nlast";
    let once = b"b\r\n\na\n\0\xFF\nb\n\xEF\xBB\xBFa\nlast";
    for store in STORES {
        let site = Site::new();
        site.write("in", input);
        let arguments = ["--store", store, "in"];
        assert_eq!(printed(&site, &arguments), once, "{store}");
        assert_eq!(printed(&site, &arguments), b"", "{store}");
    }
}

#[test]
fn standard_input_is_the_input_where_none_is_named() {
    for arguments in [&["dedup"][..], &["dedup", "-"]] {
        let site = Site::new();
        let mut command = site.command();
        let ended = Running::start_with(command.args(arguments), "a\nb\na\n").wait();
        assert_eq!(ended.done().stdout, "a\nb\n");
        assert_eq!(files(&site), [".semel-dedup"], "the default store");
    }
}

#[test]
fn a_file_holds_each_first_line_once_and_ends_with_lf() {
    for store in STORES {
        let site = Site::with(&[("one", "a\nb\r\na\nc"), ("two", "c\r\nd\nb\r\n\nc")]);
        for (input, text, fates) in [
            ("one", "a\nb\r\nc\n", [("applied", 3), ("replayed", 1)]),
            (
                "two",
                "a\nb\r\nc\nc\r\nd\n\n",
                [("applied", 3), ("replayed", 2)],
            ),
            (
                "two",
                "a\nb\r\nc\nc\r\nd\n\n",
                [("applied", 0), ("replayed", 5)],
            ),
        ] {
            let told = summary(&site, &["--store", store, input, "--to", "out"]);
            told.is(&fates);
            assert_eq!(told.pipeline(), "dedup");
            assert_eq!(site.text("out"), text, "{store}");
        }
    }
}

#[test]
fn what_a_crash_left_behind_the_recorded_end_is_cut_off() {
    for store in STORES {
        let site = Site::with(&[("in", "a\nb\n")]);
        let arguments = ["--store", store, "in", "--to", "out"];
        printed(&site, &arguments);
        site.write("out", "a\nb\nc\nhalf a li");
        site.write("in", "a\nb\nc\n");
        printed(&site, &arguments);
        assert_eq!(site.text("out"), "a\nb\nc\n", "{store}");
    }
}

#[test]
fn an_empty_input_makes_an_empty_file() {
    let site = Site::with(&[("in", "")]);
    summary(&site, &["in", "--to", "out"]).is(&[]);
    assert_eq!(std::fs::read(site.path("out")).expect("a file"), b"");
    assert_eq!(printed(&site, &["in"]), b"");
}

#[test]
fn numbers_and_strings_are_different_keys() {
    let input =
        "{\"id\":1}\n{\"id\":\"1\"}\n{\"id\":1.0,\"n\":2}\n{\"id\":\"\\u0031\"}\n{\"id\":10e-1}\n";
    for store in STORES {
        let site = Site::with(&[("in", input)]);
        let once = printed(&site, &["--store", store, "--key", "json:/id", "in"]);
        assert_eq!(once, b"{\"id\":1}\n{\"id\":\"1\"}\n", "{store}");
    }
}

#[test]
fn several_selectors_are_one_key() {
    let site = Site::with(&[("in", "a\tx\t1\na\tx\t2\na\ty\t3\nb\tx\t4\n")]);
    let once = printed(&site, &["--key", "field:1", "--key", "field:2", "in"]);
    assert_eq!(once, b"a\tx\t1\na\ty\t3\nb\tx\t4\n");
}

#[test]
fn lines_without_a_usable_key_are_counted_and_kept() {
    let input = "{\"id\":1}\nno json\n{\"id\":null}\n\n{\"id\":1}\n";
    let site = Site::with(&[("in", input)]);
    for (applied, replayed) in [(1, 1), (0, 2)] {
        let told = summary(
            &site,
            &["--store", "sqlite:s.db", "--key", "json:/id", "in"],
        );
        told.is(&[
            ("applied", applied),
            ("replayed", replayed),
            ("quarantined", 3),
        ]);
        let kept = site.rows(
            "s.db",
            "select reason, coordinates, payload from semel_parked order by coordinates",
        );
        assert_eq!(
            kept,
            [
                "not-json|in:2|no json",
                "key-null|in:3|{\"id\":null}",
                "not-json|in:4|"
            ]
        );
    }
    dedup(&site, &["--key", "json:/id", "in"])
        .done()
        .says("dedup: quarantined in:2: the payload is not JSON")
        .says("3 lines without a usable key; look at them with: semel quarantine list --store embedded:./.semel-dedup");
}

#[test]
fn a_line_may_have_8_mib_and_a_longer_one_is_kept_aside() {
    let mib = 1 << 20;
    let (most, more) = ("x".repeat(8 * mib), "y".repeat(8 * mib + 1));
    let site = Site::with(&[("in", &format!("{most}\n{more}\n{most}\n{more}\nz"))]);
    let arguments = ["--store", "sqlite:s.db", "in", "--to", "out"];
    summary(&site, &arguments).is(&[("applied", 2), ("replayed", 1), ("quarantined", 2)]);
    assert!(site.text("out") == format!("{most}\nz\n"));
    let kept = site.rows(
        "s.db",
        "select reason, coordinates, length(payload) from semel_parked order by coordinates",
    );
    assert_eq!(
        kept,
        [
            "message-too-large|in:2|65536",
            "message-too-large|in:4|65536"
        ]
    );
}

#[test]
fn lines_longer_than_255_bytes_go_by_their_hash() {
    let long = "x".repeat(300_000);
    let site = Site::with(&[("in", &format!("{long}1\n{long}2\n{long}1\n"))]);
    assert_eq!(
        printed(&site, &["in"]),
        format!("{long}1\n{long}2\n").as_bytes()
    );
}

#[test]
fn each_name_remembers_its_own() {
    let site = Site::with(&[("in", "a\n")]);
    for name in ["one", "two"] {
        assert_eq!(printed(&site, &["--pipeline", name, "in"]), b"a\n");
        let told = summary(&site, &["--pipeline", name, "in"]);
        assert_eq!(told.pipeline(), name);
        told.is(&[("replayed", 1)]);
    }
}

#[test]
fn a_line_is_new_again_after_its_window() {
    let site = Site::with(&[("in", "a\n")]);
    let arguments = ["--window", "3s", "in"];
    assert_eq!(printed(&site, &arguments), b"a\n");
    assert_eq!(printed(&site, &arguments), b"");
    wait_for("the end of the window", || {
        printed(&site, &arguments) == b"a\n"
    });
}

#[test]
fn the_summary_can_go_to_standard_error() {
    let site = Site::with(&[("in", "a\na\n")]);
    let ended = dedup(&site, &["--summary", "-", "in"]).done();
    assert_eq!(ended.stdout, "a\n");
    Summary::read(ended.stderr.trim_end()).is(&[("applied", 1), ("replayed", 1)]);
    // The longer summary of an earlier run is replaced whole.
    site.write("summary.json", "x".repeat(5_000));
    summary(&site, &["in"]).is(&[("replayed", 2)]);
}

#[test]
fn the_store_of_a_configuration_is_used_where_it_is_named() {
    let config = "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = { kind = \"stdin\" }\n\
                  key = \"line\"\neffect = { kind = \"stdout\" }\n";
    let site = Site::with(&[("semel.toml", config), ("in", "a\n")]);
    printed(&site, &["in"]);
    assert!(!site.path("s.db").exists(), "it was not named");
    printed(&site, &["--config", "semel.toml", "in"]);
    assert!(site.path("s.db").exists());
    site.write("semel.toml", "[stor]\n");
    dedup(&site, &["--config", "semel.toml", "in"])
        .code(2)
        .says("[config-unknown-key]");
}

#[test]
fn a_store_that_forgets_is_told() {
    let site = Site::with(&[("in", "a\na\n")]);
    let ended = dedup(&site, &["--store", "memory:", "in"]).done();
    assert_eq!(ended.stdout, "a\n");
    assert!(ended.stderr.contains("FORGETS EVERYTHING"), "{ended:?}");
    assert_eq!(files(&site), ["in"]);
}

/// A `semel dedup` whose input and output are pipes of this process.
fn piped(site: &Site, arguments: &[impl AsRef<OsStr>]) -> std::process::Child {
    let mut command = site.command();
    let command = command.arg("dedup").args(arguments);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    pipes.stderr(Stdio::piped()).spawn().expect("semel")
}

fn numbers(range: std::ops::Range<u32>) -> String {
    lines(range, |number| format!("line {number:08}"))
}

#[test]
fn what_is_remembered_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::with(&[("in", "a\n")]);
    let mode = |name: &str| {
        let found = std::fs::metadata(site.path(name)).expect("it is there");
        found.permissions().mode() & 0o777
    };
    printed(&site, &["in"]);
    printed(&site, &["--store", "sqlite:s.db", "in"]);
    assert_eq!([mode(".semel-dedup"), mode("s.db")], [0o700, 0o600]);
    for file in std::fs::read_dir(site.path(".semel-dedup")).expect("a folder") {
        let name = file.expect("a file").file_name();
        let name = format!(".semel-dedup/{}", name.display());
        assert_eq!(mode(&name), 0o600, "{name}");
    }
    let export = ["store", "export", "--store", "sqlite:s.db", "--to", "out"];
    site.semel(&export).done();
    assert_eq!(mode("out"), 0o600);
    std::fs::set_permissions(site.path("out"), std::fs::Permissions::from_mode(0o640))
        .expect("a right");
    site.semel(&[&export[..], &["--yes"]].concat()).done();
    assert_eq!(
        mode("out"),
        0o640,
        "whoever could read the last one can read this one"
    );
}
