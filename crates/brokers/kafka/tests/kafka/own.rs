//! A broker of the tests' own that checks identities and rights: encrypted and not, by password and by certificate. One
//! for all of them; it ends with the process that runs the tests, however that ends.

use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use semel_conformance::certificates::{Authority, Issued};
use tokio::sync::OnceCell;

/// The broker, and the addresses of its listeners.
pub(crate) struct Own {
    #[cfg_attr(
        not(feature = "tls"),
        expect(dead_code, reason = "of encrypted connections")
    )]
    pub(crate) authority: Authority,
    /// Certificates that the encrypted listener accepts.
    #[cfg_attr(
        not(feature = "tls"),
        expect(dead_code, reason = "of encrypted connections")
    )]
    pub(crate) ours: Issued,
    ports: [u16; 6],
    /// Kept: the broker ends when its input does.
    _process: Child,
}

/// A user with granted rights only, and the password.
pub(crate) const USER: &str = "ada";
pub(crate) const PASSWORD: &str = "geheim-4711";

impl Own {
    pub(crate) async fn get() -> &'static Self {
        static OWN: OnceCell<Own> = OnceCell::const_new();
        let start = || async {
            let started = tokio::task::spawn_blocking(Self::start);
            started.await.expect("a broker")
        };
        OWN.get_or_init(start).await
    }

    /// Returns the listener where every client may do everything.
    pub(crate) fn open(&self) -> String {
        self.at(0)
    }

    /// Returns the listener that asks for a password.
    pub(crate) fn guarded(&self) -> String {
        self.at(1)
    }

    /// Returns the encrypted listener that asks for a certificate.
    #[cfg(feature = "tls")]
    pub(crate) fn certified(&self) -> String {
        self.at(2)
    }

    /// Returns the encrypted listener that asks for a password.
    #[cfg(feature = "tls")]
    pub(crate) fn encrypted(&self) -> String {
        self.at(3)
    }

    /// Returns the encrypted listener with an expired certificate.
    #[cfg(feature = "tls")]
    pub(crate) fn expired(&self) -> String {
        self.at(4)
    }

    fn at(&self, listener: usize) -> String {
        format!("127.0.0.1:{}", self.ports[listener])
    }

    /// Grants the user the rights that `what` names in the words of Kafka's own command, or takes them away.
    pub(crate) async fn rights(&self, order: &'static str, what: &[&str]) {
        let mut command = java("org.apache.kafka.tools.AclCommand");
        command
            .args(["--bootstrap-server", &self.open(), order])
            .args(["--allow-principal", &format!("User:{USER}")])
            .args(what);
        if order == "--remove" {
            command.arg("--force");
        }
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.expect("it ended").expect("java");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
    }

    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder").keep();
        let authority = Authority::new();
        let names = "DNS:kafka.internal,IP:127.0.0.1";
        let issued = authority.issue_for("kafka", names, &[]);
        let old = authority.issue_for("old", names, &["-days", "-1"]);
        let ours = authority.issue("worker", &[]);
        let ports = [(); 6].map(|()| free_port::take().expect("a free port"));
        let settings = folder.join("server.properties");
        let text = properties(&folder, &authority, &issued, &old, &ports);
        fs::write(&settings, text).expect("a file");
        let formatted = java("kafka.tools.StorageTool")
            .args([
                "format",
                "--standalone",
                "--cluster-id",
                "c2VtZWwgdGVzdHMga2Fmaw",
                "--config",
            ])
            .arg(&settings)
            .args([
                "--add-scram",
                &format!("SCRAM-SHA-256=[name={USER},password={PASSWORD}]"),
            ])
            .output()
            .expect("java");
        let said = String::from_utf8_lossy(&formatted.stderr);
        assert!(formatted.status.success(), "{said}");
        let mut shell = Command::new("sh");
        let script = "\"$@\" </dev/null >\"$HOME/log\" 2>&1 & pid=$!; read -r _; kill -9 $pid; \
                      wait $pid; rm -rf \"$HOME\"";
        let broker = java("kafka.Kafka");
        shell
            .args(["-c", script, "sh"])
            .arg(broker.get_program())
            .args(broker.get_args())
            .arg(&settings)
            .env("HOME", &folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = shell.spawn().expect("a shell");
        let own = Self {
            authority,
            ours,
            ports,
            _process: process,
        };
        own.wait(&folder);
        own
    }

    /// Waits until it serves.
    fn wait(&self, folder: &std::path::Path) {
        for _ in 0..1_200 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports[0])).is_ok() {
                let mut config = ClientConfig::new();
                config.set("bootstrap.servers", self.open());
                let asker: BaseConsumer = config.create().expect("a client");
                if asker.fetch_metadata(None, Duration::from_secs(5)).is_ok() {
                    return;
                }
            }
            thread::sleep(Duration::from_millis(100));
        }
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        panic!("the broker does not come up: {log}");
    }
}

fn java(class: &str) -> Command {
    let jars = std::env::var("SEMEL_TEST_KAFKA_JARS").expect(
        "SEMEL_TEST_KAFKA_JARS: `cargo xtask services up kafka`, then `source target/services/env`",
    );
    let mut command = Command::new("java");
    command
        .args([
            "-Xmx384m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        ])
        .args([&format!("-XX:SharedArchiveFile={jars}.jsa"), "-cp"])
        .arg(PathBuf::from(jars).join("*"))
        .arg(class);
    command
}

fn properties(
    folder: &std::path::Path,
    authority: &Authority,
    issued: &Issued,
    old: &Issued,
    ports: &[u16; 6],
) -> String {
    let [open, guarded, certified, encrypted, expired, controller] = ports;
    let at = |name: &str, port: &u16| format!("{name}://127.0.0.1:{port}");
    let all = [
        at("PLAINTEXT", open),
        at("SASL_PLAINTEXT", guarded),
        at("SSL", certified),
        at("SASL_SSL", encrypted),
        at("OLD", expired),
    ]
    .join(",");
    let (key, old) = (authority.joined(issued), authority.joined(old));
    let mut text = format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n\
         controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n\
         listeners={all},CONTROLLER://127.0.0.1:{controller}\nadvertised.listeners={all}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,\
         SASL_SSL:SASL_SSL,OLD:SSL,CONTROLLER:PLAINTEXT\ninter.broker.listener.name=PLAINTEXT\n\
         log.dirs={}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=4\n\
         transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=4\ngroup.initial.rebalance.delay.ms=0\n\
         auto.create.topics.enable=false\n\
         authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         super.users=User:ANONYMOUS;User:CN=worker\nsasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n\
         ssl.keystore.type=PEM\nssl.keystore.location={}\nssl.truststore.type=PEM\n\
         ssl.truststore.location={}\nlistener.name.ssl.ssl.client.auth=required\n\
         listener.name.old.ssl.keystore.type=PEM\nlistener.name.old.ssl.keystore.location={}\n",
        folder.join("data").display(),
        key.display(),
        authority.path.display(),
        old.display(),
    );
    let security = "org.apache.kafka.common.security";
    for name in ["sasl_plaintext", "sasl_ssl"] {
        let line = format!(
            "listener.name.{name}.plain.sasl.jaas.config={security}.plain.PlainLoginModule required \
             user_{USER}=\"{PASSWORD}\";\n\
             listener.name.{name}.scram-sha-256.sasl.jaas.config={security}.scram.ScramLoginModule required;\n"
        );
        text.push_str(&line);
    }
    text
}
