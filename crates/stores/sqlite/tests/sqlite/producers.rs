//! The laws of the journal of producers over a file, and what is beyond them.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use semel_conformance::ingest::{IngestSubject, producer, sent};
use semel_conformance::producers::{self, ProducerSubject};
use semel_core::Code;
use semel_core::ingest::{Numbering, Submission};
use semel_core::port::ingest::{IngestJournal, Silence};
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{Batch, InputMark, MOST_INPUTS, Opening};
use semel_store_sqlite::{Options, SqliteIngest, SqliteProducers, inspect};
use tempfile::TempDir;

struct Journal(TempDir);

impl Journal {
    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("semel.db")
    }
}

impl ProducerSubject for Journal {
    type Journal = SqliteProducers;

    async fn open() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    async fn journal(&self) -> SqliteProducers {
        SqliteProducers::new(&self.path(), Options::default()).expect("a journal")
    }
}

semel_conformance::producer_laws!(Journal);

struct Ingest(TempDir);

impl Ingest {
    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("semel.db")
    }
}

impl IngestSubject for Ingest {
    type Journal = SqliteIngest;

    async fn open() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    async fn journal(&self) -> SqliteIngest {
        SqliteIngest::new(&self.path(), Options::default()).expect("a journal")
    }
}

semel_conformance::ingest_laws!(Ingest);

fn opening() -> Opening {
    producers::opening("billing", "orders")
}

