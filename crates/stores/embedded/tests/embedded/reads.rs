//! Counts the file reads for repeats: none for recent writes, once those are wanted in memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use semel_conformance::TestClock;
use semel_core::{
    Admission, ClaimId, ClaimRequest, Key, Operation, Outcome, Recovery, Scope, Settled,
    Settlement, Step, Store as _, Window,
};
use semel_store_embedded::files::{File, Files, Lock, LockError, RealFiles};
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

#[tokio::test]
async fn repeats_of_what_was_written_a_moment_ago_are_soon_answered_from_memory() {
    let (_dir, store, reads) = opened();
    finish(&store, "a", NUMBER, 0).await;
    assert!(
        repeated(&store, &reads, "a").await > 0,
        "not kept before it is wanted"
    );
    finish(&store, "b", NUMBER, 0).await;
    assert_eq!(
        repeated(&store, &reads, "b").await,
        0,
        "kept once it is wanted"
    );
    assert!(
        repeated(&store, &reads, "a").await > 0,
        "what was written before is not"
    );
}

#[tokio::test]
async fn repeats_of_what_was_written_long_ago_keep_nothing_in_memory() {
    let (_dir, store, reads) = opened();
    finish(&store, "a", NUMBER, 0).await;
    finish(&store, "large", 10, KEPT_BYTES / 10 + 1).await;
    assert!(repeated(&store, &reads, "a").await > 0, "long ago");
    finish(&store, "b", NUMBER, 0).await;
    assert!(
        repeated(&store, &reads, "b").await > 0,
        "nobody wanted that kept"
    );
}

#[tokio::test]
async fn a_few_repeats_keep_nothing_in_memory() {
    let (_dir, store, reads) = opened();
    finish(&store, "a", NUMBER, 0).await;
    let batch: Vec<_> = (0..NUMBER)
        .map(|number| request(if number % 20 == 0 { "a" } else { "new" }, number))
        .collect();
    store.claim(batch.into()).await.expect("claims");
    finish(&store, "b", NUMBER, 0).await;
    assert!(
        repeated(&store, &reads, "b").await > 0,
        "nobody wanted that kept"
    );
}

/// Counts the file reads while finished keys are claimed once more.
async fn repeated(store: &EmbeddedStore, calls: &Calls, name: &str) -> u64 {
    let before = calls.reads.load(Ordering::Relaxed);
    let batch: Vec<_> = (0..NUMBER).map(|number| request(name, number)).collect();
    let answers = store.claim(batch.into()).await.expect("claims");
    let is_repeat = |answer: &Admission| matches!(answer, Admission::Replay { .. });
    assert!(answers.iter().all(is_repeat), "all of them are known");
    calls.reads.load(Ordering::Relaxed) - before
}

/// Claims and completes, each with an outcome of so many bytes.
async fn finish(store: &EmbeddedStore, name: &str, count: u32, outcome_len: usize) {
    let requests: Vec<_> = (0..count).map(|number| request(name, number)).collect();
    store.claim(requests.into()).await.expect("claims");
    let start = Step::Start {
        recovery: Recovery::Rerun,
        has_begun: false,
    };
    let complete = Step::Complete {
        outcome: Outcome::Kept {
            codec: 0,
            bytes: Bytes::from(vec![b'x'; outcome_len]),
        },
        window: Window::new(Duration::from_secs(3_600)),
    };
    for step in [start, complete] {
        let settlements: Vec<_> = (0..count)
            .map(|number| Settlement {
                operation: operation(name, number),
                claim_id: claim_id(number),
                step: step.clone(),
            })
            .collect();
        for answer in store.settle(settlements.into()).await.expect("settles") {
            assert!(matches!(answer, Settled::Now(_)), "{answer:?}");
        }
    }
}

fn request(name: &str, number: u32) -> ClaimRequest {
    let Operation { scope, key } = operation(name, number);
    ClaimRequest::new(scope, key, claim_id(number))
}

fn operation(name: &str, number: u32) -> Operation {
    let key = Bytes::from(format!("{name}-{number}"));
    Operation {
        scope: Scope::new("", "reads").expect("a scope"),
        key: Key::from_canonical(key).expect("UTF-8"),
    }
}

fn claim_id(number: u32) -> ClaimId {
    ClaimId::from_u128(u128::from(number) + 1)
}

fn opened() -> (TempDir, EmbeddedStore, Arc<Calls>) {
    let dir = TempDir::new_in("/dev/shm")
        .or_else(|_| TempDir::new())
        .expect("a folder");
    let files = Counted::new(RealFiles::open(dir.path()).expect("opens"));
    let reads = files.calls();
    let clock = Arc::new(TestClock::new());
    let store = EmbeddedStore::open_in(Arc::new(files), clock, Options::default());
    (dir, store.expect("the store opens"), reads)
}

/// Files that count each read, and each list.
pub(crate) struct Counted<T>(T, Arc<Calls>);

#[derive(Debug, Default)]
pub(crate) struct Calls {
    reads: AtomicU64,
    pub(crate) lists: AtomicU64,
}

impl Counted<RealFiles> {
    pub(crate) fn new(files: RealFiles) -> Self {
        Self(files, Arc::default())
    }

    pub(crate) fn calls(&self) -> Arc<Calls> {
        self.1.clone()
    }

    fn counted(&self, file: Box<dyn File>) -> Box<dyn File> {
        Box::new(Counted(file, self.1.clone()))
    }
}

impl Files for Counted<RealFiles> {
    fn lock(&self, name: &str) -> Result<Box<dyn Lock>, LockError> {
        self.0.lock(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.1.lists.fetch_add(1, Ordering::Relaxed);
        self.0.list()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(self.counted(self.0.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(self.counted(self.0.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }

    fn is_volatile(&self) -> bool {
        self.0.is_volatile()
    }
}

impl File for Counted<Box<dyn File>> {
    fn len_bytes(&self) -> io::Result<u64> {
        self.0.len_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.1.reads.fetch_add(1, Ordering::Relaxed);
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }
}

const NUMBER: u32 = 2_000;
/// Bytes of the log that are kept in memory at most.
const KEPT_BYTES: usize = 64 << 20;
