//! The bytes of a client's connection, before the proxy, and the bytes that reach its upstream: whatever a client writes,
//! the upstream sees no request that a second reading of the same bytes does not find there.

mod reading;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use semel_engine::once::Once;
use semel_engine::system::SystemClock;
use semel_gateway::Route;
use semel_proxy::{PathRoute, Proxy, Settings, Upstream};
use semel_store_memory::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, spawn_local, yield_now};
use tokio::time::timeout;

use self::reading::{End, Message, requests};
use super::Fate;

/// Checks the bytes of a connection.
pub(crate) fn check(data: &[u8]) -> Result<Fate, String> {
    WORLD.with_borrow_mut(|world| {
        let world = if let Some(world) = world {
            world
        } else {
            let new = World::new().map_err(|error| error.to_string())?;
            world.insert(Box::leak(Box::new(new)))
        };
        let mut sent = data.to_vec();
        sent.extend_from_slice(LAST);
        let (expected, _) = requests(&sent, false);
        let answers = world.run(&sent, &expected)?;
        let seen = std::mem::take(&mut *world.seen.borrow_mut());
        judge(&expected, &answers, &seen)
    })
}

/// Compares what reached the upstream, and what came back, with what was read.
fn judge(expected: &[Message], answers: &[u16], seen: &[Seen]) -> Result<Fate, String> {
    let mut readings = expected.iter();
    let mut arrived = 0;
    for seen in seen {
        let message = match seen {
            Seen::Request(message) => message,
            Seen::Unreadable(bytes) => {
                return Err(format!("the upstream cannot read {}", shown(bytes)));
            }
        };
        arrived += 1;
        if !readings.any(|reading| is_same(reading, message)) {
            return Err(format!("the upstream sees {message:?}, which nobody sent"));
        }
    }
    // The last one may be the refusal of what is no request.
    if answers.len() > expected.len() + 1 {
        let (answers, requests) = (answers.len(), expected.len());
        return Err(format!("{answers} answers to {requests} requests"));
    }
    let refused = answers.iter().any(|status| (400..500).contains(status));
    Ok(if arrived > 0 && !refused {
        Fate::Accepted
    } else {
        Fate::Refused
    })
}

/// Tells whether a request that arrived is this one, passed on.
fn is_same(sent: &Message, arrived: &Message) -> bool {
    let names: BTreeSet<_> = sent.fields.iter().map(|(name, _)| &name[..]).collect();
    let is_known = |name: &[u8]| names.contains(name) || ADDED.contains(&name);
    sent.method == arrived.method
        && sent.target == arrived.target
        && sent.body == arrived.body
        && arrived.fields.iter().all(|(name, _)| is_known(name))
}

/// A proxy before an upstream, both on this thread.
struct World {
    runtime: Runtime,
    tasks: LocalSet,
    address: SocketAddr,
    proxy: Proxy,
    seen: Rc<RefCell<Vec<Seen>>>,
}

/// A thing that the upstream was sent.
enum Seen {
    Request(Message),
    /// Bytes that are no request as a proxy writes one.
    Unreadable(Vec<u8>),
}

impl World {
    fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let tasks = LocalSet::new();
        let seen = Rc::default();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        tasks.spawn_local(upstream(listener, Rc::clone(&seen)));
        let proxy = proxy(address)?;
        Ok(Self {
            runtime,
            tasks,
            address,
            proxy,
            seen,
        })
    }

    /// Sends all of it on a connection, and returns the statuses of the answers.
    fn run(&mut self, sent: &[u8], expected: &[Message]) -> Result<Vec<u16>, String> {
        let is_key = |word: &[u8]| word.eq_ignore_ascii_case(b"-key");
        if sent.windows(4).any(is_key) {
            // So that no key was used before.
            self.proxy = proxy(self.address).map_err(|error| error.to_string())?;
        }
        let proxy = self.proxy.clone();
        let count = expected.len();
        let exchange = async {
            let (client, server) = duplex(1 << 20);
            let service = service_fn(move |request: Request<_>| {
                let proxy = proxy.clone();
                async move { Ok::<_, Infallible>(proxy.answer(request.map(Body::new)).await) }
            });
            // As the listener serves it.
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE * 2)
                .max_headers(100)
                .max_header_size(64 << 10)
                .serve_connection(TokioIo::new(server), service)
                .with_upgrades();
            let serving = spawn_local(connection);
            let answered = timeout(PATIENCE, answers(client, sent, count)).await;
            serving.abort();
            answered.map_err(|_| "the connection neither goes on nor ends".to_owned())
        };
        self.tasks.block_on(&self.runtime, exchange)
    }
}

