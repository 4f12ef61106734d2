//! A provider of webhooks: signs as GitHub does, and speaks HTTP, encrypted or not.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use semel_tls::Tls;
use sha2::Sha256;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use crate::site::wait_for;

/// The secret that it signs with.
pub(crate) const SECRET: &str = "It's a Secret to Everybody";

/// A provider, and the address that it sends to.
pub(crate) struct Provider {
    address: SocketAddr,
    /// The authority that it trusts; it sends in the clear without one.
    ca: Option<PathBuf>,
    /// The token that it shows with each request that has no `Authorization` of its own.
    token: Option<&'static str>,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Tells whether it has this header.
    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        let line = format!("{name}: {value}");
        self.head.lines().any(|it| it.eq_ignore_ascii_case(&line))
    }
}

impl Provider {
    /// A provider that sends to a free port.
    pub(crate) fn new() -> Self {
        let port = free_port::take().expect("a free port");
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            ca: None,
            token: None,
        }
    }

    /// The same, showing this token.
    pub(crate) fn showing(self, token: &'static str) -> Self {
        Self {
            token: Some(token),
            ..self
        }
    }

    /// One that sends to the same address, encrypted, and trusts this authority.
    pub(crate) fn encrypted(&self, ca: &Path) -> Self {
        Self {
            address: self.address,
            ca: Some(ca.to_owned()),
            token: self.token,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a signed request under this id, or under none; returns nothing if there is no answer.
    pub(crate) fn deliver(&self, path: &str, id: &str, body: &[u8]) -> Option<Reply> {
        let signed = signature(SECRET, body);
        let mut headers = vec![("X-Hub-Signature-256", &*signed)];
        if !id.is_empty() {
            headers.push(("X-GitHub-Delivery", id));
        }
        self.send("POST", path, &headers, body)
    }

    /// Sends it again until it is answered with success.
    pub(crate) fn until_taken(&self, path: &str, id: &str, body: &[u8]) {
        wait_for("an answer with success", || {
            let reply = self.deliver(path, id, body);
            reply.is_some_and(|it| (200..300).contains(&it.status))
        });
    }

    /// Sends a request; returns nothing if there is no answer.
    pub(crate) fn send(
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
        let is_shown = headers.iter().any(|(name, _)| *name == "Authorization");
        if let Some(token) = self.token.filter(|_| !is_shown) {
            let _ = write!(head, "Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let request = [head.as_bytes(), b"\r\n", body].concat();
        let stream = TcpStream::connect(self.address).ok()?;
        let answer = match &self.ca {
            Some(ca) => exchange(session(stream, ca), &request)?,
            None => exchange(stream, &request)?,
        };
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

/// Sends a request, and reads the answer; returns nothing if there is none.
fn exchange(mut stream: impl Read + Write, request: &[u8]) -> Option<Vec<u8>> {
    stream.write_all(request).ok()?;
    let mut answer = Vec::new();
    // Some ends of encrypted connections are not announced.
    let read = stream.read_to_end(&mut answer);
    read.ok().or((!answer.is_empty()).then_some(0))?;
    Some(answer)
}

/// An encrypted connection, which trusts this authority alone.
fn session(stream: TcpStream, ca: &Path) -> StreamOwned<ClientConnection, TcpStream> {
    let tls = Tls {
        ca: Some(ca.to_owned()),
        ..Tls::default()
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let config = Arc::new(tls.config().expect("of use"));
    let session = ClientConnection::new(config, name).expect("a client");
    StreamOwned::new(session, stream)
}

/// The signature that GitHub would send.
pub(crate) fn signature(secret: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    let tag = mac.chain_update(body).finalize().into_bytes();
    tag.iter().fold("sha256=".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
