//! A NATS server of a test's own, to be killed. The tests speak plain NATS to it, over a socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::broker::{Broker, Publish};
use crate::moments::now;

/// A server with one stream, `payments`, that is on the disk before a publication is confirmed; removed when
/// dropped.
#[derive(Debug)]
pub struct Nats {
    folder: TempDir,
    port: u16,
    process: Child,
}

impl Nats {
    /// Starts a server and makes the stream.
    ///
    /// # Panics
    ///
    /// If `SEMEL_TEST_NATS_PROGRAM` names no server, or it does not come up.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port::take().expect("a free port");
        let store = folder.path().join("data");
        let settings = SETTINGS
            .replace("PORT", &port.to_string())
            .replace("STORE", &store.display().to_string());
        std::fs::write(folder.path().join("nats.conf"), settings).expect("a file");
        let process = server(folder.path());
        let this = Self {
            folder,
            port,
            process,
        };
        this.wait_until("STREAM.NAMES");
        let made = this
            .ask("STREAM.CREATE.payments", STREAM)
            .expect("an answer");
        assert!(made["error"].is_null(), "{made}");
        this
    }

    /// The address at which it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Every message of the stream, from its first one on, where nothing is written any more.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub(crate) fn kept(&self) -> Vec<String> {
        let count = self.count();
        let mut line = Line::open(self.port).expect("a connection");
        let patience = Some(Duration::from_secs(60));
        let longer = line.stream.get_ref().set_read_timeout(patience);
        longer.expect("a connection");
        // The server sends them one by one, each under the subject to which it was published.
        let listening = line.stream.get_mut().write_all(b"SUB audit 2\r\n");
        let create = "$JS.API.CONSUMER.CREATE.payments";
        let asked = listening.and_then(|()| line.send(create, "made", AUDIT));
        asked.expect("a connection");
        let mut messages = Vec::new();
        while (messages.len() as u64) < count {
            let (name, message) = line.answer().expect("a message");
            let message = String::from_utf8(message).expect("a text");
            match &*name {
                "payments" => messages.push(message),
                "made" => {
                    let made: Value = serde_json::from_str(&message).expect("an answer");
                    assert!(made["error"].is_null(), "{made}");
                }
                _ => {}
            }
        }
        messages
    }

    /// The number of messages of the stream.
    ///
    /// # Panics
    ///
    /// If the server does not tell.
    pub fn count(&self) -> u64 {
        let stream = self.ask("STREAM.INFO.payments", "").expect("an answer");
        stream["state"]["messages"].as_u64().expect("a count")
    }

    /// The server's answer to a request of its management.
    fn ask(&self, what: &str, body: &str) -> io::Result<Value> {
        let mut line = Line::open(self.port)?;
        line.send(&format!("$JS.API.{what}"), "0", body)?;
        line.stream.get_mut().flush()?;
        let (_, answer) = line.answer()?;
        Ok(serde_json::from_slice(&answer)?)
    }

    fn wait_until(&self, answers: &str) {
        for _ in 0..3_000 {
            if self.ask(answers, "").is_ok_and(|it| it["error"].is_null()) {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        panic!("NATS did not come up within five minutes");
    }
}

impl Broker for Nats {
    fn name(&self) -> &'static str {
        "NATS"
    }

    fn is_revoking(&self) -> bool {
        false
    }

    fn reader(&mut self, name: &str) -> String {
        // The first worker makes the consumer.
        format!(
            "kind = \"nats\"\nurl = \"nats://127.0.0.1:{}\"\nstream = \"payments\"\nconsumer = \"{name}\"\n",
            self.port
        )
    }

    fn publisher(&self) -> Box<dyn Publish> {
        Box::new(Publisher {
            port: self.port,
            line: None,
            attempts: 0,
        })
    }

    fn kill_and_restart(&mut self) {
        self.process.kill().expect("a process");
        self.process.wait().expect("a process");
        self.process = server(self.folder.path());
        self.wait_until("STREAM.INFO.payments");
    }

    fn left(&self, reader: &str) -> Option<u64> {
        let asked = self.ask(&format!("CONSUMER.INFO.payments.{reader}"), "");
        let info = asked.ok()?;
        Some(info["num_pending"].as_u64()? + info["num_ack_pending"].as_u64()?)
    }

    fn stands(&self, reader: &str) -> String {
        let consumer = self.ask(&format!("CONSUMER.INFO.payments.{reader}"), "");
        let stream = self.ask("STREAM.INFO.payments", "");
        format!("{consumer:?}\n{stream:?}")
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Debug)]
struct Publisher {
    port: u16,
    line: Option<Line>,
    /// A late answer to an earlier attempt, which comes on every connection, confirms nothing: the same place is
    /// another line by then.
    attempts: u64,
}