/// Writes, and reads to the end; ends its own side where nobody can say whether more is to come.
async fn answers(mut client: DuplexStream, sent: &[u8], count: usize) -> Vec<u16> {
    let mut read = Vec::new();
    if client.write_all(sent).await.is_err() {
        return Vec::new();
    }
    let mut is_ended = false;
    loop {
        let statuses = statuses(&read);
        if statuses.len() >= count && !is_ended {
            // What the other reading takes for a request more has the time to be one.
            for _ in 0..50 {
                yield_now().await;
            }
            is_ended = true;
            let _ = client.shutdown().await;
        }
        match client.read_buf(&mut read).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return self::statuses(&read),
        }
    }
}

/// The statuses of all final answers.
fn statuses(read: &[u8]) -> Vec<u16> {
    let lines = read.windows(12).filter(|it| it.starts_with(b"HTTP/1."));
    let numbers = lines.filter_map(|it| std::str::from_utf8(&it[9..]).ok()?.parse().ok());
    numbers.filter(|status| *status >= 200).collect()
}

fn proxy(address: SocketAddr) -> io::Result<Proxy> {
    let url = format!("http://{address}").parse();
    let url = url.map_err(|_| io::Error::other("no URL"))?;
    let mut settings = Settings::new(vec![Upstream::new(url)]);
    let path = "/charges".parse().map_err(io::Error::other)?;
    settings.routes.push(PathRoute {
        path,
        methods: Vec::new(),
        route: Route::default(),
        proof: None,
    });
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
    Proxy::new(&Once::new(store), settings).map_err(io::Error::other)
}

/// Reads requests as strictly as can be, and answers them.
#[expect(clippy::future_not_send, reason = "all of it is on one thread")]
async fn upstream(listener: TcpListener, seen: Rc<RefCell<Vec<Seen>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        spawn_local(answer(stream, Rc::clone(&seen)));
    }
}

#[expect(clippy::future_not_send, reason = "all of it is on one thread")]
async fn answer(mut stream: TcpStream, seen: Rc<RefCell<Vec<Seen>>>) {
    let mut read = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut read).await {
        match requests(&read, true) {
            (_, End::Open) => {}
            (messages, End::Whole | End::Closed) => {
                read.clear();
                for message in messages {
                    seen.borrow_mut().push(Seen::Request(message));
                    if stream.write_all(ANSWER).await.is_err() {
                        return;
                    }
                }
            }
            (_, End::Wrong) => {
                seen.borrow_mut().push(Seen::Unreadable(read));
                return;
            }
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

thread_local! {
    /// One for each thread, for good: the end of a thread is too late to end a runtime.
    static WORLD: RefCell<Option<&'static mut World>> = const { RefCell::new(None) };
}

/// The last request of every connection.
const LAST: &[u8] = b"GET /last HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok";
/// Longer than anything that ends takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The fields that the proxy writes itself.
const ADDED: &[&[u8]] = &[
    b"connection",
    b"content-length",
    b"forwarded",
    b"host",
    b"semel-operation-id",
    b"transfer-encoding",
    b"via",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
];

pub(crate) const WORDS: &[&[u8]] = &[
    b"POST /charges HTTP/1.1\r\nhost: a\r\n",
    b"GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n",
    b"PUT http://a/b HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    b"idempotency-key: k\r\n",
    b"content-length: 4\r\n",
    b"content-length: 0\r\n",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: chunked",
    b"Transfer-Encoding : chunked\r\n",
    b"connection: close\r\n",
    b"connection: keep-alive\r\n",
    b"connection: content-length\r\n",
    b"expect: 100-continue\r\n",
    b"te: trailers\r\n",
    b"trailer: x\r\n",
    b"upgrade: websocket\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"\x0b",
    b"\0",
    b"\t",
    b" ",
    b",",
    b"+4",
    b"0x4",
    b"4\r\nabcd\r\n",
    b"4;x=y\r\nabcd\r\n",
    b"4 ;x=\"\n\"\r\nabcd\r\n",
    b"ffffffffffffffff\r\n",
    b"10000000000000004\r\n",
    b"0\r\n\r\n",
    b"0\r\nx: y\r\n\r\n",
];
