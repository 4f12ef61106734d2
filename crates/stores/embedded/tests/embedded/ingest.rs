//! The laws of the journal of messages that others send, over a folder; and a life of one, cut off after every single
//! file operation.

mod submissions;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use semel_conformance::TestClock;
use semel_conformance::ingest::{IngestSubject, producer, sent, settled};
use semel_core::ingest::{GateAnswer, Numbering, Submission};
use semel_core::port::ingest::{IngestJournal, Settled, Silence};
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{ProducerEntry, ProducerOrder, decode};
use semel_core::{Code, Result};
use semel_store_embedded::files::RealFiles;
use semel_store_embedded::{EmbeddedIngest, EmbeddedProducers, EmbeddedStore, Options};
use tempfile::TempDir;

use crate::crash::disk::{Disk, Plan, Survival};
use crate::crash::planted::Planted;
use crate::reads::Counted;

struct Folder(TempDir);

impl IngestSubject for Folder {
    type Journal = EmbeddedIngest;

    async fn open() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    async fn journal(&self) -> EmbeddedIngest {
        EmbeddedIngest::new(self.0.path())
    }
}

semel_conformance::ingest_laws!(Folder);

#[tokio::test]
async fn a_producer_that_sends_here_is_none_that_publishes_from_here() {
    let folder = TempDir::new().expect("a folder");
    let (ingest, own) = (
        EmbeddedIngest::new(folder.path()),
        EmbeddedProducers::new(folder.path()),
    );
    ingest.submit(&sent(9, 1, &["a"])).await.expect("taken");
    let clock = Arc::new(TestClock::new());
    let store = EmbeddedStore::open(folder.path(), clock, Options::default());
    store.expect("a folder with messages of others alone is no foreign one");
    assert_eq!(own.list().await.expect("a list"), []);
    let opening = semel_conformance::producers::opening("billing-0a", "orders");
    let opened = own.open(&opening).await.expect("opened");
    assert_eq!((opened.incarnation.epoch, opened.next), (1, 1));
    let listed = ingest.list().await.expect("a list");
    assert_eq!((listed.len(), listed[0].epoch), (1, 9));
}

