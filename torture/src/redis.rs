//! A Redis server of a test's own, to be killed.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

/// A server on a port of its own that takes no snapshots; killed and removed when dropped.
#[derive(Debug)]
pub struct Redis {
    folder: TempDir,
    log: Log,
    port: u16,
    process: Child,
}

/// The writes that a server keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Everything, on the disk before it answers.
    Synced,
    /// None beyond its own end.
    Off,
}

impl Redis {
    /// Starts a server.
    ///
    /// # Panics
    ///
    /// If Redis is not installed or does not come up.
    pub fn start(log: Log) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port::take().expect("a free port");
        let process = server(log, folder.path(), port);
        let this = Self {
            folder,
            log,
            port,
            process,
        };
        this.wait_until_up();
        this
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Kills it, and starts it again on the data it has kept.
    ///
    /// # Panics
    ///
    /// If it does not come up again.
    pub fn kill_and_restart(&mut self) {
        self.process.kill().expect("a process");
        self.process.wait().expect("a process");
        self.process = server(self.log, self.folder.path(), self.port);
        self.wait_until_up();
    }

    /// Waits until it answers, and has read its log.
    fn wait_until_up(&self) {
        for _ in 0..30_000 {
            if self.is_up().unwrap_or(false) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        panic!("Redis did not come up within five minutes");
    }

    fn is_up(&self) -> std::io::Result<bool> {
        let mut socket = TcpStream::connect(self.address())?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        socket.write_all(b"PING\r\n")?;
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line)?;
        Ok(line.starts_with("+PONG"))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn server(log: Log, folder: &Path, port: u16) -> Child {
    let appendonly = match log {
        Log::Synced => "yes",
        Log::Off => "no",
    };
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--appendonly", appendonly, "--appendfsync", "always"])
        .args(["--save", "", "--dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}
