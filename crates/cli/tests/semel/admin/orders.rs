//! Orders to a running worker: planned, carried out by several operators at once, refused, and across a restart.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::access::{listens, token};
use crate::claims::server::{Reply, Request, ask};
use crate::operator::items;
use crate::postgres::Schema;
use crate::site::{Running, Site, wait_for};

/// A worker that runs a pipeline, serves claims, and takes orders.
pub(super) struct Ordered {
    pub(super) site: Site,
    claims: u16,
    pub(super) admin: u16,
    running: Running,
}

impl Ordered {
    /// Starts one over this store, whose API is asked at this address.
    pub(super) fn start(store: &str, host: &str) -> Self {
        let site = Site::new();
        let take = || free_port::take().expect("a free port");
        let (claims, admin) = (take(), take());
        site.write(
            "semel.toml",
            format!(
                "[store]\nurl = \"{store}\"\n[claims]\nlisten = \"127.0.0.1:{claims}\"\n\
                 [admin]\nlisten = \"{host}:{admin}\"\n[pipelines.pay]\nkey = \"json:/id\"\n\
                 source = {{ kind = \"stdin\" }}\neffect = {{ kind = \"exec\", command = [\"cat\"] }}\n"
            ),
        );
        // Of claims a loopback address asks for no token, of the other one is asked for.
        let _ = token(&site, "first --role admin");
        let running = Self::begun(&site);
        let mut ordered = Self {
            site,
            claims,
            admin,
            running,
        };
        ordered.listens();
        ordered
    }

    fn begun(site: &Site) -> Running {
        let mut command = site.command();
        command.arg("run").stdin(Stdio::piped());
        Running::start(&mut command)
    }

    fn listens(&mut self) {
        listens(&mut self.running, self.claims);
        listens(&mut self.running, self.admin);
        let port = self.admin;
        wait_for("a worker that is ready", || {
            ask(port, &Request::get("/readyz")).status == 200
        });
    }

    /// Ends it as a crash does, and starts it again.
    fn killed_and_started(&mut self) {
        self.running.signal(Signal::KILL);
        wait_for("the end", || !self.running.is_running());
        self.running = Self::begun(&self.site);
        self.listens();
    }

    /// Leaves keys of these numbers in doubt.
    pub(super) fn doubt(&self, from: usize, to: usize) {
        let claims = (from..to).map(|at| {
            json!({ "operation": "charge", "key": format!("pay-{at}"), "class": "unkeyed", "on_doubt": "park" })
        });
        let claims: Vec<_> = claims.collect();
        for claims in claims.chunks(1_000) {
            let granted = self.of_claims("/v1/claims/batch", &json!({ "claims": claims }));
            let granted = granted["answers"].as_array().expect("answers").iter();
            let settlements = granted
                .map(|it| json!({ "claim": it["claim"], "step": "fail", "error": "timed out" }));
            let settlements = json!({ "settlements": settlements.collect::<Vec<_>>() });
            let settled = self.of_claims("/v1/settle/batch", &settlements);
            let settled = settled["answers"].as_array().expect("answers");
            assert!(
                settled.iter().all(|it| it["state"] == "in_doubt"),
                "{settled:?}"
            );
        }
    }

    fn of_claims(&self, path: &str, body: &Value) -> Value {
        let reply = send(self.claims, path, body, &[]);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    }

    pub(super) fn post(&self, path: &str, body: &Value, token: &str) -> Reply {
        send(self.admin, path, body, &[("authorization", token)])
    }

    /// Plans, and expects a plan of so many changes.
    #[track_caller]
    pub(super) fn plan(&self, body: &Value, count: usize, token: &str) -> Value {
        let plan = self.post("/v1/in-doubt/resolve/plan", body, token);
        assert_eq!(plan.status, 200, "{plan:?}");
        assert_eq!(count_of(&plan.body), count, "{:?}", plan.body["left"]);
        plan.body
    }

    pub(super) fn carry_out(&self, plan: &Value, token: &str) -> Reply {
        let body = json!({ "token": plan["token"], "reason": "found at the provider" });
        self.post("/v1/in-doubt/resolve/do", &body, token)
    }

