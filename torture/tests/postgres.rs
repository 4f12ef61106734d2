//! Workers killed and stopped, the server killed and restarted: effects in PostgreSQL, each once.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Signal;
use torture::{Moments, Payment, Payments, Postgres, Run, Site};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_while_workers_and_the_server_are_killed() {
    let mut moments = Moments::seeded(51);
    let payments = Payments::generate(100_000, &mut moments);
    let mut server = Postgres::start();
    // Without a key of its own: the ledger must not hide a duplicate.
    server.query("create table charges (id text, amount bigint)");
    let config = CONFIG.replace("URL", &server.url());
    let site = Site::with(&[
        ("payments.ndjson", &payments.ndjson),
        ("semel.toml", &config),
    ]);
    let (mut killed, mut stopped) = (0, 0);
    for round in 0..ROUNDS {
        let runs: Vec<Run> = (0..WORKERS)
            .map(|_| site.start(&["run", "--output", "json"]))
            .collect();
        std::thread::sleep(moments.between(MS(100), MS(700)));
        // One of them stands still beyond its lease, the others go on.
        runs[0].signal(Signal::STOP);
        stopped += 1;
        if round % 4 == 3 {
            server.kill_and_restart();
        }
        std::thread::sleep(moments.between(MS(50), MS(700)));
        runs[0].signal(Signal::CONT);
        for run in runs {
            killed += u32::from(run.kill_after(moments.between(MS(0), MS(100))));
        }
    }
    let summary = site.run_to_the_end();
    summary.check_sum(payments.deliveries);
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
    println!(
        "PostgreSQL: {} deliveries, {killed} workers killed at work, {stopped} stopped, {} restarts of a killed server",
        payments.deliveries,
        ROUNDS / 4
    );
    assert!(
        killed > ROUNDS,
        "most kills came too late: make the input longer"
    );
}

const ROUNDS: u32 = 16;
const WORKERS: u32 = 3;

const CONFIG: &str = r#"
[store]
url = "URL?sslmode=disable"

[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
effect = { kind = "sql", statement = "insert into charges (id, amount) values (:id, :amount)" }
batch = 500
"#;
