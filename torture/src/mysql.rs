//! A MariaDB server of a test's own, to be killed.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::geteuid;
use tempfile::TempDir;

/// A server on a port of its own, with its durable defaults and an empty database `semel`; killed and
/// removed when dropped.
#[derive(Debug)]
pub struct Mysql {
    folder: TempDir,
    port: u16,
    process: Child,
}

impl Mysql {
    /// Makes the server's own tables and starts it.
    ///
    /// # Panics
    ///
    /// If MariaDB is not installed or does not come up.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let made = Command::new(program("mariadb-install-db"))
            .args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-name-resolve",
                "--skip-test-db",
            ])
            .args(as_root())
            .arg(format!("--datadir={}", data(folder.path())))
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let made = made.expect("mariadb-install-db");
        assert!(made.success(), "mariadb-install-db");
        let port = free_port::take().expect("a free port");
        let process = server(folder.path(), port);
        let mut this = Self {
            folder,
            port,
            process,
        };
        this.wait_until_up();
        this.query("create database semel");
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
        self.process = server(self.folder.path(), self.port);
        self.wait_until_up();
    }

    /// The answers to statements, one line a row, fields separated by tabs.
    ///
    /// # Panics
    ///
    /// If one fails.
    pub fn query(&self, sql: &str) -> Vec<String> {
        let output = self.ask(sql);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{sql}: {said}");
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    /// A client that reads statements from its standard input, and ends with the first that fails.
    pub(crate) fn terminal(&self) -> Command {
        let mut command = Command::new(program("mariadb"));
        command
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"])
            .args(["--user=root", "--batch", "--skip-column-names"])
            .arg(format!("--port={}", self.port));
        command
    }

    fn ask(&self, sql: &str) -> Output {
        let mut command = self.terminal();
        command.arg(format!("--execute={sql}"));
        command.output().expect("mariadb")
    }

    fn wait_until_up(&mut self) {
        for _ in 0..1_200 {
            if self.ask("select 1").status.success() {
                return;
            }
            let ended = self.process.try_wait().expect("a process");
            assert!(ended.is_none(), "MariaDB ended: {}", self.log());
            sleep(Duration::from_millis(25));
        }
        panic!("MariaDB did not come up within thirty seconds");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Mysql {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn server(folder: &Path, port: u16) -> Child {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .expect("a log");
    Command::new(program("mariadbd"))
        .args(["--no-defaults", "--bind-address=127.0.0.1"])
        .args(["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=1"])
        // What the kernel writes for a killed server it may write beside the next one: once, the next found its own data
        // corrupt.
        .arg("--innodb-use-native-aio=0")
        .args(as_root())
        .arg(format!("--datadir={}", data(folder)))
        .arg(format!("--port={port}"))
        // In the data folder, where the server goes first: a longer path could be too long.
        .args(["--socket=mariadb.sock", "--pid-file=mariadb.pid"])
        // A server that starts removes files that it takes for temporary tables of a crashed one:
        // another server's.
        .env("TMPDIR", folder)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("mariadbd")
}

fn data(folder: &Path) -> String {
    folder.join("data").display().to_string()
}

/// A program of MariaDB; Debian keeps some off the path of users.
fn program(name: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut found = folders.map(|folder| folder.join(name));
    let found = found.find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("no {name}: MariaDB is not installed"))
}

/// The option that allows it to run as root, which it refuses otherwise.
fn as_root() -> Option<&'static str> {
    geteuid().is_root().then_some("--user=root")
}
