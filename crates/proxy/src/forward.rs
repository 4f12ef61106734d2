//! One request on its way to an upstream, and what is known if no answer comes.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONNECTION, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, request};
use axum::response::IntoResponse;
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy::Error as ClientError;
use hyper_util::client::legacy::connect::capture_connection;
use semel_core::Code;
use semel_engine::once::Op;
use semel_engine::trace::HttpExchange;
use semel_gateway::{Proof, Sender, upstream_unreachable};
use semel_http::{Peer, Problem};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::rustls::{self, AlertDescription};
use tower::Service;

use crate::headers::{add_forwarded, strip_response};
use crate::in_flight::Place;
use crate::settings::Settings;
use crate::tunnels::Tunnels;
use crate::unsent_body::{OutgoingBody, UnsentBody};
use crate::upstreams::{Member, Upstreams};

/// The service behind every route: it sends a request to an upstream.
#[derive(Clone)]
pub(crate) struct Forward(Arc<Shared>);

struct Shared {
    upstreams: Upstreams,
    tunnels: Tunnels,
    connect_timeout: Duration,
    unguarded_timeout: Option<Duration>,
    keep_host: bool,
    trust_forwarded: bool,
    unreachable: AtomicU64,
    in_flight: AtomicU64,
}

/// The reason why there is no answer.
enum Unanswered {
    /// No upstream was connected to.
    Unreachable,
    /// An upstream said that it did not begin.
    Refused,
    /// The connection ended before the head of an answer.
    Broken,
    /// No head of an answer in time.
    Late,
}

impl Forward {
    pub(crate) fn new(upstreams: Upstreams, settings: &Settings) -> Self {
        Self(Arc::new(Shared {
            upstreams,
            tunnels: Tunnels::new(MOST_TUNNELS, settings.upgrade_idle),
            connect_timeout: settings.connect_timeout,
            unguarded_timeout: settings.unguarded_timeout,
            keep_host: settings.keep_host,
            trust_forwarded: settings.trust_forwarded,
            unreachable: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
        }))
    }

    pub(crate) fn upstreams(&self) -> &Upstreams {
        &self.0.upstreams
    }

    pub(crate) fn tunnels(&self) -> &Tunnels {
        &self.0.tunnels
    }

    pub(crate) fn unreachable(&self) -> u64 {
        self.0.unreachable.load(Ordering::Relaxed)
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.0.in_flight.load(Ordering::Relaxed)
    }

