//! The operator's view of a gateway: its start, `/readyz`, its metrics, `check` and its store that is away.

use std::net::TcpListener;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::server::Gateway;
use super::upstream::{Habit, Upstream};
use crate::collector::Collector;
use crate::ready::Admin;
use crate::site::{Running, Site, wait_for};

#[test]
fn the_start_says_what_is_served_and_the_verbs_know_its_keys() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(
        &upstream,
        "fail = \"open\"\n[[gateway.routes]]\npath = \"/a\"\n",
    );
    let said = gateway.stderr();
    let line = format!(
        "gateway: http://127.0.0.1:{} before {}, 1 route; FAILS OPEN",
        gateway.port(),
        upstream.url()
    );
    assert!(said.contains(&line), "{said}");
    gateway.post("/charges", "k", "{}");
    let site = gateway.site();
    let listed = site.semel(&["keys", "list", "--output", "jsonl"]).done();
    assert!(listed.stdout.contains("\"http\""), "{listed:#?}");
    let told = site.semel(&["keys", "explain", "k"]).done().stdout;
    assert!(
        told.contains("What a request under this key meets now"),
        "{told}"
    );
    let checked = site.semel(&["config", "check"]).done();
    assert!(
        checked.stdout.contains(", gateway at 127.0.0.1:"),
        "{checked:#?}"
    );
}

#[test]
fn an_address_that_is_taken_ends_the_run() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = taken.local_addr().expect("an address");
    let site = Site::new();
    let text = format!("[gateway]\nlisten = \"{address}\"\nupstream = \"http://127.0.0.1:9\"\n");
    site.write("semel.toml", text);
    site.semel(&["run"])
        .code(3)
        .says("gateway.listen: ")
        .says("[address-in-use]");
}

#[test]
fn a_certificate_that_is_of_no_use_ends_the_run() {
    let site = Site::new();
    site.write(
        "semel.toml",
        "[gateway]\nlisten = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:9\"\n\
         [gateway.tls]\ncert = \"absent.pem\"\nkey = \"absent.pem\"\n",
    );
    site.semel(&["run"]).code(2).says("absent.pem");
}

#[test]
fn an_api_that_is_away_is_told_and_counted() {
    let port = free_port::take().expect("a free port");
    let admin = Admin::new();
    let health = "[gateway.health]\nevery = \"100ms\"\n";
    let table = format!("{health}{}", admin.table());
    let mut gateway = Gateway::start_before(&format!("http://127.0.0.1:{port}"), &table);
    wait_for("a gateway that is not ready", || {
        admin.ready().1["gateway"]["state"] == "target-away"
    });
    let (is_ready, said) = admin.ready();
    assert!(!is_ready, "{said}");
    assert_eq!(
        said["gateway"]["reasons"][0]["code"], "target-away",
        "{said}"
    );
    gateway
        .post("/charges", "k", "{}")
        .is_problem(502, "upstream-unreachable");
    let away = format!("semel_upstream_up{{upstream=\"http://127.0.0.1:{port}\"}} 0");
    assert!(admin.shows(&away), "{}", admin.metrics());
    assert!(
        gateway.stderr().contains("gateway: the target is away"),
        "{}",
        gateway.stderr()
    );
    let _upstream = Upstream::start_at(port);
    wait_for("a gateway that is ready", || admin.ready().0);
    assert_eq!(admin.ready().1["gateway"], json!({ "state": "running" }));
    wait_for("the news", || {
        gateway.stderr().contains("gateway: the target is back")
    });
}

#[test]
fn what_is_decided_is_counted_by_operation() {
    let (upstream, admin) = (Upstream::start(), Admin::new());
    let route = "[[gateway.routes]]\npath = \"/charges\"\noperation = \"charges\"\n";
    let gateway = Gateway::start(&upstream, &format!("{route}{}", admin.table()));
    let zero = "semel_decisions_total{pipeline=\"http\",decision=\"granted\"} 0";
    assert!(admin.shows(zero), "{}", admin.metrics());
    for _ in 0..3 {
        gateway.post("/charges", "k", "{}");
    }
    gateway.post("/charges", "k", "[]");
    gateway.ask("POST", "/charges", &[], "{}");
    gateway.ask("GET", "/charges", &[], "");
    for line in [
        "semel_decisions_total{pipeline=\"charges\",decision=\"granted\"} 1",
        "semel_decisions_total{pipeline=\"charges\",decision=\"replay\"} 2",
        "semel_decisions_total{pipeline=\"charges\",decision=\"conflict\"} 1",
        "semel_effects_total{pipeline=\"charges\",effect=\"http\",verdict=\"applied\"} 1",
        "semel_unprotected_total{pipeline=\"charges\"} 0",
        "semel_gateway_requests_total{pipeline=\"charges\",route=\"/charges\",kind=\"keyless\"} 1",
        "semel_gateway_unmatched_total 1",
        "semel_gateway_in_flight 0",
        "semel_in_flight{pipeline=\"charges\"} 0",
    ] {
        wait_for(line, || admin.shows(line));
    }
    upstream.is(Habit::Waits);
    let port = gateway.port();
    std::thread::scope(|scope| {
        let headers = [("idempotency-key", "slow")];
        scope.spawn(move || super::server::send(port, "POST", "/charges", &headers, "{}"));
        for line in [
            "semel_gateway_in_flight 1",
            "semel_in_flight{pipeline=\"charges\"} 1",
        ] {
            wait_for(line, || admin.shows(line));
        }
        upstream.is(Habit::Answers(201));
    });
    let over = "semel_in_flight{pipeline=\"charges\"} 0";
    wait_for(over, || admin.shows(over));
}

