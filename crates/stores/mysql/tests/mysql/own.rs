//! A MariaDB server that belongs to one test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};

/// A server with its data in a folder of its own. It goes with the test.
pub(crate) struct Server {
    folder: PathBuf,
    port: u16,
    arguments: Vec<String>,
    running: Option<Child>,
}

impl Server {
    /// Creates one, with these arguments beside those that every test wants.
    pub(crate) async fn with(arguments: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("semel-mysql-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let log = std::fs::File::create(folder.join("made")).expect("a log");
        let made = Command::new(program("mariadb-install-db"))
            .args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ])
            .arg(format!("--datadir={}", folder.join("data").display()))
            .args(as_root())
            .env("TMPDIR", &folder)
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .status();
        let status = made.expect("mariadb-install-db runs");
        let log = std::fs::read_to_string(folder.join("made")).unwrap_or_default();
        assert!(status.success(), "mariadb-install-db: {status}\n{log}");
        let mut server = Self {
            folder,
            port: free_port::take().expect("a free port"),
            arguments: arguments.iter().map(|it| (*it).to_owned()).collect(),
            running: None,
        };
        server.start().await;
        server
    }

    /// Starts it, and waits until it answers.
    pub(crate) async fn start(&mut self) {
        let child = Command::new(program("mariadbd"))
            .arg("--no-defaults")
            .arg(format!("--datadir={}", self.folder.join("data").display()))
            .arg(format!("--socket={}", self.folder.join("socket").display()))
            .arg(format!("--port={}", self.port))
            .args([
                "--bind-address=127.0.0.1",
                "--innodb-buffer-pool-size=32M",
                "--skip-name-resolve",
            ])
            .args(as_root())
            .args(&self.arguments)
            // A starting server removes the files that it takes for temporary tables of a crashed one: another's.
            .env("TMPDIR", &self.folder)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.folder.join("log")).expect("a log"))
            .spawn();
        self.running = Some(child.expect("mariadbd runs"));
        let opts = OptsBuilder::from_opts(Opts::from_url(&self.url("mysql")).expect("a url"));
        for _ in 0..1_200 {
            if let Ok(mut connection) = Conn::new(opts.clone().prefer_socket(false)).await {
                let data: Option<String> = connection
                    .query_first("SELECT @@datadir")
                    .await
                    .expect("where it has its data");
                let data = data.expect("a folder");
                // Not the server of another test that took the port in between.
                assert!(Path::new(&data).starts_with(&self.folder), "it is {data}");
                connection.disconnect().await.expect("an end");
                return;
            }
            let child = self.running.as_mut().expect("a server");
            if let Some(status) = child.try_wait().expect("a status") {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                panic!("the server ended with {status}:\n{log}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the server did not come up in a minute");
    }

    /// Sends SIGKILL: nothing of it runs after this.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.running.take() {
            child.kill().expect("a kill");
            child.wait().expect("an end");
        }
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Server {
    #[expect(clippy::print_stderr, reason = "beside the panic that it explains")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A server that ended by itself says why, and only its log does.
            let ended = self.running.as_mut().map(Child::try_wait);
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            let last: Vec<_> = log.lines().rev().take(60).collect();
            eprintln!("the server: {ended:?}");
            for line in last.into_iter().rev() {
                eprintln!("{line}");
            }
        }
        self.kill();
        // The remains of a failed test are in nobody's way.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A program of MariaDB, which Debian partly keeps off the path of users.
fn program(name: &str) -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/usr/local/sbin"]);
    let found = folders
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no {name}: `cargo xtask services up mariadb` installs MariaDB"))
}

/// Returns the argument that lets the server run as root, which it refuses otherwise.
fn as_root() -> Option<&'static str> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|me| {
        use std::os::unix::fs::MetadataExt;
        me.uid() == 0
    });
    is_root.then_some("--user=root")
}
