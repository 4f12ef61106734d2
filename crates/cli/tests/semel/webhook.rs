//! `semel run` with sources of kind `webhook`: a provider that signs its requests and sends them again until it is
//! answered with success, over plain HTTP.

mod encrypted;
pub(crate) mod provider;
mod traces;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::pauses::order;
use crate::ready::Admin;
use crate::site::{Running, Site, lines, wait_for};
use provider::{Provider, Reply};

/// A site with a pipeline `events` that appends each event of GitHub to `events.ndjson` once.
fn site(provider: &Provider, more: &str) -> Site {
    of_effect(
        provider,
        "embedded:data",
        more,
        "effect = { kind = \"file\", path = \"events.ndjson\" }",
    )
}

fn of_effect(provider: &Provider, store: &str, more: &str, effect: &str) -> Site {
    let config = format!(
        "{more}\n[store]\nurl = \"{store}\"\n[pipelines.events]\nkey = \"header:x-github-delivery\"\n\
         window = \"7d\"\n{effect}\n[pipelines.events.source]\nkind = \"webhook\"\nlisten = \"{}\"\n\
         path = \"/github\"\nverify = \"github\"\nsecret_file = \"secret\"\nanswer_within = \"60s\"\n",
        provider.address()
    );
    Site::with(&[
        ("semel.toml", &config),
        ("secret", &format!("the one before\n{}\n", provider::SECRET)),
    ])
}

/// Starts the worker, and waits until it takes requests.
fn start(site: &Site, provider: &Provider) -> Running {
    let mut running = site.start(&["run", "--output", "json"]);
    wait_for("a worker that takes requests", || {
        assert!(running.is_running(), "{}", running.stderr());
        provider
            .send("GET", "/github", &[], b"")
            .is_some_and(|reply| reply.status == 405)
    });
    running
}

fn fate(reply: Option<Reply>) -> (u16, String) {
    let reply = reply.expect("an answer");
    let said: Value = serde_json::from_slice(&reply.body).expect("JSON");
    (
        reply.status,
        said["fate"].as_str().unwrap_or_default().to_owned(),
    )
}

#[test]
fn a_retry_is_answered_with_success_and_happens_once() {
    let provider = Provider::new();
    let site = site(&provider, "");
    let running = start(&site, &provider);
    let deliver = |id| provider.deliver("/github", id, b"{\"action\":\"opened\"}");
    assert_eq!(fate(deliver("d-1")), (200, "applied".to_owned()));
    for _ in 0..2 {
        let again = deliver("d-1");
        let is_marked = again
            .as_ref()
            .is_some_and(|it| it.has("idempotency-replayed", "true"));
        assert!(is_marked, "{again:?}");
        assert_eq!(fate(again), (200, "replayed".to_owned()));
    }
    assert_eq!(fate(deliver("d-2")), (200, "applied".to_owned()));
    let conflict = provider.deliver("/github", "d-2", b"{\"action\":\"closed\"}");
    assert_eq!(fate(conflict), (202, "conflict".to_owned()));
    let keyless = provider.deliver("/github", "", b"{}");
    assert_eq!(fate(keyless), (202, "quarantined".to_owned()));
    running.signal(Signal::TERM);
    running.wait().done().summary().is(&[
        ("applied", 2),
        ("replayed", 2),
        ("conflicts", 1),
        ("quarantined", 1),
    ]);
    assert_eq!(site.sorted_lines("events.ndjson").len(), 2);
}

