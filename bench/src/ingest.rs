//! An ingest source over an embedded store, beside a bare server of hyper that appends each body to a file, syncs for all
//! that wait, and answers. `wrk` asks over 64 connections, with bodies of one message and of a hundred.
//!
//! The worker runs its effect meanwhile: a line of a file for each message.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::figures::Figures;
use crate::http;
use crate::process::{Process, address};
use crate::wrk;

type Failure = Box<dyn std::error::Error>;

pub(crate) fn rate() -> crate::Outcome {
    let semel = PathBuf::from(std::env::var_os("SEMEL_BIN").ok_or("SEMEL_BIN")?);
    let folder = tempfile::tempdir_in(".")?;
    let folder = folder.path();
    let (bare, ours) = (address()?, address()?);
    let log = folder.join("appended");
    let log = log.to_str().ok_or("a path of text")?;
    let _bare = http::start(
        &["append", &bare.to_string(), log],
        bare,
        &folder.join("bare.log"),
    )?;
    let config = CONFIG.replace("ADDRESS", &ours.to_string());
    fs::write(folder.join("semel.toml"), config)?;
    let mut command = Command::new(semel);
    command.arg("run").current_dir(folder);
    let _ours = http::listening(Process::start(command, &folder.join("ours.log"))?, ours)?;
    let script = |name: &str, size: u32| -> Result<PathBuf, Failure> {
        let path = folder.join(name);
        fs::write(&path, SCRIPT.replace("SIZE", &size.to_string()))?;
        Ok(path)
    };
    let (one, many) = (script("one.lua", 1)?, script("many.lua", BATCH)?);
    let (bare, ours) = (
        format!("http://{bare}{PATH}"),
        format!("http://{ours}{PATH}"),
    );
    let mut runs = [const { Vec::new() }; 4];
    let mut p99 = [const { Vec::new() }; 4];
    for round in 0..ROUNDS {
        let turn = |url: &str, script: &Path| wrk::asked(url, script, &format!("turn-{round}"));
        let mut asked = Vec::new();
        for script in [&one, &many] {
            asked.push(turn(&bare, script)?);
            asked.push(turn(&ours, script)?);
            // What it took and has not run yet would be work beside the next turn.
            at_rest(&folder.join("orders.ndjson"))?;
        }
        for (at, asked) in asked.into_iter().enumerate() {
            let of_each = if at < 2 { 1.0 } else { f64::from(BATCH) };
            runs[at].push(asked.rate * of_each);
            p99[at].push(asked.p99);
        }
    }
    println!(
        "messages of 200 bytes, 64 connections, `wrk` for {} s a turn, {ROUNDS} rounds",
        wrk::SECONDS
    );
    println!("| side | messages/s | over the bare server | p99 of a request, ms |");
    println!("|---|---|---|---|");
    for (at, name) in NAMES.into_iter().enumerate() {
        println!(
            "| {name} | {} | {} | {} |",
            Figures::of(runs[at].clone()),
            Figures::ratios(&runs[at], &runs[at / 2 * 2]),
            Figures::of(p99[at].clone())
        );
    }
    Ok(())
}

/// Waits until a file has not grown for a while.
fn at_rest(file: &Path) -> crate::Outcome {
    let mut before = None;
    loop {
        let length = fs::metadata(file)?.len();
        if before.replace(length) == Some(length) {
            return Ok(());
        }
        sleep(Duration::from_secs(1));
    }
}

const NAMES: [&str; 4] = [
    "bare server of hyper that appends and syncs in groups, one a request",
    "`semel run`, ingest, embedded store, one a request",
    "the bare server, a hundred a request",
    "`semel run`, a hundred a request",
];
const ROUNDS: usize = 5;
const BATCH: u32 = 100;
const PATH: &str = "/v1/ingest/orders";

/// Sends messages under a key that no other request has.
const SCRIPT: &str = r#"
local threads = 0
function setup(thread) thread:set("id", threads); threads = threads + 1 end
function init(args)
  turn = args[1]
  count = 0
  wrk.headers["Content-Type"] = "application/x-ndjson"
end
local filler = string.rep("x", 150)
function request()
  count = count + 1
  local name = turn .. "-SIZE-" .. id .. "-" .. count
  wrk.headers["Idempotency-Key"] = '"' .. name .. '"'
  local lines = {}
  for at = 1, SIZE do lines[at] = '{"id":"' .. name .. "-" .. at .. '","note":"' .. filler .. '"}' end
  return wrk.format("POST", nil, nil, table.concat(lines, "\n") .. "\n")
end
"#;

const CONFIG: &str = r#"
[store]
url = "embedded:./store"

[pipelines.orders]
source = { kind = "ingest", listen = "ADDRESS", path = "/v1/ingest/orders", max_waiting = 10000000 }
key = "json:/id"
effect = { kind = "file", path = "orders.ndjson" }
"#;
