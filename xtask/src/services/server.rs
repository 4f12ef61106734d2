//! One server process: started, waited for, recognised later by its id and start time, stopped.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::{Failure, Result};

/// How a kind of server is had.
pub(super) struct Server {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// The program, and the Debian package that brings it.
    pub(super) program: &'static str,
    pub(super) package: &'static str,
    /// Where the program is, if it is installed.
    pub(super) find: fn(&str) -> Option<PathBuf>,
    /// The variable that carries its address.
    pub(super) variable: &'static str,
    /// Prepares the data folder and gives back the command that serves from it.
    pub(super) prepare: fn(program: &Path, data: &Path, port: u16) -> Result<Command>,
    pub(super) url: fn(port: u16) -> String,
    /// Whether it answers yet.
    pub(super) answers: fn(port: u16) -> bool,
    /// The signal upon which it stops in good order.
    pub(super) stop: &'static str,
}

/// How long a server may take to answer, or to stop.
const PATIENCE: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(50);

/// Starts `server` with its data in `data`, in a process group of its own that outlives this one.
pub(super) fn start(server: &Server, program: &Path, data: &Path) -> Result<Running> {
    fs::create_dir_all(data)?;
    let port = free_port()?;
    let mut command = (server.prepare)(program, data, port)?;
    let path = data.with_extension("log");
    let log = File::create(&path)?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    let mut child = command
        .spawn()
        .map_err(|error| Failure::environment(format!("cannot start {}: {error}", server.name)))?;
    let running = Running::of(child.id(), (server.url)(port));
    let answered =
        wait(|| child.try_wait().is_ok_and(|ended| ended.is_some()) || (server.answers)(port));
    match (child.try_wait()?, running) {
        (None, Some(running)) if answered => Ok(running),
        (ended, _) => {
            if ended.is_none() {
                child.kill()?;
                child.wait()?;
            }
            let log = fs::read_to_string(&path).unwrap_or_default();
            let last = log.lines().last().unwrap_or("it said nothing");
            Err(Failure::environment(format!(
                "{} does not come up: {last}",
                server.name
            )))
        }
    }
}

/// A port that nobody uses at the moment.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Waits until `done`, and says whether it came to that.
fn wait(mut done: impl FnMut() -> bool) -> bool {
    let mut waited = Duration::ZERO;
    while waited < PATIENCE {
        if done() {
            return true;
        }
        thread::sleep(TICK);
        waited += TICK;
    }
    false
}

/// A process that was started here. Its start time tells it from a later one of the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) pid: u32,
    /// In ticks since the machine came up, as the kernel counts them.
    pub(super) started: u64,
    pub(super) url: String,
}

impl Running {
    /// The process `pid`, if it lives.
    pub(super) fn of(pid: u32, url: String) -> Option<Self> {
        Some(Self {
            pid,
            started: started(pid)?,
            url,
        })
    }

    pub(super) fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Asks it to stop, and waits until it has.
    pub(super) fn stop(&self, server: &Server) -> Result {
        let pid = self.pid.to_string();
        Command::new("kill")
            .args(["-s", server.stop, "--", &pid])
            .status()?;
        if wait(|| !self.is_alive()) {
            return Ok(());
        }
        Err(Failure::environment(format!(
            "{} (process {pid}) does not stop",
            server.name
        )))
    }

    pub(super) fn to_json(&self) -> String {
        json!({ "pid": self.pid, "started": self.started, "url": self.url }).to_string()
    }

    pub(super) fn from_json(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(Self {
            pid: value["pid"].as_u64()?.try_into().ok()?,
            started: value["started"].as_u64()?,
            url: value["url"].as_str()?.to_owned(),
        })
    }
}

/// When the process `pid` started; nothing if it is gone or only waits to be reaped.
fn started(pid: u32) -> Option<u64> {
    start_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The 22nd field; the second one, the program's name, may hold blanks and brackets.
fn start_in(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    (state != "Z" && state != "X")
        .then(|| fields.nth(18)?.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start() {
        let me = Running::of(std::process::id(), "x".to_owned()).expect("I live");
        assert!(me.is_alive());
        assert!(
            !Running {
                started: me.started + 1,
                ..me.clone()
            }
            .is_alive()
        );
        assert_eq!(Running::from_json(&me.to_json()), Some(me));
        assert_eq!(Running::from_json("{}"), None);
    }

    #[test]
    fn a_zombie_is_not_alive_and_a_name_may_hold_anything() {
        let stat =
            |state| format!("7 (a) b) {state} 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 9");
        assert_eq!(start_in(&stat("S")), Some(4242));
        assert_eq!(start_in(&stat("Z")), None);
        assert_eq!(start_in("nonsense"), None);
    }
}
