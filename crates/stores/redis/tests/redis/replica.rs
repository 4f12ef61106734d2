//! Servers that take no writes.

use semel_core::{Certainty, Code, Store};

use crate::lab::{completion, connect, grant, refused, request, until};
use crate::server::Server;

#[tokio::test]
async fn a_replica_is_refused() {
    let primary = Server::durable();
    connect(&primary).await;
    let port = primary.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    let error = refused(&replica.url()).await;
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreReadOnly, Certainty::NotApplied)
    );
    assert!(error.to_string().contains("replica"), "{error}");
}

#[tokio::test]
async fn a_primary_that_becomes_a_replica_and_back_is_told_as_such() {
    let (server, other) = (Server::durable(), Server::durable());
    let store = connect(&server).await;
    let request = request("pay-1", 1);
    let _ = grant(&store, &request).await;
    // It keeps its data: its new primary never answers.
    server.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    for _ in 0..3 {
        let error = store
            .settle([completion(&request)].into())
            .await
            .expect_err("no writes");
        assert_eq!(
            (error.code(), error.certainty()),
            (Code::StoreReadOnly, Certainty::NotApplied),
            "{error:?}"
        );
    }
    server.ask(&["REPLICAOF", "NO", "ONE"]);
    until("taken again", || async {
        store.settle([completion(&request)].into()).await.is_ok()
    })
    .await;
    drop(other);
}

#[tokio::test]
async fn replicas_are_warned_about() {
    let primary = Server::durable();
    let store = connect(&primary).await;
    let port = primary.port.to_string();
    let _replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    until("the replica is there", || async {
        primary
            .ask(&["INFO", "replication"])
            .concat()
            .contains("connected_slaves:1")
    })
    .await;
    let found = store.preflight().await.expect("settings");
    assert!(
        found.warnings.iter().any(|it| it.contains("failover")),
        "{found:?}"
    );
}
