//! A PostgreSQL server of a test's own, to be killed.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::geteuid;
use tempfile::TempDir;

/// A server on a port of its own, with its durable defaults; stopped and removed when dropped.
#[derive(Debug)]
pub struct Postgres {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    process: Child,
}

impl Postgres {
    /// Makes a database cluster and starts its server.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed or does not come up.
    pub fn start() -> Self {
        let programs = programs();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        if let Some((user, group)) = owner() {
            for path in [folder.path(), &data] {
                chown(path, Some(user), Some(group)).expect("a folder to give away");
            }
        }
        let made = run_as_owner(Command::new(programs.join("initdb")), &data)
            .arg("--pgdata")
            .arg(&data)
            .args([
                "--username=semel",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("initdb").success(), "initdb");
        let port = free_port::take().expect("a free port");
        let process = server(&programs, &data, port);
        let mut this = Self {
            folder,
            programs,
            port,
            process,
        };
        this.wait_until_up();
        this
    }

    /// Its address, without a database.
    pub fn url(&self) -> String {
        format!("postgres://semel@127.0.0.1:{}/postgres", self.port)
    }

    /// Kills its first process, which the others do not outlive, and starts it again.
    ///
    /// # Panics
    ///
    /// If it does not come up again.
    pub fn kill_and_restart(&mut self) {
        self.process.kill().expect("a process");
        self.process.wait().expect("a process");
        self.process = self.server();
        self.wait_until_up();
    }

    /// The answer to a query, one line a row, fields separated by `|`.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn query(&self, sql: &str) -> Vec<String> {
        let output = self
            .terminal()
            .args(["--command", sql])
            .output()
            .expect("psql");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{sql}: {said}");
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    /// A client that reads statements from its standard input, and ends with the first that fails.
    pub(crate) fn terminal(&self) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command
            .args([
                "--no-psqlrc",
                "--tuples-only",
                "--no-align",
                "--quiet",
                "-v",
                "ON_ERROR_STOP=1",
            ])
            .args(["--dbname", &self.url()]);
        command
    }

    fn server(&self) -> Child {
        server(&self.programs, &self.folder.path().join("data"), self.port)
    }

    fn wait_until_up(&mut self) {
        for _ in 0..6_000 {
            // It refuses to start beside processes of the one before.
            if self.process.try_wait().expect("a process").is_some() {
                self.process = self.server();
            }
            let ready = Command::new(self.programs.join("pg_isready"))
                .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
                .status();
            if ready.is_ok_and(|status| status.success()) {
                return;
            }
            sleep(Duration::from_millis(50));
        }
        panic!("PostgreSQL did not come up within five minutes");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn server(programs: &Path, data: &Path, port: u16) -> Child {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(data.with_extension("log"))
        .expect("a log");
    run_as_owner(Command::new(programs.join("postgres")), data)
        .arg("-D")
        .arg(data)
        .args([
            "-p",
            &port.to_string(),
            "-k",
            "",
            "-h",
            "127.0.0.1",
            "-c",
            "fsync=on",
        ])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("postgres")
}

/// The newest version that is installed; its programs are not on the path.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let newest = versions
        .filter_map(|entry| {
            entry
                .ok()?
                .file_name()
                .into_string()
                .ok()?
                .parse::<u32>()
                .ok()
        })
        .max();
    Path::new("/usr/lib/postgresql")
        .join(newest.expect("a version of PostgreSQL").to_string())
        .join("bin")
}

/// The user to run as if this process is root, which the server refuses.
fn owner() -> Option<(u32, u32)> {
    if !geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("users");
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let fields: Vec<&str> = line.expect("a user for PostgreSQL").split(':').collect();
    Some((
        fields[2].parse().expect("an id"),
        fields[3].parse().expect("an id"),
    ))
}

fn run_as_owner(mut command: Command, folder: &Path) -> Command {
    if let Some((user, group)) = owner() {
        command.uid(user).gid(group);
    }
    command.current_dir(folder);
    command
}
