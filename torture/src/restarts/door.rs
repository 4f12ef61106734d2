//! The way of clients into a gateway: plain, encrypted, or in HTTP/2.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use semel_conformance::certificates::{Authority, Issued};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::http::{Broken, Connection, Reply};

/// The protocol of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// HTTP/1.1 in the clear.
    Plain,
    /// HTTP/1.1 over TLS.
    Encrypted,
    /// HTTP/2 over TLS. Those who keep their connections share one.
    Http2,
}

impl Speech {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "HTTP/1.1",
            Self::Encrypted => "HTTP/1.1 over TLS",
            Self::Http2 => "HTTP/2 over TLS",
        }
    }
}

/// The way in.
pub(super) struct Door {
    pub(super) address: SocketAddr,
    encryption: Option<Encryption>,
    http2: Option<Http2>,
    connections: AtomicU64,
    unprocessed: AtomicU64,
}

/// The certificate of the gateway, and those who believe it.
struct Encryption {
    client: Arc<ClientConfig>,
    issued: Issued,
    /// Its folder goes with it.
    _authority: Authority,
}

/// Connections in HTTP/2, which live between requests, too.
struct Http2 {
    runtime: Runtime,
    shared: Mutex<Option<Sender>>,
}

type Sender = SendRequest<Full<Bytes>>;

impl Door {
    pub(super) fn new(address: SocketAddr, speech: Speech) -> Self {
        let http2 = (speech == Speech::Http2).then(|| {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(1).enable_all().build();
            Http2 {
                runtime: runtime.expect("a runtime"),
                shared: Mutex::default(),
            }
        });
        let is_encrypted = speech != Speech::Plain;
        Self {
            address,
            encryption: is_encrypted.then(|| Encryption::new(http2.is_some())),
            http2,
            connections: AtomicU64::new(0),
            unprocessed: AtomicU64::new(0),
        }
    }

    /// The table of the gateway's settings about encryption.
    pub(super) fn table(&self) -> String {
        let table = |Encryption { issued, .. }: &Encryption| {
            format!(
                "[gateway.tls]\ncert = '{}'\nkey = '{}'\n",
                issued.cert.display(),
                issued.key.display()
            )
        };
        self.encryption.as_ref().map(table).unwrap_or_default()
    }

    /// The number of connections that were opened.
    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// The number of requests in HTTP/2 that the gateway, which had said that it leaves, did not look at. They crossed with
    /// its words; clients send them again by themselves.
    pub(super) fn unprocessed(&self) -> u64 {
        self.unprocessed.load(Ordering::SeqCst)
    }

    /// Sends one request, on the connection that was kept or on a new one. Returns the answer, and the connection if it
    /// may be used again.
    pub(super) fn ask(
        &self,
        (key, body): (&str, &str),
        kept: Option<Connection>,
        keeps: bool,
    ) -> Result<(Reply, Option<Connection>), Broken> {
        if let Some(http2) = &self.http2 {
            let asked =
                async { timeout(PATIENCE, self.ask_http2(http2, (key, body), keeps)).await };
            let asked = http2.runtime.block_on(asked);
            return Ok((asked.map_err(|_| Broken::Unanswered)??, None));
        }
        let opened = || {
            self.connections.fetch_add(1, Ordering::SeqCst);
            match &self.encryption {
                None => Connection::open(self.address, PATIENCE),
                Some(it) => Connection::encrypted(self.address, PATIENCE, Arc::clone(&it.client)),
            }
        };
        let mut connection = kept.map_or_else(opened, Ok)?;
        let reply = connection.post(key, body, !keeps)?;
        let is_last = !keeps || reply.header("connection") == Some("close");
        Ok((reply, (!is_last).then_some(connection)))
    }

    async fn ask_http2(
        &self,
        http2: &Http2,
        (key, body): (&str, &str),
        keeps: bool,
    ) -> Result<Reply, Broken> {
        let made = || {
            let request = Request::post("https://localhost/charges")
                .header("idempotency-key", key)
                .header("content-type", "application/json")
                .body(Full::new(Bytes::from(body.to_owned())));
            request.expect("a request")
        };
        let mut request = made();
        loop {
            let shared = http2.shared.lock().expect("no panic").clone();
            let mut sender = match shared.filter(|it| keeps && !it.is_closed()) {
                Some(sender) => sender,
                None => self.connected().await?,
            };
            if keeps {
                *http2.shared.lock().expect("no panic") = Some(sender.clone());
            }
            let mut failed = match sender.try_send_request(request).await {
                Ok(answer) => {
                    let (head, body) = answer.into_parts();
                    let body = body.collect().await.map_err(|_| Broken::Cut)?;
                    return Ok(Reply::of(&head, body.to_bytes().to_vec()));
                }
                Err(failed) => failed,
            };
            // Nobody refused a request that never left: the gateway has said before that it leaves.
            let unsent = failed.take_message();
            let why = failed.into_error();
            let is_unprocessed = unsent.is_none() && is_unprocessed(&why);
            self.unprocessed
                .fetch_add(u64::from(is_unprocessed), Ordering::SeqCst);
            request = match unsent {
                Some(unsent) => unsent,
                None if is_unprocessed => made(),
                None => panic!("{key}: a request was refused: {why:?}"),
            };
        }
    }

    async fn connected(&self) -> Result<Sender, Broken> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let encryption = self.encryption.as_ref().expect("a certificate");
        let stream = TcpStream::connect(self.address).await;
        let stream = stream.map_err(|_| Broken::Refused)?;
        let connector = TlsConnector::from(Arc::clone(&encryption.client));
        let host = ServerName::try_from("localhost").expect("a name");
        let stream = connector.connect(host, stream).await;
        let stream = stream.map_err(|_| Broken::Refused)?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let both = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = both.map_err(|_| Broken::Refused)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Tells whether the gateway says that it has not looked at the request.
fn is_unprocessed(error: &hyper::Error) -> bool {
    let found = error.source().and_then(|it| it.downcast_ref::<h2::Error>());
    found.is_some_and(|it| {
        it.is_remote() && it.is_go_away() && it.reason() == Some(h2::Reason::NO_ERROR)
    })
}

impl Encryption {
    fn new(is_http2: bool) -> Self {
        let authority = Authority::new();
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_file(&authority.path).expect("a certificate");
        roots.add(root).expect("a certificate");
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let client = client.with_safe_default_protocol_versions();
        let client = client.expect("the usual versions");
        let mut client = client.with_root_certificates(roots).with_no_client_auth();
        if is_http2 {
            client.alpn_protocols = vec![b"h2".to_vec()];
        }
        Self {
            client: Arc::new(client),
            issued: authority.issue("gateway", &[]),
            _authority: authority,
        }
    }
}

/// The time for what must happen, however busy the machine is.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
