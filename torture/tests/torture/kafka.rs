//! Kafka: workers of one group killed, stopped and joined by others, the broker killed and restarted. Effects of
//! each payment, each once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::process::Signal;
use torture::{Broker, Kafka, Keep, Site, happens_once, readiness};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_postgresql() {
    happens_once(&mut Kafka::with_payments(), Keep::Postgres, 61);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_redis() {
    happens_once(&mut Kafka::with_payments(), Keep::Redis, 63);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_the_embedded_store_and_one_worker() {
    happens_once(&mut Kafka::with_payments(), Keep::Embedded, 64);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn an_outage_of_the_broker_and_its_end_are_told_once_and_readyz_says_it() {
    let mut kafka = Kafka::start();
    kafka.create("payments", 1);
    let port = free_port::take().expect("a free port");
    let config = CONFIG
        .replace("PORT", &port.to_string())
        .replace("SOURCE", &kafka.reader("payments"));
    let site = Site::with(&[("semel.toml", &config)]);
    let run = site.start(&["run", "--output", "json"]);
    let pay = |kafka: &Kafka, lines: &[&str]| {
        let mut publisher = kafka.publisher();
        publisher.publish(lines);
        publisher.finish();
    };
    pay(&kafka, &["{\"id\":\"before\"}"]);
    until("an effect", &site, || site.text("out") == "before\n");
    until("a worker that is ready", &site, || {
        readiness(port).starts_with("HTTP/1.1 200")
    });

    let is_over = AtomicBool::new(false);
    let said = thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut said = BTreeSet::new();
            while !is_over.load(Ordering::SeqCst) {
                let answer = readiness(port);
                if answer.starts_with("HTTP/1.1 503") {
                    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
                    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
                    let state = body["pipelines"]["payments"]["state"].as_str();
                    said.insert(state.unwrap_or_default().to_owned());
                }
                sleep(Duration::from_millis(20));
            }
            said
        });
        kafka.kill_and_restart();
        until("a worker that is ready again", &site, || {
            readiness(port).starts_with("HTTP/1.1 200")
        });
        is_over.store(true, Ordering::SeqCst);
        watching.join().expect("it only asks")
    });
    assert_eq!(said, BTreeSet::from(["source-away".to_owned()]));
    pay(&kafka, &["{\"id\":\"behind\"}"]);
    until("the effect behind it", &site, || {
        site.text("out") == "before\nbehind\n"
    });
    let told = site.text("stderr.log");
    for words in [
        "[source-unavailable]; trying again",
        "payments: the broker is back after ",
    ] {
        assert_eq!(told.matches(words).count(), 1, "{words}: {told}");
    }
    run.signal(Signal::TERM);
    let (status, _) = run.wait_at_most(Duration::from_secs(60));
    assert!(status.success(), "{}", site.last_words());
}

fn until(what: &str, site: &Site, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(20));
    }
    panic!("{what} takes too long:\n{}", site.last_words());
}

const CONFIG: &str = r#"
[store]
url = "embedded:data"

[admin]
listen = "127.0.0.1:PORT"
ready_after = "2s"

[pipelines.payments]
key = "json:/id"
accept = ["window-too-short"]
effect = { kind = "exec", command = ["sh", "-c", "echo $SEMEL_KEY >> out"] }

[pipelines.payments.source]
SOURCE
"#;
