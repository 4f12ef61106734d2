//! Looking at a database that is or may become a store.

use mysql_async::prelude::Queryable;
use semel_core::port::store::Durability;
use semel_core::{Code, Store};
use semel_store_mysql::{FORMAT, MysqlStore, Options, look, migrate};

use crate::database::Database;
use crate::lab::{Lab, fresh_database, grant, request, statements};

async fn tables(database: &Database) -> Vec<String> {
    let mut connection = database.connect().await;
    connection.query("SHOW TABLES").await.expect("tables")
}

#[tokio::test]
async fn looking_leaves_no_trace() {
    let database = fresh_database().await;
    let looked = look(&database.url(), Options::default(), &[])
        .await
        .expect("a look");
    assert_eq!((looked.format, looked.refused.len()), (None, 0));
    assert_eq!(
        (looked.capabilities.kind, looked.capabilities.shared),
        ("mysql", true)
    );
    assert_eq!(tables(&database).await, [""; 0]);
    let made = migrate(&database.url(), Options::default())
        .await
        .expect("tables");
    assert_eq!((made, tables(&database).await.len()), (FORMAT, 7));
    let again = migrate(&database.url(), Options::default())
        .await
        .expect("tables");
    assert_eq!(again, FORMAT);
    let looked = look(&database.url(), Options::default(), &[])
        .await
        .expect("a look");
    assert_eq!(looked.format, Some(FORMAT));
}

#[tokio::test]
async fn statements_are_tried_on_a_database_that_is_no_store_yet() {
    let database = fresh_database().await;
    database
        .run("CREATE TABLE payments (id VARCHAR(40)) ENGINE=InnoDB")
        .await;
    let asked = [
        statements(&["INSERT INTO payments VALUES (:id)"], &["id"]),
        statements(&["INSERT INTO paymints VALUES (:id)"], &["id"]),
    ];
    let looked = look(&database.url(), Options::default(), &asked)
        .await
        .expect("a look");
    let [None, Some(error)] = &looked.refused[..] else {
        panic!("{looked:?}")
    };
    assert_eq!(error.code(), Code::InvalidConfig);
    assert!(
        error.to_string().contains("paymints' doesn't exist"),
        "{error}"
    );
    let mut connection = database.connect().await;
    let rows: Option<u64> = connection
        .query_first("SELECT COUNT(*) FROM payments")
        .await
        .expect("a count");
    assert_eq!(rows, Some(0), "nothing is run");
}

#[tokio::test]
async fn a_newer_store_can_be_looked_at() {
    let lab = Lab::new().await;
    drop(lab.store().await);
    lab.database
        .run("UPDATE semel_meta SET number = 7 WHERE name = 'format'")
        .await;
    let looked = look(&lab.database.url(), Options::default(), &[])
        .await
        .expect("a look");
    assert_eq!(looked.format, Some(7));
}

#[tokio::test]
async fn a_server_as_it_comes_survives_a_power_cut() {
    let lab = Lab::new().await;
    let capabilities = lab.store().await.preflight().await.expect("capabilities");
    assert_eq!(
        capabilities.durability,
        Durability::PowerCut,
        "{capabilities:?}"
    );
}

#[tokio::test]
async fn two_prefixes_are_two_stores() {
    let database = fresh_database().await;
    let store = |prefix: &str| {
        let url = format!("{}?prefix={prefix}", database.url());
        async move {
            MysqlStore::connect(&url, Options::default())
                .await
                .expect("a store")
        }
    };
    let (one, other) = (store("one_").await, store("other_").await);
    let _ = (
        grant(&one, &request("a", 1)).await,
        grant(&other, &request("a", 2)).await,
    );
    assert_eq!(tables(&database).await.len(), 14);
    let counts = (
        one.stats().await.expect("counts"),
        other.stats().await.expect("counts"),
    );
    assert_eq!((counts.0.records[0], counts.1.records[0]), (1, 1));
}
