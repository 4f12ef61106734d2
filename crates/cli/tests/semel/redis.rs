//! The binary with its store on a real Redis server, which `SEMEL_TEST_REDIS_URL` names, and on the
//! cluster of `SEMEL_TEST_REDIS_CLUSTER_URL`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use crate::operator::object;
use crate::servers::{
    GUARDED, PASSWORD, Told, an_outage_is_played, every_verb_works, goes_there_and_back, is_silent,
    no_failure_prints_the_password, no_verb_prints_the_password, nobody_who_looks_makes_a_store,
    told,
};
use crate::site::{Site, lines, wait_for};
use crate::starts::Fresh;

/// A prefix that no other test uses, emptied at the end.
pub(crate) struct Prefix {
    server: String,
    name: String,
}

impl Prefix {
    pub(crate) fn new() -> Self {
        Self::on("SEMEL_TEST_REDIS_URL", "redis")
    }

    fn on_cluster() -> Self {
        Self::on("SEMEL_TEST_REDIS_CLUSTER_URL", "redis-cluster")
    }

    fn on(variable: &str, service: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let server = std::env::var(variable).unwrap_or_else(|_| {
            panic!(
                "{variable} names no server: run `cargo xtask services up {service}` and `source \
                 target/services/env`"
            )
        });
        Self {
            server,
            name: format!("cli-{}-{number}", std::process::id()),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?prefix={}", self.server, self.name)
    }

    /// The url for a user with a password, whom this creates.
    fn guarded(&self, password: &str) -> String {
        self.command(&format!("ACL SETUSER {GUARDED} on >{PASSWORD} ~* &* +@all"));
        let (scheme, place) = self.server.split_once("://").expect("a url");
        format!(
            "{scheme}://{GUARDED}:{password}@{place}?prefix={}",
            self.name
        )
    }

    /// Tells whether any key of the prefix exists.
    fn is_there(&self) -> bool {
        let count = "EVAL \"return #redis.call('keys', ARGV[1])\" 0 ";
        self.command(&format!("{count}{}*", self.name)) != ":0"
    }

    /// Sends a command to each server; returns the first line of the last answer.
    fn command(&self, command: &str) -> String {
        let (_, places) = self.server.split_once("://").expect("a url");
        let mut said = String::new();
        for place in places.split(',') {
            let mut server = TcpStream::connect(place).expect("the server of the tests");
            write!(server, "{command}\r\nQUIT\r\n").expect("a server that listens");
            said.clear();
            let mut answer = BufReader::new(server);
            answer.read_line(&mut said).expect("an answer");
            assert!(!said.starts_with('-'), "{command}: {said}");
            // Reads until the server hangs up, so that the command is done.
            let _ = answer.read_to_end(&mut Vec::new());
        }
        said.trim_end().to_owned()
    }
}

impl Fresh for Prefix {
    fn fresh() -> Self {
        Self::new()
    }

    fn store_url(&self) -> String {
        self.url()
    }

    fn statement(&self) -> Option<String> {
        None
    }

    fn charges(&self) -> u64 {
        0
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        let remove = "EVAL \"for _, key in ipairs(redis.call('keys', ARGV[1])) do \
                      redis.call('del', key) end\" 0 ";
        self.command(&format!("{remove}{}*", self.name));
    }
}

fn site(url: &str, pipeline: &str, effect: &str, input: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"{url}\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\n{pipeline}\n[pipelines.p.effect]\n{effect}\n"
    );
    Site::with(&[("semel.toml", &config), ("in", input)])
}

#[test]
fn a_command_is_called_once_for_each_payment_however_often_the_run_is_killed() {
    let prefix = Prefix::new();
    // Each call leaves a file as its log, and an interrupted one is called again under the same key.
    let effect = "kind = \"exec\"\nprotocol = \"jsonl\"\nclass = \"keyed\"\nprovider_window = \"1h\"\n\
                  command = [\"python3\", \"-u\", \"handler.py\"]";
    let handler = "import json, os, sys\n\
                   for line in sys.stdin:\n    request = json.loads(line)\n\
                   \x20   open(os.path.join('done', request['idempotency_key']), 'a').close()\n\
                   \x20   print(json.dumps({'id': request['id'], 'status': 'done'}), flush=True)\n";
    let input = lines(0..3_000, |id| format!("{{\"id\":\"pay-{}\"}}", id % 2_000));
    let site = site(
        &prefix.url(),
        "lease = \"200ms\"\nbatch = 50",
        effect,
        &input,
    );
    site.write("handler.py", handler);
    std::fs::create_dir(site.path("done")).expect("a folder");
    let done = || {
        std::fs::read_dir(site.path("done"))
            .expect("a folder")
            .count()
    };
    for kill in 1..=2 {
        let running = site.start(&["run"]);
        wait_for("some calls", || done() >= kill * 300);
        running.signal(Signal::KILL);
        running.wait();
    }
    let summary = site.run();
    assert_eq!(done(), 2_000, "every payment under one key");
    assert_eq!(
        summary.count("applied") + summary.count("replayed"),
        3_000,
        "{summary:?}"
    );
    site.run().is(&[("replayed", 3_000)]);
}

