//! Connections that break, at the moments where it matters.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_conformance::proxy::Proxy;
use semel_core::{Advice, Certainty, Code, Error, ErrorKind, Result, Settled, StateKind, Store};
use semel_store_mysql::MysqlStore;

use crate::lab::{Lab, complete, grant, id_of, in_lock_order, record, request};
use crate::proxy::address;

/// Returns a store whose connections go through a proxy. It has one, which is idle.
async fn behind(lab: &Lab) -> (MysqlStore, Proxy) {
    let url = lab.database.url();
    let proxy = Proxy::start(address(&url).parse().expect("an address"));
    let near = url.replacen(address(&url), &proxy.address().to_string(), 1);
    (lab.store_at(&near).await, proxy)
}

/// Returns the error of a call that is carried out, for which `done` waits, and whose answer is
/// lost.
async fn unanswered<T: Debug + Send>(
    proxy: &Proxy,
    call: impl Future<Output = Result<T>> + Send,
    done: impl Future<Output = ()> + Send,
) -> Error {
    proxy.hold_answers();
    let cut = async {
        done.await;
        proxy.cut_now();
    };
    let (answer, ()) = tokio::join!(call, cut);
    proxy.release();
    answer.expect_err("no answer")
}

/// Waits until the record of a key is in this state.
async fn until(store: &MysqlStore, key: &str, state: StateKind) {
    while record(store, key).await.map(|it| it.state.kind()) != Some(state) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns the error of a call that never reached the server.
async fn unheard<T: Debug + Send>(
    proxy: &Proxy,
    call: impl Future<Output = Result<T>> + Send,
) -> Error {
    proxy.hold();
    let cut = async {
        proxy.until(|seen| seen.held > 0).await;
        proxy.cut_now();
    };
    let (answer, ()) = tokio::join!(call, cut);
    proxy.release();
    answer.expect_err("no answer")
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_at_its_commit_is_maybe_applied_and_was() {
    let lab = Lab::new().await;
    let (store, proxy) = behind(&lab).await;
    let other = lab.store().await;
    let batch = [request("a", 1)];
    let claimed = until(&other, "a", StateKind::Claimed);
    let error = unanswered(&proxy, store.claim(batch.into()), claimed).await;
    assert_eq!(
        (error.code(), error.certainty(), error.advice()),
        (
            Code::StoreUnavailable,
            Certainty::MaybeApplied,
            Advice::LookUpFirst
        )
    );
    let claim = grant(&store, &request("a", 1)).await;
    assert!(claim.resumed, "asking again finds out what became of it");
}

#[tokio::test]
async fn a_claim_that_is_lost_on_its_way_is_maybe_applied_and_was_not() {
    let lab = Lab::new().await;
    let (store, proxy) = behind(&lab).await;
    let error = unheard(&proxy, store.claim([request("a", 1)].into())).await;
    assert_eq!(error.certainty(), Certainty::MaybeApplied);
    assert!(!grant(&store, &request("a", 1)).await.resumed);
}

#[tokio::test]
async fn a_completion_whose_answer_is_lost_is_answered_the_same_again() {
    let lab = Lab::new().await;
    let (store, proxy) = behind(&lab).await;
    let other = lab.store().await;
    let _ = grant(&store, &request("a", 1)).await;
    let batch = [complete("a", 1)];
    let completed = until(&other, "a", StateKind::Completed);
    let error = unanswered(&proxy, store.settle(batch.into()), completed).await;
    assert_eq!(error.certainty(), Certainty::MaybeApplied);
    let again = store
        .settle([complete("a", 1)].into())
        .await
        .expect("answers");
    assert!(
        matches!(again[..], [Settled::Now(StateKind::Completed)]),
        "{again:?}"
    );
}

#[tokio::test]
async fn a_transaction_that_breaks_before_its_commit_is_surely_not_applied() {
    let lab = Lab::new().await;
    let (store, proxy) = behind(&lab).await;
    let mut gated = request("a", 1);
    gated.gate = Some(semel_core::VersionGate {
        entity: semel_core::Key::parse("cart").expect("an entity"),
        version: 1,
    });
    let batch = [gated.clone()];
    // The script that locks and reads goes before the one that writes and commits, and is answered
    // first.
    let answered = async {
        proxy.until(|seen| seen.held > 0).await;
    };
    let error = unanswered(&proxy, store.claim(batch.into()), answered).await;
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreUnavailable, Certainty::NotApplied)
    );
    assert!(!grant(&store, &gated).await.resumed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_killed_in_the_middle_of_a_call_leaves_nothing_half_done() {
    let lab = Lab::new().await;
    let store = Arc::new(lab.store().await);
    let keys = in_lock_order(&["a", "b"]);
    let (new, held) = (keys[0], keys[1]);
    let _ = grant(&store, &request(held, 9)).await;
    let mut other = lab.database.connect().await;
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    let lock = format!(
        "SELECT 1 FROM semel_records WHERE id = {} FOR UPDATE",
        id_of(held)
    );
    other.query_drop(lock).await.expect("a lock");
    let (calling, batch) = (Arc::clone(&store), [request(new, 1), request(held, 1)]);
    let call = tokio::spawn(async move { calling.claim(batch.into()).await });
    let session = lab.waiting_session().await;
    other
        .query_drop(format!("KILL {session}"))
        .await
        .expect("a kill");
    let error = call.await.expect("a task").expect_err("no answer");
    assert!(
        matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout),
        "{error:?}"
    );
    other.query_drop("ROLLBACK").await.expect("the lock back");
    assert_eq!(
        record(&store, new).await,
        None,
        "the first row is undone with the second"
    );
    assert!(!grant(&store, &request(new, 1)).await.resumed);
}

#[tokio::test]
async fn silence_is_taken_for_no_answer() {
    let lab = Lab::new().await;
    let url = lab.database.url();
    let proxy = Proxy::start(address(&url).parse().expect("an address"));
    let near = url.replacen(address(&url), &proxy.address().to_string(), 1);
    let mut options = lab.options();
    options.answer = Duration::from_secs(2);
    let store = MysqlStore::connect(&near, options).await.expect("a store");
    proxy.hold();
    let error = store
        .claim([request("a", 1)].into())
        .await
        .expect_err("silence");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::Timeout, Certainty::MaybeApplied)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_call_goes_on() {
    let lab = Lab::new().await;
    let store = lab.store().await;
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
    let batch = [request("a", 1), request("b", 1)];
    let waiting = async { lab.waiting_session().await };
    tokio::select! {
        _ = store.claim(batch.into()) => panic!("the row is locked"),
        _ = waiting => {}
    }
    other.query_drop("ROLLBACK").await.expect("the lock back");
    let claimed = until(&store, "b", StateKind::Claimed);
    let claimed = tokio::time::timeout(Duration::from_secs(60), claimed).await;
    claimed.expect("the abandoned call was given up");
    // Asking again with the same claim id finds out whether it was applied.
    assert!(grant(&store, &request("b", 1)).await.resumed);
}

#[tokio::test]
async fn one_broken_connection_makes_the_idle_ones_be_made_anew() {
    let lab = Lab::new().await;
    let store = Arc::new(lab.store().await);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..4_u32 {
        let store = Arc::clone(&store);
        calls.spawn(async move { grant(&store, &request(&format!("k{number}"), 1)).await });
    }
    calls.join_all().await;
    // As a restart of the server does it: all of them at once.
    let mut other = lab.database.connect().await;
    let select = format!(
        "SELECT id FROM information_schema.processlist WHERE db = '{}' AND id <> CONNECTION_ID()",
        lab.database.name
    );
    let sessions: Vec<u64> = other.query(select).await.expect("sessions");
    for session in sessions {
        other
            .query_drop(format!("KILL {session}"))
            .await
            .expect("a kill");
    }
    let mut failed = 0;
    for number in 0..4_u32 {
        failed += usize::from(
            store
                .claim([request(&format!("k{number}"), 1)].into())
                .await
                .is_err(),
        );
    }
    assert!(failed <= 1, "{failed} calls met the same loss");
}
