//! A provider of webhooks: signs as GitHub does, and speaks plain HTTP.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::site::wait_for;

/// The secret that it signs with.
pub(super) const SECRET: &str = "It's a Secret to Everybody";

/// A provider, and the address that it sends to.
pub(super) struct Provider(SocketAddr);

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    head: String,
    pub(super) body: Vec<u8>,
}

impl Reply {
    /// Tells whether it has this header.
    pub(super) fn has(&self, name: &str, value: &str) -> bool {
        let line = format!("{name}: {value}");
        self.head.lines().any(|it| it.eq_ignore_ascii_case(&line))
    }
}

impl Provider {
    /// A provider that sends to a free port.
    pub(super) fn new() -> Self {
        let port = free_port::take().expect("a free port");
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0
    }

    /// Sends a signed request under this id, or under none; returns nothing if there is no answer.
    pub(super) fn deliver(&self, path: &str, id: &str, body: &[u8]) -> Option<Reply> {
        let signed = signature(SECRET, body);
        let mut headers = vec![("X-Hub-Signature-256", &*signed)];
        if !id.is_empty() {
            headers.push(("X-GitHub-Delivery", id));
        }
        self.send("POST", path, &headers, body)
    }

    /// Sends it again until it is answered with success.
    pub(super) fn until_taken(&self, path: &str, id: &str, body: &[u8]) {
        wait_for("an answer with success", || {
            let reply = self.deliver(path, id, body);
            reply.is_some_and(|it| (200..300).contains(&it.status))
        });
    }

    /// Sends a request; returns nothing if there is no answer.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Reply> {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(self.0).ok()?;
        let request = [head.as_bytes(), b"\r\n", body].concat();
        stream.write_all(&request).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n")?;
        let head = String::from_utf8(answer[..end].to_vec()).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Reply {
            status,
            head,
            body: answer[end + 4..].to_vec(),
        })
    }
}

/// The signature that GitHub would send.
pub(super) fn signature(secret: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    let tag = mac.chain_update(body).finalize().into_bytes();
    tag.iter().fold("sha256=".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
