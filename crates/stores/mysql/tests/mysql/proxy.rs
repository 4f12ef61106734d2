//! Proxy between a store and its server that reads along and changes or holds packets, which
//! `semel_conformance::proxy` does not, since it knows no packets.
//!
//! A packet is three bytes of length, a number, and so many bytes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// Sees each packet of the client; may change bytes, or wait.
pub(crate) type Rule = dyn Fn(&mut [u8]) + Send + Sync;

/// A proxy that lives as long as the test.
pub(crate) struct Proxy {
    port: u16,
    heard: Arc<Heard>,
}

/// Errors that the server has answered.
#[derive(Default)]
struct Heard {
    codes: Mutex<Vec<u16>>,
    changed: Condvar,
}

impl Proxy {
    /// Starts one before the server of `url`.
    pub(crate) fn before(url: &str, rule: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        let server = address(url).to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (rule, heard): (Arc<Rule>, _) = (Arc::new(rule), Arc::new(Heard::default()));
        let listening = Arc::clone(&heard);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&server) else {
                    continue;
                };
                serve(client, server, &rule, &listening);
            }
        });
        Self { port, heard }
    }

    /// Returns `url` with this proxy in place of its server.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replacen(address(url), &format!("127.0.0.1:{}", self.port), 1)
    }

    /// Waits until the server has answered with an error of this code.
    pub(crate) fn wait_for_error(&self, code: u16) {
        let codes = self.heard.codes.lock().expect("codes");
        let heard = self
            .heard
            .changed
            .wait_while(codes, |codes| !codes.contains(&code));
        drop(heard.expect("codes"));
    }
}

fn serve(client: TcpStream, server: TcpStream, rule: &Arc<Rule>, heard: &Arc<Heard>) {
    let answers = (
        server.try_clone().expect("a stream"),
        client.try_clone().expect("a stream"),
    );
    let rule = Arc::clone(rule);
    std::thread::spawn(move || {
        let _ = pass_questions(&client, &server, &*rule);
        let _ = (
            client.shutdown(Shutdown::Both),
            server.shutdown(Shutdown::Both),
        );
    });
    let heard = Arc::clone(heard);
    std::thread::spawn(move || {
        let (server, client) = answers;
        let _ = pass_answers(&server, &client, &heard);
        let _ = (
            client.shutdown(Shutdown::Both),
            server.shutdown(Shutdown::Both),
        );
    });
}

fn pass_questions(mut client: &TcpStream, mut server: &TcpStream, rule: &Rule) -> io::Result<()> {
    loop {
        let mut packet = read(&mut client)?;
        rule(&mut packet);
        server.write_all(&packet)?;
    }
}

fn pass_answers(mut server: &TcpStream, mut client: &TcpStream, heard: &Heard) -> io::Result<()> {
    loop {
        let packet = read(&mut server)?;
        if let [_, _, _, _, 0xff, low, high, ..] = packet[..] {
            heard
                .codes
                .lock()
                .expect("codes")
                .push(u16::from_le_bytes([low, high]));
            heard.changed.notify_all();
        }
        client.write_all(&packet)?;
    }
}

fn read(stream: &mut &TcpStream) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; 4];
    stream.read_exact(&mut packet)?;
    let len = usize::from(packet[0]) | usize::from(packet[1]) << 8 | usize::from(packet[2]) << 16;
    packet.resize(4 + len, 0);
    stream.read_exact(&mut packet[4..])?;
    Ok(packet)
}

/// Returns the address of the server of a url.
pub(crate) fn address(url: &str) -> &str {
    let (_, rest) = url.split_once("://").expect("a url");
    let (authority, _) = rest.split_once('/').expect("a url with a database");
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, address)| address)
}

/// Returns whether a packet holds this text.
pub(crate) fn holds(packet: &[u8], text: &str) -> bool {
    packet
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// Puts `new`, filled up with spaces, wherever `old` is.
pub(crate) fn replace(packet: &mut [u8], old: &str, new: &str) {
    assert!(new.len() <= old.len(), "{new} is longer than {old}");
    let mut at = 0;
    while let Some(found) = packet[at..]
        .windows(old.len())
        .position(|part| part == old.as_bytes())
    {
        let place = &mut packet[at + found..at + found + old.len()];
        place.fill(b' ');
        place[..new.len()].copy_from_slice(new.as_bytes());
        at += found + old.len();
    }
}
