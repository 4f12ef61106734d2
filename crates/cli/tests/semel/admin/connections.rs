//! Ten thousand connections that say nothing or not enough: the worker goes on, and whoever asks is answered.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Served;
use crate::claims::server::{Request, ask};
use crate::site::wait_for;

#[test]
fn ten_thousand_idle_connections_hold_up_neither_the_worker_nor_whoever_asks() {
    let count = as_many_files_as(CONNECTIONS) / 1_000 * 1_000;
    let mut served = Served::start("embedded:data");
    let mut idle = Vec::new();
    for at in 0..count {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).expect("connected");
        // One in three says nothing, one breaks off in the head; some have a body that comes to no end.
        let said = match at % 3 {
            0 => "",
            1 => "GET / HTTP/1.1\r\nhost: local",
            _ if at < 300 => {
                "POST /v1/in-doubt/resolve/plan HTTP/1.1\r\nhost: localhost\r\n\
                 content-type: application/json\r\ncontent-length: 100\r\n\r\n{"
            }
            _ => "G",
        };
        // It may be closed by now.
        let _ = stream.write_all(said.as_bytes());
        idle.push(stream);
        if at % 1_000 == 999 {
            for path in ["/healthz", "/metrics", "/v1/status", "/v1/keys", "/"] {
                let status = status(served.port, path);
                assert_eq!(status, 200, "{path} beside {} connections", at + 1);
            }
            let (_, input) = &mut served.running;
            let message = format!("{{\"id\":\"beside-{at}\"}}\n");
            input.write_all(message.as_bytes()).expect("a message");
            let effect = served.site.path(&format!("ran-beside-{at}"));
            wait_for("the effect", || effect.exists());
        }
    }
    let worker = served.running.0.id();
    let open = std::fs::read_dir(format!("/proc/{worker}/fd")).expect("its files");
    let open = open.count();
    assert!(open < 400, "{open} files are open for 256 connections");
    // The first of those that said nothing was told so: it is closed, and has no answer.
    let mut first = Vec::new();
    let limit = Some(Duration::from_secs(60));
    idle[0].set_read_timeout(limit).expect("a limit");
    let _ = idle[0].read_to_end(&mut first);
    assert_eq!(first, b"");
    drop(idle);
    assert_eq!(ask(served.port, &Request::get("/readyz")).status, 200);
}

/// The status of an answer, whatever its body is.
fn status(port: u16, path: &str) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).expect("a limit");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let head = String::from_utf8_lossy(&answer);
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    status.unwrap_or_else(|| panic!("{path}: {head:?}"))
}

/// Lets this process have as many connections, or as many as the system allows and other tests leave; says how many.
fn as_many_files_as(connections: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = connections + OTHER_FILES;
    if limit.current.is_some_and(|it| it < wanted) {
        let maximum = limit.maximum;
        let current = Some(maximum.map_or(wanted, |it| it.min(wanted)));
        let raised = setrlimit(Resource::Nofile, Rlimit { current, maximum });
        raised.expect("up to the maximum everybody may");
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(wanted);
    let count = connections.min(allowed.saturating_sub(OTHER_FILES));
    assert!(count > 1_000, "{allowed} files are too few for this test");
    if count < connections {
        eprintln!("with {count} connections: this system allows {allowed} files");
    }
    count
}

const CONNECTIONS: u64 = 10_000;
/// The files of the other tests in this process.
const OTHER_FILES: u64 = 1_000;