/// A store on a server that is away from the beginning on takes nothing with it but what needs it.
#[cfg(feature = "redis")]
#[test]
fn while_the_store_is_away_the_api_is_there_for_whoever_needs_no_key() {
    let (upstream, admin) = (Upstream::start(), Admin::new());
    let store = format!(
        "redis://127.0.0.1:{}",
        free_port::take().expect("a free port")
    );
    let open = "[[gateway.routes]]\npath = \"/open\"\nfail = \"open\"\n";
    let lines = format!("{open}{}", admin.table());
    let mut gateway = Gateway::begin(&store, &upstream.url(), &lines);
    gateway.listens();
    assert_eq!(gateway.ask("GET", "/charges", &[], "").status, 201);
    let closed = gateway.post("/charges", "k", "{}");
    closed.is_problem(503, "store-unavailable");
    assert!(closed.header("retry-after").is_some(), "{closed:?}");
    let open = gateway.post("/open", "k", "{}");
    assert_eq!(open.status, 201);
    assert_eq!(open.header("semel-unprotected"), Some("store-unavailable"));
    assert_eq!(upstream.arrivals().len(), 2);
    let counted = "semel_unprotected_total{pipeline=\"http\"} 1";
    wait_for("the count", || admin.shows(counted));
    assert!(!admin.ready().0);
    gateway.signal(Signal::TERM);
    gateway.ended().done();
}

#[test]
fn a_request_and_its_duplicate_have_spans_in_the_trace_of_their_client() {
    let (upstream, collector) = (Upstream::start(), Collector::new());
    let telemetry = format!(
        "[telemetry]\notlp = \"{}\"\nsample = \"100%\"\n",
        collector.url()
    );
    let gateway = Gateway::start_logged(&upstream, &telemetry);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let headers = [("idempotency-key", "k"), ("traceparent", &parent)];
    for _ in 0..2 {
        gateway.ask("POST", "/charges", &headers, "{}");
    }
    let log = gateway.stopped().done().stderr;
    let spans = collector.named("process http");
    let decisions: Vec<_> = spans
        .iter()
        .map(|it| it.attribute("semel.decision"))
        .collect();
    assert_eq!(decisions, ["granted", "replay"], "{spans:?}");
    assert!(spans.iter().all(|it| it.trace_id == trace), "{spans:?}");
    // What is decided about each names its span, and no place where it was read.
    let lines = log.lines().filter_map(|it| serde_json::from_str(it).ok());
    let decisions = lines.filter(|it: &Value| it["decision"].is_string());
    let named: Vec<_> = decisions
        .map(|it| {
            assert_eq!(
                (&it["trace_id"], &it["coordinates"]),
                (&json!(trace), &Value::Null)
            );
            it["span_id"].clone()
        })
        .collect();
    let [first, again] = [0, 1].map(|at| json!(spans[at].id));
    assert_eq!(named, [first.clone(), first, again], "{log}");
    let arrival = &upstream.arrivals()[0];
    assert_eq!(
        arrival.header("traceparent").map(|it| &it[3..35]),
        Some(trace)
    );
}

/// Its time ends the call of the upstream in the middle; the span knows all the same whom it was with.
#[test]
fn a_request_that_is_out_of_time_names_the_upstream_in_its_span() {
    let (upstream, collector) = (Upstream::start(), Collector::new());
    upstream.is(Habit::Waits);
    let lines = format!(
        "upstream_timeout = \"300ms\"\nconnect_timeout = \"100ms\"\n[telemetry]\notlp = \"{}\"\nsample = \"100%\"\n",
        collector.url()
    );
    let gateway = Gateway::start(&upstream, &lines);
    gateway
        .post("/charges", "k", "{}")
        .is_problem(504, "upstream-timeout");
    upstream.is(Habit::Answers(201));
    gateway.stopped().done();
    let spans = collector.named("effect http");
    let [span] = &spans[..] else {
        panic!("{spans:?}")
    };
    let server = ["server.address", "server.port"].map(|it| span.attribute(it));
    assert!(upstream.url().ends_with(&server.join(":")), "{span:?}");
    assert_eq!(span.attribute("http.request.method"), "POST");
    assert!(!format!("{span:?}").contains("status_code"), "{span:?}");
}

