//! HTTP/2 and TLS, on either side.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Request, Response, Version, request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use semel_conformance::certificates::Authority;
use semel_http::{Limits, Listener, Protocols};
use semel_proxy::Upstream as Settings;
use semel_tls::{Identity, Tls};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, version};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::site::{LONG, Seen, Site, at, rest};
use crate::upstream::Upstream;

/// An upstream that speaks what it is asked to.
struct Modern {
    address: SocketAddr,
    arrived: Arc<Mutex<Vec<request::Parts>>>,
    _running: JoinSet<()>,
}

impl Modern {
    async fn new(protocols: Protocols) -> Self {
        let any = "127.0.0.1:0".parse().expect("an address");
        let listener = Listener::bind("upstream", any).await.expect("bound");
        let address = listener.address();
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&arrived);
        let service = service_fn(move |request: Request<_>| {
            let (head, body) = request.map(Body::new).into_parts();
            let call = {
                let mut seen = seen.lock().expect("no panic");
                seen.push(head.clone());
                seen.len()
            };
            async move { Ok::<_, Infallible>(answer(call, &head, body).await) }
        });
        let mut running = JoinSet::new();
        running.spawn(listener.serve_as(protocols, Limits::API, service, std::future::pending()));
        Self {
            address,
            arrived,
            _running: running,
        }
    }

    fn settings(&self, scheme: &str, http2: bool, tls: Tls) -> Settings {
        let url = format!("{scheme}://{}", self.address);
        let mut settings = Settings::new(url.parse().expect("a URL"));
        (settings.http2, settings.tls) = (http2, tls);
        settings
    }

    fn arrived(&self) -> Vec<request::Parts> {
        self.arrived.lock().expect("no panic").clone()
    }
}