    /// The entries of the audit trail, whole.
    pub(super) fn audit(&self, token: &str) -> Vec<Value> {
        let (mut all, mut next) = (Vec::new(), String::new());
        loop {
            let headers = [("authorization", token)];
            let headers = headers
                .into_iter()
                .filter(|(_, token)| !token.is_empty())
                .collect();
            let path = format!("/v1/audit?limit=1000{next}");
            let request = Request {
                headers,
                ..Request::get(&path)
            };
            let page = ask(self.admin, &request);
            assert_eq!(page.status, 200, "{page:?}");
            all.extend(
                page.body["items"]
                    .as_array()
                    .expect("a list")
                    .iter()
                    .cloned(),
            );
            match page.body["next"].as_str() {
                Some(cursor) => next = format!("&cursor={cursor}"),
                None => return all,
            }
        }
    }

    fn count_in_doubt(&self) -> usize {
        self.in_doubt().len()
    }

    /// The operation ids of what is in doubt.
    pub(super) fn in_doubt(&self) -> Vec<String> {
        let words = ["in-doubt", "list", "--output", "json"];
        let items = items(&self.site.semel(&words).done());
        let ids = items.iter().map(|it| it["operation_id"].as_str());
        ids.map(|it| it.expect("an id").to_owned()).collect()
    }
}

fn send(port: u16, path: &str, body: &Value, headers: &[(&str, &str)]) -> Reply {
    let body = body.to_string();
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
    ask(
        port,
        &Request {
            headers: all,
            body: body.as_bytes(),
            ..Request::get(path).with_method("POST")
        },
    )
}

fn count_of(plan: &Value) -> usize {
    plan["changes"].as_array().map_or(0, Vec::len)
}

/// Two thousand doubts, resolved by two operators and by a verb, which get in each other's way.
fn resolves_each_once(store: &str) {
    let ordered = Ordered::start(store, "0.0.0.0");
    let ada = token(&ordered.site, "ada --role operator");
    let bob = token(&ordered.site, "bob --role operator");
    wait_for("the tokens", || {
        let body = json!({ "all": true, "verdict": "applied" });
        [&ada, &bob].iter().all(|token| {
            ordered
                .post("/v1/in-doubt/resolve/plan", &body, token)
                .status
                == 200
        })
    });
    ordered.doubt(0, 2_000);
    let keys =
        |from: usize, to: usize| (from..to).map(|at| format!("pay-{at}")).collect::<Vec<_>>();
    let all = ordered.plan(&json!({ "all": true, "verdict": "applied" }), 2_000, &ada);
    let first = json!({ "keys": keys(0, 900), "verdict": "applied", "outcome": "ch_1" });
    let first = ordered.plan(&first, 900, &ada);
    let second = json!({ "keys": keys(600, 2_000), "verdict": "abandon" });
    let second = ordered.plan(&second, 1_400, &bob);
    let done = ordered.carry_out(&first, &ada);
    assert_eq!(
        (done.status, &done.body["done"]),
        (200, &900.into()),
        "{:?}",
        done.body["code"]
    );
    // Somebody resolves a few by a verb, beside the worker.
    let mut words = vec![
        "in-doubt",
        "resolve",
        "--pipeline",
        "charge",
        "--applied",
        "--yes",
        "--by",
        "eve",
    ];
    words.extend(["pay-1990", "pay-1991"]);
    ordered.site.semel(&words).done();
    let stale = ordered.carry_out(&second, &bob);
    stale.is_problem(409, "plan-stale");
    assert_eq!(count_of(&stale.body), 1_098, "those that are left");
    assert_eq!(stale.body["left"].as_array().map(Vec::len), Some(302));
    assert_eq!(ordered.count_in_doubt(), 1_098, "nothing was done");
    let done = ordered.carry_out(&stale.body, &bob);
    assert_eq!((done.status, &done.body["done"]), (200, &1_098.into()));
    assert_eq!(done.body["complete"], true);
    let stale = ordered.carry_out(&all, &ada);
    stale.is_problem(409, "plan-stale");
    assert_eq!(count_of(&stale.body), 0, "nothing is left");
    assert_eq!(ordered.count_in_doubt(), 0);
    let audit = ordered.audit(&ada);
    let mut keys: Vec<_> = audit
        .iter()
        .map(|it| it["operation_id"].to_string())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(
        (audit.len(), keys.len()),
        (2_000, 2_000),
        "one entry for each"
    );
    for (name, count) in [("ada", 900), ("bob", 1_098), ("eve", 2)] {
        let by = audit.iter().filter(|it| it["by"] == name);
        assert_eq!(by.count(), count, "{name}");
    }
    let reasons = audit
        .iter()
        .filter(|it| it["reason"] == "found at the provider");
    assert_eq!(reasons.count(), 1_998);
}

