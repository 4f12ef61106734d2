//! Listens at an address, and serves connections: a bounded number at once, none of which can stay for long without
//! progress.

mod newcomers;
mod succession;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
#[cfg(feature = "protocols")]
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt;
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use self::newcomers::{Newcomer, Newcomers};
pub use self::succession::Reserved;
use self::succession::Succession;
use crate::limits::Limits;
use crate::port_owner::Owner;
use crate::protocols::{Leave, Opener, Peer, WithPeer, http1_server};
#[cfg(feature = "protocols")]
use crate::protocols::{Protocols, Streams, Watched};

/// A socket at which nobody is answered yet.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    succession: Succession,
}

/// A connection of a client, with its place among those that are served at once; without one where nobody else comes.
type Accepted = (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>);

impl Listener {
    /// Listens at `address`, which `setting` names.
    ///
    /// # Errors
    ///
    /// `Unavailable`: another program listens there; `address-in-use` names it where the system allows it.
    /// `InvalidConfig`: nobody can listen there on this machine, or this process may not.
    pub async fn bind(setting: &str, address: SocketAddr) -> Result<Self> {
        Self::bound(setting, address, TcpListener::bind(address).await)
    }

    /// Listens at `address` beside other processes that do so in the same way: the system gives each connection to one of
    /// them. So a new process takes over while the old one answers what it has in hand; see [`Reserved`].
    ///
    /// # Errors
    ///
    /// `Unavailable`: it cannot; `address-in-use` if another process listens there alone
    pub fn bind_shared(setting: &str, address: SocketAddr) -> Result<Self> {
        Reserved::new(setting, address)?.listen()
    }

    /// Listens at a socket that was opened elsewhere, and that is kept open for the process that follows this one:
    /// whoever connects after a stop waits in its queue.
    ///
    /// # Errors
    ///
    /// `Unavailable`: it is no socket that listens
    pub fn from_socket(setting: &str, socket: std::net::TcpListener) -> Result<Self> {
        let prepared = succession::check(&socket).and_then(|()| socket.set_nonblocking(true));
        let socket = prepared.and_then(|()| TcpListener::from_std(socket));
        let bound = socket.and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (address, socket) = bound.map_err(|error| {
            let message = format!("{setting}: the socket that was handed over is of no use");
            Error::new(ErrorKind::Unavailable, message).with_source(error)
        })?;
        Ok(Self {
            socket,
            address,
            succession: Succession::SameSocket,
        })
    }

    fn bound(setting: &str, address: SocketAddr, socket: io::Result<TcpListener>) -> Result<Self> {
        match socket.and_then(|socket| Ok((socket.local_addr()?, socket))) {
            Ok((address, socket)) => Ok(Self {
                socket,
                address,
                succession: Succession::Unknown,
            }),
            Err(error) => Err(not_bound(setting, address, error)),
        }
    }

    /// The address, with the port that the system chose if none was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves a router in HTTP/1.1, encrypted; see [`Listener::serve_as`].
    #[cfg(feature = "protocols")]
    pub async fn serve_router_encrypted(
        self,
        tls: Arc<tokio_rustls::rustls::ServerConfig>,
        limits: Limits,
        router: Router,
        stop: impl Future<Output = ()>,
    ) {
        let protocols = Protocols {
            tls: Some(tls),
            http2: false,
        };
        let service = TowerToHyperService::new(router);
        self.serve_as(protocols, limits, service, stop).await;
    }

    /// Serves a router; see [`Listener::serve`].
    pub async fn serve_router(
        self,
        limits: Limits,
        router: Router,
        stop: impl Future<Output = ()>,
    ) {
        let service = TowerToHyperService::new(router);
        self.serve(limits, service, stop).await;
    }

