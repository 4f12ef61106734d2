//! A TCP proxy that breaks connections at chosen places, for the tests of stores and brokers that are
//! servers. It knows no protocol, and it is not for slowing a link down realistically.

mod door;
mod plan;
mod wire;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use self::door::Door;
use self::plan::Plan;
use self::wire::Gate;

/// Stands on the loopback in front of a server, and passes everything on until a test orders
/// otherwise.
///
/// An order holds for every connection, and counts from the moment of the call: *the next* bytes and
/// answers, over all connections together. A cut ends one connection, the one that carries the byte or
/// the answer in question, and is then spent; connections that are made later pass. Bytes are counted
/// as they come, so a cut falls in the middle of a message as well as between two, and TLS makes no
/// difference.
///
/// Dropping a proxy ends its connections and frees its port.
///
/// ```
/// use semel_conformance::proxy::Proxy;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::{TcpListener, TcpStream};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = TcpListener::bind("127.0.0.1:0").await?;
/// let proxy = Proxy::start(server.local_addr()?);
/// proxy.cut_after_server_bytes(3);
///
/// let mut client = TcpStream::connect(proxy.address()).await?;
/// let (mut served, _) = server.accept().await?;
/// served.write_all(b"committed").await?;
///
/// let mut heard = String::new();
/// client.read_to_string(&mut heard).await?;
/// assert_eq!(heard, "com");
/// assert_eq!(proxy.seen().cuts, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    accepting: AbortHandle,
    runtime: Handle,
}

/// The counts that a [`Proxy`] keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// Connections that are open now.
    pub connections: usize,
    /// Connections that were ever accepted.
    pub accepted: u64,
    /// Connections that the proxy cut.
    pub cuts: u64,
    /// Directions of connections with bytes, or an end, that are held back now.
    pub held: usize,
    /// Bytes passed on to the server.
    pub client_bytes: u64,
    /// Bytes passed on to clients.
    pub server_bytes: u64,
}

