//! `/readyz` and the gauges beside it, the messages about an outage, and what the start says of the store.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::site::{Running, Site, wait_for};

/// The address of a worker's status.
pub(crate) struct Admin(SocketAddr);

impl Admin {
    pub(crate) fn new() -> Self {
        let port = free_port::take().expect("a free port");
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// The `[admin]` table; with it, silence counts after two seconds.
    pub(crate) fn table(&self) -> String {
        format!("[admin]\nlisten = \"{}\"\nready_after = \"2s\"\n", self.0)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0
    }

    fn ask(&self, path: &str) -> String {
        let mut answer = Vec::new();
        if let Ok(mut stream) = TcpStream::connect(self.0) {
            let asked = format!("GET {path} HTTP/1.1\r\nHost: semel\r\n\r\n");
            let _ = stream.write_all(asked.as_bytes());
            let _ = stream.read_to_end(&mut answer);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Returns whether the worker is ready, and the body of its answer.
    pub(crate) fn ready(&self) -> (bool, Value) {
        let answer = self.ask("/readyz");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let said = serde_json::from_str(body).unwrap_or_default();
        (answer.starts_with("HTTP/1.1 200"), said)
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> String {
        self.ask("/metrics")
    }

    /// Returns the value of a series, if the metrics have it.
    pub(crate) fn value<T: FromStr>(&self, series: &str) -> Option<T> {
        let text = self.metrics();
        let of_it = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(of_it)
    }

    /// Waits until a series has this value.
    #[track_caller]
    pub(crate) fn tells(&self, series: &str, count: u32) {
        let line = format!("{series} {count}");
        wait_for(&line, || self.shows(&line));
    }

    /// Tells whether the metrics have this line.
    pub(crate) fn shows(&self, line: &str) -> bool {
        self.metrics().lines().any(|it| it == line)
    }
}

/// The appearance of an outage from outside.
pub(crate) struct Outage<'a> {
    pub(crate) pipeline: &'a str,
    pub(crate) reason: &'a str,
    /// The message at the beginning, printed once, as is the one at the end.
    pub(crate) begins: &'a str,
    pub(crate) ends: &'a str,
}

impl Outage<'_> {
    /// Cuts a connection and heals it: the worker soon is not ready, then it is ready again, and it reports
    /// each once.
    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "how soon is the question")]
    pub(crate) fn is_seen(
        &self,
        running: &mut Running,
        admin: &Admin,
        cut: impl FnOnce(),
        heal: impl FnOnce(),
    ) {
        let Self {
            pipeline,
            reason,
            begins,
            ends,
        } = self;
        wait_for("a worker that is ready", || admin.ready().0);
        // By now the probes have asked.
        std::thread::sleep(Duration::from_secs(1));
        assert!(admin.ready().0, "{:?}: {}", admin.ready(), running.stderr());
        let began = Instant::now();
        cut();
        wait_for("a worker that is not ready", || !admin.ready().0);
        let noticed = began.elapsed();
        let (_, said) = admin.ready();
        let of_it = &said["pipelines"][pipeline];
        let because = &of_it["reasons"][0];
        assert_eq!(because["reason"], *reason, "{said}");
        assert_eq!(
            (&of_it["state"], &said["state"]),
            (&because["reason"], &because["reason"])
        );
        assert!(
            because["since"]
                .as_str()
                .is_some_and(|it| it.ends_with('Z'))
        );
        assert!(because["error"].as_str().is_some_and(|it| !it.is_empty()));
        assert!(noticed < Duration::from_secs(6), "it took {noticed:?}");
        assert!(
            admin.ask("/healthz").starts_with("HTTP/1.1 200"),
            "it lives"
        );
        wait_for("a word about it", || running.stderr().contains(begins));
        heal();
        wait_for("a worker that is ready again", || admin.ready().0);
        wait_for("a word about the end", || running.stderr().contains(ends));
        std::thread::sleep(Duration::from_secs(2));
        assert!(admin.ready().0, "{:?}", admin.ready());
        let told = running.stderr();
        assert_eq!(told.matches(begins).count(), 1, "{told}");
        assert_eq!(told.matches(ends).count(), 1, "{told}");
    }
}

/// A worker whose input has no end.
fn idle(site: &Site) -> Running {
    Running::start(site.command().arg("run").stdin(Stdio::piped()))
}

#[test]
fn a_target_that_nobody_calls_is_looked_for() {
    let admin = Admin::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let config = format!(
        "{}[pipelines.p]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n\
         effect = {{ kind = \"http\", url = \"http://{address}/charge\" }}\n",
        admin.table()
    );
    let site = Site::with(&[("semel.toml", &config)]);
    let mut running = idle(&site);
    let mut back = None;
    let outage = Outage {
        pipeline: "p",
        reason: "target-away",
        begins: "p: the target is away: cannot reach http",
        ends: "p: the target is back after ",
    };
    outage.is_seen(
        &mut running,
        &admin,
        || drop(listener),
        || back = Some(TcpListener::bind(address).expect("the same port")),
    );
    assert!(
        running
            .stderr()
            .contains("refused [target-away]; trying again")
    );
    drop(back);
    running.signal(Signal::TERM);
    running.wait();
}

/// A handler, for `exec` and for `jsonl`, that works once there is a file `ok`.
const FAILS: &str = r#"
if [ "$SEMEL_KEY" ]; then cat >/dev/null; test -e ok || { echo "expired for $SEMEL_KEY" >&2; exit 1; }; exit; fi
while read -r line; do
  test -e ok || { echo "no such column" >&2; exit 1; }
  echo "$line" | sed 's/{"id":\([0-9]*\).*/{"id":\1,"status":"done"}/'
