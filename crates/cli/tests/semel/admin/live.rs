//! The needs of a live page: the last hour of each family, and what changes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::Served;
use crate::site::wait_for;

/// A stream of events that is read as it comes.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let head =
            "GET /v1/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("sent");
        let mut stream = Self(BufReader::new(stream));
        let head = stream.until("\r\n");
        assert!(head[0].starts_with("HTTP/1.1 200"), "{head:?}");
        let kind = "content-type: text/event-stream";
        assert!(head.iter().any(|it| it.trim() == kind), "{head:?}");
        stream
    }

    /// Reads lines up to this one.
    fn until(&mut self, last: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let count = self.0.read_line(&mut line).expect("a line");
            assert_ne!(count, 0, "it ended after {lines:?}");
            if line == last {
                return lines;
            }
            lines.push(line);
        }
    }

    /// Reads up to the next event of this name; returns its data.
    fn event(&mut self, name: &str) -> Value {
        self.until(&format!("event: {name}\n"));
        let data = self.until("\n");
        let data = data[0].strip_prefix("data: ").expect("data");
        serde_json::from_str(data).expect("JSON")
    }

    /// Reads to the end, which may come before the worker says that it stops.
    fn ends(mut self) -> bool {
        let mut rest = Vec::new();
        // A connection that is closed in the middle has ended, too.
        let _ = self.0.read_to_end(&mut rest);
        true
    }
}

#[test]
fn events_tell_what_is_done_what_waits_and_that_the_worker_ends() {
    let mut served = Served::start("embedded:data");
    let mut stream = Stream::open(served.port);
    let status = stream.event("status");
    assert_eq!(status["pipelines"][0]["state"], "running", "{status}");
    let mut aside = stream.event("set_aside");
    while aside["pipelines"][0]["set_aside"]["in_doubt"] != 2 {
        aside = stream.event("set_aside");
    }
    let (child, input) = &mut served.running;
    let is_told = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A pipeline reports its counts while messages come: here the same one over and over.
        scope.spawn(|| {
            while !is_told.load(Ordering::Relaxed) {
                let again = input.write_all(b"{\"id\":\"by-worker\"}\n");
                again.expect("a message");
                sleep(Duration::from_millis(20));
            }
        });
        let replayed = |so_far: &Value| so_far["pipelines"][0]["so_far"]["replayed"].as_u64();
        while replayed(&stream.event("so_far")) < Some(1) {}
        is_told.store(true, Ordering::Relaxed);
    });
    let stopped = std::process::Command::new("kill")
        .arg(child.id().to_string())
        .status();
    assert!(stopped.expect("kill").success());
    assert!(stream.ends(), "and that within its time");
}

#[test]
fn series_have_the_points_that_a_scrape_would_have_had() {
    let served = Served::start("embedded:data");
    let path = "/v1/series?family=semel_window_seconds&pipeline=pay";
    let mut series = Value::Null;
    wait_for("a point", || {
        series = served.good(path);
        series["points"] == 1
    });
    assert_eq!(series["step_secs"], 15, "{series}");
    assert_eq!(series["complete"], true, "{series}");
    let plots = series["items"].as_array().expect("a list");
    assert_eq!(plots.len(), 1, "{series}");
    assert_eq!(plots[0]["kind"], "value", "{series}");
    let window = plots[0]["values"][0].as_f64().expect("a value");
    assert!((window - 604_800.0).abs() < 0.5, "a week: {series}");
    assert!(
        series["until"].as_str().is_some_and(|it| it.ends_with('Z')),
        "{series}"
    );
    let all = served.good("/v1/series");
    assert!(
        all["items"].as_array().is_some_and(|it| it.len() > 30),
        "{all}"
    );
    served
        .get("/v1/series?family=a&family=b")
        .is_problem(400, "invalid-input");
}
