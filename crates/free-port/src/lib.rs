//! Ports for the servers that tests and drills start.
//!
//! A port that was bound to 0 and let go again belongs to the next one that asks: another test, or a connection that
//! the system gives that port by itself, since both come from the same range. The ports here come from below that
//! range, and a process that has taken one keeps it until the process ends, also while the server behind it is killed
//! and started again.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Above the ports of well-known servers, and below those that systems give to connections (from 32768 on Linux, from
/// 49152 elsewhere).
const FIRST: u16 = 10_000;
/// The count of pairs: ports come in pairs of one to take, and one that is listened on for as long as it is taken.
const PAIRS: u16 = 11_000;

/// The listeners that show other processes which ports are taken.
static TAKEN: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());

/// Takes a port of 127.0.0.1 that no server listens on, and that no other call gets before this process ends.
///
/// # Errors
///
/// [`ErrorKind::AddrInUse`] if all are taken.
pub fn take() -> io::Result<u16> {
    // Not from the first port on, so that processes that begin together do not try the same ones.
    let [low, high, ..] = RandomState::new().hash_one(()).to_le_bytes();
    let offset = u16::from_le_bytes([low, high]) % PAIRS;
    let (port, sign) = (0..PAIRS)
        .map(|step| FIRST + (offset + step) % PAIRS * 2)
        .find_map(|port| Some((port, sign(port)?)))
        .ok_or(ErrorKind::AddrInUse)?;
    TAKEN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(sign);
    Ok(port)
}

/// Returns the listener that marks `port` as taken; `None` if it is taken already, or in use by a program that does not
/// take ports here.
fn sign(port: u16) -> Option<TcpListener> {
    let sign = TcpListener::bind((Ipv4Addr::LOCALHOST, port + 1)).ok()?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
    Some(sign)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{Ipv4Addr, TcpListener};

    use super::{FIRST, PAIRS, sign, take};

    #[test]
    fn a_port_is_taken_once_and_free_to_listen_on() {
        let mut ports = BTreeSet::new();
        for _ in 0..100 {
            let port = take().expect("a free port");
            assert!(ports.insert(port), "{port} again");
            assert!((FIRST..FIRST + 2 * PAIRS).contains(&port), "{port}");
            assert!(sign(port).is_none(), "{port} is taken already");
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("it is free");
        }
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_not_taken() {
        // Not one of those that another process may have taken for a server that is about to come.
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = server.local_addr().expect("an address").port();
        assert!(sign(port).is_none());
    }
}
