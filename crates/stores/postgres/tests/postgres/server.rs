//! A server of its own, for tests that kill or misconfigure one.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// A server with a folder and a port of its own; killed when dropped.
pub(crate) struct Server {
    folder: TempDir,
    data: PathBuf,
    port: u16,
    settings: Vec<String>,
    process: Option<Child>,
}

impl Server {
    /// Starts a fresh server with these settings.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let folder = folder();
        let data = folder.path().join("data");
        Self::start_in(folder, data, settings)
    }

    /// Starts a fresh server whose files are in `data`.
    pub(crate) fn start_in(folder: TempDir, data: PathBuf, settings: &[&str]) -> Self {
        let mut initdb = command("initdb", folder.path());
        initdb.arg("--pgdata").arg(&data).args([
            "--username=semel",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
        ]);
        run(&mut initdb);
        Self::over(folder, data, settings)
    }

    /// Starts a second server that follows the first one.
    pub(crate) fn standby_of(primary: &Self) -> Self {
        let folder = folder();
        let data = folder.path().join("data");
        let mut backup = command("pg_basebackup", folder.path());
        let from = format!("host=127.0.0.1 port={} user=semel", primary.port);
        backup
            .args(["--dbname", &from, "--write-recovery-conf", "--no-sync"])
            .args(["--checkpoint=fast", "--wal-method=stream", "--pgdata"])
            .arg(&data);
        run(&mut backup);
        Self::over(folder, data, &[])
    }

    fn over(folder: TempDir, data: PathBuf, settings: &[&str]) -> Self {
        let mut server = Self {
            folder,
            data,
            port: free_port::take().expect("a free port"),
            settings: settings.iter().map(|it| (*it).to_owned()).collect(),
            process: None,
        };
        server.run();
        server
    }

    /// Runs it again on the same files, and waits until it answers.
    pub(crate) fn run(&mut self) {
        for _ in 0..3_000 {
            // It refuses to start beside a process of the one before, which may take its time to die.
            let has_ended = |it: &mut Child| it.try_wait().expect("a process").is_some();
            if self.process.as_mut().is_none_or(has_ended) {
                self.process = Some(self.spawn());
            }
            if self.answers() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the server does not come up: {}", self.log());
    }

    fn spawn(&self) -> Child {
        let log = fs::File::create(self.folder.path().join("log")).expect("a log");
        let mut postgres = command("postgres", self.folder.path());
        postgres
            .arg("-D")
            .arg(&self.data)
            .args(["-p", &self.port.to_string(), "-k", "", "-h", "127.0.0.1"])
            .args(self.settings.iter().flat_map(|it| ["-c", it]))
            .stdout(Stdio::null())
            .stderr(log);
        postgres.spawn().expect("postgres starts")
    }

    /// Kills it with all its processes, as a power cut does.
    pub(crate) fn kill(&mut self) {
        let Some(mut postgres) = self.process.take() else {
            return;
        };
        let pid = Pid::from_child(&postgres);
        // It stands still first, so that it cannot tidy up after the death of a child.
        let _ = kill_process(pid, Signal::STOP);
        for child in children(pid) {
            let _ = kill_process(child, Signal::KILL);
        }
        let _ = postgres.kill();
        let _ = postgres.wait();
    }

    /// Changes a setting of the running server.
    pub(crate) async fn set(&self, name: &str, value: &str) {
        let client = self.client().await;
        for order in [
            "SET transaction_read_only TO off".to_owned(),
            "SET default_transaction_read_only TO off".to_owned(),
            format!("ALTER SYSTEM SET {name} TO '{value}'"),
        ] {
            client.batch_execute(&order).await.expect("a setting");
        }
        self.reload().await;
    }

    /// Tells it to read its files again.
    pub(crate) async fn reload(&self) {
        let client = self.client().await;
        let row = client
            .query_one("SELECT pg_reload_conf(), pg_sleep(0.2)", &[])
            .await;
        assert!(row.expect("an answer").get::<_, bool>(0));
    }

    /// Replaces who may connect how; the first line lets these tests in.
    pub(crate) async fn admit(&self, lines: &str) {
        let text = format!("host all semel 127.0.0.1/32 trust\n{lines}\n");
        fs::write(self.data.join("pg_hba.conf"), text).expect("a file");
        self.reload().await;
    }

    /// Puts a file into its folder, for its eyes only.
    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        let path = self.data.join(name);
        fs::write(&path, content).expect("a file");
        let mut permissions = fs::metadata(&path).expect("the file").permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
        fs::set_permissions(&path, permissions).expect("the file");
        give(&path);
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Returns the url of a store on it, without parameters.
    pub(crate) fn url(&self) -> String {
        self.url_of("semel", "postgres")
    }

    /// Returns the url of a store for `user`, who may have a password behind a colon.
    pub(crate) fn url_of(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@{}/{database}", self.address())
    }

    pub(crate) async fn client(&self) -> Client {
        client(&self.url()).await
    }

    /// Returns its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn answers(&self) -> bool {
        let port = self.port.to_string();
        let mut ready = command("pg_isready", self.folder.path());
        ready.args(["--quiet", "--host=127.0.0.1", "--port", &port]);
        ready.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Opens a connection without encryption.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("a connection");
    tokio::spawn(connection);
    client
}

/// Creates a folder that the server's user may use.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    give(folder.path());
    folder
}

/// Gives a path to the server's user.
pub(crate) fn give(path: &Path) {
    if let Some((user, group)) = owner() {
        chown(path, Some(user), Some(group)).expect("this process is root");
    }
}

/// Returns a program of the newest PostgreSQL here, as the user that it wants.
fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(find(program));
    command.current_dir(folder).stdin(Stdio::null());
    if let Some((user, group)) = owner() {
        command.uid(user).gid(group);
    }
    command
}

fn run(command: &mut Command) {
    let output = command.output().expect("a program of PostgreSQL");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Finds a program as `cargo xtask services` does: where Debian puts every version's, else on the path.
fn find(program: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    versions
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version: u32 = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin").join(program)))
        })
        .filter(|(_, path)| path.is_file())
        .max()
        .map_or_else(|| program.into(), |(_, path)| path)
}

/// Returns the user and group to run as, when this process is root: PostgreSQL refuses that one.
fn owner() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("the users");
    let fields = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields[0] == "postgres");
    let fields = fields.expect("there is a user `postgres` to run a server as");
    let number = |at: usize| fields[at].parse().expect("a number");
    Some((number(2), number(3)))
}

/// Returns the processes that this one has started and that still run.
fn children(parent: Pid) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").expect("a list of processes");
    processes
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let pid: i32 = path.file_name()?.to_str()?.parse().ok()?;
            let stat = fs::read_to_string(path.join("stat")).ok()?;
            // The name may hold anything, so the fields behind it are found from the end.
            let of: i32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
            (of == parent.as_raw_nonzero().get()).then(|| Pid::from_raw(pid))?
        })
        .collect()
}
