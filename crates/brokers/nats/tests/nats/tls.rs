//! Encrypted connections: trust, our certificate, and the errors when none comes about.

use std::path::Path;
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use bytes::Bytes;
use semel_broker_nats::{NatsSink, NatsSource, Options, SinkOptions};
use semel_conformance::certificates::{Authority, Issued};
use semel_conformance::source::applied;
use semel_core::port::sink::{Publication, Sink};
use semel_core::port::source::Source;
use semel_core::{Code, Error, ErrorKind};
use semel_tls::Tls;
use tokio::time::timeout;

use crate::own::Own;
use crate::test_stream::TestStream;
use crate::{ids, is_away, numbers, some, take};

/// A server with a certificate of `authority`, which asks for a password and, where it is configured so, for a
/// certificate of ours.
struct Secure {
    own: Own,
    authority: Authority,
    ours: Issued,
}

const LOGIN: &str = "ada:geheim-4711";

impl Secure {
    async fn start(asks_for_ours: bool) -> Self {
        let authority = Authority::new();
        let server = authority.issue("nats.internal", &[]);
        Self::with(authority, &server, asks_for_ours).await
    }

    async fn with(authority: Authority, server: &Issued, asks_for_ours: bool) -> Self {
        let ours = authority.issue("worker", &[]);
        let own = Own::start_with(Self::arguments(&authority, server, asks_for_ours)).await;
        Self {
            own,
            authority,
            ours,
        }
    }

    fn arguments(authority: &Authority, server: &Issued, asks_for_ours: bool) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let (user, password) = LOGIN.split_once(':').expect("both");
        let mut all = vec![
            "--user".into(),
            user.into(),
            "--pass".into(),
            password.into(),
        ];
        all.extend(["--tls".into(), "--tlscert".into(), text(&server.cert)]);
        all.extend(["--tlskey".into(), text(&server.key)]);
        if asks_for_ours {
            all.extend(["--tlsverify".into(), "--tlscacert".into()]);
            all.push(text(&authority.path));
        }
        all
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{LOGIN}@{}", self.own.address)
    }

    fn trusting(&self) -> Tls {
        Tls {
            ca: Some(self.authority.path.clone()),
            ..Tls::default()
        }
    }

    fn known(&self) -> Tls {
        Tls {
            cert: Some(self.ours.cert.clone()),
            key: Some(self.ours.key.clone()),
            ..self.trusting()
        }
    }

    fn options(&self, tls: Tls) -> Options {
        let mut options = Options::new(self.url("tls"), "S", "workers");
        options.tls = tls;
        options
    }

    fn sink(&self, tls: Tls) -> NatsSink {
        let mut options = SinkOptions::new(self.url("tls"), "S");
        options.tls = tls;
        NatsSink::new(options).expect("good options")
    }

    /// Creates a stream with the driver's own means.
    async fn make_stream(&self, tls: Tls) {
        let client = async_nats::ConnectOptions::new()
            .tls_client_config(tls.config().expect("good files"))
            .user_and_password("ada".into(), "geheim-4711".into())
            .connect(format!("tls://{}", self.own.address))
            .await
            .expect("a connection");
        let config = stream::Config {
            name: "S".to_owned(),
            ..stream::Config::default()
        };
        let made = jetstream::new(client).create_stream(config).await;
        made.expect("a stream");
    }
}

fn shown(error: &Error) -> String {
    let shown = format!("{error} {error:?}");
    assert!(
        !shown.contains("geheim") && !shown.contains("PRIVATE"),
        "{shown}"
    );
    shown
}

/// Returns the error of a permanent refusal, the same by the source and by the sink.
async fn refused(secure: &Secure, options: Options) -> String {
    let tls = options.tls.clone();
    assert!(!format!("{options:?}").contains("geheim"));
    let mut source = NatsSource::new(options).expect("good options");
    let told = timeout(Duration::from_secs(20), source.fetch(1)).await;
    let error = told.expect("a word").expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    let told = secure.sink(tls).connect().await.expect_err("refused");
    assert_eq!(told.kind(), ErrorKind::InvalidConfig, "{told:?}");
    shown(&told);
    shown(&error)
}

async fn goes_through(secure: &Secure, tls: Tls) {
    let sink = secure.sink(tls.clone());
    let batch: Vec<_> = (0..3_u32)
        .map(|n| Publication {
            id: n.to_string().into(),
            order: None,
            payload: Bytes::from(n.to_string()),
            headers: Vec::new(),
        })
        .collect();
    for answer in sink.publish(&batch).await {
        answer.expect("published");
    }
    let mut source = NatsSource::new(secure.options(tls)).expect("good options");
    let got = take(&mut source, 3).await;
    assert_eq!(numbers(&got), (0..3).collect());
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("confirmed");
    source.close().await.expect("an end");
}

