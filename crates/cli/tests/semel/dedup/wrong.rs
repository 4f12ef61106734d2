//! Wrong arguments and inputs: reported clearly, with nothing half done.

use std::fs::File;
use std::process::Stdio;

use super::{dedup, files, printed};
use crate::site::{Running, Site};

#[test]
fn an_input_that_is_not_there_is_told_before_anything_is_made() {
    let site = Site::new();
    dedup(&site, &["in"])
        .code(3)
        .says("error: cannot open in: there is no such file [source-unavailable]");
    std::fs::create_dir(site.path("in")).expect("a folder");
    dedup(&site, &["in", "--to", "out"])
        .code(3)
        .says("cannot open in: it is a folder, not a file [source-unavailable]");
    assert_eq!(files(&site), ["in"]);
}

#[test]
fn a_folder_on_standard_input_is_told() {
    let site = Site::new();
    let folder = File::open(site.path("")).expect("a folder");
    let mut command = site.command();
    Running::start(command.arg("dedup").stdin(folder))
        .wait()
        .code(3)
        .says("[source-unavailable]");
}

#[test]
fn an_output_that_cannot_be_is_told() {
    let site = Site::with(&[("in", "a\n")]);
    std::fs::create_dir(site.path("folder")).expect("a folder");
    for (path, cause) in [
        ("no/such/out", "its folder is missing"),
        ("folder", "it is a folder, not a file"),
        ("/dev/null", "it is no regular file"),
    ] {
        dedup(&site, &["in", "--to", path])
            .code(3)
            .says(&format!("cannot open {path}: {cause}"))
            .says("[target-unavailable]");
    }
    assert_eq!(printed(&site, &["in"]), b"a\n", "nothing was recorded");
}

#[test]
fn a_summary_that_cannot_be_is_told_before_any_work() {
    let site = Site::with(&[("in", "a\n")]);
    for path in ["no/such/file", "."] {
        dedup(&site, &["in", "--summary", path])
            .code(3)
            .says("cannot open the summary")
            .says("[target-unavailable]");
    }
    assert_eq!(files(&site), ["in"]);
}

#[test]
fn a_file_with_contents_that_nobody_knows_of_is_refused_unless_it_is_appended_to() {
    for store in super::STORES {
        let site = Site::with(&[("in", "a\nb\na\n"), ("out", "mine\n")]);
        let arguments = ["--store", store, "in", "--to", "out"];
        let refused = dedup(&site, &arguments).code(2);
        assert!(refused.stderr.contains("add --append"), "{refused:?}");
        assert_eq!(site.text("out"), "mine\n");
        let with_append = ["--store", store, "in", "--to", "out", "--append"];
        for arguments in [&with_append[..], &arguments, &with_append] {
            printed(&site, arguments);
            assert_eq!(site.text("out"), "mine\na\nb\n", "{store}");
        }
    }
}

#[test]
fn a_file_that_is_shorter_than_recorded_is_left_as_it_is() {
    for store in super::STORES {
        let site = Site::with(&[("in", "a\nb\n")]);
        let arguments = ["--store", store, "in", "--to", "out", "--append"];
        printed(&site, &arguments);
        site.write("out", "a\n");
        dedup(&site, &arguments)
            .code(3)
            .says("has 2 bytes, but 4 were recorded [target-shortened]");
        assert_eq!(site.text("out"), "a\n");
    }
}

#[test]
fn no_two_of_the_files_may_be_the_same() {
    let site = Site::with(&[("in", "a\na\n"), ("out", "")]);
    std::fs::hard_link(site.path("in"), site.path("link")).expect("a link");
    for (arguments, text) in [
        (
            &["in", "--to", "in"][..],
            "in is the same file as the input",
        ),
        (
            &["in", "--to", "link", "--append"],
            "link is the same file as the input",
        ),
        (
            &["in", "--summary", "link"],
            "link is the same file as the input",
        ),
        (
            &["in", "--to", "out", "--summary", "out"],
            "out is the same file as the output",
        ),
    ] {
        dedup(&site, arguments).code(2).says(text);
    }
    let append = || {
        let mut options = File::options();
        options.append(true).open(site.path("in")).expect("a file")
    };
    let output = site
        .command()
        .args(["dedup", "in"])
        .stdout(append())
        .output();
    let output = output.expect("the semel binary");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("standard output is the same file as the input"),
        "{said}"
    );
    let input = File::open(site.path("in")).expect("a file");
    let output = site
        .command()
        .arg("dedup")
        .stdin(input)
        .stdout(append())
        .output();
    assert_eq!(output.expect("the semel binary").status.code(), Some(2));
    assert_eq!(site.text("in"), "a\na\n");
}

#[test]
fn what_cannot_be_meant_is_a_mistake_of_usage() {
    let site = Site::with(&[("in", "a\n")]);
    for (arguments, text) in [
        (&["--append", "in"][..], "--to <FILE>"),
        (
            &["--on-doubt", "park", "--to", "out", "in"],
            "cannot be used with",
        ),
        (&["--window", "0s", "in"], "remembers nothing"),
        (&["--window", "soon", "in"], "is no duration"),
        (&["--key", "jsn:/id", "in"], "--key"),
        (&["--key", "header:x", "in"], "lines have no headers"),
        (&["--store", "embeded:x", "in"], "embedded"),
        (&["--store", "cassandra://x", "in"], "not supported"),
        (&["--pipeline", "", "in"], "--pipeline"),
        (&["in", "two"], "unexpected argument"),
    ] {
        dedup(&site, arguments).code(2).says(text);
    }
    assert_eq!(files(&site), ["in"]);
}

#[test]
fn a_full_disk_behind_standard_output_is_told_and_nothing_is_recorded() {
    for on_doubt in ["repeat", "park"] {
        let site = Site::with(&[("in", "a\n")]);
        let full = File::options().write(true).open("/dev/full");
        let output = site
            .command()
            .args(["dedup", "--on-doubt", on_doubt, "in"])
            .stdout(full.expect("a full device"))
            .stderr(Stdio::piped())
            .output();
        let output = output.expect("the semel binary");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(
            said.contains("cannot print: no space left on the disk [target-unavailable]"),
            "{said}"
        );
        assert_eq!(printed(&site, &["in"]), b"a\n");
    }
}