/// A request of a producer of this name.
fn sent_by(name: &str, first: u64, texts: &[&'static str]) -> Submission {
    let mut submission = sent(1, first, texts);
    if let Numbering::Sender { producer: id, .. } = &mut submission.numbering {
        *id = producer(name);
    }
    submission
}

#[tokio::test]
async fn the_folder_is_listed_once_for_a_page_however_many_producers_there_are() {
    let folder = TempDir::new().expect("a folder");
    let files = Counted::new(RealFiles::open(folder.path()).expect("a folder"));
    let calls = files.calls();
    let lists = || calls.lists.swap(0, Ordering::Relaxed);
    let ingest = EmbeddedIngest::open_in(Arc::new(files));
    for number in 0..20 {
        let name = format!("till-{number}");
        let new = sent_by(&name, 1, &["a"]);
        ingest.submit(&new).await.expect("taken");
        let next = sent_by(&name, 2, &["b"]);
        ingest.submit(&next).await.expect("taken");
    }
    assert_eq!(lists(), 0, "one producer is one file");
    assert_eq!(ingest.page(None, 100).await.expect("a page").len(), 20);
    assert_eq!(lists(), 1);
}

#[tokio::test]
async fn a_damaged_log_hides_no_other_producer() {
    let folder = TempDir::new().expect("a folder");
    let ingest = EmbeddedIngest::new(folder.path());
    for name in ["a", "b", "c"] {
        let sent = sent_by(name, 1, &["x"]);
        ingest.submit(&sent).await.expect("taken");
    }
    let log = folder.path().join("ingest").join("b.journal");
    std::fs::write(log, b"no log").expect("written");
    // For who has read it before, and for who has not.
    for ingest in [ingest, EmbeddedIngest::new(folder.path())] {
        let page = ingest.page(None, 10).await.expect("a page");
        let is_sound = |it: &ProducerEntry| (it.damage.is_none(), it.streams.len());
        let entries: Vec<_> = page.iter().map(is_sound).collect();
        assert_eq!(entries, [(true, 1), (false, 0), (true, 1)]);
        let fault = page[1].fault().expect("damage");
        assert_eq!(fault.code(), Code::RecordCorrupt);
        assert!(
            fault.to_string().starts_with("b.journal is damaged"),
            "{fault}"
        );
        // Who needs all of them is told.
        let error = ingest.list().await.expect_err("damaged");
        assert_eq!(error.code(), Code::RecordCorrupt);
    }
}

#[tokio::test]
async fn what_is_refused_leaves_no_file() {
    let folder = TempDir::new().expect("a folder");
    let ingest = EmbeddedIngest::new(folder.path());
    let unknown = GateAnswer::Unknown { expected: 1 };
    let answer = ingest.submit(&sent(1, 2, &["b"])).await;
    assert_eq!(answer.expect("an answer"), unknown);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a list").count(), 0);
    ingest.submit(&sent(1, 1, &["a"])).await.expect("taken");
    let files = || {
        std::fs::read_dir(folder.path().join("ingest"))
            .expect("a list")
            .count()
    };
    let before = files();
    let other = sent_by("other", 2, &["b"]);
    let answer = ingest.submit(&other).await;
    assert_eq!(answer.expect("an answer"), unknown);
    assert_eq!(files(), before);
}

/// Two requests, as a version without times has written them: sequences 1 and 2, and 3, in epoch 3.
const FIRST_FORMAT: &[u8] = include_bytes!("../golden/ingest/1.journal");

#[tokio::test]
async fn a_log_of_the_first_format_is_read_and_stays_one_until_it_is_written_anew() {
    let folder = TempDir::new().expect("a folder");
    let log = folder.path().join("ingest/billing-0a.journal");
    std::fs::create_dir(folder.path().join("ingest")).expect("a folder");
    std::fs::write(&log, FIRST_FORMAT).expect("a log");
    let version = || std::fs::read(&log).expect("a log")[4];
    let journal = EmbeddedIngest::new(folder.path());
    let entries = journal.list().await.expect("a list");
    assert_eq!((entries[0].epoch, entries[0].streams[0].next), (3, 4));
    let answer = journal.submit(&sent(3, 3, &["{\"order\":3}", "d"])).await;
    let answer = answer.expect("an answer");
    assert!(
        matches!(
            answer,
            GateAnswer::Taken {
                known: 1,
                new: 1,
                ..
            }
        ),
        "{answer:?}"
    );
    let billing = producer("billing-0a");
    let read = journal.accepted(&billing, "orders", 0, 9).await;
    let read = read.expect("an answer").expect("a stream");
    assert_eq!((read.begun, read.batches.len(), read.next), (0, 3, 5));
    let done = journal.settle(&billing, "orders", settled(read.begun, 4));
    done.await.expect("settled");
    assert_eq!(version(), 1, "an older version reads it");
    let silence = |hours: u64| Silence {
        stream: "orders".into(),
        longest: Duration::from_secs(1_800),
        now: sent(1, 1, &[]).at.plus(Duration::from_secs(3_600 * hours)),
        after: None,
        most: 9,
    };
    let old = Silence {
        // Behind the time of the last batch, which is that of the test's messages.
        longest: Duration::from_secs(1 << 40),
        ..silence(1)
    };
    assert_eq!(journal.forget(&old).await.expect("an answer").producers, []);
    // An opening writes the log anew, with times.
    journal.submit(&sent(4, 5, &["e"])).await.expect("taken");
    assert_eq!(version(), 3);
    let again = EmbeddedIngest::new(folder.path());
    let read = again.accepted(&billing, "orders", 0, 9).await;
    let read = read.expect("an answer").expect("a stream");
    assert_eq!((read.begun, read.standing.confirmed, read.next), (0, 4, 6));
    let done = again.settle(&billing, "orders", settled(read.begun, 5));
    done.await.expect("settled");
    let forgotten = again.forget(&silence(20_000)).await.expect("an answer");
    assert_eq!(forgotten.producers, [billing]);
    let left = std::fs::read_dir(folder.path().join("ingest"));
    assert_eq!(left.expect("a list").count(), 0, "neither a log nor a lock");
}

/// A message that waited for long was settled a moment ago, which a log without times does not say.
#[tokio::test]
async fn what_waited_for_long_in_a_log_of_the_first_format_is_not_forgotten_when_it_is_settled() {
    let billing = producer("billing-0a");
    let day = |days: u64| {
        let began = sent(1, 1, &[]).at;
        began.plus(Duration::from_secs(days * 86_400))
    };
    let forgets = async |journal: &EmbeddedIngest, days| {
        let silence = Silence {
            stream: "orders".into(),
            longest: Duration::from_secs(5 * 86_400),
            // Long after 2026, when the messages of the log came.
            now: day(days),
            after: None,
            most: 9,
        };
        let forgotten = journal.forget(&silence).await.expect("an answer");
        forgotten.producers == [producer("billing-0a")]
    };
    for is_written_anew in [false, true] {
        let folder = TempDir::new().expect("a folder");
        std::fs::create_dir(folder.path().join("ingest")).expect("a folder");
        let log = folder.path().join("ingest/billing-0a.journal");
        std::fs::write(&log, FIRST_FORMAT).expect("a log");
        let journal = EmbeddedIngest::new(folder.path());
        let through = if is_written_anew {
            journal.submit(&sent(4, 4, &["d"])).await.expect("taken");
            4
        } else {
            3
        };
        let version = std::fs::read(&log).expect("a log")[4];
        assert_eq!(version, if is_written_anew { 3 } else { 1 });
        let done = Settled {
            at: day(20_000),
            ..settled(0, through)
        };
        let done = journal.settle(&billing, "orders", done);
        done.await.expect("settled");
        let again = EmbeddedIngest::new(folder.path());
        assert!(!forgets(&again, 20_001).await, "{is_written_anew}");
        assert!(!forgets(&again, 20_004).await, "{is_written_anew}");
        assert!(forgets(&again, 20_010).await, "{is_written_anew}");
    }
}

/// Three messages in epoch 3, as a version without groups has written them.
const SECOND_FORMAT: &[u8] = include_bytes!("../golden/ingest/2.journal");

#[tokio::test]
async fn a_log_of_the_second_format_is_read_and_stays_one_until_it_is_written_anew() {
    let folder = TempDir::new().expect("a folder");
    let log = folder.path().join("ingest/billing-0a.journal");
    std::fs::create_dir(folder.path().join("ingest")).expect("a folder");
    std::fs::write(&log, SECOND_FORMAT).expect("a log");
    let version = || std::fs::read(&log).expect("a log")[4];
    let journal = EmbeddedIngest::new(folder.path());
    let (fourth, fifth) = (sent(3, 4, &["d"]), sent(3, 5, &["e"]));
    let answers = tokio::join!(journal.submit(&fourth), journal.submit(&fifth));
    answers.0.expect("taken");
    answers.1.expect("taken");
    assert_eq!(version(), 2, "an older version reads it");
    journal.submit(&sent(4, 6, &["f"])).await.expect("taken");
    assert_eq!(version(), 3);
    let (journal, billing) = (EmbeddedIngest::new(folder.path()), producer("billing-0a"));
    let read = journal.accepted(&billing, "orders", 0, 9).await;
    let read = read.expect("an answer").expect("a stream");
    assert_eq!((read.batches.len(), read.next), (5, 7));
    assert!(read.begun > 0);
}

/// The same in one record of the third format.
const THIRD_FORMAT: &[u8] = include_bytes!("../golden/ingest/3.journal");

#[tokio::test]
async fn a_log_of_the_third_format_is_read() {
    let folder = TempDir::new().expect("a folder");
    std::fs::create_dir(folder.path().join("ingest")).expect("a folder");
    let log = folder.path().join("ingest/billing-0a.journal");
    std::fs::write(log, THIRD_FORMAT).expect("a log");
    let (journal, billing) = (EmbeddedIngest::new(folder.path()), producer("billing-0a"));
    let read = journal.accepted(&billing, "orders", 0, 9).await;
    let read = read.expect("an answer").expect("a stream");
    let messages = read
        .batches
        .iter()
        .flat_map(|it| decode(&it.body).expect("a batch"));
    let payloads: Vec<_> = messages.map(|it| it.payload).collect();
    assert_eq!(
        payloads,
        ["{\"order\":1}", "{\"order\":2}", "{\"order\":3}"]
    );
    assert_eq!((read.batches.len(), read.next), (2, 4));
}

/// The state that was promised, or tried.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    epoch: u64,
    /// The messages that were taken.
    taken: u64,
    settled: u64,
    is_frozen: bool,
}

