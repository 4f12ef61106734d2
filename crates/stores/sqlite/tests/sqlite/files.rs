//! Files that cannot be a store, or not now.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::store::Durability;
use semel_core::{Admission, Advice, Certainty, Code, Error, Note, Store};
use semel_store_sqlite::Options;

use crate::lab::{Lab, clock, open, operation, request};

fn refusal(path: &Path) -> Error {
    match open(path, &clock(), Options::default()) {
        Ok(_) => panic!("{} must not open", path.display()),
        Err(error) => {
            assert_eq!(error.certainty(), Certainty::NotApplied, "{error}");
            let line = error.to_string();
            assert!(!line.contains('\n') && !line.ends_with('.'), "{line}");
            error
        }
    }
}

#[test]
fn a_missing_folder_is_named() {
    let lab = Lab::new();
    let error = refusal(&lab.folder.path().join("none/semel.db"));
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert!(error.to_string().contains("none"), "{error}");
}

#[test]
fn what_is_no_database_is_left_alone() {
    let lab = Lab::new();
    let text =
        b"id,amount\npay-1,100\n, and some more so that it is longer than a header".repeat(99);
    fs::write(lab.path(), &text).expect("a file");
    assert_eq!(refusal(&lab.path()).code(), Code::StoreForeign);
    assert_eq!(fs::read(lab.path()).expect("the file"), text);

    fs::write(
        lab.path(),
        b"SQLite format 3\0 and then something else".repeat(99),
    )
    .expect("a file");
    assert_eq!(refusal(&lab.path()).code(), Code::StoreForeign);
    assert_eq!(
        refusal(lab.folder.path()).code(),
        Code::StoreForeign,
        "a folder"
    );
}

#[test]
fn tables_of_our_name_that_are_not_ours_are_foreign() {
    for tables in [
        "CREATE TABLE semel_records (a)",
        "CREATE TABLE semel_meta (a)",
        "CREATE TABLE semel_meta (name, value)",
        "CREATE TABLE semel_meta (name, value); INSERT INTO semel_meta VALUES ('format', 'x')",
        "CREATE TABLE semel_meta (name, value); INSERT INTO semel_meta VALUES ('format', 0)",
        "CREATE TABLE semel_meta (name, value); INSERT INTO semel_meta VALUES ('format', 1)",
    ] {
        let lab = Lab::new();
        lab.connection().execute_batch(tables).expect("tables");
        assert_eq!(refusal(&lab.path()).code(), Code::StoreForeign, "{tables}");
    }
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let lab = Lab::new();
    drop(lab.store());
    let newer = "UPDATE semel_meta SET value = value + 1 WHERE name = 'format'";
    lab.connection()
        .execute_batch(newer)
        .expect("a newer format");
    let error = refusal(&lab.path());
    assert_eq!(
        (error.code(), error.advice()),
        (Code::StoreNewer, Advice::Fix)
    );
}

#[tokio::test]
async fn users_tables_live_in_the_same_file() {
    let lab = Lab::new();
    let tables = "CREATE TABLE payments (id); INSERT INTO payments VALUES (1)";
    lab.connection().execute_batch(tables).expect("a table");
    let store = lab.store();
    let answers = store
        .claim([request("pay-1", 1)].into())
        .await
        .expect("an answer");
    assert!(matches!(answers[..], [Admission::Granted(_)]));
    drop(store);
    let count = "SELECT count(*) FROM payments JOIN semel_operations WHERE key = 'pay-1'";
    let found: i64 = lab
        .connection()
        .query_row(count, [], |row| row.get(0))
        .expect("a count");
    assert_eq!(found, 1);
}

#[tokio::test]
async fn people_read_the_audit_trail_in_sql() {
    let lab = Lab::new();
    let store = lab.store();
    let claimed = store
        .claim([request("pay-1", 1)].into())
        .await
        .expect("answers");
    assert_eq!(claimed.len(), 1);
    let release = Directive {
        operation: operation("pay-1"),
        order: Order::Release,
        note: Some(Note {
            by: "ann@desk".into(),
            reason: "its worker is gone".into(),
        }),
    };
    let directed = store.operate([release].into()).await.expect("answers");
    assert!(matches!(directed[..], [Directed::Now(_)]));
    let select = "SELECT at, who, action, operation || ' ' || key, was || ' ' || became, reason \
                  FROM semel_orders";
    let entry = lab.connection().query_row(select, [], |row| {
        (0..6)
            .map(|column| row.get(column))
            .collect::<Result<Vec<String>, _>>()
    });
    let expected = [
        "2026-11-21T10:33:00.000Z",
        "ann@desk",
        "release",
        "payments pay-1",
        "claimed claimed",
        "its worker is gone",
    ];
    assert_eq!(entry.expect("an entry"), expected);
}

