//! Messages that a running worker runs again for the admin API, in its own process: what is foretold and reported is what
//! the verbs print, and effects are counted outside, whatever becomes of the caller and of the worker.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::access::{listens, token};
use crate::claims::server::{Reply, Request, ask};
use crate::operator::{STORES, items};
use crate::site::{Running, Site, lines, wait_for};

/// A site whose pipeline has set messages aside, and perhaps a worker that has its store open.
pub(crate) struct Troubled {
    pub(crate) site: Site,
    pub(crate) port: u16,
    /// The token of its requests.
    token: String,
}

/// Sets messages aside while it is broken; else notes each key in a file, and waits while it is shut.
const HANDLER: &str = "
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    key = request['key']
    status = 'done'
    if os.path.exists('broken'):
        status = 'unknown' if key.startswith('doubt') else 'dead'
    else:
        with open('out', 'a') as out:
            print(key, file=out)
        if os.path.exists('slow'):
            time.sleep(0.005)
        while os.path.exists('shut'):
            time.sleep(0.005)
    print(json.dumps({'id': request['id'], 'status': status, 'error': 'declined'}), flush=True)
";

/// An effect whose target knows its keys, and one whose doubts are for a person.
pub(crate) const KEYED: &str = "class = \"keyed\", provider_window = \"24h\"";
const PARKED: &str = "class = \"unkeyed\", on_doubt = \"park\"";

impl Troubled {
    /// Makes one over this store, of an effect of this class, that has met these messages.
    pub(crate) fn new(store: &str, class: &str, input: &str) -> Self {
        Self::at("127.0.0.1", store, class, input)
    }

    pub(crate) fn at(host: &str, store: &str, class: &str, input: &str) -> Self {
        let port = free_port::take().expect("a free port");
        let config = format!(
            "[store]\nurl = \"{store}\"\n[admin]\nlisten = \"{host}:{port}\"\n[pipelines.pay]\nkey = \"json:/id\"\n\
             lease = \"5s\"\npause_after = 0\nretry = {{ attempts = 1 }}\nsource = {{ kind = \"file\", path = \"in\" }}\n\
             effect = {{ kind = \"exec\", protocol = \"jsonl\", command = [\"python3\", \"-u\", \"handler.py\"], {class} }}\n"
        );
        let site = Site::with(&[
            ("semel.toml", &config),
            ("handler.py", HANDLER),
            ("in", input),
            ("broken", ""),
        ]);
        let token = token(&site, "ada --role operator");
        site.run();
        std::fs::remove_file(site.path("broken")).expect("it was broken");
        let from_stdin = config.replace("kind = \"file\", path = \"in\"", "kind = \"stdin\"");
        site.write("semel.toml", from_stdin);
        Self { site, port, token }
    }

    /// Starts a worker that has the store open.
    pub(crate) fn worker(&self) -> Running {
        let mut command = self.site.command();
        command.arg("run").stdin(Stdio::piped());
        let mut running = Running::start(&mut command);
        listens(&mut running, self.port);
        wait_for("a worker that is ready", || {
            ask(self.port, &Request::get("/readyz")).status == 200
        });
        running
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        let mut headers = vec![("authorization", &*self.token)];
        if method == "POST" {
            headers.push(("content-type", "application/json"));
        }
        let request = Request {
            headers,
            body: body.as_bytes(),
            ..Request::get(path).with_method(method)
        };
        ask(self.port, &request)
    }

    #[track_caller]
    fn plan(&self, action: &str, body: &Value) -> Value {
        let path = format!("/v1/{action}/plan");
        let plan = self.send("POST", &path, &body.to_string());
        assert_eq!(plan.status, 200, "{plan:?}");
        plan.body
    }

    fn carry_out(&self, action: &str, plan: &Value) -> Reply {
        self.send("POST", &format!("/v1/{action}/do"), &order(plan))
    }