    /// Sends a request, and returns the answer, or one that says why there is none.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Response<Body> {
        let shared = &*self.0;
        let _counted = Counted::new(&shared.in_flight);
        let upgrade = request.headers().contains_key(UPGRADE);
        let upgrade = upgrade.then(|| hyper::upgrade::on(&mut request));
        let place = match &upgrade {
            None => None,
            Some(_) => match shared.tunnels.place() {
                Some(place) => Some(place),
                None => return too_many_tunnels(),
            },
        };
        let (head, body) = request.into_parts();
        let op = head.extensions.get::<Op>().cloned();
        let in_flight = head.extensions.get::<Place>().cloned();
        let method = head.method.clone();
        let head = shared.outgoing(head, op.as_ref());
        let body = UnsentBody::new(body);
        let answer = shared.attempt(head, &body, upgrade.is_some(), op.as_ref());
        // A claim has a time of its own.
        let limit = shared.unguarded_timeout.filter(|_| op.is_none());
        let answered = match limit {
            None => answer.await,
            Some(limit) => while_it_moves(limit, &body, answer).await,
        };
        match answered {
            Ok(response) => match (response.status(), upgrade, place) {
                (StatusCode::SWITCHING_PROTOCOLS, Some(upgrade), Some(place)) => {
                    self.upgraded(response, upgrade, place)
                }
                (StatusCode::SWITCHING_PROTOCOLS, ..) => {
                    self.unanswered(&Unanswered::Broken, op.as_ref())
                }
                _ => {
                    let response = returned(response);
                    response.map(|body| match in_flight {
                        Some(place) => place.until_gone(body),
                        None => body,
                    })
                }
            },
            Err(why) => {
                if let Some(op) = &op {
                    // The status of the answer that the client gets is no upstream's.
                    op.exchanged_unless_noted(|| unanswered_exchange(&method));
                }
                self.unanswered(&why, op.as_ref())
            }
        }
    }

    /// Joins both connections, and tells the client that they are.
    fn upgraded(
        &self,
        mut response: Response<Incoming>,
        client: OnUpgrade,
        place: tokio::sync::OwnedSemaphorePermit,
    ) -> Response<Body> {
        let upstream = hyper::upgrade::on(&mut response);
        self.0.tunnels.open(client, upstream, place);
        let protocol = response.headers().get(UPGRADE).cloned();
        let mut response = returned(response);
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        if let Some(protocol) = protocol {
            headers.insert(UPGRADE, protocol);
        }
        response
    }

    fn unanswered(&self, why: &Unanswered, op: Option<&Op>) -> Response<Body> {
        let (status, code, detail, proof) = match why {
            Unanswered::Unreachable => {
                self.0.unreachable.fetch_add(1, Ordering::Relaxed);
                return upstream_unreachable();
            }
            Unanswered::Refused => (
                StatusCode::BAD_GATEWAY,
                Code::UpstreamUnreachable,
                "the service refused the request before it read it; nothing was applied",
                Proof::NotApplied,
            ),
            Unanswered::Broken => (
                StatusCode::BAD_GATEWAY,
                Code::UpstreamBroken,
                "the service gave no whole answer; the request may have been carried out",
                Proof::MaybeApplied,
            ),
            Unanswered::Late => (
                StatusCode::GATEWAY_TIMEOUT,
                Code::UpstreamTimeout,
                "the service gave no answer in time; the request may have been carried out",
                Proof::MaybeApplied,
            ),
        };
        let mut problem = Problem::new(status, code.as_str(), detail);
        if let Some(op) = op {
            problem = problem.with("operation_id", op.operation_id().to_string());
        }
        let mut response = problem.into_response();
        response.extensions_mut().insert(proof);
        response
    }
}