/// Lives until the power goes; returns what was promised until then, and what was tried.
async fn live(disk: &Disk) -> (State, State) {
    let (mut promised, mut tried) = (State::default(), State::default());
    let _ = life(disk, &mut promised, &mut tried).await;
    (promised, tried)
}

async fn life(disk: &Disk, promised: &mut State, tried: &mut State) -> Result<()> {
    let billing = producer("billing-0a");
    for (epoch, submissions) in [
        (1, [sent(1, 1, &["a", "b"]), sent(1, 2, &["b", "c"])]),
        (2, [sent(2, 3, &["c"]), sent(2, 3, &["c", "d", "e"])]),
        (3, [sent(3, 6, &["f"]), sent(3, 6, &["f", "g"])]),
    ] {
        let journal = EmbeddedIngest::open_in(Arc::new(disk.clone()));
        for submission in submissions {
            tried.epoch = epoch;
            let end = submission.first() + u64::from(submission.count());
            tried.taken = end - 1;
            submit(&journal, &submission).await?;
            (promised.epoch, promised.taken) = (epoch, end - 1);
            tried.settled = end - 2;
            let read = journal.accepted(&billing, "orders", 0, 1).await?;
            let begun = read.map_or(0, |it| it.begun);
            journal
                .settle(&billing, "orders", settled(begun, end - 2))
                .await?;
            promised.settled = end - 2;
        }
        tried.is_frozen = true;
        journal.order(&billing, ProducerOrder::Freeze).await?;
        promised.is_frozen = true;
    }
    Ok(())
}

