//! Measures the speed at which a store's contents are exported and imported into another.
//!
//! `cargo run --release -p semel-store-sqlite --example transfer_rate [-- FOLDER [RECORDS [CALLS [BATCH]]]]`
//!
//! Imports RECORDS completed records into a new file in batches of BATCH, CALLS at a time, exports
//! them in pages of as many, and imports the pages into a second file. Each line is the median of the
//! rounds, with the least and the most.

#![expect(
    clippy::disallowed_methods,
    reason = "a measurement reads the real clock"
)]
#![expect(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_core::port::store::Listed;
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    ClaimId, Clock, FencingToken, Fingerprint, Key, Operation, Outcome, Record, Scope, State,
    Timestamp, Window,
};
use semel_store_sqlite::{Options, SqliteStore};
use tokio::task::JoinSet;

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(NOW)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[expect(clippy::print_stdout, reason = "the figures are the output")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(folder)?;
    let mut number = |usual| arguments.next().map_or(Ok(usual), |text| text.parse());
    let (records, calls, batch) = (number(1_000_000)?, number(1)?, number(10_000)?);
    let scope = Scope::new("acme", "payments")?;
    let items: Vec<Item> = (0..records).map(|number| item(&scope, number)).collect();
    let mut found: [(&str, Vec<f64>); 3] = [
        ("import, as it came", Vec::new()),
        ("export", Vec::new()),
        ("import, as it was exported", Vec::new()),
    ];
    for round in 0..ROUNDS {
        let path = |name: &str| folder.path().join(format!("{name}-{round}.db"));
        let (secs, store) = import(&path("first"), &items, calls, batch).await?;
        found[0].1.push(records as f64 / secs);
        let began = Instant::now();
        let exported = export(&store, batch).await?;
        found[1]
            .1
            .push(records as f64 / began.elapsed().as_secs_f64());
        assert_eq!(exported.len(), records + 1);
        drop(store);
        let (secs, _) = import(&path("second"), &exported, calls, batch).await?;
        found[2].1.push(records as f64 / secs);
        for name in ["first", "second"] {
            std::fs::remove_file(path(name))?;
        }
    }
    println!("{records} records, batches of {batch}, {calls} at once, thousand records per second");
    for (name, mut rates) in found {
        rates.sort_by(f64::total_cmp);
        let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| rates[at] / 1_000.0);
        println!("{name:<28} {median:>6.0}   ({least:.0} to {most:.0})");
    }
    Ok(())
}

async fn import(
    path: &Path,
    items: &[Item],
    calls: usize,
    batch: usize,
) -> Result<(f64, Arc<SqliteStore>), Box<dyn Error>> {
    let store = SqliteStore::open(path, Arc::new(Stopped), Options::default())?;
    let store = Arc::new(store);
    let batches: Vec<Vec<Item>> = items.chunks(batch).map(<[Item]>::to_vec).collect();
    let began = Instant::now();
    let mut running = JoinSet::new();
    for batch in batches {
        if running.len() == calls {
            all_new(running.join_next().await)?;
        }
        let store = Arc::clone(&store);
        running.spawn(async move { store.import(batch.into()).await });
    }
    while let Some(done) = running.join_next().await {
        all_new(Some(done))?;
    }
    Ok((began.elapsed().as_secs_f64(), store))
}

type Joined = Result<semel_core::Result<Vec<bool>>, tokio::task::JoinError>;

fn all_new(done: Option<Joined>) -> Result<(), Box<dyn Error>> {
    let Some(done) = done else { return Ok(()) };
    let new = done??;
    // The token of an export may be one that is known.
    assert!(new.iter().skip(1).all(|new| *new));
    Ok(())
}

async fn export(store: &SqliteStore, limit: usize) -> Result<Vec<Item>, Box<dyn Error>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.export(after.as_deref(), limit).await?;
        all.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// Returns a record as `once` leaves it.
fn item(scope: &Scope, number: usize) -> Item {
    let at = Timestamp::from_millis(NOW - 1_000);
    let key = Key::parse(&format!("payment-{number:012}")).expect("a key");
    let record = Record {
        state: State::Completed {
            at,
            window: Window::DEFAULT,
        },
        fingerprint: Some(Fingerprint {
            scheme: 1,
            digest: [7; 16],
        }),
        members: None,
        transport: None,
        claim_id: ClaimId::from_u128(number as u128),
        token: FencingToken::new(number as u64 + 1),
        claimed_at: at,
        attempts: 1,
        vanished: 0,
        possible_repeats: 0,
        past: Vec::new(),
        doubt: None,
        created_at: at,
        first_started_at: None,
        last_error: None,
        gate: None,
        held: false,
        outcome: Some(Outcome::Kept {
            codec: 0,
            bytes: format!("{{\"id\":{number}}}").into(),
        }),
    };
    let operation = Operation::new(scope.clone(), key);
    Item::Record(Box::new(Listed { operation, record }))
}

const NOW: u64 = 1_795_257_180_000;
const ROUNDS: usize = 3;
