//! NATS: `tls://`, with a certificate of ours.

use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};

use semel_broker_nats::{NatsSink, SinkOptions};
use tempfile::TempDir;

use super::Papers;
use crate::brokers::{payments, publish, runtime, server};
use crate::site::wait_for;

struct Server {
    port: u16,
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
    let issued = papers.authority.issue_for("nats", "IP:127.0.0.1", &[]);
    let port = free_port::take().expect("a free port");
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(server("SEMEL_TEST_NATS_PROGRAM", "nats"));
    command
        .args(["--jetstream", "--addr", "127.0.0.1", "--tlsverify"])
        .args(["--port", &port.to_string()])
        .arg("--store_dir")
        .arg(folder.path());
    for (name, path) in [
        ("--tlscert", &issued.cert),
        ("--tlskey", &issued.key),
        ("--tlscacert", &papers.authority.path),
    ] {
        command.arg(name).arg(path);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(Stdio::null()).spawn().expect("a server");
    wait_for("the server", || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
    });
    Server {
        port,
        child,
        _folder: folder,
    }
}

#[test]
fn messages_of_an_encrypted_nats_are_applied_once() {
    let papers = Papers::new();
    let server = start(&papers);
    let url = format!("tls://127.0.0.1:{}", server.port);
    runtime().block_on(async {
        let client = async_nats::ConnectOptions::new()
            .tls_client_config(papers.known().config().expect("good files"))
            .connect(&url)
            .await
            .expect("a connection");
        let config = async_nats::jetstream::stream::Config {
            name: "pay".to_owned(),
            ..Default::default()
        };
        let context = async_nats::jetstream::new(client);
        let _ = context.create_stream(config).await.expect("a stream");
        let mut options = SinkOptions::new(&url, "pay");
        options.tls = papers.known();
        let sink = NatsSink::new(options).expect("a sink");
        publish(sink, &payments((0..20).chain(3..8))).await;
    });
    let source =
        format!("kind = \"nats\"\nurl = \"{url}\"\nstream = \"pay\"\nconsumer = \"payments\"\n");
    super::each_is_applied_once(&source, &papers.table(), "tls.ca");
}
