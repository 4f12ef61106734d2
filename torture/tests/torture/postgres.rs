//! Workers killed and stopped, the server killed and restarted: effects in PostgreSQL, each once.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use semel_conformance::proxy::Proxy;
use tokio::runtime::Runtime;
use torture::{Moments, Payments, Postgres, Run, Site, Summary, Under, held_once, tell};

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
        thread::sleep(moments.between(MS(100), MS(700)));
        // One of them stands still beyond its lease, the others go on.
        runs[0].signal(Signal::STOP);
        stopped += 1;
        if round % 4 == 3 {
            server.kill_and_restart();
        }
        thread::sleep(moments.between(MS(50), MS(700)));
        runs[0].signal(Signal::CONT);
        for run in runs {
            killed += u32::from(run.kill_after(moments.between(MS(0), MS(100))));
        }
    }
    let summary = site.run_to_the_end();
    summary.check_sum(payments.deliveries);
    payments.assert_charged_once(&server.query(CHARGES));
    println!(
        "PostgreSQL: {} deliveries, {killed} workers killed at work, {stopped} stopped, {} restarts of a killed server",
        payments.deliveries,
        ROUNDS / 4
    );
    assert!(
        killed > ROUNDS,
        "most kills came too late: make the input longer"
    );
    tell(
        "file, PostgreSQL",
        &[
            ("operations", payments.deliveries),
            ("workers killed", killed.into()),
            ("workers stopped", stopped),
            ("stores killed", (ROUNDS / 4).into()),
        ],
    );
}

/// The other tests of this module hold no lease, or do not check its holder.
#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn calls_under_a_lease_are_taken_over_and_count_once() {
    held_once(&mut Postgres::start(), Under::Keyed, 53);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn calls_without_a_key_are_taken_over_and_left_in_doubt() {
    held_once(&mut Postgres::start(), Under::Unkeyed, 54);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_while_connections_are_cut_at_random_bytes() {
    let mut moments = Moments::seeded(52);
    let server = Postgres::start();
    server.query("create table charges (id text, amount bigint)");
    // A COMMIT takes a while, so that a cut can hit it.
    server.query("alter system set commit_delay = 20000");
    server.query("alter system set commit_siblings = 0");
    server.query("select pg_reload_conf()");
    let cuts = Cuts::in_front_of(&server);
    let (mut deliveries, mut commits, mut rounds) = (0, 0, 0);
    // A fast machine is done before it is cut often: then all of it is repeated in another place.
    while cuts.proxy.seen().cuts < 12 || commits < 3 {
        rounds += 1;
        assert!(rounds <= 8, "hardly a connection was cut");
        let payments = Payments::generate(100_000, &mut moments);
        deliveries += payments.deliveries * 2;
        server.query("truncate charges");
        commits += two_workers_and_cuts(&server, &cuts, &payments, rounds, &mut moments);
    }
    let cut = cuts.proxy.seen().cuts;
    println!(
        "PostgreSQL: {deliveries} deliveries to two workers in {rounds} rounds, {cut} connections cut, \
         {commits} times during a COMMIT"
    );
    tell(
        "file, PostgreSQL, connections cut",
        &[
            ("operations", deliveries),
            ("connections cut", cut),
            ("cut during COMMIT", commits.into()),
        ],
    );
}

/// Has two workers share the work in a schema of its own, cut off now and then; returns how often a
/// COMMIT was hit.
fn two_workers_and_cuts(
    server: &Postgres,
    cuts: &Cuts,
    payments: &Payments,
    round: u32,
    moments: &mut Moments,
) -> u32 {
    let site = Site::with(&[("payments.ndjson", &payments.ndjson)]);
    // No worker is killed: each goes on by itself, whatever was cut.
    cuts.proxy.heal();
    let runs: Vec<Run> = (0..2)
        .map(|number| {
            let name = format!("worker-{round}-{number}");
            let parameters = format!("schema=round_{round}&application_name={name}&sslmode=");
            let config = CONFIG.replace("URL", &cuts.url);
            let config = config.replace("sslmode=", &parameters);
            std::fs::write(site.path(&name), config).expect("a file");
            site.start(&["run", "--config", &name, "--output", "json"])
        })
        .collect();
    // A worker that finds no store when it starts gives up, so all are at work before the first cut.
    let at_work = format!(
        "select distinct application_name from pg_stat_activity \
         where application_name like 'worker-{round}-%' and query ilike 'commit'"
    );
    while server.query(&at_work).len() < runs.len() {}
    let ended = AtomicBool::new(false);
    let (results, commits) = thread::scope(|scope| {
        let striking = scope.spawn(|| cuts.strike(server, moments, &ended));
        let results: Vec<_> = runs.into_iter().map(Run::wait).collect();
        ended.store(true, Ordering::Relaxed);
        (results, striking.join().expect("cuts"))
    });
    for (status, stdout) in results {
        assert!(status.success(), "{status}: {}", site.text("stderr.log"));
        Summary::parse(&stdout).check_sum(payments.deliveries);
    }
    payments.assert_charged_once(&server.query(CHARGES));
    commits
}

/// The proxy between the workers and the server.
struct Cuts {
    proxy: Proxy,
    url: String,
    _runtime: Runtime,
}

impl Cuts {
    fn in_front_of(server: &Postgres) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let url = server.url();
        let (user, rest) = url.split_once('@').expect("a user");
        let (address, database) = rest.split_once('/').expect("a database");
        let proxy = {
            let _inside = runtime.enter();
            Proxy::start(address.parse().expect("an address in numbers"))
        };
        Self {
            url: format!("{user}@{}/{database}", proxy.address()),
            proxy,
            _runtime: runtime,
        }
    }

    /// Cuts until it is ended: at a random byte of either side, before a random answer, and while the
    /// server carries out a COMMIT. Returns the number of the latter.
    fn strike(&self, server: &Postgres, moments: &mut Moments, ended: &AtomicBool) -> u32 {
        let mut commits = 0;
        while !ended.load(Ordering::Relaxed) {
            self.proxy.heal();
            let before = self.proxy.seen().cuts;
            match moments.below(3) {
                0 => self.proxy.storm(moments.below(u64::MAX), BYTES),
                1 => {
                    self.proxy.reset(moments.below(2) == 0);
                    self.proxy.cut_before_answer(1 + moments.below(ANSWERS));
                }
                _ => {
                    let committing = "select pid from pg_stat_activity where state = 'active' \
                                      and query ilike 'commit' and application_name like 'worker-%'";
                    while server.query(committing).is_empty() && !ended.load(Ordering::Relaxed) {}
                    self.proxy.cut_now();
                    commits += 1;
                }
            }
            // When everything is done, nothing is left to cut.
            while self.proxy.seen().cuts == before && !ended.load(Ordering::Relaxed) {
                thread::sleep(MS(1));
            }
        }
        commits
    }
}

/// The query for the database itself.
const CHARGES: &str = "select id || ' ' || amount from charges";
const BYTES: u64 = 150_000;
const ANSWERS: u64 = 15;
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
batch = 250
"#;
