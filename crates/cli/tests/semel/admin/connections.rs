//! Ten thousand connections that say nothing or not enough: the worker goes on, and whoever asks is answered.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use super::Served;
use crate::claims::server::{Request, ask};
use crate::site::wait_for;

#[test]
fn ten_thousand_idle_connections_hold_up_neither_the_worker_nor_whoever_asks() {
    let count = as_many_files_as(CONNECTIONS) / 1_000 * 1_000;
    let mut served = Served::start("embedded:data");
    // It has what a system gives, however many this process may have.
    served.may_open(FILES);
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
    let open = served.open_files();
    assert!(open < 400, "{open} files are open for 256 connections");
    // The first of those that said nothing has made way: it is closed, and has no answer.
    assert!(is_closed(&mut idle[0]), "the first one is open still");
    drop(idle);
    assert_eq!(ask(served.port, &Request::get("/readyz")).status, 200);
}

#[test]
fn a_worker_that_is_out_of_files_closes_silent_connections_and_answers() {
    let served = Served::start("embedded:data");
    // The listener knows nothing of it: it would take 256.
    served.may_open(served.open_files() + 40);
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(("127.0.0.1", served.port)).expect("connected"));
    }
    assert_eq!(status(served.port, "/healthz"), 200);
    assert!(is_closed(&mut idle[0]), "the first one is open still");
}

impl Served {
    /// Sets the files that the worker may open from now on.
    fn may_open(&self, files: u64) {
        let worker = i32::try_from(self.running.0.id()).expect("a process");
        let limit = Rlimit {
            current: Some(files),
            maximum: Some(files),
        };
        prlimit(Pid::from_raw(worker), Resource::Nofile, limit).expect("less than it may");
    }

    fn open_files(&self) -> u64 {
        let files = format!("/proc/{}/fd", self.running.0.id());
        std::fs::read_dir(files).expect("its files").count() as u64
    }
}

/// Tells whether the other end has closed a connection, without an answer.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(SOON)).expect("a limit");
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    assert_eq!(answer, b"");
    match read {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// The status of an answer, whatever its body is.
fn status(port: u16, path: &str) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("a limit");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let head = String::from_utf8_lossy(&answer);
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    status.unwrap_or_else(|| panic!("{path}: {head:?}"))
}

/// Lets this process have as many connections, or as many as the system allows and other tests leave; says how many.
#[expect(clippy::print_stderr, reason = "a smaller test says how small")]
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
/// The files of a worker.
const FILES: u64 = 1_024;
/// Less than the time for the head of a request (10 s), after which silent ones are closed anyway.
const SOON: Duration = Duration::from_secs(5);
