//! On a PostgreSQL server, through `tokio-postgres`.

use semel::postgres::{Options, PostgresInbox, PostgresStore};
use semel::tokio_postgres::{Client, NoTls, Transaction};
use semel::{Failure, OnceError, Receipt};

use crate::server::Place;

async fn shop(place: &Place) -> (PostgresStore, PostgresInbox, Client) {
    let url = place.url();
    let store = PostgresStore::connect(&url, Options::default()).await;
    let store = store.expect("a store");
    let (server, rest) = url.split_once('?').expect("parameters");
    let schema = rest.split(['=', '&']).nth(1).expect("a schema");
    let connected = tokio_postgres::connect(server, NoTls).await;
    let (client, connection) = connected.expect("a connection");
    tokio::spawn(connection);
    let made = format!(
        "set search_path = {schema}; create table stock (count bigint); insert into stock values (10)"
    );
    client.batch_execute(&made).await.expect("a table");
    let inbox = store.inbox().into();
    (store, inbox, client)
}

async fn take(tx: &Transaction<'_>) -> Result<i64, Failure> {
    let sql = "update stock set count = count - 1 returning count";
    Ok(tx.query_one(sql, &[]).await?.try_get(0)?)
}

async fn count(client: &Client) -> i64 {
    let row = client.query_one("select count from stock", &[]).await;
    row.expect("a row").get(0)
}

#[tokio::test]
async fn one_call_has_one_effect_and_a_failure_leaves_nothing() {
    let place = Place::on("postgres").expect("a server");
    let (_store, inbox, mut client) = shop(&place).await;
    for time in 0..2 {
        let mut tx = client.transaction().await.expect("a transaction");
        let receipt = inbox.once(&mut tx, "take", "order-1", async |tx| take(tx).await);
        let receipt = receipt.await.expect("a value");
        assert_eq!((*receipt.value(), receipt.is_replay()), (9, time > 0));
        // A statement that PostgreSQL refuses, after which a transaction takes nothing more.
        let failed: Result<Receipt<i64>, _> = inbox
            .once(&mut tx, "take", "order-2", async |tx| {
                take(tx).await?;
                tx.batch_execute("select no_such_column").await?;
                Ok(0)
            })
            .await;
        let error = failed.expect_err("it failed");
        assert!(
            matches!(&error, OnceError::Failed { attempt: 1, .. }),
            "{error:?}"
        );
        tx.commit().await.expect("a commit");
    }
    assert_eq!(count(&client).await, 9);

    let mut tx = client.transaction().await.expect("a transaction");
    let receipt = inbox.once(&mut tx, "take", "order-3", async |tx| take(tx).await);
    assert!(receipt.await.is_ok());
    tx.rollback().await.expect("a rollback");
    assert_eq!(count(&client).await, 9);
}

#[tokio::test]
async fn a_call_that_is_dropped_is_undone() {
    let place = Place::on("postgres").expect("a server");
    let (_store, inbox, mut client) = shop(&place).await;
    let mut tx = client.transaction().await.expect("a transaction");
    let (tell, told) = tokio::sync::oneshot::channel();
    {
        let call = inbox.once(&mut tx, "take", "order-1", async |tx| {
            let left = take(tx).await?;
            let _ = tell.send(());
            std::future::pending::<()>().await;
            Ok(left)
        });
        tokio::select! {
            biased;
            answer = call => panic!("{answer:?}"),
            begun = told => begun.expect("it runs"),
        }
    }
    let receipt = inbox.once(&mut tx, "take", "order-1", async |tx| take(tx).await);
    let receipt = receipt.await.expect("a value");
    assert_eq!((receipt.attempt(), *receipt.value()), (Some(1), 9));
    tx.commit().await.expect("a commit");
    assert_eq!(count(&client).await, 9);
}

/// A service runs its requests on tasks.
#[tokio::test]
async fn a_call_can_be_spawned() {
    let place = Place::on("postgres").expect("a server");
    let (_store, inbox, mut client) = shop(&place).await;
    let task = tokio::spawn(async move {
        let mut tx = client.transaction().await?;
        let receipt = inbox.once(&mut tx, "take", "order-1", async |tx| take(tx).await);
        let receipt = receipt.await?;
        tx.commit().await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(receipt.into_value())
    });
    assert_eq!(task.await.expect("no panic").expect("a value"), 9);
}
