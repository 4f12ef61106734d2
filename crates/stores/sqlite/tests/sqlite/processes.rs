//! Several stores and processes on one file, and the end of some of them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::transactional::{Applied, TransactionalStore};
use semel_core::{Admission, Store};
use semel_store_sqlite::Options;

use crate::lab::{Lab, connection, message, number, open, request, statements, text};

const CREATE: &str = "CREATE TABLE payments (id TEXT, amount INTEGER)";
const INSERT: &str = "INSERT INTO payments (id, amount) VALUES (:id, :amount)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_stores_on_one_file_one_is_granted() {
    const KEYS: u32 = 200;
    let lab = Lab::new();
    let stores = [Arc::new(lab.store()), Arc::new(lab.store())];
    let mut tasks = tokio::task::JoinSet::new();
    for claimant in 0..8_u128 {
        let store = Arc::clone(&stores[usize::from(claimant % 2 == 1)]);
        tasks.spawn(async move {
            let mut granted = Vec::new();
            for key in 0..KEYS {
                let name = format!("k{key}");
                let answers = store
                    .claim([request(&name, claimant + 1)].into())
                    .await
                    .expect("answers");
                match answers.into_iter().next() {
                    Some(Admission::Granted(claim)) => granted.push((key, claim.token)),
                    Some(Admission::Busy { .. }) => {}
                    other => panic!("neither granted nor busy: {other:?}"),
                }
            }
            granted
        });
    }
    let granted: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    let keys: BTreeSet<_> = granted.iter().map(|(key, _)| *key).collect();
    let tokens: BTreeSet<_> = granted.iter().map(|(_, token)| *token).collect();
    assert_eq!((granted.len(), keys.len(), tokens.len()), (200, 200, 200));
}

#[test]
fn three_processes_that_apply_the_same_messages_apply_each_once() {
    const COUNT: usize = 2_000;
    let lab = Lab::new();
    drop(lab.store());
    lab.connection().execute_batch(CREATE).expect("a table");
    let children: Vec<_> = (0..3)
        .map(|first| child(&lab.path(), first * 700, COUNT))
        .collect();
    for mut child in children {
        assert!(child.wait().expect("a child").success());
    }
    let (paid, distinct, completed) = counts(&lab.path());
    assert_eq!((paid, distinct, completed), (COUNT, COUNT, COUNT));
    assert!(lab.is_sound());
}

#[test]
fn kill_9_leaves_effect_and_record_together_and_keeps_what_was_answered() {
    if std::env::var_os("SEMEL_CHILD_PATH").is_some() {
        return be_the_child();
    }
    let lab = Lab::new();
    drop(lab.store());
    lab.connection().execute_batch(CREATE).expect("a table");
    let mut answered = BTreeSet::new();
    for round in 0..6_u64 {
        let mut child = child(&lab.path(), 0, 1_000_000);
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let reading = std::thread::spawn(move || lines.lines().map_while(Result::ok).collect());
        std::thread::sleep(Duration::from_millis(150 + round * 37));
        // SIGKILL: nothing of the child runs after it.
        child.kill().expect("a kill");
        child.wait().expect("an end");
        let lines: Vec<String> = reading.join().expect("its lines");
        // The last line may be cut.
        answered.extend(
            lines
                .into_iter()
                .filter_map(|line| Some(line.strip_suffix('.')?.into())),
        );
        let (paid, distinct, completed) = counts(&lab.path());
        assert_eq!((paid, distinct), (completed, completed), "round {round}");
        assert!(lab.is_sound(), "round {round}");
    }
    let connection = lab.connection();
    let mut select = connection
        .prepare("SELECT id FROM payments")
        .expect("a query");
    let rows = select
        .query_map([], |row| row.get::<_, String>(0))
        .expect("rows");
    let paid: BTreeSet<String> = rows.collect::<Result<_, _>>().expect("ids");
    assert!(!answered.is_empty(), "no child came to answer anything");
    assert_eq!(
        answered.difference(&paid).next(),
        None,
        "an answer was forgotten"
    );
}

/// Counts payments, different payments, and completed records.
fn counts(path: &Path) -> (usize, usize, usize) {
    let count = "SELECT (SELECT count(*) FROM payments), (SELECT count(DISTINCT id) FROM payments),
                        (SELECT count(*) FROM semel_operations WHERE state = 'completed')";
    let counts = connection(path).query_row(count, [], |row| {
        Ok((
            row.get::<_, u32>(0)?,
            row.get::<_, u32>(1)?,
            row.get::<_, u32>(2)?,
        ))
    });
    let (paid, distinct, completed) = counts.expect("counts");
    (paid as usize, distinct as usize, completed as usize)
}

/// Starts this binary again, as a process that applies messages.
fn child(path: &Path, first: usize, count: usize) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", KILLED, "--nocapture"])
        .env("SEMEL_CHILD_PATH", path)
        .env("SEMEL_CHILD_FIRST", first.to_string())
        .env("SEMEL_CHILD_COUNT", count.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Applies messages in batches, beginning somewhere, and prints the id of each that is done.
#[tokio::main(flavor = "current_thread")]
async fn be_the_child() {
    let number_of = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<usize>().ok())
            .expect("a number")
    };
    let path = PathBuf::from(std::env::var_os("SEMEL_CHILD_PATH").expect("a path"));
    let (first, count) = (
        number_of("SEMEL_CHILD_FIRST"),
        number_of("SEMEL_CHILD_COUNT"),
    );
    let store = open(&path, &crate::lab::clock(), Options::default()).expect("a store");
    let insert = statements(&[INSERT], &["id", "amount"]);
    let claims = u128::from(std::process::id()) << 64;
    let mut done = 0;
    while done < count {
        let batch: Vec<_> = (done..count.min(done + 50))
            .map(|n| {
                let id = format!("pay-{}", (first + n) % count);
                message(&id, claims + n as u128, vec![text(&id), number(1)])
            })
            .collect();
        let applied = store
            .apply(&insert, batch.clone().into())
            .await
            .expect("answers");
        let mut out = std::io::stdout().lock();
        for (message, applied) in batch.iter().zip(applied) {
            match applied {
                Applied::Completed { .. } | Applied::NotGranted(Admission::Replay { .. }) => {
                    writeln!(out, "{}.", message.claim.operation.key).expect("a pipe");
                }
                other => panic!("neither applied nor replayed: {other:?}"),
            }
        }
        done += batch.len();
    }
}

/// The test that is the child where its environment says so.
const KILLED: &str =
    "processes::kill_9_leaves_effect_and_record_together_and_keeps_what_was_answered";
