//! The port for clients. It can be shut, so that the system itself refuses connections, and stays
//! reserved meanwhile.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::locked;

#[derive(Debug)]
pub(super) struct Door {
    address: SocketAddr,
    /// Bound and never listening: holds the port.
    _place: TcpSocket,
    listening: Mutex<Listening>,
}

#[derive(Debug, Default)]
struct Listening {
    /// The listener; none while the door is shut.
    listener: Option<TcpListener>,
    /// The task that waits for the next connection.
    waiting: Option<Waker>,
}

impl Door {
    /// Listens on a free port.
    pub(super) fn open() -> io::Result<Self> {
        let place = socket()?;
        place.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let door = Self {
            address: place.local_addr()?,
            _place: place,
            listening: Mutex::default(),
        };
        door.reopen()?;
        Ok(door)
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening before it returns.
    pub(super) fn shut(&self) {
        locked(&self.listening).listener = None;
    }

    /// Listens again, unless it does already.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let mut listening = locked(&self.listening);
        if listening.listener.is_none() {
            let socket = socket()?;
            socket.bind(self.address)?;
            listening.listener = Some(socket.listen(BACKLOG)?);
            if let Some(waiting) = listening.waiting.take() {
                waiting.wake();
            }
        }
        Ok(())
    }

    /// The next connection; cancel safe.
    pub(super) async fn next(&self) -> TcpStream {
        poll_fn(|context| locked(&self.listening).poll(context)).await
    }
}

impl Listening {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<TcpStream> {
        self.waiting = Some(context.waker().clone());
        let Some(listener) = &self.listener else {
            return Poll::Pending;
        };
        loop {
            match listener.poll_accept(context) {
                Poll::Ready(Ok((client, _))) => return Poll::Ready(client),
                // A connection that was gone before it was accepted.
                Poll::Ready(Err(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

const BACKLOG: u32 = 1024;

/// Two of them may have one port, of which only one listens.
fn socket() -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    #[cfg(unix)]
    socket.set_reuseport(true)?;
    Ok(socket)
}
