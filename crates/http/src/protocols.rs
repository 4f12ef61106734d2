//! The protocols that a listener speaks with a client, and the moment when it finds out which.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioTimer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_io_timeout::TimeoutStream;

#[cfg(feature = "protocols")]
pub(crate) use self::negotiated::http2_server;
#[cfg(feature = "protocols")]
pub(crate) use self::streams::{Streams, Watched};
use crate::certificate::ClientCertificate;
use crate::limits::Limits;

/// The protocols of a listener. By default it speaks HTTP/1.1, and does not encrypt.
#[cfg(feature = "protocols")]
#[derive(Clone, Default)]
pub struct Protocols {
    /// The encryption of every connection, if there is one.
    pub tls: Option<Arc<tokio_rustls::rustls::ServerConfig>>,
    /// Clients may speak HTTP/2: over TLS those that ask for it, else those that begin with it.
    pub http2: bool,
}

/// The client at the other end of a connection. A listener puts it among the extensions of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// True if the connection is encrypted.
    pub is_encrypted: bool,
}

/// The leave of a connection to last for longer than its listener allows, as long as its client takes what comes. A listener
/// puts it among the extensions of each request, for the one whose answer takes its time.
#[derive(Clone, Debug, Default)]
pub struct Leave(Arc<AtomicBool>);

impl Leave {
    /// Gives the leave; it is not taken back.
    pub fn give(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Tells whether it was given.
    pub fn is_given(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection whose protocol is known.
pub(crate) struct Opened {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) is_encrypted: bool,
    /// The certificate that the client has shown.
    pub(crate) certificate: Option<ClientCertificate>,
    #[cfg(feature = "protocols")]
    pub(crate) speaks_http2: bool,
}

/// Both directions of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Finds out the protocol of new connections.
#[derive(Clone)]
pub(crate) struct Opener {
    /// Nothing where there is only one.
    #[cfg(feature = "protocols")]
    negotiated: Option<negotiated::Negotiated>,
    limits: Limits,
}

impl Opener {
    /// One for HTTP/1.1 without encryption.
    pub(crate) fn plain(limits: Limits) -> Self {
        Self {
            #[cfg(feature = "protocols")]
            negotiated: None,
            limits,
        }
    }

    /// One for these protocols.
    #[cfg(feature = "protocols")]
    pub(crate) fn new(protocols: Protocols, limits: Limits) -> Self {
        let negotiated = Some(negotiated::Negotiated::new(protocols));
        Self { negotiated, limits }
    }

    /// Agrees with a client on the protocol, in the time for the head of a request; nothing if that fails.
    #[cfg_attr(
        not(feature = "protocols"),
        expect(clippy::unused_async, reason = "there is nothing to agree on")
    )]
    pub(crate) async fn open(&self, stream: TcpStream) -> Option<Opened> {
        #[cfg(feature = "protocols")]
        if let Some(negotiated) = &self.negotiated {
            let opened = negotiated.open(stream, self.limits);
            return tokio::time::timeout(self.limits.head, opened)
                .await
                .ok()
                .flatten();
        }
        Some(Opened {
            stream: Box::new(limited(stream, self.limits)),
            is_encrypted: false,
            certificate: None,
            #[cfg(feature = "protocols")]
            speaks_http2: false,
        })
    }
}

/// A connection that finds no room for an answer ends after a while.
fn limited(stream: TcpStream, limits: Limits) -> Pin<Box<TimeoutStream<TcpStream>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.write));
    Box::pin(stream)
}

pub(crate) fn http1_server(limits: Limits) -> http1::Builder {
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .keep_alive(limits.keep_alive)
        .max_headers(MOST_HEADERS)
        .max_header_size(MOST_HEAD_BYTES);
    server
}

/// A service that is told who asks, and counts the requests of its connection. Once a stop is asked for, its answers ask
/// the client to leave.
#[derive(Clone)]
pub(crate) struct WithPeer<S> {
    inner: S,
    peer: Peer,
    certificate: Option<ClientCertificate>,
    pub(crate) requests: Arc<AtomicU64>,
    leave: Leave,
    stop: Arc<watch::Receiver<bool>>,
}

impl<S> WithPeer<S> {
    pub(crate) fn new(
        inner: S,
        (peer, certificate): (Peer, Option<ClientCertificate>),
        (requests, leave): (Arc<AtomicU64>, Leave),
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            inner,
            peer,
            certificate,
            requests,
            leave,
            stop: Arc::new(stop),
        }
    }
}

impl<S, B> Service<Request<Incoming>> for WithPeer<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Parting<S::Future>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.requests.fetch_add(1, Ordering::Relaxed);
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(self.leave.clone());
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        // In HTTP/2, the connection says it itself.
        let can_part = request.version() < Version::HTTP_2;
        Parting {
            stop: can_part.then(|| Arc::clone(&self.stop)),
            answer: Box::pin(self.inner.call(request)),
        }
    }
}

/// An answer, which is the last one of its connection once a stop is asked for.
pub(crate) struct Parting<F> {
    answer: Pin<Box<F>>,
    stop: Option<Arc<watch::Receiver<bool>>>,
}

impl<F, B, E> Future for Parting<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut answer = ready!(self.answer.as_mut().poll(context))?;
        let is_last = self.stop.as_ref().is_some_and(|stop| *stop.borrow());
        if is_last && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let close = HeaderValue::from_static("close");
            answer.headers_mut().insert(CONNECTION, close);
        }
        Poll::Ready(Ok(answer))
    }
}

/// The most headers of a request; beyond them, it is answered 431.
const MOST_HEADERS: usize = 100;
/// The longest head of a request, its first line included; beyond it, the request is answered 431.
const MOST_HEAD_BYTES: usize = 64 << 10;

#[cfg(feature = "protocols")]
mod negotiated;
#[cfg(feature = "protocols")]
mod streams;
