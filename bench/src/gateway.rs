//! `semel run` with `[gateway]` before an API, beside nginx and beside a bare proxy of hyper. `wrk` asks over 64
//! connections, with bodies of 200 bytes; each request has a key of its own, or all of them repeat a thousand.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::figures::Figures;
use crate::http;
use crate::process::{Process, address, processor_seconds};
use crate::wrk::{self, Asked};

type Failure = Box<dyn std::error::Error>;

pub(crate) fn rate() -> crate::Outcome {
    let semel = PathBuf::from(std::env::var_os("SEMEL_BIN").ok_or("SEMEL_BIN")?);
    let folder = tempfile::tempdir_in(".")?;
    let folder = folder.path();
    fs::write(folder.join("ask.lua"), ASK)?;
    let upstream = address()?;
    let words = ["upstream", &upstream.to_string()];
    let _upstream = http::start(&words, upstream, &folder.join("upstream.log"))?;
    let mut sides = Vec::new();
    for side in SIDES {
        sides.push(Server::start(side, &semel, folder, upstream)?);
    }
    for server in &sides {
        if server.side == Side::Replayed {
            // Each of the thousand keys once.
            server.asked(folder, "warm")?;
        }
    }
    let mut runs = [const { Vec::new() }; SIDES.len()];
    for round in 0..ROUNDS {
        for (server, runs) in sides.iter().zip(&mut runs) {
            runs.push(server.asked(folder, &round.to_string())?);
        }
    }
    println!(
        "POST of 200 bytes, 64 connections, `wrk` for {} s a turn, {ROUNDS} rounds",
        wrk::SECONDS
    );
    println!(
        "| side | requests/s | over nginx | over the bare proxy | p99, ms | its processor, us a request | peak, MB |"
    );
    println!("|---|---|---|---|---|---|---|");
    let rates = |at: usize| {
        runs[at]
            .iter()
            .map(|it: &Run| it.asked.rate)
            .collect::<Vec<_>>()
    };
    for (at, server) in sides.iter().enumerate() {
        let figures = |of: fn(&Run) -> f64| Figures::of(runs[at].iter().map(of));
        println!(
            "| {} | {} | {} | {} | {} | {} | {:.0} |",
            server.side.name(),
            Figures::of(rates(at)),
            Figures::ratios(&rates(at), &rates(1)),
            Figures::ratios(&rates(at), &rates(2)),
            figures(|it| it.asked.p99),
            figures(|it| it.processor),
            server.process.peak_megabytes()?
        );
    }
    let durable = sides.iter().find(|it| it.side == Side::Embedded);
    idle(durable.ok_or("no such side")?)
}

/// The memory of connections that say nothing.
fn idle(gateway: &Server) -> crate::Outcome {
    let before = gateway.process.megabytes()?;
    let mut connections = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        connections.push(TcpStream::connect(gateway.address)?);
    }
    // The last one is taken when it has an answer.
    let folder = tempfile::tempdir_in(".")?;
    fs::write(folder.path().join("ask.lua"), ASK)?;
    let beside = gateway.asked(folder.path(), "idle")?;
    let after = gateway.process.megabytes()?;
    println!(
        "{IDLE} idle connections: {:.0} MB more than {before:.0}, and {:.0} k requests/s beside them",
        after - before,
        beside.asked.rate / 1e3
    );
    Ok(())
}

/// One way to reach the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Direct,
    Nginx,
    Bare,
    Embedded,
    Memory,
    Replayed,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Direct => "the API itself",
            Self::Nginx => "nginx, kept connections to the API",
            Self::Bare => "bare proxy of hyper, no keys",
            Self::Embedded => "`semel run`, embedded store, durable",
            Self::Memory => "`semel run`, `memory:`",
            Self::Replayed => "`semel run`, embedded store, replays alone",
        }
    }
}

/// A running one.
struct Server {
    side: Side,
    address: SocketAddr,
    process: Process,
}