async fn submit(journal: &EmbeddedIngest, submission: &Submission) -> Result<()> {
    let answer = journal.submit(submission).await?;
    assert!(matches!(answer, GateAnswer::Taken { .. }), "{answer:?}");
    Ok(())
}

/// Compares what a folder has after a power cut with what was promised and what was tried.
async fn broken(disk: &Disk, promised: State, tried: State) -> Option<String> {
    let journal = EmbeddedIngest::open_in(Arc::new(disk.clone()));
    let entries = match journal.list().await {
        Ok(entries) => entries,
        Err(error) => return Some(format!("not listed: {error}")),
    };
    let Some(entry) = entries.first() else {
        return (promised.taken > 0).then(|| "nothing is there".to_owned());
    };
    let billing = producer("billing-0a");
    let read = journal.accepted(&billing, "orders", 0, u32::MAX).await;
    let read = match read {
        Ok(Some(read)) => read,
        other => return Some(format!("not read: {other:?}")),
    };
    let (taken, settled) = (read.next - 1, read.standing.confirmed);
    let messages = read.batches.iter().flat_map(|it| {
        let sequences = it.first..;
        sequences.zip(decode(&it.body).unwrap_or_default())
    });
    let kept: Vec<_> = messages.filter(|(at, _)| *at > settled).collect();
    let letter = |sequence: u64| {
        "abcdefg"
            .get(usize::try_from(sequence - 1).ok()?..)?
            .get(..1)
    };
    let is_whole = kept.iter().map(|(at, _)| *at).eq(settled + 1..=taken)
        && kept
            .iter()
            .all(|(at, it)| letter(*at).is_some_and(|it_is| it.payload == it_is));
    let is_sound = is_whole
        && (promised.epoch..=tried.epoch).contains(&entry.epoch)
        && (promised.taken..=tried.taken).contains(&taken)
        && (promised.settled..=tried.settled).contains(&settled)
        && entry.is_frozen >= promised.is_frozen
        && entry.is_frozen <= tried.is_frozen;
    (!is_sound).then(|| format!("{promised:?} {entry:?} {kept:?}"))
}

