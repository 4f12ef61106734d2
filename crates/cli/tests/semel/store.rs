//! Stores that cannot be opened or belong to another program.

use std::io::Write;
use std::process::Stdio;

use crate::site::{Site, read_all, wait_for};

fn site(store: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"{store}\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\neffect = {{ kind = \"file\", path = \"out\" }}\n"
    );
    Site::with(&[("semel.toml", &config), ("in", "{\"id\":1}\n")])
}

#[test]
fn a_foreign_folder_or_file_is_left_alone() {
    let folder = site("embedded:data");
    std::fs::create_dir(folder.path("data")).expect("a folder");
    folder.write("data/letter.txt", "dear");
    let ended = folder.semel(&["run"]).code(3).says("[store-foreign]");
    assert_eq!(ended.stdout, "");
    let left: Vec<_> = std::fs::read_dir(folder.path("data"))
        .expect("a folder")
        .collect();
    assert_eq!(
        (left.len(), folder.text("data/letter.txt").as_str()),
        (1, "dear")
    );

    let file = site("sqlite:s.db");
    let text = "This is a letter and no database. ".repeat(100);
    file.write("s.db", &text);
    file.semel(&["run"]).code(3).says("[store-foreign]");
    assert_eq!(file.text("s.db"), text);
    assert!(!file.path("out").exists(), "nothing was begun");
}

#[test]
fn a_store_of_the_wrong_kind_is_told() {
    let folder = site("sqlite:data");
    std::fs::create_dir(folder.path("data")).expect("a folder");
    folder
        .semel(&["run"])
        .code(3)
        .says("error: ")
        .says("[store-");
    let file = site("embedded:in");
    file.semel(&["run"]).code(3).says("error: ").says("[store-");
    assert_eq!(file.text("in"), "{\"id\":1}\n");
}

#[test]
fn a_missing_folder_is_made_for_a_folder_and_told_for_a_file() {
    let folder = site("embedded:no/such/folder");
    folder.run().is(&[("applied", 1)]);
    folder.run().is(&[("replayed", 1)]);
    let file = site("sqlite:no/such/s.db");
    let ended = file
        .semel(&["run"])
        .code(3)
        .says("error: there is no folder ");
    assert!(
        ended
            .stderr
            .contains("create it or correct store.url [store-unavailable]"),
        "{ended:#?}"
    );
    assert!(!file.path("no").exists() && !file.path("out").exists());
}

/// Removes the store of a run that waits for standard input.
fn taken_away(store: &str, take_away: impl Fn(&Site)) {
    let config = format!(
        "shutdown = \"200ms\"\n[store]\nurl = \"{store}\"\n[pipelines.p]\nsource = {{ kind = \"stdin\" }}\n\
         key = \"json:/id\"\neffect = {{ kind = \"file\", path = \"out\" }}\n"
    );
    let site = Site::with(&[("semel.toml", &config)]);
    let mut command = site.command();
    let mut child = command
        .arg("run")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("semel");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"{\"id\":1}\n").expect("a message");
    wait_for("the first effect", || site.text("out").lines().count() == 1);
    take_away(&site);
    let _ = stdin.write_all(b"{\"id\":2}\n");
    drop(stdin);
    let mut status = None;
    wait_for("the end", || {
        status = child.try_wait().expect("a child");
        status.is_some()
    });
    let stderr = read_all(child.stderr.take().expect("a pipe"));
    let code = status.and_then(|status| status.code());
    assert_eq!(code, Some(3), "{stderr}");
    let is_told = stderr.contains(" was removed or replaced while it was in use")
        && stderr.contains("[store-unavailable]");
    assert!(is_told, "{stderr}");
}

#[test]
fn a_store_that_was_taken_away_is_told() {
    taken_away("embedded:data", |site| {
        std::fs::remove_dir_all(site.path("data")).expect("gone");
    });
    taken_away("sqlite:s.db", |site| {
        for name in ["s.db", "s.db-wal", "s.db-shm"] {
            let _ = std::fs::remove_file(site.path(name));
        }
    });
}

#[test]
fn a_memory_store_forgets_with_its_process() {
    let site = site("memory:");
    let refused = site.semel(&["run"]).code(2);
    assert!(
        refused.stderr.contains("set `store.allow_volatile = true`"),
        "{}",
        refused.stderr
    );
    let config = site
        .text("semel.toml")
        .replacen("[store]", "[store]\nallow_volatile = true", 1);
    site.write("semel.toml", config);
    site.run().is(&[("applied", 1)]);
    site.run().is(&[("applied", 1)]);
}