impl Server {
    fn start(
        side: Side,
        semel: &Path,
        folder: &Path,
        upstream: SocketAddr,
    ) -> Result<Self, Failure> {
        let address = address()?;
        let place = folder.join(format!("{side:?}"));
        fs::create_dir(&place)?;
        let log = place.join("log");
        let (at, to) = (address.to_string(), upstream.to_string());
        let process = match side {
            Side::Direct => http::start(&["upstream", &at], address, &log)?,
            Side::Bare => http::start(&["proxy", &at, &to], address, &log)?,
            Side::Nginx => {
                let config = NGINX.replace("ADDRESS", &at).replace("UPSTREAM", &to);
                fs::write(place.join("nginx.conf"), config)?;
                let place = fs::canonicalize(&place)?;
                let mut command = Command::new("nginx");
                command
                    .arg("-p")
                    .arg(&place)
                    .args(["-c", "nginx.conf", "-e", "log"]);
                let started = Process::start(command, &log);
                let started =
                    started.map_err(|why| format!("nginx (Debian: nginx-light): {why}"))?;
                http::listening(started, address)?
            }
            Side::Embedded | Side::Memory | Side::Replayed => {
                let store = if side == Side::Memory {
                    "memory:"
                } else {
                    "embedded:./store"
                };
                let config = GATEWAY.replace("STORE", store).replace("ADDRESS", &at);
                fs::write(place.join("semel.toml"), config.replace("UPSTREAM", &to))?;
                let mut command = Command::new(semel);
                command.arg("run").current_dir(&place);
                http::listening(Process::start(command, &log)?, address)?
            }
        };
        Ok(Self {
            side,
            address,
            process,
        })
    }

    /// Has it asked for a while; `turn` makes the keys new ones.
    fn asked(&self, folder: &Path, turn: &str) -> Result<Run, Failure> {
        let turn = if self.side == Side::Replayed {
            "again"
        } else {
            turn
        };
        let before = self.processor()?;
        let url = format!("http://{}/charges", self.address);
        let asked = wrk::asked(&url, &folder.join("ask.lua"), turn);
        let asked = asked.map_err(|why| format!("{}: {why}", self.side.name()))?;
        let processor = self.processor()? - before;
        Ok(Run {
            processor: processor * 1e6 / asked.count,
            asked,
        })
    }

    /// The processor time of all of its processes.
    fn processor(&self) -> Result<f64, Failure> {
        let mut seconds = self.process.processor_seconds()?;
        for child in self.process.children()? {
            seconds += processor_seconds(&child)?;
        }
        Ok(seconds)
    }
}

/// The figures of a turn.
struct Run {
    asked: Asked,
    /// Microseconds of a request.
    processor: f64,
}

/// In the order of the table: the second and the third are what the others are measured by.
const SIDES: [Side; 6] = [
    Side::Direct,
    Side::Nginx,
    Side::Bare,
    Side::Embedded,
    Side::Memory,
    Side::Replayed,
];
const ROUNDS: usize = 3;
const IDLE: usize = 10_000;

const ASK: &str = r#"
local threads = 0
function setup(thread) thread:set("id", threads); threads = threads + 1 end
function init(args)
  count = 0
  turn = args[1]
  wrk.body = "{\"amount\":4200,\"note\":\"" .. string.rep("x", 173) .. "\"}"
  wrk.headers["Content-Type"] = "application/json"
end
function request()
  count = count + 1
  local key = turn == "again" and count % 1000 or turn .. "-" .. id .. "-" .. count
  wrk.headers["Idempotency-Key"] = key
  return wrk.format("POST", nil, nil, nil)
end
"#;

const NGINX: &str = "
daemon off;
worker_processes 2;
pid nginx.pid;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxied;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  upstream api { server UPSTREAM; keepalive 64; }
  server {
    listen ADDRESS;
    keepalive_requests 1000000;
    location / {
      proxy_pass http://api;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
    }
  }
}
";

const GATEWAY: &str = r#"
[store]
url = "STORE"
allow_volatile = true

[gateway]
listen = "ADDRESS"
upstream = "http://UPSTREAM"
"#;
