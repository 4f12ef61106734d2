//! The laws of the journal of producers over a folder; and a life of one, cut off after every single file operation.

use std::path::PathBuf;
use std::sync::Arc;

use semel_conformance::TestClock;
use semel_conformance::producers::{self, ProducerSubject};
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{Batch, Opening, ProducerMessage, ProducerOrder, decode, encode};
use semel_core::{Code, Result};
use semel_store_embedded::{EmbeddedProducers, EmbeddedStore, Options};
use tempfile::TempDir;

use crate::crash::disk::{Disk, Plan, Survival};
use crate::crash::planted::Planted;

struct Folder(TempDir);

impl ProducerSubject for Folder {
    type Journal = EmbeddedProducers;

    async fn open() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    async fn journal(&self) -> EmbeddedProducers {
        EmbeddedProducers::new(self.0.path())
    }
}

semel_conformance::producer_laws!(Folder);

fn opening() -> Opening {
    producers::opening("billing", "orders")
}

fn batch(first: u64, payloads: &[&'static str], confirmed: u64) -> Batch {
    Batch {
        confirmed,
        ..producers::batch(first, payloads)
    }
}

#[tokio::test]
async fn producers_publish_beside_the_process_that_has_the_store() {
    let folder = TempDir::new().expect("a folder");
    let journal = EmbeddedProducers::new(folder.path());
    assert_eq!(journal.list().await.expect("a list"), []);
    journal.open(&opening()).await.expect("before the store");
    let clock = Arc::new(TestClock::new());
    let store = EmbeddedStore::open(folder.path(), clock.clone(), Options::default());
    let store = store.expect("a folder with producers alone is no foreign one");
    let opened = journal.open(&opening()).await.expect("beside it");
    assert_eq!(opened.incarnation.epoch, 2);
    drop(store);
    EmbeddedStore::open(folder.path(), clock, Options::default()).expect("the store again");
}

fn log(folder: &TempDir) -> PathBuf {
    folder.path().join("producers").join("billing.journal")
}

#[tokio::test]
async fn damage_is_told_and_a_torn_end_is_cut() {
    let folder = TempDir::new().expect("a folder");
    let journal = EmbeddedProducers::new(folder.path());
    let opened = journal.open(&opening()).await.expect("opened").incarnation;
    let append = async |first, text| {
        journal
            .append(&opened, "orders", &batch(first, &[text], 0))
            .await
    };
    append(1, "one").await.expect("appended");
    let whole = std::fs::read(log(&folder)).expect("a log");
    append(2, "two").await.expect("appended");
    let both = std::fs::read(log(&folder)).expect("a log");

    // The end of a write that the power cut: what it said was never promised.
    for torn in [&both[..both.len() - 1], &[&whole[..], &[0; 70]].concat()] {
        std::fs::write(log(&folder), torn).expect("written");
        let other = EmbeddedProducers::new(folder.path());
        let again = other.open(&opening()).await.expect("opened");
        assert_eq!(again.next, 2);
        std::fs::write(log(&folder), &both).expect("written");
    }
    let mut damaged = both.clone();
    damaged[whole.len() - 2] ^= 1;
    std::fs::write(log(&folder), &damaged).expect("written");
    let other = EmbeddedProducers::new(folder.path());
    let error = other.open(&opening()).await.expect_err("damaged");
    assert_eq!(error.code(), Code::RecordCorrupt, "{error}");
}

#[tokio::test]
async fn a_newer_log_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let journal = EmbeddedProducers::new(folder.path());
    journal.open(&opening()).await.expect("opened");
    let mut header = Vec::from(*b"SLPJ");
    header.extend(4_u32.to_le_bytes());
    header.extend(1_u64.to_le_bytes());
    header.extend(crc32fast::hash(&header).to_le_bytes());
    std::fs::write(log(&folder), header).expect("written");
    let other = EmbeddedProducers::new(folder.path());
    let error = other.open(&opening()).await.expect_err("newer");
    assert_eq!(error.code(), Code::StoreNewer);
}