impl Publisher {
    /// Publishes those lines whose place is in `open`, and removes the confirmed ones from it.
    fn attempt(&mut self, lines: &[&str], open: &mut Vec<usize>) -> io::Result<()> {
        let line = match &mut self.line {
            Some(line) => line,
            none => none.insert(Line::open(self.port)?),
        };
        self.attempts += 1;
        let mine = format!("{}-", self.attempts);
        for &place in open.iter() {
            line.send("payments", &format!("{mine}{place}"), lines[place])?;
        }
        line.stream.get_mut().flush()?;
        while !open.is_empty() {
            let (name, answer) = line.answer()?;
            let Some(place) = name.strip_prefix(&mine) else {
                continue;
            };
            let answer: Value = serde_json::from_slice(&answer)?;
            if answer["seq"].is_u64() {
                open.retain(|it| it.to_string() != place);
            } else {
                return Err(io::Error::other(answer.to_string()));
            }
        }
        Ok(())
    }
}

impl Publish for Publisher {
    fn publish(&mut self, lines: &[&str]) {
        for lines in lines.chunks(AT_ONCE) {
            let mut open: Vec<usize> = (0..lines.len()).collect();
            let begun = now();
            while let Err(error) = self.attempt(lines, &mut open) {
                // The next connection does not get this one's answers.
                self.line = None;
                assert!(
                    begun.elapsed() < Duration::from_secs(60),
                    "nothing is confirmed: {error}"
                );
                sleep(Duration::from_millis(100));
            }
        }
    }

    fn finish(self: Box<Self>) {}
}

/// One connection, whose requests are answered under their names.
#[derive(Debug)]
struct Line {
    stream: BufReader<TcpStream>,
}

impl Line {
    fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(3)))?;
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        let mut hello = String::new();
        stream.read_line(&mut hello)?;
        stream
            .get_mut()
            .write_all(b"CONNECT {\"verbose\":false}\r\nSUB answers.* 1\r\n")?;
        Ok(Self { stream })
    }

    fn send(&mut self, subject: &str, name: &str, body: &str) -> io::Result<()> {
        let length = body.len();
        let message = format!("PUB {subject} answers.{name} {length}\r\n{body}\r\n");
        self.stream.get_mut().write_all(message.as_bytes())
    }

    /// The name of the next request that is answered, and its answer.
    fn answer(&mut self) -> io::Result<(String, Vec<u8>)> {
        loop {
            let mut head = String::new();
            if self.stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let words: Vec<&str> = head.split_whitespace().collect();
            match words.first().copied() {
                Some("MSG") => {
                    let length = words.last().and_then(|it| it.parse().ok()).unwrap_or(0);
                    let mut body = vec![0; length + "\r\n".len()];
                    self.stream.read_exact(&mut body)?;
                    body.truncate(length);
                    let name = words[1].trim_start_matches("answers.");
                    return Ok((name.to_owned(), body));
                }
                Some("PING") => self.stream.get_mut().write_all(b"PONG\r\n")?,
                Some("-ERR") => return Err(io::Error::other(head)),
                _ => {}
            }
        }
    }
}

fn server(folder: &Path) -> Child {
    let program = std::env::var_os("SEMEL_TEST_NATS_PROGRAM")
        .expect("SEMEL_TEST_NATS_PROGRAM: `cargo xtask services up nats` fetches it");
    Command::new(program)
        .arg("--config")
        .arg(folder.join("nats.conf"))
        .arg("--log")
        .arg(folder.join("log"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nats-server")
}

/// Publications that wait for their confirmations together.
const AT_ONCE: usize = 200;

const SETTINGS: &str = r#"listen: "127.0.0.1:PORT"
jetstream { store_dir: "STORE", sync_interval: always }
"#;

/// Shorter than the window, in nanoseconds: a day.
const STREAM: &str =
    r#"{"name":"payments","subjects":["payments"],"storage":"file","max_age":86400000000000}"#;

/// A consumer that acknowledges nothing and gets all.
const AUDIT: &str = r#"{"stream_name":"payments","config":{"deliver_subject":"audit","ack_policy":"none","deliver_policy":"all"}}"#;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// The line of a later attempt was never stored, and a test thought that Semel had lost it.
    #[test]
    fn a_late_answer_to_an_earlier_attempt_confirms_nothing() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = server.local_addr().expect("an address").port();
        let answering = std::thread::spawn(move || {
            let mut first = None;
            for _ in 0..2 {
                let (socket, _) = server.accept().expect("a connection");
                let mut socket = BufReader::new(socket);
                let mut said = |line: &str| socket.get_mut().write_all(line.as_bytes());
                said("INFO {}\r\n").expect("a socket");
                if let Some(name) = &first {
                    said(&format!("MSG {name} 1 9\r\n{{\"seq\":1}}\r\n")).expect("a socket");
                }
                let published = socket.by_ref().lines().map(|line| line.expect("a line"));
                let name = published
                    .filter(|line| line.starts_with("PUB"))
                    .find_map(|line| line.split(' ').nth(2).map(str::to_owned));
                first = first.or(name);
            }
        });
        let mut publisher = Publisher {
            port,
            line: None,
            attempts: 0,
        };
        for line in ["one", "other"] {
            let mut open = vec![0];
            assert!(publisher.attempt(&[line], &mut open).is_err());
            assert_eq!(open, [0], "{line}");
            publisher.line = None;
        }
        answering.join().expect("a server");
    }
}
