//! The stored format: what version 1 wrote is read for ever, what a newer version wrote is refused,
//! and no flipped bit goes unnoticed or does harm.

#![expect(clippy::print_stdout, reason = "a test says how much it tried")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_conformance::TestClock;
use semel_core::decide::{Directive, Order};
use semel_core::port::checkpoint::CheckpointStore;
use semel_core::port::store::ListQuery;
use semel_core::{
    Admission, AttemptLimits, Certainty, ClaimId, ClaimRequest, Code, ErrorKind, Fingerprint, Key,
    Mark, Operation, Outcome, Parked, Record, Recovery, Result, Scope, Settlement, Start, Step,
    Store, Timestamp, VersionGate, Window,
};
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

#[test]
fn what_version_1_wrote_is_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    if std::env::var_os("SEMEL_WRITE_GOLDEN").is_some() {
        let dir = folder();
        write_everything(dir.path());
        fs::create_dir_all(&golden).expect("the folder for golden files");
        copy(dir.path(), &golden);
    }
    let dir = folder();
    copy(&golden, dir.path());
    let read = read_everything(dir.path()).expect("the golden store opens");
    let fresh = folder();
    write_everything(fresh.path());
    assert_eq!(
        read,
        read_everything(fresh.path()).expect("a fresh store opens")
    );
    assert_eq!(read.records.len(), 6);
}

#[test]
fn a_newer_store_is_refused() {
    let dir = folder();
    write_everything(dir.path());
    flip(&dir.path().join("superblock"), 8, 2);
    let refused = open(dir.path()).expect_err("a newer store is not read");
    assert_eq!(refused.code(), Code::StoreNewer);
    assert_eq!(refused.certainty(), Certainty::NotApplied);
}

#[test]
fn foreign_folders_and_files_are_refused_and_left_alone() {
    let dir = folder();
    fs::write(dir.path().join("thesis.txt"), "mine").expect("a file");
    assert_eq!(
        open(dir.path()).expect_err("not a store").code(),
        Code::StoreForeign
    );
    assert_eq!(
        fs::read_dir(dir.path()).expect("a folder").count(),
        1,
        "nothing was added"
    );
    let file = dir.path().join("thesis.txt");
    assert_eq!(
        open(&file).expect_err("not a folder").code(),
        Code::StoreForeign
    );

    let dir = folder();
    fs::write(dir.path().join("superblock"), "something else entirely").expect("a file");
    assert_eq!(
        open(dir.path()).expect_err("not a store").code(),
        Code::StoreForeign
    );

    let (one, other) = (folder(), folder());
    write_everything(one.path());
    write_everything(other.path());
    let name = "records-0000000001.log";
    fs::copy(other.path().join(name), one.path().join(name)).expect("a copy");
    assert_eq!(
        open(one.path()).expect_err("mixed up").code(),
        Code::StoreForeign
    );
}

#[test]
fn missing_files_are_noticed() {
    for name in [
        "superblock",
        "records-0000000001.log",
        "parked-0000000001.log",
    ] {
        let dir = folder();
        write_everything(dir.path());
        fs::remove_file(dir.path().join(name)).expect("the file is there");
        let refused = open(dir.path()).expect_err("a part is missing");
        assert_eq!(refused.code(), Code::RecordCorrupt, "{name}");
        assert!(refused.to_string().contains(name), "{refused}");
    }
}

#[test]
fn a_second_opening_is_refused_and_names_the_first() {
    let dir = folder();
    let store = open(dir.path()).expect("it opens");
    let refused = open(dir.path()).expect_err("it is in use");
    assert_eq!(refused.code(), Code::StoreInUse);
    assert!(
        refused
            .to_string()
            .contains(&std::process::id().to_string()),
        "{refused}"
    );
    drop(store);
    open(dir.path()).expect("it is free again");
}

#[test]
fn what_is_too_large_is_refused_whole() {
    let dir = folder();
    let options = Options::default().with_max_payload_bytes(10);
    let store = EmbeddedStore::open(dir.path(), clock(), options).expect("it opens");
    let message = Parked {
        payload: Bytes::from_static(b"eleven bytes"),
        ..parked()
    };
    let refused = block_on(store.park(&[parked(), message])).expect_err("too large");
    assert_eq!(
        (refused.kind(), refused.certainty()),
        (ErrorKind::InvalidInput, Certainty::NotApplied)
    );
    assert_eq!(block_on(store.stats()).expect("stats").parked, 0);
}

