//! The protocols that a client asks for: HTTP/2 and TLS.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::TokioTimer;
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::streams::Streams;
use super::{MOST_HEAD_BYTES, Opened, Protocols, limited};
use crate::certificate::ClientCertificate;
use crate::limits::Limits;

#[derive(Clone)]
pub(super) struct Negotiated {
    tls: Option<TlsAcceptor>,
    http2: bool,
}

impl Negotiated {
    pub(super) fn new(protocols: Protocols) -> Self {
        let http2 = protocols.http2;
        let tls = protocols.tls.map(|config| {
            let mut config = ServerConfig::clone(&config);
            config.alpn_protocols = vec![HTTP_1.to_vec()];
            if http2 {
                config.alpn_protocols.insert(0, HTTP_2.to_vec());
            }
            TlsAcceptor::from(Arc::new(config))
        });
        Self { tls, http2 }
    }

    pub(super) async fn open(&self, stream: TcpStream, limits: Limits) -> Option<Opened> {
        // Over TLS, both ends have agreed on it before the first byte.
        let begins_http2 = self.http2 && self.tls.is_none() && begins_http2(&stream).await;
        let stream = limited(stream, limits);
        let Some(tls) = &self.tls else {
            return Some(Opened {
                stream: Box::new(stream),
                is_encrypted: false,
                certificate: None,
                speaks_http2: begins_http2,
            });
        };
        let stream = tls.accept(stream).await.ok()?;
        let session = stream.get_ref().1;
        let speaks_http2 = session.alpn_protocol() == Some(HTTP_2);
        // The handshake has checked it. Its own comes before those of its authorities.
        let shown = session.peer_certificates().and_then(<[_]>::first);
        let certificate = match shown {
            Some(shown) => Some(ClientCertificate::of_der(shown)?),
            None => None,
        };
        Some(Opened {
            stream: Box::new(stream),
            is_encrypted: true,
            certificate,
            speaks_http2,
        })
    }
}

impl fmt::Debug for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tls, http2 } = self;
        f.debug_struct("Protocols")
            .field("tls", &tls.is_some())
            .field("http2", http2)
            .finish()
    }
}

/// Tells whether a client begins with the preface of HTTP/2. Its first three letters are those of no other method.
async fn begins_http2(stream: &TcpStream) -> bool {
    let mut first = [0; PREFACE.len()];
    loop {
        let Ok(len @ 1..) = stream.peek(&mut first).await else {
            return false;
        };
        if first[..len] != PREFACE[..len] {
            return false;
        }
        if len == PREFACE.len() {
            return true;
        }
        // It is readable, and says no more yet.
        sleep(PEEK_AGAIN).await;
    }
}

pub(crate) fn http2_server(limits: Limits, streams: Streams) -> http2::Builder<Streams> {
    let mut server = http2::Builder::new(streams);
    server
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.head.max(SHORTEST_PING))
        .keep_alive_timeout(limits.head.max(SHORTEST_PING))
        .max_concurrent_streams(MOST_STREAMS)
        .max_pending_accept_reset_streams(MOST_RESET_STREAMS)
        .max_local_error_reset_streams(MOST_FAULTY_STREAMS)
        .max_header_list_size(u32::try_from(MOST_HEAD_BYTES).unwrap_or(u32::MAX));
    server
}

const HTTP_1: &[u8] = b"http/1.1";
const HTTP_2: &[u8] = b"h2";
const PREFACE: &[u8; 3] = b"PRI";
const PEEK_AGAIN: Duration = Duration::from_millis(5);
/// The shortest time between two looks at a silent connection of HTTP/2, and for its answer.
const SHORTEST_PING: Duration = Duration::from_secs(1);
/// The most requests at once on a connection of HTTP/2.
const MOST_STREAMS: u32 = 128;
/// The most requests of a connection that the client took back before they were begun.
const MOST_RESET_STREAMS: usize = 20;
/// The most requests of a connection that were refused for how they are written.
const MOST_FAULTY_STREAMS: usize = 64;
