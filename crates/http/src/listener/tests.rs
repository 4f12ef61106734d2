use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;

/// Limits that a test does not have to wait for.
const SHORT: Limits = Limits {
    connections: 128,
    head: Duration::from_millis(600),
    write: Duration::from_millis(600),
    connection: None,
    keep_alive: true,
    drain: Duration::from_secs(5),
};

struct Served {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

async fn served(limits: Limits) -> Served {
    let slow = || async {
        sleep(Duration::from_millis(700)).await;
        "late"
    };
    let router = Router::new()
        .route("/", get(|| async { "now" }))
        .route("/slow", get(slow))
        .route(
            "/slow-with-leave",
            get(move |leave: axum::Extension<Leave>| {
                leave.give();
                slow()
            }),
        )
        .route("/large", get(|| async { vec![b'x'; 64 << 20] }))
        .route(
            "/echo",
            post(|body: Bytes| async move { body.len().to_string() }),
        );
    let address = "127.0.0.1:0".parse().expect("an address");
    let listener = Listener::bind("claims.listen", address)
        .await
        .expect("bound");
    let (stop, stopped) = oneshot::channel::<()>();
    let address = listener.address();
    let ended = tokio::spawn(listener.serve_router(limits, router, async {
        let _ = stopped.await;
    }));
    Served {
        address,
        stop,
        ended,
    }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connected")
    }

    /// Asks on a connection of its own; returns everything that comes back.
    async fn asked(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.expect("sent");
        rest(&mut stream).await
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
    // A reset after the answer is an end like any other.
    let _ = read.expect("the connection ends");
    String::from_utf8_lossy(&answer).into_owned()
}

const GET: &str = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
const KEPT: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test]
async fn a_hundred_silent_connections_keep_nobody_from_an_answer_and_are_closed() {
    let served = served(SHORT).await;
    let mut silent = Vec::new();
    for at in 0..100 {
        let mut stream = served.connect().await;
        // Some say nothing, some begin and stop.
        if at % 2 == 0 {
            stream
                .write_all(b"GET / HTTP/1.1\r\nho")
                .await
                .expect("sent");
        }
        silent.push(stream);
    }
    let began = Instant::now();
    assert!(served.asked(GET).await.ends_with("now"));
    assert!(began.elapsed() < Duration::from_millis(500));
    for stream in &mut silent {
        let answer = rest(stream).await;
        assert!(!answer.contains("200"), "{answer}");
    }
}

const SLOW: &str = "GET /slow HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_a_place() {
    let bound = Limits {
        connections: 1,
        ..SHORT
    };
    let served = served(bound).await;
    let mut slow = served.connect().await;
    slow.write_all(SLOW.as_bytes()).await.expect("sent");
    // It has the place until it is answered.
    let answered = async {
        let answer = served.asked(GET).await;
        assert!(answer.ends_with("now"), "{answer}");
    };
    tokio::pin!(answered);
    tokio::select! {
        biased;
        slow = rest(&mut slow) => assert!(slow.ends_with("late"), "{slow}"),
        () = &mut answered => panic!("it did not wait"),
    }
    answered.await;
}

#[tokio::test]
async fn those_that_wait_for_one_place_are_all_answered() {
    let bound = Limits {
        connections: 1,
        ..SHORT
    };
    let served = served(bound).await;
    let mut slow = served.connect().await;
    slow.write_all(SLOW.as_bytes()).await.expect("sent");
    let (late, one, two, three) = tokio::join!(
        rest(&mut slow),
        served.asked(GET),
        served.asked(GET),
        served.asked(GET)
    );
    assert!(late.ends_with("late"), "{late}");
    for answer in [one, two, three] {
        assert!(answer.ends_with("now"), "{answer:?}");
    }
}

