//! Kafka: `security.protocol = SSL`, with a certificate of ours, over the system's OpenSSL.

use std::fs;
use std::process::{Child, Stdio};

use semel_broker_kafka::{KafkaSink, SinkOptions};
use tempfile::TempDir;

use super::{Papers, shown};
use crate::brokers::kafka::java;
use crate::brokers::{payments, publish, runtime};
use crate::site::{lines, wait_for};

struct Server {
    open: String,
    encrypted: String,
    child: Child,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(papers: &Papers) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let issued = papers.authority.issue_for("kafka", "IP:127.0.0.1", &[]);
    let [open, encrypted, controller] =
        [(); 3].map(|()| format!("127.0.0.1:{}", free_port::take().expect("a free port")));
    let text = format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n\
         controller.quorum.bootstrap.servers={controller}\n\
         listeners=PLAINTEXT://{open},SSL://{encrypted},CONTROLLER://{controller}\n\
         advertised.listeners=PLAINTEXT://{open},SSL://{encrypted}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT\n\
         inter.broker.listener.name=PLAINTEXT\nlog.dirs={}\noffsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=2\ngroup.initial.rebalance.delay.ms=0\nssl.keystore.type=PEM\n\
         ssl.keystore.location={}\nssl.truststore.type=PEM\nssl.truststore.location={}\n\
         ssl.client.auth=required\n",
        shown(&folder.path().join("data")),
        shown(&papers.authority.joined(&issued)),
        shown(&papers.authority.path),
    );
    let settings = folder.path().join("server.properties");
    fs::write(&settings, text).expect("a file");
    let formatted = java("kafka.tools.StorageTool")
        .args([
            "format",
            "--standalone",
            "--cluster-id",
            "c2VtZWwgdGVzdHMga2Fmaw",
        ])
        .arg("--config")
        .arg(&settings)
        .output()
        .expect("java");
    assert!(formatted.status.success(), "{formatted:?}");
    let child = java("kafka.Kafka")
        .arg(&settings)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("java");
    Server {
        open,
        encrypted,
        child,
        _folder: folder,
    }
}

#[test]
fn messages_of_an_encrypted_kafka_are_applied_once() {
    let papers = Papers::new();
    let server = start(&papers);
    wait_for("a topic", || {
        let made = java("org.apache.kafka.tools.TopicCommand")
            .args([
                "--bootstrap-server",
                &server.open,
                "--create",
                "--if-not-exists",
            ])
            .args(["--topic", "pay", "--partitions", "2"])
            .output();
        made.expect("java").status.success()
    });
    let properties = [
        ("security.protocol", "SSL".to_owned()),
        ("ssl.ca.location", shown(&papers.authority.path).to_string()),
        (
            "ssl.certificate.location",
            shown(&papers.ours.cert).to_string(),
        ),
        ("ssl.key.location", shown(&papers.ours.key).to_string()),
    ];
    let mut options = SinkOptions::new(&server.encrypted, "pay");
    options.properties = properties
        .iter()
        .map(|(name, value)| ((*name).into(), value.as_str().into()))
        .collect();
    let sink = KafkaSink::new(options).expect("a sink");
    runtime().block_on(publish(sink, &payments((0..20).chain(3..8))));
    let source = format!(
        "kind = \"kafka\"\nbrokers = \"{}\"\ntopic = \"pay\"\ngroup = \"payments\"\n\
         [pipelines.payments.source.properties]\n\"session.timeout.ms\" = \"6000\"\n",
        server.encrypted
    );
    let known = lines(&properties, |(name, value)| {
        format!("\"{name}\" = \"{value}\"")
    });
    super::each_is_applied_once(&source, &known, "security.protocol");
}