#[test]
fn a_provider_whose_pipeline_is_paused_is_told_to_come_again() {
    let provider = Provider::new();
    let admin = Admin::new();
    let site = site(&provider, &admin.table());
    let running = start(&site, &provider);
    let deliver = |id| provider.deliver("/github", id, b"{\"action\":\"opened\"}");
    assert_eq!(fate(deliver("d-1")), (200, "applied".to_owned()));
    order(&site, "pause", "events");
    wait_for("the pause", || {
        admin.ready().1["pipelines"]["events"]["state"] == "paused"
    });
    let refused = deliver("d-2").expect("an answer");
    assert_eq!(refused.status, 503, "{refused:?}");
    order(&site, "resume", "events");
    wait_for("the pipeline", || {
        admin.ready().1["pipelines"]["events"]["state"] == "running"
    });
    let mut again = None;
    wait_for("a source", || {
        again = deliver("d-2");
        again.as_ref().is_some_and(|it| it.status != 503)
    });
    assert_eq!(fate(again), (200, "applied".to_owned()));
    running.signal(Signal::TERM);
    let counts = [("deliveries", 2), ("applied", 2)];
    running.wait().done().summary().is(&counts);
}

#[test]
fn a_request_that_nobody_signed_changes_nothing() {
    let provider = Provider::new();
    let site = site(&provider, "");
    let running = start(&site, &provider);
    let body = b"{\"action\":\"opened\"}";
    let id = ("X-GitHub-Delivery", "d-1");
    let wrong = provider::signature("another secret", body);
    let right = provider::signature(provider::SECRET, body);
    let header = "X-Hub-Signature-256";
    for (headers, sent, status, code) in [
        (vec![id], &body[..], 400, "signature-missing"),
        (
            vec![id, (header, &right[7..])],
            body,
            400,
            "signature-missing",
        ),
        (vec![id, (header, &wrong)], body, 401, "signature-wrong"),
        (
            vec![id, (header, &right)],
            b"{\"action\":\"closed\"}",
            401,
            "signature-wrong",
        ),
    ] {
        let reply = provider
            .send("POST", "/github", &headers, sent)
            .expect("an answer");
        let said: Value = serde_json::from_slice(&reply.body).expect("a problem");
        assert_eq!(
            (reply.status, &said["code"]),
            (status, &code.into()),
            "{said}"
        );
        assert!(!said.to_string().contains(provider::SECRET), "{said}");
        // The page says what to do.
        site.semel(&["explain", code]).done();
    }
    let previous = provider::signature("the one before", body);
    let reply = provider.send("POST", "/github", &[id, (header, &previous)], body);
    assert_eq!(
        fate(reply),
        (200, "applied".to_owned()),
        "each secret of the file"
    );
    running.signal(Signal::TERM);
    running.wait().done().summary().is(&[("applied", 1)]);
    assert_eq!(site.text("events.ndjson").lines().count(), 1);
}

#[test]
fn what_a_killed_worker_did_not_answer_is_sent_again_and_happens_once() {
    let provider = Provider::new();
    let site = site(&provider, "");
    let ids: Vec<_> = (0..120).map(|number| format!("d-{number}")).collect();
    let (taken, next) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut running = start(&site, &provider);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(id) = ids.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let body = format!("{{\"id\":\"{id}\"}}");
                    provider.until_taken("/github", id, body.as_bytes());
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for kill in 1..=3 {
            wait_for("some progress", || {
                taken.load(Ordering::SeqCst) >= kill * 25
            });
            running.signal(Signal::KILL);
            wait_for("the end", || !running.is_running());
            running = site.start(&["run", "--output", "json"]);
        }
    });
    // Whatever was answered with success is there, and is there once.
    for id in &ids {
        let body = format!("{{\"id\":\"{id}\"}}");
        let again = provider.deliver("/github", id, body.as_bytes());
        assert_eq!(fate(again), (200, "replayed".to_owned()), "{id}");
    }
    running.signal(Signal::TERM);
    running.wait().done();
    let mut expected: Vec<_> = ids
        .iter()
        .map(|id| format!("{{\"id\":\"{id}\"}}"))
        .collect();
    expected.sort_unstable();
    assert_eq!(site.sorted_lines("events.ndjson"), expected);
}