/// The system's own read-only places refuse even root.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_is_read_only() {
    assert_eq!(
        refusal(Path::new("/sys/kernel/semel.db")).code(),
        Code::StoreReadOnly
    );
}

#[tokio::test]
async fn a_full_disk_changes_nothing_and_is_survived() {
    let lab = Lab::new();
    let options = || {
        let mut options = Options::default();
        options.max_file_bytes = Some(160 << 10);
        options
    };
    let store = lab.store_with(options());
    let mut granted = 0;
    let error = loop {
        let batch: Vec<_> = (0..50)
            .map(|it| request(&format!("k-{granted}-{it}"), 1))
            .collect();
        match store.claim(batch.into()).await {
            Ok(answers) => granted += answers.len(),
            Err(error) => break error,
        }
        assert!(granted < 10_000, "160 KiB hold no 10,000 records");
    };
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreFull, Certainty::NotApplied)
    );
    let stats = store.stats().await.expect("a count");
    assert_eq!(stats.records[0], granted as u64, "whole batches or nothing");
    drop(store);
    assert!(lab.is_sound());
    let roomy = lab.store();
    let answers = roomy
        .claim([request("one more", 1)].into())
        .await
        .expect("an answer");
    assert!(matches!(answers[..], [Admission::Granted(_)]));
}

#[tokio::test]
async fn a_file_that_stays_busy_is_unavailable_and_surely_unchanged() {
    let lab = Lab::new();
    let mut options = Options::default();
    options.busy_timeout = Duration::from_millis(50);
    let store = lab.store_with(options);
    let other = lab.connection();
    other
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the write lock");
    let error = store
        .claim([request("pay-1", 1)].into())
        .await
        .expect_err("no write lock");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreUnavailable, Certainty::NotApplied)
    );
    assert!(matches!(error.advice(), Advice::Retry { after } if after > Duration::ZERO));
    // Readers are not held up.
    assert_eq!(store.stats().await.expect("a count").records, [0; 6]);
    other.execute_batch("ROLLBACK").expect("the lock back");
    let answers = store
        .claim([request("pay-1", 1)].into())
        .await
        .expect("an answer");
    assert!(matches!(answers[..], [Admission::Granted(_)]));
}

#[tokio::test]
async fn preflight_reads_the_real_settings() {
    let lab = Lab::new();
    let found = lab.store().preflight().await.expect("capabilities");
    assert_eq!((found.kind, found.shared), ("sqlite", true));
    let in_memory = found
        .warnings
        .iter()
        .any(|warning| warning.contains("tmpfs"));
    let expected = if in_memory {
        Durability::Kill
    } else {
        Durability::PowerCut
    };
    assert_eq!(found.durability, expected);
    let mode: String = lab
        .connection()
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .expect("the journal mode");
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn a_record_that_lies_fails_alone() {
    let lab = Lab::new();
    let store = lab.store();
    let batch = [request("a", 1), request("b", 2)];
    let granted = store.claim(batch.clone().into()).await.expect("answers");
    assert_eq!(granted.len(), 2);
    let damage = "UPDATE semel_records SET state = 77 WHERE key = 'a'";
    lab.connection().execute_batch(damage).expect("damage");
    let answers = store.claim(batch.into()).await.expect("answers");
    let [Admission::Failed(error), Admission::Granted(_)] = &answers[..] else {
        panic!("one fails, one is resumed: {answers:?}");
    };
    assert_eq!(error.code(), Code::RecordCorrupt);
}

#[test]
fn opening_a_new_file_from_many_threads_at_once_makes_one_store() {
    let lab = Lab::new();
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| drop(lab.store()));
        }
    });
    let count = |connection: &Connection| {
        connection.query_row("SELECT count(*) FROM semel_meta", [], |row| {
            row.get::<_, i64>(0)
        })
    };
    assert_eq!(count(&lab.connection()), Ok(3));
}
