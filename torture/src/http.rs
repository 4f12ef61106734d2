//! HTTP/1.1 as a plain client speaks it: a request on a connection, and the answer byte for byte.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use hyper::http::response;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Reply {
    /// An answer with this body, which is a problem if it has a code.
    #[cfg(test)]
    pub(crate) fn told(status: u16, body: &serde_json::Value) -> Self {
        let kind = match body["code"] {
            serde_json::Value::Null => "application/json",
            _ => "application/problem+json",
        };
        Self {
            status,
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            body: body.to_string().into_bytes(),
        }
    }

    /// An answer in HTTP/2.
    pub(crate) fn of(head: &response::Parts, body: Vec<u8>) -> Self {
        let headers = head.headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.as_str().to_owned(), value.into_owned())
        });
        Self {
            status: head.status.as_u16(),
            headers: headers.collect(),
            body,
        }
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| &**value)
    }

    /// True of a remembered answer.
    pub fn is_replay(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    /// The code of a problem; nothing of any other answer.
    pub fn code(&self) -> Option<String> {
        let is_problem = self.header("content-type") == Some("application/problem+json");
        let problem = is_problem.then(|| serde_json::from_slice::<serde_json::Value>(&self.body));
        Some(problem?.ok()?["code"].as_str()?.to_owned())
    }

    /// The parts that a replay has to repeat: status, body, and the headers that the routes of these tests keep.
    pub fn kept(&self) -> (u16, &[u8], [Option<&str>; 2]) {
        let kept = ["content-type", "etag"].map(|name| self.header(name));
        (self.status, &self.body, kept)
    }
}

/// The end of a request without a whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Nobody took the connection.
    Refused,
    /// It ended before the first byte of an answer.
    Unanswered,
    /// It ended in the middle of an answer, or this client hung up.
    Cut,
}

/// A connection to a server, for one request after the other.
pub struct Connection(BufReader<Box<dyn Wire>>);

/// The bytes of a connection, encrypted or not.
trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

impl Connection {
    /// Connects, and waits at most `patience` for each part of an answer.
    ///
    /// # Errors
    ///
    /// `Refused`
    pub fn open(address: SocketAddr, patience: Duration) -> Result<Self, Broken> {
        Ok(Self(BufReader::new(Box::new(stream(address, patience)?))))
    }

    /// Does what [`Connection::open`] does, and encrypts. The server's certificate is for `localhost`.
    pub(crate) fn encrypted(
        address: SocketAddr,
        patience: Duration,
        client: Arc<ClientConfig>,
    ) -> Result<Self, Broken> {
        let mut stream = stream(address, patience)?;
        let host = ServerName::try_from("localhost").expect("a name");
        let tls = ClientConnection::new(client, host);
        let mut tls = tls.map_err(|_| Broken::Refused)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream).map_err(|_| Broken::Refused)?;
        }
        let stream = StreamOwned::new(tls, stream);
        Ok(Self(BufReader::new(Box::new(stream))))
    }

    /// Sends a request for `/charges` under a key. `is_last` asks the server to close the connection behind it.
    ///
    /// # Errors
    ///
    /// `Unanswered`, `Cut`
    pub fn post(&mut self, key: &str, body: &str, is_last: bool) -> Result<Reply, Broken> {
        self.send("/charges", &[("idempotency-key", key)], body, is_last)
    }

    /// Sends a request with these headers and a body, which is JSON unless they say otherwise.
    ///
    /// # Errors
    ///
    /// `Unanswered`, `Cut`
    pub fn send(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
        is_last: bool,
    ) -> Result<Reply, Broken> {
        let request = request(path, headers, body, is_last);
        // A server that is gone may take it all the same.
        let stream = self.0.get_mut();
        let sent = stream.write_all(request.as_bytes());
        let sent = sent.and_then(|()| stream.flush());
        sent.map_err(|_| Broken::Unanswered)?;
        self.answer()
    }

    /// Sends a request but for the last bytes of its body, and hangs up.
    pub(crate) fn send_without(
        mut self,
        last_bytes: usize,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) {
        let request = request(path, headers, body, true);
        let (sent, _) = request.as_bytes().split_at(request.len() - last_bytes);
        let stream = self.0.get_mut();
        // Nobody waits for what a server says that is gone.
        let _ = stream.write_all(sent).and_then(|()| stream.flush());
    }

    fn answer(&mut self) -> Result<Reply, Broken> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(1..) => {}
            Ok(0) | Err(_) if line.is_empty() => return Err(Broken::Unanswered),
            Ok(0) | Err(_) => return Err(Broken::Cut),
        }
        let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.ok_or(Broken::Cut)?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line);
            if !read.is_ok_and(|length| length > 0) {
                return Err(Broken::Cut);
            }
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut reply = Reply {
            status,
            headers,
            body: Vec::new(),
        };
        let length = reply.header("content-length").map(str::parse::<usize>);
        let read = match length {
            Some(length) => {
                reply.body = vec![0; length.map_err(|_| Broken::Cut)?];
                self.0.read_exact(&mut reply.body)
            }
            None => self.0.read_to_end(&mut reply.body).map(|_| ()),
        };
        read.map_err(|_| Broken::Cut)?;
        Ok(reply)
    }
}

fn request(path: &str, headers: &[(&str, &str)], body: &str, is_last: bool) -> String {
    let close = if is_last { "connection: close\r\n" } else { "" };
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: api.example\r\n{close}content-length: {}\r\n",
        body.len()
    );
    let is_json = headers.iter().all(|(name, _)| *name != "content-type");
    let json = is_json.then_some(("content-type", "application/json"));
    for (name, value) in headers.iter().copied().chain(json) {
        request.extend([name, ": ", value, "\r\n"]);
    }
    request.extend(["\r\n", body]);
    request
}

fn stream(address: SocketAddr, patience: Duration) -> Result<TcpStream, Broken> {
    let stream = TcpStream::connect(address).map_err(|_| Broken::Refused)?;
    let prepared = stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.set_nodelay(true));
    prepared.map_err(|_| Broken::Refused)?;
    Ok(stream)
}
