//! `semel init`: everything that it writes passes its own check and runs, and it never overwrites a file.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command};

use serde_json::Value;

use crate::site::{Ended, Running, Site, Summary, wait_for};

const LEVELS: [&str; 3] = ["beginner", "intermediate", "advanced"];

/// One folder that `semel init` wrote into.
struct Folder<'a> {
    site: &'a Site,
    name: String,
    is_stdin: bool,
    /// The port of the server that the effect needs, if it needs one.
    port: Option<u16>,
}

impl Folder<'_> {
    fn semel(&self, arguments: &[&str]) -> Ended {
        let folder = self.site.path(&self.name);
        let mut command = self.site.command();
        command.current_dir(&folder).args(arguments);
        if let Some(port) = self.port {
            let url = format!("http://127.0.0.1:{port}/charge");
            command.env("SEMEL__PIPELINES__PAYMENTS__EFFECT__URL", url);
        }
        if self.is_stdin && arguments.first() == Some(&"run") {
            let input = std::fs::File::open(folder.join("payments.ndjson")).expect("the sample");
            command.stdin(input);
        }
        Running::start(&mut command).wait()
    }

    /// The findings of a check that must not fail.
    fn findings(&self, arguments: &[&str]) -> Vec<String> {
        let check = [&["check", "--output", "json"], arguments].concat();
        let ended = self.semel(&check).done();
        let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("a list").iter();
        findings
            .map(|finding| finding["code"].as_str().expect("a code").to_owned())
            .collect()
    }

    fn run(&self) -> (Summary, Vec<String>) {
        let ended = self.semel(&["run", "--output", "json"]).done();
        let mut lines: Vec<_> = ended.stdout.lines().map(str::to_owned).collect();
        let summary = Summary::read(&lines.pop().expect("a summary"));
        (summary, lines)
    }

    fn lines(&self, file: &str) -> usize {
        self.site
            .text(&format!("{}/{file}", self.name))
            .lines()
            .count()
    }
}

/// Tries every source and level of an effect with these stores; `effects` counts the effects.
fn every_combination(effect: &str, stores: &[&str], effects: impl Fn(&Folder<'_>) -> usize) {
    let site = Site::new();
    for source in ["file", "stdin"] {
        for store in stores {
            for level in LEVELS {
                let name = format!("{source}-{store}-{level}");
                let arguments = ["--source", source, "--store", store];
                let arguments = [&["init", &name, "--effect", effect], &arguments[..]].concat();
                let arguments = [&arguments[..], &["--level", level]].concat();
                site.semel(&arguments).done();
                let server = (effect == "http").then(|| Server::start(&site.path(&name)));
                let folder = Folder {
                    site: &site,
                    name,
                    is_stdin: source == "stdin",
                    port: server.as_ref().map(|server| server.port),
                };
                if effect == "sql" {
                    assert!(
                        folder
                            .findings(&[])
                            .contains(&"statements-unchecked".to_owned())
                    );
                    let setup = site.text(&format!("{}/setup.sql", folder.name));
                    let database = site.database(&format!("{}/payments.db", folder.name));
                    database.execute_batch(&setup).expect("tables");
                    // Private to its owner, as the step for it says.
                    let path = site.path(&format!("{}/payments.db", folder.name));
                    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
                    std::fs::set_permissions(path, mode).expect("a right");
                }
                works(&folder, level, &effects);
            }
        }
    }
}

fn works(folder: &Folder<'_>, level: &str, effects: impl Fn(&Folder<'_>) -> usize) {
    let gate = if level == "beginner" {
        &["age-gate-off"][..]
    } else {
        &[]
    };
    assert_eq!(folder.findings(&[]), gate, "{}", folder.name);
    let seen = ["sample-unusable", "sample-conflicts"];
    let sample = folder.findings(&["--sample", "payments.ndjson"]);
    assert_eq!(sample, [gate, &seen].concat(), "{}", folder.name);
    let (first, printed) = folder.run();
    let rest = [("conflicts", 1), ("quarantined", 1)];
    first.is(&[&[("applied", 5), ("replayed", 3)][..], &rest].concat());
    assert_eq!(effects(folder) + printed.len(), 5, "{}", folder.name);
    let (again, printed) = folder.run();
    again.is(&[&[("replayed", 8)][..], &rest].concat());
    assert_eq!(printed, [""; 0], "nothing is printed twice");
    assert!(matches!(effects(folder), 0 | 5), "{}", folder.name);
    assert_eq!(
        folder.findings(&[]),
        gate,
        "with its store: {}",
        folder.name
    );
}

#[test]
fn a_table_has_each_payment_once() {
    every_combination("sql", &["sqlite"], |folder| {
        let database = format!("{}/payments.db", folder.name);
        let rows = folder
            .site
            .rows(&database, "select distinct payment from charges");
        let all = folder.site.rows(&database, "select payment from charges");
        assert_eq!(all.len(), rows.len());
        all.len()
    });
}

#[test]
fn a_file_has_each_payment_once() {
    every_combination("file", &["embedded", "sqlite"], |folder| {
        folder.lines("charged.ndjson")
    });
}

#[test]
fn a_command_is_called_once_for_each_payment() {
    every_combination("exec", &["embedded", "sqlite"], |folder| {
        folder.lines("handled.txt")
    });
}