#[tokio::test]
async fn those_that_have_not_asked_anything_give_up_their_places_the_oldest_first() {
    let patient = Limits {
        connections: 2,
        head: Duration::from_secs(600),
        ..SHORT
    };
    let served = served(patient).await;
    let mut silent = Vec::new();
    for at in 0..10 {
        let mut stream = served.connect().await;
        if at % 2 == 0 {
            // It may be closed by then.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nho").await;
        }
        silent.push(stream);
    }
    assert!(served.asked(GET).await.ends_with("now"));
    // Of two places one was for whoever asked.
    for stream in &mut silent[..9] {
        assert_eq!(rest(stream).await, "");
    }
    let last = &mut silent[9];
    last.write_all(GET.as_bytes()).await.expect("sent");
    assert!(rest(last).await.ends_with("now"), "it was there still");
}

#[tokio::test]
async fn one_that_has_asked_keeps_its_place() {
    let patient = Limits {
        connections: 1,
        head: Duration::from_secs(600),
        ..SHORT
    };
    let served = served(patient).await;
    let mut kept = served.connect().await;
    kept.write_all(KEPT.as_bytes()).await.expect("sent");
    let mut answer = vec![0; 4];
    kept.read_exact(&mut answer).await.expect("an answer");
    let mut other = served.connect().await;
    other.write_all(GET.as_bytes()).await.expect("sent");
    // It is looked for several times.
    sleep(PATIENCE * 4).await;
    kept.write_all(GET.as_bytes()).await.expect("sent");
    assert_eq!(rest(&mut kept).await.matches("now").count(), 2);
    assert!(rest(&mut other).await.ends_with("now"), "its turn came");
}

#[tokio::test]
async fn a_connection_is_kept_for_more_requests_unless_it_is_for_one() {
    let kept = served(SHORT).await;
    let two = format!("{KEPT}{GET}");
    assert_eq!(kept.asked(&two).await.matches("200 OK").count(), 2);
    let single = Limits {
        keep_alive: false,
        ..SHORT
    };
    let single = served(single).await;
    assert_eq!(single.asked(&two).await.matches("200 OK").count(), 1);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed() {
    let served = served(SHORT).await;
    let mut stream = served.connect().await;
    let ask = "GET /large HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.expect("sent");
    sleep(Duration::from_secs(2)).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(
        answer.len() < 64 << 20,
        "the answer is cut off: {}",
        answer.len()
    );
}

#[tokio::test]
async fn a_client_that_vanishes_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let _client = TcpStream::connect(address).await.expect("connected");
    let places = Arc::new(Semaphore::new(1));
    let (stream, ..) = accept(&listener, &places).await.expect("accepted");
    assert!(sockopt::socket_keepalive(&stream).expect("it"));
    assert_eq!(sockopt::tcp_keepidle(&stream).expect("it"), SILENCE);
    assert_eq!(sockopt::tcp_keepintvl(&stream).expect("it"), ASKED_EVERY);
}

