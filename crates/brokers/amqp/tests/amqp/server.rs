//! A server of the tests' own, to be killed: one for all of them, one test at a time. It takes back deliveries that are
//! not acknowledged for a few seconds, and takes no large messages.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use semel_conformance::certificates::{Authority, Issued};
use tokio::sync::{Mutex, MutexGuard};

/// Time that the server waits for an acknowledgement.
pub(crate) const CONSUMER_TIMEOUT: Duration = Duration::from_secs(8);
/// The longest message that the server takes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 300_000;

/// A running server. It ends with the process that runs the tests, however that ends.
pub(crate) struct Server {
    port: u16,
    name: &'static str,
    folder: PathBuf,
    distribution: u16,
    epmd: u16,
    /// Kept: it ends when this does.
    _names: Child,
    node: Child,
}

static OWN: Mutex<Option<Server>> = Mutex::const_new(None);

/// The one server, lent to one test.
pub(crate) struct Own(MutexGuard<'static, Option<Server>>);

impl Own {
    pub(crate) async fn take() -> Self {
        let mut own = OWN.lock().await;
        if own.is_none() {
            let started = tokio::task::spawn_blocking(Server::start).await;
            *own = Some(started.expect("a server"));
        }
        let mut own = Self(own);
        // A test that failed may have left it dead.
        if !answers(own.server().port) {
            own.restart().await;
        }
        own
    }

    pub(crate) fn url(&mut self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.server().port)
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        let server = self.server();
        let pid = fs::read_to_string(server.folder.join("pid")).expect("its id");
        let killed = Command::new("kill").args(["-9", pid.trim()]).status();
        assert!(killed.expect("kill").success());
        let port = server.port;
        wait("it dies", || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()
        });
    }

    /// Starts it again, on the same files and port.
    pub(crate) async fn restart(&mut self) {
        let mut server = self.0.take().expect("a server");
        let restarted = tokio::task::spawn_blocking(move || {
            server.restart();
            server
        });
        *self.0 = Some(restarted.await.expect("a server"));
    }

    fn server(&mut self) -> &mut Server {
        self.0.as_mut().expect("a server")
    }
}

impl Server {
    fn start() -> Self {
        let settings = format!(
            "loopback_users = none\nconsumer_timeout = {}\nmax_message_size = {MAX_MESSAGE_BYTES}\n",
            CONSUMER_TIMEOUT.as_millis()
        );
        let folder = tempfile::tempdir().expect("a folder").keep();
        Self::start_in(folder, "semel-own", &settings)
    }

    /// Starts one that also listens, encrypted, at the returned port, for clients with a certificate of `authority`.
    pub(crate) fn encrypted(
        authority: &Authority,
        issued: &Issued,
        name: &'static str,
    ) -> (Self, u16) {
        let folder = tempfile::tempdir().expect("a folder").keep();
        let port = free_port::take().expect("a free port");
        let files = folder.display();
        let settings = format!(
            "loopback_users = none\nlisteners.ssl.1 = 127.0.0.1:{port}\n\
             ssl_options.cacertfile = {files}/ca.pem\nssl_options.certfile = {files}/server.pem\n\
             ssl_options.keyfile = {files}/server.key\nssl_options.verify = verify_peer\n\
             ssl_options.fail_if_no_peer_cert = true\n"
        );
        put(&authority.path, &folder.join("ca.pem"));
        put(&issued.cert, &folder.join("server.pem"));
        put(&issued.key, &folder.join("server.key"));
        (Self::start_in(folder, name, &settings), port)
    }

