//! The gateway is killed between the effect of the API and the record of it.

use std::thread;

use super::QUICK;
use super::server::{Gateway, Reply, send};
use super::upstream::{Habit, Upstream};
use crate::site::wait_for;

/// Has the API carry out a request, and kills the gateway before it can know.
fn killed_in_the_middle(upstream: &Upstream, gateway: &mut Gateway, key: &str) {
    let before = upstream.arrivals().len();
    upstream.is(Habit::Waits);
    let port = gateway.port();
    thread::scope(|scope| {
        let asked =
            scope.spawn(move || send(port, "POST", "/charges", &[("idempotency-key", key)], "{}"));
        upstream.has(before + 1);
        gateway.killed_and_started();
        assert_eq!(asked.join().expect("no panic"), None, "nobody could know");
    });
    upstream.is(Habit::Answers(201));
}

/// Asks until no other attempt stands in the way.
fn settled(gateway: &Gateway, key: &str) -> Reply {
    let mut reply = gateway.post("/charges", key, "{}");
    wait_for("the end of the lease", || {
        reply = gateway.post("/charges", key, "{}");
        reply.code().as_deref() != Some("in-progress")
    });
    reply
}

#[test]
fn after_a_kill_the_class_decides() {
    let upstream = Upstream::start();
    let keyed =
        "[[gateway.routes]]\npath = \"/charges\"\nclass = \"keyed\"\nprovider_window = \"1h\"\n";
    let repeat = "on_doubt = \"repeat\"\n";
    for (lines, status, calls) in [("", 409, 1), (repeat, 201, 2), (keyed, 201, 2)] {
        let before = upstream.arrivals().len();
        let mut gateway = Gateway::start(&upstream, &format!("{QUICK}{lines}"));
        killed_in_the_middle(&upstream, &mut gateway, "k");
        let reply = settled(&gateway, "k");
        assert_eq!(reply.status, status, "{lines}: {reply:?}");
        if status == 409 {
            reply.is_problem(409, "in-doubt");
        }
        let arrivals = upstream.arrivals();
        let arrivals = &arrivals[before..];
        assert_eq!(arrivals.len(), calls, "{lines}");
        for header in ["idempotency-key", "semel-operation-id"] {
            let values: Vec<_> = arrivals.iter().map(|it| it.header(header)).collect();
            assert!(
                values.iter().all(|it| it.is_some() && *it == values[0]),
                "{values:?}"
            );
        }
        let again = gateway.post("/charges", "k", "{}");
        assert_eq!(
            (again.status, upstream.arrivals().len()),
            (status, before + calls)
        );
    }
}

#[test]
fn a_restart_keeps_every_answer() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(&upstream, "");
    let keys = ["a", "b", "c"];
    let first = keys.map(|key| gateway.post("/charges", key, "{}"));
    gateway.killed_and_started();
    for (key, first) in keys.iter().zip(first) {
        let again = gateway.post("/charges", key, "{}");
        assert!(again.is_replay() && again.body == first.body, "{again:?}");
    }
    assert_eq!(upstream.arrivals().len(), keys.len());
}
