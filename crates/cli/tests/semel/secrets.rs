//! No message prints a secret of the configuration, however wrong things go.

use rustix::process::Signal;

use crate::site::{Ended, Running, Site, ended_or_stopped, wait_for};

const CANARY: &str = "c4n4ry";

#[track_caller]
fn is_silent(ended: &Ended) {
    let Ended { stdout, stderr, .. } = ended;
    assert!(
        !stdout.contains(CANARY) && !stderr.contains(CANARY),
        "{ended:#?}"
    );
}

fn http(effect: &str) -> String {
    format!(
        "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"line\"\nretry = {{ attempts = 2, backoff = \"1ms\" }}\n\
         [pipelines.p.effect]\nkind = \"http\"\nclass = \"keyed\"\nprovider_window = \"1h\"\n{effect}\n"
    )
}

#[test]
fn an_unreachable_url_is_told_without_its_secrets() {
    // No process listens on port 1.
    let url = format!("http://user:{CANARY}@127.0.0.1:1/charge?token={CANARY}&x=1");
    for effect in [format!("url = \"{url}\""), "url_file = \"url\"".to_owned()] {
        let site = Site::with(&[
            ("in", "\"a\"\n"),
            ("semel.toml", &http(&effect)),
            ("url", &url),
        ]);
        is_silent(&site.semel(&["config", "check"]).done());
        // The run waits for a target that is away.
        let mut running = site.start(&["run", "--output", "json"]);
        let mut said = String::new();
        wait_for("a word about it", || {
            said = running.stderr();
            said.contains("cannot reach http://***@127.0.0.1:1/charge?")
        });
        running.signal(Signal::TERM);
        let ended = running.wait().done();
        is_silent(&ended);
        assert!(!said.contains(CANARY), "{said}");
        ended.summary().is(&[("deliveries", 1), ("released", 1)]);
        let kept = site.rows("s.db", "select error from semel_records");
        assert!(!kept.join("\n").contains(CANARY), "{kept:?}");
    }
}

#[test]
fn faults_of_a_url_do_not_repeat_it() {
    for url in [
        format!("user:{CANARY}@host/?token={CANARY}"),
        format!("http://user:{CANARY}@/?token={CANARY}"),
        format!("http://user:{CANARY}@host:99999/"),
        format!("http://user:{CANARY}@ho st/"),
    ] {
        for (effect, file) in [
            (format!("url = \"{url}\""), ""),
            ("url_file = \"url\"".to_owned(), url.as_str()),
        ] {
            let site = Site::with(&[
                ("in", "\"a\"\n"),
                ("semel.toml", &http(&effect)),
                ("url", file),
            ]);
            is_silent(&site.semel(&["config", "check"]).code(1));
            is_silent(&site.semel(&["run"]).code(2));
        }
    }
    // Even the place where the parser stumbles over it does not print it.
    let site = Site::with(&[(
        "semel.toml",
        &http(&format!("url = \"http://user:{CANARY}@host/\\q\"")),
    )]);
    is_silent(&site.semel(&["config", "check"]).code(1));
    let site = Site::with(&[(
        "semel.toml",
        &http(&format!(
            "headers = {{ Authorization = \"{CANARY}\\n\" }}\nurl = \"http://h\""
        )),
    )]);
    is_silent(&site.semel(&["config", "check"]).code(1));
}

#[test]
fn a_store_url_is_told_without_its_secrets() {
    // The first url can be read, and no server answers: the run waits for it.
    let urls = [
        (
            format!("postgres://user:{CANARY}@127.0.0.1:1/db?password={CANARY}"),
            [0, 0],
        ),
        (format!("user:{CANARY}@host/db"), [1, 2]),
        (CANARY.to_owned(), [1, 2]),
    ];
    for (url, [checked, run]) in &urls {
        let site = Site::with(&[
            ("in", "\"a\"\n"),
            ("store-url", url),
            ("semel.toml", FROM_FILE),
        ]);
        is_silent(&site.semel(&["config", "check"]).code(*checked));
        let mut command = site.command();
        let by_variable = command.arg("run").env("SEMEL__STORE__URL", url);
        for running in [
            site.start(&["run"]),
            site.start(&["run", "--store", url]),
            Running::start(by_variable),
        ] {
            is_silent(&ended_or_stopped(running).code(*run));
        }
    }
}

const FROM_FILE: &str = r#"
[store]
url_file = "store-url"

[pipelines.p]
source = { kind = "file", path = "in" }
key = "line"
effect = { kind = "stdout" }
"#;
