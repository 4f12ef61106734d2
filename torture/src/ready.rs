//! Asks a worker whether it is ready.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// A worker's answer at `/readyz`, with its head; empty if no worker answers.
pub fn readiness(port: u16) -> String {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
        let _ = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: semel\r\n\r\n");
        let _ = stream.read_to_string(&mut answer);
    }
    answer
}
