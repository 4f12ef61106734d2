//! Redis, syncing its log at every write and evicting nothing.

use std::path::Path;
use std::process::Command;

use crate::failure::Result;

use super::server::{self, Server};

pub(super) static SERVER: Server = Server {
    name: "redis",
    program: PROGRAM,
    package: PACKAGE,
    find: super::on_path,
    variable: "SEMEL_TEST_REDIS_URL",
    ports: 1,
    prepare,
    url: |ports| format!("redis://127.0.0.1:{}", ports[0]),
    answers,
    finish: |_, _| Ok(()),
    stop: "TERM",
};

pub(super) const PROGRAM: &str = "redis-server";
/// The package, which contains `redis-cli` too.
pub(super) const PACKAGE: &str = "redis-server";

#[expect(clippy::unnecessary_wraps, reason = "the shape of every server")]
fn prepare(program: &Path, data: &Path, ports: &[u16]) -> Result<Vec<Command>> {
    Ok(vec![serve(program, data, ports[0])])
}

/// One durable server.
pub(super) fn serve(program: &Path, data: &Path, port: u16) -> Command {
    let mut command = Command::new(program);
    command
        .arg("--dir")
        .arg(data)
        .args(["--port", &port.to_string()])
        .args(["--bind", "127.0.0.1"])
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .args(["--maxmemory-policy", "noeviction", "--save", ""]);
    command
}

/// Returns whether it is up, which it is not while it still loads its data.
pub(super) fn answers(ports: &[u16]) -> bool {
    let pong = b"+PONG";
    ports
        .iter()
        .all(|port| server::ask(*port, b"PING\r\n", pong.len()).is_some_and(|said| said == pong))
}
