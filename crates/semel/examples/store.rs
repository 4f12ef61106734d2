//! A store of one's own around another: this one counts round trips.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use semel::decide::{Directed, Directive};
use semel::memory::MemoryStore;
use semel::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Swept};
use semel::{
    Admission, Audited, ClaimRequest, Note, Operation, Parked, ParkedId, Record, Renewal, Renewed,
    Result, Semel, Settled, Settlement, Store, SystemClock,
};

struct Counting<S> {
    inner: S,
    calls: Arc<AtomicU64>,
}

impl<S> Counting<S> {
    fn counted(&self) -> &S {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.inner
    }
}

impl<S: Store> Store for Counting<S> {
    async fn claim(&self, batch: &[ClaimRequest]) -> Result<Vec<Admission>> {
        self.counted().claim(batch).await
    }

    async fn settle(&self, batch: &[Settlement]) -> Result<Vec<Settled>> {
        self.counted().settle(batch).await
    }

    async fn renew(&self, batch: &[Renewal]) -> Result<Vec<Renewed>> {
        self.counted().renew(batch).await
    }

    async fn park(&self, batch: &[Parked]) -> Result<Vec<bool>> {
        self.counted().park(batch).await
    }

    async fn drop_parked(&self, batch: &[ParkedId], note: Option<&Note>) -> Result<Vec<bool>> {
        self.counted().drop_parked(batch, note).await
    }

    async fn get(&self, batch: &[Operation]) -> Result<Vec<Option<Record>>> {
        self.counted().get(batch).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        self.counted().list(query).await
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        self.counted().list_parked(query).await
    }

    async fn operate(&self, batch: &[Directive]) -> Result<Vec<Directed>> {
        self.counted().operate(batch).await
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        self.counted().list_audit(query).await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.counted().sweep(limit).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.counted().stats().await
    }

    async fn preflight(&self) -> Result<Capabilities> {
        self.counted().preflight().await
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let inner = MemoryStore::new(Arc::new(SystemClock::new()));
    let calls = Arc::new(AtomicU64::new(0));
    let counting = Counting {
        inner,
        calls: Arc::clone(&calls),
    };
    let semel = Semel::builder().sweep_every(None).with_store(counting);
    for call in ["first", "replay"] {
        let _ = semel.once("charge", "payment-1", async |_| Ok(())).await?;
        println!("{call}: {} round trips", calls.swap(0, Ordering::Relaxed));
    }
    let items = (0..1_000_u64).map(|number| (number, number));
    let results = semel
        .once_batch("charge", items, async |_, number| Ok(number))
        .await;
    assert!(results.iter().all(std::result::Result::is_ok));
    let few = calls.load(Ordering::Relaxed) < 50;
    println!("a thousand at once: fewer than 50 round trips: {few}");
    Ok(())
}

// prints:
// first: 2 round trips
// replay: 1 round trips
// a thousand at once: fewer than 50 round trips: true