#[test]
fn two_processes_share_the_work_on_a_cluster() {
    let prefix = Prefix::on_cluster();
    let effect =
        "kind = \"exec\"\nclass = \"keyed\"\nprovider_window = \"1d\"\ncommand = [\"true\"]";
    let input = lines(0..200, |id| format!("{{\"id\":\"pay-{}\"}}", id % 100));
    let site = site(&prefix.url(), "batch = 10", effect, &input);
    let runs = [(); 2].map(|()| site.start(&["run", "--output", "json"]));
    let summaries = runs.map(|run| run.wait().done().summary());
    let sum = |fate| {
        summaries
            .iter()
            .map(|summary| summary.count(fate))
            .sum::<u64>()
    };
    assert_eq!((sum("applied"), sum("replayed")), (100, 300));
}

#[test]
fn every_operating_verb_works() {
    for prefix in [Prefix::new(), Prefix::on_cluster()] {
        every_verb_works(&prefix.url());
    }
}

#[test]
fn what_a_store_holds_goes_there_and_back() {
    for prefix in [Prefix::new(), Prefix::on_cluster()] {
        goes_there_and_back(&prefix.url());
    }
}

#[test]
fn whoever_looks_makes_no_store() {
    for prefix in [Prefix::new(), Prefix::on_cluster()] {
        nobody_who_looks_makes_a_store(&prefix.url());
    }
}

#[test]
fn lines_are_printed_once_where_doubts_are_left_out() {
    let prefix = Prefix::new();
    let url = prefix.url();
    let site = Site::with(&[("in", "b\na\nb\n")]);
    let dedup = |rest: &[&str]| site.semel(&[&["dedup", "--store", &url, "in"], rest].concat());
    assert_eq!(dedup(&["--on-doubt", "park"]).done().stdout, "b\na\n");
    assert_eq!(dedup(&["--on-doubt", "park"]).done().stdout, "");
    for rest in [&[][..], &["--to", "out"]] {
        dedup(rest)
            .code(2)
            .says("print with --on-doubt park")
            .says("[unsupported]");
    }
    assert!(!site.path("out").exists());
}

#[test]
fn what_redis_cannot_do_is_a_fault_of_the_configuration() {
    let (one, cluster) = (Prefix::new(), Prefix::on_cluster());
    let gate = "entity = \"json:/sku\"\nversion = \"json:/v\"";
    let stdout = "kind = \"stdout\"\non_doubt = \"repeat\"";
    for (url, pipeline, effect, why) in [
        (
            one.url(),
            "",
            "kind = \"file\"\npath = \"out\"",
            "`file` needs a store that writes the length",
        ),
        (
            one.url(),
            "",
            "kind = \"sql\"\nstatement = \"select 1\"",
            "`sql` runs in the store's own transaction",
        ),
        (
            cluster.url(),
            gate,
            stdout,
            "a version gate changes two keys together",
        ),
    ] {
        let site = site(&url, pipeline, effect, "");
        let check = site.semel(&["config", "check"]).code(1);
        assert!(check.stdout.contains(why), "{check:?}");
        site.semel(&["run"]).code(2);
    }
    site(
        &one.url(),
        gate,
        stdout,
        "{\"id\":1,\"sku\":\"a\",\"v\":1}\n",
    )
    .semel(&["run"])
    .done();
    assert!(one.is_there() && !cluster.is_there());
    let site = Site::new();
    let init = ["init", "shop", "--store", "redis"];
    site.semel(&[&init[..], &["--effect", "file"]].concat())
        .code(2);
    site.semel(&[&init[..], &["--effect", "sql"]].concat())
        .code(2);
    site.semel(&init).done();
    let config = site.text("shop/semel.toml");
    assert!(
        config.contains("url = \"redis://127.0.0.1:6379\"\n"),
        "{config}"
    );
    let check = site.semel(&["config", "check", "shop/semel.toml"]).done();
    assert!(
        check.stdout.contains("store redis://127.0.0.1:6379"),
        "{check:?}"
    );
}

#[test]
fn a_store_that_is_away_is_waited_for() {
    let prefix = Prefix::new();
    let url = prefix.url();
    crate::servers::a_store_that_is_away_is_waited_for(&url, &crate::servers::place_of(&url));
}

#[test]
fn an_idle_worker_says_that_its_store_is_gone_and_that_it_is_back() {
    let prefix = Prefix::new();
    let url = prefix.url();
    let place = crate::servers::place_of(&url);
    crate::servers::an_idle_worker_says_that_its_store_is_gone_and_that_it_is_back(&url, &place);
}

