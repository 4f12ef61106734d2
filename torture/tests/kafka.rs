//! Workers of one group killed, stopped and joined by others, the broker killed and restarted: effects in
//! PostgreSQL, each once.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use torture::{Kafka, Moments, Payment, Payments, Postgres, Run, Site, Summary};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_while_workers_come_and_go_and_the_broker_is_killed() {
    let mut moments = Moments::seeded(61);
    let payments = Payments::generate(180_000, &mut moments);
    let mut kafka = Kafka::start();
    kafka.create("payments", 6);
    let server = Postgres::start();
    // Without a key of its own: the ledger must not hide a duplicate.
    server.query("create table charges (id text, amount bigint)");
    let config = CONFIG
        .replace("URL", &server.url())
        .replace("BROKERS", &kafka.brokers());
    let site = Site::with(&[("semel.toml", &config)]);
    let halves = payments.ndjson.len() / 2;
    let half = payments.ndjson[..halves].rfind('\n').expect("a line") + 1;
    let (first, second) = payments.ndjson.split_at(half);
    kafka.publish("payments", first, id);

    let (mut killed, mut stopped, mut restarts) = (0, 0, 0);
    let mut workers: Vec<Run> = Vec::new();
    for round in 0..ROUNDS {
        while workers.len() < WORKERS {
            workers.push(site.start(&["run", "--output", "json"]));
        }
        if round == ROUNDS / 2 {
            // Somebody publishes while all of that goes on.
            kafka.publish("payments", second, id);
        }
        thread::sleep(moments.between(MS(300), MS(1_500)));
        if round % 5 == 4 {
            // Beyond its lease and beyond the session: the group goes on without it.
            workers[0].signal(Signal::STOP);
            stopped += 1;
            thread::sleep(MS(4_500));
            workers[0].signal(Signal::CONT);
        }
        if round % 8 == 7 {
            kafka.kill_and_restart();
            restarts += 1;
        }
        let place = usize::try_from(moments.below(WORKERS as u64)).expect("few");
        let run = workers.swap_remove(place);
        killed += u32::from(run.kill_after(moments.between(MS(0), MS(200))));
    }
    while workers.len() < WORKERS {
        workers.push(site.start(&["run", "--output", "json"]));
    }
    drained(&kafka, payments.deliveries);
    let mut takeovers = 0;
    for worker in workers {
        worker.signal(Signal::TERM);
        let (status, stdout) = worker.wait_at_most(Duration::from_secs(60));
        assert!(status.success(), "{status}: {}", site.text("stderr.log"));
        takeovers += Summary::parse(&stdout).count("takeovers");
    }
    each_charge_is_there_once(&server, &payments);
    let revoked = site
        .text("stderr.log")
        .matches("go to another worker")
        .count();
    println!(
        "Kafka to PostgreSQL: {} records, {killed} workers killed at work, {stopped} stopped beyond their session, \
         {restarts} restarts of a killed broker, {revoked} revocations, {takeovers} takeovers by the last workers",
        payments.deliveries,
    );
    assert!(killed >= ROUNDS * 3 / 4, "{killed} of {ROUNDS} killed");
    assert!(revoked > 0, "nobody was revoked anything");
}

/// Waits until the group has committed everything.
fn drained(kafka: &Kafka, records: u64) {
    let mut last = None;
    for _ in 0..120 {
        last = kafka.lag("billing");
        if last == Some((0, records)) {
            return;
        }
        thread::sleep(MS(500));
    }
    panic!("the group stands at {last:?} of {records}");
}

/// Asks the database itself.
fn each_charge_is_there_once(server: &Postgres, payments: &Payments) {
    let repeated = server.query("select id from charges group by id having count(*) > 1");
    assert_eq!(repeated, [""; 0], "a charge happened twice");
    let charged: BTreeSet<Payment> = server
        .query("select id || ' ' || amount from charges")
        .iter()
        .filter_map(|line| line.split_once(' '))
        .map(|(id, amount)| Payment {
            id: id.to_owned(),
            amount: amount.parse().expect("an amount"),
        })
        .collect();
    assert_eq!(charged.len(), payments.distinct.len(), "a charge was lost");
    assert_eq!(charged, payments.distinct);
}

/// The key of a line: what its payment is called.
fn id(line: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
    value["id"].as_str().expect("an id").to_owned()
}

const ROUNDS: u32 = 24;
const WORKERS: usize = 3;

const CONFIG: &str = r#"
[store]
url = "URL?sslmode=disable"

[pipelines.payments]
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
effect = { kind = "sql", statement = "insert into charges (id, amount) values (:id, :amount)" }
batch = 250
lease = "2s"

[pipelines.payments.source]
kind = "kafka"
brokers = "BROKERS"
topic = "payments"
group = "billing"
drain = "2s"

[pipelines.payments.source.properties]
"session.timeout.ms" = "3000"
"heartbeat.interval.ms" = "300"
"#;