#[test]
fn every_flipped_bit_is_detected_or_harmless() {
    let dir = folder();
    write_everything(dir.path());
    let whole = read_copy(dir.path()).expect("the store opens");
    let (mut refused, mut damaged, mut harmless) = (0, 0, 0);
    for name in [
        "superblock",
        "records-0000000001.log",
        "parked-0000000001.log",
    ] {
        let len = fs::metadata(dir.path().join(name)).expect("the file").len();
        for offset in 0..len {
            let bit = 1 << (offset % 8);
            flip(&dir.path().join(name), offset, bit);
            match read_copy(dir.path()) {
                Err(error) => {
                    assert!(
                        DETECTED.contains(&error.code()),
                        "{name} at {offset}: {error:?}"
                    );
                    refused += 1;
                }
                Ok(read) if read == whole => harmless += 1,
                Ok(read) if read.is_damage_of(&whole) => damaged += 1,
                Ok(read) => panic!("{name} at {offset}: {read:#?}"),
            }
            flip(&dir.path().join(name), offset, bit);
        }
    }
    println!("{refused} refused, {damaged} damaged items, {harmless} harmless");
    // Padding, and the word of how far all is durable, may say less.
    assert!(harmless < 100, "{harmless} flips went unnoticed");
}

#[test]
fn what_is_damaged_while_the_store_is_open_is_never_taken_for_absent() {
    let dir = folder();
    write_everything(dir.path());
    let store = open(dir.path()).expect("it opens");
    let path = dir.path().join("records-0000000001.log");
    let bytes = fs::read(&path).expect("the file");
    let outcome = bytes
        .windows(7)
        .position(|window| window == b"charged")
        .expect("the outcome");
    flip(&path, outcome as u64, 1);
    let later = ClaimRequest {
        claim_id: ClaimId::from_u128(1_000),
        ..request("completed")
    };
    let brief = ClaimRequest {
        wants_outcome: false,
        ..later.clone()
    };
    let ask = |request: &ClaimRequest| {
        block_on(store.claim(std::slice::from_ref(request)))
            .expect("an answer")
            .remove(0)
    };
    assert!(
        matches!(ask(&brief), Admission::Replay { .. }),
        "the outcome is not read"
    );
    match ask(&later) {
        Admission::Failed(error) => assert_eq!(error.code(), Code::RecordCorrupt),
        other => panic!("{other:?}"),
    }
    flip(&path, outcome as u64 - 20, 1);
    match ask(&brief) {
        Admission::Failed(error) => assert_eq!(error.code(), Code::RecordCorrupt),
        other => panic!("{other:?}"),
    }
}

/// What a flipped bit may be taken for.
const DETECTED: &[Code] = &[Code::RecordCorrupt, Code::StoreForeign, Code::StoreNewer];

#[derive(Debug, PartialEq)]
struct Everything {
    records: BTreeMap<String, Result<Record, Code>>,
    parked: Result<Vec<Parked>, Code>,
    mark: Option<u64>,
}

impl Everything {
    /// Whether what differs from `whole` is known to be damaged.
    fn is_damage_of(&self, whole: &Self) -> bool {
        let records = self
            .records
            .iter()
            .all(|(key, record)| record.is_err() || whole.records.get(key) == Some(record));
        let parked = self.parked.is_err() || self.parked == whole.parked;
        records && parked && self.records.len() == whole.records.len() && self.mark == whole.mark
    }
}

/// One of everything that there is, closed in good order.
fn write_everything(dir: &Path) {
    let store = open(dir).expect("an empty folder becomes a store");
    let limits = AttemptLimits::default();
    let window = Window::new(Duration::from_secs(3_600));
    let full = ClaimRequest {
        fingerprint: Some(Fingerprint {
            scheme: 7,
            digest: [3; 16],
        }),
        transport: Some(Bytes::from_static(b"topic/1/42")),
        gate: Some(VersionGate {
            entity: Key::from(5),
            version: 9,
        }),
        ..request("completed")
    };
    let marked = |key, recovery| ClaimRequest {
        start: Start::Marked(recovery),
        ..request(key)
    };
    let within = Recovery::RerunWithin(Duration::from_millis(1_500));
    let requests = [
        full,
        marked("started", within),
        marked("in doubt", Recovery::Park),
        request("dead"),
        request("released"),
        request("held"),
        request("forgotten"),
    ];
    let _ = block_on(store.claim(&requests)).expect("claims");
    let kept = |bytes: &'static [u8]| Outcome::Kept {
        codec: 4,
        bytes: Bytes::from_static(bytes),
    };
    let complete = |outcome| Step::Complete { outcome, window };
    let release = |certainty| Step::Release {
        error: "no route".into(),
        certainty,
        after: Duration::from_secs(4),
        counted: true,
        limits,
        window,
    };
    let steps = [
        ("completed", complete(kept(b"charged"))),
        ("in doubt", release(Certainty::MaybeApplied)),
        (
            "dead",
            Step::Fail {
                error: "card refused".into(),
                window: window.with_margin(Duration::ZERO),
            },
        ),
        ("released", release(Certainty::NotApplied)),
        (
            "forgotten",
            complete(Outcome::TooLarge {
                len_bytes: 1 << 40,
                digest: [8; 32],
            }),
        ),
    ];
    let settlements = steps.map(|(key, step)| settlement(key, step));
    let _ = block_on(store.settle(&settlements)).expect("settlements");
    let mark = Mark {
        name: "out.ndjson".into(),
        value: 1 << 33,
    };
    let held = [settlement("held", complete(kept(b"kept")))];
    let _ = block_on(store.settle_with(&held, &mark)).expect("a mark");
    let directive = |key, order| Directive {
        operation: request(key).operation,
        order,
    };
    let orders = [
        directive("held", Order::Hold(true)),
        directive("forgotten", Order::Forget),
    ];
    let _ = block_on(store.operate(&orders)).expect("orders");
    let dropped = Parked {
        coordinates: "elsewhere".into(),
        ..parked()
    };
    let _ = block_on(store.park(&[parked(), dropped.clone()])).expect("parked");
    let _ = block_on(store.drop_parked(&[dropped.id()])).expect("dropped");
}

