//! A store of your own around another: this one counts round trips.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use semel::memory::MemoryStore;
use semel::{Semel, Store, SystemClock, forward_store};

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
    forward_store!(self => self.counted());
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
    assert!(results.iter().all(Result::is_ok));
    let few = calls.load(Ordering::Relaxed) < 50;
    println!("a thousand at once: fewer than 50 round trips: {few}");
    Ok(())
}

// prints:
// first: 2 round trips
// replay: 1 round trips
// a thousand at once: fewer than 50 round trips: true
