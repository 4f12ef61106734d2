//! One process after the other at one address, without a client that is refused in between.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use semel_core::Result;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::{Accepted, Listener, accept, not_bound};

/// The process that serves at the address of a listener once this one has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Succession {
    /// Nobody is known: whoever comes after a stop is refused.
    Unknown,
    /// The next one, at the same socket, which somebody keeps open: whoever comes after a stop waits for it.
    SameSocket,
    /// Another one, at a socket of its own: whoever comes after a stop is sent there.
    OwnSocket,
}

impl Succession {
    /// The time for which a connection stays after a stop, for a request that is under way to it.
    pub(super) fn linger(self) -> Duration {
        match self {
            Self::Unknown => Duration::ZERO,
            Self::SameSocket | Self::OwnSocket => LINGER,
        }
    }
}

/// An address that other processes may listen at, too, and this one does not yet. It takes no client away from them.
pub struct Reserved {
    setting: Box<str>,
    socket: TcpSocket,
    address: SocketAddr,
}

impl Reserved {
    /// Reserves `address`, which `setting` names.
    ///
    /// # Errors
    ///
    /// `Unavailable`: another process listens there alone; `address-in-use` names it where the system allows it.
    /// `InvalidConfig`: nobody can listen there on this machine, or this process may not.
    pub fn new(setting: &str, address: SocketAddr) -> Result<Self> {
        let reserved = bound(address).and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (address, socket) = reserved.map_err(|error| not_bound(setting, address, error))?;
        Ok(Self {
            setting: setting.into(),
            socket,
            address,
        })
    }

    /// The address, with the port that the system chose if none was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to listen: from now on, the system gives some of the clients to this process.
    ///
    /// # Errors
    ///
    /// `Unavailable`: it cannot, as where another process listens there alone by now
    pub fn listen(self) -> Result<Listener> {
        let Self {
            setting,
            socket,
            address,
        } = self;
        let socket = socket.listen(BACKLOG);
        let socket = socket.map_err(|error| not_bound(&setting, address, error))?;
        #[cfg(target_os = "linux")]
        steering::share(&socket);
        Ok(Listener {
            socket,
            address,
            succession: Succession::OwnSocket,
        })
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    #[cfg(unix)]
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Checks that a socket listens, where the system tells.
pub(super) fn check(socket: &std::net::TcpListener) -> io::Result<()> {
    if sockopt::socket_acceptconn(socket)? {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "it does not listen",
    ))
}

/// Has the system give new clients to the other processes at the address of this socket, and takes those that it has
/// given to this one before: they are in its queue, or half way to it, and nobody else would answer them.
pub(super) async fn leave(
    socket: &TcpListener,
    places: &Arc<Semaphore>,
    mut take: impl FnMut(Accepted),
) {
    #[cfg(target_os = "linux")]
    let has_successor = steering::away(socket, &mut take).await;
    #[cfg(not(target_os = "linux"))]
    let has_successor = true;
    if has_successor {
        let end = sleep(LINGER);
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                () = &mut end => break,
                accepted = accept(socket, places) => if let Some(accepted) = accepted {
                    take(accepted);
                },
            }
        }
    }
    #[cfg(target_os = "linux")]
    while let Some(accepted) = steering::waiting(socket) {
        take(accepted);
    }
}

/// The way in which the system chooses one of several sockets at one address.
#[cfg(target_os = "linux")]
mod steering {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

    use nix::libc;
    use nix::sys::socket::setsockopt;
    use nix::sys::socket::sockopt::AttachReusePortCbpf;
    use rustix::io::Errno;
    use rustix::net::{SocketFlags, accept_with};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::super::prepared;
    use super::{Accepted, LINGER};

    /// Has new clients go to all of them alike.
    pub(super) fn share(socket: &TcpListener) {
        // Beyond the last one, the system chooses as if nothing was said. Without it, all may go to one.
        let _ = choose(socket, u32::MAX);
    }

    /// Has new clients go to another one than this; returns whether there is one. The clients that came before are taken.
    ///
    /// The system knows the sockets by their numbers, which nobody is told. So two are tried, one of which is another one,
    /// and a connection shows where it leads.
    pub(super) async fn away(socket: &TcpListener, take: &mut impl FnMut(Accepted)) -> bool {
        let Ok(address) = socket.local_addr() else {
            return false;
        };
        for number in [0, 1] {
            if choose(socket, number).is_err() {
                return false;
            }
            // Behind a full queue, no connection would come through.
            while let Some(accepted) = waiting(socket) {
                take(accepted);
            }
            let probe = match timeout(LINGER, TcpStream::connect(reachable(address))).await {
                Ok(Ok(probe)) => probe,
                Ok(Err(_)) => return false,
                // The other one has a full queue.
                Err(_) => return true,
            };
            let name = probe.local_addr().ok();
            let mut is_back = false;
            while let Some(accepted) = waiting(socket) {
                if Some(accepted.1) == name {
                    is_back = true;
                } else {
                    take(accepted);
                }
            }
            if !is_back {
                return true;
            }
        }
        false
    }