impl Proxy {
    /// Listens on a free port of the loopback, and carries every connection on to `upstream`. While no
    /// server listens there, connections are accepted and closed.
    ///
    /// Its tasks belong to the runtime of the caller.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O, and when the machine has no port to give.
    pub fn start(upstream: SocketAddr) -> Self {
        let runtime = Handle::current();
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            door: Door::open().expect("the loopback has a free port"),
            plan: Mutex::new(Plan::default()),
            gate: watch::Sender::new(Gate::default()),
            cut: watch::Sender::new(()),
            loss: watch::Sender::new(()),
            seen: watch::Sender::new(Seen::default()),
        });
        let accepting = runtime.spawn(accept(Arc::clone(&shared))).abort_handle();
        Self {
            shared,
            accepting,
            runtime,
        }
    }

    /// The address at which clients find the proxy, for as long as it lives.
    pub fn address(&self) -> SocketAddr {
        self.shared.door.address()
    }

    /// Carries the connections that are made from now on to another server.
    pub fn redirect(&self, upstream: SocketAddr) {
        *locked(&self.shared.upstream) = upstream;
    }

    /// Cuts a connection when clients have sent `count` more bytes; with 0, when the next one comes.
    ///
    /// The server gets those bytes, and none after them.
    pub fn cut_after_client_bytes(&self, count: u64) {
        self.plan().client = Some(count);
    }

    /// Cuts a connection when servers have sent `count` more bytes; with 0, when the next one comes.
    ///
    /// The client gets those bytes, and none after them; its requests have been carried out.
    pub fn cut_after_server_bytes(&self, count: u64) {
        self.plan().server = Some(count);
    }

    /// Cuts a connection instead of passing on the `nth` answer that begins from now on, counted
    /// from 1.
    ///
    /// An answer begins when the server speaks after the client did. The server has then carried out
    /// what it was asked, and the client gets no byte of the answer. What a client sends without
    /// waiting (pipelined requests) has one answer; each turn of a handshake has one too, so connect
    /// first.
    ///
    /// # Panics
    ///
    /// When `nth` is 0.
    pub fn cut_before_answer(&self, nth: u64) {
        assert!(nth > 0, "answers are counted from 1");
        self.plan().answers = Some(nth);
    }

    /// Cuts every connection that is open, as [`Seen::connections`] counts them.
    ///
    /// Wait with [`until`](Self::until) to know that they are gone.
    pub fn cut_now(&self) {
        self.shared.cut.send_replace(());
    }

    /// Loses every connection that is open, as a network does that forgets them: nothing is carried on them any more, and
    /// neither side is told. Connections that are made later pass. What was lost stays so until it is cut.
    pub fn lose_now(&self) {
        self.shared.loss.send_replace(());
    }

    /// Lets cuts reset connections from now on, instead of closing them; a client then gets an
    /// error where it otherwise gets an end.
    ///
    /// A reset may take bytes with it that were passed on and not yet read.
    pub fn reset(&self, reset: bool) {
        self.plan().reset = reset;
    }

    /// Cuts again and again, until healed: each time after fewer than `within` bytes. The number of
    /// bytes, the direction, and whether the cut is a reset are drawn from `seed`.
    ///
    /// The draws are the same for the same seed. The connection that one of them hits is not.
    ///
    /// # Panics
    ///
    /// When `within` is 0.
    pub fn storm(&self, seed: u64, within: u64) {
        assert!(within > 0, "a cut comes after fewer than 0 bytes");
        self.plan().storm(seed, within);
    }

    /// From now on passes on everything that servers send later by `by`, a piece at a time.
    pub fn delay(&self, by: Duration) {
        self.plan().delay = by;
    }

    /// Holds back everything that either side sends from now on: connections are accepted, requests
    /// never arrive, and no answer comes.
    pub fn hold(&self) {
        self.shared.gate.send_replace(Gate {
            client: true,
            server: true,
        });
    }

    /// Holds back everything that servers send from now on: requests arrive and are carried out,
    /// unanswered.
    pub fn hold_answers(&self) {
        self.shared.gate.send_replace(Gate {
            client: false,
            server: true,
        });
    }

    /// Passes on the bytes that were held back, in order, and no longer holds anything.
    pub fn release(&self) {
        self.shared.gate.send_replace(Gate::default());
    }

    /// Refuses new connections from now on, as a machine without the server does, or accepts them
    /// again at the same address. Those that are open stay.
    ///
    /// # Panics
    ///
    /// When the machine does not let the proxy listen again.
    pub fn refuse(&self, refuse: bool) {
        if refuse {
            self.shared.door.shut();
        } else {
            let _runtime = self.runtime.enter();
            let reopened = self.shared.door.reopen();
            reopened.expect("the port stays the proxy's own while nobody listens there");
        }
    }

    /// Passes everything on again: no cut that is still to come, no delay, nothing held, no connection
    /// refused. Connections that were cut or lost stay so.
    ///
    /// # Panics
    ///
    /// As [`refuse`](Self::refuse).
    pub fn heal(&self) {
        *self.plan() = Plan::default();
        self.release();
        self.refuse(false);
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.seen().connections
    }

    /// The counts up to now.
    pub fn seen(&self) -> Seen {
        *self.shared.seen.borrow()
    }

    /// Waits until the counts satisfy `so`, and returns them.
    ///
    /// For waiting without a sleep: `proxy.until(|seen| seen.held > 0).await`.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
    pub async fn until(&self, mut so: impl FnMut(&Seen) -> bool) -> Seen {
        let mut seen = self.shared.seen.subscribe();
        let reached = seen.wait_for(|seen| so(seen)).await.map(|seen| *seen);
        // The sender lives as long as the proxy, so there is always another change to wait for.
        reached.unwrap_or_else(|_| self.seen())
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        locked(&self.shared.plan)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.door.shut();
        // The task takes all the connections that it carries with it.
        self.accepting.abort();
    }
}

/// The state that the handle, the accepting task and the connections share.
#[derive(Debug)]
struct Shared {
    upstream: Mutex<SocketAddr>,
    door: Door,
    plan: Mutex<Plan>,
    gate: watch::Sender<Gate>,
    /// Changes whenever every connection is to be cut.
    cut: watch::Sender<()>,
    /// Changes whenever every connection is to be lost.
    loss: watch::Sender<()>,
    seen: watch::Sender<Seen>,
}

async fn accept(shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            client = shared.door.next() => {
                shared.seen.send_modify(|seen| {
                    seen.connections += 1;
                    seen.accepted += 1;
                });
                let ends = (shared.cut.subscribe(), shared.loss.subscribe());
                connections.spawn(wire::carry(Arc::clone(&shared), ends, client));
            }
        }
    }
}

/// A panic leaves nothing here half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