async fn answer(call: usize, head: &request::Parts, body: Body) -> Response<Body> {
    let read = body.collect().await.map(|it| it.to_bytes().len());
    let text = format!("call {call} with {}", read.unwrap_or(0));
    let body = Full::new(Bytes::from(text));
    if !head.headers.contains_key("te") {
        return Response::new(Body::new(body));
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = body.with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = Response::new(Body::new(body));
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", kind);
    response
}

/// An answer with its trailers.
struct Answered {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

/// A client on a connection of its own.
async fn client<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: T,
) -> SendRequest<Full<Bytes>> {
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .expect("both speak it");
    tokio::spawn(connection);
    client
}

async fn ask(
    client: &mut SendRequest<Full<Bytes>>,
    url: &str,
    fields: &[(&str, &str)],
) -> Answered {
    let mut request = Request::post(url);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let body = Full::new(Bytes::from_static(b"{}"));
    let request = request.body(body).expect("a request");
    let response = timeout(LONG, client.send_request(request)).await;
    let response = response.expect("in time").expect("an answer");
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("a body");
    Answered {
        status: head.status.as_u16(),
        headers: head.headers,
        trailers: body.trailers().cloned(),
        body: body.to_bytes(),
    }
}

fn identity(authority: &Authority, name: &str) -> Protocols {
    let issued = authority.issue(name, &[]);
    let identity = Identity {
        cert: issued.cert,
        key: issued.key,
        client_ca: None,
    };
    Protocols {
        tls: Some(Arc::new(identity.config().expect("of use"))),
        http2: true,
    }
}

fn trusting(authority: &Authority) -> Tls {
    Tls {
        ca: Some(authority.path.clone()),
        ..Tls::default()
    }
}

#[tokio::test]
async fn a_client_may_speak_http2_to_an_upstream_that_does_not() {
    let upstream = Upstream::counting().await;
    let site = Site::before(upstream.address, |_| ()).await;
    let mut client = client(site.connect().await).await;
    let fields = [
        ("idempotency-key", "k"),
        ("cookie", "a=1"),
        ("cookie", "b=2"),
    ];
    let first = ask(&mut client, "http://api.example/charges", &fields).await;
    let again = ask(&mut client, "http://api.example/charges", &fields).await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(
        (&first.body, again.body),
        (&Bytes::from("call 1"), first.body.clone())
    );
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let arrived = upstream.only();
    assert_eq!(arrived.line(), "POST /charges HTTP/1.1");
    assert_eq!(arrived.field("host"), Some("api.example"));
    assert_eq!(arrived.field("cookie"), Some("a=1; b=2"));
    assert_eq!(arrived.field("via"), Some("2.0 semel"));
    // A client of HTTP/1.1 has the same keys.
    let seen = site
        .send("POST /charges", "idempotency-key: k\r\n", "{}")
        .await;
    assert!(seen.is_replay(), "{seen:?}");
}

#[tokio::test]
async fn many_requests_at_once_on_a_connection_are_answered() {
    let upstream = Upstream::counting().await;
    let site = Site::before(upstream.address, |_| ()).await;
    let client = client(site.connect().await).await;
    let mut asking = JoinSet::new();
    for key in 0..100 {
        let mut client = client.clone();
        let key = format!("k{}", key % 50);
        asking.spawn(async move {
            let fields = [("idempotency-key", &key[..])];
            ask(&mut client, "http://a/charges", &fields).await.status
        });
    }
    let statuses = asking.join_all().await;
    assert!(statuses.iter().all(|it| *it == 201), "{statuses:?}");
    assert_eq!(upstream.arrived().len(), 50);
}

#[tokio::test]
async fn clients_over_tls_choose_the_version() {
    let upstream = Upstream::counting().await;
    let authority = Authority::new();
    let tls = identity(&authority, "gateway").tls;
    let site = Site::over(vec![at(upstream.address)], tls, |_| ()).await;
    for protocol in [&b"h2"[..], b"http/1.1"] {
        let mut config = trusting(&authority).config().expect("of use");
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, site.connect().await)
            .await
            .expect("trusted");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
        if protocol == b"h2" {
            let mut client = client(stream).await;
            let fields = [("idempotency-key", "k")];
            let answered = ask(&mut client, "https://localhost/charges", &fields).await;
            assert_eq!(answered.status, 201);
            continue;
        }
        let (mut client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .expect("both speak it");
        tokio::spawn(connection);
        let request = Request::post("/other").header("host", "localhost");
        let request = request.body(Full::<Bytes>::default()).expect("a request");
        let response = client.send_request(request).await.expect("an answer");
        assert_eq!(response.status().as_u16(), 201);
    }
    for arrived in upstream.arrived() {
        assert_eq!(arrived.field("x-forwarded-proto"), Some("https"));
    }
    // Without encryption, nobody is answered.
    let mut plain = site.connect().await;
    tokio::io::AsyncWriteExt::write_all(&mut plain, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .expect("sent");
    assert!(!rest(&mut plain).await.contains("HTTP/1.1"));
}

#[tokio::test]
async fn an_upstream_is_spoken_to_in_http2_where_the_settings_say_so() {
    let authority = Authority::new();
    let both = || identity(&authority, "upstream");
    let old = Protocols {
        http2: false,
        ..both()
    };
    let plain = Protocols {
        tls: None,
        http2: true,
    };
    let trusting = || trusting(&authority);
    for (protocols, scheme, http2, tls, version) in [
        (plain.clone(), "http", true, Tls::default(), Version::HTTP_2),
        (plain, "http", false, Tls::default(), Version::HTTP_11),
        (both(), "https", true, trusting(), Version::HTTP_2),
        (both(), "https", false, trusting(), Version::HTTP_11),
        // It does not agree.
        (old, "https", true, trusting(), Version::HTTP_11),
    ] {
        let upstream = Modern::new(protocols).await;
        let settings = upstream.settings(scheme, http2, tls);
        let site = Site::over(vec![settings], None, |_| ()).await;
        for is_replay in [false, true] {
            let seen = site.charge("k").await;
            assert_eq!(
                (seen.status, seen.is_replay()),
                (200, is_replay),
                "{seen:?}"
            );
            assert_eq!(seen.body, "call 1 with 12");
        }
        let arrived = upstream.arrived();
        assert_eq!(arrived.len(), 1);
        assert_eq!(arrived[0].version, version, "{scheme} {http2}");
        assert_eq!(arrived[0].headers["x-forwarded-host"], "api.example");
        if version == Version::HTTP_2 {
            let authority = arrived[0].uri.authority().expect("it");
            assert_eq!(authority.as_str(), upstream.address.to_string());
        }
        // The look at its health is the same.
        let proxy = site.proxy.clone();
        let probed = async {
            while !site.proxy.health().is_up() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        timeout(LONG, proxy.probe(probed)).await.expect("it is up");
    }
}

#[tokio::test]
async fn grpc_keeps_its_trailers() {
    let plain = Protocols {
        tls: None,
        http2: true,
    };
    let upstream = Modern::new(plain).await;
    let settings = upstream.settings("http", true, Tls::default());
    let site = Site::over(vec![settings], None, |_| ()).await;
    let mut client = client(site.connect().await).await;
    let keyed = [("te", "trailers"), ("idempotency-key", "k")];
    for (path, fields, body) in [
        ("/shop.Charges/Create", &keyed[..1], "call 1 with 2"),
        ("/charges", &keyed, "call 2 with 2"),
        ("/charges", &keyed, "call 2 with 2"),
    ] {
        let answered = ask(&mut client, &format!("http://a{path}"), fields).await;
        assert_eq!(
            (answered.status, &answered.body[..]),
            (200, body.as_bytes())
        );
        assert_eq!(answered.trailers.expect("trailers")["grpc-status"], "0");
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_trusted_is_not_reached() {
    let (authority, other) = (Authority::new(), Authority::new());
    let upstream = Modern::new(identity(&authority, "upstream")).await;
    let settings = upstream.settings("https", false, trusting(&other));
    let site = Site::over(vec![settings], None, |_| ()).await;
    for _ in 0..2 {
        site.charge("k").await.problem(502, "upstream-unreachable");
    }
    let health = site.proxy.health();
    assert!(health.is_away());
    assert!(
        health.to_string().contains("authority that is not trusted"),
        "{health}"
    );
    assert!(upstream.arrived().is_empty());
}

/// In TLS 1.3 it says so when the request is on its way, and reads none of it.
#[tokio::test]
async fn an_upstream_that_refuses_a_client_without_a_certificate_has_read_nothing() {
    let authority = Authority::new();
    let issued = authority.issue("upstream", &[]);
    let certificates = |path| {
        let read = CertificateDer::pem_file_iter(path).expect("a file");
        read.map(|it| it.expect("a certificate"))
    };
    let mut roots = RootCertStore::empty();
    for root in certificates(&authority.path) {
        roots.add(root).expect("a root");
    }
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let key = PrivateKeyDer::from_pem_file(&issued.key).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .expect("it")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(certificates(&issued.cert).collect(), key)
        .expect("they fit");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut running = JoinSet::new();
    running.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let refused = acceptor.accept(stream).into_fallible().await;
            let (_, mut stream) = refused.expect_err("it shows no certificate");
            // So that nothing but the alert arrives.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
    });
    let mut settings = Settings::new(format!("https://{address}").parse().expect("a URL"));
    settings.tls = trusting(&authority);
    let site = Site::over(vec![settings], None, |_| ()).await;
    for _ in 0..2 {
        site.charge("k").await.problem(502, "upstream-unreachable");
    }
    assert!(site.proxy.health().is_away());
}

#[tokio::test]
async fn a_stream_that_the_upstream_refuses_costs_the_key_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut running = JoinSet::new();
    running.spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut connection = h2::server::handshake(stream).await.expect("it speaks it");
        let mut call = 0;
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            call += 1;
            match call {
                1 => respond.send_reset(h2::Reason::REFUSED_STREAM),
                2 => drop(respond.send_response(Response::new(()), true)),
                _ => respond.send_reset(h2::Reason::INTERNAL_ERROR),
            }
        }
    });
    let mut settings = at(address);
    settings.http2 = true;
    let site = Site::over(vec![settings], None, |_| ()).await;
    site.charge("k").await.problem(502, "upstream-unreachable");
    assert_eq!(site.charge("k").await.status, 200);
    site.charge("other").await.problem(502, "upstream-broken");
    site.charge("other").await.problem(409, "in-doubt");
}

