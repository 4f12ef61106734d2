//! The same orders over HTTP, with roles and stale plans.

use serde_json::{Value, json};

use super::Paused;
use crate::admin::access::token;
use crate::claims::server::{Reply, Request, ask};
use crate::mysql::Database;
use crate::postgres::Schema;
use crate::redis::Prefix;
use crate::site::wait_for;

impl Paused {
    fn port(&self) -> u16 {
        self.admin.address().port()
    }

    fn post(&self, path: &str, body: &Value, token: &str) -> Reply {
        let body = body.to_string();
        let mut headers = vec![("content-type", "application/json")];
        headers.extend((!token.is_empty()).then_some(("authorization", token)));
        let request = Request {
            headers,
            body: body.as_bytes(),
            ..Request::get(path).with_method("POST")
        };
        ask(self.port(), &request)
    }

    #[track_caller]
    fn plan(&self, order: &str, token: &str) -> Value {
        let body = json!({ "pipelines": ["pay"] });
        let plan = self.post(&format!("/v1/pipelines/{order}/plan"), &body, token);
        assert_eq!(plan.status, 200, "{plan:?}");
        plan.body
    }

    fn carry_out(&self, order: &str, plan: &Value, token: &str) -> Reply {
        let body = json!({ "token": plan["token"], "reason": "INC-8" });
        self.post(&format!("/v1/pipelines/{order}/do"), &body, token)
    }
}

/// The entries of a store on a server that are about no key: those of a sweep, as of orders about producers and
/// runs of messages are.
#[test]
fn an_order_about_the_store_is_given_and_told_of_on_servers_too() {
    let (schema, database, prefix) = (Schema::new(), Database::new(), Prefix::new());
    for store in [schema.url(), database.url(), prefix.url()] {
        let worker = Paused::start(&format!("{store}\"\nallow_volatile = true\n#"), "");
        let plan = worker.post("/v1/store/sweep/plan", &json!({}), "");
        assert_eq!(plan.status, 200, "{store}: {plan:?}");
        let order = json!({ "token": plan.body["token"], "reason": "INC-8" });
        let done = worker.post("/v1/store/sweep/do", &order, "");
        assert_eq!(done.status, 200, "{store}: {done:?}");
        let trail = ask(worker.port(), &Request::get("/v1/audit"));
        let entry = &trail.body["items"][0];
        assert_eq!(entry["action"], "sweep", "{store}: {trail:?}");
        assert_eq!(entry["reason"], "INC-8", "{store}: {trail:?}");
    }
}

#[test]
fn an_order_over_http_is_planned_given_and_told_of() {
    for store in ["embedded:data", "memory:\"\nallow_volatile = true\n#"] {
        let mut worker = Paused::start(store, "");
        let plan = worker.plan("pause", "");
        let change = json!({
            "pipeline": "pay", "action": "pause", "before": "run", "after": "pause"
        });
        assert_eq!(plan["changes"], json!([change]), "{plan}");
        assert_eq!(worker.told()["state"], "running", "a plan changes nothing");
        let done = worker.carry_out("pause", &plan, "");
        assert_eq!(done.status, 200, "{done:?}");
        assert_eq!(done.body["changes"][0]["result"], "done", "{done:?}");
        worker.is("paused");
        let listed = ask(worker.port(), &Request::get("/v1/pipelines"));
        let paused = &listed.body["items"][0];
        assert_eq!(paused["state"], "paused", "{listed:?}");
        assert_eq!(paused["paused"]["reason"], "INC-8", "{listed:?}");
        // The same plan once more is about a pipeline that is to run.
        let stale = worker.carry_out("pause", &plan, "");
        assert_eq!(stale.status, 409, "{stale:?}");
        assert_eq!(stale.body["changes"], json!([]), "{stale:?}");
        let why = stale.body["left"][0]["why"].as_str().unwrap_or_default();
        assert!(why.starts_with("it is paused since"), "{stale:?}");
        let trail = ask(worker.port(), &Request::get("/v1/audit"));
        let entry = &trail.body["items"][0];
        assert_eq!(entry["action"], "pause", "{trail:?}");
        assert_eq!(entry["pipeline"], "pay", "{trail:?}");
        let resumed = worker.carry_out("resume", &worker.plan("resume", ""), "");
        assert_eq!(resumed.body["done"], 1, "{resumed:?}");
        worker.send(&["a-1"]);
        worker.has_done(&["a-1"]);
        let body = json!({ "pipelines": ["pai"] });
        let unknown = worker.post("/v1/pipelines/drain/plan", &body, "");
        assert_eq!(unknown.body["left"][0]["pipeline"], "pai", "{unknown:?}");
        for body in [
            json!({}),
            json!({ "pipelines": [] }),
            json!({ "pipelines": [7] }),
            json!({ "pipelines": [""] }),
            json!({ "pipelines": ["p".repeat(256)] }),
        ] {
            let refused = worker.post("/v1/pipelines/drain/plan", &body, "");
            assert_eq!(refused.status, 400, "{refused:?}");
        }
    }
}

#[test]
fn an_order_takes_an_operator_of_all_tenants() {
    let mut worker = Paused::start("embedded:data", "");
    let tokens = [
        "ada --role operator",
        "viewer --role viewer",
        "acme --role operator --tenant acme",
    ];
    let [ada, viewer, acme] = tokens.map(|it| token(&worker.site, it));
    worker.killed_and_started();
    let path = "/v1/pipelines/pause/plan";
    let body = json!({ "pipelines": ["pay"] });
    wait_for("a worker that asks for tokens", || {
        worker.post(path, &body, "Bearer none").status == 401
    });
    for token in [&viewer, &acme] {
        let refused = worker.post(path, &body, token);
        assert_eq!(refused.status, 403, "{refused:?}");
    }
    worker.is("running");
    let plan = worker.plan("pause", &ada);
    let done = worker.carry_out("pause", &plan, &ada);
    assert_eq!(done.status, 200, "{done:?}");
    worker.is("paused");
    assert_eq!(worker.told()["paused"]["by"], "ada");
}
