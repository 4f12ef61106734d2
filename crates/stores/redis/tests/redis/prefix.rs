//! Place of a store: its prefix, its format, its neighbours.

use semel_core::{Code, ErrorKind, Store};
use semel_store_redis::{FORMAT, Options, RedisStore, inspect, migrate};

use crate::index::work;
use crate::lab::{connect, connect_to, grant, refused, request};
use crate::server::Server;

#[tokio::test]
async fn an_absent_store_is_not_made_by_whoever_only_looks_for_it() {
    let server = Server::durable();
    let mut options = Options::default();
    options.create = false;
    let Err(error) = RedisStore::connect(&server.url(), options.clone()).await else {
        panic!("there is no store")
    };
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unavailable, Code::StoreUnavailable)
    );
    assert!(error.to_string().contains("no store"), "{error}");
    assert_eq!(server.ask(&["DBSIZE"]), [":0"]);
    assert_eq!(
        migrate(&server.url(), options.clone()).await.expect("made"),
        FORMAT
    );
    assert!(RedisStore::connect(&server.url(), options).await.is_ok());
}

#[tokio::test]
async fn a_newer_store_is_refused() {
    let server = Server::durable();
    connect(&server).await;
    server.ask(&["HSET", "semel:{0}:m", "format", "3"]);
    let error = refused(&server.url()).await;
    assert_eq!(error.code(), Code::StoreNewer, "{error:?}");
    assert_eq!(
        migrate(&server.url(), Options::default())
            .await
            .expect_err("newer")
            .code(),
        Code::StoreNewer
    );
}

/// Records of format 1 mean the same under format 2.
#[tokio::test]
async fn a_store_of_format_1_is_brought_forward_by_the_verb_alone() {
    let server = Server::durable();
    let store = connect(&server).await;
    assert!(!grant(&store, &request("old", 1)).await.resumed);
    server.ask(&["HSET", "semel:{0}:m", "format", "1"]);
    let error = refused(&server.url()).await;
    assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
    assert!(error.to_string().contains("store migrate"), "{error}");
    let inspection = inspect(&server.url(), Options::default(), &[]).await;
    assert_eq!(inspection.expect("an inspection").format, Some(1));
    let migrated = migrate(&server.url(), Options::default()).await;
    assert_eq!(migrated.expect("brought forward"), 2);
    let store = connect(&server).await;
    let old = store.get([request("old", 1).operation].into()).await;
    let old = old.expect("an answer").remove(0).expect("a record");
    assert_eq!((old.attempts, old.members), (1, None));
}

#[tokio::test]
async fn keys_of_somebody_else_are_not_taken_for_a_store() {
    for command in [
        ["SET", "semel:{0}:m", "mine", "XX"],
        ["HSET", "semel:{0}:m", "format", "three"],
        ["HSET", "semel:{0}:m", "format", "1"],
    ] {
        let server = Server::durable();
        let command = if command[0] == "SET" {
            &command[..3]
        } else {
            &command[..]
        };
        server.ask(command);
        let error = refused(&server.url()).await;
        assert_eq!(error.code(), Code::StoreForeign, "{error:?}");
    }
}

#[tokio::test]
async fn two_stores_on_one_server_do_not_meet_each_other_nor_anybody_else() {
    let server = Server::durable();
    server.ask(&["SET", "semel", "theirs"]);
    server.ask(&["SET", "semel2:{0}:x", "theirs"]);
    let one = connect_to(&format!("{}?prefix=one", server.url())).await;
    let other = connect_to(&format!("{}?prefix=one2", server.url())).await;
    let third = connect_to(&format!("{}/1?prefix=one", server.url())).await;
    for store in [&one, &other, &third] {
        assert!(!grant(store, &request("pay-1", 1)).await.resumed);
    }
    for store in [&one, &other, &third] {
        assert_eq!(
            store.stats().await.expect("counts").records,
            [1, 0, 0, 0, 0, 0]
        );
    }
    work(&one).await;
    assert_eq!(
        other.stats().await.expect("counts").records,
        [1, 0, 0, 0, 0, 0]
    );
    assert_eq!(server.ask(&["GET", "semel"]), ["theirs"]);
    let keys = server.ask(&["KEYS", "*"]);
    let is_known = |key: &String| {
        ["one:{0}:", "one2:{0}:"]
            .iter()
            .any(|prefix| key.starts_with(prefix))
            || ["semel", "semel2:{0}:x"].contains(&&**key)
    };
    assert!(keys.iter().all(is_known), "{keys:?}");
}
