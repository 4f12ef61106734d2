//! Servers that forget the scripts.

use semel_core::{Admission, Store};

use crate::lab::{claim, complete, connect, grant, request, rest};
use crate::server::Server;

#[tokio::test]
async fn a_flushed_script_is_sent_again() {
    let server = Server::durable();
    let store = connect(&server).await;
    for claimant in 1..4 {
        let _ = grant(&store, &request(&format!("pay-{claimant}"), claimant)).await;
        server.ask(&["SCRIPT", "FLUSH"]);
    }
    complete(&store, &request("pay-1", 1)).await;
    server.ask(&["SCRIPT", "FLUSH"]);
    let replay = claim(&store, &request("pay-1", 9)).await;
    assert!(matches!(replay, Admission::Replay { .. }), "{replay:?}");
}

#[tokio::test]
async fn a_restarted_server_is_sent_its_scripts_again() {
    let mut server = Server::durable();
    let store = connect(&server).await;
    let request = request("pay-1", 1);
    let _ = grant(&store, &request).await;
    server.kill();
    server.restart();
    rest().await;
    // The connection broke while nobody used it: nothing was sent, so nothing is in doubt.
    complete(&store, &request).await;
    assert_eq!(
        store.stats().await.expect("counts").records,
        [0, 0, 0, 1, 0, 0]
    );
}
