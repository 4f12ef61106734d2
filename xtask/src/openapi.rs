//! `cargo xtask openapi`: requests by chance to the real server, after the descriptions that it serves of its claim API
//! and of its admin API (schemathesis). No answer may be a failure of the server, or another one than is described.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::process;
use crate::workspace::Workspace;

const VERSION: &str = "4.32.5";

/// The same seed makes the same requests.
const SEED: &str = "20261128";

/// The requests by chance, beside those that the description itself gives.
pub(crate) const REQUESTS: u32 = 120;

/// The pairs of a path and a method over which they are spread: fewer than there are, since some of them have few requests
/// that differ.
const OPERATIONS: u32 = 8;

/// Asks each API of the server of the binary `semel` so often; returns a line about it.
pub(crate) fn run(workspace: &Workspace, semel: &Path, count: u32) -> Result<String> {
    let each = count.div_ceil(OPERATIONS).to_string();
    let program = fetched(&workspace.target.join("schemathesis"))?;
    let folder = workspace.scratch().join("openapi");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let server = Server::start(semel, &folder)?;
    let mut lines = Vec::new();
    for (api, address) in [("claims", &server.claims), ("admin", &server.admin)] {
        let said = ask(&program, &folder, address, (count, &each))?;
        lines.push(format!("{api}: {said}"));
    }
    Ok(lines.join("; "))
}

/// Asks the API at an address; returns a line about it.
fn ask(program: &Path, folder: &Path, address: &str, (count, each): (u32, &str)) -> Result<String> {
    let mut requests = Command::new("python3");
    requests
        .arg(program.join("bin").join("schemathesis"))
        .args(["run", "--seed", SEED, "--max-examples", each])
        .args(["--phases", "examples,coverage,fuzzing", "--no-color"])
        // No schema says that a claim in a path is one that the server granted.
        .args(["--exclude-checks", "positive_data_acceptance"])
        // Its answer goes on for as long as somebody listens.
        .args(["--exclude-path", "/v1/events"])
        .arg(format!("http://{address}/v1/openapi.json"))
        .env("PYTHONPATH", program)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(folder);
    let longest = format!("{}s", LONGEST_SECS + count / SLOWEST_A_SECOND);
    let requests = process::by("timeout", &["--kill-after=10s", &longest], &requests);
    let (status, said) = process::gather(requests)?;
    verdict(status.success(), &said, count)
}

/// Reads the words behind the verb: nothing, or `--requests N`.
pub(crate) fn count(words: &[&str]) -> Result<u32> {
    let wrong = || Failure::usage("usage: cargo xtask openapi [--requests N]");
    match words {
        [] => Ok(REQUESTS),
        ["--requests", count] => count.parse().map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

/// Judges what it said. A run with fewer requests than were asked for has not tried enough.
fn verdict(is_success: bool, said: &str, count: u32) -> Result<String> {
    let sums = said.lines().find(|line| line.contains(" generated, "));
    let made = |sums: &str| sums.split(' ').next()?.parse::<u32>().ok();
    match sums.map(str::trim) {
        Some(sums) if is_success && made(sums).is_some_and(|made| made >= count) => {
            Ok(sums.to_owned())
        }
        Some(sums) if is_success => Err(Failure::no(format!(
            "{sums}, and {count} requests were asked for"
        ))),
        _ => {
            print!("{said}");
            Err(Failure::no("the server does not keep to its description"))
        }
    }
}

/// The folder of the pinned version, which is fetched once.
fn fetched(folder: &Path) -> Result<PathBuf> {
    let files = folder.join(VERSION);
    if files.is_dir() {
        return Ok(files);
    }
    // A half-made folder would be taken for a complete one.
    let fresh = folder.join("fresh");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    let mut install = Command::new("python3");
    install
        .args(["-m", "pip", "install", "--quiet"])
        .args(["--disable-pip-version-check", "--target"])
        .arg(&fresh)
        .arg(format!("schemathesis=={VERSION}"));
    process::log(&mut install, &folder.join("install.log"))?;
    fs::rename(&fresh, &files)?;
    Ok(files)
}

/// The server; dropping this ends it.
struct Server {
    child: Child,
    claims: String,
    admin: String,
}

impl Server {
    fn start(semel: &Path, folder: &Path) -> Result<Self> {
        let claims = format!("127.0.0.1:{}", free_port::take()?);
        let admin = format!("127.0.0.1:{}", free_port::take()?);
        let settings = format!(
            "[store]\nurl = \"embedded:./data\"\n[claims]\nlisten = \"{claims}\"\n[admin]\nlisten = \"{admin}\"\n"
        );
        fs::write(folder.join("semel.toml"), settings)?;
        let log = fs::File::create(folder.join("server.log"))?;
        let child = Command::new(semel)
            .args(["run", "semel.toml"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn();
        let child = child.map_err(|error| {
            Failure::environment(format!("cannot start {}: {error}", semel.display()))
        })?;
        let server = Self {
            child,
            claims,
            admin,
        };
        for _ in 0..TRIES {
            if [&server.claims, &server.admin]
                .into_iter()
                .all(|address| TcpStream::connect(address).is_ok())
            {
                return Ok(server);
            }
            sleep(Duration::from_millis(100));
        }
        Err(Failure::no("the server does not listen; see server.log"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(error) = ended {
            eprintln!("xtask: cannot stop the server: {error}");
        }
    }
}

/// The longest time for all requests: that of few, and more for each further one.
const LONGEST_SECS: u32 = 300;
const SLOWEST_A_SECOND: u32 = 4;

/// Tenths of a second in which the server must listen.
const TRIES: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_failed_or_tried_nothing_does_not_count() {
        let said = "Test cases:\n  1168 generated, 1168 passed\n";
        let passed = verdict(true, said, 200).ok();
        assert_eq!(passed.as_deref(), Some("1168 generated, 1168 passed"));
        assert!(verdict(false, said, 200).is_err());
        assert!(verdict(true, said, 20_000).is_err());
        assert!(verdict(true, "  0 generated, 0 passed\n", 200).is_err());
        assert!(verdict(true, "Schema could not be loaded\n", 200).is_err());
    }

    #[test]
    fn a_campaign_says_how_many() {
        assert_eq!(count(&[]).ok(), Some(REQUESTS));
        assert_eq!(count(&["--requests", "20000"]).ok(), Some(20_000));
        for words in [&["--requests"][..], &["--requests", "many"], &["20000"]] {
            assert!(count(words).is_err(), "{words:?}");
        }
    }
}
