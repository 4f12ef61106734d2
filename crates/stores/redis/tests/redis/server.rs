//! A server of a test's own: started, asked, killed, started again.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// A running server. Killed when it is dropped.
pub(crate) struct Server {
    pub(crate) port: u16,
    folder: TempDir,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// Starts a server that syncs its log at every write and evicts nothing.
    pub(crate) fn durable() -> Self {
        Self::start(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts a server with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut server = Self {
            port: free_port::take().expect("a free port"),
            folder: tempfile::tempdir().expect("a folder"),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            child: None,
        };
        server.restart();
        server
    }

    /// Starts it again, on the same files and port.
    pub(crate) fn restart(&mut self) {
        let program = std::env::var("SEMEL_TEST_REDIS_SERVER");
        let mut command = Command::new(program.as_deref().unwrap_or("redis-server"));
        command
            .args([
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--port",
                &self.port.to_string(),
            ])
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(fs::File::create(self.log()).expect("a file"))
            .stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("redis-server cannot be started ({error}): run `cargo xtask services up redis`")
        });
        self.child = Some(child);
        for _ in 0..500 {
            if self.answers() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let said = fs::read_to_string(self.log()).expect("a log");
        panic!(
            "redis-server does not come up on port {}: {said}",
            self.port
        );
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("reaped");
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the server's answer to a command, flattened.
    pub(crate) fn ask(&self, parts: &[&str]) -> Vec<String> {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        let answer = self.ask_bytes(&parts);
        answer
            .into_iter()
            .map(|part| String::from_utf8_lossy(&part).into_owned())
            .collect()
    }

    pub(crate) fn ask_bytes(&self, parts: &[&[u8]]) -> Vec<Vec<u8>> {
        let asked = || {
            let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            socket.set_read_timeout(Some(Duration::from_secs(30)))?;
            socket.write_all(&packed(parts))?;
            let mut answer = Vec::new();
            read_answer(&mut BufReader::new(socket), &mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        asked().expect("an answer")
    }

    fn answers(&self) -> bool {
        let ping = || -> std::io::Result<bool> {
            let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            socket.set_read_timeout(Some(Duration::from_secs(5)))?;
            socket.write_all(b"PING\r\n")?;
            let mut line = String::new();
            BufReader::new(socket).read_line(&mut line)?;
            Ok(line.starts_with("+PONG") || line.starts_with("-NOAUTH"))
        };
        // With TLS only, it is up when it takes a connection.
        let is_bare = !self.arguments.iter().any(|it| it == "--tls-port");
        if is_bare {
            ping().unwrap_or(false)
        } else {
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a command as it goes over the wire.
pub(crate) fn packed(parts: &[&[u8]]) -> Vec<u8> {
    let mut command = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        command.extend(format!("${}\r\n", part.len()).into_bytes());
        command.extend_from_slice(part);
        command.extend_from_slice(b"\r\n");
    }
    command
}

/// Reads one answer; nested values follow one after the other.
fn read_answer(from: &mut impl BufRead, answer: &mut Vec<Vec<u8>>) -> std::io::Result<()> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    let line = line.trim_ascii_end();
    let Some((kind, rest)) = line.split_first() else {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    };
    let count = || -> usize {
        let text = std::str::from_utf8(rest).expect("a number");
        text.parse().unwrap_or(0)
    };
    match kind {
        b'$' if rest == b"-1" => answer.push(Vec::new()),
        b'$' => {
            let mut bytes = vec![0; count() + 2];
            from.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            answer.push(bytes);
        }
        b'*' => {
            for _ in 0..count() {
                read_answer(from, answer)?;
            }
        }
        _ => answer.push(line.to_vec()),
    }
    Ok(())
}
