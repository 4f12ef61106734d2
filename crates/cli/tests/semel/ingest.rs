//! `semel run` with sources of kind `ingest`: producers that number their messages, and send them again until they are
//! answered, over plain HTTP.

mod counts;
mod listeners;
mod workers;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::pauses::order;
use crate::ready::Admin;
use crate::site::{Running, Site, wait_for};
use crate::webhook::provider::{Provider, Reply};

const PATH: &str = "/v1/ingest/orders";

/// A site with a pipeline `orders` that appends each message to `orders.ndjson` once.
fn site(client: &Provider, store: &str, more: &str) -> Site {
    let effect = "effect = { kind = \"file\", path = \"orders.ndjson\" }";
    of_effect(client, store, effect, more)
}

fn of_effect(client: &Provider, store: &str, effect: &str, more: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"{store}\"\nallow_volatile = true\n[pipelines.orders]\nkey = \"header:semel-id\"\nwindow = \"7d\"\nlease = \"2s\"\n\
         [pipelines.orders.source]\nkind = \"ingest\"\nlisten = \"{}\"\npath = \"{PATH}\"\n{more}\n\
         [pipelines.orders.{}\n",
        client.address(),
        effect
            .replace("effect = { ", "effect]\n")
            .replace(", ", "\n")
            .replace(" }", "")
    );
    Site::with(&[("semel.toml", &config)])
}

/// Starts the worker, and waits until it takes requests.
fn start(site: &Site, client: &Provider) -> Running {
    let mut running = site.start(&["run", "--output", "json"]);
    wait_for("a worker that takes requests", || {
        assert!(running.is_running(), "{}", running.stderr());
        let reply = client.send("GET", PATH, &[], b"");
        reply.is_some_and(|reply| reply.status == 405)
    });
    running
}

/// Sends lines as messages of a producer.
fn send(
    client: &Provider,
    producer: &str,
    epoch: u64,
    first: u64,
    lines: &[String],
) -> Option<Reply> {
    let (epoch, first) = (epoch.to_string(), first.to_string());
    let headers = [
        ("Semel-Producer", producer),
        ("Semel-Epoch", &epoch),
        ("Semel-Sequence", &first),
        ("Content-Type", "application/x-ndjson"),
    ];
    client.send("POST", PATH, &headers, lines.join("\n").as_bytes())
}

fn said(reply: Option<Reply>) -> (u16, Value) {
    let reply = reply.expect("an answer");
    let said = serde_json::from_slice(&reply.body);
    (reply.status, said.expect("JSON"))
}

/// The messages from one sequence of a producer to another.
fn messages(producer: &str, sequences: std::ops::RangeInclusive<u64>) -> Vec<String> {
    let message = |it| format!("{{\"producer\":\"{producer}\",\"sequence\":{it}}}");
    sequences.map(message).collect()
}

fn has_lines(site: &Site, count: usize) -> bool {
    site.path("orders.ndjson").exists() && site.text("orders.ndjson").lines().count() >= count
}

#[test]
fn each_message_of_a_producer_is_taken_once_and_runs_once() {
    for store in ["embedded:data", "sqlite:semel.db", "memory:"] {
        let client = Provider::new();
        let site = site(&client, store, "");
        let running = start(&site, &client);
        let billing = |epoch, sequences| {
            said(send(
                &client,
                "billing-0a",
                epoch,
                *std::ops::RangeInclusive::start(&sequences),
                &messages("billing", sequences),
            ))
        };
        for (answer, status, expected) in [
            (
                billing(1, 2..=3),
                409,
                json!({"code": "producer-unknown", "expected": 1}),
            ),
            (
                billing(1, 1..=3),
                200,
                json!({"accepted": 3, "duplicates": 0, "next": 4}),
            ),
            (
                billing(1, 1..=3),
                200,
                json!({"accepted": 0, "duplicates": 3, "next": 4}),
            ),
            (
                billing(1, 2..=5),
                200,
                json!({"accepted": 2, "duplicates": 2, "next": 6}),
            ),
            (
                billing(1, 7..=7),
                409,
                json!({"code": "sequence-gap", "expected": 6}),
            ),
            (
                billing(2, 5..=6),
                200,
                json!({"accepted": 1, "duplicates": 1, "next": 7}),
            ),
            (
                billing(1, 7..=7),
                409,
                json!({"code": "producer-fenced", "epoch": 2}),
            ),
            (
                billing(1, 1..=1),
                409,
                json!({"code": "producer-fenced", "epoch": 2}),
            ),
        ] {
            assert_eq!(answer.0, status, "{store}: {}", answer.1);
            for (member, value) in expected.as_object().expect("members") {
                assert_eq!(
                    &answer.1[member], value,
                    "{store}: {member} of {}",
                    answer.1
                );
            }
            if let Some(code) = answer.1["code"].as_str() {
                // The page says what to do.
                site.semel(&["explain", code]).done();
            }
        }
        wait_for("the effects", || has_lines(&site, 6));
        running.signal(Signal::TERM);
        running
            .wait()
            .done()
            .summary()
            .is(&[("deliveries", 6), ("applied", 6)]);
        let text = site.text("orders.ndjson");
        let found: Vec<_> = text.lines().collect();
        assert_eq!(
            found,
            messages("billing", 1..=6),
            "{store}: once, and in order"
        );
    }
}

