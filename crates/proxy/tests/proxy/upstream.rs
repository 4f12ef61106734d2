//! An upstream that reads requests by the letter, and keeps every byte.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    /// The request line and the fields.
    pub(crate) head: String,
    /// The body, decoded.
    pub(crate) body: Vec<u8>,
}

type Handling = Pin<Box<dyn Future<Output = Option<TcpStream>> + Send>>;
type Handler = dyn Fn(usize, Arrived, TcpStream) -> Handling + Send + Sync;

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    /// The connections and what serves them.
    _running: JoinSet<()>,
}

impl Arrived {
    /// The value of a field, if it is there once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().skip(1).filter_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        let value = values.next();
        assert!(values.next().is_none(), "{name} twice: {}", self.head);
        value
    }

    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }
}

impl Upstream {
    /// An upstream that answers its requests, counted from 1, with these bytes.
    pub(crate) async fn answering(
        answer: impl Fn(usize, &Arrived) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |call, arrived, mut stream| {
            let bytes = answer(call, &arrived);
            Box::pin(async move {
                stream.write_all(&bytes).await.ok()?;
                Some(stream)
            })
        })
        .await
    }

    /// An upstream that answers 201 with the number of the request.
    pub(crate) async fn counting() -> Self {
        Self::answering(|call, _| created(call)).await
    }

    /// An upstream that answers 201 with the number of the request, each time for a permit of this semaphore.
    pub(crate) async fn gated() -> (Self, Arc<Semaphore>) {
        let free = Arc::new(Semaphore::new(0));
        let gate = Arc::clone(&free);
        let upstream = Self::new(move |call, _, mut stream| {
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                gate.acquire().await.ok()?.forget();
                stream.write_all(&created(call)).await.ok()?;
                Some(stream)
            })
        });
        (upstream.await, free)
    }

    /// An upstream that does with a connection what it likes; it ends with the connection that it does not give back.
    pub(crate) async fn new(
        handler: impl Fn(usize, Arrived, TcpStream) -> Handling + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self::at(listener, handler)
    }

    pub(crate) fn at(
        listener: TcpListener,
        handler: impl Fn(usize, Arrived, TcpStream) -> Handling + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("an address");
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let mut running = JoinSet::new();
        let (seen, handler): (_, Arc<Handler>) = (Arc::clone(&arrived), Arc::new(handler));
        running.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&seen), Arc::clone(&handler)));
            }
        });
        Self {
            address,
            arrived,
            _running: running,
        }
    }

    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().expect("no panic").clone()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn has(&self, count: usize) {
        while self.arrived().len() < count {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The only request that came.
    #[track_caller]
    pub(crate) fn only(&self) -> Arrived {
        let arrived = self.arrived();
        assert_eq!(arrived.len(), 1, "{arrived:?}");
        arrived[0].clone()
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<Arrived>>>, handler: Arc<Handler>) {
    let mut buffer = Vec::new();
    while let Some(arrived) = next(&mut stream, &mut buffer).await {
        let call = {
            let mut seen = seen.lock().expect("no panic");
            seen.push(arrived.clone());
            seen.len()
        };
        match handler(call, arrived, stream).await {
            Some(back) => stream = back,
            None => return,
        }
    }
}

async fn next(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Arrived> {
    let head = until(stream, buffer, b"\r\n\r\n").await?;
    let head = String::from_utf8(head).expect("the head is a text");
    let mut arrived = Arrived {
        head,
        body: Vec::new(),
    };
    let codings = arrived.field("transfer-encoding").map(str::to_owned);
    let len = arrived.field("content-length").map(str::to_owned);
    match (codings.as_deref(), len) {
        (Some("chunked"), None) => loop {
            let size = until(stream, buffer, b"\r\n").await?;
            let size = String::from_utf8(size).expect("a size");
            let size = usize::from_str_radix(size.trim(), 16).expect("a size alone");
            let chunk = exactly(stream, buffer, size).await?;
            arrived.body.extend_from_slice(&chunk);
            if size == 0 {
                // Trailers end with an empty line, too.
                while until(stream, buffer, b"\r\n").await?.len() > 2 {}
                break;
            }
            exactly(stream, buffer, 2).await?;
        },
        (None, Some(len)) => {
            let len = len.parse().expect("a length");
            arrived.body = exactly(stream, buffer, len).await?;
        }
        (None, None) => {}
        both => panic!("this can be read in two ways: {both:?} {}", arrived.head),
    }
    Some(arrived)
}

async fn until(stream: &mut TcpStream, buffer: &mut Vec<u8>, end: &[u8]) -> Option<Vec<u8>> {
    loop {
        if let Some(at) = buffer.windows(end.len()).position(|it| it == end) {
            return Some(buffer.drain(..at + end.len()).collect());
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

async fn exactly(stream: &mut TcpStream, buffer: &mut Vec<u8>, len: usize) -> Option<Vec<u8>> {
    while buffer.len() < len {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    Some(buffer.drain(..len).collect())
}

/// An answer with these fields, each with its end of line.
pub(crate) fn answer(status: &str, fields: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {len}\r\n{fields}\r\n{body}").into_bytes()
}

pub(crate) fn created(call: usize) -> Vec<u8> {
    answer("201 Created", "x-upstream: 1\r\n", &format!("call {call}"))
}
