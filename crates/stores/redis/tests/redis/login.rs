//! Logins and encryption that fail: each with words of its own, none with the password.

use std::process::Command;

use semel_core::{Code, ErrorKind};
use semel_store_redis::{Options, RedisStore, inspect, migrate};

use crate::lab::{connect_to, grant, refused, request, words};
use crate::server::Server;

#[tokio::test]
async fn a_wrong_password_is_told_as_such_and_not_repeated() {
    let server = Server::start(&["--requirepass", "the-right-one"]);
    let at = format!("127.0.0.1:{}", server.port);
    for login in ["", ":geheim@", "default:geheim@", "nobody:geheim@"] {
        let url = format!("redis://{login}{at}");
        let mut errors = vec![refused(&url).await];
        errors.extend(inspect(&url, Options::default(), &[]).await.err());
        errors.extend(migrate(&url, Options::default()).await.err());
        assert_eq!(errors.len(), 3);
        for error in errors {
            assert_eq!(
                (error.kind(), error.code()),
                (ErrorKind::InvalidConfig, Code::StoreUnavailable)
            );
            assert!(error.to_string().contains("user or password"), "{error}");
            assert!(!words(&error).contains("geheim"), "{}", words(&error));
        }
    }
    let store = connect_to(&format!("redis://:the-right-one@{at}")).await;
    assert!(!format!("{store:?}").contains("the-right-one"));
    let _ = grant(&store, &request("pay-1", 1)).await;
}

#[tokio::test]
async fn a_password_that_changes_later_is_told_as_such() {
    let mut server = Server::start(&["--requirepass", "geheim"]);
    let url = format!("redis://:geheim@127.0.0.1:{}", server.port);
    let store = connect_to(&url).await;
    server.kill();
    let mut other = Server::start(&["--requirepass", "another"]);
    // Another server in its place.
    other.kill();
    other.port = server.port;
    other.restart();
    crate::lab::rest().await;
    let batch = [request("pay-1", 1)];
    let Err(error) = semel_core::Store::claim(&store, batch.into()).await else {
        panic!("the wrong password was taken")
    };
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::InvalidConfig, Code::StoreUnavailable)
    );
    assert!(!words(&error).contains("geheim"), "{}", words(&error));
}

#[tokio::test]
async fn a_missing_right_is_named_before_there_is_work() {
    let server = Server::start(&[]);
    let grant_all = [
        "ACL", "SETUSER", "ada", "on", ">geheim", "~semel:*", "+@all",
    ];
    for missing in ["-xadd", "-eval|-evalsha", "-info", "-zadd", "-rpush"] {
        let mut rules = grant_all.to_vec();
        rules.extend(missing.split('|'));
        server.ask(&["ACL", "DELUSER", "ada"]);
        assert_eq!(server.ask(&rules), ["+OK"]);
        let error = refused(&format!("redis://ada:geheim@127.0.0.1:{}", server.port)).await;
        assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
        assert!(
            error.to_string().contains("lacks a right"),
            "{missing}: {error}"
        );
        assert!(!words(&error).contains("geheim"));
    }
    server.ask(&["ACL", "DELUSER", "ada"]);
    server.ask(&grant_all);
    let store = connect_to(&format!("redis://ada:geheim@127.0.0.1:{}", server.port)).await;
    let _ = grant(&store, &request("pay-1", 1)).await;
    let elsewhere = format!("redis://ada:geheim@127.0.0.1:{}?prefix=shop", server.port);
    let error = refused(&elsewhere).await;
    assert!(error.to_string().contains("lacks a right"), "{error}");
}

/// The rights that docs/spec/redis.md names are enough.
#[tokio::test]
async fn the_rights_of_the_specification_are_enough() {
    let server = Server::start(&[]);
    let spec = include_str!("../../../../../docs/spec/redis.md");
    let line = spec
        .lines()
        .find(|line| line.starts_with("ACL SETUSER semel "));
    let rules: Vec<&str> = line.expect("the line with the rights").split(' ').collect();
    assert_eq!(server.ask(&rules), ["+OK"]);
    let url = format!("redis://semel:SECRET@127.0.0.1:{}", server.port);
    let store = connect_to(&url).await;
    crate::index::work(&store).await;
    crate::index::everything_else(&store).await;
}

#[tokio::test]
async fn tls_that_does_not_fit_is_told_as_such() {
    let port = free_port::take().expect("a free port");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    for (name, host) in [("ours", "127.0.0.1"), ("theirs", "127.0.0.2")] {
        certificate(
            &file(&format!("{name}.pem")),
            &file(&format!("{name}.key")),
            host,
        );
    }
    let (cert, key, port_text) = (file("ours.pem"), file("ours.key"), port.to_string());
    let mut arguments = vec![
        "--tls-port",
        &port_text,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
    ];
    arguments.extend([
        "--tls-ca-cert-file",
        &cert,
        "--tls-auth-clients",
        "no",
        "--appendonly",
        "yes",
    ]);
    let server = Server::start(&arguments);

    let (ours, theirs) = (file("ours.pem"), file("theirs.pem"));
    let store = connect_to(&format!("rediss://127.0.0.1:{port}?ca={ours}")).await;
    let _ = grant(&store, &request("pay-1", 1)).await;

    let plain_port = server.port;
    for (url, part) in [
        (
            format!("rediss://127.0.0.1:{port}?ca={theirs}"),
            "certificate",
        ),
        (format!("rediss://127.0.0.1:{port}"), "certificate"),
        (
            format!("rediss://127.0.0.1:{plain_port}?ca={ours}"),
            "TLS port",
        ),
        (
            format!("rediss://127.0.0.1:{port}?ca=/nowhere.pem"),
            "cannot be read",
        ),
        (format!("redis://:geheim@127.0.0.1:{port}"), "rediss://"),
    ] {
        let mut options = Options::default();
        options.patience = std::time::Duration::from_millis(1_500);
        let Err(error) = RedisStore::connect(&url, options).await else {
            panic!("{url} was taken")
        };
        assert_eq!(error.code(), Code::StoreUnavailable, "{url}: {error:?}");
        assert!(error.to_string().contains(part), "{url}: {error}");
        assert!(!words(&error).contains("geheim"));
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_told_as_such() {
    let nobody = free_port::take().expect("a free port");
    let error = refused(&format!("redis://:geheim@127.0.0.1:{nobody}")).await;
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert_eq!(error.certainty(), semel_core::Certainty::NotApplied);
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    assert!(!words(&error).contains("geheim"));
}

fn certificate(cert: &str, key: &str, host: &str) {
    let names = format!("subjectAltName=IP:{host}");
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=semel test",
        ])
        .args([
            "-addext",
            &names,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .args(["-keyout", key, "-out", cert])
        .output()
        .expect("openssl is installed (Debian: openssl)");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}
