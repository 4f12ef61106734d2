//! Servers, users and tables that a store refuses: each with a clear error, none with a secret.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_core::{Advice, Certainty, Code, Error, ErrorKind, Store};
use semel_store_mysql::{MysqlStore, Options};

use crate::database::Database;
use crate::lab::{Lab, fresh_database, grant, request};

const PASSWORD: &str = "geheim-4711";

/// A user with some rights in a database; removed with the test.
struct User {
    database: Arc<Database>,
    name: String,
}

impl User {
    async fn with(database: &Arc<Database>, rights: &str) -> Self {
        let name = database.name.replace("semel_test", "st");
        let at = format!("'{name}'@'127.0.0.1'");
        database
            .run(&format!("CREATE USER {at} IDENTIFIED BY '{PASSWORD}'"))
            .await;
        if !rights.is_empty() {
            database
                .run(&format!("GRANT {rights} ON {}.* TO {at}", database.name))
                .await;
        }
        let database = Arc::clone(database);
        Self { database, name }
    }

    fn url(&self, password: &str) -> String {
        let url = self.database.url();
        let (_, rest) = url.split_once('@').expect("a url with a user");
        format!("mysql://{}:{password}@{rest}", self.name)
    }

    async fn gone(self) {
        self.database
            .run(&format!("DROP USER '{}'@'127.0.0.1'", self.name))
            .await;
    }
}

async fn refused(url: &str) -> Error {
    let connected = MysqlStore::connect(url, Options::default()).await;
    let error = connected.expect_err("a store was made of it");
    assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
    assert_no_secret(&error);
    error
}

/// Looks through the whole chain, printed either way.
fn assert_no_secret(error: &Error) {
    let mut link: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = link {
        let printed = format!("{error} {error:?} {error:#?}");
        assert!(!printed.contains(PASSWORD), "{printed}");
        link = error.source();
    }
    assert!(
        error
            .source()
            .is_none_or(|source| !source.to_string().contains(PASSWORD))
    );
}