#[test]
fn two_thousand_doubts_are_resolved_once_each_beside_an_embedded_store() {
    resolves_each_once("embedded:data");
}

#[test]
fn two_thousand_doubts_are_resolved_once_each_on_postgres() {
    let schema = Schema::new();
    resolves_each_once(&schema.url());
}

#[test]
fn a_plan_outlives_the_worker_that_made_it() {
    let mut ordered = Ordered::start("embedded:data", "127.0.0.1");
    ordered.doubt(0, 20);
    let order = json!({ "all": true, "verdict": "applied" });
    let plan = ordered.plan(&order, 20, "");
    ordered.killed_and_started();
    let done = ordered.carry_out(&plan, "");
    assert_eq!(
        (done.status, &done.body["done"]),
        (200, &20.into()),
        "{done:?}"
    );
    ordered.killed_and_started();
    ordered.carry_out(&plan, "").is_problem(409, "plan-stale");
    let audit = ordered.audit("");
    assert_eq!(audit.len(), 20, "and nothing twice");
    assert!(audit.iter().all(|it| it["by"] == "loopback"), "{audit:?}");
}

/// Kills the worker after the first batch of an order about two thousand doubts; its last batch comes to no end where
/// `lock` keeps its last record.
fn crashes_whole(store: &str, lock: impl FnOnce(&str), unlock: impl FnOnce()) -> usize {
    let mut ordered = Ordered::start(store, "127.0.0.1");
    ordered.doubt(0, 2_000);
    let order = json!({ "all": true, "verdict": "applied" });
    let plan = ordered.plan(&order, 2_000, "");
    lock(
        plan["changes"][1_999]["operation_id"]
            .as_str()
            .expect("an id"),
    );
    let body = json!({ "token": plan["token"], "reason": "why" }).to_string();
    let mut stream =
        std::net::TcpStream::connect(("127.0.0.1", ordered.admin)).expect("it listens");
    let head = format!(
        "POST /v1/in-doubt/resolve/do HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).expect("sent");
    // The first batch is done, perhaps more.
    let port = ordered.admin;
    wait_for("the first change", || {
        let audit = ask(port, &Request::get("/v1/audit?limit=1"));
        audit.body["items"]
            .as_array()
            .is_some_and(|it| !it.is_empty())
    });
    ordered.killed_and_started();
    unlock();
    let (audited, left) = (ordered.audit("").len(), ordered.count_in_doubt());
    assert_eq!(
        audited + left,
        2_000,
        "each is done with its entry, or not at all"
    );
    let rest = ordered.post("/v1/in-doubt/resolve/plan", &order, "");
    let done = ordered.carry_out(&rest.body, "");
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(ordered.audit("").len(), 2_000);
    assert_eq!(ordered.count_in_doubt(), 0);
    left
}

#[test]
fn a_crash_around_an_order_leaves_each_change_whole() {
    // It may have come to its end before.
    let left = crashes_whole("embedded:data", |_| {}, || {});
    assert!(left < 2_000, "the first batch was done");
}

#[test]
fn a_crash_in_an_order_leaves_each_change_whole() {
    let schema = Schema::new();
    let left = crashes_whole(&schema.url(), |id| schema.lock(id), || schema.unlock());
    assert!((500..2_000).contains(&left), "{left}");
}

#[test]
fn a_hostile_page_and_a_stranger_change_nothing() {
    let ordered = Ordered::start("embedded:data", "0.0.0.0");
    let site = &ordered.site;
    let operator = token(site, "ada --role operator");
    let viewer = token(site, "watcher --role viewer");
    let acme = token(site, "acme --role operator --tenant acme");
    ordered.doubt(0, 3);
    let order = json!({ "keys": ["pay-0"], "verdict": "applied" });
    wait_for("the tokens", || {
        let path = "/v1/in-doubt/resolve/plan";
        ordered.post(path, &order, &operator).status == 200
            && ordered.post(path, &order, &acme).status == 200
    });
    let plan = ordered.plan(&order, 1, &operator);
    let doing = json!({ "token": plan["token"], "reason": "why" });
    for (step, body) in [("plan", &order), ("do", &doing)] {
        let path = format!("/v1/in-doubt/resolve/{step}");
        ordered
            .post(&path, body, "")
            .is_problem(401, "unauthorized");
        ordered
            .post(&path, body, "Bearer semel_00")
            .is_problem(401, "unauthorized");
        ordered
            .post(&path, body, &viewer)
            .is_problem(403, "forbidden");
    }
    // Of another tenant there is nothing to see, and its plan is not theirs.
    let of_acme = ordered.plan(&order, 0, &acme);
    assert_eq!(of_acme["left"][0]["key"], "pay-0");
    ordered.carry_out(&plan, &acme).is_problem(403, "forbidden");
    assert_eq!(ordered.count_in_doubt(), 3);
    // On a loopback address no token is asked for, which a page of another origin could profit from.
    let own = Ordered::start("embedded:data", "127.0.0.1");
    own.doubt(0, 3);
    let plan = own.plan(&order, 1, "");
    let doing = json!({ "token": plan["token"], "reason": "why" });
    let path = "/v1/in-doubt/resolve/do";
    let evil = ("origin", "http://evil.example");
    send(own.admin, path, &doing, &[evil]).is_problem(403, "origin-refused");
    send(own.admin, path, &doing, &[("host", "evil.example")]).is_problem(403, "host-refused");
    let cross = ("sec-fetch-site", "cross-site");
    let answered = send(own.admin, path, &doing, &[cross, ("origin", "null")]);
    answered.is_problem(403, "origin-refused");
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ] {
        let body = doing.to_string();
        let request = Request {
            headers: vec![("content-type", kind)],
            body: body.as_bytes(),
            ..Request::get(path).with_method("POST")
        };
        ask(own.admin, &request).is_problem(415, "unsupported-media-type");
    }
    let large = "x".repeat(5 << 20);
    let large = json!({ "token": large, "reason": "why" });
    send(own.admin, path, &large, &[]).is_problem(413, "body-too-large");
    assert_eq!(own.count_in_doubt(), 3);
    assert!(own.audit("").is_empty());
    assert_eq!(own.carry_out(&plan, "").status, 200);
}