/// A user that looks may have no right to write, and has not asked to bring the store forward.
#[tokio::test]
async fn to_look_changes_no_byte() {
    let subject = Journal::open().await;
    let writer = subject.journal().await;
    let opened = writer.open(&opening()).await.expect("opened").incarnation;
    let appended = writer
        .append(&opened, "orders", &producers::batch(1, &["a"]))
        .await;
    appended.expect("appended");
    // The last connection takes its log away when its thread has ended.
    drop(writer);
    let plain = || {
        let file = Connection::open(subject.path())?;
        file.pragma_update_and_check(None, "journal_mode", "delete", |row| {
            row.get::<_, String>(0)
        })
    };
    while plain().ok().as_deref() != Some("delete") {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let files = || {
        let listed = std::fs::read_dir(subject.0.path()).expect("a folder");
        let mut found: Vec<_> = listed
            .map(|it| it.expect("a file").path())
            .map(|it| (std::fs::read(&it).expect("bytes"), it))
            .collect();
        found.sort();
        found
    };
    let before = files();
    let reader = subject.journal().await;
    let listed = reader.list().await.expect("a list");
    assert_eq!(listed[0].streams[0].waiting(), 1);
    let pending = reader.pending(&opened, "orders", 0, 1).await;
    assert_eq!(pending.expect("batches").len(), 1);
    assert!(files() == before, "something was changed");
}

#[tokio::test]
async fn the_first_opening_makes_a_store_as_well_and_a_newer_journal_is_refused() {
    let subject = Journal::open().await;
    let journal = subject.journal().await;
    assert_eq!(journal.list().await.expect("a list"), []);
    assert!(!subject.path().exists(), "a list makes no file");
    journal.open(&opening()).await.expect("opened");
    let looked = inspect(&subject.path(), &[]).expect("a file");
    assert!(looked.is_some_and(|it| it.is_store && it.format == Some(semel_store_sqlite::FORMAT)));
    SqliteProducers::create(&subject.path(), &Options::default()).expect("nothing to do");
    drop(journal);
    let connection = Connection::open(subject.path()).expect("a file");
    let newer = connection.execute("UPDATE semel_producer_format SET format = 2", []);
    newer.expect("a newer format");
    let error = subject.journal().await.open(&opening()).await;
    assert_eq!(error.expect_err("refused").code(), Code::StoreNewer);
}

#[tokio::test]
async fn tables_of_producers_alone_are_no_foreign_store() {
    let subject = Journal::open().await;
    Connection::open(subject.path())
        .expect("a file")
        .execute_batch("CREATE TABLE orders (id TEXT)")
        .expect("a table of the user's");
    SqliteProducers::create(&subject.path(), &Options::default()).expect("made");
    let journal = subject.journal().await;
    journal.open(&opening()).await.expect("a store is made");
}

#[tokio::test]
async fn the_input_used_longest_ago_is_forgotten_first() {
    let subject = Journal::open().await;
    let journal = subject.journal().await;
    let opened = journal.open(&opening()).await.expect("opened").incarnation;
    let use_of = async |digest| {
        let end = Batch {
            first: 1,
            count: 0,
            body: bytes::Bytes::new(),
            input: Some(InputMark {
                digest,
                rows: 1,
                bytes: 1,
                is_whole: true,
            }),
            confirmed: 0,
            at: semel_core::Timestamp::EPOCH,
        };
        let appended = journal.append(&opened, "orders", &end).await;
        appended.expect("appended");
    };
    use_of([1; 32]).await;
    use_of([2; 32]).await;
    // As many as are kept, without a sync for each.
    let connection = Connection::open(subject.path()).expect("a file");
    let filled = connection.execute(
        "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO semel_producer_inputs (producer, stream, digest, read, bytes, whole)
         SELECT 'billing', 'orders', randomblob(32), 1, 1, 1 FROM n",
        [i64::try_from(MOST_INPUTS).expect("few") - 2],
    );
    assert_eq!(filled.expect("filled"), MOST_INPUTS - 2);
    use_of([1; 32]).await;
    use_of([3; 32]).await;
    for (digest, is_known) in [(1, true), (2, false), (3, true)] {
        let mark = journal.input(&opened, "orders", &[digest; 32]).await;
        let mark = mark.expect("an answer");
        assert_eq!(mark.is_some(), is_known, "{digest}");
    }
}

/// The file may have been written by another version, or by hand.
#[tokio::test]
async fn rows_of_neither_journal_are_on_no_page() {
    let subject = Ingest::open().await;
    let path = subject.0.path().join("semel.db");
    let own = semel_conformance::ingest::sent(1, 1, &["x"]);
    subject.journal().await.submit(&own).await.expect("taken");
    let file = Connection::open(&path).expect("a file");
    file.execute_batch(
        "INSERT INTO semel_producers VALUES
             ('another journal', 'a', 1, 0), ('ingest of another', 'b', 1, 0), ('zone a', 'c', 1, 0), ('own', 'd', 1, 0);
         INSERT INTO semel_producer_streams
             SELECT producer, 'orders', 'kafka', 4, 3, 0 FROM semel_producers WHERE epoch = 1 AND id IN ('a', 'b', 'c', 'd')",
    )
    .expect("rows");
    let senders = subject.journal().await.page(None, 9).await;
    assert_eq!(senders.expect("a page").len(), 1);
    let producers = SqliteProducers::new(&path, Options::default()).expect("a journal");
    let own = producers.page(None, 9).await.expect("a page");
    let own: Vec<_> = own.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(own, ["own"]);
}

/// The rows are those that a version without times has left: sequences 1 to 3, in epoch 3.
#[tokio::test]
async fn a_journal_of_an_older_version_is_read_and_who_sent_there_is_silent_from_now_on() {
    let subject = Ingest::open().await;
    let path = subject.0.path().join("semel.db");
    // The tables as they were.
    let make = semel_conformance::ingest::sent(1, 1, &["x"]);
    let other = Submission {
        numbering: Numbering::Sender {
            producer: producer("other"),
            epoch: 1,
            first: 1,
            is_any_first: false,
        },
        ..make
    };
    subject.journal().await.submit(&other).await.expect("taken");
    let file = Connection::open(&path).expect("a file");
    file.execute_batch(
        "DROP TABLE semel_producer_times;
         INSERT INTO semel_producers VALUES ('ingest billing-0a', 'billing-0a', 3, 0);
         INSERT INTO semel_producer_streams VALUES ('ingest billing-0a', 'orders', 'ingest', 4, 3, 0)",
    )
    .expect("rows");
    let journal = subject.journal().await;
    let billing = producer("billing-0a");
    let silence = |hours: u64| Silence {
        stream: "orders".into(),
        longest: Duration::from_secs(1_800),
        now: sent(1, 1, &[]).at.plus(Duration::from_secs(3_600 * hours)),
        after: None,
        most: 9,
    };
    let forget = async |hours| {
        let forgotten = journal.forget(&silence(hours)).await;
        forgotten.expect("an answer").producers
    };
    assert_eq!(forget(0).await, [], "since when is not known");
    assert_eq!(forget(0).await, []);
    // An older version takes a message meanwhile, and has no time for it.
    file.execute_batch(
        "UPDATE semel_producer_streams SET next = 5, confirmed = 4 WHERE producer = 'ingest billing-0a'",
    )
    .expect("moved");
    assert_eq!(forget(1).await, [], "heard of since");
    let read = journal.accepted(&billing, "orders", 0, 9).await;
    let read = read.expect("an answer").expect("a stream");
    assert_eq!((read.begun, read.next), (0, 5));
    assert_eq!(forget(2).await, [billing]);
    let left = journal.list().await.expect("a list");
    assert_eq!(left.len(), 1, "the other one waits");
}

/// A request of a producer of its own.
fn of_its_own(number: u32) -> Submission {
    let mut own = sent(1, 1, &["x"]);
    if let Numbering::Sender { producer: id, .. } = &mut own.numbering {
        *id = producer(&format!("till-{number}"));
    }
    own
}

/// Submits while the file is locked, so that all of them wait at the same time.
async fn submitted_together(
    journal: &Arc<SqliteIngest>,
    subject: &Ingest,
    submissions: Vec<Submission>,
) -> Vec<bool> {
    journal.submit(&of_its_own(0)).await.expect("the tables");
    let other = Connection::open(subject.path()).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let waiting = submissions.into_iter().map(|it| {
        let journal = journal.clone();
        tokio::spawn(async move { journal.submit(&it).await.is_ok() })
    });
    let waiting: Vec<_> = waiting.collect();
    // One thread runs them all: each is handed over before this goes on.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    other.execute_batch("COMMIT").expect("unlocked");
    let mut answers = Vec::new();
    for one in waiting {
        answers.push(one.await.expect("no panic"));
    }
    answers
}

#[tokio::test]
async fn submissions_that_wait_at_the_same_time_share_a_transaction() {
    let subject = Ingest::open().await;
    let journal = Arc::new(subject.journal().await);
    let many = (1..=200).map(of_its_own).collect();
    let answers = submitted_together(&journal, &subject, many).await;
    assert_eq!(answers, [true; 200]);
    let log = subject.path().with_extension("db-wal");
    // Each transaction writes a page of each of four tables at least.
    let pages = std::fs::metadata(log).expect("a log").len() / 4_096;
    assert!(pages < 4 * 200, "{pages} pages");
    assert_eq!(journal.list().await.expect("a list").len(), 201);
}

#[tokio::test]
async fn a_submission_that_fails_keeps_no_other_from_the_file() {
    let subject = Ingest::open().await;
    let journal = Arc::new(subject.journal().await);
    journal.submit(&of_its_own(0)).await.expect("the tables");
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON semel_producer_batches WHEN NEW.producer = 'ingest till-7' \
                  BEGIN SELECT RAISE(ABORT, 'no'); END";
    let other = Connection::open(subject.path()).expect("the file");
    other.execute_batch(refuse).expect("a trigger");
    let many = (1..=20).map(of_its_own).collect();
    let answers = submitted_together(&journal, &subject, many).await;
    let expected: Vec<_> = (1..=20).map(|number| number != 7).collect();
    assert_eq!(answers, expected);
    assert_eq!(journal.list().await.expect("a list").len(), 20);
}
