//! Logins, rights and places that are not there: each with words of its own, none with a password.

use std::io::{Read, Write};
use std::net::TcpStream;

use semel_broker_amqp::{AmqpSink, AmqpSource, Options, SinkOptions};
use semel_core::port::sink::Sink;
use semel_core::port::source::{Fetched, Source};
use semel_core::{Code, Error, ErrorKind};

use crate::lab::{Queue, publication, take, url, words};

/// Calls the management plugin, whose answer is of no use.
fn manage(method: &str, path: &str, body: &str) {
    let url = url();
    let (_, port) = url
        .split_once("management_port=")
        .expect("the plugin's port");
    let mut socket = TcpStream::connect(("127.0.0.1", port.parse().expect("a port"))).expect("up");
    // guest:guest
    let request = format!(
        "{method} /api/{path} HTTP/1.0\r\nauthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).expect("asked");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
}

/// Creates a user `name` with the password `geheim`, who may read what `read` says and write what `write` says.
fn user(name: &str, read: &str, write: &str) {
    manage(
        "PUT",
        &format!("users/{name}"),
        r#"{"password":"geheim","tags":""}"#,
    );
    let rights = format!(r#"{{"configure":"","read":"{read}","write":"{write}"}}"#);
    manage("PUT", &format!("permissions/%2f/{name}"), &rights);
}

fn as_user(login: &str) -> String {
    url().replace("guest:guest", login)
}

/// Returns the error of a permanent refusal, which the first fetch returns too.
async fn refused(options: Options) -> Error {
    let error = AmqpSource::connect(options.clone())
        .await
        .expect_err("refused");
    let mut source = AmqpSource::new(options).expect("options");
    let told = source.fetch(1).await.expect_err("refused");
    assert_eq!(told.to_string(), error.to_string());
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::InvalidConfig, Code::SourceUnavailable)
    );
    source.close().await.expect("there was nothing to tell");
    error
}

#[tokio::test]
async fn a_missing_queue_is_named() {
    let error = refused(Options::new(url(), "semel-no-such-queue")).await;
    assert!(
        error
            .to_string()
            .contains("\"semel-no-such-queue\" does not exist"),
        "{error}"
    );
}

#[tokio::test]
async fn a_wrong_password_is_told_and_not_repeated() {
    for login in ["guest:geheim", "nobody:geheim"] {
        let options = Options::new(as_user(login), "q");
        assert!(!format!("{options:?}").contains("geheim"));
        let error = refused(options).await;
        assert!(
            error.to_string().contains("check user and password"),
            "{error}"
        );
        assert!(!words(&error).contains("geheim"), "{}", words(&error));
        let sink = AmqpSink::new(SinkOptions::new(as_user(login), "", "q")).expect("options");
        assert!(!format!("{sink:?}").contains("geheim"));
        let error = sink
            .publish(&[publication("1")])
            .await
            .remove(0)
            .expect_err("refused");
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::InvalidConfig, Code::TargetUnavailable)
        );
        assert!(!words(&error).contains("geheim"), "{}", words(&error));
    }
}

#[tokio::test]
async fn a_missing_virtual_host_is_named() {
    let error = refused(Options::new(url().replace("/%2f", "/elsewhere"), "q")).await;
    assert!(
        error.to_string().contains("no virtual host \"elsewhere\""),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_right_is_named() {
    let queue = Queue::open().await;
    user("semel-blind", "", ".*");
    user("semel-mute", ".*", "");
    let error = refused(Options::new(as_user("semel-blind:geheim"), &queue.name)).await;
    assert!(
        error.to_string().contains("may not read the queue"),
        "{error}"
    );
    let options = SinkOptions::new(as_user("semel-mute:geheim"), "", &queue.name);
    let sink = AmqpSink::new(options).expect("options");
    // The broker ends the channel for the first, while the last are still being sent.
    let many: Vec<_> = (0..2_000).map(|id| publication(&id.to_string())).collect();
    for _ in 0..2 {
        for answer in sink.publish(&many).await {
            let error = answer.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
            assert!(error.to_string().contains("may not write"), "{error}");
            assert!(!words(&error).contains("geheim"), "{}", words(&error));
        }
    }
    manage("DELETE", "users/semel-blind", "");
    manage("DELETE", "users/semel-mute", "");
}

#[tokio::test]
async fn a_missing_exchange_is_named() {
    let sink =
        AmqpSink::new(SinkOptions::new(url(), "semel-no-such-exchange", "k")).expect("options");
    let error = sink
        .publish(&[publication("1")])
        .await
        .remove(0)
        .expect_err("refused");
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::InvalidConfig, Code::TargetUnavailable)
    );
    assert!(
        error
            .to_string()
            .contains("\"semel-no-such-exchange\" does not exist"),
        "{error}"
    );
}

#[tokio::test]
async fn a_queue_that_another_has_to_itself_is_waited_for() {
    let queue = Queue::open().await;
    queue.put(0..1).await;
    let alone = lapin::options::BasicConsumeOptions {
        exclusive: true,
        ..lapin::options::BasicConsumeOptions::default()
    };
    let name = queue.name.as_str();
    let taken = queue.channel.basic_consume(
        name.into(),
        "alone".into(),
        alone,
        lapin::types::FieldTable::default(),
    );
    let taken = taken.await.expect("a consumer");
    let mut source = queue.source();
    match source.fetch(1).await {
        Ok(Fetched::Away(error)) => assert!(error.to_string().contains("to itself"), "{error}"),
        other => panic!("{other:?}"),
    }
    let recovered = queue.channel.basic_cancel(
        "alone".into(),
        lapin::options::BasicCancelOptions::default(),
    );
    recovered.await.expect("cancelled");
    drop(taken);
    let nack = lapin::options::BasicNackOptions {
        multiple: true,
        requeue: true,
    };
    queue.channel.basic_nack(0, nack).await.expect("given back");
    take(&mut source, 1).await;
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let with = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::new("amqp://rabbit", "q");
        change(&mut options);
        options
    };
    let long = "q".repeat(256);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    for options in [
        with(&|it| it.queue.clear()),
        with(&|it| it.queue.clone_from(&long)),
        with(&|it| it.consumer_tag.clone_from(&long)),
        with(&|it| it.prefetch = 0),
        with(&|it| it.url = "amqp//rabbit".into()),
    ] {
        let error = AmqpSource::new(options).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    }
    assert!(AmqpSink::new(SinkOptions::new("amqp://rabbit", &*long, "k")).is_err());
}
