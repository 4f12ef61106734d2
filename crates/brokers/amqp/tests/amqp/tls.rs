//! Encrypted connections: trust, our certificate, and the errors when none comes about.

use std::time::Duration;

use semel_broker_amqp::{AmqpSink, AmqpSource, Options, SinkOptions};
use semel_conformance::certificates::{Authority, Issued};
use semel_conformance::source::applied;
use semel_core::port::sink::Sink;
use semel_core::port::source::{Fetched, Source};
use semel_core::{Code, Error, ErrorKind};
use semel_tls::Tls;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::lab::{Queue, ids, numbers, publication, some, take, words};
use crate::server::Server;

/// A server that encrypts and asks for our certificate, for all tests but one.
struct Secure {
    server: Server,
    port: u16,
    authority: Authority,
    ours: Issued,
}

async fn secure() -> &'static Secure {
    static SECURE: OnceCell<Secure> = OnceCell::const_new();
    SECURE
        .get_or_init(|| async {
            let started = tokio::task::spawn_blocking(|| {
                let authority = Authority::new();
                let issued = authority.issue_for("rabbit", "DNS:rabbit.internal,IP:127.0.0.1", &[]);
                Secure::start(authority, &issued, "semel-encrypted")
            });
            started.await.expect("a server")
        })
        .await
}

impl Secure {
    fn start(authority: Authority, issued: &Issued, name: &'static str) -> Self {
        let (server, port) = Server::encrypted(&authority, issued, name);
        let ours = authority.issue("worker", &[]);
        Self {
            server,
            port,
            authority,
            ours,
        }
    }

    fn plain(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.server.port())
    }

    fn url(&self) -> String {
        format!("amqps://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    fn known(&self) -> Tls {
        Tls {
            ca: Some(self.authority.path.clone()),
            cert: Some(self.ours.cert.clone()),
            key: Some(self.ours.key.clone()),
            server_name: None,
        }
    }

    fn source(&self, queue: &str, tls: Tls) -> AmqpSource {
        let mut options = Options::new(self.url(), queue);
        options.tls = tls;
        AmqpSource::new(options).expect("options")
    }
}

fn sink(url: &str, queue: &str, tls: Tls) -> AmqpSink {
    let mut options = SinkOptions::new(url, "", queue);
    options.tls = tls;
    AmqpSink::new(options).expect("options")
}

fn shown(error: &Error) -> String {
    let shown = words(error);
    assert!(
        !shown.contains("geheim") && !shown.contains("PRIVATE"),
        "{shown}"
    );
    shown
}

/// Tries against a broker that drops the connection instead of giving a reason.
const ASKED: usize = 20;

/// Returns the error of a permanent refusal, the same by the source and by the sink.
///
/// In TLS 1.3 a client is through with its handshake before the broker has looked at its certificate: the broker's
/// alert (RFC 8446, section 4.4.2.4) may be lost to the reset that follows it. The error of such an attempt says that
/// it may be repeated, and a worker repeats it.
async fn refused(url: &str, tls: Tls) -> String {
    let error = until_told_for_good(async || {
        let mut options = Options::new(url, "q");
        options.tls = tls.clone();
        let mut source = AmqpSource::new(options).expect("options");
        let told = timeout(Duration::from_secs(20), source.fetch(1)).await;
        told.expect("a word").expect_err("refused")
    })
    .await;
    assert_eq!(error.code(), Code::SourceUnavailable, "{error:?}");
    let told = until_told_for_good(async || {
        let mut told = sink(url, "q", tls.clone())
            .publish(&[publication("1")])
            .await;
        told.remove(0).expect_err("refused")
    })
    .await;
    assert_eq!(told.code(), Code::TargetUnavailable, "{told:?}");
    shown(&told);
    shown(&error)
}

async fn until_told_for_good(ask: impl AsyncFn() -> Error) -> Error {
    for _ in 0..ASKED {
        let error = ask().await;
        if error.kind() != ErrorKind::Unavailable {
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
            return error;
        }
        shown(&error);
    }
    panic!("asked {ASKED} times, and never told for good")
}