#[tokio::test]
async fn a_connection_for_a_time_ends_with_it() {
    let limited = Limits {
        connection: Some(Duration::from_millis(300)),
        ..SHORT
    };
    let served = served(limited).await;
    let answer = served
        .asked("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    assert_eq!(answer, "");
}

#[tokio::test]
async fn a_connection_with_leave_lasts_for_as_long_as_its_answer_comes() {
    let limited = Limits {
        connection: Some(Duration::from_millis(300)),
        ..SHORT
    };
    let served = served(limited).await;
    let answer = served
        .asked("GET /slow-with-leave HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await;
    assert!(answer.ends_with("late"), "{answer}");
}

#[tokio::test]
async fn a_stop_lets_what_is_in_hand_end_and_takes_nothing_new() {
    let Served {
        address,
        stop,
        ended,
    } = served(SHORT).await;
    let mut idle = TcpStream::connect(address).await.expect("connected");
    idle.write_all(KEPT.as_bytes()).await.expect("sent");
    let mut slow = TcpStream::connect(address).await.expect("connected");
    let ask = b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n";
    slow.write_all(ask).await.expect("sent");
    sleep(Duration::from_millis(200)).await;
    stop.send(()).expect("it runs");
    assert!(rest(&mut slow).await.ends_with("late"));
    assert!(rest(&mut idle).await.ends_with("now"), "and is closed");
    timeout(Duration::from_secs(2), ended)
        .await
        .expect("it ends")
        .expect("no panic");
    TcpStream::connect(address)
        .await
        .expect_err("nobody listens");
}

#[tokio::test]
async fn what_takes_too_long_after_a_stop_is_broken_off() {
    let hasty = Limits {
        drain: Duration::from_millis(100),
        ..SHORT
    };
    let Served {
        address,
        stop,
        ended,
    } = served(hasty).await;
    let mut slow = TcpStream::connect(address).await.expect("connected");
    let ask = b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n";
    slow.write_all(ask).await.expect("sent");
    sleep(Duration::from_millis(100)).await;
    stop.send(()).expect("it runs");
    ended.await.expect("no panic");
    assert_eq!(rest(&mut slow).await, "");
}

#[tokio::test]
async fn bad_framing_is_refused() {
    let served = served(SHORT).await;
    for request in [
        "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: pigeon\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\n folded: b\r\n\r\n",
        "GET / HTTP/1.1\r\nna me: b\r\n\r\n",
        "nonsense\r\n\r\n",
    ] {
        let answer = served.asked(request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{request:?}: {answer}");
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_told_with_who_has_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let error = Listener::bind("claims.listen", address)
        .await
        .err()
        .expect("taken");
    assert_eq!(error.code(), Code::AddressInUse);
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("claims.listen: {address} is in use by")),
        "{text}"
    );
    #[cfg(target_os = "linux")]
    assert!(text.contains(&std::process::id().to_string()), "{text}");
}

#[tokio::test]
async fn an_address_that_this_machine_does_not_have_is_a_fault_of_the_setting() {
    // Of the network for documentation, which nobody has.
    let address = "192.0.2.1:8181".parse().expect("an address");
    let error = Listener::bind("claims.listen", address)
        .await
        .err()
        .expect("not local");
    assert_eq!(error.code(), Code::InvalidConfig);
    let text = error.to_string();
    assert_eq!(
        text,
        "claims.listen: this machine does not have the address 192.0.2.1; set one that it has, or 0.0.0.0 for all of them"
    );
}

#[tokio::test]
async fn an_address_can_be_shared_by_those_that_want_to() {
    let any = "127.0.0.1:0".parse().expect("an address");
    let first = Listener::bind_shared("gateway.listen", any).expect("bound");
    let second = Listener::bind_shared("gateway.listen", first.address()).expect("bound");
    assert_eq!(first.address(), second.address());
    let error = Listener::bind("admin.listen", first.address()).await.err();
    assert_eq!(error.expect("taken").code(), Code::AddressInUse);
    // The new one takes over once the old one has gone.
    let router = Router::new().route("/", get(|| async { "new" }));
    let address = second.address();
    drop(first);
    tokio::spawn(second.serve_router(SHORT, router, std::future::pending()));
    let mut stream = TcpStream::connect(address).await.expect("connected");
    stream.write_all(GET.as_bytes()).await.expect("sent");
    assert!(rest(&mut stream).await.ends_with("new"));
}

#[tokio::test]
async fn a_socket_can_be_handed_over() {
    let opened = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = opened.local_addr().expect("an address");
    // Whoever has begun to connect is answered by the one that takes it.
    let mut early = TcpStream::connect(address).await.expect("connected");
    early.write_all(GET.as_bytes()).await.expect("sent");
    let listener = Listener::from_socket("gateway.listen", opened).expect("it listens");
    assert_eq!(listener.address(), address);
    let router = Router::new().route("/", get(|| async { "taken" }));
    tokio::spawn(listener.serve_router(SHORT, router, std::future::pending()));
    assert!(rest(&mut early).await.ends_with("taken"));
}

#[cfg(feature = "protocols")]
mod protocols;