    /// Answers in HTTP/1.1 until `stop` is ready, and then what is in hand, for `limits.drain` at most.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes every connection.
    pub async fn serve<S, B>(self, limits: Limits, service: S, stop: impl Future<Output = ()>)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.run(Opener::plain(limits), limits, service, stop).await;
    }

    /// Answers in these protocols; else as [`Listener::serve`]. Requests have the [`Peer`] among their extensions, and can
    /// be upgraded.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes every connection.
    #[cfg(feature = "protocols")]
    pub async fn serve_as<S, B>(
        self,
        protocols: Protocols,
        limits: Limits,
        service: S,
        stop: impl Future<Output = ()>,
    ) where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let opener = Opener::new(protocols, limits);
        self.run(opener, limits, service, stop).await;
    }

    async fn run<S, B>(
        self,
        opener: Opener,
        limits: Limits,
        service: S,
        stop: impl Future<Output = ()>,
    ) where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self {
            socket, succession, ..
        } = self;
        let room = limits.room();
        let places = Arc::new(Semaphore::new(room));
        let (stopping, stopped) = watch::channel(false);
        let mut running = JoinSet::new();
        let begin =
            move |running: &mut JoinSet<()>, newcomer: Arc<Newcomer>, accepted: Accepted| {
                let (stream, address, place) = accepted;
                let (opener, service) = (opener.clone(), service.clone());
                let stop = Stop {
                    asked: stopped.clone(),
                    linger: succession.linger(),
                };
                running.spawn(async move {
                    let leave = Leave::default();
                    let counted = (Arc::clone(&newcomer.requests), leave.clone());
                    let client = (stream, address, counted);
                    let connection = newcomer.run(answer(opener, client, service, limits, stop));
                    let mut connection = pin!(connection);
                    match limits.connection {
                        Some(longest) => {
                            let ended = timeout(longest, connection.as_mut()).await;
                            if ended.is_err() && leave.is_given() {
                                connection.await;
                            }
                        }
                        None => connection.await,
                    }
                    drop::<Option<OwnedSemaphorePermit>>(place);
                });
            };
        tokio::pin!(stop);
        let mut newcomers = Newcomers::default();
        // The one that waits for a place.
        let mut next = None;
        loop {
            let is_any_next = next.is_some();
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(_) = running.join_next() => {}
                place = Arc::clone(&places).acquire_owned(), if is_any_next => {
                    if let Some((stream, address)) = next.take() {
                        let newcomer = newcomers.add(room, Instant::now());
                        begin(&mut running, newcomer, (stream, address, place.ok()));
                    }
                }
                // Nobody was old enough, or the one that was told to leave has asked something, or has no turn.
                () = sleep(PATIENCE), if is_any_next => newcomers.give_up_a_place(Instant::now()),
                arrived = arrival(&socket), if !is_any_next => match arrived {
                    Some(arrived) => {
                        next = Some(arrived);
                        if places.available_permits() == 0 {
                            newcomers.give_up_a_place(Instant::now());
                        }
                    }
                    // Other listeners of the process may have taken its files.
                    None => for _ in 0..FOR_FILES {
                        newcomers.give_up_a_place(Instant::now());
                    },
                }
            }
        }
        if let Some((stream, address)) = next {
            begin(&mut running, Arc::default(), (stream, address, None));
        }
        let deadline = Instant::now() + limits.drain;
        if succession == Succession::OwnSocket {
            let _ = stopping.send(true);
            let running = &mut running;
            let begin = move |it| begin(running, Arc::default(), it);
            succession::leave(&socket, &places, begin).await;
        }
        drop(socket);
        let _ = stopping.send(true);
        let ended = async { while running.join_next().await.is_some() {} };
        let _ = timeout_at(deadline, ended).await;
        running.shutdown().await;
    }
}

/// The wish that a connection ends.
#[derive(Clone)]
struct Stop {
    asked: watch::Receiver<bool>,
    /// The time for a request that is under way to it, once the stop is asked for.
    linger: Duration,
}

impl Stop {
    /// Waits until the connection is to end.
    async fn is_due(&mut self) {
        let _ = self.asked.wait_for(|is_asked| *is_asked).await;
        if !self.linger.is_zero() {
            sleep(self.linger).await;
        }
    }
}

