//! `kill -9` at 200 random moments, over the effects of one machine. The oracle is the table, the
//! file, the child's own log.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::Connection;
use torture::{Moments, Payments, Run, Site, tell};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_killed_sql_effect_is_in_the_table_exactly_once() {
    let mut moments = Moments::seeded(11);
    let payments = Payments::generate(20_000, &mut moments);
    let site = Site::with(&[("payments.ndjson", &payments.ndjson), ("semel.toml", SQL)]);
    let database = Connection::open(site.path("shop.db")).expect("a database");
    database
        .execute_batch("create table charges (id text, amount integer)")
        .expect("a table without a key: the ledger must not hide a duplicate");
    let count = || -> u64 {
        let count = database.query_row("select count(*) from charges", [], |row| row.get(0));
        count.map(|count: u32| u64::from(count)).expect("a count")
    };
    let killed = kill_runs(&site, 70, MS(2), MS(60), &mut moments);
    let before = count();
    let summary = site.run_to_the_end();
    summary.check_sum(payments.deliveries);
    assert_eq!(
        summary.count("applied"),
        count() - before,
        "the summary agrees with the table"
    );
    let mut charges = database
        .prepare("select id, amount, count(*) from charges group by 1, 2")
        .expect("sql");
    let charges: Vec<(String, u32, u32)> = charges
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .and_then(Iterator::collect)
        .expect("charges");
    assert!(
        charges.iter().all(|(.., times)| *times == 1),
        "a charge happened twice"
    );
    let distinct = charges.into_iter().map(|(id, amount, _)| torture::Payment {
        id,
        amount: amount.into(),
    });
    assert_eq!(
        distinct.collect::<std::collections::BTreeSet<_>>(),
        payments.distinct
    );
    report("sql", killed, 70, &payments);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_killed_file_effect_is_in_the_file_exactly_once() {
    let mut moments = Moments::seeded(12);
    let payments = Payments::generate(40_000, &mut moments);
    let site = Site::with(&[("payments.ndjson", &payments.ndjson), ("semel.toml", FILE)]);
    let killed = kill_runs(&site, 70, MS(2), MS(60), &mut moments);
    let before = site.text("charged.ndjson").lines().count();
    let summary = site.run_to_the_end();
    summary.check_sum(payments.deliveries);
    let after = site.text("charged.ndjson");
    // The lines that the last kill left unrecorded are cut off and written again.
    let applied = usize::try_from(summary.count("applied")).expect("a count");
    assert!(
        applied + before >= after.lines().count(),
        "the summary agrees with the file"
    );
    let mut times: BTreeMap<torture::Payment, u32> = BTreeMap::new();
    for line in after.lines() {
        let message: serde_json::Value = serde_json::from_str(line).expect("no torn line");
        let id = message["id"].as_str().expect("an id").to_owned();
        let amount = message["amount"].as_u64().expect("an amount");
        *times.entry(torture::Payment { id, amount }).or_default() += 1;
    }
    assert!(
        times.values().all(|times| *times == 1),
        "a payment was written twice"
    );
    assert_eq!(
        times.into_keys().collect::<std::collections::BTreeSet<_>>(),
        payments.distinct
    );
    report("file", killed, 70, &payments);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_killed_exec_effect_that_repeats_loses_none() {
    let mut moments = Moments::seeded(13);
    let payments = Payments::generate(2_500, &mut moments);
    let config = format!("{EXEC}on_doubt = \"repeat\"\n");
    let site = Site::with(&[
        ("payments.ndjson", &payments.ndjson),
        ("semel.toml", &config),
    ]);
    let killed = kill_runs(&site, 30, MS(5), MS(120), &mut moments);
    let summary = site.run_to_the_end();
    summary.check_sum(payments.deliveries);
    let times = calls(&site);
    assert_eq!(times.len(), payments.distinct.len(), "an effect was lost");
    assert_eq!((summary.count("dead"), summary.count("in_doubt")), (0, 0));
    // Every possible repeat is on record: an effect that happened twice is listed.
    let listed = column(&site, "select key from semel_records where repeats > 0");
    for (key, times) in times {
        assert!(
            times == 1 || listed.contains(&key),
            "{key} happened {times} times, unlisted"
        );
    }
    report("exec, repeat", killed, 30, &payments);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_killed_exec_effect_that_parks_repeats_none() {
    let mut moments = Moments::seeded(14);
    let payments = Payments::generate(2_500, &mut moments);
    let config = format!("{EXEC}on_doubt = \"park\"\n");
    let site = Site::with(&[
        ("payments.ndjson", &payments.ndjson),
        ("semel.toml", &config),
    ]);
    let killed = kill_runs(&site, 30, MS(5), MS(120), &mut moments);
    let summary = site.run_to_the_end();
    summary.check_sum(payments.deliveries);
    let times = calls(&site);
    assert!(
        times.values().all(|times| *times == 1),
        "an effect was repeated"
    );
    let doubts = column(
        &site,
        "select key from semel_operations where state = 'in_doubt'",
    );
    for payment in &payments.distinct {
        let happened = times.contains_key(&payment.id);
        assert!(
            happened || doubts.contains(&payment.id),
            "{} vanished",
            payment.id
        );
    }
    let known = payments
        .distinct
        .iter()
        .filter(|payment| doubts.contains(&payment.id))
        .count();
    assert_eq!(
        known,
        doubts.len(),
        "a doubt about something that was never asked for"
    );
    report("exec, park", killed, 30, &payments);
    println!("exec, park: {} in doubt", doubts.len());
}

/// Starts and kills `semel run` until it was killed `kills` times while it still worked.
fn kill_runs(
    site: &Site,
    kills: u32,
    least: Duration,
    most: Duration,
    moments: &mut Moments,
) -> u32 {
    let mut killed = 0;
    for _ in 0..kills {
        let moment = moments.between(least, most);
        let run: Run = site.start(&["run", "--output", "json"]);
        killed += u32::from(run.kill_after(moment));
    }
    killed
}

/// The number of times that the child was called for each key, by its own log.
fn calls(site: &Site) -> BTreeMap<String, u32> {
    let mut times = BTreeMap::new();
    for line in site.text("calls.log").lines() {
        *times.entry(line.to_owned()).or_default() += 1;
    }
    times
}

fn column(site: &Site, sql: &str) -> Vec<String> {
    let database = Connection::open(site.path("shop.db")).expect("a database");
    let mut statement = database.prepare(sql).expect("sql");
    statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect)
        .expect("rows")
}

/// Reports a run. A run in which no kill hit it at work has tested nothing.
fn report(effect: &str, killed: u32, kills: u32, payments: &Payments) {
    println!("{effect}: {killed} of {kills} kills struck a run at work");
    assert!(
        killed * 2 > kills,
        "most kills came too late: make the input longer"
    );
    let figures = [
        ("operations", payments.deliveries),
        ("workers killed", killed.into()),
    ];
    tell(&format!("file, {effect}"), &figures);
}

const SQL: &str = r#"
[store]
url = "sqlite:shop.db"

[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
effect = { kind = "sql", statement = "insert into charges (id, amount) values (:id, :amount)" }
batch = 40
"#;

const FILE: &str = r#"
[store]
url = "embedded:data"

[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
effect = { kind = "file", path = "charged.ndjson" }
batch = 40
"#;

/// The child appends its key to its log, one write: the effect.
const EXEC: &str = r#"
[store]
url = "sqlite:shop.db"

[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
lease = "300ms"
retry = { attempts = 5, backoff = "10ms..100ms", crashes = 1000 }

[pipelines.payments.effect]
kind = "exec"
command = ["sh", "-c", "read -r line; echo \"$SEMEL_KEY\" >> calls.log"]
class = "unkeyed"
"#;
