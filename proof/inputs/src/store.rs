//! Segments and the superblock of the embedded store, damaged and forged.

mod folder;

use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{Clock, Code, Error, Timestamp};
use semel_store_embedded::{EmbeddedStore, Options};

use super::Fate;
use folder::Folder;

/// The records of a store; see [`check_segment`].
pub(crate) fn check_records(data: &[u8]) -> Result<Fate, String> {
    check_segment(RECORDS, data)
}

/// The parked messages and the trail of a store; see [`check_segment`].
pub(crate) fn check_parked(data: &[u8]) -> Result<Fate, String> {
    check_segment(PARKED, data)
}

/// Checks a segment as it is: refused, or read with no item that was never there. With checksums
/// that were made right: refused, or read in such a way that another store takes all of it over.
fn check_segment(name: &str, data: &[u8]) -> Result<Fate, String> {
    let golden = golden()?;
    // As after a crash: the superblock of the opening, which does not say how long the log was.
    let fate = match contents(&golden.with(name, data, Superblock::Early)) {
        Ok(items) => {
            let made_up = items.iter().find(|item| !golden.known.contains(item));
            if let Some(item) = made_up {
                return Err(format!("never written: {item:?}"));
            }
            Fate::Accepted
        }
        Err(why) => refusal(&why)?,
    };
    match contents(&golden.with(name, data, Superblock::Closed)) {
        Ok(items) if items == golden.whole => {}
        Ok(items) => return Err(format!("of what was durable, only {items:?}")),
        Err(why) => {
            refusal(&why)?;
        }
    }
    let mut forged = data.to_vec();
    forge(&mut forged);
    match contents(&golden.with(name, &forged, Superblock::Early)) {
        Ok(items) => taken_over(&items)?,
        Err(why) => {
            refusal(&why)?;
        }
    }
    Ok(fate)
}

/// Checks a superblock as it is, and with its checksum made right.
pub(crate) fn check_superblock(data: &[u8]) -> Result<Fate, String> {
    let golden = golden()?;
    let mut forged = data.to_vec();
    if let Some((body, sum)) = forged.split_last_chunk_mut::<4>() {
        *sum = crc32fast::hash(body).to_le_bytes();
    }
    match contents(&golden.with(SUPERBLOCK, &forged, Superblock::Early)) {
        // The place of a record follows from the superblock; its content does not.
        Ok(items) => {
            let made_up = items.iter().find(|item| !golden.known.contains(item));
            if let Some(item) = made_up {
                return Err(format!("never written: {item:?}"));
            }
        }
        Err(why) => {
            refusal(&why)?;
        }
    }
    match contents(&golden.with(SUPERBLOCK, data, Superblock::Closed)) {
        Ok(items) if items == golden.whole => Ok(Fate::Accepted),
        Ok(items) => Err(format!("of what was durable, only {items:?}")),
        Err(why) => refusal(&why),
    }
}

/// Checks that damage is reported as such.
fn refusal(why: &Error) -> Result<Fate, String> {
    match why.code() {
        Code::RecordCorrupt | Code::StoreForeign | Code::StoreNewer => Ok(Fate::Refused),
        code => Err(format!("refused as {code}: {why}")),
    }
}

/// A store in good order, with one of everything, as version 2 wrote it.
struct Golden {
    superblock: Vec<u8>,
    records: Vec<u8>,
    parked: Vec<u8>,
    whole: Vec<Item>,
    /// The items that it held at any time of its life.
    known: Vec<Item>,
}

/// The lengths up to which the logs are durable, as the superblock says.
#[derive(Clone, Copy)]
enum Superblock {
    Closed,
    Early,
}

impl Golden {
    /// A folder with the store, but with another version of one file.
    fn with(&self, name: &str, bytes: &[u8], superblock: Superblock) -> Folder {
        let folder = Folder::default();
        let mut first = self.superblock.clone();
        if let (Superblock::Early, Some((body, sum))) =
            (superblock, first.split_last_chunk_mut::<4>())
        {
            for offset in EXTENTS {
                if let Some(extent) = body.get_mut(offset..offset + 4) {
                    extent.fill(0);
                }
            }
            *sum = crc32fast::hash(body).to_le_bytes();
        }
        folder.put(SUPERBLOCK, first);
        folder.put(RECORDS, self.records.clone());
        folder.put(PARKED, self.parked.clone());
        folder.put(name, bytes.to_vec());
        folder
    }
}

fn golden() -> Result<&'static Golden, String> {
    static GOLDEN: OnceLock<Result<Golden, String>> = OnceLock::new();
    GOLDEN
        .get_or_init(read_golden)
        .as_ref()
        .map_err(Clone::clone)
}

