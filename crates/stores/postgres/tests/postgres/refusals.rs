//! Servers, users and tables that are not as they should be: the error names the fault clearly, and
//! no password.

use std::time::Duration;

use semel_conformance::certificates::Authority;
use semel_conformance::proxy::Proxy;
use semel_core::{
    Admission, Advice, Certainty, ClaimRequest, Code, Error, ErrorKind, Fingerprint, Members, Store,
};
use semel_store_postgres::{Options, PostgresStore, inspect, migrate};

use crate::lab::{Lab, at, chain, claim, completion, connect, count, proxy, request, settle, take};
use crate::server::Server;

#[tokio::test]
async fn a_user_that_the_server_refuses_is_told_so() {
    let server = Server::start(&["password_encryption=scram-sha-256"]);
    let semel = server.client().await;
    semel
        .batch_execute(&format!(
            "CREATE ROLE ada LOGIN PASSWORD '{SECRET}'; CREATE ROLE bob LOGIN"
        ))
        .await
        .expect("roles");
    server
        .admit("host all ada 127.0.0.1/32 scram-sha-256")
        .await;

    let wrong = server.url_of(&format!("ada:{SECRET}x"), "postgres");
    let error = refused(&wrong).await;
    to_be_fixed(&error, &["password authentication failed", "ada"]);
    let without = server.url_of("ada", "postgres");
    let error = refused(&without).await;
    to_be_fixed(&error, &["password missing"]);
    let nobody = server.url_of(&format!("bob:{SECRET}"), "postgres");
    let error = refused(&nobody).await;
    to_be_fixed(&error, &["pg_hba.conf", "bob"]);
    let nowhere = server.url_of(&format!("semel:{SECRET}"), "nowhere");
    let error = refused(&nowhere).await;
    to_be_fixed(&error, &["nowhere", "does not exist"]);
    let nameless = format!("postgres:///postgres?user=semel&password={SECRET}");
    let error = refused(&nameless).await;
    to_be_fixed(&error, &["host"]);

    // A user that may log in may still lack rights.
    let error = refused(&server.url_of(&format!("ada:{SECRET}"), "postgres")).await;
    to_be_fixed(&error, &["lacks a right", "permission denied for database"]);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_so() {
    let error = refused(&format!(
        "postgres://semel:{SECRET}@nowhere.invalid/postgres"
    ))
    .await;
    to_be_retried(&error, Code::StoreUnavailable, &["cannot be reached"]);
    let error = refused(&format!("postgres://semel:{SECRET}@127.0.0.1:1/postgres")).await;
    to_be_retried(&error, Code::StoreUnavailable, &["cannot be reached"]);

    // It takes the connection and says nothing.
    let lab = Lab::new();
    let silent = proxy();
    silent.hold();
    let error = refused(&with_secret(&at(&lab.site.url(), silent.address()))).await;
    to_be_retried(&error, Code::StoreUnavailable, &["no answer within"]);
    // It closes the connection in the middle of the greetings.
    for bytes in [0, 1, 20] {
        let rude = proxy();
        rude.cut_after_server_bytes(bytes);
        let error = refused(&with_secret(&at(&lab.site.url(), rude.address()))).await;
        to_be_retried(&error, Code::StoreUnavailable, &["broke"]);
    }
}

#[tokio::test]
async fn encryption_is_used_where_it_is_asked_for_and_checked() {
    let mut server = Server::start(&[]);
    let plain = server.url_of(&format!("semel:{SECRET}"), "postgres");
    let error = refused(&format!("{plain}?sslmode=require")).await;
    to_be_fixed(&error, &["encrypted", "does not support TLS", "sslmode"]);

    let authority = Authority::new();
    let right = authority.issue_for("server", "IP:127.0.0.1", &[]);
    let read = |path| std::fs::read(path).expect("a file");
    server.put("server.crt", &read(&right.cert));
    server.put("server.key", &read(&right.key));
    server.set("ssl", "on").await;
    let trusted = format!(
        "{plain}?sslmode=require&sslrootcert={}",
        authority.path.display()
    );
    let store = connect(&trusted, Options::default()).await;
    take(&store, &request("encrypted", 1)).await;
    let watcher = server.client().await;
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE ssl AND application_name = 'semel'";
    let row = watcher.query_one(encrypted, &[]).await.expect("a count");
    assert_eq!(row.get::<_, i64>(0), 1);

    // No authority vouches for it, whether encryption is asked for or only preferred.
    for url in [format!("{plain}?sslmode=require"), plain.clone()] {
        let error = refused(&url).await;
        to_be_fixed(
            &error,
            &["encrypted", "certificate", "UnknownIssuer", "sslrootcert"],
        );
    }
    // Another name.
    let proxied = Proxy::start(server.address());
    let other = trusted.replace(
        &server.address().to_string(),
        &format!("localhost:{}", proxied.address().port()),
    );
    let error = refused(&other).await;
    to_be_fixed(&error, &["encrypted", "certificate", "localhost"]);
    let unreadable = format!("{plain}?sslmode=require&sslrootcert=/nowhere/root.crt");
    let error = refused(&unreadable).await;
    to_be_fixed(&error, &["sslrootcert", "/nowhere/root.crt"]);

    // A link that breaks is no fault of a certificate.
    let through = at(&trusted, proxied.address());
    for bytes in [1, 100] {
        proxied.cut_after_server_bytes(bytes);
        let error = refused(&through).await;
        to_be_retried(&error, Code::StoreUnavailable, &["broke"]);
    }
    let store = connect(&through, Options::default()).await;
    take(&store, &request("through", 1)).await;
    proxied.cut_before_answer(1);
    let error = store
        .claim([request("cut", 1)].into())
        .await
        .expect_err("a cut");
    assert_eq!(
        (error.kind(), error.certainty(), error.advice()),
        (
            ErrorKind::Unavailable,
            Certainty::MaybeApplied,
            Advice::LookUpFirst
        ),
        "{error:?}"
    );
    let again = claim(&store, &request("cut", 1)).await;
    assert!(again.resumed);

    // The server insists.
    server.admit("hostssl all ada 127.0.0.1/32 trust").await;
    watcher
        .batch_execute("CREATE ROLE ada LOGIN")
        .await
        .expect("a role");
    let insisting = server.url_of(&format!("ada:{SECRET}"), "postgres");
    let error = refused(&format!("{insisting}?sslmode=disable")).await;
    to_be_fixed(&error, &["pg_hba.conf", "no encryption"]);
    drop(store);
    server.kill();
}

#[tokio::test]
async fn a_user_without_rights_is_told_which() {
    let lab = Lab::new();
    let owner = lab.store().await;
    take(&owner, &request("first", 1)).await;
    let user = lab.client().await;
    let schema = lab.schema();
    let role = format!("{schema}_role");
    user.batch_execute(&format!("CREATE ROLE {role} LOGIN"))
        .await
        .expect("a role");
    let url = with_secret(&lab.site.url()).replace("semel:", &format!("{role}:"));

    let error = refused(&url).await;
    to_be_fixed(&error, &["lacks a right", "permission denied for schema"]);
    user.batch_execute(&format!("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}"))
        .await
        .expect("rights");
    // It is there to be read, and no more.
    let store = connect(&url, Options::default()).await;
    let batch = [request("first", 2)];
    let error = store.claim(batch.into()).await.expect_err("no right");
    to_be_fixed(&error, &["lacks a right", "permission denied for"]);
    user.batch_execute(&format!(
        "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}; \
         GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
    ))
    .await
    .expect("rights");
    // These are the rights that the specification names.
    take(&store, &request("second", 2)).await;
    settle(&store, &completion("second", 2, b"paid")).await;
    assert_eq!(store.sweep(100).await.expect("a sweep").removed, 0);
    assert!(
        store
            .stats()
            .await
            .expect("statistics")
            .disk_bytes
            .is_some()
    );
    user.batch_execute(&format!("REVOKE INSERT ON {schema}.records FROM {role}"))
        .await
        .expect("a revocation");
    let error = store
        .claim([request("third", 2)].into())
        .await
        .expect_err("no right");
    to_be_fixed(
        &error,
        &["lacks a right", "permission denied for table records"],
    );
    drop(store);
    user.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await
        .expect("no role");
}

/// Tables as the code of format 1 created them: the same but for the column.
#[tokio::test]
async fn tables_of_format_1_are_brought_forward_by_the_verb_alone() {
    let lab = Lab::new();
    let url = with_secret(&lab.site.url());
    let with = |key: &str, claim_id, digest| ClaimRequest {
        fingerprint: Some(Fingerprint {
            scheme: 1,
            digest: [digest; 16],
        }),
        members: Members::from_bytes(&[1, 2, 3, 4, 5]),
        ..request(key, claim_id)
    };
    let store = lab.store().await;
    take(&store, &with("old", 1, 1)).await;
    let user = lab.client().await;
    user.batch_execute(
        "ALTER TABLE records DROP COLUMN members; UPDATE meta SET value = 1 WHERE name = 'format'",
    )
    .await
    .expect("format 1");
    drop(store);
    let error = PostgresStore::connect(&url, Options::default()).await;
    to_be_retried(
        &error.expect_err("an older store"),
        Code::StoreUnavailable,
        &["format 1", &lab.schema(), "store migrate"],
    );
    let inspection = inspect(&url, Options::default(), &[])
        .await
        .expect("an inspection");
    assert_eq!(inspection.format, Some(1));
    let (one, other) = tokio::join!(
        migrate(&url, Options::default()),
        migrate(&url, Options::default())
    );
    assert_eq!(
        (one.expect("brought forward"), other.expect("as well")),
        (2, 2)
    );
    let store = lab.store().await;
    let inspection = inspect(&url, Options::default(), &[])
        .await
        .expect("an inspection");
    assert_eq!(inspection.format, Some(2));
    let old = crate::lab::record(&store, "old").await.expect("a record");
    assert_eq!((old.members, old.attempts), (None, 1));
    take(&store, &with("new", 1, 1)).await;
    let answers = store
        .claim([with("new", 2, 2), with("old", 2, 2)].into())
        .await;
    let kept = Members::from_bytes(&[1, 2, 3, 4, 5]);
    assert!(matches!(
        &answers.expect("answers")[..],
        [
            Admission::Conflict { first, .. },
            Admission::Conflict { first: None, .. }
        ] if *first == kept
    ));
}

#[tokio::test]
async fn tables_that_are_missing_newer_or_not_ours_are_told_apart() {
    let lab = Lab::new();
    let url = with_secret(&lab.site.url());
    let mut looking = Options::default();
    looking.create = false;
    let error = PostgresStore::connect(&url, looking.clone()).await;
    let error = error.expect_err("no store");
    to_be_retried(
        &error,
        Code::StoreUnavailable,
        &["no store", &lab.schema(), "store migrate"],
    );
    let inspection = inspect(&url, looking, &[]).await.expect("an inspection");
    assert_eq!(inspection.format, None);
    let user = lab.client().await;
    let schemas = format!("pg_namespace WHERE nspname = '{}'", lab.schema());
    assert_eq!(count(&user, &schemas).await, 0, "looking makes nothing");

    let store = lab.store().await;
    take(&store, &request("first", 1)).await;
    user.batch_execute("DROP TABLE entities")
        .await
        .expect("no table");
    let gated = [crate::lab::gated("a", 1, "cart", 1)];
    let error = store.claim(gated.into()).await.expect_err("no table");
    to_be_fixed(&error, &["missing", "entities", "store migrate"]);
    user.batch_execute("DROP VIEW operations; DROP TABLE records")
        .await
        .expect("no table");
    let error = store
        .claim([request("b", 1)].into())
        .await
        .expect_err("no table");
    to_be_fixed(&error, &["missing", "records"]);

    user.batch_execute("UPDATE meta SET value = 3")
        .await
        .expect("a format");
    for error in [
        refused(&url).await,
        migrate(&url, Options::default()).await.expect_err("newer"),
    ] {
        to_be_retried(&error, Code::StoreNewer, &["format 3", "newer version"]);
    }
    for (meta, made) in [
        ("nobody's format", "DELETE FROM meta"),
        ("a format of old", "INSERT INTO meta VALUES ('format', 0)"),
        (
            "a text",
            "DROP TABLE meta; CREATE TABLE meta (name text, value text); INSERT INTO meta VALUES ('format', '1')",
        ),
        (
            "other columns",
            "DROP TABLE meta; CREATE TABLE meta (id integer)",
        ),
        (
            "other tables",
            "DROP TABLE meta; CREATE TABLE records (id integer)",
        ),
    ] {
        user.batch_execute(made).await.expect(meta);
        for error in [
            refused(&url).await,
            migrate(&url, Options::default()).await.expect_err(meta),
        ] {
            to_be_retried(&error, Code::StoreForeign, &[&lab.schema(), "name another"]);
        }
    }
    assert_eq!(count(&user, "records").await, 0, "left as it is");
}

#[tokio::test]
async fn a_database_that_cannot_hold_every_text_is_refused() {
    let server = Server::start(&[]);
    let semel = server.client().await;
    let create = "CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0";
    semel.batch_execute(create).await.expect("a database");
    let error = refused(&server.url_of(&format!("semel:{SECRET}"), "old")).await;
    to_be_fixed(&error, &["LATIN1", "UTF8"]);
}

#[tokio::test]
async fn a_replica_and_a_server_that_takes_no_writes_are_refused() {
    let server = Server::start(&[]);
    let url = server.url_of(&format!("semel:{SECRET}"), "postgres");
    let store = connect(&url, Options::default()).await;
    take(&store, &request("first", 1)).await;
    let standby = Server::standby_of(&server);
    let error = refused(&standby.url_of(&format!("semel:{SECRET}"), "postgres")).await;
    to_be_retried(&error, Code::StoreReadOnly, &["replica", "primary"]);
    let inspection = inspect(&standby.url(), Options::default(), &[]).await;
    let inspection = inspection.expect("an inspection");
    assert_eq!(inspection.format, Some(2));
    let unfit = inspection.unfit.expect("a replica is no store");
    to_be_retried(&unfit, Code::StoreReadOnly, &["replica", "primary"]);

    // Under a store that is open already.
    server.set("default_transaction_read_only", "on").await;
    let error = store
        .claim([request("second", 1)].into())
        .await
        .expect_err("read-only");
    to_be_retried(&error, Code::StoreReadOnly, &["read-only"]);
    let error = refused(&url).await;
    to_be_retried(&error, Code::StoreReadOnly, &["takes no writes"]);
    let inspection = inspect(&url, Options::default(), &[])
        .await
        .expect("an inspection");
    let unfit = inspection.unfit.expect("it takes no writes");
    to_be_retried(&unfit, Code::StoreReadOnly, &["takes no writes"]);
    server.set("default_transaction_read_only", "off").await;
    let inspection = inspect(&url, Options::default(), &[])
        .await
        .expect("an inspection");
    assert!(inspection.unfit.is_none(), "{:?}", inspection.unfit);
    take(&store, &request("second", 1)).await;
}

#[tokio::test]
async fn a_store_without_a_free_connection_says_so_in_time() {
    let lab = Lab::new();
    let store = lab.store().await;
    take(&store, &request("first", 1)).await;
    let mut options = Options::default();
    options.connections = 1;
    options.patience = Duration::from_millis(200);
    let url = with_secret(&lab.site.url()).replace("connections=8&", "");
    let small = std::sync::Arc::new(connect(&url, options).await);
    // Another session holds the row that its one connection waits for.
    let mut user = lab.client().await;
    let held = user.transaction().await.expect("a transaction");
    held.batch_execute(
        "INSERT INTO records (id, state, at, claim, token, attempts, created_at, scope, key) \
                        SELECT id, 0, 0, claim, 0, 0, 0, scope, key FROM records WHERE false; \
                        LOCK TABLE records IN EXCLUSIVE MODE",
    )
    .await
    .expect("a lock");
    let waiting = {
        let small = std::sync::Arc::clone(&small);
        tokio::spawn(async move { small.claim([request("second", 1)].into()).await })
    };
    let watcher = lab.client().await;
    let waits = format!(
        "pg_locks WHERE NOT granted AND relation = '{}.records'::regclass",
        lab.schema()
    );
    while count(&watcher, &waits).await == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let error = small
        .claim([request("third", 1)].into())
        .await
        .expect_err("no connection");
    to_be_retried(
        &error,
        Code::StoreUnavailable,
        &["all connections", "200ms", "`connections`"],
    );
    held.rollback().await.expect("a rollback");
    let answers = waiting.await.expect("a task").expect("an answer");
    assert_eq!(answers.len(), 1);
    take(&small, &request("third", 1)).await;
}

#[tokio::test]
async fn a_server_without_a_free_connection_is_told_so() {
    let server = Server::start(&["max_connections=8", "superuser_reserved_connections=1"]);
    let mut clients = Vec::new();
    while clients.len() < 8 {
        match tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                clients.push(client);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    let url = server.url_of(&format!("semel:{SECRET}"), "postgres");
    let error = refused(&url).await;
    to_be_retried(
        &error,
        Code::StoreUnavailable,
        &["no connection left", "max_connections"],
    );
    clients.clear();
    let mut tries = 0;
    while let Err(error) = PostgresStore::connect(&url, Options::default()).await {
        to_be_retried(&error, Code::StoreUnavailable, &["no connection left"]);
        tokio::time::sleep(Duration::from_millis(20)).await;
        tries += 1;
        assert!(tries < 500, "the others are gone");
    }
}

/// Returns the store's error for this url.
async fn refused(url: &str) -> Error {
    let mut options = Options::default();
    options.patience = Duration::from_millis(1_500);
    let refused = PostgresStore::connect(url, options).await;
    refused.err().unwrap_or_else(|| panic!("{url} is taken"))
}

/// Checks an error that a person has to fix.
fn to_be_fixed(error: &Error, words: &[&str]) {
    assert_eq!(
        (
            error.kind(),
            error.code(),
            error.certainty(),
            error.advice()
        ),
        (
            ErrorKind::InvalidConfig,
            Code::StoreUnavailable,
            Certainty::NotApplied,
            Advice::Fix
        ),
        "{error:?}"
    );
    says(error, words);
}

/// Checks an error that may pass by itself, or that a person may remove.
fn to_be_retried(error: &Error, code: Code, words: &[&str]) {
    assert_eq!(
        (error.kind(), error.code(), error.certainty()),
        (ErrorKind::Unavailable, code, Certainty::NotApplied),
        "{error:?}"
    );
    assert!(matches!(error.advice(), Advice::Retry { .. }), "{error:?}");
    says(error, words);
}

fn says(error: &Error, words: &[&str]) {
    let line = error.to_string();
    for word in words {
        assert!(line.contains(word), "no {word:?} in: {line}");
    }
    assert!(!line.contains('\n') && line.len() < 600, "{line}");
    let all = chain(error);
    assert!(!all.contains(SECRET), "{all}");
}

/// Returns the url with a password, which a server that trusts everybody does not look at.
fn with_secret(url: &str) -> String {
    url.replace("semel@", &format!("semel:{SECRET}@"))
}

const SECRET: &str = "geheim-4711";
