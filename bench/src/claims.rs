//! The claim API over a durable embedded store, beside a bare server of hyper that answers a constant: claims and their
//! completions one by one, and in batches of a hundred. `wrk` asks over 64 connections.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let words = ["upstream", &bare.to_string()];
    let _bare = http::start(&words, bare, &folder.join("bare.log"))?;
    fs::write(
        folder.join("semel.toml"),
        CLAIMS.replace("ADDRESS", &ours.to_string()),
    )?;
    let mut command = Command::new(semel);
    command.arg("run").current_dir(folder);
    let _ours = http::listening(Process::start(command, &folder.join("ours.log"))?, ours)?;
    let script = |name: &str, size: u32| -> Result<PathBuf, Failure> {
        let path = folder.join(name);
        fs::write(&path, SCRIPT.replace("SIZE", &size.to_string()))?;
        Ok(path)
    };
    let (one, many) = (script("one.lua", 1)?, script("many.lua", BATCH)?);
    let (bare, ours) = (format!("http://{bare}"), format!("http://{ours}"));
    let mut runs = [const { Vec::new() }; 3];
    let mut p99 = [const { Vec::new() }; 3];
    for round in 0..ROUNDS {
        let turn = |url: &str, script: &Path| wrk::asked(url, script, &format!("turn-{round}"));
        let asked = [turn(&bare, &one)?, turn(&ours, &one)?, turn(&ours, &many)?];
        for (at, asked) in asked.into_iter().enumerate() {
            let of_each = if at == 2 { f64::from(BATCH) } else { 1.0 };
            runs[at].push(asked.rate * of_each);
            p99[at].push(asked.p99);
        }
    }
    println!(
        "claims and their completions, 64 connections, `wrk` for {} s a turn, {ROUNDS} rounds",
        wrk::SECONDS
    );
    println!(
        "| side | claims and completions/s | over the bare server | over single calls | p99 of a call, ms |"
    );
    println!("|---|---|---|---|---|");
    for (at, name) in NAMES.into_iter().enumerate() {
        println!(
            "| {name} | {} | {} | {} | {} |",
            Figures::of(runs[at].clone()),
            Figures::ratios(&runs[at], &runs[0]),
            Figures::ratios(&runs[at], &runs[1]),
            Figures::of(p99[at].clone())
        );
    }
    Ok(())
}

const NAMES: [&str; 3] = [
    "bare server of hyper, a constant",
    "claim API, embedded store, durable, one a call",
    "the same, a hundred a call",
];
const ROUNDS: usize = 3;
const BATCH: u32 = 100;

/// Claims new keys, and completes what was granted before it claims more. A server that grants nothing is claimed from
/// alone.
const SCRIPT: &str = r#"
local threads = 0
local size = SIZE
function setup(thread) thread:set("id", threads); threads = threads + 1 end
function init(args)
  turn = args[1]
  count = 0
  granted = {}
  wrk.headers["Content-Type"] = "application/json"
end
local function claim()
  count = count + 1
  return '{"operation":"charge","key":"' .. turn .. "-" .. size .. "-" .. id .. "-" .. count .. '"}'
end
local function list(name, of)
  local items = {}
  for at = 1, size do items[at] = of() end
  return '{"' .. name .. '":[' .. table.concat(items, ",") .. "]}"
end
local function settlement()
  return '{"claim":"' .. table.remove(granted) .. '","step":"complete","outcome":{"charged":4200}}'
end
function request()
  if #granted >= size then
    if size > 1 then return wrk.format("POST", "/v1/settle/batch", nil, list("settlements", settlement)) end
    local path = "/v1/claims/" .. table.remove(granted) .. "/complete"
    return wrk.format("POST", path, nil, '{"outcome":{"charged":4200}}')
  end
  if size > 1 then return wrk.format("POST", "/v1/claims/batch", nil, list("claims", claim)) end
  return wrk.format("POST", "/v1/claims", nil, claim())
end
function response(status, headers, body)
  for claim in string.gmatch(body, '"claim":"([^"]+)"') do granted[#granted + 1] = claim end
end
"#;

const CLAIMS: &str = r#"
[store]
url = "embedded:./store"

[claims]
listen = "ADDRESS"
"#;
