//! Workers of one group killed, stopped and joined by others, the broker killed and restarted: effects in
//! PostgreSQL, and outputs in another topic, each once.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use torture::{Kafka, Moments, Payments, Postgres, Run, Site, Summary, scaled};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_while_workers_come_and_go_and_the_broker_is_killed() {
    let mut moments = Moments::seeded(61);
    let payments = Payments::generate(scaled(60_000, 180_000), &mut moments);
    let mut kafka = Kafka::start();
    kafka.create("payments", 6);
    let server = Postgres::start();
    // Without a key of its own: the ledger must not hide a duplicate.
    server.query("create table charges (id text, amount bigint)");
    let config = [&CHARGED.replace("URL", &server.url()), SOURCE].concat();
    let site = Site::with(&[("semel.toml", &config.replace("BROKERS", &kafka.brokers()))]);
    let storm = Storm::over(&mut kafka, &site, &payments, &mut moments);
    payments.assert_charged_once(&server.query(CHARGES));
    println!(
        "Kafka to PostgreSQL: {} records, {storm}",
        payments.deliveries
    );
    storm.was_one();
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn outputs_are_committed_once_while_workers_come_and_go_and_the_broker_is_killed() {
    let mut moments = Moments::seeded(62);
    let payments = Payments::generate(scaled(60_000, 180_000), &mut moments);
    let mut kafka = Kafka::start();
    kafka.create("payments", 6);
    kafka.create("clean", 3);
    let config = [STREAMED, SOURCE].concat();
    let site = Site::with(&[("semel.toml", &config.replace("BROKERS", &kafka.brokers()))]);
    let storm = Storm::over(&mut kafka, &site, &payments, &mut moments);
    // Read by Kafka's own consumer.
    let mut times = BTreeMap::new();
    for line in kafka.read_committed("clean") {
        *times.entry(id(&line)).or_insert(0) += 1;
    }
    let repeated: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(repeated.is_empty(), "put out twice: {repeated:?}");
    let expected: BTreeSet<_> = payments.distinct.iter().map(|it| it.id.clone()).collect();
    let there: BTreeSet<_> = times.into_keys().collect();
    assert_eq!(there.len(), expected.len(), "an output was lost");
    assert_eq!(there, expected);
    println!("Kafka to Kafka: {} records, {storm}", payments.deliveries);
    storm.was_one();
}

/// What befell the workers.
struct Storm {
    killed: u32,
    stopped: u32,
    restarts: u32,
    revoked: usize,
    takeovers: u64,
}

impl Storm {
    /// Publishes the payments bit by bit to workers that are killed, stopped and joined by others, so that they
    /// have something in hand, kills the broker in between, and returns when the group has read everything and
    /// its last workers have ended.
    fn over(kafka: &mut Kafka, site: &Site, payments: &Payments, moments: &mut Moments) -> Self {
        let lines: Vec<&str> = payments.ndjson.lines().collect();
        let rounds = rounds();
        // Nearly as many publish.
        let bits = usize::try_from(rounds - 2).expect("few");
        let mut bits = lines.chunks(lines.len().div_ceil(bits));

        let (mut killed, mut stopped, mut restarts) = (0, 0, 0);
        let mut workers: Vec<Run> = Vec::new();
        let mut producer = kafka.producer("payments");
        for round in 0..rounds {
            // One more joins those that are at work, which takes partitions from them.
            while workers.len() <= WORKERS {
                workers.push(site.start(&["run", "--output", "json"]));
            }
            if let Some(bit) = bits.next() {
                producer.publish(bit, id);
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
            let place = usize::try_from(moments.below(WORKERS as u64 + 1)).expect("few");
            let run = workers.swap_remove(place);
            killed += u32::from(run.kill_after(moments.between(MS(0), MS(200))));
        }
        while workers.len() < WORKERS {
            workers.push(site.start(&["run", "--output", "json"]));
        }
        producer.finish();
        kafka.wait_until_read("billing", payments.deliveries, site);
        let mut takeovers = 0;
        for worker in workers {
            worker.signal(Signal::TERM);
            let (status, stdout) = worker.wait_at_most(Duration::from_secs(60));
            assert!(status.success(), "{status}: {}", site.text("stderr.log"));
            takeovers += Summary::parse(&stdout).count("takeovers");
        }
        let said = site.text("stderr.log");
        Self {
            killed,
            stopped,
            restarts,
            revoked: said.matches("go to another worker").count(),
            takeovers,
        }
    }

    /// A run in which nothing happened proves nothing. Revocations are counted, and depend on who has something
    /// in hand when another one joins: the adapter's own tests have them.
    fn was_one(&self) {
        let killed = self.killed;
        let rounds = rounds();
        assert!(killed >= rounds * 3 / 4, "{killed} of {rounds} killed");
    }
}

impl fmt::Display for Storm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} workers killed at work, {} stopped beyond their session, {} restarts of a killed broker, \
             {} revocations, {} takeovers by the last workers",
            self.killed, self.stopped, self.restarts, self.revoked, self.takeovers
        )
    }
}

fn rounds() -> u32 {
    scaled(8, 24)
}

/// The key of a line: what its payment is called.
fn id(line: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
    value["id"].as_str().expect("an id").to_owned()
}

/// Asks the database itself.
const CHARGES: &str = "select id || ' ' || amount from charges";
const WORKERS: usize = 3;

const CHARGED: &str = r#"
[store]
url = "URL?sslmode=disable"

[pipelines.payments]
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
effect = { kind = "sql", statement = "insert into charges (id, amount) values (:id, :amount)" }
batch = 250
# The topic keeps records for a week, and a segment for another.
window = "30d"
lease = "2s"
"#;

/// Nothing is set aside here, so nothing is lost with the store.
const STREAMED: &str = r#"
[store]
url = "memory:"
allow_volatile = true

[pipelines.payments]
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
batch = 2000
window = "30d"

[pipelines.payments.effect]
kind = "kafka"
class = "streamed"
brokers = "BROKERS"
topic = "clean"
transaction_timeout = "4s"
"#;

const SOURCE: &str = r#"
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
