//! `semel run` with `[gateway]`: clients, the proxy, and an API that books whatever arrives; the process in the middle killed,
//! stopped and started again.

mod claims;
mod kills;
mod pools;
mod proofs;
pub(crate) mod server;
mod status;
pub(crate) mod upstream;

use rustix::process::Signal;
use serde_json::Value;

use crate::site::wait_for;
use server::Gateway;
use upstream::{Habit, Upstream};

/// Short times, so that no test waits for long.
const QUICK: &str =
    "connect_timeout = \"500ms\"\nupstream_timeout = \"2s\"\nwait = \"100ms\"\nlease = \"1s\"\n";

#[test]
fn a_request_is_carried_out_once_and_its_answer_given_again_byte_for_byte() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&upstream, "");
    let first = gateway.post("/charges?a=1", "pay-1", "{\"amount\":1}");
    assert_eq!(
        (first.status, &*first.body),
        (201, &b"{\"charge\":1}\n"[..])
    );
    assert!(!first.is_replay());
    let again = gateway.post("/charges?a=1", "pay-1", "{ \"amount\": 1.0 }");
    assert!(again.is_replay(), "{again:?}");
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    for kept in ["content-type", "etag"] {
        assert_eq!(again.header(kept), first.header(kept), "{kept}");
    }
    assert_eq!(first.header("set-cookie"), Some("session=1"));
    assert_eq!(again.header("set-cookie"), None);
    let [arrival] = &*upstream.arrivals() else {
        panic!("{:?}", upstream.arrivals());
    };
    assert_eq!((&*arrival.method, &*arrival.path), ("POST", "/charges?a=1"));
    assert_eq!(arrival.header("idempotency-key"), Some("pay-1"));
    assert!(arrival.header("semel-operation-id").is_some());
    let other = gateway.post("/charges?a=1", "pay-1", "{\"amount\":2}");
    other.is_problem(422, "key-reused");
    let caller = [
        ("idempotency-key", "pay-1"),
        ("authorization", "Bearer other"),
    ];
    let stranger = gateway.ask("POST", "/charges?a=1", &caller, "{\"amount\":1}");
    stranger.is_problem(422, "key-reused");
    assert_eq!(upstream.arrivals().len(), 1);
    gateway.stopped().done();
}

#[test]
fn routes_ask_for_keys_and_have_keys_of_their_own() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(
        &upstream,
        "[[gateway.routes]]\npath = \"/charges/*\"\noperation = \"charges\"\nrequire_key = true\n\
         [[gateway.routes]]\npath = \"/orders\"\nkey = \"derive\"\nfingerprint = [\"path\", \"json:/order\"]\n\
         operation = \"orders\"\n[[gateway.routes]]\npath = \"/small\"\nmax_body = \"10B\"\n",
    );
    gateway
        .ask("POST", "/charges/1", &[], "{}")
        .is_problem(400, "key-missing");
    gateway
        .post("/charges/1", "", "{}")
        .is_problem(400, "key-invalid");
    gateway
        .post("/small", "k", "more than ten bytes")
        .is_problem(413, "body-too-large");
    assert_eq!(upstream.arrivals().len(), 0);
    // Other methods, and requests without a key, pass every time.
    for _ in 0..2 {
        assert_eq!(gateway.ask("GET", "/charges/1", &[], "").status, 201);
        assert_eq!(gateway.ask("POST", "/elsewhere", &[], "{}").status, 201);
    }
    assert_eq!(upstream.arrivals().len(), 4);
    // One key is two operations under two names, and one elsewhere.
    assert_eq!(gateway.post("/charges/1", "k", "{}").status, 201);
    assert_eq!(gateway.post("/elsewhere", "k", "{}").status, 201);
    gateway
        .post("/another", "k", "{}")
        .is_problem(422, "key-reused");
    assert_eq!(upstream.arrivals().len(), 6);
    let order = "{\"order\":7,\"sent\":\"now\"}";
    let first = gateway.ask("POST", "/orders", &[], order);
    let again = gateway.ask("POST", "/orders", &[], "{\"sent\":\"later\",\"order\":7}");
    assert!(again.is_replay() && first.body == again.body, "{again:?}");
    assert_eq!(upstream.arrivals().len(), 7);
    let shown = gateway.site().semel(&[
        "keys",
        "show",
        "k",
        "--pipeline",
        "charges",
        "--output",
        "json",
    ]);
    let shown: Value = serde_json::from_str(&shown.done().stdout).expect("JSON");
    assert_eq!(
        (&shown["state"], &shown["pipeline"]),
        (&"completed".into(), &"charges".into())
    );
}