#[test]
fn a_handler_in_python_gets_each_payment_once() {
    every_combination("jsonl", &["embedded", "sqlite"], |folder| {
        folder.lines("handled.txt")
    });
}

#[test]
fn each_payment_is_printed_once() {
    every_combination("stdout", &["embedded", "sqlite"], |_| 0);
}

#[test]
fn a_provider_charges_each_payment_once() {
    every_combination("http", &["embedded", "sqlite"], |folder| {
        folder.lines("server.log") - 1
    });
}

/// `server.py` as `semel init` wrote it, on a free port.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let log = folder.join("server.log");
        let child = Command::new("python3")
            .args(["server.py", "0"])
            .current_dir(folder)
            .stdout(File::create(&log).expect("a log"))
            .spawn()
            .expect("python3");
        let port = || {
            let said = std::fs::read_to_string(&log).expect("a log");
            let (line, _) = said.split_once('\n')?;
            line.strip_prefix("listening on port ")?.parse().ok()
        };
        wait_for("the server", || port().is_some());
        Self {
            child,
            port: port().expect("a port"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_it_says_to_type_next_can_be_typed() {
    for effect in ["file", "exec", "jsonl", "stdout"] {
        for source in ["file", "stdin"] {
            let site = Site::new();
            let arguments = [
                "init",
                "it's a shop",
                "--effect",
                effect,
                "--source",
                source,
            ];
            let json = [&arguments[..], &["--output", "json"]].concat();
            let ended = site.semel(&json).done();
            let written: Value = serde_json::from_str(&ended.stdout).expect("JSON");
            for file in written["files"].as_array().expect("a list") {
                let path = format!("it's a shop/{}", file.as_str().expect("a name"));
                assert!(!site.text(&path).is_empty(), "{path}");
            }
            let next = written["next"].as_array().expect("a list").iter();
            let next: Vec<_> = next.map(|line| line.as_str().expect("a line")).collect();
            let mut shell = Command::new("sh");
            let semel = Path::new(env!("CARGO_BIN_EXE_semel"))
                .parent()
                .expect("a folder");
            let path = std::env::var("PATH").unwrap_or_default();
            shell
                .args(["-e", "-c", &next.join("\n")])
                .current_dir(site.path(""))
                .env("PATH", format!("{}:{path}", semel.display()));
            let typed = Running::start(&mut shell).wait().done();
            assert!(typed.stdout.contains("applied             5"), "{typed:#?}");
            assert!(typed.stdout.contains("replayed            8"), "{typed:#?}");
        }
    }
}

#[test]
fn a_folder_of_any_name_can_be_gone_into() {
    for name in [
        OsStr::new("-x"),
        OsStr::new("-"),
        OsStr::new("--help me"),
        OsStr::from_bytes(b"caf\xe9"),
    ] {
        let site = Site::new();
        let mut init = site.command();
        let ended = Running::start(init.arg("init").arg("--").arg(name))
            .wait()
            .done();
        let go = ended.stdout.lines().find(|line| line.starts_with("  cd "));
        let mut shell = Command::new("bash");
        shell
            .args(["-e", "-c", &format!("{} && ls", go.expect("a folder"))])
            .current_dir(site.path(""));
        let listed = Running::start(&mut shell).wait().done().stdout;
        assert!(listed.contains("semel.toml"), "{name:?}: {listed}");
    }
}

#[test]
fn nothing_is_overwritten_and_nothing_left_half_written() {
    let site = Site::new();
    for there in ["semel.toml", "payments.ndjson", "handler.py"] {
        let folder = there.replace('.', "-");
        std::fs::create_dir(site.path(&folder)).expect("a folder");
        site.write(&format!("{folder}/{there}"), "mine");
        let refused = site.semel(&["init", &folder, "--effect", "jsonl"]).code(2);
        assert_eq!(
            (refused.stdout.as_str(), refused.stderr.as_str()),
            (
                "",
                format!(
                    "error: {folder}/{there} is there already and init overwrites nothing; name \
                     another folder [invalid-input]\n"
                )
                .as_str()
            )
        );
        assert_eq!(site.text(&format!("{folder}/{there}")), "mine");
        let names = std::fs::read_dir(site.path(&folder)).expect("a folder");
        assert_eq!(names.count(), 1, "{folder}");
    }
    site.write("file", "mine");
    site.semel(&["init", "file/within"])
        .code(3)
        .says("[target-unavailable]");
    let refused = site.semel(&["init", "new", "--effect", "sql", "--store", "embedded"]);
    refused.code(2).says("needs --store sqlite");
    assert!(!site.path("new").exists());
}

#[test]
fn a_misspelt_choice_is_a_usage_error() {
    let site = Site::new();
    for arguments in [
        &["init", "--effect", "sqll"][..],
        &["init", "--level", "expert"],
        &["init", "--store", "oracle"],
        &["init", "--source", "sqs"],
        &["init", "a", "b"],
    ] {
        let ended = site.semel(arguments).code(2);
        assert!(ended.stderr.contains("Usage:") || ended.stderr.contains("possible values"));
    }
    let names = std::fs::read_dir(site.path("")).expect("a folder");
    assert_eq!(names.count(), 0, "nothing was written");
}
