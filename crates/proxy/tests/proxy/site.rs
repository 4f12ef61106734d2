//! A proxy that serves, and clients that write by the byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use semel_engine::once::Once;
use semel_engine::system::SystemClock;
use semel_gateway::Route;
use semel_http::{Limits, Listener};
use semel_proxy::{PathRoute, Proxy, Settings, Upstream};
use semel_store_memory::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::rustls::ServerConfig;

pub(crate) struct Site {
    pub(crate) proxy: Proxy,
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

/// An answer as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) fn at(address: SocketAddr) -> Upstream {
    Upstream::new(format!("http://{address}").parse().expect("a URL"))
}

/// An address at which nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    let port = free_port::take().expect("a port");
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl Site {
    /// A proxy before this upstream, whose route is `/charges`.
    pub(crate) async fn before(address: SocketAddr, change: impl FnOnce(&mut Settings)) -> Self {
        Self::over(vec![at(address)], None, change).await
    }

    pub(crate) async fn over(
        upstreams: Vec<Upstream>,
        tls: Option<Arc<ServerConfig>>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
        Self::of(&Once::new(store), upstreams, tls, change).await
    }

    pub(crate) async fn of(
        once: &Once<Arc<MemoryStore>>,
        upstreams: Vec<Upstream>,
        tls: Option<Arc<ServerConfig>>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = Settings::new(upstreams);
        settings.routes.push(PathRoute {
            path: "/charges".parse().expect("a pattern"),
            methods: Vec::new(),
            route: Route::default(),
            proof: None,
        });
        change(&mut settings);
        let proxy = Proxy::new(once, settings).expect("settings that hold");
        let any = "127.0.0.1:0".parse().expect("an address");
        let listener = Listener::bind("gateway.listen", any).await.expect("bound");
        let address = listener.address();
        let (stop, stopped) = oneshot::channel();
        let serving = {
            let proxy = proxy.clone();
            tokio::spawn(async move {
                let stop = async { drop(stopped.await) };
                proxy.serve(listener, Limits::API, tls, stop).await;
            })
        };
        Self {
            proxy,
            address,
            stop: Some(stop),
            serving,
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connected")
    }

    /// Writes these bytes on a connection of their own, and returns everything that comes back until it ends.
    pub(crate) async fn raw(&self, bytes: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_bytes()).await.expect("sent");
        rest(&mut stream).await
    }

    /// Sends a request that ends its connection.
    pub(crate) async fn send(&self, line: &str, fields: &str, body: &str) -> Seen {
        let len = body.len();
        let raw = format!(
            "{line} HTTP/1.1\r\nhost: api.example\r\nconnection: close\r\ncontent-length: {len}\r\n{fields}\r\n{body}"
        );
        Seen::of(&self.raw(&raw).await)
    }

    /// Sends the usual request under this key.
    pub(crate) async fn charge(&self, key: &str) -> Seen {
        let fields = format!("idempotency-key: {key}\r\n");
        self.send("POST /charges", &fields, "{\"amount\":7}").await
    }

    /// Asks it to stop; returns what ends when it has.
    pub(crate) fn stop(&mut self) -> &mut JoinHandle<()> {
        let _ = self.stop.take().map(|stop| stop.send(()));
        &mut self.serving
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Seen {
    #[track_caller]
    pub(crate) fn of(raw: &str) -> Self {
        let (head, body) = raw.split_once("\r\n\r\n").expect("a head");
        let status = head.get(9..12).and_then(|it| it.parse().ok());
        let mut seen = Self {
            status: status.expect("a status"),
            head: head.to_owned(),
            body: body.to_owned(),
        };
        if seen.field("transfer-encoding") == Some("chunked") {
            seen.body = dechunked(body);
        }
        seen
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.field("idempotency-replayed") == Some("true")
    }

    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) {
        let has_code = self.body.contains(&format!("\"code\":\"{code}\""));
        assert!(self.status == status && has_code, "{self:?}");
    }
}

fn dechunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        whole.push_str(&rest[..size]);
        if size == 0 {
            break;
        }
        body = &rest[size + 2..];
    }
    whole
}

/// Reads until the connection ends.
pub(crate) async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut answer)).await;
    // A reset after the answer is an end like any other.
    let _ = read.expect("the connection ends");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Reads until these bytes were seen, and returns all that came.
pub(crate) async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut read = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&read).contains(end) {
            let len = stream.read_buf(&mut read).await.expect("readable");
            assert!(
                len > 0,
                "it ends before {end:?}: {}",
                String::from_utf8_lossy(&read)
            );
        }
    };
    timeout(LONG, reading).await.expect("it comes");
    String::from_utf8_lossy(&read).into_owned()
}

/// Longer than anything that ends takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);
