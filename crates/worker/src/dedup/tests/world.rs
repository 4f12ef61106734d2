//! A store that fails on demand, streams that stop on demand, a clock that is set by hand.

use std::io::{self, Read, Write as _};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::port::checkpoint::{AnyCheckpointStore, CheckpointStore, Together, Write};
use semel_core::port::store::ListQuery;
use semel_core::{
    Admission, AnyStore, ClaimRequest, Claimant, Clock, Code, Entropy, Error, ErrorKind, Mark,
    Parked, Result, Scope, Settlement, Store, Timestamp, Window,
};
use semel_engine::event::{Event, Observer};
use semel_engine::summary::Summary;
use semel_engine::surroundings::Surroundings;
use semel_store_memory::MemoryStore;
use tokio::sync::watch;

use crate::dedup::{Dedup, Format, Input, Output, Separator};
use crate::run::{Run, Stores};

/// One store, one clock, and any number of runs.
pub(super) struct World {
    pub(super) clock: Arc<Turned>,
    pub(super) store: Arc<MemoryStore>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) failing: Arc<Failing>,
    pub(super) patience: Duration,
    /// One source for all runs: two runs with the same claim ids would take each other for
    /// themselves.
    entropy: Arc<Chance>,
}

impl World {
    pub(super) fn new() -> Self {
        let clock = Arc::new(Turned(AtomicU64::new(1_000_000)));
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
        Self {
            failing: Arc::new(Failing {
                inner: Arc::clone(&store),
                calls_left: AtomicI64::new(i64::MAX),
                when: Mutex::new(When::Before),
            }),
            clock,
            store,
            stop: watch::Sender::new(false),
            patience: Duration::from_millis(50),
            entropy: Arc::new(Chance(AtomicU64::new(7))),
        }
    }

    /// Runs over `lines`, each handed over once the previous one is settled.
    pub(super) async fn run(&self, key: &str, lines: &[u8], output: Output) -> Result<Summary> {
        let (settled, ticks) = sync_channel(1);
        let input = Input::from_stream("in", Dribble::new(lines, ticks));
        self.run_input(dedup(key), input, output, Some(settled))
            .await
    }

    /// Runs over `bytes`, handed over as they are.
    pub(super) async fn run_at_once(
        &self,
        dedup: Dedup,
        bytes: impl Into<Vec<u8>> + Send,
        output: Output,
    ) -> Result<Summary> {
        let input = Input::from_stream("in", io::Cursor::new(bytes.into()));
        self.run_input(dedup, input, output, None).await
    }

    async fn run_input(
        &self,
        dedup: Dedup,
        input: Input,
        output: Output,
        settled: Option<SyncSender<()>>,
    ) -> Result<Summary> {
        let stores = Stores {
            store: AnyStore::new(Arc::clone(&self.store)),
            checkpoints: Some(AnyCheckpointStore::new(Arc::clone(&self.failing))),
            transactions: None,
            transfer: None,
            lent: None,
        };
        let entropy = Arc::clone(&self.entropy);
        let run = Run {
            surroundings: Surroundings {
                clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
                claimant: Claimant::random(&*entropy),
                entropy,
                observer: Arc::new(Nobody),
            },
            stop: self.stop.clone(),
            patience: self.patience,
            recalled: None,
            dead_letters: None,
            on_progress: settled.map(|settled| -> semel_engine::surroundings::OnProgress {
                Arc::new(move |_, _| {
                    // After the last line, nothing waits.
                    let _ = settled.try_send(());
                })
            }),
        };
        dedup.run(input, output, stores, run).await
    }

    /// The messages that were set aside, sorted: place, reason, and message.
    pub(super) async fn parked(&self) -> Vec<(String, String, Vec<u8>)> {
        let query = ListQuery {
            limit: 1_000,
            ..ListQuery::default()
        };
        let page = self.store.list_parked(&query).await.expect("a page");
        let told = |parked: Parked| {
            (
                parked.coordinates.to_string(),
                parked.reason.to_string(),
                parked.payload.to_vec(),
            )
        };
        let mut parked: Vec<_> = page.items.into_iter().map(told).collect();
        parked.sort_unstable();
        parked
    }
}

/// A claim that another worker makes.
pub(super) fn claim_of(line: &str) -> ClaimRequest {
    let key = semel_core::Key::parse(line).expect("a key");
    ClaimRequest::new(scope(), key, semel_core::ClaimId::from_u128(9))
}

pub(super) fn dedup(key: &str) -> Dedup {
    Dedup {
        name: "dedup".into(),
        scope: scope(),
        key: key.parse().expect("a selector"),
        format: Format::Lines(Separator::Tab),
        window: Window::new(Duration::from_secs(800)),
        max_line_bytes: Dedup::MAX_LINE_BYTES,
    }
}

