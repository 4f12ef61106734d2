//! The bounds of what clients can take of a listener.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// The bounds of what clients can take of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The number of connections at once, if the process may open as many files; see [`Limits::room`]. For one beyond it,
    /// the oldest that has not asked anything for a quarter of a second is closed; if there is none, the new one waits,
    /// and those after it wait in the queue of the system.
    pub connections: usize,
    /// The time for the head of a request, the wait for a next one included, and for the beginning of TLS.
    pub head: Duration,
    /// The time for which an answer may find no room to be written: on its connection, or in HTTP/2 in the window that the
    /// client opens for it.
    pub write: Duration,
    /// The time for a whole connection, unless a request was given [`Leave`](crate::Leave); without one, it lasts as long as
    /// requests come.
    pub connection: Option<Duration>,
    /// True if a connection may have several requests, one after the other.
    pub keep_alive: bool,
    /// The time that requests in hand have once a stop is asked for.
    pub drain: Duration,
}

impl Limits {
    /// The bounds of a listener that programs keep connections to.
    pub const API: Self = Self {
        connections: 4_096,
        head: Duration::from_secs(20),
        write: Duration::from_secs(20),
        connection: None,
        keep_alive: true,
        drain: Duration::from_secs(30),
    };

    /// The bounds of a listener that a worker tells of itself at: a request a connection.
    pub const ADMIN: Self = Self {
        connections: 256,
        head: Duration::from_secs(10),
        write: Duration::from_secs(10),
        connection: None,
        keep_alive: false,
        drain: Duration::ZERO,
    };

    /// The number of connections that are really taken at once: at most half of the files that the process may open,
    /// so that its store, its brokers and its other listeners find some.
    pub fn room(&self) -> usize {
        let files = getrlimit(Resource::Nofile).current;
        room(self.connections, files)
    }
}

/// The number of connections where so many files may be open; without a limit, as many as asked for.
fn room(connections: usize, files: Option<u64>) -> usize {
    let half = files.and_then(|files| usize::try_from(files / 2).ok());
    connections.min(half.unwrap_or(usize::MAX)).max(1)
}
