//! The order service of `examples/orders`, with its own files: workers killed at work, a payment API that is busy
//! or silent at times. The test compares the provider's log and the table with the orders.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use torture::{Broker, Kafka, Moments, Postgres, Run, Site, Summary, tell};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn orders_are_charged_and_booked_once_while_workers_are_killed() {
    let mut moments = Moments::seeded(260);
    let kafka = Kafka::start();
    kafka.create("orders", 4);
    let server = Postgres::start();
    server.query(&example("setup.sql"));
    let orders = generated();
    let provider = Provider::start();
    let here = |text: String| {
        text.replace("localhost:9092", &kafka.brokers())
            .replace(
                "postgres://localhost/orders",
                &format!("{}?sslmode=disable", server.url()),
            )
            .replace("127.0.0.1:9123", &format!("127.0.0.1:{}", provider.port))
            // The broker soon misses a killed worker.
            .replace("group = \"charge\"", &format!("group = \"charge\", {SOON}"))
            .replace("group = \"book\"", &format!("group = \"book\", {SOON}"))
    };
    let site = Site::with(&[
        ("orders.ndjson", &orders),
        ("publish.toml", &here(example("publish.toml"))),
        ("semel.toml", &here(example("semel.toml"))),
    ]);
    let (status, stdout) = site
        .start(&["run", "publish.toml", "--output", "json"])
        .wait_at_most(Duration::from_secs(60));
    assert!(status.success(), "{status}: {}", site.text("stderr.log"));
    let events = Summary::parse(&stdout).count("applied");
    assert_eq!(events, EVENTS, "published");

    let mut killed = 0;
    let mut workers: Vec<Run> = Vec::new();
    for _ in 0..ROUNDS {
        while workers.len() < 2 {
            workers.push(site.start(&["run"]));
        }
        thread::sleep(moments.between(Duration::from_millis(300), Duration::from_millis(1_500)));
        killed += u32::from(workers.swap_remove(0).kill_after(Duration::ZERO));
    }
    kafka.wait_until_acknowledged("charge", &site);
    kafka.wait_until_acknowledged("book", &site);
    for worker in workers {
        worker.signal(Signal::TERM);
        let (status, _) = worker.wait_at_most(Duration::from_secs(60));
        assert!(status.success(), "{status}: {}", site.text("stderr.log"));
    }

    let ordered: BTreeSet<String> = orders.lines().map(order).collect();
    assert_eq!(ordered.len(), ORDERS);
    let booked = server.query("select order_id || ' ' || amount from public.orders");
    assert_eq!(booked.len(), ORDERS, "an order was booked twice, or never");
    assert_eq!(booked.into_iter().collect::<BTreeSet<_>>(), ordered);
    let charges = provider.log("charges.log");
    assert_eq!(
        charges.len(),
        ORDERS,
        "an order was charged twice, or never"
    );
    assert_eq!(charges.into_iter().collect::<BTreeSet<_>>(), ordered);
    let arrivals = provider.log("arrivals.log").len();
    println!(
        "an order service: {events} events of {ORDERS} orders, {killed} workers killed at work, {arrivals} calls of \
         the provider"
    );
    assert!(killed >= ROUNDS * 3 / 4, "{killed} of {ROUNDS} killed");
    assert!(arrivals > ORDERS, "no call was repeated");
    let figures = [("operations", events), ("workers killed", killed.into())];
    tell("Kafka, PostgreSQL, an order service", &figures);
}

/// The payment API of the example, in a folder of its own.
struct Provider {
    folder: tempfile::TempDir,
    process: Child,
    port: String,
}

impl Provider {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut process = Command::new("python3")
            .arg(examples().join("provider.py"))
            .arg("0")
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut port = String::new();
        let said = process.stdout.take().expect("a pipe");
        BufReader::new(said).read_line(&mut port).expect("a line");
        Self {
            folder,
            process,
            port: port.trim().to_owned(),
        }
    }

    /// The lines of a log, without the keys.
    fn log(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join(name)).expect("a log");
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(_, order)| order.to_owned()).collect()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Id and amount of an event, as the provider and the table have them.
fn order(event: &str) -> String {
    let event: serde_json::Value = serde_json::from_str(event).expect("JSON");
    format!(
        "{} {}",
        event["order_id"].as_str().expect("an id"),
        event["amount"]
    )
}

fn generated() -> String {
    let output = Command::new("python3")
        .arg(examples().join("generate.py"))
        .output()
        .expect("python3");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn example(name: &str) -> String {
    std::fs::read_to_string(examples().join(name)).expect("a file of the example")
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/orders")
}

const ORDERS: usize = 1_000;
const EVENTS: u64 = 1_200;
const ROUNDS: u32 = 8;
const SOON: &str =
    "properties = { \"session.timeout.ms\" = \"3000\", \"heartbeat.interval.ms\" = \"300\" }";
