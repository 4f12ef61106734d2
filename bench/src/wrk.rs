//! `wrk`, which asks a server over 64 connections.

use std::path::Path;
use std::process::Command;

type Failure = Box<dyn std::error::Error>;

/// The figures that it prints.
pub(crate) struct Asked {
    /// Requests a second.
    pub(crate) rate: f64,
    /// Requests.
    pub(crate) count: f64,
    /// Milliseconds that one of a hundred takes longer than.
    pub(crate) p99: f64,
}

/// Asks for a while, with the requests of a script, which gets `argument`. Any answer but a success is an error.
pub(crate) fn asked(url: &str, script: &Path, argument: &str) -> Result<Asked, Failure> {
    let mut wrk = Command::new("wrk");
    wrk.args(["-t2", "-c64", "--latency", &format!("-d{SECONDS}")])
        .arg("-s")
        .arg(script)
        .args([url, "--", argument]);
    let output = wrk.output();
    let output = output.map_err(|why| format!("wrk (Debian: wrk): {why}"))?;
    let said = String::from_utf8(output.stdout)?;
    if !output.status.success() || said.contains("Non-2xx") || said.contains("Socket errors") {
        return Err(said.into());
    }
    let word_behind = |text: &str, words: &str| {
        let (_, rest) = text.split_once(words)?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    let rate = word_behind(&said, "Requests/sec:")
        .ok_or("no rate")?
        .parse()?;
    let (count, _) = said.split_once(" requests in").ok_or("no count")?;
    let count = count.split_whitespace().last().ok_or("no count")?.parse()?;
    // Among the figures of the threads before it, a share of 99 % may stand too.
    let (_, latencies) = said
        .split_once("Latency Distribution")
        .ok_or("no latencies")?;
    let p99 = milliseconds(&word_behind(latencies, "99%").ok_or("no percentile")?)?;
    Ok(Asked { rate, count, p99 })
}

/// A time as `wrk` writes it.
fn milliseconds(text: &str) -> Result<f64, Failure> {
    for (unit, factor) in [("us", 1e-3), ("ms", 1.0), ("s", 1e3)] {
        if let Some(number) = text.strip_suffix(unit) {
            return Ok(number.parse::<f64>()? * factor);
        }
    }
    Err(format!("{text} is no time").into())
}

/// The length of a turn.
pub(crate) const SECONDS: u32 = 6;
