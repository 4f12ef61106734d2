//! Outboxes: transactions that commit late and that are undone, relays killed, stopped and cut off, and so their database,
//! their broker and the consumer behind it. What was committed arrives, in order, and counts once.

#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::process::Signal;
use torture::{Broker, Nats, Origin, Postgres, Site, Target, tell, what_is_committed_arrives};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn what_is_committed_arrives_from_postgresql_in_kafka() {
    what_is_committed_arrives(Origin::Postgres, Target::Kafka, 171);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn what_is_committed_arrives_from_postgresql_in_nats() {
    what_is_committed_arrives(Origin::Postgres, Target::Nats, 172);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn what_is_committed_arrives_from_postgresql_in_rabbitmq() {
    what_is_committed_arrives(Origin::Postgres, Target::RabbitMq, 173);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn what_is_committed_arrives_from_postgresql_over_http() {
    what_is_committed_arrives(Origin::Postgres, Target::Http, 174);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn what_is_committed_arrives_from_mariadb_in_nats() {
    what_is_committed_arrives(Origin::Mariadb, Target::Nats, 175);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn what_is_committed_arrives_from_sqlite_in_rabbitmq() {
    what_is_committed_arrives(Origin::Sqlite, Target::RabbitMq, 176);
}

/// The order service of `examples/outbox`, with its own files.
#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn the_order_service_ships_what_was_ordered() {
    let server = Postgres::start();
    let mut nats = Nats::start();
    for tables in ["shop.sql", "warehouse.sql"] {
        server.query(&example(tables));
    }
    let url = format!("{}?sslmode=disable", server.url());
    // The broker of the tests has another stream than that of the example.
    let broker = nats.reader("ship");
    let address = broker.split('"').nth(3).expect("an address");
    let here = |name| {
        example(name)
            .replace("postgres://localhost/shop", &url)
            .replace("postgres://localhost/warehouse", &url)
            .replace("nats://localhost:4222", address)
            .replace("subject = \"orders\"", "subject = \"payments\"")
            .replace("ORDERS", "payments")
            // What a killed one held is soon another's.
            .replace("stream = \"orders\"", "stream = \"orders\"\nlease = \"3s\"")
    };
    let site = Site::with(&[
        ("shop.toml", &here("shop.toml")),
        ("warehouse.toml", &here("warehouse.toml")),
    ]);
    let migrate = ["store", "migrate", "--yes", "--store", &url];
    for arguments in [&migrate[..], &["check", "shop.toml"]] {
        let (status, stdout) = site.start(arguments).wait();
        assert!(status.success(), "{status}: {stdout}{}", site.last_words());
    }
    let all = transactions();
    let parts: Vec<&[String]> = all.chunks(all.len().div_ceil(ROUNDS)).collect();
    let [mut shop, mut warehouse] =
        ["shop.toml", "warehouse.toml"].map(|it| site.start(&["run", it]));
    let count = |rows: &str| server.query(&format!("select 1 from {rows}")).len() as u64;
    let waits = || count("semel_outbox") > 0;
    let (mut relays, mut workers) = (0_u64, 0_u64);
    for part in &parts {
        let (published, shipped) = (nats.count(), count("public.shipments"));
        thread::scope(|scope| {
            scope.spawn(|| server.query(&part.concat()));
            until("publications", &site, || nats.count() > published);
            let ran = shop.kill_after(Duration::ZERO);
            relays += u64::from(ran && waits());
        });
        shop = site.start(&["run", "shop.toml"]);
        let published = nats.count();
        until("its successor", &site, || {
            nats.count() > published || !waits()
        });
        until("more shipments", &site, || {
            count("public.shipments") > shipped
        });
        let ran = warehouse.kill_after(Duration::ZERO);
        workers += u64::from(ran && count("public.shipments") < nats.count());
        warehouse = site.start(&["run", "warehouse.toml"]);
    }
    let ordered = server.query("select order_id, item, quantity from public.orders order by 1");
    assert_eq!(ordered.len(), 900, "100 of 1,000 are rolled back");
    let shipped =
        || server.query("select order_id, item, quantity from public.shipments order by 1");
    until("every shipment", &site, || shipped().len() >= ordered.len());
    until("an empty outbox", &site, || {
        server
            .query("select 1 from semel_outbox limit 1")
            .is_empty()
    });
    for run in [shop, warehouse] {
        run.signal(Signal::TERM);
        let (status, _) = run.wait_at_most(Duration::from_secs(60));
        assert!(status.success(), "{status}: {}", site.last_words());
    }
    assert_eq!(shipped(), ordered);
    println!("an order service: 900 orders, {relays} relays and {workers} workers killed at work");
    assert!(relays > 1 && workers > 0, "too few were killed at work");
    let figures = [("operations", 900), ("workers killed", relays + workers)];
    tell("outbox, an order service", &figures);
}

/// The transactions of the shop, each as SQL.
fn transactions() -> Vec<String> {
    let output = Command::new("python3")
        .arg(examples().join("shop.py"))
        .output();
    let output = output.expect("python3");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let begun = text.split("BEGIN;\n").skip(1);
    begun.map(|rest| format!("BEGIN;\n{rest}")).collect()
}

fn until(what: &str, site: &Site, mut is_so: impl FnMut() -> bool) {
    for _ in 0..9_000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(20));
    }
    panic!("{what} takes too long:\n{}", site.last_words());
}

fn example(name: &str) -> String {
    std::fs::read_to_string(examples().join(name)).expect("a file of the example")
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/outbox")
}

const ROUNDS: usize = 4;
