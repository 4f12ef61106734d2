//! `semel run` behind a broker beside a bare loop, two kinds of effect, in turn.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::figures::Figures;

type Failure = Box<dyn std::error::Error>;

/// One of the runs.
pub(crate) struct Run {
    /// The name of the run.
    pub(crate) name: String,
    pub(crate) is_bare: bool,
    /// True for standard output; false for a place of the broker.
    pub(crate) is_stdout: bool,
}

/// Runs each, round by round, and prints the time it took and its processor time.
pub(crate) fn compare(
    what: &str,
    records: u32,
    kinds: [&str; 2],
    run: impl Fn(&Run) -> Result<(Duration, f64), Failure>,
) -> crate::Outcome {
    let mut measured = [const { (Vec::new(), Vec::new()) }; 4];
    for round in 0..ROUNDS {
        for (place, (rates, processor)) in measured.iter_mut().enumerate() {
            let (taken, seconds) = run(&Run {
                name: format!("{round}-{place}"),
                is_bare: place % 2 == 0,
                is_stdout: place / 2 == 1,
            })?;
            rates.push(f64::from(records) / taken.as_secs_f64());
            processor.push(seconds / (f64::from(records) / 1e6));
        }
    }
    println!(
        "{what}; {records} messages of some 100 bytes, one in twenty a repeat, the server on the same machine, \
         {ROUNDS} rounds"
    );
    println!(
        "| side | messages/s | over its bare loop, round by round | its processor seconds, a million |"
    );
    println!("|---|---|---|---|");
    for (place, (rates, processor)) in measured.iter().enumerate() {
        let kind = kinds[place / 2];
        let (side, ratio) = if place % 2 == 0 {
            ("bare loop, no deduplication", String::new())
        } else {
            let ratio = Figures::ratios(rates, &measured[place - 1].0);
            ("`semel run`, embedded store", ratio.to_string())
        };
        println!(
            "| {side}, {kind} | {} | {ratio} | {} |",
            Figures::of(rates.clone()),
            Figures::of(processor.clone())
        );
    }
    Ok(())
}

/// The payload with this number. One in twenty comes again, at some distance.
pub(crate) fn payload(number: u32) -> String {
    let id = if number % 20 == 19 {
        number / 20 * 10
    } else {
        number
    };
    format!(
        "{{\"id\":\"pay-{id}\",\"amount\":{},\"currency\":\"EUR\",\"customer\":\"customer-{}\",\"note\":\"of a benchmark\"}}",
        id % 1_000,
        id % 77
    )
}

/// The number of keys of this many payloads.
pub(crate) const fn distinct(records: u32) -> u32 {
    records - records / 20
}

/// The binary with this source and effect.
pub(crate) fn semel(
    semel: &Path,
    folder: &Path,
    source: &str,
    effect: &str,
) -> Result<Command, Failure> {
    let config = CONFIG.replace("SOURCE", source).replace("EFFECT", effect);
    std::fs::write(folder.join("semel.toml"), config)?;
    let mut command = Command::new(semel);
    command.arg("run").current_dir(folder);
    Ok(command)
}

/// The standard output of a loop, which no process reads.
pub(crate) fn null() -> Result<BufWriter<File>, Failure> {
    let null = File::options().write(true).open("/dev/null")?;
    Ok(BufWriter::new(null))
}

/// Writes a payload as a line.
pub(crate) fn write(to: &mut impl Write, payload: &[u8]) -> Result<(), Failure> {
    to.write_all(payload)?;
    Ok(to.write_all(b"\n")?)
}

const ROUNDS: usize = 3;

const CONFIG: &str = r#"
[store]
url = "embedded:./data"

[pipelines.copy]
key = "json:/id"
fingerprint = "none"
window = "30d"

[pipelines.copy.source]
SOURCE

[pipelines.copy.effect]
EFFECT
"#;
