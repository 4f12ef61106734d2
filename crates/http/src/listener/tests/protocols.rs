//! Clients that choose what they speak.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use hyper::body::Frame;
use hyper::client::conn::http2::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioExecutor;
use tokio::sync::mpsc::{Sender, channel};

use super::*;

/// Listens in these protocols, and answers with what was spoken by whom.
async fn served_as(protocols: Protocols, limits: Limits) -> SocketAddr {
    served_beside(Router::new(), protocols, limits).await
}

async fn served_beside(router: Router, protocols: Protocols, limits: Limits) -> SocketAddr {
    let address = "127.0.0.1:0".parse().expect("an address");
    let listener = Listener::bind("gateway.listen", address)
        .await
        .expect("bound");
    let address = listener.address();
    let router = router.route(
        "/",
        get(|request: Request<axum::body::Body>| async move {
            let peer = request.extensions().get::<Peer>().copied();
            let peer = peer.expect("it is told who asks");
            format!("{:?} {}", request.version(), peer.address.ip())
        }),
    );
    let service = TowerToHyperService::new(router);
    tokio::spawn(listener.serve_as(protocols, limits, service, std::future::pending()));
    address
}

#[tokio::test]
async fn a_connection_of_http2_without_requests_is_closed() {
    let http2 = Protocols {
        http2: true,
        tls: None,
    };
    let address = served_as(http2, SHORT).await;
    let stream = TcpStream::connect(address).await.expect("connected");
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(executor, TokioIo::new(stream))
            .await
            .expect("both speak it");
    let connection = tokio::spawn(connection);
    let request = Request::get("http://localhost/").body(axum::body::Body::empty());
    let response = client.send_request(request.expect("a request")).await;
    let response = response.expect("an answer").map(axum::body::Body::new);
    let body = axum::body::to_bytes(response.into_body(), 1_000).await;
    assert_eq!(body.expect("a body"), "HTTP/2.0 127.0.0.1");
    let ended = timeout(Duration::from_secs(10), connection).await;
    let _ = ended.expect("it ends while the client keeps it");
    drop(client);
}

const HTTP2: Protocols = Protocols {
    http2: true,
    tls: None,
};
/// Longer than anything that ends takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

type Client = SendRequest<Body>;
type Conversation = Connection<TokioIo<TcpStream>, Body, TokioExecutor>;

/// A client that takes so many bytes of each answer before it reads them.
async fn client(address: SocketAddr, window: u32) -> (Client, Conversation) {
    let stream = TcpStream::connect(address).await.expect("connected");
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let both = builder.handshake(TokioIo::new(stream)).await;
    both.expect("both speak it")
}

async fn asked(client: &mut Client, url: &str) -> Response<Incoming> {
    let request = Request::get(url).body(Body::empty()).expect("a request");
    let response = timeout(LONG, client.send_request(request)).await;
    response.expect("in time").expect("an answer")
}

/// An answer that never ends, and tells when it is dropped.
struct Endless(Sender<()>);

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1_000])))))
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.try_send(());
    }
}

#[tokio::test]
async fn an_answer_of_http2_that_its_client_does_not_take_is_dropped_alone() {
    let (gone, mut dropped) = channel(2);
    let endless = get(move || async move { Body::new(Endless(gone)) });
    let empty = get(|| async { axum::http::StatusCode::NO_CONTENT });
    let router = Router::new().route("/endless", endless);
    let router = router.route("/empty", empty);
    let patient = Limits {
        head: LONG,
        ..SHORT
    };
    let address = served_beside(router, HTTP2, patient).await;
    for window in [0, 100] {
        let (mut client, connection) = client(address, window).await;
        tokio::spawn(connection);
        let response = asked(&mut client, "http://localhost/endless").await;
        let first = timeout(LONG, dropped.recv()).await;
        first.expect("it is dropped").expect("the router has it");
        let body = axum::body::to_bytes(Body::new(response.into_body()), usize::MAX).await;
        body.expect_err("it breaks off");
        let next = asked(&mut client, "http://localhost/empty").await;
        assert_eq!(next.status(), 204, "the connection goes on");
    }
}

/// A part of the answer is with the connection, and its stream has ended for everybody else.
#[tokio::test]
async fn a_connection_of_http2_does_not_wait_for_a_client_that_takes_no_more() {
    let address = served_as(HTTP2, SHORT).await;
    let (mut client, connection) = client(address, 5).await;
    let connection = tokio::spawn(connection);
    let response = asked(&mut client, "http://localhost/").await;
    assert_eq!(response.status(), 200);
    let ended = timeout(LONG, connection).await;
    let _ = ended.expect("it ends");
    drop(response);
}

#[tokio::test]
async fn a_client_of_either_version_may_be_slow_to_begin_but_not_for_long() {
    let http2 = Protocols {
        http2: true,
        tls: None,
    };
    let address = served_as(http2, SHORT).await;
    let mut slow = TcpStream::connect(address).await.expect("connected");
    for byte in GET.as_bytes().chunks(1).take(3) {
        slow.write_all(byte).await.expect("sent");
        sleep(Duration::from_millis(20)).await;
    }
    slow.write_all(&GET.as_bytes()[3..]).await.expect("sent");
    assert!(rest(&mut slow).await.ends_with("HTTP/1.1 127.0.0.1"));
    for beginning in ["", "P", "PR", "PRI", "PRI * HTTP/2.0\r\n"] {
        let mut silent = TcpStream::connect(address).await.expect("connected");
        silent.write_all(beginning.as_bytes()).await.expect("sent");
        let answer = rest(&mut silent).await;
        assert!(!answer.contains("HTTP/1.1"), "{beginning:?}: {answer}");
    }
}
