//! Workers killed and stopped, the server killed and restarted, connections cut at random bytes: calls that only a
//! store in Redis keeps from being made twice. And the control: the same with a server that keeps no log.
//!
//! The effect appends a line to a file, and its class is *park*: only the store knows whether it happened. So each
//! payment must be in the file once, or be left in doubt, and never twice.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use semel_conformance::proxy::Proxy;
use tokio::runtime::Runtime;
use torture::{Log, Moments, Payments, Redis, Run, Site, Under, held_once, tell};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_while_workers_connections_and_the_server_end() {
    let found = tormented(Log::Synced, 100_000);
    assert_eq!(found.repeated, [""; 0], "carried out twice");
    assert_eq!(found.lost, [""; 0], "neither carried out nor in doubt");
    assert_eq!(found.unasked, [""; 0], "carried out unasked");
    let Found {
        deliveries,
        doubts,
        killed,
        cuts,
        ..
    } = found;
    println!(
        "Redis: {deliveries} deliveries, {killed} workers killed at work, {ROUNDS} stopped, {cuts} connections cut, \
         {RESTARTS} restarts of a killed server, {doubts} in doubt"
    );
    assert!(
        killed > 2 * ROUNDS && cuts > u64::from(ROUNDS),
        "{killed} kills and {cuts} cuts, most of them too late: make the input longer"
    );
    tell(
        "file, Redis",
        &[
            ("operations", deliveries),
            ("workers killed", killed.into()),
            ("workers stopped", ROUNDS.into()),
            ("stores killed", RESTARTS.into()),
            ("connections cut", cuts),
            ("doubts", doubts as u64),
        ],
    );
}

/// The other tests of this module hold no lease, or do not check its holder.
#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn calls_under_a_lease_are_taken_over_and_count_once() {
    held_once(&mut Redis::start(Log::Synced), Under::Keyed, 62);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn calls_without_a_key_are_taken_over_and_left_in_doubt() {
    held_once(&mut Redis::start(Log::Synced), Under::Unkeyed, 63);
}

/// Without its log, a server forgets at its end which effects happened. If no line came twice here, the test above
/// would have tested nothing.
#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn without_the_log_of_the_server_effects_are_repeated() {
    let found = tormented(Log::Off, 20_000);
    println!(
        "Redis without its log: {} deliveries, {} payments carried out twice or more",
        found.deliveries,
        found.repeated.len()
    );
    assert!(!found.repeated.is_empty(), "nothing was repeated");
    assert_eq!(found.unasked, [""; 0], "carried out unasked");
}

/// The state of the world afterwards.
struct Found {
    deliveries: u64,
    /// Payments that were carried out more than once.
    repeated: Vec<String>,
    /// Payments that were not carried out, and that are not listed in doubt.
    lost: Vec<String>,
    /// Lines that are no payment.
    unasked: Vec<String>,
    doubts: usize,
    killed: u32,
    cuts: u64,
}

/// Deals all faults, in [`ROUNDS`] rounds, and then runs to the end in peace.
fn tormented(log: Log, payments: usize) -> Found {
    let mut moments = Moments::seeded(61);
    let payments = Payments::generate(payments, &mut moments);
    let mut server = Redis::start(log);
    let runtime = Runtime::new().expect("a runtime");
    let proxy = {
        let _inside = runtime.enter();
        Proxy::start(server.address())
    };
    let config = CONFIG.replace("ADDRESS", &proxy.address().to_string());
    let site = Site::with(&[
        ("payments.ndjson", &payments.ndjson),
        ("semel.toml", &config),
        ("child.py", CHILD),
    ]);
    let mut killed = 0;
    for round in 0..ROUNDS {
        // A worker that finds no store when it starts gives up.
        proxy.heal();
        let runs: Vec<Run> = (0..WORKERS)
            .map(|_| site.start(&["run", "--output", "json"]))
            .collect();
        thread::sleep(moments.between(MS(150), MS(600)));
        proxy.storm(moments.below(u64::MAX), BYTES);
        // One of them stands still beyond its lease, the others go on.
        runs[0].signal(Signal::STOP);
        thread::sleep(moments.between(MS(0), MS(200)));
        if round % (ROUNDS / RESTARTS) == 1 {
            server.kill_and_restart();
        }
        thread::sleep(moments.between(MS(350), MS(700)));
        runs[0].signal(Signal::CONT);
        for run in runs {
            killed += u32::from(run.kill_after(moments.between(MS(0), MS(100))));
        }
    }
    proxy.heal();
    // The last leases of killed workers run out meanwhile.
    let summary = site.run_to_the_end();
    summary.check_sum(payments.deliveries);
    let cuts = proxy.seen().cuts;
    judged(&site, &payments, killed, cuts)
}

/// Compares the file with the payments, and with the store's list of doubts.
fn judged(site: &Site, payments: &Payments, killed: u32, cuts: u64) -> Found {
    let calls = site.text("calls.log");
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    for id in calls.lines() {
        *times.entry(id).or_default() += 1;
    }
    let (status, listed) = site
        .start(&["keys", "list", "--state", "in-doubt", "--output", "jsonl"])
        .wait();
    assert!(status.success(), "{}", site.text("stderr.log"));
    let key = |line| -> Option<String> {
        let record: serde_json::Value = serde_json::from_str(line).expect("a record per line");
        Some(record["key"].as_str()?.to_owned())
    };
    let doubts: BTreeSet<String> = listed.lines().filter_map(key).collect();
    assert_eq!(doubts.len(), listed.lines().count(), "each has its key");
    let asked: BTreeSet<&str> = payments.distinct.iter().map(|it| &*it.id).collect();
    let owned = |ids: Vec<&&str>| ids.into_iter().map(|id| (*id).to_owned()).collect();
    let repeated = times.iter().filter(|(_, times)| **times > 1);
    let is_lost = |id: &&&str| !times.contains_key(**id) && !doubts.contains(**id);
    Found {
        deliveries: payments.deliveries,
        repeated: owned(repeated.map(|(id, _)| id).collect()),
        lost: owned(asked.iter().filter(is_lost).collect()),
        unasked: owned(times.keys().filter(|id| !asked.contains(**id)).collect()),
        doubts: doubts.len(),
        killed,
        cuts,
    }
}

const ROUNDS: u32 = 12;
const RESTARTS: u32 = 4;
const WORKERS: u32 = 3;
/// The most bytes after which a connection is cut.
const BYTES: u64 = 100_000;

/// Accepts that the store may forget, which changes nothing if it does not.
const CONFIG: &str = r#"
[store]
url = "redis://ADDRESS"
accept = ["durability"]

[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
lease = "300ms"
batch = 500
concurrency = 256
retry = { attempts = 50, backoff = "5ms..20ms", crashes = 1000 }

[pipelines.payments.effect]
kind = "exec"
protocol = "jsonl"
command = ["python3", "-S", "child.py"]
class = "unkeyed"
on_doubt = "park"
"#;

/// The child appends each key to its log, one write: the effect.
const CHILD: &str = r#"
import json, os, sys

log = os.open("calls.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for line in sys.stdin:
    request = json.loads(line)
    os.write(log, (request["key"] + "\n").encode())
    print(json.dumps({"id": request["id"], "status": "done"}), flush=True)
"#;
