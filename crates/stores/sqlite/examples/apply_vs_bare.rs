//! Measures the cost of the record: `apply` against a bare rusqlite loop that inserts the same
//! rows.
//!
//! `cargo run --release -p semel-store-sqlite --example apply_vs_bare [-- FOLDER [MESSAGES]]`
//!
//! Bare loops, both in WAL with `synchronous = FULL`: `bare` as rusqlite comes, `bare tuned` with
//! the store's own cache and log. Each line is the median of the rounds, which alternate.

#![expect(
    clippy::disallowed_methods,
    reason = "a measurement reads the real clock"
)]
#![expect(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rusqlite::{Connection, TransactionBehavior, params};
use semel_core::port::transactional::{
    Application, Applied, Statements, TransactionalStore, Value,
};
use semel_core::{
    Backoff, ClaimId, ClaimRequest, Clock, Fingerprint, Key, Scope, Timestamp, Window,
};
use semel_store_sqlite::{Options, SqliteStore};

struct System;

impl Clock for System {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[expect(clippy::print_stdout, reason = "the figures are the output")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(folder)?;
    let messages: usize = arguments
        .next()
        .map_or(Ok(200_000), |count| count.parse())?;
    let rows = rows(messages);
    let mut found: Vec<(String, Vec<f64>)> = Vec::new();
    for round in 0..ROUNDS {
        let mut note = |name: String, secs: f64| {
            let rate = messages as f64 / secs;
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, rates)) => rates.push(rate),
                None => found.push((name, vec![rate])),
            }
        };
        for batch in [1_000, 10_000] {
            let path = |name: &str| folder.path().join(format!("{name}-{batch}-{round}.db"));
            note(
                format!("bare {batch}"),
                bare(&path("bare"), &rows, batch, false)?,
            );
            note(
                format!("bare tuned {batch}"),
                bare(&path("tuned"), &rows, batch, true)?,
            );
            note(
                format!("apply {batch}"),
                apply(&path("apply"), &rows, batch, 1).await?,
            );
            note(
                format!("apply {batch}, eight at once"),
                apply(&path("eight"), &rows, batch, 8).await?,
            );
            note(
                format!("replay {batch}"),
                apply(&path("apply"), &rows, batch, 1).await?,
            );
        }
        for file in std::fs::read_dir(folder.path())? {
            std::fs::remove_file(file?.path())?;
        }
    }
    for (name, mut rates) in found {
        rates.sort_by(f64::total_cmp);
        let (least, median, most) = (rates[0], rates[ROUNDS / 2], rates[ROUNDS - 1]);
        println!("{name:24} {median:>8.0}/s  [{least:.0}..{most:.0}]");
    }
    Ok(())
}

struct Row {
    id: String,
    amount: i64,
}

/// Generates rows with random UUIDs, the same in every run.
fn rows(count: usize) -> Vec<Row> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    };
    let row = |amount| {
        let (a, b) = (random(), random());
        let (c, d) = (a & 0xffff, b >> 48);
        let id = format!(
            "{:08x}-{:04x}-{c:04x}-{d:04x}-{:012x}",
            a >> 32,
            a >> 16 & 0xffff,
            b << 16 >> 16
        );
        Row {
            id,
            amount: i64::from(amount),
        }
    };
    (0..u32::try_from(count).unwrap_or(u32::MAX))
        .map(row)
        .collect()
}

fn bare(path: &Path, rows: &[Row], batch: usize, tuned: bool) -> Result<f64, Box<dyn Error>> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    if tuned {
        connection.pragma_update(None, "cache_size", -65_536)?;
        connection.pragma_update(None, "wal_autocheckpoint", 16_384)?;
    }
    connection.execute_batch(CREATE)?;
    let start = Instant::now();
    for rows in rows.chunks(batch) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut insert = transaction.prepare_cached(INSERT)?;
        for row in rows {
            insert.execute(params![row.id, row.amount, "EUR"])?;
        }
        drop(insert);
        transaction.commit()?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Applies all rows, with up to `at_once` batches in flight.
async fn apply(
    path: &Path,
    rows: &[Row],
    batch: usize,
    at_once: usize,
) -> Result<f64, Box<dyn Error>> {
    let store = Arc::new(SqliteStore::open(
        path,
        Arc::new(System),
        Options::default(),
    )?);
    Connection::open(path)?.execute_batch(CREATE)?;
    let statements = Statements {
        sql: [Box::from(INSERT)].into(),
        params: ["id", "amount", "currency"].map(Box::from).into(),
    };
    store.prepare(&statements).await?;
    let scope = Scope::new("", "payments")?;
    // The worker's own work on a message is its own cost, not the store's.
    let batches: Vec<Vec<Application>> = rows
        .chunks(batch)
        .map(|rows| rows.iter().map(|row| application(&scope, row)).collect())
        .collect();
    let start = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for batch in batches {
        if running.len() == at_once {
            check(running.join_next().await)?;
        }
        let (store, statements) = (Arc::clone(&store), statements.clone());
        running.spawn(async move { store.apply(&statements, batch.into()).await });
    }
    while let Some(answer) = running.join_next().await {
        check(Some(answer))?;
    }
    Ok(start.elapsed().as_secs_f64())
}

type Answer = Result<semel_core::Result<Vec<Applied>>, tokio::task::JoinError>;

fn check(answer: Option<Answer>) -> Result<(), Box<dyn Error>> {
    for applied in answer.ok_or("nothing was running")??? {
        if let Applied::Failed { error, .. } = applied {
            return Err(String::from(error).into());
        }
    }
    Ok(())
}

fn application(scope: &Scope, row: &Row) -> Application {
    let key = Key::new(&row.id).unwrap_or_else(|_| Key::from(0));
    let mut claim_id = [0; 16];
    claim_id.copy_from_slice(&row.id.as_bytes()[..16]);
    let mut claim = ClaimRequest::new(scope.clone(), key, ClaimId::from_bytes(claim_id));
    let mut digest = [0; 16];
    digest.copy_from_slice(&row.id.as_bytes()[20..]);
    claim.fingerprint = Some(Fingerprint { scheme: 1, digest });
    claim.transport = Some(Bytes::from(format!("payments.ndjson:{}", row.amount)));
    claim.birth = Some(System.now());
    Application {
        claim,
        values: vec![
            Value::Text(row.id.as_str().into()),
            Value::Number(row.amount.to_string().into()),
            Value::Text("EUR".into()),
        ]
        .into(),
        window: Window::DEFAULT,
        backoff: Backoff {
            first: Duration::from_millis(200),
            most: Duration::from_secs(30),
        },
        gives_back: false,
    }
}

const ROUNDS: usize = 3;
const CREATE: &str =
    "CREATE TABLE IF NOT EXISTS payments (id TEXT PRIMARY KEY, amount INTEGER, currency TEXT)";
const INSERT: &str = "INSERT INTO payments (id, amount, currency) VALUES (:id, :amount, :currency)";
