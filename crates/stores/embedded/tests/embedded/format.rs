//! The stored format: files of every version stay readable, files of a newer version are refused,
//! and no flipped bit goes unnoticed or does harm.

#![expect(clippy::print_stdout, reason = "a test says how much it tried")]

mod fixture;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_conformance::TestClock;
use semel_core::port::checkpoint::CheckpointStore;
use semel_core::{
    Admission, Certainty, ClaimId, ClaimRequest, Code, ErrorKind, Mark, Outcome, Parked, Result,
    Step, Store, Timestamp, Window,
};
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

use fixture::*;

#[test]
fn what_version_1_wrote_is_read() {
    let dir = folder();
    copy(&golden("v1"), dir.path());
    let read = read_everything(dir.path()).expect("the golden store opens");
    let fresh = folder();
    write_everything(fresh.path());
    let fresh = read_everything(fresh.path()).expect("a fresh store opens");
    assert_eq!(read, fresh.without_what_version_1_lacked());
    assert_eq!(read.records.len(), 6);
    // From here on it is one of the newest version.
    write_more(dir.path());
    let version = fs::read(dir.path().join("superblock")).expect("the superblock");
    assert_eq!(version[8..12], [3, 0, 0, 0]);
    let read = read_everything(dir.path()).expect("it opens again");
    assert_eq!(
        (read.records.len(), read.audit.map(|it| it.len())),
        (10, Ok(2))
    );
}

#[test]
fn what_version_3_wrote_is_read() {
    if std::env::var_os("SEMEL_WRITE_GOLDEN").is_some() {
        let dir = folder();
        write_everything(dir.path());
        write_more(dir.path());
        write_members(dir.path());
        fs::create_dir_all(golden("v3")).expect("the folder for golden files");
        copy(dir.path(), &golden("v3"));
    }
    let dir = folder();
    copy(&golden("v3"), dir.path());
    let read = read_everything(dir.path()).expect("the golden store opens");
    let fresh = folder();
    write_everything(fresh.path());
    write_more(fresh.path());
    write_members(fresh.path());
    let fresh = read_everything(fresh.path()).expect("a fresh store opens");
    assert_eq!(read, fresh);
    let with_members = read.records["with members"].as_ref().expect("a record");
    assert_eq!(with_members.members, members());
}

#[test]
fn what_version_2_wrote_is_read() {
    let dir = folder();
    copy(&golden("v2"), dir.path());
    let read = read_everything(dir.path()).expect("the golden store opens");
    let fresh = folder();
    write_everything(fresh.path());
    write_more(fresh.path());
    let fresh = read_everything(fresh.path()).expect("a fresh store opens");
    assert_eq!(read, fresh);
    assert_eq!(
        (read.records.len(), read.audit.map(|it| it.len())),
        (10, Ok(5))
    );
    let again = read.records["released"].as_ref().expect("a record");
    assert!(again.claimed_at > again.created_at, "claimed again");
    assert_eq!(again.past.len(), 1);
}

#[test]
fn a_newer_store_is_refused() {
    let dir = folder();
    write_everything(dir.path());
    flip(&dir.path().join("superblock"), 8, 4);
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
    let refused = block_on(store.park([parked(), message].into())).expect_err("too large");
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
    write_more(dir.path());
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
    // Padding, and the note on how far all is durable, may say less.
    assert!(harmless < 100, "{harmless} flips went unnoticed");
}

#[test]
fn a_long_segment_is_read_back_whole_torn_or_refused() {
    const BATCHES: u64 = 12;
    const BATCH: u64 = 4_000;
    let dir = folder();
    let store = open(dir.path()).expect("it opens");
    let early = fs::read(dir.path().join("superblock")).expect("the superblock");
    for batch in 0..BATCHES {
        let requests = (0..BATCH).map(|number| request(&format!("{batch:0100}-{number}")));
        let mark = Mark {
            name: "batches".into(),
            value: batch + 1,
        };
        let admitted = store.admit_with(requests.collect(), Box::new(|_| Ok(mark)));
        let _ = block_on(admitted).expect("admissions");
    }
    drop(store);
    let name = "records-0000000001.log";
    let path = dir.path().join(name);
    let whole = fs::read(&path).expect("the segment");
    assert!(whole.len() > 8 << 20, "{} bytes", whole.len());
    let found = || {
        let store = open(dir.path())?;
        let stats = block_on(store.stats())?;
        let batches = block_on(store.mark("batches"))?;
        Ok::<_, semel_core::Error>((stats.records.iter().sum::<u64>(), batches))
    };
    assert_eq!(found().expect("it opens"), (BATCHES * BATCH, Some(BATCHES)));

    // As a crash leaves it: the superblock of the opening, and a torn end.
    fs::write(dir.path().join("superblock"), &early).expect("the superblock");
    fs::write(&path, &whole[..whole.len() - 1_000]).expect("the segment");
    let (records, batches) = found().expect("a torn tail is cut off");
    assert_eq!(
        (records, batches),
        ((BATCHES - 1) * BATCH, Some(BATCHES - 1))
    );

    fs::write(&path, &whole).expect("the segment");
    flip(&path, whole.len() as u64 / 2, 1);
    let refused = found().expect_err("damaged in the middle");
    assert_eq!(refused.code(), Code::RecordCorrupt);
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
        block_on(store.claim([request.clone()].into()))
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

#[test]
fn a_number_at_its_end_is_damage_even_where_checksums_fit() {
    let dir = folder();
    write_everything(dir.path());
    for (name, number, summed) in [
        ("superblock", 44..52, 0..68),
        ("records-0000000001.log", 8..16, 0..36),
        ("parked-0000000001.log", 8..16, 0..36),
    ] {
        let path = dir.path().join(name);
        let whole = fs::read(&path).expect("the file");
        let mut bytes = whole.clone();
        bytes[number].fill(0xff);
        let sum = crc32fast::hash(&bytes[summed.clone()]).to_le_bytes();
        bytes[summed.end..summed.end + 4].copy_from_slice(&sum);
        fs::write(&path, bytes).expect("the file");
        let refused = open(dir.path()).expect_err(name);
        assert_eq!(refused.code(), Code::RecordCorrupt, "{name}: {refused}");
        fs::write(&path, whole).expect("the file");
    }
    open(dir.path()).expect("it opens as it was");
}

/// Errors that a flipped bit may cause.
const DETECTED: &[Code] = &[Code::RecordCorrupt, Code::StoreForeign, Code::StoreNewer];

pub(crate) fn open(dir: &Path) -> Result<EmbeddedStore> {
    EmbeddedStore::open(dir, clock(), Options::default())
}

fn clock() -> Arc<TestClock> {
    Arc::new(TestClock::new())
}

fn golden(version: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    tests.join(version)
}

/// Returns a folder in memory where there is such a place, since nothing here is about syncs.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in("/dev/shm")
        .or_else(|_| TempDir::new())
        .expect("a folder")
}

pub(crate) fn copy(from: &Path, to: &Path) {
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

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
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
        let _ = block_on(store.claim([request(key)].into())).expect("a claim");
        let step = Step::Complete {
            outcome: Outcome::empty(),
            window,
        };
        let settled = block_on(store.settle([settlement(key, step)].into())).expect("a settlement");
        assert!(matches!(settled[..], [semel_core::Settled::Now(_)]));
        let swept = block_on(store.sweep(100)).expect("a sweep");
        assert!(swept.removed <= 1);
        let found = block_on(store.get([request(key).operation].into())).expect("an answer");
        assert!(found[0].is_some(), "{key} is there");
    }
}