#[test]
fn a_request_whose_effect_was_under_way_at_a_kill_has_no_answer_and_its_retry_has_one() {
    let provider = Provider::new();
    let effect = "lease = \"2s\"\n[pipelines.events.effect]\nkind = \"exec\"\ncommand = [\"sh\", \"handler.sh\"]\n\
                  class = \"keyed\"\nprovider_window = \"30d\"\n";
    let site = of_effect(&provider, "embedded:data", "", effect);
    site.write(
        "handler.sh",
        "echo \"$SEMEL_IDEMPOTENCY_KEY\" >> calls; test -e quick || sleep 30\n",
    );
    let mut running = start(&site, &provider);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| provider.deliver("/github", "d-1", b"{}"));
        wait_for("the call", || site.text("calls").lines().count() == 1);
        running.signal(Signal::KILL);
        let unanswered = first.join().expect("a provider");
        assert!(unanswered.is_none(), "{unanswered:?}");
    });
    wait_for("the end", || !running.is_running());
    site.write("quick", "");
    let running = start(&site, &provider);
    assert_eq!(
        fate(provider.deliver("/github", "d-1", b"{}")),
        (200, "applied".to_owned())
    );
    assert_eq!(
        fate(provider.deliver("/github", "d-1", b"{}")),
        (200, "replayed".to_owned())
    );
    running.signal(Signal::TERM);
    running.wait().done();
    let mut calls = site.sorted_lines("calls");
    assert_eq!(calls.len(), 2, "{calls:?}");
    calls.dedup();
    assert_eq!(
        calls.len(),
        1,
        "under one key, which the target knows: {calls:?}"
    );
}

#[test]
fn a_stop_answers_what_is_in_hand_with_its_fate_or_asks_for_it_again() {
    let provider = Provider::new();
    let effect = "concurrency = 1\n[pipelines.events.effect]\nkind = \"exec\"\ncommand = [\"sh\", \"handler.sh\"]\n\
                  class = \"keyed\"\nprovider_window = \"30d\"\n";
    let site = of_effect(&provider, "embedded:data", "", effect);
    site.write(
        "handler.sh",
        "echo \"$SEMEL_KEY\" >> calls; until test -e go; do sleep 0.05; done\n",
    );
    let mut running = start(&site, &provider);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| provider.deliver("/github", "d-1", b"{}"));
        wait_for("the first call", || site.text("calls").lines().count() == 1);
        let second = scope.spawn(|| provider.deliver("/github", "d-2", b"{}"));
        // It may come before the stop or after it: the answer is the same.
        std::thread::sleep(Duration::from_millis(100));
        running.signal(Signal::TERM);
        wait_for("the stop", || running.stderr().contains("stopping"));
        let late = provider
            .deliver("/github", "d-3", b"{}")
            .expect("an answer");
        assert_eq!(late.status, 503, "{late:?}");
        assert!(late.has("retry-after", "5"), "{late:?}");
        site.write("go", "");
        let first = first.join().expect("a provider");
        assert_eq!(fate(first), (200, "applied".to_owned()));
        let second = second.join().expect("a provider").expect("an answer");
        assert_eq!(second.status, 503, "{second:?}");
    });
    running.wait().done();
    assert_eq!(site.text("calls"), "d-1\n");
}