#[test]
fn a_wait_for_the_store_ends_when_asked_to() {
    let prefix = Prefix::new();
    let url = prefix.url();
    crate::servers::a_wait_for_the_store_ends_when_asked_to(&url, &crate::servers::place_of(&url));
}

#[test]
fn a_server_that_cannot_be_used_is_told() {
    let prefix = Prefix::new();
    for (url, code, words) in [
        (
            "redis://:c4n4ry@127.0.0.1:1".to_owned(),
            3,
            "cannot be reached",
        ),
        (prefix.guarded("wrong"), 2, "Redis"),
        (
            format!("{}/nonsense?prefix=a", prefix.server),
            2,
            "the number of a database",
        ),
        (
            format!("{}?prefx=a", prefix.server),
            2,
            "`prefx` that is not known",
        ),
    ] {
        let site = site(
            &url,
            "",
            "kind = \"stdout\"\non_doubt = \"repeat\"",
            "{\"id\":1}\n",
        );
        for verb in [&["run"][..], &["keys", "list"], &["store", "stats"]] {
            // A run waits for a server that is away.
            if code == 3 && verb == ["run"] {
                continue;
            }
            let ended = site.semel(verb).code(code).says(words);
            assert!(!ended.stderr.contains(PASSWORD), "{ended:?}");
        }
    }
}

#[test]
fn a_check_reads_what_the_server_survives() {
    let prefix = Prefix::new();
    let effect = "kind = \"exec\"\ncommand = [\"true\"]";
    let site = site(&prefix.url(), "birth = \"json:/at\"", effect, "");
    let report = object(&site.semel(&["check", "--output", "json"]).done());
    assert_eq!(report["store"]["survives"], "power-cut");
    assert_eq!(report["verdict"], "ok", "{report}");
}

#[test]
fn no_verb_prints_the_password_of_its_store() {
    for how in Told::ALL {
        let prefix = Prefix::new();
        no_verb_prints_the_password(&prefix.guarded(PASSWORD), how);
    }
}

#[test]
fn no_failure_prints_the_password_of_its_store() {
    let prefix = Prefix::new();
    let wrong = prefix.guarded(&format!("{PASSWORD}-wrong"));
    for url in [
        &*wrong,
        &format!("redis://:{PASSWORD}@127.0.0.1:1/x{PASSWORD}"),
        &format!("redis://{PASSWORD}@127.0.0.1:1"),
        &format!("redis://:{PASSWORD}/{PASSWORD}@127.0.0.1:1/0"),
        &format!("redis+cluster://:{PASSWORD}@127.0.0.1:1,127.0.0.1:2"),
        &format!("redis://:%zz{PASSWORD}@127.0.0.1:1"),
        &format!("redis://:{PASSWORD}@127.0.0.1:1?password={PASSWORD}#{PASSWORD}"),
    ] {
        no_failure_prints_the_password(url);
    }
    // A client that waits for an answer until its patience ends.
    let tls = wrong.replace("redis://", "rediss://");
    let site = Site::new();
    is_silent(&told(&site, &tls, Told::Option, &["keys", "list"]).code(3));
}

#[test]
fn the_drill_of_an_outage_passes() {
    an_outage_is_played(&Prefix::new().url());
}

/// A user who may not ask for the settings is told that nobody knows them, and gets the answer in the summary.
#[cfg(feature = "nats")]
#[test]
fn a_server_that_does_not_say_what_it_keeps_is_told_of_before_anything_is_sent() {
    use crate::brokers::{Place as _, nats::Stream, producer};

    let (prefix, target, site) = (Prefix::new(), Stream::new(), Site::new());
    let user = prefix.name.clone();
    prefix.command(&format!(
        "ACL SETUSER {user} on >{PASSWORD} ~* &* +@all -config"
    ));
    let url = prefix.url();
    let url = url.replacen("://", &format!("://{user}:{PASSWORD}@"), 1);
    site.write("rows.ndjson", "{\"id\":1,\"customer\":\"a\"}\n");
    let with = ["--store", &url, "rows.ndjson"];
    let publish = producer::arguments(&target, &Stream::address(), &with);
    let done = producer::run(&site, &publish).done();
    prefix.command(&format!("ACL DELUSER {user}"));
    let done = done.says(&format!("warning: redis://{user}:***@"));
    let told = done.stderr.matches("does not tell appendfsync").count();
    assert_eq!(told, 1, "{done:#?}");
    assert!(!done.stderr.contains(PASSWORD) && !done.stdout.contains(PASSWORD));
    let summary = object(&done);
    assert_eq!(summary["published"], 1, "{summary}");
    let warning = summary["warnings"][0].as_str().expect("a line");
    assert!(warning.contains("appendfsync"), "{warning}");
}