#[tokio::test]
async fn a_log_is_read_and_written_anew_in_pieces() {
    let folder = TempDir::new().expect("a folder");
    let journal = EmbeddedProducers::new(folder.path());
    let opened = journal.open(&opening()).await.expect("opened").incarnation;
    // Longer than a piece, and pieces end in the middle of frames.
    let payload = bytes::Bytes::from(vec![b'x'; 700_000]);
    for first in 1..=6 {
        let one = Batch {
            body: encode(&[ProducerMessage::new(payload.clone())]),
            ..batch(first, &["x"], 0)
        };
        let appended = journal.append(&opened, "orders", &one).await;
        appended.expect("appended");
    }
    for epoch in 2..4 {
        let journal = EmbeddedProducers::new(folder.path());
        let opened = journal.open(&opening()).await.expect("opened");
        assert_eq!((opened.next, opened.incarnation.epoch), (7, epoch));
        let kept = journal.pending(&opened.incarnation, "orders", 0, 100).await;
        let kept = kept.expect("all of them");
        assert_eq!(kept.len(), 6);
        let is_whole = |body| decode(body).is_some_and(|it| it[0].payload == payload);
        assert!(kept.iter().all(|it| is_whole(&it.body)));
    }
    let whole = std::fs::read(log(&folder)).expect("a log");
    let mut damaged = whole.clone();
    damaged[1_000_000] ^= 1;
    std::fs::write(log(&folder), &damaged).expect("written");
    let error = EmbeddedProducers::new(folder.path()).list().await;
    assert_eq!(error.expect_err("damaged").code(), Code::RecordCorrupt);
}

#[tokio::test]
async fn a_batch_that_no_frame_has_room_for_is_refused_and_harms_nothing() {
    let folder = TempDir::new().expect("a folder");
    let journal = EmbeddedProducers::new(folder.path());
    let opened = journal.open(&opening()).await.expect("opened").incarnation;
    let huge = Batch {
        body: vec![0; (64 << 20) + 1].into(),
        ..batch(1, &["x"], 0)
    };
    let refused = journal.append(&opened, "orders", &huge).await;
    let error = refused.expect_err("refused");
    assert_eq!(error.kind(), semel_core::ErrorKind::InvalidInput, "{error}");
    let next = journal
        .append(&opened, "orders", &batch(1, &["a"], 0))
        .await;
    next.expect("appended");
}

#[tokio::test]
async fn the_log_of_another_producer_is_not_taken_for_its_own() {
    let folder = TempDir::new().expect("a folder");
    let journal = EmbeddedProducers::new(folder.path());
    journal.open(&opening()).await.expect("opened");
    std::fs::copy(log(&folder), log(&folder).with_file_name("other.journal")).expect("copied");
    let other = Opening {
        name: "other".parse().expect("a name"),
        ..opening()
    };
    let error = journal.open(&other).await.expect_err("another's");
    assert_eq!(error.code(), Code::RecordCorrupt, "{error}");
}

/// The life of an order that fails at one operation, as a process does that is killed there; returns whether the
/// publisher's append behind it was promised, and the operations before and behind the order.
async fn ordered(disk: &Disk) -> (bool, std::ops::Range<u64>) {
    let publisher = EmbeddedProducers::open_in(Arc::new(disk.clone()));
    let operator = EmbeddedProducers::open_in(Arc::new(disk.clone()));
    let opened = publisher
        .open(&opening())
        .await
        .expect("opened")
        .incarnation;
    let appended = publisher
        .append(&opened, "orders", &batch(1, &["a"], 0))
        .await;
    appended.expect("appended");
    let begin = disk.operations();
    let name = "billing".parse().expect("a name");
    let _ = operator.order(&name, ProducerOrder::Freeze).await;
    let end = disk.operations();
    let appended = publisher
        .append(&opened, "orders", &batch(2, &["b"], 0))
        .await;
    (appended.is_ok(), begin..end)
}

#[tokio::test]
async fn what_is_appended_behind_an_order_that_was_killed_is_kept() {
    let (_, operations) = ordered(&Disk::new(Plan::Nothing, Planted::Nothing)).await;
    let mut promises = 0;
    for failing in operations {
        let plan = Plan::Fail(failing, std::io::ErrorKind::Other);
        let disk = Disk::new(plan, Planted::Nothing);
        let (is_promised, _) = ordered(&disk).await;
        promises += u32::from(is_promised);
        for survival in Survival::ALL {
            let survivor = Arc::new(disk.survivor(survival));
            let journal = EmbeddedProducers::open_in(survivor);
            let opened = journal.open(&opening()).await.expect("opened");
            let is_kept = opened.next == 3 || !is_promised;
            assert!(is_kept, "operation {failing} failed, {survival:?}");
        }
    }
    assert!(promises > 2, "{promises} appends are too few");
}