fn read_golden() -> Result<Golden, String> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/stores/embedded/tests/golden/v2");
    let read = |name: &str| {
        std::fs::read(folder.join(name)).map_err(|why| format!("no golden {name}: {why}"))
    };
    let mut golden = Golden {
        superblock: read(SUPERBLOCK)?,
        records: read(RECORDS)?,
        parked: read(PARKED)?,
        whole: Vec::new(),
        known: Vec::new(),
    };
    let held = |name: &str, bytes: &[u8], superblock| {
        contents(&golden.with(name, bytes, superblock)).map_err(|why| format!("golden: {why}"))
    };
    let whole = held(RECORDS, &golden.records, Superblock::Closed)?;
    let mut known = whole.clone();
    for (name, log) in [(RECORDS, &golden.records), (PARKED, &golden.parked)] {
        for end in ends(log) {
            known.extend(held(name, &log[..end], Superblock::Early)?);
        }
    }
    if whole.len() < 10 || known.len() < 3 * whole.len() {
        return Err(format!("the golden store is poor: {whole:?}"));
    }
    (golden.whole, golden.known) = (whole, known);
    Ok(golden)
}

/// Everything that the store in `folder` holds. Tokens depend on how often it was opened.
fn contents(folder: &Folder) -> semel_core::Result<Vec<Item>> {
    let files = Arc::new(folder.clone());
    let store = EmbeddedStore::open_in(files, Arc::new(Still), Options::default())?;
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let page = block_on(store.export(after.as_deref(), 64))?;
        let kept = page.items.into_iter();
        items.extend(kept.filter(|item| !matches!(item, Item::Token(_))));
        after = page.next;
        if after.is_none() {
            return Ok(items);
        }
    }
}

/// Checks that another store takes all of it, and holds it unchanged when it is opened anew.
fn taken_over(items: &[Item]) -> Result<(), String> {
    let folder = Folder::default();
    let files = Arc::new(folder.clone());
    let store = EmbeddedStore::open_in(files, Arc::new(Still), Options::default())
        .map_err(|why| format!("a new store: {why}"))?;
    let taken = block_on(store.import(items.into())).map_err(|why| format!("{items:?}: {why}"))?;
    drop(store);
    let again = contents(&folder).map_err(|why| format!("{items:?}: {why}"))?;
    let lost = items.iter().zip(taken);
    let lost = lost.filter(|(item, is_new)| *is_new && !again.contains(item));
    match lost.map(|(item, _)| item).next() {
        None => Ok(()),
        Some(item) => Err(format!("{item:?} is not among {again:?}")),
    }
}

/// The ends of the frames of a log.
fn ends(log: &[u8]) -> Vec<usize> {
    let (mut ends, mut at) = (Vec::new(), 0);
    while let Some(len) = number(log, at + FRAME_LEN) {
        at += (FRAME_HEADER + len).next_multiple_of(8);
        ends.push(at.min(log.len()));
    }
    ends
}

/// Makes the checksums of frames and of their entries fit their contents.
fn forge(log: &mut [u8]) {
    let mut at = 0;
    while let Some(len) = number(log, at + FRAME_LEN) {
        let start = at + FRAME_HEADER;
        let Some(payload) = start
            .checked_add(len)
            .and_then(|end| log.get_mut(start..end))
        else {
            return;
        };
        forge_entries(payload);
        let sum = crc32fast::hash(payload);
        put(log, at + 28, sum);
        let sum = log.get(at..at + 36).map(crc32fast::hash);
        put(log, at + 36, sum.unwrap_or_default());
        at = (start + len).next_multiple_of(8);
    }
}

fn forge_entries(payload: &mut [u8]) {
    let mut at = 0;
    while let (Some(meta), Some(tail)) = (number(payload, at), number(payload, at + 4)) {
        let (meta, start) = (meta >> 8, at + ENTRY_HEADER);
        let (Some(lead), Some(body)) = (payload.get(at..at + 8), payload.get(start..start + meta))
        else {
            return;
        };
        let mut hasher = crc32fast::Hasher::new_with_initial(ENTRY_SEED);
        hasher.update(lead);
        hasher.update(body);
        put(payload, at + 8, hasher.finalize());
        at = start + meta;
        if tail > 0 {
            let end = at.saturating_add(tail);
            let Some(sum) = payload.get(at..end).map(crc32fast::hash) else {
                return;
            };
            put(payload, end, sum);
            at = end + 4;
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    if let Some(place) = bytes.get_mut(at..at.saturating_add(4)) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

/// Waits on this thread: the store answers from a thread of its own.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

/// The time of the golden store, in which nothing is forgotten.
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_795_255_210_000)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

const SUPERBLOCK: &str = "superblock";
const RECORDS: &str = "records-0000000001.log";
const PARKED: &str = "parked-0000000001.log";
/// The places in the superblock of the durable length of each log.
const EXTENTS: [usize; 2] = [56, 64];
const FRAME_HEADER: usize = 40;
const FRAME_LEN: usize = 16;
const ENTRY_HEADER: usize = 12;
const ENTRY_SEED: u32 = 0x5345_4d45;

pub(crate) const WORDS: &[&[u8]] = &[
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"SLF1",
    b"SEMELEMB",
    b"\0\0\0\0\0\0\0\0",
    b"\x01\0\0\0",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02",
    b"\x02\0\0\0",
    b"\x03\0\0\0",
    b"\x07\0\0\0",
    b"\x08\0\0\0",
    b"\xff",
];
