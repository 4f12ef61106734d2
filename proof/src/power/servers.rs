//! Servers whose data is on a disk that forgets.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::host::Host;
use crate::stopwatch::Stopwatch;

/// A server process, killed when dropped.
pub(crate) struct Server {
    process: Child,
    url: String,
    stop: Signal,
}

impl Server {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    fn start(
        mut command: Command,
        url: String,
        stop: Signal,
        answers: impl Fn() -> bool,
    ) -> Result<Self, String> {
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start a server: {error}"))?;
        let mut server = Self { process, url, stop };
        let since = Stopwatch::start();
        while !answers() {
            if let Ok(Some(status)) = server.process.try_wait() {
                return Err(format!("the server ended with {status}"));
            }
            if since.elapsed() > LONGEST_START {
                return Err("the server does not answer".to_owned());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(server)
    }

    /// Returns whether it has ended after a while.
    fn ends(&mut self) -> bool {
        let since = Stopwatch::start();
        while since.elapsed() < LONGEST_END {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(PAUSE);
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        let told = pid.map(|pid| kill_process(pid, self.stop));
        if !matches!(told, Some(Ok(()))) || !self.ends() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// Returns whether the machine has the server.
pub(crate) fn has_postgres() -> bool {
    postgres_program("postgres").is_some() && postgres_user().is_ok()
}

/// Returns whether the machine has the server.
pub(crate) fn has_redis() -> bool {
    let found = Command::new("redis-server").arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

/// The newest version among Debian's packages; its programs are not on the path.
fn postgres_program(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let versions = versions.filter_map(|entry| {
        let entry = entry.ok()?;
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin").join(name)))
    });
    let newest = versions.filter(|(_, program)| program.is_file()).max();
    newest.map(|(_, program)| program)
}

/// The user that runs it: the server refuses to run as root.
fn postgres_user() -> Result<(u32, u32), String> {
    let users = fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
    let mut users = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    users
        .find_map(|fields| match fields[..] {
            ["postgres", _, user, group, ..] => Some((user.parse().ok()?, group.parse().ok()?)),
            _ => None,
        })
        .ok_or_else(|| "there is no user `postgres`".to_owned())
}

/// Puts a new cluster on a disk.
pub(crate) fn prepare_postgres(host: &Host) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let (user, group) = postgres_user()?;
    let program = postgres_program("initdb").ok_or("PostgreSQL is not installed")?;
    let folder = tempfile::tempdir().map_err(failed)?;
    chown(folder.path(), Some(user), Some(group)).map_err(failed)?;
    let output = Command::new(program)
        .arg("--pgdata")
        .arg(folder.path())
        .args(["--username=semel", "--auth=trust", "--encoding=UTF8"])
        .args(["--no-locale", "--no-sync"])
        .uid(user)
        .gid(group)
        .current_dir(folder.path())
        .output()
        .map_err(failed)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    host.copy(folder.path(), user, group)
}

/// Lets Redis use a disk once before: it never syncs the folder in which it makes that of its log.
pub(crate) fn prepare_redis(host: &Host, appendfsync: &str) -> Result<(), String> {
    host.mount()?;
    drop(redis(host.folder(), appendfsync)?);
    host.keep()?;
    host.again()
}

/// PostgreSQL with its default settings, but small.
pub(crate) fn postgres(folder: &Path) -> Result<Server, String> {
    // The file of a server that is surely gone; a server that was cut off while it wrote this file
    // leaves it empty, and then people remove it too.
    let _ = fs::remove_file(folder.join("postmaster.pid"));
    let (user, group) = postgres_user()?;
    let program = postgres_program("postgres").ok_or("PostgreSQL is not installed")?;
    let ready = program.with_file_name("pg_isready");
    let port = free_port::take()
        .map_err(|error| error.to_string())?
        .to_string();
    let mut command = Command::new(program);
    command
        .arg("-D")
        .arg(folder)
        .args(["-p", &port, "-k", "", "-h", "127.0.0.1"])
        .args(["-c", "shared_buffers=16MB", "-c", "max_connections=20"])
        .args(["-c", "fsync=on", "-c", "full_page_writes=on"])
        .args(["-c", "synchronous_commit=on"])
        .uid(user)
        .gid(group)
        .current_dir("/");
    let url = format!("postgres://semel@127.0.0.1:{port}/postgres");
    Server::start(command, url, Signal::QUIT, || {
        let mut asked = Command::new(&ready);
        asked.args(["--quiet", "--host=127.0.0.1", "--port", &port]);
        asked.status().is_ok_and(|status| status.success())
    })
}

/// Redis with a log that it syncs as `appendfsync` says.
pub(crate) fn redis(folder: &Path, appendfsync: &str) -> Result<Server, String> {
    let port = free_port::take()
        .map_err(|error| error.to_string())?
        .to_string();
    let mut command = Command::new("redis-server");
    command
        .arg("--dir")
        .arg(folder)
        .args(["--port", &port, "--bind", "127.0.0.1"])
        .args(["--appendonly", "yes", "--appendfsync", appendfsync])
        .args(["--maxmemory-policy", "noeviction", "--save", ""]);
    let url = format!("redis://127.0.0.1:{port}");
    let number: u16 = port.parse().map_err(|_| "no port".to_owned())?;
    Server::start(command, url, Signal::KILL, || {
        ping(number).is_some_and(|said| &said == b"+PONG")
    })
}

fn ping(port: u16) -> Option<[u8; 5]> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(LONGEST_END)).ok()?;
    stream.write_all(b"PING\r\n").ok()?;
    let mut said = [0; 5];
    stream.read_exact(&mut said).ok()?;
    Some(said)
}

const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_START: Duration = Duration::from_secs(30);
const LONGEST_END: Duration = Duration::from_secs(5);