#[tokio::test]
async fn a_server_is_reached_that_our_authority_vouches_for_and_that_wants_to_know_us() {
    let secure = Secure::start(true).await;
    secure.make_stream(secure.known()).await;
    goes_through(&secure, secure.known()).await;
    let said = refused(&secure, secure.options(secure.trusting())).await;
    assert!(said.contains("tls.cert"), "{said}");
}

#[tokio::test]
async fn an_authority_that_is_not_trusted_is_told() {
    let secure = Secure::start(false).await;
    let stranger = Authority::new();
    let other = Tls {
        ca: Some(stranger.path.clone()),
        ..Tls::default()
    };
    for tls in [Tls::default(), other] {
        let said = refused(&secure, secure.options(tls)).await;
        assert!(
            said.contains("not trusted here") && said.contains("tls.ca"),
            "{said}"
        );
    }
    // A server that encrypts is not talked to otherwise, whatever the url says.
    let mut options = secure.options(Tls::default());
    options.url = secure.url("nats");
    let said = refused(&secure, options).await;
    assert!(said.contains("tls.ca"), "{said}");
}

#[tokio::test]
async fn a_name_that_is_another_is_told_and_may_be_said() {
    let authority = Authority::new();
    let server = authority.issue_for("elsewhere", "DNS:nats.internal", &[]);
    let secure = Secure::with(authority, &server, false).await;
    let said = refused(&secure, secure.options(secure.trusting())).await;
    assert!(
        said.contains("for another name") && said.contains("tls.server_name"),
        "{said}"
    );
    let named = |name: &str| Tls {
        server_name: Some(name.into()),
        ..secure.trusting()
    };
    let said = refused(&secure, secure.options(named("nats.external"))).await;
    assert!(said.contains("for another name"), "{said}");
    secure.make_stream(named("nats.internal")).await;
    goes_through(&secure, named("nats.internal")).await;
}

#[tokio::test]
async fn a_certificate_whose_time_is_over_is_told_until_it_is_renewed() {
    let authority = Authority::new();
    let old = authority.issue("old", &["-days", "-1"]);
    let renewed = authority.issue("new", &[]);
    let mut secure = Secure::with(authority, &old, false).await;
    let options = secure.options(secure.trusting());
    let mut source = NatsSource::new(options).expect("good options");
    let error = is_away(&mut source, Duration::from_secs(20)).await;
    assert_eq!(error.code(), Code::SourceUnavailable, "{error:?}");
    assert!(shown(&error).contains("renew it"), "{error}");
    let error = secure.sink(secure.trusting()).connect().await;
    let error = error.expect_err("its time is over");
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unavailable, Code::TargetUnavailable)
    );
    secure.own.more = Secure::arguments(&secure.authority, &renewed, false);
    secure.own.restart().await;
    secure.make_stream(secure.trusting()).await;
    goes_through(&secure, secure.trusting()).await;
    let more = secure.sink(secure.trusting());
    let one = Publication {
        id: "x".into(),
        order: None,
        payload: Bytes::from("7"),
        headers: Vec::new(),
    };
    more.publish(&[one]).await.remove(0).expect("published");
    // The same source, which was not restarted.
    assert_eq!(numbers(&some(&mut source, 1).await), [7].into());
}

#[tokio::test]
async fn a_server_without_encryption_is_told() {
    let (test_stream, authority) = (TestStream::open().await, Authority::new());
    for (scheme, tls) in [
        ("tls", Tls::default()),
        (
            "nats",
            Tls {
                ca: Some(authority.path.clone()),
                ..Tls::default()
            },
        ),
    ] {
        let mut options = test_stream.options();
        options.url = test_stream.url.replace("nats://", &format!("{scheme}://"));
        options.tls = tls;
        let mut source = NatsSource::new(options).expect("good options");
        let error = source.fetch(1).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
        assert!(error.to_string().contains("does not speak TLS"), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_told_over_an_encrypted_connection_too() {
    let secure = Secure::start(false).await;
    let mut options = secure.options(secure.trusting());
    options.url = options.url.replace("4711", "4712");
    let mut source = NatsSource::new(options).expect("good options");
    let error = source.fetch(1).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(shown(&error).contains("refuses the credentials"), "{error}");
}