fn read_copy(dir: &Path) -> Result<Everything> {
    let copied = folder();
    copy(dir, copied.path());
    read_everything(copied.path())
}

fn read_everything(dir: &Path) -> Result<Everything> {
    let store = open(dir)?;
    let keys = [
        "completed",
        "started",
        "in doubt",
        "dead",
        "released",
        "held",
        "forgotten",
    ];
    let mut records = BTreeMap::new();
    for key in keys {
        let operation: Operation = request(key).operation;
        match block_on(store.get(&[operation])) {
            Ok(found) => {
                for record in found.into_iter().flatten() {
                    records.insert(key.to_owned(), Ok(without_token(record)));
                }
            }
            Err(error) => {
                records.insert(key.to_owned(), Err(error.code()));
            }
        }
    }
    let query = ListQuery {
        limit: 10,
        ..ListQuery::default()
    };
    let parked = block_on(store.list_parked(&query)).map(|page| page.items);
    let parked = parked.map_err(|error| error.code());
    Ok(Everything {
        records,
        parked,
        mark: block_on(store.mark("out.ndjson"))?,
    })
}

/// Tokens depend on how often the store was opened before.
fn without_token(record: Record) -> Record {
    Record {
        token: semel_core::FencingToken::new(0),
        ..record
    }
}

fn request(key: &str) -> ClaimRequest {
    let scope = Scope::new("tenant", "charges").expect("a scope");
    ClaimRequest::new(
        scope,
        Key::parse(key).expect("a key"),
        ClaimId::from_u128(key.len() as u128),
    )
}

fn settlement(key: &str, step: Step) -> Settlement {
    let ClaimRequest {
        operation,
        claim_id,
        ..
    } = request(key);
    Settlement {
        operation,
        claim_id,
        step,
    }
}

fn parked() -> Parked {
    Parked {
        scope: Scope::new("tenant", "charges").expect("a scope"),
        key: Some(Key::from(5)),
        reason: "too-old".into(),
        detail: "born yesterday".into(),
        transport: Some(Bytes::from_static(b"t")),
        coordinates: "orders/3/17".into(),
        headers: Vec::new(),
        payload: Bytes::from_static(b"{\"id\":5}"),
        since: Timestamp::EPOCH,
    }
}

fn open(dir: &Path) -> Result<EmbeddedStore> {
    EmbeddedStore::open(dir, clock(), Options::default())
}

fn clock() -> Arc<TestClock> {
    Arc::new(TestClock::new())
}

/// A folder in memory where there is such a place, since nothing here is about syncs.
fn folder() -> TempDir {
    TempDir::new_in("/dev/shm")
        .or_else(|_| TempDir::new())
        .expect("a folder")
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder") {
        let path: PathBuf = entry.expect("an entry").path();
        let name = path.file_name().expect("a name");
        if name != "lock" {
            fs::copy(&path, to.join(name)).expect("a copy");
        }
    }
}

fn flip(path: &Path, offset: u64, bits: u8) {
    let mut bytes = fs::read(path).expect("the file");
    bytes[usize::try_from(offset).expect("small")] ^= bits;
    fs::write(path, bytes).expect("the file");
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(future)
}

/// A clock that can be set.
struct Settable(std::sync::atomic::AtomicU64);

impl semel_core::Clock for Settable {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn a_clock_that_goes_back_loses_nothing() {
    let dir = folder();
    let clock = Arc::new(Settable(10_000_000.into()));
    let window = Window::new(Duration::from_secs(60));
    for (millis, key) in [
        (10_000_000, "first"),
        (1_000, "second"),
        (5_000_000, "third"),
        (2, "fourth"),
    ] {
        clock.0.store(millis, std::sync::atomic::Ordering::SeqCst);
        let store =
            EmbeddedStore::open(dir.path(), clock.clone(), Options::default()).expect("it opens");
        let _ = block_on(store.claim(&[request(key)])).expect("a claim");
        let step = Step::Complete {
            outcome: Outcome::empty(),
            window,
        };
        let settled = block_on(store.settle(&[settlement(key, step)])).expect("a settlement");
        assert!(matches!(settled[..], [semel_core::Settled::Now(_)]));
        let swept = block_on(store.sweep(100)).expect("a sweep");
        assert!(swept.removed <= 1);
        let found = block_on(store.get(&[request(key).operation])).expect("an answer");
        assert!(found[0].is_some(), "{key} is there");
    }
}
