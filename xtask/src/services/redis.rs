//! Redis, syncing its log at every write and evicting nothing.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::failure::Result;

use super::server::Server;

pub(super) static SERVER: Server = Server {
    name: "redis",
    program: "redis-server",
    package: "redis-server",
    find: super::on_path,
    variable: "SEMEL_TEST_REDIS_URL",
    prepare,
    url: |port| format!("redis://127.0.0.1:{port}"),
    answers,
    stop: "TERM",
};

#[expect(clippy::unnecessary_wraps, reason = "the shape of every server")]
fn prepare(program: &Path, data: &Path, port: u16) -> Result<Command> {
    let mut command = Command::new(program);
    command
        .arg("--dir")
        .arg(data)
        .args(["--port", &port.to_string()])
        .args([
            "--bind",
            "127.0.0.1",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--maxmemory-policy",
            "noeviction",
            "--save",
            "",
        ]);
    Ok(command)
}

fn answers(port: u16) -> bool {
    let ping = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok(&answer == b"+PONG")
    };
    ping().unwrap_or(false)
}
