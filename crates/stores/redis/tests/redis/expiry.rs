//! Windows on the server's own clock: records expire by themselves, and sweeps leave nothing behind.

use std::time::Duration;

use semel_core::{Admission, Settlement, Step, Store, Window};

use crate::index::check;
use crate::lab::{claim, complete, completion_for, connect, grant, record, request, until};
use crate::server::Server;

/// A store whose records have all passed their windows is as small as a new one.
#[tokio::test]
async fn a_sweep_leaves_nothing_of_what_has_expired() {
    let server = Server::durable();
    let store = connect(&server).await;
    // So long that nothing expires before all of it was looked at, also on a busy machine.
    let window = Window::new(Duration::from_secs(3));
    for round in 0..3 {
        let batch: Vec<_> = (0..100)
            .map(|number| request(&format!("{round}-{number}"), 1))
            .collect();
        let _ = store.claim(batch.clone().into()).await.expect("claims");
        let mut settlements: Vec<_> = batch
            .iter()
            .map(|request| completion_for(request, window))
            .collect();
        for settlement in settlements.iter_mut().step_by(10) {
            settlement.step = Step::Fail {
                decisive: false,
                error: "no".into(),
                window,
            };
        }
        let _ = store.settle(settlements.into()).await.expect("settled");
    }
    check(&server, &store).await;
    let stays = request("stays", 1);
    let _ = grant(&store, &stays).await;
    complete(&store, &stays).await;
    until("everything else has expired", || async {
        server.ask(&["KEYS", "semel:{0}:r*"]).len() == 1
    })
    .await;
    assert_eq!(
        store.stats().await.expect("counts").records,
        [0, 0, 0, 1, 0, 0]
    );
    // The journal goes by segments: this one is due again when its last record is.
    while store.sweep(50).await.expect("swept").more {}
    check(&server, &store).await;
    let last = server.ask_bytes(&[b"KEYS", b"semel:{0}:r*"]).remove(0);
    server.ask_bytes(&[b"DEL", &last]);
    let due = server.ask_bytes(&[b"ZRANGE", b"semel:{0}:d", b"0", b"-1"]);
    for member in &due {
        server.ask_bytes(&[b"ZADD", b"semel:{0}:d", b"1", member]);
    }
    while store.sweep(50).await.expect("swept").more {}
    let mut left = server.ask(&["KEYS", "*"]);
    left.sort();
    assert_eq!(
        left,
        ["semel:{0}:c", "semel:{0}:j", "semel:{0}:m", "semel:{0}:n"]
    );
    assert_eq!(server.ask(&["XLEN", "semel:{0}:j"]), [":0"]);
}

/// A held record does not expire; let go after its window, it is gone at once.
#[tokio::test]
async fn a_held_record_outlives_its_expiry() {
    use semel_core::decide::{Directive, Order};
    let server = Server::durable();
    let store = connect(&server).await;
    let window = Window::new(Duration::from_millis(300));
    let request = request("pay-1", 1);
    let _ = grant(&store, &request).await;
    let _ = store
        .settle([completion_for(&request, window)].into())
        .await
        .expect("settled");
    let hold = |held| Directive {
        operation: request.operation.clone(),
        order: Order::Hold(held),
        note: None,
    };
    let _ = store.operate([hold(true)].into()).await.expect("held");
    check(&server, &store).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let replay = claim(&store, &crate::lab::request("pay-1", 2)).await;
    assert!(matches!(replay, Admission::Replay { .. }), "{replay:?}");
    let _ = store.operate([hold(false)].into()).await.expect("let go");
    assert_eq!(record(&store, &request.operation).await, None);
    assert_eq!(
        grant(&store, &crate::lab::request("pay-1", 3))
            .await
            .attempt,
        1
    );
}

/// A release after a completion that never was finds nothing that expires.
#[tokio::test]
async fn an_unresolved_record_never_expires() {
    let server = Server::durable();
    let store = connect(&server).await;
    let request = request("pay-1", 1);
    let _ = grant(&store, &request).await;
    let release = Settlement {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        step: Step::Release {
            error: "later".into(),
            certainty: semel_core::Certainty::NotApplied,
            after: Duration::ZERO,
            counted: true,
            limits: semel_core::AttemptLimits::default(),
            window: Window::new(Duration::from_millis(1)),
        },
    };
    let _ = store.settle([release].into()).await.expect("released");
    check(&server, &store).await;
    let name = server.ask_bytes(&[b"KEYS", b"semel:{0}:r*"]).remove(0);
    assert_eq!(server.ask_bytes(&[b"PTTL", &name]), [b":-1"]);
}