fn reports(lines: &str, arguments: &[&str], code: i32) -> Vec<Value> {
    let site = Site::new();
    let text = format!(
        "[gateway]\nlisten = \"127.0.0.1:8080\"\nupstream = \"http://127.0.0.1:9000\"\n{lines}"
    );
    site.write("semel.toml", text);
    let arguments = [&["check", "--output", "json"], arguments].concat();
    let ended = site.semel(&arguments).code(code);
    let lines = ended.stdout.lines();
    lines
        .map(|it| serde_json::from_str(it).expect("JSON"))
        .collect()
}

#[test]
fn check_says_of_each_route_what_it_promises_and_what_it_leaves_out() {
    let routes = reports(
        "[[gateway.routes]]\npath = \"/charges\"\nclass = \"keyed\"\nprovider_window = \"30d\"\nrequire_key = true\n",
        &[],
        0,
    );
    let [charges, all] = &*routes else {
        panic!("{routes:?}");
    };
    assert_eq!(
        (&charges["route"], &charges["verdict"]),
        (&json!("/charges"), &json!("ok"))
    );
    assert_eq!(
        charges["guarantee"],
        "exactly once inside the provider's window"
    );
    assert_eq!(
        charges["unprotected"],
        json!(["every method but POST, PATCH"])
    );
    assert_eq!(all["route"], "*");
    assert_eq!(all["unprotected"][1], "requests without a key");
    assert_eq!(all["window"], "7d");
    let weak = reports(
        "tenant = \"header:X-Tenant\"\nshadow = true\n",
        &["--strict"],
        1,
    );
    let codes: Vec<_> = weak[0]["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    let codes: Vec<_> = codes.iter().map(|it| &it["code"]).collect();
    assert_eq!(codes, ["route-in-shadow", "tenant-of-client"]);
}

#[test]
fn the_list_before_production_fails_a_route_that_only_watches_or_that_nobody_watches() {
    let lines = |more: &str| {
        let lists = reports(more, &["--production"], 1);
        assert_eq!(lists[0]["pipeline"], "gateway");
        let lines = lists[0]["lines"].as_array().expect("lines").clone();
        move |name: &str| {
            let line = lines.iter().find(|it| it["line"] == name);
            line.map_or(Value::Null, |it| it["verdict"].clone())
        }
    };
    let usual = lines("");
    assert_eq!(
        (usual("key"), usual("class"), usual("alerts")),
        (json!("unknown"), json!("unknown"), json!("fail"))
    );
    let shadow = lines("shadow = true\nrequire_key = true\n");
    assert_eq!(
        (shadow("key"), shadow("class")),
        (json!("pass"), json!("fail"))
    );
}

#[test]
fn what_init_writes_for_a_gateway_checks_and_runs() {
    let site = Site::new();
    let written = site
        .semel(&["init", "api", "--gateway", "--output", "json"])
        .done();
    let written: Value = serde_json::from_str(&written.stdout).expect("JSON");
    assert_eq!(written["files"], json!(["upstream.py", "semel.toml"]));
    let folder = site.path("api");
    let [upstream, gateway, admin] = [(); 3].map(|()| free_port::take().expect("a free port"));
    let mut python = Command::new("python3");
    python
        .args(["upstream.py", &upstream.to_string()])
        .current_dir(&folder);
    let _python = Running::start(&mut python);
    let semel = |arguments: &[&str]| {
        let mut command = site.command();
        command
            .current_dir(&folder)
            .args(arguments)
            .env("SEMEL__GATEWAY__LISTEN", format!("127.0.0.1:{gateway}"))
            .env(
                "SEMEL__GATEWAY__UPSTREAM",
                format!("http://127.0.0.1:{upstream}"),
            )
            .env("SEMEL__ADMIN__LISTEN", format!("127.0.0.1:{admin}"));
        Running::start(&mut command)
    };
    semel(&["check", "--strict"]).wait().done();
    let running = semel(&["run"]);
    let send = || {
        let headers = [("idempotency-key", "pay-1")];
        super::server::send(gateway, "POST", "/charges", &headers, "amount=4200")
    };
    let mut first = None;
    wait_for("the API behind its gateway", || {
        first = send().filter(|it| it.status == 201);
        first.is_some()
    });
    let first = first.expect("an answer");
    let again = send().expect("an answer");
    assert!(again.is_replay() && again.body == first.body, "{again:?}");
    assert_eq!(first.body, b"{\"charge\":1}\n");
    running.signal(Signal::TERM);
    running.wait().done();
    // A gateway has neither a source nor an effect of a pipeline.
    for option in ["--source", "--effect"] {
        let arguments = ["init", "other", "--gateway", option, "file"];
        site.semel(&arguments).code(2);
    }
}