async fn goes_through(secure: &Secure, tls: Tls) {
    let queue = Queue::make(secure.plain(), &[]).await;
    let batch = [publication("0"), publication("1")];
    for answer in sink(&secure.url(), &queue.name, tls.clone())
        .publish(&batch)
        .await
    {
        answer.expect("published");
    }
    let mut source = secure.source(&queue.name, tls);
    let got = take(&mut source, 2).await;
    assert_eq!(numbers(&got), [0, 1].into());
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("told");
    source.close().await.expect("an end");
    queue.until_ready(0).await;
}

#[tokio::test]
async fn a_server_is_reached_that_our_authority_vouches_for_and_that_wants_to_know_us() {
    let secure = secure().await;
    goes_through(secure, secure.known()).await;
    let tls = Tls {
        cert: None,
        key: None,
        ..secure.known()
    };
    let said = refused(&secure.url(), tls).await;
    assert!(said.contains("tls.cert"), "{said}");
    let stranger = Authority::new();
    let ours = stranger.issue("worker", &[]);
    let tls = Tls {
        cert: Some(ours.cert),
        key: Some(ours.key),
        ..secure.known()
    };
    let said = refused(&secure.url(), tls).await;
    assert!(said.contains("does not accept our certificate"), "{said}");
}

#[tokio::test]
async fn an_authority_that_is_not_trusted_is_told() {
    let secure = secure().await;
    let stranger = Authority::new();
    for ca in [None, Some(stranger.path.clone())] {
        let tls = Tls {
            ca,
            ..secure.known()
        };
        let said = refused(&secure.url(), tls).await;
        assert!(
            said.contains("not trusted here") && said.contains("tls.ca"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_name_that_is_another_is_told_and_may_be_said() {
    let secure = secure().await;
    let url = secure.url().replace("127.0.0.1", "localhost");
    let said = refused(&url, secure.known()).await;
    assert!(
        said.contains("for another name") && said.contains("tls.server_name"),
        "{said}"
    );
    let named = |name: &str| Tls {
        server_name: Some(name.into()),
        ..secure.known()
    };
    let said = refused(&url, named("rabbit.external")).await;
    assert!(said.contains("for another name"), "{said}");
    goes_through(secure, named("rabbit.internal")).await;
}

#[tokio::test]
async fn the_wrong_port_is_told_either_way() {
    let secure = secure().await;
    let url = secure.plain().replace("amqp://", "amqps://");
    let said = refused(&url, secure.known()).await;
    assert!(said.contains("does not speak TLS"), "{said}");
    let url = secure.url().replace("amqps://", "amqp://");
    let mut source = AmqpSource::new(Options::new(&url, "q")).expect("options");
    match timeout(Duration::from_secs(20), source.fetch(1)).await {
        Ok(Ok(Fetched::Away(error))) => {
            assert!(shown(&error).contains("write amqps://"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let mut options = Options::new(&url, "q");
    options.tls = secure.known();
    let error = AmqpSource::new(options).expect_err("not encrypted");
    assert!(error.to_string().contains("write amqps://"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_told_over_an_encrypted_connection_too() {
    let secure = secure().await;
    let url = secure.url().replace("guest:guest", "guest:geheim");
    let said = refused(&url, secure.known()).await;
    assert!(said.contains("check user and password"), "{said}");
}

#[tokio::test]
async fn a_certificate_whose_time_is_over_is_told_until_it_is_renewed() {
    let started = tokio::task::spawn_blocking(|| {
        let authority = Authority::new();
        let old = authority.issue("old", &["-days", "-1"]);
        Secure::start(authority, &old, "semel-expired")
    });
    let mut secure = started.await.expect("a server");
    let queue = Queue::make(secure.plain(), &[]).await;
    let mut source = secure.source(&queue.name, secure.known());
    match timeout(Duration::from_secs(20), source.fetch(1)).await {
        Ok(Ok(Fetched::Away(error))) => {
            assert_eq!(error.code(), Code::SourceUnavailable);
            assert!(shown(&error).contains("renew it"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    secure.server.has(&secure.authority.issue("new", &[]));
    let restarted = tokio::task::spawn_blocking(move || {
        secure.server.restart();
        secure
    });
    let secure = restarted.await.expect("a server");
    let url = secure.plain();
    let sent = sink(&url, &queue.name, Tls::default())
        .publish(&[publication("7")])
        .await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    // The same source, which was not restarted.
    assert_eq!(numbers(&some(&mut source, 1).await), [7].into());
}
