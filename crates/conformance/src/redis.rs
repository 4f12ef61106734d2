//! A prefix of keys on a Redis server that tests share.

use std::io::{BufReader, Read, Result, Write};
use std::net::TcpStream;

/// Removes all keys of the server at `url` that begin with `prefix` and a colon.
///
/// # Errors
///
/// The server cannot be reached.
pub fn empty(url: &str, prefix: &str) -> Result<()> {
    const SCRIPT: &str =
        "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('UNLINK', key) end";
    let mut socket = TcpStream::connect(url.trim_start_matches("redis://"))?;
    let pattern = format!("{prefix}:*");
    let parts = ["EVAL", SCRIPT, "0", &pattern];
    write!(socket, "*{}\r\n", parts.len())?;
    for part in parts {
        write!(socket, "${}\r\n{part}\r\n", part.len())?;
    }
    let mut answer = [0; 3];
    BufReader::new(socket).read_exact(&mut answer)
}
