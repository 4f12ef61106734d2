//! One request on a connection of its own. Every failure says whether any byte of the request was handed over.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{self, Instant};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::address::Address;

/// The reason why there is no whole answer.
#[derive(Debug)]
pub(crate) enum Broken {
    /// No byte of the request was sent.
    Unsent(String),
    /// The connection broke after some of the request was sent.
    Sent(String),
    /// The time is over; the request was sent.
    Late,
    /// The answer is longer than is read.
    TooLarge,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Sends a request, and reads the answer to its end.
///
/// # Cancel safety
///
/// The connection is closed; the request may have been sent
pub(crate) async fn exchange(
    address: &Address,
    tls: Option<&Arc<ClientConfig>>,
    request: Request<Full<Bytes>>,
    within: Duration,
) -> Result<Answer, Broken> {
    let deadline = Instant::now() + within;
    match connected(address, tls, deadline).await? {
        Either::Plain(stream) => talk(stream, request, deadline).await,
        Either::Tls(stream) => talk(stream, request, deadline).await,
    }
}

/// Sends a request, and passes the body of a good answer to `visit` as it comes, as long as that goes on and no part is
/// waited for longer than `within`; the answer that is returned has no body then. Reads any other answer to its end.
///
/// # Cancel safety
///
/// As [`exchange`]
pub(crate) async fn download(
    address: &Address,
    tls: Option<&Arc<ClientConfig>>,
    request: Request<Full<Bytes>>,
    (within, visit): (Duration, Visit<'_>),
) -> Result<Answer, Broken> {
    match connected(address, tls, Instant::now() + within).await? {
        Either::Plain(stream) => take(stream, request, (within, visit)).await,
        Either::Tls(stream) => take(stream, request, (within, visit)).await,
    }
}

/// Takes a part of an answer.
pub(crate) type Visit<'v> = &'v mut (dyn FnMut(Bytes) -> ControlFlow<()> + Send);

/// Connects.
async fn connected(
    address: &Address,
    tls: Option<&Arc<ClientConfig>>,
    deadline: Instant,
) -> Result<Either<TcpStream, Box<TlsStream<TcpStream>>>, Broken> {
    let patience = deadline.min(Instant::now() + LONGEST_CONNECT);
    let connect = async {
        let stream = TcpStream::connect((address.host(), address.port())).await;
        let stream = stream.map_err(|error| Broken::Unsent(in_words(&error)))?;
        let _ = stream.set_nodelay(true);
        let Some(config) = tls else {
            return Ok(Either::Plain(stream));
        };
        let name = ServerName::try_from(address.host().to_owned());
        let name = name.map_err(|_| {
            Broken::Unsent("no TLS: its host is no name that a certificate can have".to_owned())
        })?;
        let connector = TlsConnector::from(Arc::clone(config));
        match connector.connect(name, stream).await {
            Ok(stream) => Ok(Either::Tls(Box::new(stream))),
            Err(error) => Err(Broken::Unsent(format!("no TLS: {}", refusal(&error)))),
        }
    };
    let connected = time::timeout_at(patience, connect).await;
    let late = || Broken::Unsent(format!("no connection within {LONGEST_CONNECT:?}"));
    connected.map_err(|_| late())?
}

enum Either<A, B> {
    Plain(A),
    Tls(B),
}

async fn talk<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    deadline: Instant,
) -> Result<Answer, Broken>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let exchange = async {
        let (_line, answer) = asked(stream, request).await?;
        whole(answer).await
    };
    let done = time::timeout_at(deadline, exchange).await;
    done.unwrap_or(Err(Broken::Late))
}