#[test]
fn what_was_answered_before_a_kill_runs_behind_it() {
    for store in ["embedded:data", "sqlite:semel.db"] {
        let client = Provider::new();
        let effect = "effect = { kind = \"exec\", command = [\"sh\",\"handler.sh\"], class = \"keyed\", \
                      provider_window = \"30d\" }";
        let site = of_effect(&client, store, effect, "");
        site.write("handler.sh", "echo >> begun; sleep 30; exit 1\n");
        // A program of its own: what the killed worker has started lives on, and begins perhaps only after it.
        site.write(
            "second.sh",
            "line=$(cat)\necho \"$line\" >> orders.ndjson\n",
        );
        let mut running = start(&site, &client);
        let sent = messages("billing", 1..=5);
        let (status, answer) = said(send(&client, "billing-0a", 1, 1, &sent));
        assert_eq!((status, &answer["accepted"]), (200, &json!(5)), "{answer}");
        wait_for("an effect that is under way", || {
            site.path("begun").exists()
        });
        running.signal(Signal::KILL);
        wait_for("the end", || !running.is_running());
        assert!(!site.path("orders.ndjson").exists());
        let config = site.text("semel.toml").replace("handler.sh", "second.sh");
        site.write("semel.toml", &config);
        let running = start(&site, &client);
        wait_for("the effects", || has_lines(&site, 5));
        let (status, answer) = said(send(&client, "billing-0a", 1, 1, &sent));
        assert_eq!(
            (status, &answer["duplicates"]),
            (200, &json!(5)),
            "{answer}"
        );
        running.signal(Signal::TERM);
        running.wait().done();
        assert_eq!(site.sorted_lines("orders.ndjson"), sent, "{store}");
    }
}

#[test]
fn messages_of_a_pipeline_that_was_renamed_are_told_at_the_start() {
    let client = Provider::new();
    let effect = "effect = { kind = \"exec\", command = [\"sh\",\"handler.sh\"], class = \"keyed\", \
                  provider_window = \"30d\" }";
    let site = of_effect(&client, "embedded:data", effect, "");
    site.write("handler.sh", "sleep 30; exit 1\n");
    let mut running = start(&site, &client);
    let sent = messages("billing", 1..=2);
    assert_eq!(said(send(&client, "billing-0a", 1, 1, &sent)).0, 200);
    running.signal(Signal::KILL);
    wait_for("the end", || !running.is_running());
    let config = site
        .text("semel.toml")
        .replace("pipelines.orders", "pipelines.bills");
    site.write("semel.toml", &config);
    let running = start(&site, &client);
    running.signal(Signal::TERM);
    let told = "2 messages that others sent wait for pipeline `orders`";
    running.wait().done().says(told);
}

#[test]
fn producers_that_send_until_they_are_answered_are_complete_whatever_was_killed() {
    for store in ["embedded:data", "sqlite:semel.db"] {
        let client = Provider::new();
        complete_whatever_is_killed(&site(&client, store, ""), &client, store);
    }
}

