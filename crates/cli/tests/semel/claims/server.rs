//! A server of claims, and plain HTTP to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::site::{Ended, Running, Site, wait_for};

/// A running `semel run` with `[claims]`.
pub(super) struct Server {
    site: Arc<Site>,
    config: String,
    port: u16,
    running: Running,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

/// A request; by default one of a program on this machine.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    pub(crate) body: &'a [u8],
}

impl Server {
    /// Starts one that listens on a loopback address; `claims` are more lines of its table.
    pub(super) fn start(store: &str, claims: &str) -> Self {
        Self::start_in(Site::new(), store, claims, "")
    }

    /// The same in a folder; `more` is the rest of its configuration.
    pub(super) fn start_in(site: Site, store: &str, claims: &str, more: &str) -> Self {
        Self::start_at("127.0.0.1", Arc::new(site), store, claims, more)
    }

    /// The same at this address.
    pub(super) fn start_at(
        host: &str,
        site: Arc<Site>,
        store: &str,
        claims: &str,
        more: &str,
    ) -> Self {
        let port = free_port::take().expect("a free port");
        let text = format!(
            "[store]\nurl = \"{store}\"\n[claims]\nlisten = \"{host}:{port}\"\n{claims}{more}"
        );
        Self::of(site, "semel.toml", text, port)
    }

    /// Another one on the same store.
    pub(super) fn beside(&self) -> Self {
        let port = free_port::take().expect("a free port");
        let text = self.site.text(&self.config);
        let text = text.replace(&format!(":{}\"", self.port), &format!(":{port}\""));
        Self::of(Arc::clone(&self.site), "beside.toml", text, port)
    }

    fn of(site: Arc<Site>, config: &str, text: String, port: u16) -> Self {
        site.write(config, text);
        let mut server = Self {
            running: Self::run(&site, config),
            config: config.to_owned(),
            site,
            port,
        };
        server.listens();
        server
    }

    /// Runs a configuration. Its log has every decision as an object.
    fn run(site: &Site, config: &str) -> Running {
        let log = ["--log", "json", "--log-level", "decisions"];
        site.start(&[&["run", config, "--output", "json"][..], &log].concat())
    }

    fn listens(&mut self) {
        let place = ("127.0.0.1", self.port);
        wait_for("a server that listens", || {
            assert!(self.running.is_running(), "{}", self.running.stderr());
            TcpStream::connect(place).is_ok() && self.running.stderr().contains("claims: http://")
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
        self.running = Self::run(&self.site, &self.config);
        self.listens();
    }

    /// Asks it to stop, and waits for its end.
    pub(super) fn stopped(self) -> Ended {
        self.running.signal(Signal::TERM);
        self.ended()
    }

    pub(super) fn ended(self) -> Ended {
        self.running.wait()
    }

    /// Claims, which must be decided.
    #[track_caller]
    pub(super) fn claims(&self, claim: &Value) -> Value {
        let reply = self.post("/v1/claims", claim);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    }

    /// Takes a step with what was granted.
    pub(super) fn step(&self, granted: &Value, step: &str, body: &Value) -> Reply {
        let claim = granted["claim"].as_str().expect("a claim");
        self.post(&format!("/v1/claims/{claim}/{step}"), body)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Reply {
        let body = body.to_string();
        self.ask(&Request {
            headers: vec![("content-type", "application/json")],
            body: body.as_bytes(),
            ..Request::get(path).with_method("POST")
        })
    }

    pub(super) fn ask(&self, request: &Request<'_>) -> Reply {
        ask(self.port, request)
    }
}

/// Sends a request to whoever listens at a port of this machine.
pub(crate) fn ask(port: u16, request: &Request<'_>) -> Reply {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).expect("a limit");
    let length = request.body.len().to_string();
    let mut headers = request.headers.clone();
    headers.extend([("connection", "close"), ("content-length", &length)]);
    if !headers.iter().any(|(name, _)| *name == "host") {
        headers.push(("host", "localhost"));
    }
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!(
        "{} {} HTTP/1.1\r\n{}\r\n",
        request.method,
        request.path,
        headers.concat()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(request.body).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    Reply::read(&answer)
}

impl<'a> Request<'a> {
    pub(crate) fn get(path: &'a str) -> Self {
        Self {
            method: "GET",
            path,
            headers: Vec::new(),
            body: b"",
        }
    }

    pub(crate) fn with_method(self, method: &'a str) -> Self {
        Self { method, ..self }
    }
}

impl Reply {
    fn read(answer: &[u8]) -> Self {
        let answer = String::from_utf8_lossy(answer);
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|it| it.split(' ').nth(1)?.parse().ok());
        let headers = lines.filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        });
        Self {
            status: status.expect("a status"),
            headers: headers.collect(),
            body: serde_json::from_str(body).unwrap_or_default(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| &**value)
    }

    /// Asserts that it is a problem with this status and code.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) {
        let found = (self.status, self.body["code"].as_str());
        assert_eq!(found, (status, Some(code)), "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(self.body["type"], format!("urn:semel:problem:{code}"));
        assert_eq!(self.body["status"], status);
    }
}
