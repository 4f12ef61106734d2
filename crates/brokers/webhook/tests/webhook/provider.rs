//! A client that speaks plain HTTP, and knows the secret of GitHub's documentation.

use std::fmt::Write as _;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The answer to a request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Tells whether it has this header.
    pub(crate) fn has(&self, line: &str) -> bool {
        self.head.lines().any(|it| it.eq_ignore_ascii_case(line))
    }
}

/// The header with the name by which a listener is called: `localhost` unless it is sent.
pub(crate) const HOST: &str = "Host";

/// Sends a request on a connection of its own, and reads the answer; nothing if there is none.
pub(crate) async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Option<Answer> {
    let named = headers.iter().find(|(name, _)| *name == HOST);
    let host = named.map_or("localhost", |(_, host)| host);
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers.iter().filter(|(name, _)| *name != HOST) {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    raw(address, &[head.as_bytes(), body].concat()).await
}

/// Sends these bytes, and reads the answer; nothing if there is none.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(bytes).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// Sends the head of a request and the beginning of its body, once the listener has begun to read that; returns the
/// connection, on which nothing more comes.
pub(crate) async fn begin(address: SocketAddr, head: &str, beginning: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let head = format!("{head}Host: localhost\r\nExpect: 100-continue\r\n\r\n");
    stream
        .write_all(head.as_bytes())
        .await
        .expect("a head that is sent");
    let mut word = [0; CONTINUE.len()];
    stream.read_exact(&mut word).await.expect("a word");
    assert_eq!(word, CONTINUE, "{}", String::from_utf8_lossy(&word));
    stream
        .write_all(beginning)
        .await
        .expect("a beginning that is sent");
    stream
}

/// The word of a listener that has begun to read a body.
const CONTINUE: [u8; 25] = *b"HTTP/1.1 100 Continue\r\n\r\n";
