//! Connections that break, at the moments where it matters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_core::{Admission, Advice, Certainty, Code, ErrorKind, Settled, StateKind, Store};
use semel_store_mysql::MysqlStore;

use crate::lab::{Lab, claim, complete, grant, id_of, in_lock_order, record, request};
use crate::proxy::{Fate, Proxy, holds};

/// A proxy that does `fate` once, to the first packet that holds `text` after it was armed.
fn once(url: &str, text: &'static str, fate: Fate) -> (Proxy, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let trap = Arc::clone(&armed);
    let proxy = Proxy::before(url, move |packet| {
        let is_it = holds(packet, text) && trap.swap(false, Ordering::SeqCst);
        if is_it { fate } else { Fate::Pass }
    });
    (proxy, armed)
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_at_its_commit_is_maybe_applied_and_was() {
    let lab = Lab::new().await;
    let url = lab.database.url();
    let (proxy, armed) = once(&url, "INSERT INTO semel_records", Fate::CutAfter);
    let store = lab.store_at(&proxy.url(&url)).await;
    armed.store(true, Ordering::SeqCst);
    let error = store
        .claim(&[request("a", 1)])
        .await
        .expect_err("no answer");
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
    let url = lab.database.url();
    let (proxy, armed) = once(&url, "INSERT INTO semel_records", Fate::CutBefore);
    let store = lab.store_at(&proxy.url(&url)).await;
    armed.store(true, Ordering::SeqCst);
    let error = store
        .claim(&[request("a", 1)])
        .await
        .expect_err("no answer");
    assert_eq!(error.certainty(), Certainty::MaybeApplied);
    assert!(!grant(&store, &request("a", 1)).await.resumed);
}

#[tokio::test]
async fn a_completion_whose_answer_is_lost_is_answered_the_same_again() {
    let lab = Lab::new().await;
    let url = lab.database.url();
    let (proxy, armed) = once(&url, "UPDATE semel_records", Fate::CutAfter);
    let store = lab.store_at(&proxy.url(&url)).await;
    let _ = grant(&store, &request("a", 1)).await;
    armed.store(true, Ordering::SeqCst);
    let error = store
        .settle(&[complete("a", 1)])
        .await
        .expect_err("no answer");
    assert_eq!(error.certainty(), Certainty::MaybeApplied);
    let kind = record(&store, "a").await.map(|record| record.state.kind());
    assert_eq!(kind, Some(StateKind::Completed), "it was applied");
    let again = store.settle(&[complete("a", 1)]).await.expect("answers");
    assert!(
        matches!(again[..], [Settled::Now(StateKind::Completed)]),
        "{again:?}"
    );
}

#[tokio::test]
async fn a_transaction_that_breaks_before_its_commit_is_surely_not_applied() {
    let lab = Lab::new().await;
    let url = lab.database.url();
    // What locks and reads goes before what writes and commits.
    let (proxy, armed) = once(&url, "FOR UPDATE", Fate::CutAfter);
    let store = lab.store_at(&proxy.url(&url)).await;
    let mut gated = request("a", 1);
    gated.gate = Some(semel_core::VersionGate {
        entity: semel_core::Key::parse("cart").expect("an entity"),
        version: 1,
    });
    armed.store(true, Ordering::SeqCst);
    let error = store.claim(&[gated.clone()]).await.expect_err("no answer");
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
    let call = tokio::spawn(async move { calling.claim(&batch).await });
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
    let (free, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let proxy = Proxy::before(&url, move |packet| {
        if holds(packet, "INSERT INTO semel_records (id, revision") {
            // Until the test is over.
            let _ = held.lock().expect("a test").recv();
        }
        Fate::Pass
    });
    let mut options = lab.options();
    options.answer = Duration::from_millis(300);
    let store = MysqlStore::connect(&proxy.url(&url), options)
        .await
        .expect("a store");
    let error = store.claim(&[request("a", 1)]).await.expect_err("silence");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::Timeout, Certainty::MaybeApplied)
    );
    drop(free);
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
        _ = store.claim(&batch) => panic!("the row is locked"),
        _ = waiting => {}
    }
    other.query_drop("ROLLBACK").await.expect("the lock back");
    // Asking again with the same claim id finds out what became of it.
    loop {
        match claim(&store, &request("b", 1)).await {
            Admission::Granted(claim) if claim.resumed => break,
            Admission::Granted(claim) => panic!("the abandoned call was given up: {claim:?}"),
            other => panic!("neither: {other:?}"),
        }
    }
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
                .claim(&[request(&format!("k{number}"), 1)])
                .await
                .is_err(),
        );
    }
    assert!(failed <= 1, "{failed} calls met the same loss");
}
