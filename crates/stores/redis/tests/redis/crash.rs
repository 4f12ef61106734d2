//! Servers that are killed, with and without a log that can be relied on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use semel_core::{Admission, ClaimRequest, FencingToken, Settled, StateKind, Store};
use semel_store_redis::RedisStore;

use crate::lab::{completion, connect, grant, request, until};
use crate::server::Server;

/// Calls answered before the kill are there after it, and tokens rise over it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_kill_where_the_log_is_synced() {
    let (lost, answered) =
        killed_over_and_over(&["--appendonly", "yes", "--appendfsync", "always"]).await;
    assert_eq!(lost, 0, "of {answered} answers");
    assert!(answered > 100, "{answered} answers prove little");
}

/// The control: without a log the same test loses answers, or it would test nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_log_a_kill_loses_answers() {
    let (lost, answered) = killed_over_and_over(&["--appendonly", "no"]).await;
    assert!(lost > 0, "of {answered} answers");
}

/// Works in four tasks while the server is killed and started six times; returns the number of lost answers, and of
/// all.
async fn killed_over_and_over(arguments: &[&str]) -> (usize, usize) {
    let mut server = Server::start(arguments);
    let store = Arc::new(connect(&server).await);
    let is_over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..4 {
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        let answered = Arc::clone(&answered);
        workers.spawn(async move { work(&store, worker, &is_over, &answered).await });
    }
    for round in 1..=6 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        until("answers before the kill", || async {
            answered.load(Ordering::SeqCst) > 20 * round
        })
        .await;
        server.kill();
        server.restart();
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    is_over.store(true, Ordering::SeqCst);
    let done: Vec<ClaimRequest> = workers.join_all().await.into_iter().flatten().collect();
    let operations: Vec<_> = done
        .iter()
        .map(|request| request.operation.clone())
        .collect();
    let records = store.get(operations.into()).await.expect("records");
    let is_lost = |record: &&Option<semel_core::Record>| {
        record
            .as_ref()
            .is_none_or(|record| record.state.kind() != StateKind::Completed)
    };
    (records.iter().filter(is_lost).count(), done.len())
}

/// Claims and completes in batches; returns the requests that were answered as completed.
async fn work(
    store: &RedisStore,
    worker: u128,
    is_over: &AtomicBool,
    answered: &AtomicUsize,
) -> Vec<ClaimRequest> {
    let (mut done, mut last) = (Vec::new(), FencingToken::new(0));
    let mut round = 0_u32;
    while !is_over.load(Ordering::SeqCst) {
        round += 1;
        let requests: Vec<_> = (0..5)
            .map(|number| request(&format!("{worker}-{round}-{number}"), worker))
            .collect();
        let Ok(claims) = store.claim(requests.clone().into()).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        for claim in claims {
            let Admission::Granted(claim) = claim else {
                panic!("nobody else claims these: {claim:?}")
            };
            assert!(claim.token > last, "tokens rise over a kill");
            last = claim.token;
        }
        let completions: Vec<_> = requests.iter().map(completion).collect();
        let Ok(settled) = store.settle(completions.into()).await else {
            continue;
        };
        for (request, settled) in requests.into_iter().zip(settled) {
            if matches!(settled, Settled::Now(StateKind::Completed)) {
                done.push(request);
                answered.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    done
}

/// While a server is away, no call waits for it: calls report it as unavailable, and use it again when it is back.
#[tokio::test]
async fn a_server_that_comes_back_is_used_again() {
    let mut server = Server::durable();
    let store = connect(&server).await;
    let _ = grant(&store, &request("before", 1)).await;
    server.kill();
    let gone = store
        .claim([request("during", 1)].into())
        .await
        .expect_err("nobody is there");
    assert_eq!(gone.code(), semel_core::Code::StoreUnavailable);
    until("known not to be applied", || async {
        let gone = store
            .claim([request("during", 1)].into())
            .await
            .expect_err("nobody is there");
        gone.certainty() == semel_core::Certainty::NotApplied
    })
    .await;
    server.restart();
    let claim = grant(&store, &request("during", 1)).await;
    assert!(!claim.resumed);
}