    /// Sets another certificate, from the next start on.
    pub(crate) fn has(&self, issued: &Issued) {
        put(&issued.cert, &self.folder.join("server.pem"));
        put(&issued.key, &self.folder.join("server.key"));
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    fn start_in(folder: PathBuf, name: &'static str, settings: &str) -> Self {
        fs::write(folder.join("rabbitmq.conf"), settings).expect("written");
        // Interval at which it looks for deliveries that are too old.
        let tick = "[{rabbit, [{channel_tick_interval, 1000}]}].\n";
        fs::write(folder.join("advanced.config"), tick).expect("written");
        fs::write(folder.join("enabled_plugins"), "[].\n").expect("written");
        if let Some((user, group)) = owner() {
            chown(&folder, Some(user), Some(group)).expect("given away");
        }
        let [port, distribution, epmd] = [(); 3].map(|()| free_port::take().expect("a free port"));
        let mut names = guarded("read -r _; kill -9 $pid", "names");
        names
            .args(["epmd", "-address", "127.0.0.1", "-port", &epmd.to_string()])
            .current_dir(&folder);
        let names = names
            .spawn()
            .expect("epmd: run `cargo xtask services up rabbitmq`");
        let node = Self::node(&folder, name, port, distribution, epmd);
        let server = Self {
            port,
            name,
            folder,
            distribution,
            epmd,
            _names: names,
            node,
        };
        wait("it comes up", || answers(port));
        server
    }

    fn node(folder: &PathBuf, name: &str, port: u16, distribution: u16, epmd: u16) -> Child {
        // A test that says so keeps the files.
        let mut node = guarded(
            "read -r word; kill -9 $pid; wait $pid; [ \"$word\" = keep ] || { cd /; rm -rf \"$HOME\"; }",
            "pid",
        );
        node.arg("/usr/lib/rabbitmq/bin/rabbitmq-server")
            .current_dir(folder)
            .env("HOME", folder)
            .env("ERL_EPMD_PORT", epmd.to_string())
            .env("RABBITMQ_NODENAME", format!("{name}@localhost"))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", port.to_string())
            .env("RABBITMQ_DIST_PORT", distribution.to_string())
            .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", folder.join("log"))
            .env(
                "RABBITMQ_ENABLED_PLUGINS_FILE",
                folder.join("enabled_plugins"),
            )
            .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
            .env(
                "RABBITMQ_ADVANCED_CONFIG_FILE",
                folder.join("advanced.config"),
            )
            .env("RABBITMQ_CONF_ENV_FILE", folder.join("none"))
            .env("RABBITMQ_ALLOW_INPUT", "1")
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-noinput -kernel inet_dist_use_interface {127,0,0,1}",
            );
        node.spawn()
            .expect("rabbitmq-server: run `cargo xtask services up rabbitmq`")
    }

    pub(crate) fn restart(&mut self) {
        let mut word = self.node.stdin.take().expect("its input");
        word.write_all(b"keep\n").expect("a word");
        drop(word);
        self.node.wait().expect("reaped");
        let port = self.port;
        self.node = Self::node(&self.folder, self.name, port, self.distribution, self.epmd);
        wait("it comes up", || answers(port));
    }
}

/// Makes a copy that only the server may read.
fn put(from: &Path, to: &Path) {
    fs::copy(from, to).expect("a copy");
    if let Some((user, group)) = owner() {
        chown(to, Some(user), Some(group)).expect("given away");
    }
}

/// Returns a shell that runs the command in its arguments, writes its id to the file `name`, and does `then` when its
/// input says something or ends: with this process.
fn guarded(then: &str, name: &str) -> Command {
    let mut shell = Command::new("sh");
    let script = format!("\"$@\" </dev/null >>log.txt 2>&1 & pid=$!; echo $pid >{name}; {then}");
    shell
        .args(["-c", &script, "sh"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    if let Some((user, group)) = owner() {
        shell.uid(user).gid(group);
    }
    shell
}

/// Returns the user to run as: RabbitMQ's, where this process is root.
fn owner() -> Option<(u32, u32)> {
    let me = fs::metadata("/proc/self").expect("a process").uid();
    if me != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("users");
    let line = users.lines().find(|line| line.starts_with("rabbitmq:"));
    let line = line.expect("no user `rabbitmq`: run `cargo xtask services up rabbitmq`");
    let fields: Vec<&str> = line.split(':').collect();
    let number = |at: usize| fields[at].parse().expect("a number");
    Some((number(2), number(3)))
}

fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        socket.write_all(b"AMQP\x00\x00\x09\x01")?;
        let mut said = [0; 3];
        socket.read_exact(&mut said)?;
        Ok(said == [1, 0, 0])
    };
    ask().unwrap_or(false)
}

fn wait(what: &str, done: impl Fn() -> bool) {
    for _ in 0..3_600 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("{what}: not in time");
}