/// A server that leaves names the last request that it takes: those behind it were not looked at.
#[tokio::test]
async fn a_request_behind_the_last_one_of_an_upstream_that_leaves_costs_the_key_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut running = JoinSet::new();
    running.spawn(async move {
        // The last request is none; then it is the one that came, which is never answered.
        for last in [0, 1] {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
            stream.write_all(&settings).await.expect("a client");
            let mut preface = [0; 24];
            stream.read_exact(&mut preface).await.expect("a preface");
            // The head of a frame: its length, type, flags and stream.
            let mut head = [0; 9];
            while head[3] != 1 {
                stream.read_exact(&mut head).await.expect("a frame");
                let mut rest = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
                stream.read_exact(&mut rest).await.expect("a frame");
            }
            let leaves = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, last, 0, 0, 0, 0];
            stream.write_all(&leaves).await.expect("a client");
            stream.shutdown().await.expect("a client");
            // Whatever comes is read, so that nothing resets the connection.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    let mut settings = at(address);
    settings.http2 = true;
    let site = Site::over(vec![settings], None, |_| ()).await;
    site.charge("k").await.problem(502, "upstream-unreachable");
    site.charge("k").await.problem(502, "upstream-broken");
    site.charge("k").await.problem(409, "in-doubt");
}

/// Requests that are taken back as soon as they are sent, frame by frame: a client's library waits for room itself.
#[tokio::test]
async fn a_flood_of_resets_ends_its_own_connection_alone() {
    let upstream = Upstream::counting().await;
    let site = Site::before(upstream.address, |_| ()).await;
    let stream = TcpStream::connect(site.address).await.expect("connected");
    let (mut answers, mut requests) = stream.into_split();
    let flood = async {
        let preface = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            &frame(4, 0, 0, &[])[..],
        ]
        .concat();
        requests.write_all(&preface).await?;
        for nth in 0..100_000 {
            let stream = 2 * nth + 1;
            // END_STREAM and END_HEADERS; GET, http and / of the static table, and the authority a.
            let request = frame(1, 0x5, stream, &[0x82, 0x86, 0x84, 0x41, 1, b'a']);
            let cancel = frame(3, 0, stream, &8_u32.to_be_bytes());
            requests.write_all(&[request, cancel].concat()).await?;
        }
        std::io::Result::Ok(())
    };
    let mut heard = Vec::new();
    let told = async {
        // Without an end, or with the reset that a client may see whose words were not read.
        let _ = answers.read_to_end(&mut heard).await;
    };
    let (flood, ()) = timeout(LONG, async { tokio::join!(flood, told) })
        .await
        .expect("the connection is still there");
    assert!(flood.is_err(), "every request was taken");
    // GOAWAY, of stream 0, with ENHANCE_YOUR_CALM.
    let mut rest = &heard[..];
    let mut calm = false;
    while let [a, b, c, kind, _, _, _, _, _, behind @ ..] = rest {
        let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (payload, next) = behind.split_at(len.min(behind.len()));
        calm |= *kind == 7 && payload[4..8] == 0xb_u32.to_be_bytes();
        rest = next;
    }
    assert!(calm, "{heard:?}");
    assert_eq!(site.charge("k").await.status, 201);
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("a short one");
    let mut frame = len.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

#[tokio::test]
async fn a_head_of_http2_has_a_limit_too() {
    let upstream = Upstream::counting().await;
    let site = Site::before(upstream.address, |_| ()).await;
    let mut client = client(site.connect().await).await;
    let long = "y".repeat(8 << 10);
    let names: Vec<_> = (0..16).map(|at| format!("x-{at}")).collect();
    let fields: Vec<_> = names.iter().map(|name| (&name[..], &long[..])).collect();
    let mut request = Request::post("http://a/other");
    for (name, value) in fields {
        request = request.header(name, value);
    }
    let request = request.body(Full::<Bytes>::default()).expect("a request");
    if let Ok(response) = client.send_request(request).await {
        assert_eq!(response.status().as_u16(), 431);
    }
    assert!(upstream.arrived().is_empty());
    let seen: Seen = site.charge("k").await;
    assert_eq!(seen.status, 201);
}

/// The length of a body says how long it is, or the request is none.
#[tokio::test]
async fn a_length_that_is_not_that_of_the_body_reaches_nobody() {
    for (path, len) in [
        ("/charges", "5"),
        ("/charges", "1"),
        ("/other", "5"),
        ("/other", "0"),
    ] {
        let upstream = Upstream::counting().await;
        let site = Site::before(upstream.address, |_| ()).await;
        let (client, connection) = h2::client::handshake(site.connect().await)
            .await
            .expect("it speaks it");
        let connection = tokio::spawn(connection);
        let mut client = client.ready().await.expect("ready");
        let request = Request::post(format!("http://a{path}"))
            .header("content-length", len)
            .header("idempotency-key", "k")
            .body(())
            .expect("a request");
        let (response, mut stream) = client.send_request(request, false).expect("sent");
        stream.send_data(Bytes::from("abc"), true).expect("sent");
        let answered = timeout(LONG, response).await.expect("in time");
        let is_refused = answered
            .as_ref()
            .map_or(true, |it| it.status().as_u16() >= 400);
        assert!(is_refused, "{path} {len}: {answered:?}");
        assert!(upstream.arrived().iter().all(|it| it.body.is_empty()));
        assert!(path == "/other" || upstream.arrived().is_empty());
        connection.abort();
        assert_eq!(site.charge("k").await.status, 201);
    }
}
