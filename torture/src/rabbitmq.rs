//! A RabbitMQ server of a test's own, to be killed.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind,
};
use rustix::process::geteuid;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::broker::{Broker, Publish};
use crate::moments::now;

/// A server with one exchange, `payments`, and a queue of the same messages for each reader; removed when
/// dropped.
///
/// The queues are classic: a quorum queue of 3.10 whose only node was killed may find no leader any more.
#[derive(Debug)]
pub struct RabbitMq {
    folder: TempDir,
    ports: Ports,
    /// The process with which `rabbitmqctl` finds the node.
    names: Child,
    node: Child,
    declared: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    amqp: u16,
    distribution: u16,
    epmd: u16,
}

impl RabbitMq {
    /// Starts a server and declares the exchange.
    ///
    /// # Panics
    ///
    /// If RabbitMQ is not installed or does not come up.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [amqp, distribution, epmd] = [(); 3].map(|()| free_port::take().expect("a free port"));
        let ports = Ports {
            amqp,
            distribution,
            epmd,
        };
        let here = folder.path();
        fs::write(here.join("rabbitmq.conf"), SETTINGS).expect("a file");
        fs::write(here.join("enabled_plugins"), "[].\n").expect("a file");
        if let Some((user, group)) = owner() {
            chown(here, Some(user), Some(group)).expect("a folder to give away");
        }
        let mut names = run_as_owner("epmd", here);
        names.args(["-address", "127.0.0.1", "-port", &epmd.to_string()]);
        let names = names.spawn().expect("epmd");
        let node = node(here, ports);
        let mut this = Self {
            folder,
            ports,
            names,
            node,
            declared: now(),
        };
        this.wait_until_up();
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        this.declare(&async |channel: &Channel| {
            let kind = ExchangeKind::Fanout;
            channel
                .exchange_declare("payments".into(), kind, durable, FieldTable::default())
                .await
        });
        this
    }

    /// The address at which it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.amqp).into()
    }

    /// Every message of a queue that nobody else reads, where nothing is written any more.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub(crate) fn taken_from(&self, queue: &str) -> Vec<String> {
        let url = self.url();
        let taken = runtime().block_on(async {
            let (connection, channel) = open(&url).await?;
            let (none, unacknowledged) = (
                FieldTable::default(),
                BasicConsumeOptions {
                    no_ack: true,
                    ..BasicConsumeOptions::default()
                },
            );
            let passive = QueueDeclareOptions {
                passive: true,
                ..QueueDeclareOptions::default()
            };
            let there = channel
                .queue_declare(queue.into(), passive, FieldTable::default())
                .await?;
            let count = there.message_count() as usize;
            let tag = "audit".into();
            let mut consumer = channel
                .basic_consume(queue.into(), tag, unacknowledged, none)
                .await?;
            let mut messages = Vec::with_capacity(count);
            let patience = Duration::from_secs(60);
            while messages.len() < count
                && let Ok(Some(delivery)) = timeout(patience, consumer.next()).await
            {
                messages.push(String::from_utf8_lossy(&delivery?.data).into_owned());
            }
            connection.close(200, "done".into()).await?;
            lapin::Result::Ok((count, messages))
        });
        let (count, taken) = taken.expect("a queue");
        assert_eq!(taken.len(), count, "messages of {queue}");
        taken
    }

    fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.ports.amqp)
    }

    fn declare(&mut self, what: &impl AsyncFn(&Channel) -> lapin::Result<()>) {
        let url = self.url();
        let declared = runtime().block_on(async {
            let (connection, channel) = open(&url).await?;
            what(&channel).await?;
            connection.close(200, "done".into()).await
        });
        declared.expect("declared");
        self.declared = now();
    }

    fn wait_until_up(&mut self) {
        let begun = now();
        while !answers(self.ports.amqp) {
            let ended = self.node.try_wait().expect("a process");
            let waited = begun.elapsed();
            if ended.is_some() || waited > Duration::from_secs(300) {
                let log = fs::read_to_string(self.folder.path().join("log.txt"));
                panic!("RabbitMQ did not come up in {waited:?}: {ended:?}\n{log:?}");
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Each queue with its messages, and how many of them are unacknowledged.
    fn queues(&self) -> Output {
        let columns = ["name", "messages", "messages_unacknowledged"];
        self.control(&[&["--no-table-headers", "list_queues"][..], &columns].concat())
    }

    fn control(&self, args: &[&str]) -> Output {
        let mut ask = run_as_owner("/usr/lib/rabbitmq/bin/rabbitmqctl", self.folder.path());
        settle_in(&mut ask, self.folder.path(), self.ports);
        ask.args(["--quiet", "--timeout", "20", "--node", NODE])
            .args(args);
        ask.stdout(Stdio::piped()).stderr(Stdio::piped());
        ask.output().expect("rabbitmqctl")
    }
}

impl Broker for RabbitMq {
    fn name(&self) -> &'static str {
        "RabbitMQ"
    }

    fn is_revoking(&self) -> bool {
        true
    }

    fn reader(&mut self, name: &str) -> String {
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        self.declare(&async |channel: &Channel| {
            let none = FieldTable::default;
            channel.queue_declare(name.into(), durable, none()).await?;
            let (from, key) = ("payments".into(), "".into());
            let bind = QueueBindOptions::default();
            channel
                .queue_bind(name.into(), from, key, bind, none())
                .await
        });
        // The server misses a worker that stands still within three seconds.
        let url = format!("{}?heartbeat=1", self.url());
        format!(
            "kind = \"amqp\"\nurl = \"{url}\"\nqueue = \"{name}\"\nretention = \"1d\"\nprefetch = 500\n"
        )
    }

    fn publisher(&self) -> Box<dyn Publish> {
        Box::new(Publisher {
            url: self.url(),
            runtime: runtime(),
            line: None,
        })
    }

    fn kill_and_restart(&mut self) {
        // The server syncs its list of queues a little late.
        sleep(Duration::from_secs(5).saturating_sub(self.declared.elapsed()));
        self.node.kill().expect("a process");
        self.node.wait().expect("a process");
        self.node = node(self.folder.path(), self.ports);
        self.wait_until_up();
    }

    fn close_connections(&self) -> bool {
        let told = self.control(&["close_all_connections", "--global", "torture"]);
        told.status.success()
    }

    fn left(&self, reader: &str) -> Option<u64> {
        let text = String::from_utf8(self.queues().stdout).ok()?;
        let mut rows = text.lines().map(|row| row.split('\t'));
        let mut row = rows.find(|row| row.clone().next() == Some(reader))?;
        row.nth(1)?.trim().parse().ok()
    }

    fn stands(&self, _reader: &str) -> String {
        let told = self.queues();
        [told.stdout, told.stderr]
            .map(|it| String::from_utf8_lossy(&it).into_owned())
            .concat()
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        for process in [&mut self.node, &mut self.names] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

struct Publisher {
    url: String,
    runtime: Runtime,
    line: Option<(Connection, Channel)>,
}

impl Publisher {
    /// Publishes those lines whose place is in `open`, and removes the confirmed ones from it.
    fn attempt(&mut self, lines: &[&str], open: &mut Vec<usize>) -> lapin::Result<()> {
        let Self { url, runtime, line } = self;
        runtime.block_on(async {
            let (_, channel) = match line {
                Some(line) => line,
                none => none.insert(self::open(url).await?),
            };
            let mut confirms = Vec::with_capacity(open.len());
            for &place in open.iter() {
                let options = BasicPublishOptions {
                    mandatory: true,
                    ..BasicPublishOptions::default()
                };
                let persistent = BasicProperties::default().with_delivery_mode(2);
                let (to, key, line) = ("payments".into(), "".into(), lines[place].as_bytes());
                let sent = channel.basic_publish(to, key, options, line, persistent);
                confirms.push((place, sent.await?));
            }
            for (place, confirm) in confirms {
                // A message that came back as unroutable is not in any queue.
                if let Confirmation::Ack(None) = confirm.await? {
                    open.retain(|it| *it != place);
                }
            }
            Ok(())
        })
    }
}

impl Publish for Publisher {
    fn publish(&mut self, lines: &[&str]) {
        for lines in lines.chunks(AT_ONCE) {
            let mut open: Vec<usize> = (0..lines.len()).collect();
            let begun = now();
            while !open.is_empty() {
                if let Err(error) = self.attempt(lines, &mut open) {
                    self.line = None;
                    assert!(
                        begun.elapsed() < Duration::from_secs(90),
                        "nothing is confirmed: {error}"
                    );
                    sleep(Duration::from_millis(200));
                }
            }
        }
    }

    fn finish(self: Box<Self>) {}
}

async fn open(url: &str) -> lapin::Result<(Connection, Channel)> {
    let connecting = Connection::connect(url, ConnectionProperties::default());
    let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
    let connection = timeout(Duration::from_secs(10), connecting)
        .await
        .map_err(late)??;
    let channel = connection.create_channel().await?;
    let confirm = ConfirmSelectOptions::default();
    channel.confirm_select(confirm).await?;
    Ok((connection, channel))
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    builder.build().expect("a runtime")
}

fn node(folder: &Path, ports: Ports) -> Child {
    let mut node = run_as_owner("/usr/lib/rabbitmq/bin/rabbitmq-server", folder);
    settle_in(&mut node, folder, ports);
    node.env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", ports.amqp.to_string())
        .env("RABBITMQ_DIST_PORT", ports.distribution.to_string())
        .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
        .env("RABBITMQ_LOG_BASE", folder.join("log"))
        .env("RABBITMQ_LOGS", "-")
        .env(
            "RABBITMQ_ENABLED_PLUGINS_FILE",
            folder.join("enabled_plugins"),
        )
        .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
        // With this setting the script becomes the node, so that its id is the node's.
        .env("RABBITMQ_ALLOW_INPUT", "1")
        .env(
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "-noinput -kernel inet_dist_use_interface {127,0,0,1}",
        );
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join("log.txt"))
        .expect("a log");
    node.stdout(log.try_clone().expect("a log")).stderr(log);
    node.spawn().expect("rabbitmq-server is installed")
}

/// Sets the variables that a node and its clients share.
fn settle_in(command: &mut Command, folder: &Path, ports: Ports) {
    command
        .env("HOME", folder)
        .env("ERL_EPMD_PORT", ports.epmd.to_string())
        .env("RABBITMQ_NODENAME", NODE)
        .env("RABBITMQ_CONF_ENV_FILE", folder.join("none"));
}

fn run_as_owner(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(PathBuf::from(program));
    if let Some((user, group)) = owner() {
        command.uid(user).gid(group);
    }
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The user to run as if this process is root: RabbitMQ's.
fn owner() -> Option<(u32, u32)> {
    if !geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("users");
    let line = users.lines().find(|line| line.starts_with("rabbitmq:"));
    let fields: Vec<&str> = line.expect("a user for RabbitMQ").split(':').collect();
    Some((
        fields[2].parse().expect("an id"),
        fields[3].parse().expect("an id"),
    ))
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

/// Publications that wait for their confirmations together.
const AT_ONCE: usize = 500;

const NODE: &str = "semel-torture@localhost";

const SETTINGS: &str = "\
loopback_users = none
vm_memory_high_watermark.absolute = 1GiB
disk_free_limit.absolute = 100MB
";
