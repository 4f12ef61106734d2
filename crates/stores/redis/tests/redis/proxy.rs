//! Proxy between a store and its server: cuts connections at a chosen moment, and rewrites scripts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::server::packed;

/// A proxy before a server; gone with the runtime.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    cut: Arc<AtomicU8>,
    scripts: Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>,
}

/// Moment at which the next active connection is cut.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Cut {
    Not = 0,
    /// Before the server has seen the command.
    BeforeServer = 1,
    /// After the server has seen half of it.
    WithinCommand = 2,
    /// After the server has answered, before the client sees it.
    BeforeAnswer = 3,
}

impl Proxy {
    pub(crate) async fn before(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let proxy = Self {
            port: listener.local_addr().expect("an address").port(),
            cut: Arc::default(),
            scripts: Arc::default(),
        };
        let serving = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
                    continue;
                };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let serving = serving.clone();
                let is_mute = Arc::new(AtomicBool::new(false));
                let mute = Arc::clone(&is_mute);
                tokio::spawn(async move { serving.commands(from_client, to_server, &mute).await });
                tokio::spawn(answers(from_server, to_client, is_mute));
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Cuts the connection of the next script.
    pub(crate) fn cut(&self, when: Cut) {
        self.cut.store(when as u8, Ordering::SeqCst);
    }

    /// Runs `text` wherever a store asks for the script of this hash.
    pub(crate) fn plant(&self, hash: &str, text: &str) {
        let mut scripts = self.scripts.lock().expect("scripts");
        scripts.insert(hash.into(), text.into());
    }

    async fn commands(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        is_mute: &AtomicBool,
    ) {
        let mut buffer = Vec::new();
        loop {
            while let Some((parts, used)) = command(&buffer) {
                let is_script = parts.first().is_some_and(|verb| verb.starts_with(b"EVAL"));
                let bytes = self
                    .planted(&parts)
                    .unwrap_or_else(|| buffer[..used].to_vec());
                buffer.drain(..used);
                let cut = if is_script {
                    self.cut.swap(0, Ordering::SeqCst)
                } else {
                    0
                };
                match cut {
                    1 => return,
                    2 => {
                        let _ = to.write_all(&bytes[..bytes.len() / 2]).await;
                        return;
                    }
                    3 => {
                        // The server does what it has read, and then finds nobody.
                        is_mute.store(true, Ordering::SeqCst);
                        let _ = to.write_all(&bytes).await;
                        return;
                    }
                    _ => {}
                }
                if to.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            let mut more = vec![0; 64 << 10];
            match from.read(&mut more).await {
                Ok(0) | Err(_) => return,
                Ok(count) => buffer.extend_from_slice(&more[..count]),
            }
        }
    }

    fn planted(&self, parts: &[&[u8]]) -> Option<Vec<u8>> {
        let scripts = self.scripts.lock().expect("scripts");
        let [b"EVALSHA", hash, rest @ ..] = parts else {
            return None;
        };
        let text = scripts.get(*hash)?;
        let mut whole: Vec<&[u8]> = vec![b"EVAL", text];
        whole.extend_from_slice(rest);
        Some(packed(&whole))
    }
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, is_mute: Arc<AtomicBool>) {
    let mut answer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut answer).await {
        if !is_mute.load(Ordering::SeqCst) && to.write_all(&answer[..count]).await.is_err() {
            return;
        }
    }
}

/// Returns the first command of these bytes, if it is all there, and its length.
fn command(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let (count, mut at) = number(bytes, b'*', 0)?;
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, from) = number(bytes, b'$', at)?;
        parts.push(bytes.get(from..from + length)?);
        at = from + length + 2;
        bytes.get(..at)?;
    }
    Some((parts, at))
}

/// Returns the number behind a mark, and where its line ends.
fn number(bytes: &[u8], mark: u8, at: usize) -> Option<(usize, usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (first, text) = rest[..end].split_first()?;
    assert_eq!(*first, mark, "a client that sends something else");
    let number = std::str::from_utf8(text.trim_ascii_end())
        .ok()?
        .parse()
        .ok()?;
    Some((number, at + end + 1))
}
