//! Pipelines that are paused, drained and resumed, by verb and over HTTP, through crashes and on several stores.

mod http;

use std::io::Write;
use std::process::{ChildStdin, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::operator::{STORES, items};
use crate::postgres::Schema;
use crate::ready::Admin;
use crate::redis::Prefix;
use crate::site::{Running, Site, lines, wait_for};

/// A worker whose one pipeline reads standard input, and calls a program that notes its keys.
struct Paused {
    site: Site,
    admin: Admin,
    running: Running,
    stdin: ChildStdin,
}

/// The program: a key `again-…` is to be tried again until there is a file `open`, and `slow-…` waits for it.
const HANDLER: &str = "cat >/dev/null; echo \"$SEMEL_KEY\" >> calls\n\
    case $SEMEL_KEY in\n\
    again-*) test -e open || exit 75;;\n\
    slow-*) while ! test -e open; do sleep 0.02; done;;\n\
    esac\n\
    echo \"$SEMEL_KEY\" >> done\n";

/// Returns a program for an effect with `protocol = "jsonl"`: it adds a line to `out` for each call, and keeps the one of
/// each of these counts waiting until there is a file `open-` with that count.
pub(crate) fn gated(counts: &[usize]) -> String {
    format!(
        "import json, os, sys, time\nout = open('out', 'a', buffering=1)\ncount = sum(1 for _ in open('out'))\n\
         for line in sys.stdin:\n    request = json.loads(line)\n\
         \x20   out.write('{{\"id\":\"' + request['key'] + '\"}}\\n')\n    count += 1\n\
         \x20   while count in {counts:?} and not os.path.exists('open-' + str(count)):\n\
         \x20       time.sleep(0.01)\n\
         \x20   print(json.dumps({{'id': request['id'], 'status': 'done'}}), flush=True)\n"
    )
}

impl Paused {
    fn start(store: &str, more: &str) -> Self {
        let site = Site::new();
        let admin = Admin::new();
        site.write("handler.sh", HANDLER);
        site.write(
            "semel.toml",
            format!(
                "shutdown = \"1s\"\n[store]\nurl = \"{store}\"\n{}[pipelines.pay]\nkey = \"json:/id\"\n\
                 source = {{ kind = \"stdin\" }}\n{more}\n\
                 effect = {{ kind = \"exec\", command = [\"sh\", \"handler.sh\"], timeout = \"10m\" }}\n",
                admin.table()
            ),
        );
        let (running, stdin) = begun(&site, "semel.toml");
        let mut paused = Self {
            site,
            admin,
            running,
            stdin,
        };
        wait_for("a worker that runs", || {
            let is_there = paused.running.is_running();
            assert!(is_there, "{}", paused.running.stderr());
            paused.told()["state"] == "running"
        });
        paused
    }

    /// Ends it as a crash does, and starts it again.
    fn killed_and_started(&mut self) {
        self.running.signal(Signal::KILL);
        wait_for("the end", || !self.running.is_running());
        (self.running, self.stdin) = begun(&self.site, "semel.toml");
        wait_for("a worker that tells how it is", || !self.told().is_null());
    }

    fn send(&mut self, keys: &[&str]) {
        let text = lines(keys, |key| format!("{{\"id\":\"{key}\"}}"));
        self.stdin.write_all(text.as_bytes()).expect("a pipe");
    }

    /// Gives an order by its verb.
    #[track_caller]
    fn order(&self, verb: &str) {
        order(&self.site, verb, "pay");
    }

    /// The pipeline, as `/readyz` tells.
    fn told(&self) -> Value {
        self.admin.ready().1["pipelines"]["pay"].clone()
    }

    /// Waits until the pipeline is in this state.
    #[track_caller]
    fn is(&self, state: &str) {
        wait_for(state, || self.told()["state"] == state);
    }

    /// Waits for these calls, in any order.
    #[track_caller]
    fn has_done(&self, keys: &[&str]) {
        let mut expected: Vec<_> = keys.iter().map(|it| (*it).to_owned()).collect();
        expected.sort_unstable();
        wait_for("what is to be done", || {
            self.site.sorted_lines("done").len() >= expected.len()
        });
        assert_eq!(self.site.sorted_lines("done"), expected);
    }
}

fn begun(site: &Site, config: &str) -> (Running, ChildStdin) {
    let mut command = site.command();
    command.args(["run", config, "--output", "json"]);
    piped(command.stdin(Stdio::piped()))
}

/// Starts a command, and returns the end of its standard input.
fn piped(command: &mut std::process::Command) -> (Running, ChildStdin) {
    let mut running = Running::start(command);
    let stdin = running.take_stdin().expect("a pipe");
    (running, stdin)
}

/// Gives an order by its verb, with the plan before it.
#[track_caller]
pub(crate) fn order(site: &Site, verb: &str, pipeline: &str) {
    site.semel(&["pipelines", verb, pipeline])
        .code(1)
        .says(&format!("plan: {verb} 1 pipeline"))
        .says("nothing was changed");
    let words = ["--yes", "--by", "ada", "--reason", "INC-7"];
    site.semel(&[&["pipelines", verb, pipeline][..], &words].concat())
        .done();
}

#[test]
fn a_pipeline_that_is_paused_stays_so_through_a_crash_and_loses_nothing() {
    for store in STORES {
        let mut worker = Paused::start(store, "");
        worker.send(&["a-1", "a-2"]);
        worker.has_done(&["a-1", "a-2"]);
        assert!(worker.admin.shows("semel_paused{pipeline=\"pay\"} 0"));
        worker.order("pause");
        worker.is("paused");
        let told = worker.told();
        assert_eq!(told["paused"]["order"], "pause", "{told}");
        assert_eq!(told["paused"]["by"], "ada", "{told}");
        assert_eq!(told["paused"]["reason"], "INC-7", "{told}");
        let (is_ready, whole) = worker.admin.ready();
        assert!(is_ready, "an order is no trouble: {whole}");
        assert!(worker.admin.shows("semel_paused{pipeline=\"pay\"} 1"));
        worker.send(&["b-1", "a-1"]);
        let said = worker.running.stderr();
        let says = "pay: paused by ada: INC-7; to go on: semel pipelines resume pay";
        assert!(said.contains(says), "{said}");
        // It is a record of the store: nobody has to be asked for it.
        worker.killed_and_started();
        worker.is("paused");
        worker.send(&["b-1", "c-1"]);
        std::thread::sleep(std::time::Duration::from_millis(300));
        worker.has_done(&["a-1", "a-2"]);
        let listed = worker
            .site
            .semel(&["pipelines", "list", "--output", "json"]);
        let listed = items(&listed.done());
        assert_eq!(listed[0]["order"], "pause", "{listed:?}");
        assert_eq!(listed[0]["by"], "ada", "{listed:?}");
        let checked = worker.site.semel(&["check"]).done().stdout;
        let finding = "pipeline-paused: an order to pause, given ";
        assert!(checked.contains(finding), "{checked}");
        worker.order("resume");
        worker.has_done(&["a-1", "a-2", "b-1", "c-1"]);
        let checked = worker.site.semel(&["check"]).done().stdout;
        assert!(!checked.contains("pipeline-paused"), "{checked}");
        worker.is("running");
        assert!(worker.admin.shows("semel_paused{pipeline=\"pay\"} 0"));
        let said = worker.running.stderr();
        assert!(said.contains("pay: runs again"), "{said}");
        drop(worker.stdin);
        let ended = worker.running.wait().done();
        ended.summary().is(&[("deliveries", 2), ("applied", 2)]);
        let trail = worker.site.trail();
        let trail: Vec<_> = trail
            .iter()
            .map(|[by, action, ..]| (&**by, &**action))
            .collect();
        assert_eq!(trail, [("ada", "pause"), ("ada", "resume")]);
    }
}

#[test]
fn what_runs_is_finished_and_what_waits_is_given_back() {
    let retry = "retry = { backoff = \"1h\" }\npause_after = 0";
    let mut worker = Paused::start("embedded:data", retry);
    worker.send(&["again-1", "slow-1"]);
    wait_for("both calls", || {
        worker.site.sorted_lines("calls").len() == 2
    });
    worker.order("pause");
    worker.is("pausing");
    worker.send(&["b-1"]);
    worker.site.write("open", "");
    worker.is("paused");
    worker.has_done(&["slow-1"]);
    // What waited for an hour is tried again.
    worker.order("resume");
    worker
        .site
        .semel(&["keys", "release", "again-1", "--yes"])
        .done();
    worker.has_done(&["slow-1", "again-1", "b-1"]);
    let calls = worker.site.sorted_lines("calls");
    assert_eq!(calls, ["again-1", "again-1", "b-1", "slow-1"]);
}

#[test]
fn a_pipeline_that_is_drained_finishes_what_waits_and_then_is_paused() {
    let retry = "retry = { backoff = \"200ms\", attempts = 1000 }\npause_after = 0";
    let mut worker = Paused::start("embedded:data", retry);
    worker.send(&["again-1", "a-1"]);
    worker.has_done(&["a-1"]);
    wait_for("a failure", || {
        worker.site.text("calls").contains("again-1")
    });
    worker.order("drain");
    worker.is("draining");
    worker.send(&["b-1"]);
    let before = worker.site.sorted_lines("calls").len();
    wait_for("another try", || {
        worker.site.sorted_lines("calls").len() > before
    });
    worker.is("draining");
    worker.site.write("open", "");
    worker.is("paused");
    worker.has_done(&["a-1", "again-1"]);
    worker.order("resume");
    worker.has_done(&["a-1", "again-1", "b-1"]);
    drop(worker.stdin);
    let ended = worker.running.wait().done();
    ended.summary().is(&[("deliveries", 3), ("applied", 3)]);
}

#[test]
fn an_order_to_drain_is_taken_back_or_made_a_pause_before_it_is_done() {
    let retry = "retry = { backoff = \"1h\" }\npause_after = 0";
    for next in ["resume", "pause"] {
        let mut worker = Paused::start("embedded:data", retry);
        worker.send(&["again-1"]);
        wait_for("a failure", || {
            worker.site.text("calls").contains("again-1")
        });
        worker.order("drain");
        worker.is("draining");
        worker.order(next);
        if next == "pause" {
            worker.is("paused");
            worker.order("resume");
        }
        worker.is("running");
        worker.send(&["b-1"]);
        worker.has_done(&["b-1"]);
    }
}

/// The folder of its output is gone when it is resumed: other pipelines go on meanwhile, and so does it once that is back.
#[test]
fn a_pipeline_that_cannot_go_on_is_told_of_and_ends_no_other() {
    let admin = Admin::new();
    let config = format!(
        "[store]\nurl = \"embedded:data\"\n{}[pipelines.pay]\nkey = \"json:/id\"\nsource = {{ kind = \"stdin\" }}\n\
         effect = {{ kind = \"file\", path = \"charges/out\" }}\n\
         [pipelines.ship]\nkey = \"json:/id\"\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         effect = {{ kind = \"exec\", command = [\"sh\", \"handler.sh\"], timeout = \"10m\" }}\n",
        admin.table()
    );
    let site = Site::with(&[
        ("semel.toml", &config),
        ("handler.sh", HANDLER),
        ("in", "{\"id\":\"slow-1\"}\n"),
    ]);
    let [folder, gone] = ["charges", "gone"].map(|it| site.path(it));
    std::fs::create_dir(&folder).expect("a folder");
    let (mut running, mut stdin) = begun(&site, "semel.toml");
    let has_lines = |count| {
        let text = std::fs::read_to_string(folder.join("out")).unwrap_or_default();
        text.lines().count() == count
    };
    stdin.write_all(b"{\"id\":\"a-1\"}\n").expect("a pipe");
    wait_for("an effect", || has_lines(1));
    order(&site, "pause", "pay");
    let told = |pipeline: &str| admin.ready().1["pipelines"][pipeline].clone();
    wait_for("a pause", || told("pay")["state"] == "paused");
    std::fs::rename(&folder, &gone).expect("a folder");
    order(&site, "resume", "pay");
    wait_for("a state", || told("pay")["state"] == "target-away");
    assert_eq!(told("pay")["reasons"][0]["code"], "target-unavailable");
    assert_eq!(told("ship")["state"], "running");
    let said = running.stderr();
    assert_eq!(said.matches("pay: cannot go on: ").count(), 1, "{said}");
    assert!(
        said.contains("[target-unavailable]; trying again"),
        "{said}"
    );
    site.write("open", "");
    wait_for("the other pipeline", || {
        site.path("done").exists() && site.text("done").contains("slow-1")
    });
    assert!(running.is_running(), "{}", running.stderr());
    std::fs::rename(&gone, &folder).expect("a folder");
    stdin.write_all(b"{\"id\":\"b-1\"}\n").expect("a pipe");
    wait_for("another effect", || has_lines(2));
    assert!(running.stderr().contains("pay: goes on after "));
    wait_for("a worker that is ready", || admin.ready().0);
    drop(stdin);
    running.wait().done();
}

#[test]
fn a_stop_does_not_wait_for_an_order() {
    let mut worker = Paused::start("embedded:data", "");
    worker.send(&["slow-1"]);
    wait_for("the call", || worker.site.text("calls").contains("slow-1"));
    worker.order("pause");
    worker.is("pausing");
    // The call has the time of a stop, and no more.
    worker.running.signal(Signal::TERM);
    let ended = worker.running.wait().done();
    // Nobody knows what became of it, and the stop says so.
    ended.summary().is(&[("deliveries", 1), ("in_doubt", 1)]);
    assert_eq!(worker.site.text("done"), "");
    // One that is paused ends at once.
    let (running, _stdin) = begun(&worker.site, "semel.toml");
    let admin = &worker.admin;
    wait_for("the pause", || {
        admin.ready().1["pipelines"]["pay"]["state"] == "paused"
    });
    running.signal(Signal::TERM);
    running.wait().done().summary().is(&[("deliveries", 0)]);
}

#[test]
fn a_file_goes_on_at_the_line_where_it_was_paused() {
    let admin = Admin::new();
    let mut expected: Vec<_> = (0..600)
        .map(|at| format!("{{\"id\":\"k-{at}\"}}"))
        .collect();
    let input = lines(&expected, String::clone);
    let gates = [50, 300];
    let config = format!(
        "[store]\nurl = \"embedded:data\"\n{}[pipelines.pay]\nkey = \"json:/id\"\nbatch = 10\n\
         source = {{ kind = \"file\", path = \"in\" }}\n\
         effect = {{ kind = \"exec\", protocol = \"jsonl\", command = [\"python3\", \"-u\", \"handler.py\"], timeout = \"10m\" }}\n",
        admin.table()
    );
    let site = Site::with(&[
        ("semel.toml", &config),
        ("in", &input),
        ("handler.py", &gated(&gates)),
    ]);
    let running = site.start(&["run", "--output", "json"]);
    let calls = || site.text("out").lines().count();
    let is = |state: &str| {
        wait_for(state, || {
            admin.ready().1["pipelines"]["pay"]["state"] == state
        });
    };
    for gate in gates {
        is("running");
        wait_for("some calls", || calls() >= gate);
        order(&site, "pause", "pay");
        is("pausing");
        site.write(&format!("open-{gate}"), "");
        is("paused");
        assert!(calls() < 600, "it was paused in the midst");
        order(&site, "resume", "pay");
    }
    let summary = running.wait().done().summary();
    // Each line was handed over again only if it was given back.
    let (applied, released) = (summary.count("applied"), summary.count("released"));
    assert_eq!(
        (applied, summary.count("replayed")),
        (600, 0),
        "{summary:?}"
    );
    assert_eq!(
        summary.count("deliveries"),
        applied + released,
        "{summary:?}"
    );
    expected.sort_unstable();
    let out = site.sorted_lines("out");
    assert_eq!(out, expected, "none was called twice");
}

/// Two workers on one store follow one order, and do not wait for each other.
fn both_are_paused(url: &str) {
    let config = |admin: &Admin| {
        format!(
            "[store]\nurl = \"{url}\"\n{}[pipelines.pay]\nkey = \"json:/id\"\nsource = {{ kind = \"stdin\" }}\n\
             effect = {{ kind = \"exec\", command = [\"sh\", \"handler.sh\"] }}\n",
            admin.table()
        )
    };
    let admins = [Admin::new(), Admin::new()];
    let site = Site::with(&[
        ("handler.sh", HANDLER),
        ("semel.toml", &config(&admins[0])),
        ("two.toml", &config(&admins[1])),
    ]);
    let state = |admin: &Admin| admin.ready().1["pipelines"]["pay"]["state"].clone();
    let mut workers = ["semel.toml", "two.toml"].map(|config| begun(&site, config));
    for admin in &admins {
        wait_for("a worker", || state(admin) == "running");
    }
    order(&site, "pause", "pay");
    for admin in &admins {
        wait_for("a pause", || state(admin) == "paused");
    }
    for (_, stdin) in &mut workers {
        stdin.write_all(b"{\"id\":\"once\"}\n").expect("a pipe");
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(site.text("done"), "", "both are paused");
    order(&site, "resume", "pay");
    let ends = workers.map(|(running, stdin)| {
        drop(stdin);
        running.wait().done().summary()
    });
    let applied: u64 = ends.iter().map(|it| it.count("applied")).sum();
    assert_eq!(applied, 1, "{ends:?}");
    assert_eq!(site.sorted_lines("done"), ["once"]);
}

#[test]
fn every_worker_on_a_store_of_postgres_follows_an_order() {
    let schema = Schema::new();
    both_are_paused(&schema.url());
}

#[test]
fn every_worker_on_a_store_of_redis_follows_an_order() {
    let prefix = Prefix::new();
    both_are_paused(&prefix.url());
}

#[test]
fn an_order_names_pipelines_of_the_configuration() {
    let worker = Paused::start("sqlite:s.db", "");
    worker
        .site
        .semel(&["pipelines", "pause", "pai", "--yes"])
        .code(2)
        .says("the configuration has no pipeline or relay `pai`");
    worker
        .site
        .semel(&["pipelines", "resume", "pay", "--yes"])
        .done()
        .says("pay: it is not paused; left as it is")
        .says("nothing to resume: no pipelines");
    worker.order("drain");
    worker
        .site
        .semel(&["pipelines", "drain", "pay", "--yes"])
        .done()
        .says("pay: it is drained since");
    let config = worker.site.text("semel.toml");
    let config = config.replace("pipelines.pay", "pipelines.semel-drain");
    worker.site.write("reserved.toml", config);
    let check = worker.site.semel(&["config", "check", "reserved.toml"]);
    let faults = check.code(1).stdout;
    let says = "`semel-drain` is the name that orders about pipelines are recorded under";
    assert!(faults.contains(says), "{faults}");
}
