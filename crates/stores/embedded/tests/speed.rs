//! How fast it is here and now: `cargo test --release -p semel-store-embedded --test speed -- \
//! --ignored --nocapture --test-threads 1`. Not a gate: `bench` compares with rivals.

#![expect(clippy::print_stdout, reason = "it says what it measured")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "rates are rough"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use semel_core::{
    Admission, ClaimId, ClaimRequest, Clock, Key, Outcome, Scope, Settlement, Step, Store,
    Timestamp, Window,
};
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

struct SystemClock(Instant);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default();
        Timestamp::EPOCH.plus(since)
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

#[test]
#[ignore = "takes a minute and says nothing in a debug build"]
fn decisions_per_second() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let batches = std::env::var("BATCH")
        .ok()
        .and_then(|text| text.parse().ok())
        .map_or(vec![1, 64, 1_000, 10_000], |batch| vec![batch]);
    for batch in batches {
        let dir = TempDir::new().expect("a folder");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock(Instant::now()));
        let before = resident();
        let store = EmbeddedStore::open(dir.path(), Arc::clone(&clock), Options::default())
            .expect("it opens");
        let mut keys = Keys { state: 7, count: 0 };
        let total = if batch < 1_000 {
            20_000 * batch.min(30)
        } else {
            WINDOW_KEYS
        };
        let mut rates = Vec::new();
        let mut stalls = Vec::new();
        let mut spent = Duration::ZERO;
        let slice = (total / 5).max(batch);
        for _ in 0..5 {
            let batches: Vec<Vec<ClaimRequest>> = (0..slice / batch)
                .map(|_| (0..batch).map(|_| keys.next()).collect())
                .collect();
            let start = Instant::now();
            let worked = processor_time();
            for requests in &batches {
                let begun = Instant::now();
                runtime.block_on(once(&store, requests));
                stalls.push(begun.elapsed());
            }
            spent += processor_time().saturating_sub(worked);
            rates.push((slice / batch * batch) as f64 / start.elapsed().as_secs_f64());
        }
        rates.sort_by(f64::total_cmp);
        stalls.sort();
        let used = resident() - before;
        println!(
            "batch {batch}: {:.0} decisions/s [{:.0}..{:.0}], p50 {:?} p99 {:?} max {:?}, {:?} of processor each, resident +{} MB",
            rates[2],
            rates[0],
            rates[4],
            stalls[stalls.len() / 2],
            stalls[stalls.len() * 99 / 100],
            stalls[stalls.len() - 1],
            spent / (5 * slice) as u32,
            used >> 20,
        );
        if batch == 10_000 {
            let records = runtime.block_on(store.stats()).expect("stats");
            let distinct: u64 = records.records.iter().sum();
            println!(
                "{distinct} keys, {} bytes on disk each",
                records.disk_bytes.unwrap_or(0) / distinct
            );
            drop(store);
            let start = Instant::now();
            let store =
                EmbeddedStore::open(dir.path(), clock, Options::default()).expect("it opens");
            println!("reopened in {:?}", start.elapsed());
            drop(store);
        }
    }
}

async fn once(store: &EmbeddedStore, requests: &[ClaimRequest]) {
    let admissions = store.claim(requests).await.expect("a claim");
    let settlements: Vec<_> = admissions
        .into_iter()
        .filter_map(|admission| match admission {
            Admission::Granted(claim) => Some(Settlement {
                operation: claim.operation,
                claim_id: claim.claim_id,
                step: Step::Complete {
                    outcome: Outcome::empty(),
                    window: Window::DEFAULT,
                },
            }),
            _ => None,
        })
        .collect();
    let settled = store.settle(&settlements).await.expect("a settlement");
    assert_eq!(settled.len(), settlements.len());
}

/// Random keys of 36 bytes; one in ten repeats one of the last million.
struct Keys {
    state: u64,
    count: u64,
}

impl Keys {
    fn next(&mut self) -> ClaimRequest {
        let dice = mix(self.state);
        self.state += 1;
        let number = if self.count > 0 && dice.is_multiple_of(10) {
            let back = 1 + (dice >> 8) % self.count.min(1_000_000);
            self.count - back
        } else {
            self.count += 1;
            self.count - 1
        };
        let (a, b) = (mix(number), mix(!number));
        let text = format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            a >> 32,
            a & 0xffff,
            a >> 16 & 0xffff,
            b >> 48,
            b & 0xffff_ffff_ffff
        );
        let key = Key::from_canonical(Bytes::from(text)).expect("UTF-8");
        thread_local!(static SCOPE: Scope = Scope::new("", "payments").expect("a scope"));
        let scope = SCOPE.with(Clone::clone);
        ClaimRequest::new(
            scope,
            key,
            ClaimId::from_u128(u128::from(dice) << 64 | u128::from(self.state)),
        )
    }
}

fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What this process has used of the processors.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
    let nanos = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// Resident memory in bytes.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap_or_default();
    let kib = line
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<i64>().ok());
    kib.unwrap_or(0) << 10
}

const WINDOW_KEYS: usize = 2_000_000;