#[test]
fn pipelines_share_an_address_and_the_worker_is_ready() {
    let provider = Provider::new();
    let admin = Admin::new();
    let pipeline = |name: &str| {
        format!(
            "[pipelines.{name}]\nkey = \"json:/id\"\neffect = {{ kind = \"file\", path = \"{name}.ndjson\" }}\n\
             source = {{ kind = \"webhook\", listen = \"{}\", path = \"/{name}\", verify = \"none\" }}\n",
            provider.address()
        )
    };
    let config = admin.table() + &pipeline("events") + &pipeline("orders");
    let site = Site::with(&[("semel.toml", &config)]);
    let running = site.start(&["run"]);
    wait_for("a worker that is ready", || admin.ready().0);
    for name in ["events", "orders"] {
        let path = format!("/{name}");
        let reply = provider.send("POST", &path, &[], b"{\"id\":1}");
        assert_eq!(fate(reply), (200, "applied".to_owned()), "{name}");
        assert_eq!(site.text(&format!("{name}.ndjson")), "{\"id\":1}\n");
    }
    assert!(admin.shows("semel_webhook_answers_total{pipeline=\"orders\",status=\"200\"} 1"));
    assert!(admin.shows("semel_webhook_answers_total{pipeline=\"orders\",status=\"401\"} 0"));
    let of_a_page = [("Origin", "https://evil.example")];
    let refused = provider
        .send("POST", "/orders", &of_a_page, b"{\"id\":2}")
        .expect("an answer");
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(admin.shows("semel_webhook_answers_total{pipeline=\"orders\",status=\"403\"} 1"));
    assert_eq!(site.text("orders.ndjson"), "{\"id\":1}\n");
    let other = provider
        .send("POST", "/other", &[], b"{}")
        .expect("an answer");
    assert_eq!(other.status, 404);
    running.signal(Signal::TERM);
    running.wait().done();
}

#[test]
fn an_address_in_use_ends_the_run_with_its_name() {
    let provider = Provider::new();
    let site = site(&provider, "");
    let taken = std::net::TcpListener::bind(provider.address()).expect("a free port");
    let ended = site.semel(&["run"]).code(3);
    drop(taken);
    assert!(ended.stderr.contains("[address-in-use]"), "{ended:?}");
    assert!(
        ended.stderr.contains(&provider.address().to_string()),
        "{ended:?}"
    );
}

#[test]
fn check_says_what_is_known_of_the_provider_and_what_is_not_verified() {
    let provider = Provider::new();
    let site = site(&provider, "");
    let report = site.semel(&["check", "--output", "json"]).done().stdout;
    let report: Value = serde_json::from_str(report.trim()).expect("JSON");
    assert_eq!(report["reach"]["replay"], "3d", "{report}");
    assert_eq!(report["reach"]["verdict"], "enough", "{report}");
    let config = site.text("semel.toml");
    let open = config
        .replace("verify = \"github\"", "verify = \"none\"")
        .replace("secret_file = \"secret\"\n", "");
    site.write("semel.toml", open);
    let report = site.semel(&["check"]).done().stdout;
    assert!(report.contains("webhook-unverified"), "{report}");
}

/// The payloads that GitHub sent, as `@octokit/webhooks-examples` has them.
fn recorded() -> Vec<Vec<u8>> {
    let folder = std::env::var("SEMEL_WEBHOOK_EXAMPLES").unwrap_or_else(|_| {
        panic!("SEMEL_WEBHOOK_EXAMPLES names no folder: run `cargo xtask examples`, which says where it is")
    });
    let index = std::path::Path::new(&folder).join("api.github.com/index.json");
    let text = std::fs::read(&index).expect("the examples");
    let events: Vec<Value> = serde_json::from_slice(&text).expect("JSON");
    let examples = events.iter().flat_map(|event| {
        let examples = event["examples"].as_array().into_iter().flatten();
        examples.map(|it| serde_json::to_vec(it).expect("JSON"))
    });
    examples.collect()
}

#[test]
fn each_recorded_webhook_of_github_happens_once_in_order_and_not() {
    let payloads = recorded();
    assert!(payloads.len() > 100, "{} payloads", payloads.len());
    let provider = Provider::new();
    for is_shuffled in [false, true] {
        let site = site(&provider, "");
        let running = start(&site, &provider);
        let mut order: Vec<_> = (0..payloads.len()).chain(0..payloads.len()).collect();
        if is_shuffled {
            shuffle(&mut order);
        }
        let next = AtomicUsize::new(0);
        let senders = if is_shuffled { 8 } else { 1 };
        std::thread::scope(|scope| {
            for _ in 0..senders {
                scope.spawn(|| {
                    while let Some(&number) = order.get(next.fetch_add(1, Ordering::SeqCst)) {
                        let id = format!("delivery-{number}");
                        let reply = provider.deliver("/github", &id, &payloads[number]);
                        assert_eq!(reply.expect("an answer").status, 200, "{id}");
                    }
                });
            }
        });
        running.signal(Signal::TERM);
        let summary = running.wait().done().summary();
        let count = payloads.len() as u64;
        summary.is(&[("applied", count), ("replayed", count)]);
        let applied = site.text("events.ndjson");
        let expected = lines(&payloads, |it| {
            String::from_utf8(it.clone()).expect("a text")
        });
        if is_shuffled {
            let sorted = |text: &str| {
                let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
                lines.sort_unstable();
                lines
            };
            assert_eq!(sorted(&applied), sorted(&expected));
        } else {
            assert_eq!(applied, expected, "in order");
        }
    }
}

