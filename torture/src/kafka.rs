//! A Kafka broker of a test's own, to be killed.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

use crate::broker::{Broker, Publish};
use crate::scaled;

/// A broker on ports of its own; removed when dropped. All questions go through Kafka's own tools.
#[derive(Debug)]
pub struct Kafka {
    folder: TempDir,
    port: u16,
    process: Child,
    is_in_pieces: bool,
}

impl Kafka {
    /// Formats a log folder and starts a broker on it.
    ///
    /// # Panics
    ///
    /// If `SEMEL_TEST_KAFKA_JARS` names no jars, or the broker does not come up.
    pub fn start() -> Self {
        Self::behind(|listener| listener)
    }

    /// The same with another listener, and the address at which its clients find it: that of a proxy before it.
    ///
    /// # Panics
    ///
    /// As for [`Kafka::start`].
    pub(crate) fn behind(proxy: impl FnOnce(SocketAddr) -> SocketAddr) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [port, controller, other] = [(); 3].map(|()| free_port::take().expect("a free port"));
        let found_at = proxy((Ipv4Addr::LOCALHOST, other).into());
        let data = folder.path().join("data");
        let properties = PROPERTIES
            .replace("FOUND_AT", &found_at.to_string())
            .replace("OTHER", &other.to_string())
            .replace("PORT", &port.to_string())
            .replace("CONTROLLER_AT", &controller.to_string())
            .replace("DATA", &data.display().to_string());
        fs::write(folder.path().join("properties"), properties).expect("a file");
        let path = folder.path().join("properties");
        let path = path.to_str().expect("a path in plain letters");
        let id = "c2VtZWwgdG9ydHVyZSAgIA";
        let format = ["kafka.tools.StorageTool", "format", "--standalone"];
        let formatted = java(&format)
            .args(["--cluster-id", id, "--config", path])
            .output();
        succeeded(&formatted.expect("java"));
        let process = broker(&folder);
        let this = Self {
            folder,
            port,
            process,
            is_in_pieces: false,
        };
        this.wait_until_up();
        this
    }

    /// The same, with small batches to write and to read: otherwise a worker with several partitions has messages of
    /// only one of them in hand, as many as come in one piece, and any other can be taken away unnoticed.
    #[must_use]
    fn in_small_pieces(mut self) -> Self {
        self.is_in_pieces = true;
        self
    }

    /// A broker for a storm: one in small pieces, with the topic `payments`, which has enough partitions for a new
    /// worker to take one from each of three.
    ///
    /// # Panics
    ///
    /// As for [`Kafka::start`].
    pub fn with_payments() -> Self {
        let kafka = Self::start().in_small_pieces();
        kafka.create("payments", 12);
        kafka
    }

    /// `host:port`.
    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Makes a topic.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn create(&self, topic: &str, partitions: u32) {
        let brokers = self.brokers();
        let partitions = partitions.to_string();
        let tool = "org.apache.kafka.tools.TopicCommand";
        let args = ["--bootstrap-server", &brokers, "--create", "--topic", topic];
        let made = java(&[tool])
            .args(args)
            .args(["--partitions", &partitions])
            .output();
        succeeded(&made.expect("java"));
    }

    /// The committed records of a topic, from its first record on.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub fn read_committed(&self, topic: &str) -> Vec<String> {
        // No output may only mean that the machine is busy.
        let mut waits = ["10000", "60000"]
            .into_iter()
            .map(|wait| self.read_for(topic, wait));
        waits.find(|read| !read.is_empty()).unwrap_or_default()
    }

    /// Reads until nothing more comes for this many milliseconds.
    fn read_for(&self, topic: &str, wait: &str) -> Vec<String> {
        let brokers = self.brokers();
        let tool = "org.apache.kafka.tools.consumer.ConsoleConsumer";
        let read = java(&[tool])
            .args(["--bootstrap-server", &brokers, "--topic", topic])
            .args(["--from-beginning", "--isolation-level", "read_committed"])
            .args(["--timeout-ms", wait])
            .output()
            .expect("java");
        let text = String::from_utf8(read.stdout).expect("a text");
        text.lines().map(str::to_owned).collect()
    }

    /// Every record of a topic, from its first one on, where nothing is written any more.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub(crate) fn kept(&self, topic: &str) -> Vec<String> {
        let brokers = self.brokers();
        let asked = java(&["org.apache.kafka.tools.GetOffsetShell"])
            .args(["--bootstrap-server", &brokers, "--topic", topic])
            .output()
            .expect("java");
        succeeded(&asked);
        let ends = String::from_utf8(asked.stdout).expect("a text");
        let ends = ends.lines().filter_map(|line| line.rsplit(':').next());
        let count: u64 = ends.map(|it| it.parse::<u64>().expect("an offset")).sum();
        let read = java(&["org.apache.kafka.tools.consumer.ConsoleConsumer"])
            .args(["--bootstrap-server", &brokers, "--topic", topic])
            .args(["--from-beginning", "--max-messages", &count.to_string()])
            .args(["--timeout-ms", "60000"])
            .output()
            .expect("java");
        let text = String::from_utf8(read.stdout).expect("a text");
        let records: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(records.len() as u64, count, "records of {topic}");
        records
    }

    fn wait_until_up(&self) {
        let brokers = self.brokers();
        for _ in 0..1_500 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                let tool = "org.apache.kafka.tools.TopicCommand";
                let asked = java(&[tool])
                    .args(["--bootstrap-server", &brokers, "--list"])
                    .output();
                if asked.is_ok_and(|it| it.status.success()) {
                    return;
                }
            }
            sleep(Duration::from_millis(200));
        }
        panic!("Kafka did not come up within five minutes");
    }
}

