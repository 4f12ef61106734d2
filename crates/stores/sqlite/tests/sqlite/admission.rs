//! Admitting together with an output, beyond the laws.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::checkpoint::CheckpointStore;
use semel_core::{Admission, Certainty, Code, ErrorKind, Mark, StateKind, Store};
use semel_store_sqlite::Options;

use crate::lab::{Lab, clock, connection, open, operation, request};

fn mark(value: u64) -> Mark {
    Mark {
        name: "out".into(),
        value,
    }
}

#[tokio::test]
async fn a_write_that_panics_changes_nothing_and_is_survived() {
    let lab = Lab::new();
    let store = lab.store();
    let batch = vec![request("a", 1), request("b", 1)];
    let write = Box::new(|_: &[Admission]| panic!("the output is gone"));
    let error = store
        .admit_with(batch.clone(), write)
        .await
        .expect_err("a panic");
    assert_eq!(
        (error.kind(), error.certainty()),
        (ErrorKind::Internal, Certainty::NotApplied)
    );
    assert_eq!(store.stats().await.expect("a count").records, [0; 6]);
    assert_eq!(store.mark("out").await.expect("a mark"), None);
    let answers = store
        .admit_with(batch, Box::new(|_| Ok(mark(2))))
        .await
        .expect("answers");
    assert!(matches!(
        answers[..],
        [Admission::Granted(_), Admission::Granted(_)]
    ));
}

#[tokio::test]
async fn nothing_is_written_where_the_file_stays_busy() {
    let lab = Lab::new();
    let mut options = Options::default();
    options.busy_timeout = Duration::from_millis(50);
    let store = lab.store_with(options);
    let other = lab.connection();
    other
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the write lock");
    let write = Box::new(|_: &[Admission]| panic!("nothing may be written"));
    let error = store.admit_with(vec![request("a", 1)], write).await;
    let error = error.expect_err("no write lock");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreUnavailable, Certainty::NotApplied)
    );
}

#[tokio::test]
async fn a_full_disk_is_found_before_anything_is_written() {
    let lab = Lab::new();
    let mut options = Options::default();
    options.max_file_bytes = Some(160 << 10);
    let store = lab.store_with(options);
    let batch: Vec<_> = (0..5_000)
        .map(|number| request(&format!("k-{number}"), 1))
        .collect();
    let write = Box::new(|_: &[Admission]| panic!("nothing may be written"));
    let error = store.admit_with(batch, write).await.expect_err("no room");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreFull, Certainty::NotApplied)
    );
    assert_eq!(store.stats().await.expect("a count").records, [0; 6]);
}

#[tokio::test]
async fn an_admission_shares_no_transaction_with_calls_that_fail() {
    let lab = Lab::new();
    let store = Arc::new(lab.store());
    let other = lab.connection();
    // While the lock is held, calls queue up; then those that may share a transaction.
    other
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the write lock");
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..12_u64 {
        let store = Arc::clone(&store);
        calls.spawn(async move {
            let batch = vec![request(&format!("k-{number}"), 1)];
            if number % 3 == 0 {
                let write = move |_: &[Admission]| Ok(mark(number));
                store.admit_with(batch, Box::new(write)).await
            } else {
                store.claim(batch.into()).await
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    other.execute_batch("COMMIT").expect("the lock back");
    for answer in calls.join_all().await {
        assert!(matches!(
            &answer.expect("answers")[..],
            [Admission::Granted(_)]
        ));
    }
    let records = store.stats().await.expect("a count").records;
    assert_eq!((records[0], records[3]), (8, 4));
    let found = store
        .get([operation("k-0")].into())
        .await
        .expect("an answer");
    let found = found[0].as_ref().map(|record| record.state.kind());
    assert_eq!(found, Some(StateKind::Completed));
}

#[test]
fn kill_9_leaves_records_and_the_output_up_to_its_mark_together() {
    if std::env::var_os("SEMEL_ADMIT_PATH").is_some() {
        return be_the_child();
    }
    let lab = Lab::new();
    drop(lab.store());
    let mut last = 0;
    for round in 0..5_u64 {
        let mut child = child(&lab.path());
        std::thread::sleep(Duration::from_millis(150 + round * 37));
        // SIGKILL: nothing of the child runs after it.
        child.kill().expect("a kill");
        child.wait().expect("an end");
        let written = cut_back(&lab.path());
        let keys: BTreeSet<&str> = written.lines().collect();
        assert_eq!(keys.len(), written.lines().count(), "round {round}");
        assert_eq!(keys.len(), completed(&lab.path()), "round {round}");
        assert!(lab.is_sound(), "round {round}");
        assert!(keys.len() >= last, "round {round}");
        last = keys.len();
    }
    assert!(last > 0, "no child came to admit anything");
}

/// Cuts the output back to its mark and returns it.
fn cut_back(path: &Path) -> String {
    let select = "SELECT value FROM semel_marks WHERE name = 'out'";
    let length: i64 = connection(path)
        .query_row(select, [], |row| row.get(0))
        .unwrap_or(0);
    if let Ok(output) = OpenOptions::new().write(true).open(output_of(path)) {
        output.set_len(length.cast_unsigned()).expect("a cut");
    }
    fs::read_to_string(output_of(path)).unwrap_or_default()
}

fn completed(path: &Path) -> usize {
    let count = "SELECT count(*) FROM semel_operations WHERE state = 'completed'";
    let count: u32 = connection(path)
        .query_row(count, [], |row| row.get(0))
        .expect("a count");
    count as usize
}

fn output_of(path: &Path) -> PathBuf {
    path.with_extension("out")
}

/// Starts this binary again, as a process that admits messages and is killed.
fn child(path: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", KILLED, "--nocapture"])
        .env("SEMEL_ADMIT_PATH", path)
        .stdout(Stdio::null())
        .spawn()
        .expect("a child")
}

/// Admits batches that overlap with those before, and appends the granted messages to the output.
#[tokio::main(flavor = "current_thread")]
async fn be_the_child() {
    let path = PathBuf::from(std::env::var_os("SEMEL_ADMIT_PATH").expect("a path"));
    cut_back(&path);
    let store = open(&path, &clock(), Options::default()).expect("a store");
    let claims = u128::from(std::process::id()) << 64;
    for first in (0..1_000_000_u32).step_by(30) {
        let batch: Vec<_> = (first..first + 50)
            .map(|n| request(&format!("pay-{n}"), claims + u128::from(n)))
            .collect();
        let output = output_of(&path);
        let write = move |answers: &[Admission]| {
            let mut output = File::options()
                .create(true)
                .append(true)
                .open(output)
                .expect("the output");
            for answer in answers {
                if let Admission::Granted(claim) = answer {
                    writeln!(output, "{}", claim.operation.key).expect("room");
                }
            }
            Ok(mark(output.metadata().expect("a length").len()))
        };
        let admitted = store.admit_with(batch, Box::new(write)).await;
        admitted.expect("answers");
    }
}

/// The test that is the child where its environment says so.
const KILLED: &str = "admission::kill_9_leaves_records_and_the_output_up_to_its_mark_together";