done
"#;

#[test]
fn a_target_that_fails_and_a_handler_that_is_broken_are_told_and_their_ends() {
    for (protocol, reason, begins) in [
        (
            "stdin",
            "target-failing",
            "p: paused: exit code 1: expired for pay-",
        ),
        ("jsonl", "handler-broken", "p: paused: "),
    ] {
        let admin = Admin::new();
        let config = format!(
            "{}[pipelines.p]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n[pipelines.p.effect]\n\
             kind = \"exec\"\nprotocol = \"{protocol}\"\ncommand = [\"sh\", \"handler.sh\"]\nclass = \"keyed\"\n\
             provider_window = \"1h\"\n",
            admin.table()
        );
        let site = Site::with(&[("semel.toml", &config), ("handler.sh", FAILS)]);
        let (input, mut messages) = std::io::pipe().expect("a pipe");
        let mut command = site.command();
        command.args(["run", "--output", "json"]).stdin(input);
        let mut running = Running::start(&mut command);
        // The command holds the other end.
        drop(command);
        let outage = Outage {
            pipeline: "p",
            reason,
            begins,
            ends: "p: goes on after ",
        };
        let many = crate::site::lines(0..60, |id| format!("{{\"id\":\"pay-{id}\"}}"));
        outage.is_seen(
            &mut running,
            &admin,
            || messages.write_all(many.as_bytes()).expect("messages"),
            || site.write("ok", ""),
        );
        drop(messages);
        let ended = running.wait().done();
        let told = format!("[{reason}]; trying one message at a time");
        assert_eq!(ended.stderr.matches(&told).count(), 1, "{}", ended.stderr);
        let dead = if protocol == "stdin" { 20 } else { 0 };
        ended
            .summary()
            .is(&[("dead", dead), ("applied", 60 - dead)]);
    }
}

const ASIDE: &str = r#"
[pipelines.p]
source = { kind = "stdin" }
key = "json:/id"
retry = { attempts = 1 }
effect = { kind = "exec", command = ["sh", "-c", 'read line; case "$line" in *doubt*) sleep 9;; *) exit 1;; esac'], timeout = "300ms" }
"#;

#[test]
fn what_waits_for_a_person_is_counted_after_a_restart_too() {
    let admin = Admin::new();
    let config = format!("{}{ASIDE}", admin.table());
    let site = Site::with(&[("semel.toml", &config)]);
    let input = "{\"id\":\"doubt-1\"}\n{\"id\":\"doubt-2\"}\n{\"id\":\"dead\"}\n{\"no\":1}\n{\"no\":2}\n{\"id\":\"dead-2\"}\n{\"no\":3}\n";
    let mut command = site.command();
    Running::start_with(command.args(["run", "--output", "json"]), input)
        .wait()
        .done()
        .summary()
        .is(&[("dead", 2), ("in_doubt", 2), ("quarantined", 3)]);
    let running = idle(&site);
    for (why, count) in [("dead", 2), ("in_doubt", 2), ("quarantined", 3)] {
        wait_for("what is set aside", || {
            admin.shows(&format!(
                "semel_set_aside{{pipeline=\"p\",why=\"{why}\"}} {count}"
            ))
        });
    }
    assert!(admin.shows("semel_source_connected{pipeline=\"p\"} 1"));
    let store = format!("embedded:{}", site.path("semel-data").display());
    assert!(
        admin.shows(&format!("semel_breaker_open{{store=\"{store}\"}} 0")),
        "{}",
        admin.metrics()
    );
    running.signal(Signal::TERM);
    running.wait();
}

const ELSEWHERE: &str = r#"
[store]
url_file = "secrets/store"
[pipelines.p]
source = { kind = "file", path = "in.ndjson" }
key = "json:/id"
effect = { kind = "exec", command = ["./append", "out"], class = "unkeyed" }
"#;

#[test]
fn a_relative_path_is_relative_to_its_file_and_the_store_is_named() {
    let site = Site::new();
    for folder in ["conf/secrets", "work"] {
        std::fs::create_dir_all(site.path(folder)).expect("a folder");
    }
    for (name, text) in [
        ("conf/semel.toml", ELSEWHERE),
        ("conf/secrets/store", "embedded:./data"),
        ("conf/in.ndjson", "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n"),
        ("conf/append", "#!/bin/sh\necho \"$(cat)\" >> \"$1\"\n"),
    ] {
        site.write(name, text);
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(site.path("conf/append"), mode).expect("a program");
    let run = |more: &[&str]| {
        let mut command = site.command();
        command.current_dir(site.path("work"));
        command.args(["run", "--config", "../conf/semel.toml"]);
        Running::start(command.args(more)).wait().done()
    };
    let data = site.path("conf/secrets/data");
    let store = format!("store embedded:{}", data.display());
    run(&[]).says(&format!("{store}: new and empty"));
    run(&[]).says(&format!("{store}: 3 keys"));
    // A program works in the current folder, and so do its arguments.
    assert_eq!(site.sorted_lines("work/out").len(), 3);
    // On a command line, the path is relative to the current folder.
    let here = site.path("work/here.db");
    run(&["--store", "sqlite:here.db"])
        .says(&format!("store sqlite:{}: new and empty", here.display()));
    run(&["--store", "sqlite:here.db"]).says(": 3 keys");
    let mut show = site.command();
    show.args(["config", "show", "--origin", "--config", "conf/semel.toml"]);
    let shown = Running::start(&mut show).wait().done().stdout;
    assert!(shown.contains("\"conf/in.ndjson\""), "{shown}");
    assert!(shown.contains("\"conf/append\""), "{shown}");
}