    /// Sends the order and hangs up once `count` effects have begun.
    fn hang_up(&self, action: &str, plan: &Value, count: usize) {
        let body = order(plan);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let head = format!(
            "POST /v1/{action}/do HTTP/1.1\r\nhost: localhost\r\nauthorization: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        wait_for("effects", || self.effects().len() >= count);
    }

    /// The only run, once it has ended.
    pub(crate) fn ended(&self) -> Value {
        let mut run = Value::Null;
        wait_for("the end of the run", || {
            let runs = self.send("GET", "/v1/runs", "").body;
            assert_eq!(runs["items"].as_array().map(Vec::len), Some(1), "{runs}");
            run = runs["items"][0].clone();
            run["state"] != "running"
        });
        let id = run["id"].as_str().expect("an id");
        self.send("GET", &format!("/v1/runs/{id}"), "").body
    }

    /// The effects, each of which must be the only one of its key.
    #[track_caller]
    pub(crate) fn effects(&self) -> BTreeSet<String> {
        let text = self.site.text("out");
        let mut once = BTreeSet::new();
        for key in text.lines() {
            assert!(once.insert(key.to_owned()), "{key} twice");
        }
        once
    }

    /// The items that a verb lists with `--output json`.
    fn listed(&self, verb: &str) -> Vec<Value> {
        let words: Vec<_> = verb.split(' ').chain(["--output", "json"]).collect();
        items(&self.site.semel(&words))
    }
}

fn order(plan: &Value) -> String {
    json!({ "token": plan["token"], "reason": "the bank is back" }).to_string()
}

pub(crate) fn ids(from: usize, to: usize) -> String {
    lines(from..to, |at| format!("{{\"id\":\"pay-{at}\"}}"))
}

/// A message for each action, and one of a doubt.
pub(crate) fn mixed() -> String {
    "{\"id\":\"dead-1\"}\n{\"id\":\"doubt-1\"}\n{\"id\":\"dead-1\",\"amount\":2}\n{\"name\":\"none\"}\n".to_owned()
}

/// The action, the verb that foretells the same, and how many changes there are.
pub(crate) const ACTIONS: [(&str, &str, usize); 3] = [
    ("in-doubt/retry", "in-doubt retry --all", 1),
    ("dead-letters/replay", "dead-letters replay --all", 1),
    ("quarantine/release", "quarantine release --all", 2),
];

fn by_id(mut all: Vec<Value>) -> Vec<Value> {
    all.sort_by_key(|it| it["id"].to_string());
    all
}

#[test]
fn a_plan_is_what_its_verb_foretells() {
    for store in STORES {
        let troubled = Troubled::new(store, KEYED, &mixed());
        let _worker = troubled.worker();
        for (action, verb, count) in ACTIONS {
            let plan = troubled.plan(action, &json!({ "all": true }));
            let changes = plan["changes"].as_array().cloned().expect("changes");
            assert_eq!(changes.len(), count, "{store}: {plan}");
            assert_eq!(
                by_id(changes),
                by_id(troubled.listed(verb)),
                "{store}: {verb}"
            );
        }
        assert!(troubled.effects().is_empty(), "nothing was run");
    }
}

#[test]
fn a_report_has_what_its_verb_prints() {
    for (action, verb, count) in ACTIONS {
        // One site is for the verb, which runs the messages itself.
        let of_verb = Troubled::new("embedded:data", KEYED, &mixed());
        let words = [verb, "--yes --by ada --output json"].join(" ");
        let words: Vec<_> = words.split(' ').collect();
        let printed = of_verb.site.semel(&words);
        let mut printed: Value = serde_json::from_str(&printed.stdout).expect("JSON");
        let troubled = Troubled::new("embedded:data", KEYED, &mixed());
        let _worker = troubled.worker();
        let plan = troubled.plan(action, &json!({ "all": true }));
        let run = troubled.carry_out(action, &plan);
        assert_eq!(run.status, 200, "{run:?}");
        let changes = run.body["changes"].as_array().map(Vec::len);
        assert_eq!(changes, Some(count), "{run:?}");
        let mut reported = run.body["results"].clone();
        for it in [&mut reported[0], &mut printed] {
            it["elapsed_seconds"] = Value::Null;
        }
        assert_eq!(reported, json!([printed]), "{action}");
        assert_eq!(troubled.effects(), of_verb.effects(), "{action}");
    }
}

#[test]
fn two_thousand_dead_letters_run_once_each_although_the_caller_hangs_up() {
    for store in STORES {
        let troubled = Troubled::at("0.0.0.0", store, KEYED, &ids(0, 2_000));
        let _worker = troubled.worker();
        let plan = troubled.plan("dead-letters/replay", &json!({ "all": true }));
        assert_eq!(plan["foretold"], json!({ "runs": 2_000 }), "{store}");
        troubled.hang_up("dead-letters/replay", &plan, 1);
        let run = troubled.ended();
        assert_eq!(run["came"], json!({ "applied": 2_000 }), "{store}");
        assert_eq!(
            (&run["state"], &run["by"], &run["complete"]),
            (&"ended".into(), &"ada".into(), &true.into())
        );
        // It asks again, and is told of the same run.
        let again = troubled.carry_out("dead-letters/replay", &plan);
        assert_eq!((again.status, &again.body["id"]), (200, &run["id"]));
        assert_eq!(troubled.effects().len(), 2_000);
        assert!(troubled.listed("dead-letters list").is_empty());
        let audit = troubled.listed("store audit");
        let count = |action: &str, reason: &str| {
            let all = audit
                .iter()
                .filter(|it| it["action"] == action && it["reason"] == reason && it["by"] == "ada");
            all.count()
        };
        let dropped = count("drop", "the bank is back; ran again: completed");
        let requeued = count("requeue", "the bank is back");
        assert_eq!((requeued, dropped), (2_000, 2_000), "{store}");
    }
}

#[test]
fn a_worker_that_is_killed_loses_nothing_and_the_next_one_doubles_nothing() {
    for store in STORES {
        let troubled = Troubled::new(store, PARKED, &ids(0, 400));
        troubled.site.write("slow", "");
        let mut worker = troubled.worker();
        let plan = troubled.plan("dead-letters/replay", &json!({ "all": true }));
        troubled.hang_up("dead-letters/replay", &plan, 40);
        worker.signal(Signal::KILL);
        wait_for("the end", || !worker.is_running());
        std::fs::remove_file(troubled.site.path("slow")).expect("it was slow");
        let _worker = troubled.worker();
        assert_eq!(
            troubled.send("GET", "/v1/runs", "").body["items"],
            json!([])
        );
        let stale = troubled.carry_out("dead-letters/replay", &plan);
        stale.is_problem(409, "plan-stale");
        // What was in hand waits for the leases of the dead worker, or for a person.
        wait_for("all to be run, or in doubt", || {
            let all = json!({ "all": true });
            let plan = troubled.plan("dead-letters/replay", &all);
            if plan["foretold"].get("runs").is_some() || plan["foretold"].get("done").is_some() {
                let run = troubled.carry_out("dead-letters/replay", &plan);
                assert!([200, 202, 409].contains(&run.status), "{run:?}");
            }
            troubled.listed("dead-letters list").is_empty()
        });
        let left = troubled.listed("in-doubt list").len();
        let effects = troubled.effects();
        assert!(
            left <= 256 && effects.len() + left >= 400,
            "{store}: {left} {}",
            effects.len()
        );
    }
}

#[test]
fn a_worker_that_is_to_end_finishes_what_it_has_in_hand() {
    for store in STORES {
        let troubled = Troubled::new(store, PARKED, &ids(0, 400));
        troubled.site.write("shut", "");
        let worker = troubled.worker();
        let plan = troubled.plan("dead-letters/replay", &json!({ "all": true }));
        troubled.hang_up("dead-letters/replay", &plan, 1);
        worker.signal(Signal::TERM);
        wait_for("a worker that is to end", || {
            ask(troubled.port, &Request::get("/readyz")).status == 503
        });
        std::fs::remove_file(troubled.site.path("shut")).expect("it was shut");
        worker.wait().done();
        let done = troubled.effects().len();
        let left = troubled.listed("dead-letters list").len();
        assert!(left > 0, "{store}: it ended before all were done");
        assert_eq!(done + left, 400, "{store}");
        assert!(troubled.listed("in-doubt list").is_empty(), "{store}");
        let _worker = troubled.worker();
        let plan = troubled.plan("dead-letters/replay", &json!({ "all": true }));
        let run = troubled.carry_out("dead-letters/replay", &plan);
        assert_eq!(
            (run.status, &run.body["done"]),
            (200, &left.into()),
            "{store}"
        );
        assert_eq!(troubled.effects().len(), 400, "{store}");
    }
}

#[test]
fn two_operators_and_the_pipeline_itself_run_a_message_once() {
    let troubled = Troubled::at("0.0.0.0", "embedded:data", KEYED, &mixed());
    let bob = token(&troubled.site, "bob --role operator");
    troubled.site.write("shut", "");
    let mut worker = troubled.worker();
    let order = json!({ "all": true });
    let first = troubled.plan("dead-letters/replay", &order);
    let troubled_by_bob = |action: &str, body: &Value| {
        let headers = vec![
            ("authorization", &*bob),
            ("content-type", "application/json"),
        ];
        let body = body.to_string();
        let path = format!("/v1/{action}");
        let request = Request {
            headers,
            body: body.as_bytes(),
            ..Request::get(&path).with_method("POST")
        };
        ask(troubled.port, &request)
    };
    let mut second = None;
    wait_for("the token", || {
        let plan = troubled_by_bob("dead-letters/replay/plan", &order);
        second = Some(plan.body);
        plan.status == 200
    });
    let second = second.expect("a plan");
    troubled.hang_up("dead-letters/replay", &first, 1);
    // The same message comes again from its source, while it is being run.
    let mut input = worker.input();
    input
        .write_all(b"{\"id\":\"dead-1\"}\n")
        .expect("a message");
    let reason = json!({ "token": second["token"], "reason": "me too" });
    let refused = troubled_by_bob("dead-letters/replay/do", &reason);
    refused.is_problem(409, "run-unfinished");
    std::fs::remove_file(troubled.site.path("shut")).expect("it was shut");
    let run = troubled.ended();
    assert_eq!(
        (&run["id"], &run["complete"]),
        (&refused.body["run"], &true.into()),
        "{run}"
    );
    troubled_by_bob("dead-letters/replay/do", &reason).is_problem(409, "plan-stale");
    drop(input);
    worker.wait().done();
    assert_eq!(troubled.effects().len(), 1, "that of `dead-1`, once");
}

#[test]
fn a_run_that_takes_long_is_answered_with_its_path() {
    let troubled = Troubled::new("embedded:data", KEYED, &mixed());
    troubled.site.write("shut", "");
    let _worker = troubled.worker();
    let plan = troubled.plan("in-doubt/retry", &json!({ "all": true }));
    let reply = troubled.carry_out("in-doubt/retry", &plan);
    assert_eq!(
        (reply.status, &reply.body["state"]),
        (202, &"running".into()),
        "{reply:?}"
    );
    let path = reply.header("location").expect("a path").to_owned();
    assert_eq!(troubled.send("GET", &path, "").body["id"], reply.body["id"]);
    std::fs::remove_file(troubled.site.path("shut")).expect("it was shut");
    assert_eq!(troubled.ended()["came"], json!({ "applied": 1 }));
    troubled
        .send("GET", "/v1/runs/0000000000000000", "")
        .is_problem(404, "run-unknown");
}