fn says(error: &Error, code: Code, words: &str) {
    assert_eq!(error.code(), code, "{error:?}");
    assert!(error.to_string().contains(words), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_told_and_never_repeated() {
    let database = Arc::new(fresh_database().await);
    let user = User::with(&database, "ALL").await;
    let error = refused(&user.url(&format!("{PASSWORD}x"))).await;
    says(&error, Code::StoreUnavailable, "check user, password");
    assert_eq!(
        (error.kind(), error.advice()),
        (ErrorKind::InvalidConfig, Advice::Fix)
    );
    let store = MysqlStore::connect(&user.url(PASSWORD), Options::default()).await;
    let printed = format!("{:?}", store.expect("the right one"));
    assert!(!printed.contains(PASSWORD));
    user.gone().await;
}

#[tokio::test]
async fn a_user_who_may_not_make_tables_is_told_so() {
    let database = Arc::new(fresh_database().await);
    let user = User::with(&database, "SELECT, INSERT, UPDATE, DELETE").await;
    let error = refused(&user.url(PASSWORD)).await;
    says(&error, Code::StoreUnavailable, "CREATE command denied");
    // Another user creates them; then the rights suffice.
    let made = MysqlStore::connect(&database.url(), Options::default()).await;
    drop(made.expect("tables"));
    let store = MysqlStore::connect(&user.url(PASSWORD), Options::default()).await;
    let _ = grant(&store.expect("a store"), &request("a", 1)).await;
    user.gone().await;
}

#[tokio::test]
async fn a_right_that_is_missing_is_found_before_work_begins() {
    for (rights, missing) in [
        ("SELECT, INSERT, DELETE", "UPDATE command denied"),
        ("SELECT, UPDATE, DELETE", "INSERT command denied"),
        ("SELECT, INSERT, UPDATE", "DELETE command denied"),
    ] {
        let database = Arc::new(fresh_database().await);
        let made = MysqlStore::connect(&database.url(), Options::default()).await;
        drop(made.expect("tables"));
        let user = User::with(&database, rights).await;
        let error = refused(&user.url(PASSWORD)).await;
        says(&error, Code::StoreUnavailable, missing);
        assert_eq!(error.advice(), Advice::Fix, "no retry mends a right");
        user.gone().await;
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let database = fresh_database().await;
    let url = database.url().replace("semel_test", "semel_absent");
    let error = refused(&url).await;
    says(
        &error,
        Code::StoreUnavailable,
        "Unknown database 'semel_absent",
    );
    let user = User::with(&Arc::new(database), "").await;
    let error = refused(&user.url(PASSWORD)).await;
    says(&error, Code::StoreUnavailable, "lacks a right");
    user.gone().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let error = refused(&format!("mysql://ada:{PASSWORD}@127.0.0.1:1/shop")).await;
    says(&error, Code::StoreUnavailable, "cannot be reached");
    assert!(matches!(error.advice(), Advice::Retry { .. }));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_after_the_patience() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let mut options = Options::default();
    options.patience = Duration::from_millis(100);
    let url = format!("mysql://ada:{PASSWORD}@127.0.0.1:{port}/shop");
    let error = MysqlStore::connect(&url, options)
        .await
        .expect_err("silence");
    says(&error, Code::StoreUnavailable, "no answer within 100ms");
    assert_no_secret(&error);
}

#[tokio::test]
async fn encryption_that_is_demanded_and_not_offered_is_told() {
    let database = fresh_database().await;
    for mode in ["required", "verify_ca", "verify_identity"] {
        let error = refused(&format!("{}?ssl-mode={mode}", database.url())).await;
        says(&error, Code::StoreUnavailable, "offers no encryption");
        assert_eq!(error.advice(), Advice::Fix);
    }
    let preferred = format!("{}?ssl-mode=preferred", database.url());
    let store = MysqlStore::connect(&preferred, Options::default()).await;
    assert!(store.is_ok(), "{store:?}");
}

#[tokio::test]
async fn an_absent_store_is_unavailable_and_not_made() {
    let database = fresh_database().await;
    let mut options = Options::default();
    options.create = false;
    let error = MysqlStore::connect(&database.url(), options)
        .await
        .expect_err("no store");
    says(&error, Code::StoreUnavailable, "semel store migrate");
    let mut connection = database.connect().await;
    let tables: Vec<String> = connection.query("SHOW TABLES").await.expect("tables");
    assert_eq!(tables, [""; 0]);
}

#[tokio::test]
async fn a_newer_store_is_left_alone() {
    let lab = Lab::new().await;
    drop(lab.store().await);
    lab.database
        .run("UPDATE semel_meta SET number = 3 WHERE name = 'format'")
        .await;
    lab.database
        .run("ALTER TABLE semel_records ADD COLUMN novelty INT, DROP COLUMN past")
        .await;
    let error = refused(&lab.database.url()).await;
    says(&error, Code::StoreNewer, "format 3");
    let error = semel_store_mysql::migrate(&lab.database.url(), Options::default()).await;
    assert_eq!(error.expect_err("newer").code(), Code::StoreNewer);
}

#[tokio::test]
async fn tables_of_somebody_else_are_left_alone() {
    for (table, words) in [
        ("semel_records (a INT)", "are not a store's"),
        ("semel_meta (a INT)", "is not a store's"),
        (
            "semel_meta (name VARBINARY(32), number TEXT)",
            "is not a store's",
        ),
    ] {
        let database = fresh_database().await;
        database
            .run(&format!("CREATE TABLE {table} ENGINE=InnoDB"))
            .await;
        if table.contains("TEXT") {
            database
                .run("INSERT INTO semel_meta VALUES ('format', 'one')")
                .await;
        }
        let error = refused(&database.url()).await;
        says(&error, Code::StoreForeign, words);
        let beside = format!("{}?prefix=other_", database.url());
        let store = MysqlStore::connect(&beside, Options::default()).await;
        assert!(store.is_ok(), "another prefix is a way out: {store:?}");
    }
}

#[tokio::test]
async fn a_table_without_transactions_is_refused_when_connecting_and_by_preflight() {
    for engine in ["MyISAM", "Aria"] {
        let lab = Lab::new().await;
        let store = lab.store().await;
        lab.database
            .run(&format!("ALTER TABLE semel_entities ENGINE={engine}"))
            .await;
        let words = format!("semel_entities is in the engine {engine}, which has no transactions");
        let error = refused(&lab.database.url()).await;
        says(&error, Code::StoreUnavailable, &words);
        assert_eq!(
            (error.kind(), error.advice()),
            (ErrorKind::InvalidConfig, Advice::Fix)
        );
        let error = store.preflight().await.expect_err("no promise");
        says(&error, Code::StoreUnavailable, &words);
    }
}

#[tokio::test]
async fn a_column_that_takes_different_texts_for_one_is_refused() {
    let general = "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL";
    for (column, words) in [
        (
            &*format!("tenant {general}"),
            "semel_records.tenant has the collation utf8mb4_general_ci",
        ),
        (
            "id CHAR(32) CHARACTER SET latin1 NOT NULL",
            "semel_records.id holds text",
        ),
    ] {
        let lab = Lab::new().await;
        drop(lab.store().await);
        lab.database
            .run(&format!("ALTER TABLE semel_records MODIFY {column}"))
            .await;
        let error = refused(&lab.database.url()).await;
        says(&error, Code::StoreUnavailable, words);
        assert_eq!(error.advice(), Advice::Fix);
    }
}

#[tokio::test]
async fn a_table_that_has_gone_is_named() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    lab.database
        .run("DROP TABLE semel_marks, semel_records")
        .await;
    let error = store
        .claim([request("a", 1)].into())
        .await
        .expect_err("no table");
    says(
        &error,
        Code::StoreUnavailable,
        "semel_records' doesn't exist",
    );
    assert_eq!(error.certainty(), Certainty::NotApplied);
    let error = refused(&lab.database.url()).await;
    says(
        &error,
        Code::StoreUnavailable,
        "table semel_records of the store is missing",
    );
}

#[tokio::test]
async fn a_making_that_broke_off_is_gone_on_with() {
    let lab = Lab::new().await;
    drop(lab.store().await);
    // The state of the tables when the server dies between two of them.
    lab.database.run("DELETE FROM semel_meta").await;
    lab.database
        .run("DROP TABLE semel_marks, semel_audit")
        .await;
    let store = lab.store().await;
    let _ = grant(&store, &request("a", 1)).await;
    assert_eq!(store.preflight().await.expect("capabilities").kind, "mysql");
}

#[tokio::test]
async fn eight_that_make_the_tables_at_once_make_one_store() {
    let database = Arc::new(fresh_database().await);
    let mut makers = tokio::task::JoinSet::new();
    for maker in 0..8_u128 {
        let database = Arc::clone(&database);
        makers.spawn(async move {
            let store = MysqlStore::connect(&database.url(), Options::default()).await;
            let store = store.expect("a store");
            let answers = store
                .claim([request("a", maker)].into())
                .await
                .expect("answers");
            matches!(answers[..], [semel_core::Admission::Granted(_)])
        });
    }
    let granted = makers
        .join_all()
        .await
        .into_iter()
        .filter(|granted| *granted);
    assert_eq!(granted.count(), 1);
}

#[tokio::test]
async fn a_pool_that_is_exhausted_says_so() {
    let lab = Lab::new().await;
    let mut options = lab.options();
    options.patience = Duration::from_millis(200);
    let url = format!("{}?connections=1", lab.database.url());
    let store = Arc::new(MysqlStore::connect(&url, options).await.expect("a store"));
    let _ = grant(&store, &request("a", 9)).await;
    let mut other = lab.database.connect().await;
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    other
        .query_drop("UPDATE semel_records SET error = 'x'")
        .await
        .expect("a lock");
    let calling = Arc::clone(&store);
    let call = tokio::spawn(async move { calling.claim([request("a", 1)].into()).await });
    lab.waiting_session().await;
    let error = store
        .claim([request("b", 1)].into())
        .await
        .expect_err("no connection");
    says(&error, Code::StoreUnavailable, "raise `connections`");
    assert_eq!(error.certainty(), Certainty::NotApplied);
    assert!(matches!(error.advice(), Advice::Retry { .. }));
    other.query_drop("ROLLBACK").await.expect("the lock back");
    assert!(call.await.expect("a task").is_ok());
    let _ = grant(&store, &request("b", 1)).await;
}