/// Has producers send until they are answered, to a worker that is killed again and again: each message runs once.
fn complete_whatever_is_killed(site: &Site, client: &Provider, store: &str) {
    let (names, each) = (["a-0a", "b-0b", "c-0c"], 120);
    let taken = AtomicUsize::new(0);
    let mut running = start(site, client);
    std::thread::scope(|scope| {
        for name in names {
            let taken = &taken;
            scope.spawn(move || {
                let mut next = 1_u64;
                while next <= each {
                    // A part is known, and a part is new; each third time as a later opening.
                    let first = next.saturating_sub(3).max(1);
                    let sent = messages(name, first..=(next + 4).min(each));
                    wait_for("an answer with success", || {
                        let reply = send(client, name, 1 + next / 30, first, &sent);
                        reply.is_some_and(|it| it.status == 200)
                    });
                    next = (next + 5).min(each + 1);
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for kill in 1..=4 {
            wait_for("some progress", || {
                taken.load(Ordering::SeqCst) >= kill * 14
            });
            running.signal(Signal::KILL);
            wait_for("the end", || !running.is_running());
            running = site.start(&["run", "--output", "json"]);
        }
    });
    let all = names.len() * usize::try_from(each).expect("few");
    wait_for("the effects", || has_lines(site, all));
    running.signal(Signal::TERM);
    running.wait().done();
    let text = site.text("orders.ndjson");
    assert_eq!(text.lines().count(), all, "{store}: none twice");
    for name in names {
        // What a dead worker had in hand waits for its lease, and later messages do not wait for it.
        let own = text
            .lines()
            .filter(|it| it.contains(&format!("\"{name}\"")));
        let mut own: Vec<_> = own.map(str::to_owned).collect();
        let mut expected = messages(name, 1..=each);
        own.sort_unstable();
        expected.sort_unstable();
        assert_eq!(own, expected, "{store}");
    }
}

#[test]
fn a_frozen_producer_is_parked_and_runs_once_it_thaws() {
    for store in ["embedded:data", "sqlite:semel.db"] {
        let client = Provider::new();
        let site = site(&client, store, "");
        let running = start(&site, &client);
        let billing = |sequences: std::ops::RangeInclusive<u64>| {
            let first = *sequences.start();
            said(send(
                &client,
                "billing-0a",
                1,
                first,
                &messages("billing", sequences),
            ))
        };
        billing(1..=2);
        wait_for("the effects", || has_lines(&site, 2));
        let verb = |verb| site.semel(&["producers", verb, "billing-0a", "--store", store, "--yes"]);
        verb("freeze").done().says("froze `billing-0a`");
        let (status, answer) = billing(2..=4);
        assert_eq!(
            (status, &answer["parked"]),
            (202, &json!(2)),
            "{store}: {answer}"
        );
        assert_eq!(billing(2..=4).0, 200, "known");
        // Another producer goes on meanwhile.
        let other = send(&client, "shop-0b", 1, 1, &messages("shop", 1..=1));
        assert_eq!(said(other).0, 200);
        wait_for("the effect of the other", || has_lines(&site, 3));
        assert_eq!(site.text("orders.ndjson").lines().count(), 3);
        // What was settled before is on record soon.
        wait_for("the two that are kept", || {
            let list = ["producers", "list", "--store", store, "--output", "jsonl"];
            let shown = site.semel(&list).done().stdout;
            let frozen = shown.lines().find(|it| it.contains("billing-0a"));
            let frozen: Value = serde_json::from_str(frozen.expect("listed")).expect("JSON");
            assert_eq!(frozen["frozen"], json!(true), "{frozen}");
            frozen["waiting"] == json!(2)
        });
        verb("release").done();
        wait_for("what was kept", || has_lines(&site, 5));
        assert_eq!(billing(5..=5).0, 202);
        verb("thaw").done();
        wait_for("what was new", || has_lines(&site, 6));
        running.signal(Signal::TERM);
        running.wait().done();
        let text = site.text("orders.ndjson");
        let own = text.lines().filter(|it| it.contains("billing"));
        assert_eq!(
            own.collect::<Vec<_>>(),
            messages("billing", 1..=5),
            "{store}"
        );
    }
}

/// Sends half a body: whoever sent it is gone, or waits for an answer.
fn send_half_bodies(address: SocketAddr) {
    for is_gone in [true, false] {
        let mut stream = TcpStream::connect(address).expect("a connection");
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nSemel-Producer: billing-0a\r\nSemel-Epoch: 1\r\n\
             Semel-Sequence: 1\r\nContent-Length: 10\r\n\r\n{{\"a\""
        );
        stream.write_all(head.as_bytes()).expect("sent");
        if !is_gone {
            stream.shutdown(std::net::Shutdown::Write).expect("ended");
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        }
    }
}

fn has_no_producers(site: &Site) {
    let listed = site.semel(&[
        "producers",
        "list",
        "--store",
        "embedded:data",
        "--output",
        "jsonl",
    ]);
    assert_eq!(listed.done().stdout, "");
}

#[test]
fn a_request_that_is_none_leaves_nothing() {
    let client = Provider::new();
    let site = site(
        &client,
        "embedded:data",
        "require = true\nmax_body = \"1KiB\"",
    );
    let running = start(&site, &client);
    let (producer, epoch, sequence) = (
        ("Semel-Producer", "billing-0a"),
        ("Semel-Epoch", "1"),
        ("Semel-Sequence", "1"),
    );
    let lines = ("Content-Type", "application/x-ndjson");
    let large = vec![b'x'; 2_000];
    for (headers, body, status, code) in [
        (&[][..], &b"{}"[..], 400, "producer-missing"),
        (&[producer, epoch], b"{}", 400, "producer-missing"),
        (
            &[producer, epoch, ("Semel-Sequence", "0")],
            b"{}",
            400,
            "invalid-input",
        ),
        (
            &[producer, epoch, ("Semel-Sequence", "-1")],
            b"{}",
            400,
            "invalid-input",
        ),
        (
            &[producer, ("Semel-Epoch", "one"), sequence],
            b"{}",
            400,
            "invalid-input",
        ),
        (
            &[("Semel-Producer", "a b"), epoch, sequence],
            b"{}",
            400,
            "invalid-input",
        ),
        (
            &[producer, producer, epoch, sequence],
            b"{}",
            400,
            "invalid-input",
        ),
        (&[("Idempotency-Key", "")], b"{}", 400, "invalid-input"),
        (&[producer, epoch, sequence], b"", 400, "invalid-input"),
        (
            &[producer, epoch, sequence, lines],
            b"{}\n\n{}",
            400,
            "invalid-input",
        ),
        (&[producer, epoch, sequence], &large, 413, "body-too-large"),
        (
            &[
                producer,
                epoch,
                sequence,
                ("Origin", "https://evil.example"),
            ],
            b"{}",
            403,
            "origin-refused",
        ),
    ] {
        let (found, answer) = said(client.send("POST", PATH, headers, body));
        assert_eq!(
            (found, &answer["code"]),
            (status, &json!(code)),
            "{headers:?}: {answer}"
        );
        site.semel(&["explain", code]).done();
    }
    let (status, answer) = said(client.send("POST", "/v1/ingest/other", &[], b"{}"));
    assert_eq!((status, &answer["code"]), (404, &json!("path-unknown")));
    send_half_bodies(client.address());
    has_no_producers(&site);
    // The first that is whole is the first; what is no text is the pipeline's to judge.
    let whole = client.send("POST", PATH, &[producer, epoch, sequence], b"\xff\xfe");
    assert_eq!(
        said(whole),
        (200, json!({"accepted": 1, "duplicates": 0, "next": 2}))
    );
    let keyed = ("Idempotency-Key", "k-1");
    let id = ("Semel-Id", "order-9");
    for (accepted, duplicates) in [(1, 0), (0, 1)] {
        let reply = client.send("POST", PATH, &[keyed, id], b"{}");
        let expected = json!({"accepted": accepted, "duplicates": duplicates});
        assert_eq!(said(reply), (200, expected));
    }
    wait_for("the effects", || {
        site.path("orders.ndjson").exists()
            && std::fs::read(site.path("orders.ndjson")).is_ok_and(|it| it == b"\xff\xfe\n{}\n")
    });
    running.signal(Signal::TERM);
    running.wait().done().summary().is(&[("applied", 2)]);
}

#[test]
fn a_store_that_keeps_no_messages_of_others_is_refused_by_name() {
    let client = Provider::new();
    let site = site(&client, "redis://localhost", "");
    for verb in ["run", "check"] {
        let refused = site.semel(&[verb]).code(2);
        refused
            .says("pipelines.orders.source.kind")
            .says("sqlite:FILE");
    }
}

#[test]
fn a_producer_whose_pipeline_is_paused_is_told_to_come_again() {
    let client = Provider::new();
    let admin = Admin::new();
    let site = site(&client, "embedded:data", "");
    let config = format!("{}\n{}", admin.table(), site.text("semel.toml"));
    site.write("semel.toml", config);
    let running = start(&site, &client);
    let billing = |first| {
        send(
            &client,
            "billing-0a",
            1,
            first,
            &messages("billing", first..=first),
        )
    };
    assert_eq!(said(billing(1)).0, 200);
    order(&site, "pause", "orders");
    wait_for("the pause", || {
        admin.ready().1["pipelines"]["orders"]["state"] == "paused"
    });
    assert_eq!(said(billing(2)).0, 503);
    order(&site, "resume", "orders");
    wait_for("a source", || said(billing(2)).0 == 200);
    wait_for("the effects", || has_lines(&site, 2));
    running.signal(Signal::TERM);
    running.wait().done().summary().is(&[("applied", 2)]);
}
