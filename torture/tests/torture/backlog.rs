//! A worker behind which a million messages wait: its memory stays bounded, and after a kill its successor soon
//! writes new output.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use torture::{Broker, Kafka, Provider, Publish, Site, scaled, tell};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_backlog_fills_no_memory_and_a_killed_worker_is_soon_replaced() {
    let mut kafka = Kafka::start();
    kafka.create("payments", 6);
    let messages = scaled(400_000, 1_000_000);
    publish(kafka.publisher(), messages);
    // The broker misses a killed worker after three seconds; or its successor has its name, and gets its messages at
    // once, whatever the session: by default it lasts 45 seconds.
    let soon = kafka.reader("payments");
    let (head, _) = soon.split_once("properties").expect("properties");
    let head = head.replace("\"payments\"\ndrain", "\"named\"\ndrain");
    let named = format!("{head}properties = {{ \"group.instance.id\" = \"one\" }}\n");
    for (name, source) in [("a session of 3 s", soon), ("a static member", named)] {
        let provider = Provider::slow(SLOW);
        let config = CONFIG.replace("URL", &provider.url()) + &source;
        let site = Site::with(&[("semel.toml", &config)]);
        let mut worker = site.start(&["run"]);
        until_more(&provider, 0, &site);
        let (mut peak, mut waits) = (0, Vec::new());
        for _ in 0..KILLS {
            sleep(scaled(Duration::from_secs(4), Duration::from_secs(20)));
            peak = peak.max(worker.most_memory());
            let killed = now();
            worker.kill_after(Duration::ZERO);
            // Requests that it had sent are under way for a moment.
            sleep(Duration::from_millis(200));
            let before = provider.effects();
            worker = site.start(&["run"]);
            until_more(&provider, before, &site);
            waits.push(killed.elapsed());
        }
        worker.signal(Signal::TERM);
        let (status, _) = worker.wait_at_most(Duration::from_secs(60));
        assert!(status.success(), "{status}:\n{}", site.last_words());
        waits.sort_unstable();
        println!(
            "a backlog of {messages} messages of 1 KiB, {name}: at most {} MiB, first new outputs {waits:?} after kill -9, \
             {} effects of {:?} each",
            peak >> 20,
            provider.effects(),
            SLOW,
        );
        assert!(peak <= MOST, "{} MiB for {messages} messages", peak >> 20);
        // The machine may be busy with other work for a while, but not all the time.
        let median = waits[waits.len() / 2];
        assert!(median <= SOON, "{name}: {waits:?}");
        let figures = [
            ("operations", provider.effects() as u64),
            ("workers killed", KILLS),
        ];
        tell(&format!("Kafka, embedded, a backlog, {name}"), &figures);
    }
}

/// Waits until more than this many were carried out.
fn until_more(provider: &Provider, effects: usize, site: &Site) {
    let begun = now();
    while provider.effects() <= effects {
        let waited = begun.elapsed();
        assert!(
            waited < Duration::from_secs(120),
            "nothing is put out:\n{}",
            site.last_words()
        );
        sleep(Duration::from_millis(10));
    }
}

/// Publishes messages of a kibibyte each, and waits until the broker has them all.
fn publish(mut publisher: Box<dyn Publish>, count: usize) {
    let filler = "x".repeat(960);
    let places: Vec<usize> = (0..count).collect();
    for some in places.chunks(10_000) {
        let line = |place: &usize| {
            format!(
                r#"{{"id":"pay-{place:07}","amount":7,"event":"evt-{place:07}","x":"{filler}"}}"#
            )
        };
        let lines: Vec<String> = some.iter().map(line).collect();
        let lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
        publisher.publish(&lines);
    }
    publisher.finish();
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
fn now() -> Instant {
    Instant::now()
}

const KILLS: u64 = 3;
const SLOW: Duration = Duration::from_millis(100);
/// The limit after `kill -9` until there is new output.
const SOON: Duration = Duration::from_secs(10);
/// The limit, however many messages wait, and less than they take: up to 260 MiB were seen, 64 of them in librdkafka's queue.
const MOST: u64 = 320 << 20;

/// With all settings at their defaults: a lease of 30 s, a batch of 1,000, 32 calls at once.
const CONFIG: &str = r#"
[store]
url = "embedded:data"

[pipelines.payments]
key = "json:/id"
transport = "json:/event"
window = "30d"

[pipelines.payments.effect]
kind = "http"
url = "URL"
class = "keyed"
provider_window = "60d"

[pipelines.payments.source]
"#;
