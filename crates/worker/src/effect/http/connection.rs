//! Connections to one place, kept while idle. For every failure they answer one question: was any
//! byte of the request handed over?

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{self, Instant};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError as Bad, ClientConfig, Error as Rustls, RootCertStore};

use semel_core::{Code, Error, ErrorKind, Result};

use super::super::excerpt::one_line;
use super::invalid;
use super::target::Target;

/// The reason why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// No byte of the request was sent, for this reason.
    Unsent(String),
    /// The connection broke after some of the request was sent.
    Broken(String),
    /// The time is over; the request was sent.
    Late,
}

/// A connection that can carry a request.
pub(super) type Connection = SendRequest<Full<Bytes>>;

/// The connections to one place.
pub(super) struct Connections {
    target: Target,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The idle connections. The one used last is used first, so that the others grow old.
    idle: Vec<(Connection, Instant)>,
    /// The tasks that move the bytes of each connection.
    movers: JoinSet<()>,
}

impl Connections {
    pub(super) fn new(target: Target) -> Result<Self> {
        let tls = target.is_tls().then(|| tls(&target)).transpose()?;
        Ok(Self {
            target,
            tls,
            shared: Mutex::default(),
        })
    }

    /// Sends `request`, on an idle connection if there is one.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<(Connection, Response<Incoming>), Failure> {
        loop {
            let (mut connection, was_idle) = match self.take_idle() {
                Some(connection) => (connection, true),
                None => (self.connect(deadline).await?, false),
            };
            match time::timeout_at(deadline, connection.ready()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) if was_idle => continue,
                Ok(Err(error)) => return Err(Failure::Unsent(cause(&error))),
                Err(_) => return Err(Failure::Unsent("the connection was not ready".into())),
            }
            let sent = connection.try_send_request(request);
            match time::timeout_at(deadline, sent).await {
                Ok(Ok(response)) => return Ok((connection, response)),
                Ok(Err(mut error)) => match error.take_message() {
                    // The connection had been closed before anything was written.
                    Some(unsent) if was_idle => request = unsent,
                    Some(_) => return Err(Failure::Unsent(cause(error.error()))),
                    None => return Err(Failure::Broken(cause(error.error()))),
                },
                Err(_) => return Err(Failure::Late),
            }
        }
    }

    /// Keeps a connection whose answer was read to its end.
    pub(super) fn put_back(&self, connection: Connection) {
        if !connection.is_closed() {
            self.shared().idle.push((connection, Instant::now()));
        }
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut shared = self.shared();
        let fresh_since = Instant::now().checked_sub(LONGEST_IDLE)?;
        let stale = shared
            .idle
            .partition_point(|(_, since)| *since < fresh_since);
        shared.idle.drain(..stale);
        while let Some((connection, _)) = shared.idle.pop() {
            if !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// The address, without secrets.
    pub(super) fn masked(&self) -> &str {
        self.target.masked()
    }

    pub(super) async fn connect(&self, deadline: Instant) -> Result<Connection, Failure> {
        let connect = async {
            let address = (self.target.host(), self.target.port());
            let stream = TcpStream::connect(address)
                .await
                .map_err(|error| describe(&error))?;
            stream.set_nodelay(true).map_err(|error| describe(&error))?;
            match &self.tls {
                None => self.shake_hands(stream).await,
                Some((connector, name)) => {
                    let stream = connector
                        .connect(name.clone(), stream)
                        .await
                        .map_err(|error| format!("no TLS: {}", describe_handshake(&error)))?;
                    self.shake_hands(stream).await
                }
            }
        };
        let patience = deadline.min(Instant::now() + LONGEST_CONNECT);
        match time::timeout_at(patience, connect).await {
            Ok(connected) => connected.map_err(Failure::Unsent),
            Err(_) => Err(Failure::Unsent("no connection in time".into())),
        }
    }

    async fn shake_hands<S>(&self, stream: S) -> Result<Connection, String>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (connection, mover) = http1::Builder::new()
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| cause(&error))?;
        let mut shared = self.shared();
        while shared.movers.try_join_next().is_some() {}
        shared.movers.spawn(async {
            // The caller that waits for the answer gets the failure.
            let _ = mover.await;
        });
        Ok(connection)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections")
            .field("to", &self.target.masked())
            .finish_non_exhaustive()
    }
}

fn tls(target: &Target) -> Result<(TlsConnector, ServerName<'static>)> {
    let name = ServerName::try_from(target.host().to_owned())
        .map_err(|_| invalid("url: its host is no name that a certificate can have"))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let message = "the system has no certificates, so no https server can be trusted; install \
                       them or point SSL_CERT_FILE at them";
        return Err(Error::new(ErrorKind::Unavailable, message)
            .with_code(Code::TargetUnavailable)
            .not_applied());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| {
            Error::new(ErrorKind::Internal, "TLS cannot be set up")
                .not_applied()
                .with_source(error)
        })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// The error with its causes: the uppermost layer alone says little.
pub(super) fn cause(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => one_line(format!("{error}: {source}").as_bytes()),
        None => one_line(error.to_string().as_bytes()),
    }
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::ConnectionReset => "connection reset".into(),
        io::ErrorKind::UnexpectedEof => "the connection was closed".into(),
        _ => one_line(error.to_string().as_bytes()),
    }
}

/// Returns the reason why a server was not accepted, and the remedy.
fn describe_handshake(error: &io::Error) -> String {
    let said = error.get_ref().and_then(|it| it.downcast_ref());
    let Some(Rustls::InvalidCertificate(bad)) = said else {
        return describe(error);
    };
    let words = match bad {
        // If an authority was created anew under the same name, its signature does not fit.
        Bad::UnknownIssuer | Bad::BadSignature => {
            "its certificate is of an authority that is not trusted here; install that of the authority, \
             or point SSL_CERT_FILE at it"
        }
        Bad::Expired | Bad::ExpiredContext { .. } => {
            "the time of its certificate is over; renew it there, or correct the clock here"
        }
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
            "its certificate is not valid yet; correct the clock here, or the certificate"
        }
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
            "its certificate is for another name; correct the host in the URL"
        }
        _ => return describe(error),
    };
    words.to_owned()
}

/// The longest idle time. Servers close connections that are idle for longer, and a request that
/// crosses the close may be applied.
const LONGEST_IDLE: Duration = Duration::from_secs(4);
const LONGEST_CONNECT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_not_accepted_is_told_as_what_it_is() {
        for (bad, words) in [
            (Bad::UnknownIssuer, "SSL_CERT_FILE"),
            (Bad::Expired, "renew it"),
            (Bad::NotValidYet, "not valid yet"),
            (Bad::NotValidForName, "another name"),
            (Bad::Revoked, "Revoked"),
        ] {
            let error = io::Error::new(io::ErrorKind::InvalidData, Rustls::InvalidCertificate(bad));
            let said = describe_handshake(&error);
            assert!(said.contains(words), "{said}");
        }
        let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(describe_handshake(&closed), "the connection was closed");
    }
}