/// The promises of a life.
#[derive(Clone, Debug, Default)]
struct Promised {
    epoch: u64,
    appended: Vec<&'static str>,
    confirmed: u64,
    is_frozen: bool,
}

/// Lives until the power goes; returns what was promised until then.
async fn live(disk: &Disk) -> (Promised, Promised) {
    let mut promised = Promised::default();
    let mut tried = Promised::default();
    let _ = life(disk, &mut promised, &mut tried).await;
    (promised, tried)
}

async fn life(disk: &Disk, promised: &mut Promised, tried: &mut Promised) -> Result<()> {
    for texts in [["a", "b"], ["c", "d"]] {
        let journal = EmbeddedProducers::open_in(Arc::new(disk.clone()));
        tried.epoch += 1;
        let opened = journal.open(&opening()).await?;
        promised.epoch = opened.incarnation.epoch;
        for text in texts {
            let first = promised.appended.len() as u64 + 1;
            let sent = first.saturating_sub(2);
            tried.appended.push(text);
            tried.confirmed = tried.confirmed.max(sent);
            let one = batch(first, &[text], sent);
            journal.append(&opened.incarnation, "orders", &one).await?;
            promised.appended.push(text);
            promised.confirmed = promised.confirmed.max(sent);
        }
        tried.is_frozen = true;
        let name = "billing".parse()?;
        journal.order(&name, ProducerOrder::Freeze).await?;
        promised.is_frozen = true;
        let through = promised.appended.len() as u64 - 1;
        tried.confirmed = through;
        journal
            .confirm(&opened.incarnation, "orders", through)
            .await?;
        promised.confirmed = through;
    }
    Ok(())
}

/// Compares what a folder has after a power cut with what was promised and what was tried.
async fn broken(disk: &Disk, promised: &Promised, tried: &Promised) -> Option<String> {
    let journal = EmbeddedProducers::open_in(Arc::new(disk.clone()));
    let opened = match journal.open(&opening()).await {
        Ok(opened) => opened,
        Err(error) => return Some(format!("not opened: {error}")),
    };
    let (incarnation, standing) = (opened.incarnation, opened.standing);
    let is_epoch_sound = incarnation.epoch > promised.epoch;
    let count = opened.next - 1;
    let is_count_sound =
        (promised.appended.len() as u64..=tried.appended.len() as u64).contains(&count);
    let is_confirmed_sound = (promised.confirmed..=tried.confirmed).contains(&standing.confirmed);
    let is_frozen_sound = standing.limit.is_some() >= promised.is_frozen
        && standing.limit.is_some() <= tried.is_frozen;
    let pending = journal.pending(&incarnation, "orders", 0, u32::MAX).await;
    let pending = match pending {
        Ok(pending) => pending,
        Err(error) => return Some(format!("not read: {error}")),
    };
    let messages = pending
        .iter()
        .flat_map(|it| decode(&it.body).unwrap_or_default());
    let texts: Vec<_> = messages.map(|it| it.payload).collect();
    let begin = usize::try_from(standing.confirmed).expect("few");
    let end = usize::try_from(count).expect("few");
    let is_pending_sound = tried
        .appended
        .get(begin..end)
        .is_some_and(|expected| *expected == texts);
    let is_sound = is_epoch_sound
        && is_count_sound
        && is_confirmed_sound
        && is_frozen_sound
        && is_pending_sound;
    (!is_sound).then(|| format!("{promised:?} {incarnation:?} {standing:?} {texts:?}"))
}

#[tokio::test]
async fn nothing_that_was_promised_is_lost_wherever_the_power_goes() {
    let counted = Disk::new(Plan::Nothing, Planted::Nothing);
    let (promised, _) = live(&counted).await;
    assert_eq!(promised.appended.len(), 4, "a whole life");
    let operations = counted.operations();
    assert!(operations > 30, "{operations} crash points are too few");
    for last in 0..operations {
        let disk = Disk::new(Plan::CrashAfter(last), Planted::Nothing);
        let (promised, tried) = live(&disk).await;
        for survival in Survival::ALL {
            let survivor = disk.survivor(survival);
            if let Some(how) = broken(&survivor, &promised, &tried).await {
                panic!("power cut after operation {last}, {survival:?}: {how}");
            }
        }
    }
}
