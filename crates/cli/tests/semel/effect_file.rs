//! `kind = "file"`: an output file that its recorded length keeps exact.

use std::fs::OpenOptions;
use std::io::Write;

use crate::site::Site;

const STORES: [&str; 2] = ["sqlite:s.db", "embedded:data"];

fn site(store: &str, path: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"{store}\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\neffect = {{ kind = \"file\", path = \"{path}\" }}\n"
    );
    Site::with(&[
        ("semel.toml", &config),
        ("in", "{\"id\":1}\n{\"id\":2}\n{\"id\":1}\n"),
    ])
}

const ONCE: &str = "{\"id\":1}\n{\"id\":2}\n";

#[test]
fn what_the_file_held_before_stays() {
    for store in STORES {
        let site = site(store, "out");
        site.write("out", "header\n");
        site.run().is(&[("applied", 2), ("replayed", 1)]);
        assert_eq!(site.text("out"), format!("header\n{ONCE}"));
        site.run().is(&[("replayed", 3)]);
        assert_eq!(site.text("out"), format!("header\n{ONCE}"));
    }
}

#[test]
fn what_was_appended_but_never_recorded_is_cut_off() {
    for store in STORES {
        let site = site(store, "out");
        site.run().is(&[("applied", 2), ("replayed", 1)]);
        // The state that a crash between the append and its record leaves.
        let mut out = OpenOptions::new()
            .append(true)
            .open(site.path("out"))
            .expect("the output");
        out.write_all(b"{\"id\":3}\n{\"id\"").expect("an append");
        site.write("in", "{\"id\":1}\n{\"id\":3}\n");
        site.run().is(&[("applied", 1), ("replayed", 1)]);
        assert_eq!(site.text("out"), format!("{ONCE}{{\"id\":3}}\n"));
    }
}

#[test]
fn a_file_that_was_shortened_is_refused() {
    for store in STORES {
        let site = site(store, "out");
        site.run();
        site.write("out", "{\"id\":1}\n");
        let ended = site
            .semel(&["run"])
            .code(3)
            .says("error: out has 9 bytes, but 18 were recorded [target-shortened]");
        assert_eq!(ended.stdout, "");
        assert_eq!(site.text("out"), "{\"id\":1}\n", "and left as it is");
    }
}

#[test]
fn a_file_that_somebody_else_writes_is_in_use() {
    let site = site("sqlite:s.db", "out");
    let out = std::fs::File::create(site.path("out")).expect("a file");
    rustix::fs::flock(&out, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    site.semel(&["run"])
        .code(3)
        .says("error: somebody else writes out [target-in-use]");
    drop(out);
    site.run().is(&[("applied", 2), ("replayed", 1)]);
}

#[test]
fn a_file_that_cannot_be_opened_is_told_with_its_cause() {
    for (path, cause) in [
        ("no/such/folder/out", "its folder is missing"),
        (".", "it is a folder, not a file"),
        (
            "/dev/null",
            "it is no regular file, so it cannot be cut back",
        ),
    ] {
        let site = site("sqlite:s.db", path);
        let ended = site.semel(&["run", "--output", "json"]).code(3);
        let expected = format!("error: cannot open {path}: {cause} [target-unavailable]");
        assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
        assert_eq!(
            site.rows("s.db", "select count(*) from semel_records"),
            ["0"],
            "nothing began"
        );
    }
}

#[test]
fn one_name_of_a_file_is_as_good_as_another() {
    let site = site("sqlite:s.db", "out");
    site.run().is(&[("applied", 2), ("replayed", 1)]);
    let config = site
        .text("semel.toml")
        .replace("path = \"out\"", "path = \"./out\"");
    site.write("semel.toml", config);
    site.write("in", "{\"id\":2}\n{\"id\":3}\n");
    site.run().is(&[("applied", 1), ("replayed", 1)]);
    assert_eq!(site.text("out"), format!("{ONCE}{{\"id\":3}}\n"));
    assert_eq!(
        site.rows(
            "s.db",
            "select count(*) from semel_marks where name like 'file:%'"
        ),
        ["1"]
    );
}

#[test]
fn the_file_of_the_source_is_no_output() {
    for (path, link) in [("in", ""), ("./in", ""), ("soft", "soft"), ("hard", "hard")] {
        let site = site("sqlite:s.db", path);
        match link {
            "soft" => std::os::unix::fs::symlink("in", site.path("soft")).expect("a link"),
            "hard" => std::fs::hard_link(site.path("in"), site.path("hard")).expect("a link"),
            _ => {}
        }
        let before = site.text("in");
        let fault = "semel.toml:6: pipelines.p.effect.path: is the file that the source reads; name another [same-file]";
        for (verb, code) in [
            (&["config", "check"][..], 1),
            (&["check"], 2),
            (&["run"], 2),
        ] {
            let ended = site.semel(verb).code(code);
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(said.contains(fault), "{path} {verb:?}: {said}");
        }
        assert_eq!(site.text("in"), before, "{path}");
        assert!(!site.path("s.db").exists(), "nothing was made");
    }
}

#[test]
fn a_redirected_stream_is_no_output_of_itself() {
    let config = "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = { kind = \"stdin\" }\n\
                  key = \"json:/id\"\neffect = { kind = \"file\", path = \"in\" }\n\
                  [pipelines.q]\nsource = { kind = \"file\", path = \"in\" }\n\
                  key = \"json:/id\"\neffect = { kind = \"stdout\" }\n";
    let site = Site::with(&[("semel.toml", config), ("in", ONCE)]);
    let input = || std::fs::File::open(site.path("in")).expect("the input");
    let append = OpenOptions::new().append(true).open(site.path("in"));
    let mut p = site.command();
    p.args(["run", "--pipeline", "p"]).stdin(input());
    let mut q = site.command();
    q.args(["run", "--pipeline", "q"])
        .stdout(append.expect("the input"));
    for (mut command, what) in [(p, "p: in"), (q, "q: standard output")] {
        let ended = command.output().expect("the semel binary");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{said}");
        let why = "is the same file as its source; name another file to write [same-file]";
        assert!(said.contains(&format!("error: {what} {why}")), "{said}");
    }
    assert_eq!(site.text("in"), ONCE);
}

#[test]
fn an_export_does_not_take_the_place_of_its_store() {
    let site = site("sqlite:s.db", "out");
    site.run();
    site.semel(&["store", "export", "--to", "s.db", "--yes"])
        .code(2)
        .says("s.db is the same file as the store");
    site.run().is(&[("replayed", 3)]);
}