/// Sends a request, and takes what comes.
async fn take<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    (within, visit): (Duration, Visit<'_>),
) -> Result<Answer, Broken>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let late = |_| Broken::Late;
    let asked = time::timeout(within, asked(stream, request)).await;
    let (_line, answer) = asked.map_err(late)??;
    if !answer.status().is_success() {
        let answer = time::timeout(within, whole(answer)).await;
        return answer.map_err(late)?;
    }
    let (head, mut body) = answer.into_parts();
    while let Some(frame) = time::timeout(within, body.frame()).await.map_err(late)? {
        let frame = frame.map_err(|error| Broken::Sent(cause(&error)))?;
        if let Ok(part) = frame.into_data()
            && visit(part).is_break()
        {
            break;
        }
    }
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body: Bytes::new(),
    })
}

/// A connection that is open. Dropping it closes it.
struct Line {
    _sender: http1::SendRequest<Full<Bytes>>,
    _mover: JoinSet<hyper::Result<()>>,
}

/// Sends a request, and returns the beginning of the answer with the connection that the rest comes over.
async fn asked<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<(Line, Response<Incoming>), Broken>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, mover) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| Broken::Unsent(cause(&error)))?;
    let mut movers = JoinSet::new();
    movers.spawn(mover);
    let answer = sender.try_send_request(request).await;
    let answer = answer.map_err(|mut error| match error.take_message() {
        Some(_) => Broken::Unsent(cause(error.error())),
        None => Broken::Sent(cause(error.error())),
    })?;
    let line = Line {
        _sender: sender,
        _mover: movers,
    };
    Ok((line, answer))
}

/// Reads an answer to its end.
async fn whole(answer: Response<Incoming>) -> Result<Answer, Broken> {
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MOST_BYTES).collect().await;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return Broken::TooLarge;
        }
        Broken::Sent(
            error
                .downcast_ref()
                .map_or_else(|| error.to_string(), cause),
        )
    })?;
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body: body.to_bytes(),
    })
}

/// The error with its cause: the uppermost layer alone says little.
fn cause(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        _ => error.to_string(),
    }
}

/// The reason why the other end was not accepted, in the words of the command line.
fn refusal(error: &io::Error) -> String {
    let refused = semel_tls::refusal(error).map(|it| it.words);
    let words = refused.unwrap_or_else(|| in_words(error));
    words
        .replace("in `tls.ca`", "with --ca FILE")
        .replace("`tls.ca`", "--ca FILE")
}

/// The time within which there is a connection.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);
/// The most of an answer that is read.
pub(crate) const MOST_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};
    use tokio::net::TcpListener;
    use tokio_rustls::rustls::RootCertStore;
    use tokio_rustls::rustls::crypto::ring;

    use super::*;

    fn request() -> Request<Full<Bytes>> {
        let request = Request::get("/v1/keys").body(Full::default());
        request.expect("a request")
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_worker_is_late_at_the_deadline_and_one_that_hangs_up_broke_off() {
        for hangs_up in [false, true] {
            let (ours, theirs) = duplex(4096);
            let deadline = Instant::now() + Duration::from_secs(90);
            let (mut reader, writer) = tokio::io::split(theirs);
            let worker = async {
                let mut begin = [0; 4];
                reader.read_exact(&mut begin).await.expect("a request");
                assert_eq!(&begin, b"GET ");
                if hangs_up {
                    drop((reader, writer));
                } else {
                    time::sleep_until(deadline + Duration::from_secs(1)).await;
                    drop((reader, writer));
                }
            };
            let (answer, ()) = tokio::join!(talk(ours, request(), deadline), worker);
            match answer {
                Err(Broken::Late) => assert!(!hangs_up),
                Err(Broken::Sent(_)) => assert!(hangs_up),
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_takes_no_connection_in_time_was_sent_nothing() {
        // It accepts nothing, and so never answers what TLS begins with.
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let place = listener.local_addr().expect("an address");
        let address = Address::parse(&format!("https://{place}")).expect("an address");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let within = Duration::from_secs(90);
        let answer = exchange(&address, Some(&Arc::new(config)), request(), within).await;
        match answer {
            Err(Broken::Unsent(why)) => assert!(why.contains("no connection within 10s"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}