impl Broker for Kafka {
    fn name(&self) -> &'static str {
        "Kafka"
    }

    fn is_revoking(&self) -> bool {
        true
    }

    fn reader(&mut self, name: &str) -> String {
        let properties = if self.is_in_pieces { PIECES } else { "" };
        SOURCE
            .replace("BROKERS", &self.brokers())
            .replace("NAME", name)
            .replace(" }", &format!("{properties} }}"))
    }

    /// A producer of Kafka's own that runs all the time.
    fn publisher(&self) -> Box<dyn Publish> {
        let brokers = self.brokers();
        let tool = "org.apache.kafka.tools.ConsoleProducer";
        let mut command = java(&[tool]);
        command
            .args(["--bootstrap-server", &brokers, "--topic", "payments"])
            .args(["--property", "parse.key=true"])
            .args(["--property", "key.separator=\t"])
            .args(["--producer-property", "acks=all"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        if self.is_in_pieces {
            command.args(["--max-partition-memory-bytes", "2048"]);
        }
        // Not a pipe: no process reads while messages are published, and each death of the broker makes it print much.
        let log = self.folder.path().join("producer.log");
        command.stderr(File::create(&log).expect("a log"));
        let process = command.spawn().expect("java");
        Box::new(Producer { process, log })
    }

    fn kill_and_restart(&mut self) {
        self.process.kill().expect("a process");
        self.process.wait().expect("a process");
        // Waits until its controller has missed it. A broker that comes back sooner loads its groups twice, and may
        // forget to expire their members: a group with a killed member never finishes its rebalance then (4.1.0).
        sleep(BROKER_SESSION + Duration::from_secs(1));
        self.process = broker(&self.folder);
        self.wait_until_up();
    }

    /// A group that others join and leave rebalances already before, and the worker that takes over has up to 4,000
    /// records of its own to handle first.
    fn stopped_for(&self) -> Duration {
        scaled(Duration::from_millis(4_500), Duration::from_secs(40))
    }

    /// The rest to acknowledge; `None` also while the group rebalances.
    fn left(&self, reader: &str) -> Option<u64> {
        let text = self.stands(reader);
        let rows = text.lines().filter(|line| line.starts_with(reader));
        let lags = rows.map(|row| row.split_whitespace().nth(5)?.parse().ok());
        let lags: Vec<u64> = lags.collect::<Option<_>>()?;
        (!lags.is_empty()).then(|| lags.iter().sum())
    }

    fn stands(&self, reader: &str) -> String {
        let brokers = self.brokers();
        let tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
        let output = java(&[tool])
            .args(["--bootstrap-server", &brokers])
            .args(["--describe", "--group", reader])
            .output()
            .expect("java");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

#[derive(Debug)]
struct Producer {
    process: Child,
    log: PathBuf,
}

impl Publish for Producer {
    /// The key of a record is its account, where it has one, or its payment's.
    fn publish(&mut self, lines: &[&str]) {
        let keyed = lines.iter().fold(String::new(), |mut to, line| {
            let payment: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let id = payment["account"].as_str().or(payment["id"].as_str());
            let id = id.expect("an id");
            writeln!(to, "{id}\t{line}").expect("a string takes what is written");
            to
        });
        let input = self.process.stdin.as_mut().expect("a pipe");
        input.write_all(keyed.as_bytes()).expect("it is read");
        input.flush().expect("it is read");
    }

    fn finish(self: Box<Self>) {
        // Closes its input.
        let status = self.process.wait_with_output().expect("java").status;
        let said = fs::read_to_string(&self.log).expect("a log");
        let errors: Vec<&str> = said.lines().filter(|it| it.contains("ERROR")).collect();
        let some: Vec<_> = errors.iter().take(5).collect();
        assert!(
            errors.is_empty() && status.success(),
            "{status}: {} as {some:?}",
            errors.len()
        );
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn broker(folder: &TempDir) -> Child {
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.path().join("log"))
        .expect("a log");
    let mut command = java(&["kafka.Kafka"]);
    command
        .arg(folder.path().join("properties"))
        .stdout(log.try_clone().expect("a log"))
        .stderr(log);
    command.spawn().expect("java")
}

/// A program of Kafka's jars, with settings for a quick start, since most of them end at once.
fn java(what: &[&str]) -> Command {
    let jars = std::env::var("SEMEL_TEST_KAFKA_JARS")
        .expect("SEMEL_TEST_KAFKA_JARS: `cargo xtask services up kafka` fetches them");
    let mut command = Command::new("java");
    command
        .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"])
        .args([&format!("-XX:SharedArchiveFile={jars}.jsa"), "-cp"])
        .arg(PathBuf::from(jars).join("*"))
        .args(what)
        .stdin(Stdio::null());
    command
}

fn succeeded(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}

/// `broker.session.timeout.ms`.
const BROKER_SESSION: Duration = Duration::from_secs(3);

const PROPERTIES: &str = "\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:CONTROLLER_AT
listeners=PLAINTEXT://127.0.0.1:PORT,PROXIED://127.0.0.1:OTHER,CONTROLLER://127.0.0.1:CONTROLLER_AT
advertised.listeners=PLAINTEXT://127.0.0.1:PORT,PROXIED://FOUND_AT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs=DATA
auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
";

/// The reader is a group; a worker that joins it or is killed is noticed soon.
const SOURCE: &str = r#"kind = "kafka"
brokers = "BROKERS"
topic = "payments"
group = "NAME"
drain = "2s"
properties = { "session.timeout.ms" = "3000", "heartbeat.interval.ms" = "300" }
"#;
/// The most bytes of a partition at once, if it is more than one batch of its producer.
const PIECES: &str = ", \"max.partition.fetch.bytes\" = \"2048\"";