    /// Takes a client that waits in the queue at this moment.
    pub(super) fn waiting(socket: &TcpListener) -> Option<Accepted> {
        loop {
            match accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(taken) => {
                    let stream = TcpStream::from_std(taken.into());
                    let known = stream.and_then(|stream| Ok((stream.peer_addr()?, stream)));
                    // One that has gone meanwhile has no address.
                    if let Ok((address, stream)) = known {
                        return Some((prepared(stream), address, None));
                    }
                }
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    /// Has new clients go to the socket of this number, for as long as there is one.
    fn choose(socket: &TcpListener, number: u32) -> nix::Result<()> {
        if semel_core::planted("H15") {
            return Ok(());
        }
        let code = u16::try_from(libc::BPF_RET | libc::BPF_K).unwrap_or_default();
        let mut program = [libc::sock_filter {
            code,
            jt: 0,
            jf: 0,
            k: number,
        }];
        let program = libc::sock_fprog {
            len: 1,
            filter: program.as_mut_ptr(),
        };
        setsockopt(socket, AttachReusePortCbpf, &program)
    }

    /// The address at which this machine itself reaches a listener.
    fn reachable(address: SocketAddr) -> SocketAddr {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, address.port())
    }
}

/// The time for what is under way when a process leaves: a request on a connection that is kept, or the last part of a
/// handshake.
const LINGER: Duration = Duration::from_secs(1);
/// The connections that the system keeps until they are accepted.
const BACKLOG: u32 = 1_024;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    fn shared(address: SocketAddr) -> TcpListener {
        let reserved = Reserved::new("gateway.listen", address).expect("an address");
        reserved.listen().expect("it listens").socket
    }

    async fn connected(address: SocketAddr, count: usize) -> Vec<TcpStream> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(TcpStream::connect(address).await.expect("connected"));
        }
        clients
    }

    fn all_waiting(socket: &TcpListener) -> Vec<Accepted> {
        std::iter::from_fn(|| steering::waiting(socket)).collect()
    }

    #[tokio::test]
    async fn one_that_leaves_has_the_early_clients_and_no_late_one() {
        let first = shared("127.0.0.1:0".parse().expect("an address"));
        let address = first.local_addr().expect("an address");
        let second = shared(address);
        // The older one leaves, then the newer one beside a third.
        let third = {
            let early = connected(address, 40).await;
            let mut taken = Vec::new();
            assert!(steering::away(&first, &mut |it| taken.push(it)).await);
            let _late = connected(address, 40).await;
            assert!(steering::waiting(&first).is_none(), "a late one is here");
            let others = all_waiting(&second).len();
            // One more is the probe, or none.
            let all = taken.len() + others;
            assert!((80..=82).contains(&all), "{all} of {}", early.len() + 40);
            drop(first);
            shared(address)
        };
        let mut taken = Vec::new();
        assert!(steering::away(&second, &mut |it| taken.push(it)).await);
        let _late = connected(address, 40).await;
        assert!(steering::waiting(&second).is_none(), "a late one is here");
        assert!(all_waiting(&third).len() >= 40);
    }

    #[tokio::test]
    async fn clients_are_shared_out_again_when_one_joins() {
        let first = shared("127.0.0.1:0".parse().expect("an address"));
        let address = first.local_addr().expect("an address");
        let second = shared(address);
        assert!(steering::away(&first, &mut |_| {}).await);
        drop(first);
        let third = shared(address);
        let _clients = connected(address, 100).await;
        for socket in [&second, &third] {
            assert!(steering::waiting(socket).is_some(), "all went to one");
        }
    }

    #[tokio::test]
    async fn one_that_is_alone_has_nobody_to_send_clients_to() {
        let alone = shared("127.0.0.1:0".parse().expect("an address"));
        let address = alone.local_addr().expect("an address");
        let _early = connected(address, 3).await;
        let mut taken = Vec::new();
        assert!(!steering::away(&alone, &mut |it| taken.push(it)).await);
        assert_eq!(taken.len(), 3);
    }

    #[tokio::test]
    async fn an_address_that_is_reserved_takes_no_client_away() {
        let first = shared("127.0.0.1:0".parse().expect("an address"));
        let address = first.local_addr().expect("an address");
        let reserved = Reserved::new("gateway.listen", address).expect("an address");
        assert_eq!(reserved.address(), address);
        let _clients = connected(address, 40).await;
        assert_eq!(all_waiting(&first).len(), 40);
    }
}