impl Shared {
    /// The head of a request as an upstream is to see it.
    fn outgoing(&self, mut head: request::Parts, op: Option<&Op>) -> request::Parts {
        let peer = head.extensions.get::<Peer>().copied();
        let (version, trusts) = (head.version, self.trust_forwarded);
        head.extensions.clear();
        add_forwarded(&mut head.headers, peer, version, trusts);
        if let Some(trace) = op.and_then(Op::trace) {
            let mut set = |name: &'static str, text: &str| {
                if let Ok(value) = HeaderValue::from_str(text) {
                    head.headers.insert(HeaderName::from_static(name), value);
                }
            };
            set("traceparent", &trace.parent);
            if let Some(state) = &trace.state {
                set("tracestate", state);
            }
        }
        if let Some(upgrade) = head.headers.get(UPGRADE).cloned() {
            let named = HeaderValue::from_static("upgrade");
            head.headers.insert(CONNECTION, named);
            head.headers.insert(UPGRADE, upgrade);
        }
        head
    }

    /// Tries the upstreams in turn until one is connected to. From then on, the request may have been sent, and is not sent
    /// again.
    async fn attempt(
        &self,
        head: request::Parts,
        body: &UnsentBody,
        upgrades: bool,
        op: Option<&Op>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let (method, uri) = (head.method.clone(), head.uri.clone());
        let note = |member: &Member, status| {
            let Some(op) = op else { return };
            op.exchanged(|| {
                let target = member.upstream.target(&uri);
                exchange(&method, target.as_ref().unwrap_or(&uri), status)
            });
        };
        // So an upstream that is away leaves time for another one.
        let last = Instant::now() + self.connect_timeout * 2;
        let mut members = self.upstreams.in_turn().into_iter().peekable();
        let mut unsent = Some(head);
        while let Some(member) = members.next() {
            // The last one gets the head itself.
            let head = match members.peek() {
                Some(_) => unsent.clone(),
                None => unsent.take(),
            };
            let Some(head) = head.filter(|_| Instant::now() < last) else {
                break;
            };
            let Some(outgoing) = body.outgoing() else {
                // Somebody read it, so it may have been sent.
                return Err(Unanswered::Broken);
            };
            let Some(mut request) = self.request(head, outgoing, &member, upgrades) else {
                continue;
            };
            // Whoever runs out of time before the answer is broken off.
            note(&member, None);
            let connected = capture_connection(&mut request);
            let mut answer = pin!(member.client(upgrades).request(request));
            let until = (Instant::now() + self.connect_timeout).min(last);
            let answered = match timeout_at(until, answer.as_mut()).await {
                Ok(answered) => answered,
                // It waits for a connection, and leaves when it is dropped.
                Err(_) if connected.connection_metadata().is_none() => {
                    member.unreached(&io::Error::from(io::ErrorKind::TimedOut));
                    continue;
                }
                Err(_) => answer.await,
            };
            match answered {
                Ok(response) => {
                    member.answered();
                    note(&member, Some(response.status()));
                    return Ok(response);
                }
                // Without a connection to send it on, nothing of it was: the first words of HTTP/2 may fail, too.
                Err(error) if error.is_connect() || connected.connection_metadata().is_none() => {
                    member.unreached(&error);
                }
                Err(error) if is_unsent(&error) => {
                    member.unreached(&error);
                    if body.outgoing().is_none() {
                        // What was read of it went to nobody, and there is no more of it for another one.
                        return Err(Unanswered::Unreachable);
                    }
                }
                Err(error) => return Err(broken(&error)),
            }
        }
        Err(Unanswered::Unreachable)
    }

    fn request(
        &self,
        head: request::Parts,
        body: OutgoingBody,
        member: &Member,
        upgrades: bool,
    ) -> Option<Request<OutgoingBody>> {
        let is_open = !body.is_end_stream() && body.size_hint().exact().is_none();
        let takes_trailers = head.headers.contains_key(TE);
        let may_have_no_body = matches!(head.method, Method::GET | Method::HEAD);
        let mut request = Request::new(body);
        *request.uri_mut() = member.upstream.target(&head.uri).ok()?;
        *request.method_mut() = head.method;
        *request.headers_mut() = head.headers;
        // In HTTP/2, the name is that of the target.
        let is_http2 = member.speaks_http2() && !upgrades;
        if !self.keep_host || is_http2 {
            request.headers_mut().remove(HOST);
        }
        // Without it, hyper takes these for requests without a body, and drops the one that comes in chunks.
        if is_open && !is_http2 && may_have_no_body {
            let chunked = HeaderValue::from_static("chunked");
            request.headers_mut().insert(TRANSFER_ENCODING, chunked);
        }
        // In HTTP/1.1, it is for the next server alone (RFC 9110 §10.1.4).
        if !is_http2 && takes_trailers {
            let named = if upgrades { "upgrade, te" } else { "te" };
            let named = HeaderValue::from_static(named);
            request.headers_mut().insert(CONNECTION, named);
        }
        Some(request)
    }
}

impl Service<Request<Body>> for Forward {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let forward = self.clone();
        Box::pin(async move { Ok(forward.send(request).await) })
    }
}

/// Returns the request that no upstream answered.
fn unanswered_exchange(method: &Method) -> HttpExchange {
    HttpExchange {
        method: Some(method.as_str().into()),
        ..HttpExchange::default()
    }
}

/// Returns the request that an upstream got, for the span of its effect.
fn exchange(method: &Method, target: &Uri, status: Option<StatusCode>) -> HttpExchange {
    let scheme = target.scheme_str().unwrap_or("http");
    let host = target.host().unwrap_or_default();
    let port = target
        .port_u16()
        .unwrap_or(if scheme == "https" { 443 } else { 80 });
    let authority = match target.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    HttpExchange {
        method: Some(method.as_str().into()),
        url: Some(format!("{scheme}://{authority}{}", target.path()).into()),
        server: Some((host.trim_matches(['[', ']']).into(), port)),
        status: status.map(|it| it.as_u16()),
    }
}

/// Waits for an answer as long as the request moves, and `limit` from then on.
async fn while_it_moves(
    limit: Duration,
    body: &UnsentBody,
    answer: impl Future<Output = Result<Response<Incoming>, Unanswered>>,
) -> Result<Response<Incoming>, Unanswered> {
    let mut answer = pin!(answer);
    loop {
        match timeout(limit, answer.as_mut()).await {
            Ok(answered) => return answered,
            Err(_) if body.has_moved() => {}
            Err(_) => return Err(Unanswered::Late),
        }
    }
}

