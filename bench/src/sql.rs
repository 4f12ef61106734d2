//! `semel run`, file to SQLite with a `sql` effect, beside a Python loop with one transaction per
//! message and a bare `rusqlite` loop that inserts the same rows, 1,000 per transaction.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;

use crate::figures::{Figures, timed};
use crate::keys::Keys;

pub(crate) fn rate() -> crate::Outcome {
    let semel = semel()?;
    let folder = tempfile::tempdir_in(".")?;
    // The Python loop gets a tenth of the messages: its rate does not depend on their number.
    let (messages, few) = (200_000, 20_000);
    let all = folder.path().join("payments.ndjson");
    let first = folder.path().join("first.ndjson");
    write_payments(&all, messages)?;
    write_payments(&first, few)?;
    let (mut ours, mut bare, mut python) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..5 {
        ours.push(rate_of(messages, run_semel(&semel, folder.path(), round)?));
        bare.push(rate_of(
            messages,
            run_bare(&all, &folder.path().join(format!("bare{round}.db")))?,
        ));
        let database = folder.path().join(format!("python{round}.db"));
        python.push(rate_of(few, run_python(&first, &database)?));
    }
    println!("file to SQLite, messages/s, whole process for Semel and Python, fresh database each");
    println!("| side | messages/s | Semel over it, round by round |");
    println!("|---|---|---|");
    println!(
        "| `semel run`, sql effect, synchronous = FULL | {} | |",
        Figures::of(ours.clone())
    );
    for (name, theirs) in [
        ("bare rusqlite, 1,000 a transaction, no deduplication", bare),
        ("Python, one transaction per message", python),
    ] {
        let ratios = Figures::ratios(&ours, &theirs);
        println!("| {name} | {} | {ratios} |", Figures::of(theirs));
    }
    Ok(())
}

fn run_semel(
    semel: &Path,
    folder: &Path,
    round: u32,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let database = format!("semel{round}.db");
    Connection::open(folder.join(&database))?.execute_batch(TABLE)?;
    std::fs::write(folder.join("semel.toml"), CONFIG)?;
    let mut command = Command::new(semel);
    command
        .args([
            "run",
            "--output",
            "json",
            "--store",
            &format!("sqlite:{database}"),
        ])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let (taken, status) = timed(|| command.status());
    if !status?.success() {
        return Err("semel run failed".into());
    }
    let count: u32 = Connection::open(folder.join(&database))?.query_row(
        "select count(*) from charges",
        [],
        |row| row.get(0),
    )?;
    if count != 200_000 {
        return Err(format!("semel run wrote {count} rows").into());
    }
    Ok(taken)
}

fn run_bare(input: &Path, database: &Path) -> Result<Duration, Box<dyn std::error::Error>> {
    let (taken, result) = timed(|| -> Result<(), Box<dyn std::error::Error>> {
        let mut connection = Connection::open(database)?;
        connection.execute_batch("pragma journal_mode = wal; pragma synchronous = full")?;
        connection.execute_batch(TABLE)?;
        let text = std::fs::read_to_string(input)?;
        let lines: Vec<&str> = text.lines().collect();
        for chunk in lines.chunks(1_000) {
            let transaction = connection.transaction()?;
            {
                let mut insert =
                    transaction.prepare_cached("insert into charges values (?, ?, ?)")?;
                for line in chunk {
                    let message: serde_json::Value = serde_json::from_str(line)?;
                    let (id, amount, currency) = (
                        message["id"].as_str(),
                        message["amount"].as_i64(),
                        message["currency"].as_str(),
                    );
                    insert.execute((id, amount, currency))?;
                }
            }
            transaction.commit()?;
        }
        Ok(())
    });
    result.map(|()| taken)
}

fn run_python(input: &Path, database: &Path) -> Result<Duration, Box<dyn std::error::Error>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("rivals/per_message.py");
    let (taken, status) = timed(|| {
        Command::new("python3")
            .arg(script)
            .arg(input)
            .arg(database)
            .status()
    });
    if !status?.success() {
        return Err("the Python loop failed".into());
    }
    Ok(taken)
}

pub(crate) fn write_payments(path: &Path, count: usize) -> std::io::Result<()> {
    let mut keys = Keys::seeded(9);
    let mut text = String::new();
    let mut known = std::collections::BTreeSet::new();
    while known.len() < count {
        let key = keys.key();
        if known.insert(key.clone()) {
            let amount = known.len() * 37 % 10_000;
            writeln!(
                text,
                r#"{{"id":"{key}","amount":{amount},"currency":"EUR"}}"#
            )
            .expect("a string takes what is written");
        }
    }
    std::fs::write(path, text)
}

/// The release binary, built here if it is not there.
fn semel() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let status = Command::new("cargo")
        .args(["build", "--quiet", "--release", "--package", "semel-cli"])
        .current_dir(&root)
        .status()?;
    if !status.success() {
        return Err("the semel binary does not build".into());
    }
    Ok(root.join("target/release/semel").canonicalize()?)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn rate_of(count: usize, taken: Duration) -> f64 {
    count as f64 / taken.as_secs_f64()
}

pub(crate) const TABLE: &str =
    "create table charges (id text primary key, amount integer, currency text)";

pub(crate) const CONFIG: &str = r#"
[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"

[pipelines.payments.effect]
kind = "sql"
statement = "insert into charges (id, amount, currency) values (:id, :amount, :currency)"
"#;
