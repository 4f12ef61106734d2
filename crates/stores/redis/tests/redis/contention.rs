//! Many workers at few keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::store::ListQuery;
use semel_core::{Admission, Note, Parked, Settled, StateKind, Store, Timestamp, VersionGate};
use semel_store_redis::RedisStore;

use crate::lab::{completion, connect, request};
use crate::server::Server;

/// Two hundred workers at ten keys: one effect each, and no race reaches a worker as an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_workers_at_ten_keys_have_one_effect_each() {
    assert_eq!(effects_of(200, false).await, 10);
}

/// The same where each key is one version of one entity.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_workers_at_ten_versions_apply_none_twice() {
    let effects = effects_of(50, true).await;
    assert!((1..=10).contains(&effects), "{effects}");
}

/// Of sixteen sessions that drop the same message at once, one has dropped it and one entry says
/// so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_sixteen_drop_at_once_is_dropped_once() {
    let server = Server::durable();
    let store = crate::lab::connect_to(&format!("{}?connections=16", server.url())).await;
    drops_at_once(&Arc::new(store), 20).await;
}

pub(crate) async fn drops_at_once(store: &Arc<RedisStore>, rounds: usize) {
    let note = Note {
        by: "on call".into(),
        reason: "handled".into(),
    };
    for round in 1..=rounds {
        let message = Parked {
            scope: request("x", 1).operation.scope,
            key: None,
            reason: "not-json".into(),
            detail: "".into(),
            transport: None,
            coordinates: format!("file:{round}").into(),
            headers: Vec::new(),
            payload: "{".into(),
            since: Timestamp::EPOCH,
        };
        let _ = store.park([message.clone()].into()).await.expect("parked");
        let mut drops = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (store, note, id) = (Arc::clone(store), note.clone(), message.id());
            drops.spawn(async move {
                store
                    .drop_parked([id].into(), Some(&note))
                    .await
                    .expect("dropped")[0]
            });
        }
        let dropped = drops
            .join_all()
            .await
            .into_iter()
            .filter(|was_there| *was_there)
            .count();
        let query = ListQuery {
            limit: 1_000,
            ..ListQuery::default()
        };
        let entries = store.list_audit(&query).await.expect("entries").items.len();
        assert_eq!((dropped, entries), (1, round));
    }
}

async fn effects_of(workers: u128, is_gated: bool) -> usize {
    let server = Server::durable();
    let store = Arc::new(connect(&server).await);
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..workers {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let mut open: Vec<u64> = (0..10).collect();
            // Each begins with another key.
            open.rotate_left(usize::try_from(worker % 10).expect("small"));
            let mut effects = Vec::new();
            while !open.is_empty() {
                let batch: Vec<_> = open
                    .iter()
                    .map(|key| {
                        let mut request = request(&format!("pay-{key}"), worker + 1);
                        request.gate = is_gated.then(|| VersionGate {
                            entity: request.operation.key.clone(),
                            version: *key + 1,
                        });
                        request
                    })
                    .collect();
                let answers = store
                    .claim(batch.clone().into())
                    .await
                    .expect("no error reaches anybody");
                let mut waits = Vec::new();
                for ((key, request), answer) in open.iter().zip(&batch).zip(answers) {
                    match answer {
                        Admission::Granted(_) => {
                            effects.push(*key);
                            let settled = store
                                .settle([completion(request)].into())
                                .await
                                .expect("settled");
                            assert!(
                                matches!(settled[..], [Settled::Now(StateKind::Completed)]),
                                "{settled:?}"
                            );
                        }
                        Admission::Busy { .. } => waits.push(*key),
                        Admission::Replay { .. } | Admission::Stale { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
                open = waits;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            effects
        });
    }
    let mut counts = HashMap::<u64, usize>::new();
    for key in tasks.join_all().await.into_iter().flatten() {
        *counts.entry(key).or_default() += 1;
    }
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    counts.len()
}
