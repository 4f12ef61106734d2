//! A Prometheus of the test's own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::site::{Site, wait_for};

/// A server that scrapes two workers each second. It is killed when dropped.
pub(super) struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts the program on the path with these rules, which it computes each second.
    pub(super) fn start(place: &Site, [one, two]: [SocketAddr; 2], rules: &[PathBuf]) -> Self {
        let mut settings = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\n\
             scrape_configs:\n- job_name: semel\n  static_configs: [{{ targets: ['{one}', '{two}'] }}]\nrule_files:\n"
        );
        for (number, path) in rules.iter().enumerate() {
            let text = std::fs::read_to_string(path).expect("rules");
            // Rules of long windows have an interval of their own, longer than the test.
            let lines = text.lines();
            let lines = lines.filter(|line| !line.trim_start().starts_with("interval:"));
            let name = format!("rules-{number}.yml");
            place.write(&name, lines.collect::<Vec<_>>().join("\n"));
            settings.extend(["- ", &name, "\n"]);
        }
        place.write("prometheus.yml", settings);
        let port = free_port::take().expect("a free port");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let log = std::fs::File::create(place.path("prometheus.log")).expect("a log");
        let child = Command::new("prometheus")
            .arg(format!(
                "--config.file={}",
                place.path("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                place.path("series").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the program `prometheus`, of the Debian package of that name");
        let mut server = Self { child, address };
        wait_for("prometheus", || {
            let ended = server.child.try_wait().expect("a child");
            assert_eq!(ended, None, "{}", place.text("prometheus.log"));
            server.ask("GET /-/ready", "").starts_with("HTTP/1.0 200")
        });
        server
    }

    /// Asserts that it understands this query.
    #[track_caller]
    pub(super) fn accepts(&self, query: &str) {
        let answer = self.query(query);
        assert_eq!(answer["status"], "success", "{query}: {answer}");
    }

    /// Returns whether the query has a result now that can be drawn.
    pub(super) fn shows(&self, query: &str) -> bool {
        self.values(query).iter().any(|value| !value.is_nan())
    }

    /// The values of all series that a query finds now.
    pub(super) fn values(&self, query: &str) -> Vec<f64> {
        let answer = self.query(query);
        let series = answer["data"]["result"].as_array();
        let values = series.into_iter().flatten().map(|series| {
            let value = series["value"][1].as_str();
            value.and_then(|text| text.parse().ok())
        });
        values.map(|value| value.expect("a number")).collect()
    }

    /// Each rule that it computes, with its name; they are all in order.
    #[track_caller]
    pub(super) fn rules(&self) -> Vec<(String, String)> {
        let answer = self.ask("GET /api/v1/rules", "");
        let answer = body(&answer);
        let groups = answer["data"]["groups"].as_array().expect("groups");
        let rules = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().expect("rules"));
        for rule in rules.clone() {
            assert_eq!(rule["health"], "ok", "{rule}");
        }
        // An alert has no result on a good day.
        let recording = rules.filter(|rule| rule["type"] == "recording");
        let text = |rule: &Value, member: &str| rule[member].as_str().map(str::to_owned);
        recording
            .map(|rule| text(rule, "name").zip(text(rule, "query")).expect("a rule"))
            .collect()
    }

    fn query(&self, query: &str) -> Value {
        let encoded = query.bytes().map(|byte| format!("%{byte:02x}"));
        let form = format!("query={}", encoded.collect::<String>());
        body(&self.ask("POST /api/v1/query", &form))
    }

    fn ask(&self, what: &str, form: &str) -> String {
        let mut answer = Vec::new();
        if let Ok(mut stream) = TcpStream::connect(self.address) {
            let asked = format!(
                "{what} HTTP/1.0\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                 Content-Length: {}\r\n\r\n{form}",
                form.len()
            );
            let _ = stream.write_all(asked.as_bytes());
            let _ = stream.read_to_end(&mut answer);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It has nothing to keep.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asserts that Prometheus's own tool, of the same package, finds these metrics well formed, named and described.
#[track_caller]
pub(super) fn has_no_fault(metrics: &str) {
    let mut tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program `promtool`, of the Debian package prometheus");
    let mut input = tool.stdin.take().expect("a pipe");
    input.write_all(metrics.as_bytes()).expect("it reads");
    drop(input);
    let ended = tool.wait_with_output().expect("it ends");
    let said = [ended.stdout, ended.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(ended.status.success() && said.is_empty(), "{said}");
}

fn body(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}
