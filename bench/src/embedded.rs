//! The embedded store: claim and complete, one durable write per batch.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::{
    Admission, ClaimId, ClaimRequest, Key, Outcome, Scope, Settled, Settlement, StateKind, Step,
    Store, Window,
};
use semel_engine::system::SystemClock;
use semel_store_embedded::{EmbeddedStore, Options};
use tokio::runtime::Runtime;

use crate::figures::{Figures, timed};
use crate::keys::Keys;
use crate::rivals::Rival;

/// Decisions per second beside `RocksDB`, batch 64 and 1000, 36-byte keys, a tenth duplicates.
pub(crate) fn rate() -> crate::Outcome {
    println!("embedded store, decisions/s, each batch durable (claim + complete), 10 % duplicates");
    println!("| batch | Semel | RocksDB (MultiGet + synced write) | ratio, slice by slice |");
    println!("|---|---|---|---|");
    for (batch, batches) in [(64, 2_000), (1_000, 200)] {
        const SLICES: usize = 7;
        let folder = tempfile::tempdir_in(".")?;
        let runtime = runtime()?;
        let store = open(&folder.path().join("semel"))?;
        let mut rival = Rival::rocksdb(folder.path(), batch, batches, SLICES)?;
        let mut keys = Keys::seeded(7);
        let mut claims = 0;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..SLICES {
            let input = requests(&mut keys, batch, batches, &mut claims)?;
            let (taken, fresh) = timed(|| runtime.block_on(async { decide(&store, &input).await }));
            fresh?;
            ours.push(rate_of(batch * batches, taken));
            theirs.push(rival.slice()?);
        }
        println!(
            "| {batch} | {} | {} | {} |",
            Figures::of(ours.clone()),
            Figures::of(theirs.clone()),
            Figures::ratios(&ours, &theirs)
        );
    }
    Ok(())
}

/// Resident growth per key over two million keys.
pub(crate) fn memory() -> crate::Outcome {
    let folder = tempfile::tempdir_in(".")?;
    let runtime = runtime()?;
    let store = open(&folder.path().join("semel"))?;
    let mut keys = Keys::seeded(8);
    let mut claims = 0;
    // The first keys include the cost of buffers and code.
    let warm = requests(&mut keys, 1_000, 50, &mut claims)?;
    let mut fresh = runtime.block_on(async { decide(&store, &warm).await })?;
    drop(warm);
    let (before, already) = (resident_bytes()?, fresh);
    let mut most = before;
    for _ in 0..40 {
        let input = requests(&mut keys, 1_000, 50, &mut claims)?;
        fresh += runtime.block_on(async { decide(&store, &input).await })?;
        drop(input);
        most = most.max(resident_bytes()?);
    }
    let after = resident_bytes()?;
    let grown = fresh - already;
    println!(
        "embedded store, resident growth over {grown} keys: {:.1} bytes a key at the end, {:.1} at \
         the most",
        per(after.saturating_sub(before), grown),
        per(most.saturating_sub(before), grown)
    );
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per(bytes: u64, count: u64) -> f64 {
    bytes as f64 / count as f64
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn rate_of(count: usize, taken: Duration) -> f64 {
    count as f64 / taken.as_secs_f64()
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().build()
}

fn open(folder: &Path) -> semel_core::Result<EmbeddedStore> {
    EmbeddedStore::open(folder, Arc::new(SystemClock::new()), Options::default())
}

type Batch = Arc<[ClaimRequest]>;

/// Batches of claims, made outside the timed region.
fn requests(
    keys: &mut Keys,
    batch: usize,
    batches: usize,
    claims: &mut u128,
) -> Result<Vec<Batch>, Box<dyn std::error::Error>> {
    let scope = Scope::new("", "bench")?;
    let mut request = || -> Result<ClaimRequest, Box<dyn std::error::Error>> {
        *claims += 1;
        let key = Key::from_canonical(Bytes::from(keys.key())).ok_or("no key")?;
        let mut request = ClaimRequest::new(scope.clone(), key, ClaimId::from_u128(*claims));
        request.wants_outcome = false;
        Ok(request)
    };
    (0..batches)
        .map(|_| (0..batch).map(|_| request()).collect())
        .collect()
}

/// Claims and completes batch by batch; returns how many keys were new.
async fn decide(store: &EmbeddedStore, input: &[Batch]) -> Result<u64, Box<dyn std::error::Error>> {
    let mut fresh = 0;
    for batch in input {
        let admissions = store.claim(Arc::clone(batch)).await?;
        let granted = admissions
            .into_iter()
            .filter_map(|admission| match admission {
                Admission::Granted(claim) => Some(claim),
                _ => None,
            });
        let settlements = granted
            .map(|claim| Settlement {
                operation: claim.operation,
                claim_id: claim.claim_id,
                step: Step::Complete {
                    outcome: Outcome::empty(),
                    window: Window::DEFAULT,
                },
            })
            .collect();
        let settled = store.settle(settlements).await?;
        if !settled
            .iter()
            .all(|settled| matches!(settled, Settled::Now(StateKind::Completed)))
        {
            return Err("a claim was lost".into());
        }
        fresh += settled.len() as u64;
    }
    Ok(fresh)
}

fn resident_bytes() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .ok_or("no VmRSS")?;
    let kib: u64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kib * 1024)
}
