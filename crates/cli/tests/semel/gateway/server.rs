//! A running gateway, and plain HTTP to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::upstream::Upstream;
use crate::site::{Ended, Running, Site, wait_for};

/// A running `semel run` with `[gateway]`.
pub(super) struct Gateway {
    site: Site,
    port: u16,
    running: Running,
}

/// The answer to a request, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Gateway {
    /// Starts one before an upstream; `lines` are more of its table, and what comes after it.
    pub(super) fn start(upstream: &Upstream, lines: &str) -> Self {
        Self::start_before(&upstream.url(), lines)
    }

    /// The same before whatever is at this URL.
    pub(super) fn start_before(upstream: &str, lines: &str) -> Self {
        let mut gateway = Self::begin("embedded:data", upstream, lines);
        gateway.serves();
        gateway
    }

    /// Starts one whose log has every decision as an object.
    pub(super) fn start_logged(upstream: &Upstream, lines: &str) -> Self {
        let mut gateway = Self::start(upstream, lines);
        let log = ["--log", "json", "--log-level", "decisions"];
        gateway.running.signal(Signal::TERM);
        wait_for("the end", || !gateway.running.is_running());
        gateway.running = gateway.site.start(&[RUN, &log].concat());
        gateway.serves();
        gateway
    }

    /// Starts one over this store, and does not wait for the store.
    pub(super) fn begin(store: &str, upstream: &str, lines: &str) -> Self {
        Self::begin_at("127.0.0.1", Site::new(), store, upstream, lines)
    }

    /// The same at this address, in a folder. Several upstreams have a space between them.
    pub(super) fn begin_at(
        host: &str,
        site: Site,
        store: &str,
        upstream: &str,
        lines: &str,
    ) -> Self {
        let port = free_port::take().expect("a free port");
        let upstreams: Vec<_> = upstream.split(' ').collect();
        site.write(
            "semel.toml",
            format!(
                "[store]\nurl = \"{store}\"\n[gateway]\nlisten = \"{host}:{port}\"\nupstream = {upstreams:?}\n{lines}"
            ),
        );
        Self {
            running: site.start(RUN),
            site,
            port,
        }
    }

    pub(super) fn serves(&mut self) {
        wait_for("a gateway that serves", || {
            assert!(self.running.is_running(), "{}", self.running.stderr());
            self.running.stderr().contains("gateway: http")
        });
    }

    /// Waits until it listens, whatever its store does.
    pub(super) fn listens(&mut self) {
        wait_for("a gateway that listens", || {
            assert!(self.running.is_running(), "{}", self.running.stderr());
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    pub(super) fn site(&self) -> &Site {
        &self.site
    }

    pub(super) fn stderr(&mut self) -> String {
        self.running.stderr()
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Kills it, and starts it again.
    pub(super) fn killed_and_started(&mut self) {
        self.running.signal(Signal::KILL);
        wait_for("the end", || !self.running.is_running());
        self.running = self.site.start(RUN);
        self.serves();
    }

    pub(super) fn ended(self) -> Ended {
        self.running.wait()
    }

    /// Asks it to stop, and waits for its end.
    pub(super) fn stopped(self) -> Ended {
        self.running.signal(Signal::TERM);
        self.ended()
    }

    /// Sends a request under a key.
    pub(super) fn post(&self, path: &str, key: &str, body: &str) -> Reply {
        self.ask("POST", path, &[("idempotency-key", key)], body)
    }

    pub(super) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        self.tried(method, path, headers, body)
            .expect("an answer of the gateway")
    }

    /// The same of a gateway that may be killed meanwhile; nothing without an answer.
    pub(super) fn tried(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Reply> {
        send(self.port, method, path, headers, body)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

/// Sends a request; returns nothing without a whole answer.
pub(crate) fn send(
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<Reply> {
    exchange(connected(port)?, method, path, headers, body)
}

/// Connects to a port of this machine; nothing if nobody listens there.
pub(crate) fn connected(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

/// Sends a request over a connection of its own; returns nothing without a whole answer.
pub(crate) fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<Reply> {
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: api.example\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n{}\r\n",
        body.len(),
        headers.concat()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // Some ends of encrypted connections are not announced.
    let read = stream.read_to_end(&mut answer);
    read.ok().or((!answer.is_empty()).then_some(0))?;
    Reply::read(&answer)
}

impl Reply {
    fn read(answer: &[u8]) -> Option<Self> {
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&answer[..end]).ok()?;
        let body = answer[end + 4..].to_vec();
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        });
        let reply = Self {
            status,
            headers: headers.collect(),
            body,
        };
        let length = reply.header("content-length");
        let is_whole = length.is_none_or(|it| it == reply.body.len().to_string());
        is_whole.then_some(reply)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| &**value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn is_replay(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    /// The code of a problem; nothing of any other answer.
    pub(super) fn code(&self) -> Option<String> {
        let is_problem = self.header("content-type") == Some("application/problem+json");
        let problem = is_problem.then(|| self.json())?;
        problem["code"].as_str().map(str::to_owned)
    }

    /// Asserts that it is a problem with this status and code.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(
            (self.status, self.code().as_deref()),
            (status, Some(code)),
            "{text}"
        );
    }
}

const RUN: &[&str] = &["run", "--output", "json"];
const PATIENCE: Duration = Duration::from_secs(60);