/// Answers the requests of a connection until its end, or to the one in hand once a stop is due.
async fn answer<S, B>(
    opener: Opener,
    (stream, address, counted): (TcpStream, SocketAddr, (Arc<AtomicU64>, Leave)),
    service: S,
    limits: Limits,
    mut stop: Stop,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // One that has not begun when a stop is asked for is not waited for.
    let agreed = tokio::select! {
        biased;
        () = stop.is_due() => return,
        agreed = opener.open(stream) => agreed,
    };
    let Some(agreed) = agreed else { return };
    let peer = Peer {
        address,
        is_encrypted: agreed.is_encrypted,
    };
    let identity = (peer, agreed.certificate);
    let service = WithPeer::new(service, identity, counted, stop.asked.clone());
    let stream = TokioIo::new(agreed.stream);
    // A client that hangs up early does not need the answer.
    #[cfg(feature = "protocols")]
    if agreed.speaks_http2 {
        let requests = Arc::clone(&service.requests);
        let streams = Streams::new(limits.write);
        let server = crate::protocols::http2_server(limits, streams.clone());
        let connection = server.serve_connection(stream, Watched(service));
        let mut connection = pin!(connection);
        tokio::select! {
            biased;
            () = stop.is_due() => {}
            // One without any request may not have begun to speak it.
            () = idle(&requests, limits.head) => if requests.load(Relaxed) == 0 { return },
            _ = connection.as_mut() => return,
        }
        connection.as_mut().graceful_shutdown();
        // It does not wait for long for the client to take the rest.
        tokio::select! {
            biased;
            _ = connection => {}
            () = streams.gone() => {}
        }
        return;
    }
    let connection = http1_server(limits).serve_connection(stream, service);
    let mut connection = pin!(connection.with_upgrades());
    tokio::select! {
        biased;
        () = stop.is_due() => connection.as_mut().graceful_shutdown(),
        _ = connection.as_mut() => return,
    }
    let _ = connection.await;
}

#[cfg(feature = "protocols")]
/// Waits for a time without a new request.
async fn idle(requests: &AtomicU64, time: Duration) {
    let mut before = None;
    loop {
        let count = requests.load(Relaxed);
        if before.replace(count) == Some(count) {
            return;
        }
        sleep(time).await;
    }
}

/// Waits for a place, and then for a connection; nothing if the connection could not be taken.
///
/// # Cancel safety   safe: no connection is lost
async fn accept(socket: &TcpListener, places: &Arc<Semaphore>) -> Option<Accepted> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    let (stream, peer) = arrival(socket).await?;
    Some((stream, peer, Some(place)))
}

/// Waits for a connection; nothing if it could not be taken.
///
/// # Cancel safety   safe: no connection is lost
async fn arrival(socket: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    if let Ok((stream, peer)) = socket.accept().await {
        return Some((prepared(stream), peer));
    }
    // The process is out of files, for example; that passes.
    sleep(AGAIN).await;
    None
}

/// Sets up the connection of a client.
fn prepared(stream: TcpStream) -> TcpStream {
    // It saves time, and nothing depends on it.
    let _ = stream.set_nodelay(true);
    // Without it, a client that vanished keeps its place for as long as nothing is sent to it.
    let _ = notice_absence(&stream);
    stream
}

/// Has the system ask a silent client whether it is still there, and close the connection if it does not answer.
fn notice_absence(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, ASKED_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, ASKED_TIMES)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}

/// The error of an address that this process does not get.
fn not_bound(setting: &str, address: SocketAddr, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::AddrInUse {
        return in_use(setting, address);
    }
    unusable(setting, address, error)
}

/// The error that another process listens at `address`; names the process as far as the system tells.
fn in_use(setting: &str, address: SocketAddr) -> Error {
    let owner = Owner::of(address).map_or("another program".to_owned(), |it| it.to_string());
    let message =
        format!("{setting}: {address} is in use by {owner}; stop it, or set another port");
    Error::new(ErrorKind::Unavailable, message).with_code(Code::AddressInUse)
}

/// The error of an address at which this process cannot listen, whoever else runs here.
fn unusable(setting: &str, address: SocketAddr, error: std::io::Error) -> Error {
    let any = if address.is_ipv4() { "0.0.0.0" } else { "[::]" };
    let why = match error.kind() {
        std::io::ErrorKind::AddrNotAvailable => format!(
            "this machine does not have the address {}; set one that it has, or {any} for all of them",
            address.ip()
        ),
        std::io::ErrorKind::PermissionDenied => {
            format!("this user may not listen at {address}; set a port from 1024 on, or permit it")
        }
        _ => format!("cannot listen at {address}"),
    };
    Error::new(ErrorKind::InvalidConfig, format!("{setting}: {why}")).with_source(error)
}

/// The wait for a place before one more connection is told to give its own up.
const PATIENCE: Duration = Duration::from_millis(50);
/// The wait after a connection could not be accepted.
const AGAIN: Duration = Duration::from_millis(50);
/// So many connections give up their places then, and with them their files, which others may take first.
const FOR_FILES: usize = 16;
/// The silence of a client after which it is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(60);
/// The time for its answer, and the questions without one after which it is not.
const ASKED_EVERY: Duration = Duration::from_secs(15);
const ASKED_TIMES: u32 = 4;

#[cfg(test)]
mod tests;
