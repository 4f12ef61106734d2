//! Encryption: offered, demanded, checked.

use std::path::Path;
use std::process::Command;

use semel_core::{Advice, Code, Store};
use semel_store_mysql::{MysqlStore, Options};

use crate::database::Database;
use crate::own::Server;

#[tokio::test]
async fn a_certificate_is_checked_where_that_is_asked_for() {
    let folder = std::env::temp_dir().join(format!("semel-mysql-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str| folder.join(name).display().to_string();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    certificate(&cert, &key, "IP:127.0.0.1");
    certificate(&file("other.pem"), &file("other-key.pem"), "IP:127.0.0.1");
    let (ssl_cert, ssl_key) = (format!("--ssl-cert={cert}"), format!("--ssl-key={key}"));
    let server = Server::with(&[&ssl_cert, &ssl_key]).await;
    let database = Database::on(&server.url("mysql")).await;
    database
        .run("CREATE USER 'careful'@'127.0.0.1' IDENTIFIED BY 'geheim' REQUIRE SSL")
        .await;
    database
        .run("GRANT ALL ON *.* TO 'careful'@'127.0.0.1'")
        .await;
    let url = database.url().replace("root@", "careful:geheim@");
    for mode in [
        "ssl-mode=preferred".to_owned(),
        "ssl-mode=required".to_owned(),
        format!("ssl-mode=verify_ca&ssl-ca={cert}"),
        format!("ssl-mode=verify_identity&ssl-ca={cert}"),
    ] {
        let store = MysqlStore::connect(&format!("{url}?{mode}"), Options::default()).await;
        let store = store.unwrap_or_else(|error| panic!("{mode}: {error:?}"));
        assert_eq!(store.stats().await.expect("counts").records, [0; 6]);
    }
    let elsewhere = url.replace("127.0.0.1", "localhost");
    for (url, words) in [
        (format!("{url}?ssl-mode=disabled"), "ssl-mode"),
        (
            format!("{url}?ssl-mode=verify_ca"),
            "the server's certificate",
        ),
        (
            format!("{url}?ssl-mode=verify_ca&ssl-ca={}", file("other.pem")),
            "the server's certificate",
        ),
        (
            format!("{elsewhere}?ssl-mode=verify_identity&ssl-ca={cert}"),
            "the server's certificate",
        ),
        (
            format!("{url}?ssl-mode=verify_ca&ssl-ca={}", file("nowhere.pem")),
            "ssl-ca",
        ),
    ] {
        let error = MysqlStore::connect(&url, Options::default())
            .await
            .expect_err("no encryption");
        assert_eq!(
            (error.code(), error.advice()),
            (Code::StoreUnavailable, Advice::Fix),
            "{error:?}"
        );
        assert!(error.to_string().contains(words), "{url}: {error}");
        assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
    }
    std::fs::remove_dir_all(&folder).expect("no folder");
}

fn certificate(cert: &str, key: &str, names: &str) {
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
        .args(["-addext", &format!("subjectAltName={names}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", key, "-out", cert])
        .output();
    let made = made.expect("openssl is installed (Debian: openssl)");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    assert!(Path::new(cert).exists());
}