/// The answer of an upstream as the client is to see it.
fn returned(response: Response<Incoming>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    strip_response(&mut head.headers);
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response.extensions_mut().insert(Sender::Server);
    response
}

/// Tells whether a connection that was made ended before it took the request, or before it could be used: the other end
/// closed it, or refused what this one showed of itself. In TLS 1.3 that comes after our own end of the handshake, when
/// the request is on its way; nobody reads it then.
fn is_unsent(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && error.is_canceled()
        {
            return true;
        }
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::AlertReceived(alert)) = tls
            && IN_THE_HANDSHAKE.contains(alert)
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// Finds out what a failure after connecting says.
fn broken(error: &ClientError) -> Unanswered {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<h2::Error>()
            && is_unprocessed(error)
        {
            return Unanswered::Refused;
        }
        next = error.source();
    }
    Unanswered::Broken
}

/// Tells whether the other end says that it has not looked at the request: it refused it, or it leaves, and the request is
/// behind the last one that it takes. Of a connection that ends otherwise, the error is another one.
fn is_unprocessed(error: &h2::Error) -> bool {
    let reason = error.reason();
    let is_left = error.is_go_away() && reason == Some(h2::Reason::NO_ERROR);
    error.is_remote() && (is_left || reason == Some(h2::Reason::REFUSED_STREAM))
}

fn too_many_tunnels() -> Response<Body> {
    let detail = "too many connections are upgraded at this moment; try again later";
    let code = Code::Throttled.as_str();
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).into_response()
}

/// One of those that are counted, until it is dropped.
struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The alerts by which a server ends a handshake, and nothing else.
const IN_THE_HANDSHAKE: [AlertDescription; 9] = [
    AlertDescription::HandshakeFailure,
    AlertDescription::BadCertificate,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateUnknown,
    AlertDescription::UnknownCA,
    AlertDescription::AccessDenied,
    AlertDescription::CertificateRequired,
];
/// The most upgraded connections at once.
const MOST_TUNNELS: usize = 1_024;

#[cfg(test)]
mod tests {
    use axum::http::Uri;
    use hyper_util::client::legacy::Client;
    use hyper_util::client::legacy::connect::{Connected, Connection};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::{DuplexStream, duplex};
    use tower::service_fn;

    use super::*;

    /// A connection to a server that has gone.
    struct Gone(TokioIo<DuplexStream>);

    impl hyper::rt::Read for Gone {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: hyper::rt::ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(context, buffer)
        }
    }

    impl hyper::rt::Write for Gone {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.0).poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(context)
        }
    }

    impl Connection for Gone {
        fn connected(&self) -> Connected {
            Connected::new()
        }
    }

    /// In both orders: the client hands it out first, or sees its end first.
    #[tokio::test]
    async fn a_connection_that_ends_before_it_took_the_request_has_sent_nothing() {
        let connector = service_fn(|_: Uri| {
            let (ours, _theirs) = duplex(1_024);
            std::future::ready(Ok::<_, io::Error>(Gone(TokioIo::new(ours))))
        });
        for http2 in [false, true] {
            let client = Client::builder(TokioExecutor::new())
                .http2_only(http2)
                .build::<_, Body>(connector);
            for _ in 0..100 {
                let mut request = Request::new(Body::from("{}"));
                *request.uri_mut() = Uri::from_static("http://a/charges");
                let connected = capture_connection(&mut request);
                let error = client.request(request).await.expect_err("nobody is there");
                let unsent = connected.connection_metadata().is_none() || is_unsent(&error);
                assert!(unsent, "{error:?}");
            }
        }
    }

    #[test]
    fn only_an_alert_of_the_handshake_says_that_nothing_was_read() {
        let of = |alert| {
            let error = rustls::Error::AlertReceived(alert);
            is_unsent(&io::Error::new(io::ErrorKind::InvalidData, error))
        };
        for alert in IN_THE_HANDSHAKE {
            assert!(of(alert), "{alert:?}");
        }
        for alert in [
            AlertDescription::CloseNotify,
            AlertDescription::InternalError,
            AlertDescription::DecryptError,
            AlertDescription::BadRecordMac,
            AlertDescription::UnexpectedMessage,
        ] {
            assert!(!of(alert), "{alert:?}");
        }
        assert!(!is_unsent(&io::Error::from(io::ErrorKind::ConnectionReset)));
    }
}