#[tokio::test]
async fn nothing_that_was_answered_is_lost_wherever_the_power_goes() {
    let counted = Disk::new(Plan::Nothing, Planted::Nothing);
    let (promised, _) = live(&counted).await;
    assert_eq!((promised.epoch, promised.taken), (3, 7), "a whole life");
    let operations = counted.operations();
    assert!(operations > 30, "{operations} crash points are too few");
    for last in 0..operations {
        let disk = Disk::new(Plan::CrashAfter(last), Planted::Nothing);
        let (promised, tried) = live(&disk).await;
        for survival in Survival::ALL {
            let survivor = disk.survivor(survival);
            if let Some(how) = broken(&survivor, promised, tried).await {
                panic!("power cut after operation {last}, {survival:?}: {how}");
            }
        }
    }
}

/// Lives on after a process that was killed, once: sends again what that one may have taken, or settles what it left. Returns
/// what is promised then, and what may be.
async fn live_on(disk: &Disk, (promised, tried): (State, State), settles: bool) -> (State, State) {
    let journal = EmbeddedIngest::open_in(Arc::new(disk.clone()));
    let billing = producer("billing-0a");
    let mut now = promised;
    if settles {
        let read = journal.accepted(&billing, "orders", 0, 1).await;
        let Some(read) = read.expect("read") else {
            return (promised, tried);
        };
        let last = read.next - 1;
        let settle = journal.settle(&billing, "orders", settled(read.begun, last));
        settle.await.expect("settled");
        if last > 0 {
            (now.taken, now.settled) = (last, last);
        }
    } else {
        let letters = ["a", "b", "c", "d", "e", "f", "g"];
        let taken = usize::try_from(tried.taken).expect("a few");
        submit(&journal, &sent(tried.epoch, 1, &letters[..taken]))
            .await
            .expect("taken");
        (now.epoch, now.taken) = (tried.epoch, tried.taken);
    }
    let may_be = State {
        taken: tried.taken.max(now.taken),
        settled: tried.settled.max(now.settled),
        ..tried
    };
    (now, may_be)
}

#[tokio::test]
async fn what_a_killed_process_wrote_is_on_the_disk_before_anybody_is_told_of_it() {
    let counted = Disk::new(Plan::Nothing, Planted::Nothing);
    live(&counted).await;
    for last in 0..counted.operations() {
        for (is_taken_for_clean, settles) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let disk = Disk::new(Plan::CrashAfter(last), Planted::Nothing);
            let lived = live(&disk).await;
            if lived.1.taken == 0 {
                continue;
            }
            let disk = disk.after_kill(is_taken_for_clean);
            let (promised, tried) = live_on(&disk, lived, settles).await;
            for survival in Survival::ALL {
                let survivor = disk.survivor(survival);
                if let Some(how) = broken(&survivor, promised, tried).await {
                    panic!(
                        "killed after operation {last}, taken for clean {is_taken_for_clean}, settles {settles}, then a \
                         power cut, {survival:?}: {how}"
                    );
                }
            }
        }
    }
}
