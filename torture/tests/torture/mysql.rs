//! Workers killed and stopped, the server killed and restarted, connections cut at random bytes: effects
//! in MariaDB, each once; and not so if the effects' table has no transactions.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use semel_conformance::proxy::Proxy;
use tokio::runtime::Runtime;
use torture::{Moments, Mysql, Payments, Run, Site, Under, held_once, tell};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_whatever_dies() {
    let enough = |rig: &Rig, killed| killed > 16 && rig.proxy.seen().cuts >= 16;
    let found = Rig::with("InnoDB").torment(71, 100_000, 16, enough);
    println!("MariaDB, InnoDB: {found}");
    assert_eq!(found.repeated, 0, "a charge happened twice");
    assert_eq!(found.lost, 0, "a charge was lost");
    assert_eq!(found.wrong, 0, "a charge that nobody asked for");
    assert!(
        found.killed > 16 && found.cuts >= 16,
        "most of it came too late: make the input longer"
    );
    tell(
        "file, MariaDB",
        &[
            ("operations", found.deliveries),
            ("workers killed", found.killed.into()),
            ("stores killed", found.restarts.into()),
            ("connections cut", found.cuts),
        ],
    );
}

/// The other tests of this module hold no lease, or do not check its holder.
#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn calls_under_a_lease_are_taken_over_and_count_once() {
    held_once(&mut Mysql::start(), Under::Keyed, 73);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn calls_without_a_key_are_taken_over_and_left_in_doubt() {
    held_once(&mut Mysql::start(), Under::Unkeyed, 74);
}

/// The negative control. A table without transactions is refused, in the store's own database and in
/// another one, so it is hidden behind a view, which no check looks into.
#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn the_rig_finds_what_a_table_without_transactions_repeats() {
    let rig = Rig::with("MyISAM");
    rig.server
        .query("create table semel.charges (id varchar(64), amount bigint) engine = MyISAM");
    for table in ["charges", "outside.charges"] {
        let config = rig.config().replace("outside.book", table);
        let site = Site::with(&[("payments.ndjson", ""), ("semel.toml", &config)]);
        let (status, _) = site.start(&["run"]).wait();
        let said = site.text("stderr.log");
        assert!(!status.success() && said.contains("MyISAM"), "{said}");
    }
    rig.server.query("drop table semel.charges");
    let found = rig.torment(72, 40_000, 6, |rig, _| rig.repeated());
    println!("MariaDB, MyISAM: {found}");
    assert!(
        found.repeated + found.lost > 0,
        "the rig takes a table without transactions for one with them"
    );
}

/// A server, and a proxy before it.
struct Rig {
    server: Mysql,
    proxy: Proxy,
    _runtime: Runtime,
}

/// The result for the payments.
#[derive(Debug)]
struct Found {
    deliveries: u64,
    /// Payments that were charged more than once.
    repeated: usize,
    /// Payments that were not charged.
    lost: usize,
    /// Charges that are no payment.
    wrong: usize,
    killed: u32,
    restarts: u32,
    cuts: u64,
}

impl Rig {
    /// A rig whose charges are in this engine. Without a key of their own: the ledger must not hide a
    /// duplicate.
    fn with(engine: &str) -> Self {
        let server = Mysql::start();
        server.query(&format!(
            "create database outside; \
             create table outside.charges (id varchar(64), amount bigint) engine = {engine}; \
             create view outside.book as select id, amount from outside.charges"
        ));
        let runtime = Runtime::new().expect("a runtime");
        let proxy = {
            let _inside = runtime.enter();
            Proxy::start(server.address())
        };
        Self {
            server,
            proxy,
            _runtime: runtime,
        }
    }

    fn config(&self) -> String {
        CONFIG.replace("ADDRESS", &self.proxy.address().to_string())
    }

    /// Deals all faults, this many rounds of them and at most three times as many until it is `enough`, and then
    /// runs to the end in peace.
    fn torment(
        mut self,
        seed: u64,
        payments: usize,
        rounds: u32,
        enough: impl Fn(&Self, u32) -> bool,
    ) -> Found {
        let mut moments = Moments::seeded(seed);
        let payments = Payments::generate(payments, &mut moments);
        let config = self.config();
        let site = Site::with(&[
            ("payments.ndjson", &payments.ndjson),
            ("semel.toml", &config),
        ]);
        let (mut killed, mut restarts) = (0, 0);
        for round in 0..3 * rounds {
            if round >= rounds && enough(&self, killed) {
                break;
            }
            // A worker that finds no store when it starts gives up.
            self.proxy.heal();
            let runs: Vec<Run> = (0..WORKERS)
                .map(|_| site.start(&["run", "--output", "json"]))
                .collect();
            thread::sleep(moments.between(MS(100), MS(400)));
            self.proxy.storm(moments.below(u64::MAX), BYTES);
            // One of them stands still beyond its lease, the others go on.
            runs[0].signal(Signal::STOP);
            if round % 4 == 2 {
                self.server.kill_and_restart();
                restarts += 1;
            }
            thread::sleep(LEASE + moments.between(MS(50), MS(400)));
            runs[0].signal(Signal::CONT);
            for run in runs {
                killed += u32::from(run.kill_after(moments.between(MS(0), MS(100))));
            }
        }
        let cuts = self.proxy.seen().cuts;
        self.proxy.heal();
        let summary = site.run_to_the_end();
        summary.check_sum(payments.deliveries);
        let (repeated, lost, wrong) = self.judge(&payments);
        Found {
            deliveries: payments.deliveries,
            repeated,
            lost,
            wrong,
            killed,
            restarts,
            cuts,
        }
    }

    /// Returns whether a charge is in the database twice by now.
    fn repeated(&self) -> bool {
        let select =
            "select id from outside.charges group by id, amount having count(*) > 1 limit 1";
        !self.server.query(select).is_empty()
    }

    /// Counts in the database itself how many were repeated, lost, and never requested.
    fn judge(&self, payments: &Payments) -> (usize, usize, usize) {
        let select = "select concat(id, ' ', amount), count(*) from outside.charges group by 1";
        let mut charged: BTreeMap<String, u64> = BTreeMap::new();
        for row in self.server.query(select) {
            let (charge, count) = row.split_once('\t').expect("two fields");
            charged.insert(charge.to_owned(), count.parse().expect("a count"));
        }
        let repeated = charged.values().filter(|count| **count > 1).count();
        let mut lost = 0;
        for payment in &payments.distinct {
            let charge = format!("{} {}", payment.id, payment.amount);
            lost += usize::from(charged.remove(&charge).is_none());
        }
        (repeated, lost, charged.len())
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} deliveries, {} workers killed at work, {} restarts of a killed server, {} connections cut: \
             {} repeated, {} lost",
            self.deliveries, self.killed, self.restarts, self.cuts, self.repeated, self.lost
        )
    }
}

const WORKERS: u32 = 3;
/// The number of bytes within which a connection is cut.
const BYTES: u64 = 250_000;
const LEASE: Duration = Duration::from_millis(300);

const CONFIG: &str = r#"
[store]
url = "mysql://root@ADDRESS/semel?ssl-mode=disabled"

[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
effect = { kind = "sql", statement = "insert into outside.book (id, amount) values (:id, :amount)" }
lease = "300ms"
batch = 500
"#;