fn scope() -> Scope {
    Scope::new("", "dedup").expect("a scope")
}

/// A clock that stands still until a test sets it.
pub(super) struct Turned(AtomicU64);

impl Turned {
    pub(super) fn turn(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).expect("a short time");
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Turned {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Other bytes at every call.
struct Chance(AtomicU64);

impl Entropy for Chance {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            let next = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::SeqCst);
            *byte = (next >> 56) as u8;
        }
    }
}

struct Nobody;

impl Observer for Nobody {
    fn observe(&self, _: &str, _: &Event<'_>) {}
}

/// The moment at which a store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Nothing has happened yet.
    Before,
    /// The output is written, nothing is committed.
    Between,
    /// The same, and the caller knows that nothing is committed.
    Refused,
    /// All is done, and the answer is lost.
    After,
}

/// A store that fails at one of its calls, so that the caller does not know what happened.
pub(super) struct Failing {
    inner: Arc<MemoryStore>,
    calls_left: AtomicI64,
    when: Mutex<When>,
}

impl Failing {
    /// Lets `calls` pass, and then fails.
    pub(super) fn fail(&self, calls: i64, when: When) {
        *self.when.lock().expect("a lock") = when;
        self.calls_left.store(calls, Ordering::SeqCst);
    }

    pub(super) fn never_fail(&self) {
        self.calls_left.store(i64::MAX, Ordering::SeqCst);
    }
}

impl CheckpointStore for Failing {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        self.inner.settle_with(batch, mark).await
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        if self.calls_left.fetch_sub(1, Ordering::SeqCst) > 0 {
            return self.inner.admit_with(batch, write).await;
        }
        let lost = || {
            Error::new(ErrorKind::Unavailable, "the store is gone")
                .with_code(Code::StoreUnavailable)
        };
        let when = *self.when.lock().expect("a lock");
        match when {
            When::Before => {}
            When::Between | When::Refused => {
                let write: Write = Box::new(move |answers| {
                    write(answers)?;
                    Err(lost())
                });
                let _ = self.inner.admit_with(batch, write).await;
            }
            When::After => drop(self.inner.admit_with(batch, write).await),
        }
        if when == When::Refused {
            return Err(lost().not_applied());
        }
        Err(lost())
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        self.inner.mark(name).await
    }
}

/// Hands over one line at a time.
struct Dribble {
    lines: std::vec::IntoIter<Vec<u8>>,
    ticks: Receiver<()>,
    is_first: bool,
}

impl Dribble {
    fn new(bytes: &[u8], ticks: Receiver<()>) -> Self {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        Self {
            lines: lines.map(<[u8]>::to_vec).collect::<Vec<_>>().into_iter(),
            ticks,
            is_first: true,
        }
    }
}

impl Read for Dribble {
    fn read(&mut self, mut space: &mut [u8]) -> io::Result<usize> {
        // Of a last line without LF, nothing is settled before the end is read.
        let Some(line) = self.lines.next() else {
            return Ok(0);
        };
        if !std::mem::take(&mut self.is_first) && self.ticks.recv().is_err() {
            // The run is over.
            return Ok(0);
        }
        space.write_all(&line).map(|()| line.len())
    }
}

/// A stream whose contents can be read, and whose reader may go.
#[derive(Clone, Default)]
pub(super) struct Shown(Arc<Mutex<Page>>);

#[derive(Default)]
struct Page {
    bytes: Vec<u8>,
    /// The number of bytes that it takes before its reader goes or stops reading.
    most: Option<(usize, Then)>,
}

/// The behaviour of a stream once it is full.
#[derive(Clone, Copy)]
pub(super) enum Then {
    Close,
    Fill,
    Block,
}

impl Shown {
    pub(super) fn until(most: usize, then: Then) -> Self {
        let page = Page {
            bytes: Vec::new(),
            most: Some((most, then)),
        };
        Self(Arc::new(Mutex::new(page)))
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("a lock").bytes.clone()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.bytes()).expect("text")
    }
}

impl io::Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut page = self.0.lock().expect("a lock");
        let Some((most, then)) = page.most else {
            page.bytes.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        let count = bytes.len().min(most - page.bytes.len());
        if count > 0 {
            page.bytes.extend_from_slice(&bytes[..count]);
            return Ok(count);
        }
        drop(page);
        match then {
            Then::Close => Err(io::ErrorKind::BrokenPipe.into()),
            Then::Fill => Err(io::ErrorKind::StorageFull.into()),
            Then::Block => loop {
                std::thread::park();
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
