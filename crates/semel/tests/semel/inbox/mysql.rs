//! On a MySQL or MariaDB server, through `mysql_async`.

use semel::mysql::{MysqlInbox, MysqlStore, Options};
use semel::mysql_async::{Conn, Opts, Transaction, TxOpts, prelude::Queryable};
use semel::{Failure, OnceError, Receipt};

use crate::server::Place;

#[tokio::test]
async fn one_call_has_one_effect_and_a_failure_leaves_nothing() {
    let place = Place::on("mysql").expect("a server");
    let url = place.url();
    let store = MysqlStore::connect(&url, Options::default()).await;
    let store = store.expect("a store");
    let inbox: MysqlInbox = store.inbox().into();
    let (server, prefix) = url.split_once("?prefix=").expect("a prefix");
    let mut connection = Conn::new(Opts::from_url(server).expect("a url")).await;
    let connection = connection.as_mut().expect("a connection");
    let stock = format!("{prefix}stock");
    for sql in [
        format!("create table {stock} (count bigint) engine=InnoDB"),
        format!("insert into {stock} values (10)"),
    ] {
        connection.query_drop(sql).await.expect("a table");
    }
    let take = async |tx: &mut Transaction<'_>| -> Result<i64, Failure> {
        tx.query_drop(format!("update {stock} set count = count - 1"))
            .await?;
        let left = tx.query_first(format!("select count from {stock}"));
        left.await?.ok_or_else(|| Failure::dead("no stock"))
    };
    for time in 0..2 {
        let tx = connection.start_transaction(TxOpts::default()).await;
        let mut tx = tx.expect("a transaction");
        let receipt = inbox.once(&mut tx, "take", "order-1", &take).await;
        let receipt = receipt.expect("a value");
        assert_eq!((*receipt.value(), receipt.is_replay()), (9, time > 0));
        let failed: Result<Receipt<i64>, _> = inbox
            .once(&mut tx, "take", "order-2", async |tx| {
                take(tx).await?;
                Err(Failure::dead("no such order"))
            })
            .await;
        let error = failed.expect_err("it failed");
        assert!(
            matches!(&error, OnceError::Failed { attempt: 1, .. }),
            "{error:?}"
        );
        tx.commit().await.expect("a commit");
    }
    let left = connection.query_first(format!("select count from {stock}"));
    assert_eq!(left.await.expect("an answer"), Some(9_i64));
}

#[tokio::test]
async fn a_call_can_be_spawned() {
    let place = Place::on("mysql").expect("a server");
    let url = place.url();
    let store = MysqlStore::connect(&url, Options::default()).await;
    let inbox: MysqlInbox = store.expect("a store").inbox().into();
    let (server, _) = url.split_once('?').expect("parameters");
    let opts = Opts::from_url(server).expect("a url");
    let task = tokio::spawn(async move {
        let mut connection = Conn::new(opts).await?;
        let mut tx = connection.start_transaction(TxOpts::default()).await?;
        let receipt = inbox.once(&mut tx, "take", "order-1", async |tx| {
            Ok(tx.query_first::<i64, _>("select 9").await?)
        });
        let receipt = receipt.await?;
        tx.commit().await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(receipt.into_value())
    });
    let left = task.await.expect("no panic").expect("a value");
    assert_eq!(left, Some(9));
}