#[test]
fn an_upstream_that_is_not_reached_burns_no_key() {
    let port = free_port::take().expect("a free port");
    let url = format!("http://127.0.0.1:{port}");
    let gateway = Gateway::start_before(&url, QUICK);
    gateway
        .post("/charges", "k", "{}")
        .is_problem(502, "upstream-unreachable");
    let upstream = Upstream::start_at(port);
    let mut answer = None;
    wait_for("an upstream that is back", || {
        let reply = gateway.post("/charges", "k", "{}");
        answer = (reply.status == 201).then_some(reply);
        answer.is_some()
    });
    assert!(answer.is_some_and(|it| !it.is_replay()));
    assert_eq!(upstream.arrivals().len(), 1);
    assert!(gateway.post("/charges", "k", "{}").is_replay());
}

#[test]
fn an_answer_that_does_not_come_leaves_a_doubt_that_a_person_resolves() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&upstream, QUICK);
    for (key, habit, status, code) in [
        ("slow", Habit::Waits, 504, "upstream-timeout"),
        ("broken", Habit::HangsUp, 502, "upstream-broken"),
    ] {
        upstream.is(habit);
        gateway.post("/charges", key, "{}").is_problem(status, code);
        upstream.is(Habit::Answers(201));
        let doubt = gateway.post("/charges", key, "{}");
        doubt.is_problem(409, "in-doubt");
        let id = doubt.json()["operation_id"].clone();
        let id = id.as_str().expect("an operation id");
        let site = gateway.site();
        let shown = site
            .semel(&["in-doubt", "show", id, "--output", "json"])
            .done();
        let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
        assert_eq!(shown["pipeline"], "http", "{shown}");
        let words = [
            "--applied",
            "--outcome",
            "booked",
            "--reason",
            "it is in the books",
            "--yes",
        ];
        let resolved = [&["in-doubt", "resolve", key][..], &words].concat();
        site.semel(&resolved).done();
        let replayed = gateway.post("/charges", key, "{}");
        assert_eq!((replayed.status, &*replayed.body), (200, &b"booked"[..]));
    }
    assert_eq!(upstream.arrivals().len(), 2);
}

#[test]
fn codes_that_say_not_applied_free_the_key_and_others_are_remembered() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&upstream, "");
    for (key, status, calls) in [("a", 429, 2), ("b", 503, 2), ("c", 402, 1), ("d", 303, 1)] {
        let before = upstream.arrivals().len();
        upstream.is(Habit::Answers(status));
        for _ in 0..2 {
            assert_eq!(gateway.post("/charges", key, "{}").status, status);
        }
        assert_eq!(upstream.arrivals().len() - before, calls, "{status}");
    }
    // Nobody knows what a 500 did.
    upstream.is(Habit::Answers(500));
    assert_eq!(gateway.post("/charges", "e", "{}").status, 500);
    gateway
        .post("/charges", "e", "{}")
        .is_problem(409, "in-doubt");
}

#[test]
fn a_request_waits_for_the_first_and_a_stop_lets_it_finish() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&upstream, "wait = \"30s\"\n");
    upstream.is(Habit::Waits);
    let port = gateway.port();
    std::thread::scope(|scope| {
        let ask = move || server::send(port, "POST", "/charges", &[("idempotency-key", "k")], "{}");
        let first = scope.spawn(ask);
        upstream.has(1);
        let second = scope.spawn(ask);
        gateway.signal(Signal::TERM);
        wait_for("a gateway that takes nobody more", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
        });
        upstream.is(Habit::Answers(201));
        let first = first.join().expect("no panic").expect("an answer");
        assert_eq!(first.status, 201);
        // The second may have come too late to be served at all.
        if let Some(second) = second.join().expect("no panic") {
            assert!(
                second.is_replay() && second.body == first.body || second.status == 503,
                "{second:?}"
            );
        }
    });
    gateway.ended().done();
    assert_eq!(upstream.arrivals().len(), 1);
}

#[test]
fn a_route_in_shadow_changes_nothing_and_counts() {
    let upstream = Upstream::start();
    let admin = crate::ready::Admin::new();
    let gateway = Gateway::start(&upstream, &format!("shadow = true\n{}", admin.table()));
    for (body, number) in [("{}", 1), ("{}", 2), ("[]", 3)] {
        let reply = gateway.post("/charges", "k", body);
        assert_eq!(
            reply.body,
            format!("{{\"charge\":{number}}}\n").into_bytes()
        );
        assert!(!reply.is_replay());
    }
    for kind in ["shadow_first", "shadow_replayed", "shadow_conflicts"] {
        let line = format!(
            "semel_gateway_requests_total{{pipeline=\"http\",route=\"*\",kind=\"{kind}\"}} 1"
        );
        wait_for("what the route would have done", || admin.shows(&line));
    }
    assert_eq!(upstream.arrivals().len(), 3);
}
