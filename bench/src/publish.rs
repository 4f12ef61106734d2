//! `semel publish` of a file to Kafka, its journal durable, beside an idempotent producer of librdkafka that is fed the
//! same lines and keeps nothing, and beside a loop that makes one row durable, sends it and waits, message by message.
//!
//! Each publishes to a fresh topic, which is counted and deleted afterwards. The time is that of the whole process.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::producer::BaseRecord;
use rusqlite::Connection;

use crate::figures::{Figures, timed};
use crate::kafka::{PARTITIONS, Site, drain, send};

type Failure = Box<dyn std::error::Error>;

pub(crate) fn rate() -> crate::Outcome {
    let site = Site::empty()?;
    let (all, first) = (
        site.folder.path().join("all.ndjson"),
        site.folder.path().join("first.ndjson"),
    );
    write_orders(&all, MESSAGES)?;
    write_orders(&first, FEW)?;
    let mut runs = [const { Vec::new() }; SIDES.len()];
    for round in 0..=ROUNDS {
        for (at, (_, side)) in SIDES.into_iter().enumerate() {
            let (file, count) = match side {
                Side::RowByRow => (&first, FEW),
                Side::Semel(_) | Side::Bare => (&all, MESSAGES),
            };
            let topic = format!("{}-{round}-{at}", site.input);
            site.make(&topic)?;
            let folder = site.folder.path().join(&topic);
            fs::create_dir(&folder)?;
            let (taken, done) = timed(|| match side {
                Side::Semel(store) => semel(&site, &topic, &folder, store, file),
                Side::Bare => bare(&site, &topic, file),
                Side::RowByRow => row_by_row(&site, &topic, &folder, file),
            });
            done?;
            let there = published(&site, &topic)?;
            if there != i64::from(count) {
                return Err(format!("{there} of {count} messages are in {topic}").into());
            }
            site.delete(&[&topic])?;
            fs::remove_dir_all(&folder)?;
            // In the first, the broker's own machine warms up.
            if round > 0 {
                runs[at].push(per_second(count, taken));
            }
        }
    }
    println!(
        "file to Kafka, {MESSAGES} lines of {LINE_BYTES} bytes, one broker on the same machine, {ROUNDS} rounds behind \
         one that is not counted"
    );
    println!("| side | messages/s | over the bare producer | over one row a message |");
    println!("|---|---|---|---|");
    for (at, (name, _)) in SIDES.into_iter().enumerate() {
        println!(
            "| {name} | {} | {} | {} |",
            Figures::of(runs[at].clone()),
            Figures::ratios(&runs[at], &runs[0]),
            Figures::ratios(&runs[at], &runs[1])
        );
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Side {
    Bare,
    RowByRow,
    /// The binary, with this store.
    Semel(&'static str),
}

const SIDES: [(&str, Side); 4] = [
    (
        "idempotent producer of librdkafka, nothing durable",
        Side::Bare,
    ),
    (
        "one row of SQLite a message, sent and awaited",
        Side::RowByRow,
    ),
    (
        "`semel publish`, embedded store",
        Side::Semel("embedded:./data"),
    ),
    ("`semel publish`, SQLite", Side::Semel("sqlite:data.db")),
];

fn semel(site: &Site, topic: &str, folder: &Path, store: &str, file: &Path) -> crate::Outcome {
    let mut command = Command::new(&site.semel);
    command
        .args(["publish", "--to", &format!("kafka://{}", site.brokers)])
        .args(["--stream", topic, "--store", store])
        .arg(fs::canonicalize(file)?)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("log"))?);
    if !command.status()?.success() {
        return Err(fs::read_to_string(folder.join("log"))?.into());
    }
    Ok(())
}

fn bare(site: &Site, topic: &str, file: &Path) -> crate::Outcome {
    let producer = site.producer(None)?;
    for line in BufReader::new(File::open(file)?).split(b'\n') {
        let line = line?;
        send(&producer, BaseRecord::to(topic).payload(&line))?;
    }
    drain(&producer);
    Ok(())
}

fn row_by_row(site: &Site, topic: &str, folder: &Path, file: &Path) -> crate::Outcome {
    let rows = Connection::open(folder.join("rows.db"))?;
    rows.execute_batch(
        "pragma journal_mode = wal; pragma synchronous = full; create table rows (line blob)",
    )?;
    let mut insert = rows.prepare("insert into rows values (?)")?;
    let producer = site.producer(None)?;
    for line in BufReader::new(File::open(file)?).split(b'\n') {
        let line = line?;
        insert.execute([&line])?;
        send(&producer, BaseRecord::to(topic).payload(&line))?;
        drain(&producer);
    }
    Ok(())
}

/// The number of messages in a topic.
fn published(site: &Site, topic: &str) -> Result<i64, Failure> {
    let reader = site.consumer(topic)?;
    let mut count = 0;
    for partition in 0..PARTITIONS {
        let (_, end) = reader.fetch_watermarks(topic, partition, Duration::from_secs(30))?;
        count += end;
    }
    Ok(count)
}

fn write_orders(file: &Path, count: u32) -> crate::Outcome {
    let mut out = BufWriter::new(File::create(file)?);
    for number in 0..count {
        let line = format!(
            "{{\"id\":\"order-{number}\",\"amount\":{},\"note\":\"",
            number % 1_000
        );
        writeln!(out, "{line:x<0$}\"}}", LINE_BYTES - 2)?;
    }
    Ok(out.flush()?)
}

fn per_second(count: u32, taken: Duration) -> f64 {
    f64::from(count) / taken.as_secs_f64()
}

const MESSAGES: u32 = 1_000_000;
/// The number that is sent message by message: the rate does not depend on it.
const FEW: u32 = 2_000;
const LINE_BYTES: usize = 200;
const ROUNDS: usize = 5;