#[test]
fn what_was_given_up_is_resolved_as_the_verb_would_have_done_it() {
    let ordered = Ordered::start("embedded:data", "127.0.0.1");
    ordered.doubt(0, 2);
    let order =
        json!({ "keys": ["pay-0"], "verdict": "applied", "outcome": "{\"charge\":\"ch_1\"}" });
    let plan = ordered.plan(&order, 1, "");
    assert_eq!(ordered.carry_out(&plan, "").status, 200);
    let words = [
        "in-doubt",
        "resolve",
        "pay-1",
        "--pipeline",
        "charge",
        "--applied",
        "--yes",
        "--outcome",
    ];
    let words = [&words[..], &["{\"charge\":\"ch_1\"}", "--output", "json"]].concat();
    let printed: Value =
        serde_json::from_str(&ordered.site.semel(&words).done().stdout).expect("JSON");
    let mut told = plan["changes"][0].clone();
    let mut item = printed["items"][0].clone();
    for it in [&mut told, &mut item] {
        it["key"] = Value::Null;
        it["operation_id"] = Value::Null;
    }
    assert_eq!(told, item, "one promise: the same members");
    let shown = |key: &str| {
        let words = ["keys", "show", key, "--pipeline", "charge", "--outcome"];
        ordered.site.semel(&words).done().stdout
    };
    assert_eq!(shown("pay-0"), shown("pay-1"));
}