/// Shuffles with a fixed seed.
fn shuffle(items: &mut [usize]) {
    let mut state: u64 = 331;
    for last in (1..items.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let place = (state >> 33) % (last as u64 + 1);
        items.swap(last, usize::try_from(place).expect("a place"));
    }
}

#[cfg(all(feature = "nats", feature = "redis"))]
#[test]
fn while_the_store_is_away_no_request_is_answered_with_success_and_none_is_lost() {
    use crate::brokers::Way;
    use crate::redis::Prefix;

    let provider = Provider::new();
    let prefix = Prefix::new();
    // A proxy takes the place of the server, which ends before a slash.
    let (way, url) = Way::to(&prefix.url().replacen('?', "/0?", 1));
    let effect = "[pipelines.events.effect]\nkind = \"exec\"\ncommand = [\"sh\", \"-c\", \"echo $SEMEL_KEY >> calls\"]\n\
                  class = \"keyed\"\nprovider_window = \"30d\"\n";
    let site = of_effect(&provider, &url, "", effect);
    let config = site.text("semel.toml");
    site.write(
        "semel.toml",
        config
            .replace("answer_within = \"60s\"", "answer_within = \"1s\"")
            .replace(
                "[pipelines.events]\n",
                "accept = [\"durability\"]\n[pipelines.events]\n",
            ),
    );
    let running = start(&site, &provider);
    provider.until_taken("/github", "d-0", b"{}");
    way.refuse(true);
    way.cut_now();
    for id in ["d-1", "d-2"] {
        let reply = provider.deliver("/github", id, b"{}").expect("an answer");
        assert_eq!(reply.status, 503, "{reply:?}");
        assert!(reply.has("retry-after", "5"), "{reply:?}");
    }
    assert_eq!(site.text("calls"), "d-0\n");
    way.heal();
    for id in ["d-0", "d-1", "d-2"] {
        provider.until_taken("/github", id, b"{}");
    }
    running.signal(Signal::TERM);
    running.wait().done();
    assert_eq!(site.sorted_lines("calls"), ["d-0", "d-1", "d-2"]);
}

#[test]
fn payloads_that_come_again_under_new_keys_are_a_share_of_all() {
    let provider = Provider::new();
    let admin = Admin::new();
    let site = site(&provider, &admin.table());
    let running = start(&site, &provider);
    let deliver = |id: String, event: u32| {
        let body = format!("{{\"event\":{event}}}");
        let reply = provider.deliver("/github", &id, body.as_bytes());
        assert_eq!(fate(reply), (200, "applied".to_owned()));
    };
    let is_churn =
        |share: &str| admin.shows(&format!("semel_key_churn{{pipeline=\"events\"}} {share}"));
    // What came before the first look is no part of the share.
    wait_for("no churn", || is_churn("0.0"));
    for event in 0..6 {
        deliver(format!("first-{event}"), event);
    }
    for event in 0..4 {
        deliver(format!("second-{event}"), event);
    }
    // Four of ten.
    wait_for("the churn", || is_churn("0.4"));
    running.signal(Signal::TERM);
    running.wait().done().summary().is(&[("applied", 10)]);
}
